//! Client to backend.

use super::{Flow, Returns, Service, Tables, translate};
use crate::answer::{self, Answer};
use crate::ip::{self, Packet};
use crate::{Budget, DropReason, Fib, Frame, Verdict};
use balance::hash::row_of;
use wire::{Address, Family};

#[inline(always)]
pub(super) fn forward<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    service: &Service,
    tables: &mut T,
) -> Result<Verdict, DropReason> {
    if !packet.has_routable_source() || packet.source == service.frontend {
        return Err(DropReason::SourceInvalid);
    }
    let flow = Flow::parse(frame, packet, packet.source)?;
    let hash = flow.hash(service.key_mask);
    let index = tables.row(row_of(hash)).ok_or(DropReason::NoHealthyBackend)?;
    let backend = tables.backend(index).ok_or(DropReason::NoHealthyBackend)?;
    let fib = tables.fib(backend).ok_or(DropReason::NoRoute)?;
    if let Some(verdict) = refuse(frame, packet, backend.family(), fib, tables) {
        return Ok(verdict);
    }
    if backend.family() == packet.family {
        ip::readdress(frame, packet, backend).ok_or(DropReason::NoHeadroom)?;
        return Ok(Verdict::ToBackend(index));
    }
    let source = return_address(&flow, hash, service, tables)?;
    translate::envelope(frame, packet, source, backend, hash, tables)?;
    Ok(Verdict::ToBackend(index))
}

/// What the backend of the other family sees as the client.
#[inline(always)]
fn return_address<T: Tables>(
    flow: &Flow,
    hash: u64,
    service: &Service,
    tables: &mut T,
) -> Result<Address, DropReason> {
    match service.returns {
        Returns::Prefix(high) => Ok(Address::embed(high, flow.client.low4())),
        Returns::Pool => {
            let key = flow.key.ok_or(DropReason::KeyRequired)?;
            tables.claim(flow.client, key, hash).ok_or(DropReason::PoolExhausted)
        }
        Returns::None => Err(DropReason::NoRoute),
    }
}

/// The verdict on a packet that can go no further: its hops are used up, or it is too big for the
/// way ahead in the family `ahead`. The source is told, within the budget; but not that an IPv4
/// packet without DF is too big (RFC 792): towards IPv6 such a one is dropped and counted. What is
/// an IPv4 packet without DF ahead can go on: whoever sends it may fragment it.
#[inline(always)]
pub(super) fn refuse<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    ahead: Family,
    fib: Fib,
    tables: &mut T,
) -> Option<Verdict> {
    let (reason, answer, told) = if packet.ttl <= 1 {
        (DropReason::TtlExpired, Answer::TtlExpired, true)
    } else if length_ahead(packet, ahead) > fib.mtu && !is_fragmentable(packet, ahead) {
        let mtu = mtu_behind(packet, ahead, fib);
        (DropReason::TooBig, Answer::TooBig { mtu }, packet.dont_fragment)
    } else {
        return None;
    };
    if told
        && tables.admit(Budget::Answer)
        && answer::write(frame, packet, answer, tables).is_some()
    {
        return Some(Verdict::Answer(reason));
    }
    Some(Verdict::Drop(reason))
}

/// Octets of the packet once it is of the family ahead. In its own family it stays as it is,
/// options and extension headers included.
#[inline(always)]
fn length_ahead(packet: &Packet, ahead: Family) -> u32 {
    let length = if ahead == packet.family {
        packet.length
    } else {
        packet.length - packet.payload + translate::header_bytes(ahead)
    };
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Whether the packet will be an IPv4 packet without DF.
#[inline(always)]
fn is_fragmentable(packet: &Packet, ahead: Family) -> bool {
    match (packet.family, ahead) {
        (Family::V4, Family::V4) => !packet.dont_fragment,
        (Family::V6, Family::V4) => {
            length_ahead(packet, ahead) <= u32::from(translate::MAX_FRAGMENTABLE_BYTES)
        }
        (_, Family::V6) => false,
    }
}

/// The MTU of the way ahead as the packet's own family sees it: the headers differ by 20 octets
/// (RFC 7915 4.2, 5.2).
#[inline(always)]
fn mtu_behind(packet: &Packet, ahead: Family, fib: Fib) -> u32 {
    match (packet.family, ahead) {
        (Family::V4, Family::V6) => fib.mtu.saturating_sub(translate::GROWTH),
        (Family::V6, Family::V4) => fib.mtu.saturating_add(translate::GROWTH),
        _ => fib.mtu,
    }
}
