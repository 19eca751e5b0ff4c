//! ARP and neighbour discovery for addresses of ours, and echoes of virtual ones: nobody else
//! answers for them.
//!
//! The kernel does not have these addresses, so the packet core tells the subnet where they are
//! (RFC 826, RFC 4861 7.2.4). Questions about other addresses are the host's.

use super::Scratch;
use super::layout::Interface;
use super::parse::{Kind, Packet};
use super::tables::Tables;
use super::verdict::{DropReason, Verdict};
use crate::Frame;
use wire::checksum::{Sum, update};
use wire::{Address, Family, arp, ethernet, icmp, ipv4, ipv6, neighbour, protocol};

/// Octets of an advertisement with the Ethernet address.
const ADVERTISEMENT_BYTES: usize = neighbour::HEADER_BYTES + neighbour::OPTION_BYTES;
/// Octets before the IP header of a frame with one tag, and with two.
const TAGGED: usize = ethernet::HEADER_BYTES + ethernet::TAG_BYTES;
const TAGGED_TWICE: usize = TAGGED + ethernet::TAG_BYTES;
/// How the IPv6 header of an advertisement begins: 32 octets of ICMPv6, hop limit 255.
const ADVERTISEMENT_HEAD: [u8; 8] = [0x60, 0, 0, 0, 0, 32, protocol::ICMPV6, neighbour::HOP_LIMIT];
/// Where advertisements go that answer a question without a sender: all nodes (RFC 4291 2.7.1).
const ALL_NODES: Address = Address::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
/// The Ethernet address of all nodes (RFC 2464 7).
const ALL_NODES_MAC: ethernet::Mac = [0x33, 0x33, 0, 0, 0, 1];

#[inline(always)]
pub(super) fn answer<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Result<Verdict, DropReason> {
    let interface = tables.interface().ok_or(DropReason::Internal)?;
    let packet = &scratch.packet;
    let answered = match packet.kind {
        Kind::Solicitation => solicitation(frame, tables, packet, interface),
        Kind::EchoRequest => echo(frame, packet, interface),
        _ => {
            let answered = request(frame, tables, usize::from(packet.ip), interface);
            return Ok(answered.unwrap_or(Verdict::Pass));
        }
    };
    match answered {
        Some(verdict) => Ok(verdict),
        None if tables.owned(&packet.key.destination).is_some() => Err(DropReason::NoService),
        None => Ok(Verdict::Pass),
    }
}

/// An echo request for a virtual address becomes its reply (RFC 1122 3.2.2.6, RFC 4443 4.2).
#[inline(always)]
fn echo<F: Frame>(frame: &mut F, packet: &Packet, interface: &Interface) -> Option<Verdict> {
    const TTL: u8 = 64;
    let (ip, at) = (usize::from(packet.ip), usize::from(packet.transport));
    let (source, destination) = (&packet.key.destination, &packet.key.source);
    let (asked, replied) = match packet.family {
        Family::V4 => (icmp::v4::ECHO_REQUEST, icmp::v4::ECHO_REPLY),
        Family::V6 => (icmp::v6::ECHO_REQUEST, icmp::v6::ECHO_REPLY),
    };
    match packet.family {
        Family::V4 => {
            let checksum = u16::from_be_bytes(frame.read(ip + ipv4::field::CHECKSUM)?);
            let (old, new) = (Sum::new().octets(&[packet.ttl, 0]), Sum::new().octets(&[TTL, 0]));
            let checksum = update(checksum, old, new);
            frame.write(ip + ipv4::field::CHECKSUM, checksum.to_be_bytes())?;
            frame.write(ip + ipv4::field::TTL, [TTL])?;
            frame.write(ip + ipv4::field::SOURCE, source.low4())?;
            frame.write(ip + ipv4::field::DESTINATION, destination.low4())?;
        }
        Family::V6 => {
            frame.write(ip + ipv6::field::HOP_LIMIT, [TTL])?;
            frame.write(ip + ipv6::field::SOURCE, source.octets())?;
            frame.write(ip + ipv6::field::DESTINATION, destination.octets())?;
        }
    }
    let checksum = u16::from_be_bytes(frame.read(at + icmp::CHECKSUM)?);
    let (old, new) = (Sum::new().octets(&[asked, 0]), Sum::new().octets(&[replied, 0]));
    frame.write(at, [replied])?;
    frame.write(at + icmp::CHECKSUM, update(checksum, old, new).to_be_bytes())?;
    let asker: [u8; 6] = frame.read(ethernet::field::SOURCE)?;
    address(frame, asker, interface)?;
    Some(Verdict::Transmit)
}

/// An ARP request becomes its reply.
#[inline(always)]
fn request<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    at: usize,
    interface: &Interface,
) -> Option<Verdict> {
    if u64::from_ne_bytes(frame.read(at)?) != u64::from_ne_bytes(arp::REQUEST) {
        return None;
    }
    let target: [u8; 4] = frame.read(at + arp::field::TARGET)?;
    if !is_ours(tables, Address::v4(target)) {
        return None;
    }
    let asker_mac: [u8; 6] = frame.read(at + arp::field::SENDER_MAC)?;
    let asker: [u8; 4] = frame.read(at + arp::field::SENDER)?;
    frame.write(at, arp::REPLY)?;
    frame.write(at + arp::field::SENDER_MAC, interface.mac)?;
    frame.write(at + arp::field::SENDER, target)?;
    frame.write(at + arp::field::TARGET_MAC, asker_mac)?;
    frame.write(at + arp::field::TARGET, asker)?;
    address(frame, asker_mac, interface)?;
    Some(Verdict::Transmit)
}

/// A solicitation becomes its advertisement.
#[inline(always)]
fn solicitation<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    packet: &Packet,
    interface: &Interface,
) -> Option<Verdict> {
    let (ip, at) = (usize::from(packet.ip), usize::from(packet.transport));
    let [code] = frame.read(at + 1)?;
    let target = Address::v6(frame.read(at + neighbour::field::TARGET)?);
    let whole = usize::from(packet.length) >= ipv6::HEADER_BYTES + neighbour::HEADER_BYTES;
    let direct = packet.transport == packet.ip + 40;
    if packet.ttl != neighbour::HOP_LIMIT || code != 0 || !whole || !direct {
        return None;
    }
    if !is_ours(tables, target) {
        return None;
    }
    let asker_mac: [u8; 6] = frame.read(ethernet::field::SOURCE)?;
    // Room for the option that a question without a sender does not have.
    grow(frame, packet, at)?;
    let asker = packet.key.source;
    let (destination, mac, solicited) = if asker == Address::v6([0; 16]) {
        (ALL_NODES, ALL_NODES_MAC, 0)
    } else {
        (asker, asker_mac, neighbour::flag::SOLICITED)
    };
    frame.write(ip, ADVERTISEMENT_HEAD)?;
    frame.write(ip + ipv6::field::SOURCE, target.octets())?;
    frame.write(ip + ipv6::field::DESTINATION, destination.octets())?;
    let flags = solicited | neighbour::flag::OVERRIDE;
    frame.write(at, [neighbour::ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0])?;
    frame.write(at + neighbour::field::TARGET, target.octets())?;
    let [a, b, c, d, e, f] = interface.mac;
    let option = [neighbour::TARGET_LINK_LAYER, 1, a, b, c, d, e, f];
    frame.write(at + neighbour::HEADER_BYTES, option)?;
    frame.truncate(at + ADVERTISEMENT_BYTES)?;
    let sum = Sum::new()
        .octets(&[neighbour::ADVERTISEMENT, 0, 0, protocol::ICMPV6, flags, 0, 0, 32])
        .octets(&option)
        .octets(&target.octets())
        .octets(&target.octets())
        .octets(&destination.octets());
    frame.write(at + icmp::CHECKSUM, sum.checksum().to_be_bytes())?;
    address(frame, mac, interface)?;
    Some(Verdict::Transmit)
}

/// Makes room for an advertisement where the frame is too short for one: at the head, because
/// everything behind the EtherType is written anew.
#[inline(always)]
fn grow<F: Frame>(frame: &mut F, packet: &Packet, at: usize) -> Option<()> {
    if frame.len() >= at + ADVERTISEMENT_BYTES {
        return Some(());
    }
    let kind: [u8; 2] = frame.read(ethernet::field::KIND)?;
    match usize::from(packet.ip) {
        ethernet::HEADER_BYTES => {
            frame.push(neighbour::OPTION_BYTES)?;
            frame.write(ethernet::field::KIND, kind)
        }
        TAGGED => {
            let rest: [u8; 4] = frame.read(ethernet::HEADER_BYTES)?;
            frame.push(neighbour::OPTION_BYTES)?;
            frame.write(ethernet::field::KIND, kind)?;
            frame.write(ethernet::HEADER_BYTES, rest)
        }
        TAGGED_TWICE => {
            let rest: [u8; 8] = frame.read(ethernet::HEADER_BYTES)?;
            frame.push(neighbour::OPTION_BYTES)?;
            frame.write(ethernet::field::KIND, kind)?;
            frame.write(ethernet::HEADER_BYTES, rest)
        }
        _ => None,
    }
}

/// Addresses the frame back.
#[inline(always)]
fn address<F: Frame>(frame: &mut F, to: ethernet::Mac, interface: &Interface) -> Option<()> {
    frame.write(ethernet::field::DESTINATION, to)?;
    frame.write(ethernet::field::SOURCE, interface.mac)
}

/// Whether the address is ours now.
#[inline(always)]
fn is_ours<T: Tables>(tables: &T, address: Address) -> bool {
    let Some(owned) = tables.owned(&address) else { return false };
    owned.until_ns == u64::MAX || tables.boot_ns() < owned.until_ns
}
