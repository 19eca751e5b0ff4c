//! Offline: which backend a flow takes, and why.

use crate::args::Traced;
use crate::config::Config;
use crate::snapshot::rows;
use balance::hash::{HASH_VERSION, row_of};
use balance::logarithm::FRACTION_BITS;
use datapath::gre::Flow;
use std::fmt::Write as _;
use std::net::IpAddr;
use wire::Address;

/// Backends shown in full; the rest of a long ranking is counted.
const SHOWN: usize = 20;

/// A report for the user: the row, and every backend's score in it, best first.
///
/// # Errors
/// A message for the user if the flow or a backend taken as down cannot be.
pub fn report(config: &Config, traced: &Traced, down: &[IpAddr]) -> Result<String, String> {
    check(config, traced, down)?;
    let flow = Flow { client: Address::from(traced.source), key: traced.key };
    let row = row_of(flow.hash(config.key_mask));
    let key = match traced.key {
        None => "no key".to_owned(),
        Some(key) if config.key_mask == u32::MAX => format!("key {key}"),
        Some(key) => {
            let masked = key & config.key_mask;
            format!("key {key} ({masked:#010x} after key_mask {:#010x})", config.key_mask)
        }
    };
    let mut text = format!(
        "flow     {} {key} -> {}\nrow      {row} of 65536, hash version {HASH_VERSION}\n\n",
        traced.source, config.frontend
    );
    let chosen = rank(config, row, down, &mut text);
    text.push_str(match chosen {
        Some(backend) if backend.is_ipv4() && traced.source.is_ipv6() && traced.key.is_none() => {
            "\nBut without a key an IPv6 client's flow cannot go to an IPv4 backend: it is dropped \
             and counted as key_required.\n"
        }
        Some(_) => {
            "\nThe lowest score of the backends that are up wins (-log2 of the draw, over the \
             weight).\n"
        }
        None => "\nNo backend is up: the flow is dropped and counted as no_healthy_backend.\n",
    });
    Ok(text)
}

/// Refuses what no packet can be.
fn check(config: &Config, traced: &Traced, down: &[IpAddr]) -> Result<(), String> {
    if traced.source.is_ipv4() != config.frontend.is_ipv4() {
        return Err(format!(
            "{} cannot send to the frontend {}: it is of the other family",
            traced.source, config.frontend
        ));
    }
    let mapped = matches!(traced.source, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    if mapped || !Address::from(traced.source).is_routable() || traced.source == config.frontend {
        return Err(format!(
            "{} can be no client: its packets are dropped and counted as source_invalid",
            traced.source
        ));
    }
    let is_backend = |address| config.backends.iter().any(|backend| backend.address == address);
    match down.iter().find(|address| !is_backend(**address)) {
        Some(address) => Err(format!("--down {address}: not a backend of this configuration")),
        None => Ok(()),
    }
}

/// Writes the ranking of a row; the backend that takes its flows.
fn rank(config: &Config, row: u16, down: &[IpAddr], text: &mut String) -> Option<IpAddr> {
    let mut chosen = None;
    let ranking = rows(config).ranking(row);
    text.push_str("rank  score      weight  backend\n");
    for (rank, (index, draw)) in (1..).zip(&ranking) {
        let Some(backend) = config.backends.get(usize::from(*index)) else { continue };
        let is_down = down.contains(&backend.address);
        let is_chosen = !is_down && chosen.is_none();
        if is_chosen {
            chosen = Some(backend.address);
        }
        if rank > SHOWN && !is_chosen {
            continue;
        }
        let note = match (is_down, is_chosen) {
            (true, _) => "  down",
            (false, true) => "  <- takes the flow",
            (false, false) => "",
        };
        let (score, weight) = (score(draw.cost, draw.weight.get()), draw.weight.get());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{rank:>4}  {score:<9.6}  {weight:>6}  {}{note}", backend.address);
    }
    if let Some(hidden) = ranking.len().checked_sub(SHOWN).filter(|hidden| *hidden > 0) {
        let _ = writeln!(text, "      ... {hidden} more");
    }
    chosen
}

/// The draw's cost over the weight, for reading; the comparison itself is exact.
fn score(cost: u64, weight: u8) -> f64 {
    cost as f64 / (1u64 << FRACTION_BITS) as f64 / f64::from(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text = "frontend=192.0.2.1\nbackend=10.0.0.1\nbackend=10.0.0.2 weight=3\n\
                    backend=10.0.0.3\nkey_mask=0xffffff00\n";
        Config::parse("e", text).unwrap()
    }

    fn chosen(report: &str) -> &str {
        let line = report.lines().find(|line| line.contains("takes the flow")).unwrap();
        line.split_whitespace().nth(3).unwrap()
    }

    #[test]
    fn the_named_backend_is_the_one_that_the_rows_give() {
        let config = config();
        let mut rows = rows(&config);
        (0..3).for_each(|index| rows.add(index));
        for key in (0..50).map(|n| n * 256) {
            let traced = Traced { source: "198.51.100.7".parse().unwrap(), key: Some(key) };
            let flow = Flow { client: Address::from(traced.source), key: Some(key) };
            let row = row_of(flow.hash(config.key_mask));
            let winner = rows.winners()[usize::from(row)];
            let report = report(&config, &traced, &[]).unwrap();
            assert_eq!(chosen(&report), config.backends[usize::from(winner)].address.to_string());
        }
    }

    #[test]
    fn a_backend_that_is_down_hands_the_flow_to_the_next() {
        let config = config();
        let traced = Traced { source: "198.51.100.7".parse().unwrap(), key: None };
        let first = report(&config, &traced, &[]).unwrap();
        let gone: IpAddr = chosen(&first).parse().unwrap();
        let second = report(&config, &traced, &[gone]).unwrap();
        assert_ne!(chosen(&second), chosen(&first));
        let all: Vec<_> = config.backends.iter().map(|backend| backend.address).collect();
        assert!(report(&config, &traced, &all).unwrap().contains("No backend is up"));
    }

    #[test]
    fn a_flow_that_would_be_dropped_is_not_shown_as_forwarded() {
        let config = config();
        for source in ["192.0.2.1", "127.0.0.1", "169.254.1.1"] {
            let traced = Traced { source: source.parse().unwrap(), key: None };
            assert!(report(&config, &traced, &[]).unwrap_err().contains("source_invalid"));
        }
        let text = "frontend=2001:db8::1\nbackend=10.0.0.1\npool=192.0.2.0/28\n";
        let config = Config::parse("e", text).unwrap();
        let source = "2001:db8:c::7".parse().unwrap();
        let keyless = report(&config, &Traced { source, key: None }, &[]).unwrap();
        assert!(keyless.contains("key_required"), "{keyless}");
        let keyed = report(&config, &Traced { source, key: Some(1) }, &[]).unwrap();
        assert!(!keyed.contains("key_required"), "{keyed}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let config = config();
        let v6 = Traced { source: "2001:db8::1".parse().unwrap(), key: None };
        assert!(report(&config, &v6, &[]).unwrap_err().contains("other family"));
        let v4 = Traced { source: "198.51.100.7".parse().unwrap(), key: None };
        let stranger = ["10.0.0.9".parse().unwrap()];
        assert!(report(&config, &v4, &stranger).unwrap_err().contains("not a backend"));
    }
}
