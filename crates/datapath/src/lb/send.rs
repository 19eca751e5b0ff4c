//! The last step of every packet that goes on: hops left, size, the way, the Ethernet header.

use super::Refusal;
use super::layout::Hop;
use super::parse::Packet;
use super::tables::Tables;
use super::verdict::{DropReason, Verdict};
use crate::Frame;
use wire::Address;
use wire::ethernet;

/// The way that the packet takes: the one that is known, or a new one where routes, neighbours or
/// links have changed since.
///
/// While the next hop's Ethernet address is unknown the last way stays in use: either the kernel
/// finds the same neighbour again, or it finds another and the generation changes.
///
/// # Errors
/// There is none.
#[inline(always)]
pub(super) fn way(
    tables: &impl Tables,
    packet: &Packet,
    known: &mut Hop,
    source: &Address,
    destination: &Address,
) -> Result<(), DropReason> {
    let generation = tables.settings().ok_or(DropReason::Internal)?.generation;
    // Never 0, which is the generation of no way, and never that of the change before.
    #[expect(clippy::cast_possible_truncation, reason = "at most 65,535")]
    let generation = (generation % 0xffff + 1) as u16;
    if u16::from_ne_bytes(known.generation) == generation {
        return Ok(());
    }
    let (interface, vlan) = (known.interface(), known.vlan);
    match tables.route(packet, source, destination, known) {
        Ok(()) => {
            // The routing table tells of a tag only where the way ends at an interface for it:
            // else the tag is that of the frames that come from there.
            if known.vlan == [0; 2] {
                let same = known.interface() == interface;
                known.vlan = if same { vlan } else { Hop::SAME_VLAN };
            }
            known.generation = generation.to_ne_bytes();
            Ok(())
        }
        Err(DropReason::NoNeighbour) => {
            tables.want_neighbour(destination);
            if known.interface() == 0 { Err(DropReason::NoNeighbour) } else { Ok(()) }
        }
        Err(reason) => Err(reason),
    }
}

/// Why the packet can go no further, if it cannot: its hops are used up, or it is larger than the
/// way takes.
#[inline(always)]
pub(super) fn refuse(packet: &Packet, hop: &Hop) -> Option<Refusal> {
    if packet.ttl <= 1 {
        return Some(Refusal { reason: DropReason::TtlExpired, mtu: 0 });
    }
    if packet.length > hop.mtu() {
        return Some(Refusal { reason: DropReason::TooBig, mtu: hop.mtu() });
    }
    None
}

/// The same, for packets whose source is not told.
///
/// # Errors
/// Why it can go no further.
#[inline(always)]
pub(super) fn fits(packet: &Packet, hop: &Hop) -> Result<(), DropReason> {
    match refuse(packet, hop) {
        Some(refused) => Err(refused.reason),
        None => Ok(()),
    }
}

/// Writes the Ethernet header, and tells which way.
#[inline(always)]
pub(super) fn transmit(
    frame: &mut impl Frame,
    packet: &Packet,
    hop: &Hop,
    ingress: u32,
) -> Result<Verdict, DropReason> {
    let here = packet.vlan & ethernet::VLAN_ID;
    let vlan = match hop.vlan {
        Hop::SAME_VLAN if hop.interface() == ingress => here,
        Hop::SAME_VLAN => 0,
        vlan => u16::from_ne_bytes(vlan),
    };
    if vlan != here {
        retag(frame, packet, vlan)?;
    }
    frame.write(ethernet::field::DESTINATION, hop.addresses).ok_or(DropReason::Internal)?;
    if hop.interface() == ingress {
        Ok(Verdict::Transmit)
    } else {
        Ok(Verdict::Redirect(hop.interface()))
    }
}

/// Puts the frame into another VLAN, or into none: with one tag or none before and after.
#[inline(always)]
fn retag(frame: &mut impl Frame, packet: &Packet, vlan: u16) -> Result<(), DropReason> {
    const TAGGED: u16 = 18;
    let [k0, k1] = match packet.family {
        wire::Family::V4 => ethernet::kind::IPV4.to_be_bytes(),
        wire::Family::V6 => ethernet::kind::IPV6.to_be_bytes(),
    };
    let [t0, t1] = ethernet::kind::VLAN.to_be_bytes();
    let [c0, c1] = vlan.to_be_bytes();
    match (packet.ip, vlan) {
        (TAGGED, 0) => {
            frame.pull(ethernet::TAG_BYTES).ok_or(DropReason::NoHeadroom)?;
            frame.write(ethernet::field::KIND, [k0, k1])
        }
        (TAGGED, _) => frame.write(ethernet::field::KIND, [t0, t1, c0, c1, k0, k1]),
        (14, _) => {
            frame.push(ethernet::TAG_BYTES).ok_or(DropReason::NoHeadroom)?;
            frame.write(ethernet::field::KIND, [t0, t1, c0, c1, k0, k1])
        }
        _ => None,
    }
    .ok_or(DropReason::NoHeadroom)
}
