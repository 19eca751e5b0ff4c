//! Values that only this configuration has.

use super::{BackendConfig, KEYS};
use balance::rendezvous::Weight;
use config::value;
use std::net::IpAddr;
use wire::Address;

/// An address that packets can be sent to and come from.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    let address = value::address(text).map_err(|error| error.to_string())?;
    if let IpAddr::V6(v6) = address {
        if let Some(v4) = v6.to_ipv4_mapped() {
            return Err(format!("an IPv4 address in IPv6 notation: write {v4}"));
        }
        if v6.is_unicast_link_local() {
            return Err("a link-local address: it names no host beyond one link".into());
        }
    }
    if !Address::from(address).is_routable() {
        return Err("not the unicast address of a host on a network".into());
    }
    Ok(address)
}

/// `ADDRESS`, or `ADDRESS weight=N`.
pub(super) fn backend(text: &str) -> Result<BackendConfig, String> {
    let mut words = text.split_ascii_whitespace();
    let address = address(words.next().unwrap_or_default())?;
    let mut weight = None;
    for word in words {
        let number = word.strip_prefix("weight=").ok_or_else(|| {
            format!("\"{word}\" is not understood: after the address only weight=N may follow")
        })?;
        if weight.is_some() {
            return Err("more than one weight".into());
        }
        let parsed = value::unsigned(number, 1..=u8::MAX);
        weight = Weight::new(parsed.map_err(|error| format!("weight {error}"))?);
    }
    Ok(BackendConfig { address, weight: weight.unwrap_or(Weight::ONE) })
}

/// A count of results in a row.
pub(super) fn threshold(text: &str) -> Result<u32, value::Error> {
    value::unsigned(text, 1..=100)
}

/// The message about a key that does not exist, with the one that was probably meant.
pub(super) fn unknown_key(key: &str) -> String {
    let normal = key.to_ascii_lowercase().replace('-', "_");
    let near = KEYS.iter().find(|known| distance(known, &normal) <= 2);
    match near {
        Some(known) => format!("unknown key: did you mean {known}?"),
        None => format!("unknown key: the keys are {}", KEYS.join(", ")),
    }
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
