//! ICMP errors about packets that passed us, sent on to those whom they concern.
//!
//! ```text
//! to the frontend        quotes frontend -> client          for the backend that replied
//! to a return address    quotes return address -> backend   for the client that sent
//! ```
//! A backend of the frontend's family answers its client directly, with the frontend as source;
//! so a router on that way reports to the frontend. The quoted packet's destination is the client,
//! and its GRE header names the key: 28 quoted octets suffice unless a checksum precedes the key
//! (RFC 792 guarantees eight octets of payload). Then the message goes to every backend.
//! Backends of the other family get the message in theirs. A router on the way to such a backend
//! reports to the return address, and its message goes to the client in the client's family.

mod cross;
mod quote;

use super::{Flow, Returns, Service, Tables, reply};
use crate::ip::{self, Packet, Part};
use crate::{Budget, DropReason, Frame, Verdict};
use balance::hash::row_of;
use cross::{Ends, translate};
use quote::Quote;
use wire::checksum::{self, Sum};
use wire::{Address, Family, icmp, protocol};

/// Sends an ICMP error to the frontend on to the backend that it is for.
#[inline(always)]
pub(super) fn to_backend<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    service: &Service,
    tables: &mut T,
) -> Result<Verdict, DropReason> {
    let Some(quote) = read(frame, packet)? else { return Ok(Verdict::Pass) };
    let Some(key) = quote.key else {
        return match tables.admit(Budget::Everyone) {
            true => Ok(Verdict::Everyone),
            false => Err(DropReason::ErrorRateLimited),
        };
    };
    let flow = Flow { client: quote.destination, key };
    let row = row_of(flow.hash(service.key_mask));
    let index = tables.row(row).ok_or(DropReason::NoHealthyBackend)?;
    send_to(frame, packet, &quote, index, service, tables)
}

/// Sends an ICMP error to a return address on to the client for which the address stands.
#[inline(always)]
pub(super) fn to_client<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    service: &Service,
    tables: &mut T,
) -> Result<Verdict, DropReason> {
    let Some(quote) = read(frame, packet)? else { return Ok(Verdict::Pass) };
    let index = tables.backend_of(quote.destination).ok_or(DropReason::BackendUnknown)?;
    let key = match service.returns {
        Returns::Pool => quote.key.ok_or(DropReason::ErrorTruncated)?,
        Returns::Prefix(_) | Returns::None => None,
    };
    let returned = Flow { client: quote.source, key };
    let client = reply::client(&returned, service, tables).ok_or(DropReason::ClientUnknown)?;
    let frontend = service.frontend;
    let ends = Ends { reporter: frontend, sender: client, receiver: frontend };
    translate(frame, packet, &quote, &ends, tables)?;
    Ok(Verdict::ToClient(index))
}

/// Makes a frame for which the verdict was [`Verdict::Everyone`] ready for one backend.
pub fn error_to<F: Frame, T: Tables>(frame: &mut F, index: u16, tables: &mut T) -> Verdict {
    let decide = |frame: &mut F, tables: &mut T| {
        let packet = Packet::parse(frame)?;
        let service = tables.service();
        if packet.destination != service.frontend {
            return Ok(Verdict::Pass);
        }
        match read(frame, &packet)? {
            Some(quote) => send_to(frame, &packet, &quote, index, &service, tables),
            None => Ok(Verdict::Pass),
        }
    };
    decide(frame, tables).unwrap_or_else(Verdict::Drop)
}

/// Reads a packet as an ICMP error about a packet that had its destination as source. `Ok(None)`
/// if it is something else, which the host may know: every ICMP error fits in one packet, so no
/// fragment is one.
#[inline(always)]
fn read<F: Frame>(frame: &mut F, packet: &Packet) -> Result<Option<Quote>, DropReason> {
    if packet.part != Part::Whole || packet.payload == packet.length {
        return Ok(None);
    }
    let [kind] = frame.read(packet.payload).ok_or(DropReason::ErrorTruncated)?;
    if !is_error(packet, kind) {
        return Ok(None);
    }
    frame.truncate(packet.length).ok_or(DropReason::OuterTruncated)?;
    let Some(quote) = Quote::read(frame, packet)? else { return Ok(None) };
    if quote.source != packet.destination {
        return Ok(None);
    }
    if !packet.has_routable_source() {
        return Err(DropReason::SourceInvalid);
    }
    if packet.ttl <= 1 {
        // No error is ever answered with an error (RFC 1812 4.3.2.7, RFC 4443 2.4 e.1).
        return Err(DropReason::TtlExpired);
    }
    Ok(Some(quote))
}

#[inline(always)]
fn is_error(packet: &Packet, kind: u8) -> bool {
    match (packet.family, packet.protocol) {
        (Family::V4, protocol::ICMP) => matches!(
            kind,
            icmp::v4::UNREACHABLE | icmp::v4::TIME_EXCEEDED | icmp::v4::PARAMETER_PROBLEM
        ),
        (Family::V6, protocol::ICMPV6) => matches!(
            kind,
            icmp::v6::UNREACHABLE
                | icmp::v6::PACKET_TOO_BIG
                | icmp::v6::TIME_EXCEEDED
                | icmp::v6::PARAMETER_PROBLEM
        ),
        _ => false,
    }
}

#[inline(always)]
fn send_to<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    index: u16,
    service: &Service,
    tables: &mut T,
) -> Result<Verdict, DropReason> {
    let backend = tables.backend(index).ok_or(DropReason::NoHealthyBackend)?;
    if packet.family == backend.family() {
        let source = tables.fib(backend).ok_or(DropReason::NoRoute)?.source;
        same_family(frame, packet, source, backend).ok_or(DropReason::ErrorTruncated)?;
    } else {
        let (reporter, receiver) = returns_of(packet, quote, service, tables)?;
        let ends = Ends { reporter, sender: backend, receiver };
        translate(frame, packet, quote, &ends, tables)?;
    }
    Ok(Verdict::ToBackend(index))
}

/// The reporter and the client as a backend of the other family knows them. An IPv4 reporter is
/// embedded in the /96 like a client; an IPv6 one cannot be, and the client's pool address stands
/// for it.
#[inline(always)]
fn returns_of<T: Tables>(
    packet: &Packet,
    quote: &Quote,
    service: &Service,
    tables: &mut T,
) -> Result<(Address, Address), DropReason> {
    match service.returns {
        Returns::None => Err(DropReason::NoRoute),
        Returns::Prefix(high) => Ok((
            Address::embed(high, packet.source.low4()),
            Address::embed(high, quote.destination.low4()),
        )),
        Returns::Pool => {
            let key = quote.key.ok_or(DropReason::ErrorTruncated)?;
            let key = key.ok_or(DropReason::KeyRequired)?;
            let pool = tables.pool_address(quote.destination, key);
            let pool = pool.ok_or(DropReason::ClientUnknown)?;
            Ok((pool, pool))
        }
    }
}

/// Readdresses the message, with the distributor as its source: the reporter may well be a router
/// between here and the backend, and a router drops what comes from its own address (RFC 1812
/// 5.3.8). ICMPv6's checksum covers the addresses, ICMP's does not.
#[inline(always)]
fn same_family<F: Frame>(
    frame: &mut F,
    packet: &Packet,
    source: Address,
    backend: Address,
) -> Option<()> {
    if packet.family == Family::V6 {
        let at = packet.payload + icmp::CHECKSUM;
        let sum =
            |from: Address, to: Address| Sum::new().octets(&from.octets()).octets(&to.octets());
        let (old, new) = (sum(packet.source, packet.destination), sum(source, backend));
        let updated = checksum::update(u16::from_be_bytes(frame.read(at)?), old, new);
        frame.write(at, updated.to_be_bytes())?;
    }
    ip::set_source(frame, packet, source)?;
    ip::readdress(frame, packet, backend)
}
