//! ICMP errors to the frontend: each belongs to the backend whose reply it quotes.
//!
//! A backend of the frontend's family answers its client directly, with the frontend as source;
//! so a router on that way reports to the frontend. The quoted packet's destination is the client,
//! and its GRE header names the key: 28 quoted octets suffice unless a checksum precedes the key
//! (RFC 792 guarantees eight octets of payload). Then the message goes to every backend.
//! Backends of the other family get the message in theirs.

mod cross;
mod quote;

use super::{Flow, Service, Tables};
use crate::ip::{self, Packet, Part};
use crate::{Budget, DropReason, Frame, Verdict};
use balance::hash::row_of;
use quote::Quote;
use wire::checksum::{self, Sum};
use wire::{Address, Family, icmp, protocol};

/// Sends an ICMP error on to the backend that it is for.
#[inline(always)]
pub(super) fn relay<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    service: &Service,
    tables: &mut T,
) -> Result<Verdict, DropReason> {
    let Some(quote) = read(frame, packet, service)? else { return Ok(Verdict::Pass) };
    let Some(key) = quote.key else {
        return match tables.admit(Budget::Everyone) {
            true => Ok(Verdict::Everyone),
            false => Err(DropReason::ErrorRateLimited),
        };
    };
    let flow = Flow { client: quote.client, key };
    let row = row_of(flow.hash(service.key_mask));
    let index = tables.row(row).ok_or(DropReason::NoHealthyBackend)?;
    send_to(frame, packet, &quote, index, service, tables)
}

/// Makes a frame for which the verdict was [`Verdict::Everyone`] ready for one backend.
pub fn error_to<F: Frame, T: Tables>(frame: &mut F, index: u16, tables: &mut T) -> Verdict {
    let decide = |frame: &mut F, tables: &mut T| {
        let packet = Packet::parse(frame)?;
        let service = tables.service();
        if packet.destination != service.frontend {
            return Ok(Verdict::Pass);
        }
        match read(frame, &packet, &service)? {
            Some(quote) => send_to(frame, &packet, &quote, index, &service, tables),
            None => Ok(Verdict::Pass),
        }
    };
    decide(frame, tables).unwrap_or_else(Verdict::Drop)
}

/// Reads a packet as an ICMP error about a reply of ours. `Ok(None)` if it is something else,
/// which the host may know: every ICMP error fits in one packet, so no fragment is one.
#[inline(always)]
fn read<F: Frame>(
    frame: &mut F,
    packet: &Packet,
    service: &Service,
) -> Result<Option<Quote>, DropReason> {
    if packet.part != Part::Whole || packet.payload == packet.length {
        return Ok(None);
    }
    let [kind] = frame.read(packet.payload).ok_or(DropReason::ErrorTruncated)?;
    if !is_error(packet, kind) {
        return Ok(None);
    }
    frame.truncate(packet.length).ok_or(DropReason::OuterTruncated)?;
    let Some(quote) = Quote::read(frame, packet, service)? else { return Ok(None) };
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
    match (packet.family, backend.family()) {
        (Family::V4, Family::V6) => cross::to_v6(frame, packet, quote, backend, service)?,
        (Family::V6, Family::V4) => cross::to_v4(frame, packet, quote, backend, tables)?,
        _ => same_family(frame, packet, backend).ok_or(DropReason::ErrorTruncated)?,
    }
    Ok(Verdict::ToBackend(index))
}

/// Readdresses the message. ICMPv6's checksum covers the destination, ICMP's does not.
#[inline(always)]
fn same_family<F: Frame>(frame: &mut F, packet: &Packet, backend: Address) -> Option<()> {
    if packet.family == Family::V6 {
        let at = packet.payload + icmp::CHECKSUM;
        let old = Sum::new().octets(&packet.destination.octets());
        let new = Sum::new().octets(&backend.octets());
        let updated = checksum::update(u16::from_be_bytes(frame.read(at)?), old, new);
        frame.write(at, updated.to_be_bytes())?;
    }
    ip::readdress(frame, packet, backend)
}
