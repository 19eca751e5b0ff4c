//! Telling the source why its packet goes no further: ICMP errors and TCP resets of our own.
//!
//! An error quotes as much as the RFCs ask for: 576 octets in all for IPv4 (RFC 1812 4.3.2.3), the
//! minimum MTU for IPv6 (RFC 4443 2.4 c). Its sender is the virtual address that the packet was
//! sent to, else the interface's own. No error answers an error (RFC 1122 3.2.2), and all of them
//! share a budget (RFC 1812 4.3.2.8, RFC 4443 2.4 f). The answer leaves by the way that the packet
//! came.

use super::layout::Interface;
use super::parse::{Kind, Packet};
use super::tables::Tables;
use super::verdict::{DropReason, Verdict};
use super::{Refusal, Scratch};
use crate::Frame;
use wire::checksum::Sum;
use wire::tcp::{self, flag};
use wire::{Address, Family, ethernet, icmp, ipv4, ipv6, protocol};

/// TTL of packets that start here (RFC 1700 "IP time to live parameter").
const TTL: u8 = 64;
/// Precedence "internetwork control" of ICMP errors (RFC 1812 4.3.2.5).
const TOS: u8 = 0xc0;
/// The largest ICMP error towards an IPv4 source.
const MAX_V4_BYTES: usize = 576;
/// The most that is summed up: an ICMPv6 error behind its IPv6 header.
const MAX_SUMMED: usize = ipv6::MIN_MTU as usize - ipv6::HEADER_BYTES;
/// Headers before the quote.
const OVERHEAD_V4: usize = ipv4::HEADER_BYTES + icmp::HEADER_BYTES;
/// Headers before the quote.
const OVERHEAD_V6: usize = ipv6::HEADER_BYTES + icmp::HEADER_BYTES;

#[inline(always)]
pub(super) fn refuse<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Result<Verdict, DropReason> {
    let Refusal { reason, mtu } = scratch.refusal;
    let packet = &scratch.packet;
    // Whoever may fragment a packet is not told that it is too big (RFC 792).
    let untold = reason == DropReason::TooBig && !packet.dont_fragment;
    // Nor about redirects and their like (RFC 1122 3.2.2, RFC 4443 2.4 e).
    let errors = matches!(packet.kind, Kind::Error | Kind::Control);
    if untold || errors || !packet.key.source.is_routable() {
        return Err(reason);
    }
    if !tables.admit() {
        return Err(reason);
    }
    let interface = tables.interface().ok_or(reason)?;
    let told = match reason {
        DropReason::NoService | DropReason::SessionReset if packet.kind == Kind::Tcp => {
            reset(frame, packet)
        }
        _ => match message(packet.family, reason, mtu) {
            Some(message) => {
                let sender = sender(tables, packet, interface).ok_or(reason)?;
                error(frame, packet, message, sender)
            }
            None => None,
        },
    };
    told.map(|()| Verdict::Answer(reason)).ok_or(reason)
}

/// Type, code and the type's own word; `None` where the source is not told.
#[inline(always)]
fn message(family: Family, reason: DropReason, mtu: u16) -> Option<[u8; 8]> {
    let [m0, m1] = mtu.to_be_bytes();
    let (kind, code) = match (family, reason) {
        (Family::V4, DropReason::TtlExpired) => (icmp::v4::TIME_EXCEEDED, 0),
        (Family::V4, DropReason::TooBig) => {
            (icmp::v4::UNREACHABLE, icmp::v4::unreachable::FRAGMENTATION_NEEDED)
        }
        (Family::V4, DropReason::NoService) => (icmp::v4::UNREACHABLE, icmp::v4::unreachable::PORT),
        (Family::V6, DropReason::TtlExpired) => (icmp::v6::TIME_EXCEEDED, 0),
        (Family::V6, DropReason::TooBig) => (icmp::v6::PACKET_TOO_BIG, 0),
        (Family::V6, DropReason::NoService) => (icmp::v6::UNREACHABLE, icmp::v6::unreachable::PORT),
        _ => return None,
    };
    Some([kind, code, 0, 0, 0, 0, m0, m1])
}

/// Who tells: the virtual address that the packet was sent to, which its source knows, else the
/// interface that it came in by.
#[inline(always)]
fn sender<T: Tables>(tables: &T, packet: &Packet, interface: &Interface) -> Option<Address> {
    if tables.owned(&packet.key.destination).is_some() {
        return Some(packet.key.destination);
    }
    let own = match packet.family {
        Family::V4 => interface.v4,
        Family::V6 => interface.v6,
    };
    own.is_unicast().then_some(own)
}

/// The Ethernet header of the answer: the packet's, turned round, before `growth` more octets. The
/// packet is cut to `quote` octets.
#[inline(always)]
fn turn(frame: &mut impl Frame, packet: &Packet, quote: usize, growth: usize) -> Option<()> {
    const TAGGED: usize = ethernet::HEADER_BYTES + ethernet::TAG_BYTES;
    let ip = usize::from(packet.ip);
    let [a, b, c, d, e, f, g, h, i, j, k, l] = frame.read(0)?;
    let kind: [u8; 2] = frame.read(ethernet::field::KIND)?;
    let tag: [u8; 4] = if ip == TAGGED { frame.read(ethernet::HEADER_BYTES)? } else { [0; 4] };
    if ip > TAGGED {
        return None;
    }
    frame.truncate(ip + quote)?;
    frame.push(growth)?;
    frame.write(0, [g, h, i, j, k, l, a, b, c, d, e, f])?;
    frame.write(ethernet::field::KIND, kind)?;
    if ip == TAGGED {
        frame.write(ethernet::HEADER_BYTES, tag)?;
    }
    Some(())
}

/// The packet becomes the quote of an error. The quote ends with a whole word of four octets, as
/// headers do: that is less to sum up.
#[inline(always)]
fn error(frame: &mut impl Frame, packet: &Packet, message: [u8; 8], sender: Address) -> Option<()> {
    let (overhead, limit) = match packet.family {
        Family::V4 => (OVERHEAD_V4, MAX_V4_BYTES),
        Family::V6 => (OVERHEAD_V6, ipv6::MIN_MTU as usize),
    };
    let quote = usize::from(packet.length).min(limit - overhead) & !3;
    turn(frame, packet, quote, overhead)?;
    let ip = usize::from(packet.ip);
    let (at, pseudo) = match packet.family {
        Family::V4 => header_v4(frame, packet, ip, overhead + quote, sender)?,
        Family::V6 => header_v6(frame, packet, ip, quote, sender)?,
    };
    frame.write(at, message)?;
    let checksum = sum(frame, at, quote + icmp::HEADER_BYTES)?.plus(pseudo).checksum();
    frame.write(at + icmp::CHECKSUM, checksum.to_be_bytes())
}

/// Writes an IPv4 header; where the message starts, and the sum of its pseudo header: none.
#[inline(always)]
fn header_v4(
    frame: &mut impl Frame,
    packet: &Packet,
    ip: usize,
    length: usize,
    sender: Address,
) -> Option<(usize, Sum)> {
    #[expect(clippy::cast_possible_truncation, reason = "576 octets at most")]
    let [l0, l1] = (length as u16).to_be_bytes();
    // Unfragmented on any way, so that it needs no identification (RFC 6864 4.1).
    let start = [0x45, TOS, l0, l1, 0, 0, 0x40, 0];
    let (source, destination) = (sender.low4(), packet.key.source.low4());
    let sum = Sum::new().octets(&start).octets(&[TTL, protocol::ICMP]);
    let [c0, c1] = sum.octets(&source).octets(&destination).checksum().to_be_bytes();
    frame.write(ip, start)?;
    frame.write(ip + ipv4::field::TTL, [TTL, protocol::ICMP, c0, c1])?;
    frame.write(ip + ipv4::field::SOURCE, source)?;
    frame.write(ip + ipv4::field::DESTINATION, destination)?;
    Some((ip + ipv4::HEADER_BYTES, Sum::new()))
}

/// Writes an IPv6 header; where the message starts, and the sum of its pseudo header.
#[inline(always)]
fn header_v6(
    frame: &mut impl Frame,
    packet: &Packet,
    ip: usize,
    quote: usize,
    sender: Address,
) -> Option<(usize, Sum)> {
    #[expect(clippy::cast_possible_truncation, reason = "1,280 octets at most")]
    let [l0, l1] = ((quote + icmp::HEADER_BYTES) as u16).to_be_bytes();
    let (source, destination) = (sender.octets(), packet.key.source.octets());
    frame.write(ip, [0x60 | TOS >> 4, TOS << 4, 0, 0, l0, l1, protocol::ICMPV6, TTL])?;
    frame.write(ip + ipv6::field::SOURCE, source)?;
    frame.write(ip + ipv6::field::DESTINATION, destination)?;
    let pseudo = Sum::new().octets(&source).octets(&destination);
    Some((ip + ipv6::HEADER_BYTES, pseudo.octets(&[l0, l1, 0, protocol::ICMPV6])))
}

/// The sum of `length` octets, a multiple of four, of which there are [`MAX_SUMMED`] at most.
#[inline(always)]
fn sum(frame: &impl Frame, mut at: usize, length: usize) -> Option<Sum> {
    let (mut sum, mut left) = (Sum::new(), length);
    if left & 4 != 0 {
        sum = sum.octets(&frame.read::<4>(at)?);
        (at, left) = (at + 4, left - 4);
    }
    for _ in 0..MAX_SUMMED / 8 {
        if left < 8 {
            break;
        }
        sum = sum.octets(&frame.read::<8>(at)?);
        (at, left) = (frame.unknown(at + 8), frame.unknown(left - 8));
    }
    Some(sum)
}

/// The segment becomes the reset that answers it (RFC 9293 3.10.7.1).
#[inline(always)]
fn reset(frame: &mut impl Frame, packet: &Packet) -> Option<()> {
    if packet.flags & flag::RST != 0 {
        return None;
    }
    let (ip, at) = (usize::from(packet.ip), usize::from(packet.transport));
    let key = &packet.key;
    let [offset] = frame.read(at + tcp::field::DATA_OFFSET)?;
    let sequence = u32::from_be_bytes(frame.read(at + tcp::field::SEQUENCE)?);
    let acknowledged: [u8; 4] = frame.read(at + tcp::field::ACKNOWLEDGEMENT)?;
    let header = u32::from(packet.transport - packet.ip) + u32::from(offset >> 4) * 4;
    let data = u32::from(packet.length).checked_sub(header)?;
    let marks = u32::from(packet.flags & flag::SYN != 0) + u32::from(packet.flags & flag::FIN != 0);
    let (sequence, acknowledgement, flags) = if packet.flags & flag::ACK == 0 {
        let next = sequence.wrapping_add(data).wrapping_add(marks);
        ([0; 4], next.to_be_bytes(), flag::RST | flag::ACK)
    } else {
        (acknowledged, [0; 4], flag::RST)
    };
    let headers = packet.transport - packet.ip + 20;
    turn(frame, packet, usize::from(headers), 0)?;
    let ([s0, s1], [d0, d1]) = (key.destination_port, key.source_port);
    frame.write(at, [s0, s1, d0, d1])?;
    frame.write(at + tcp::field::SEQUENCE, sequence)?;
    frame.write(at + tcp::field::ACKNOWLEDGEMENT, acknowledgement)?;
    let pseudo = address(frame, packet, ip, headers)?;
    let header = Sum::new().octets(&[s0, s1, d0, d1]).octets(&sequence).octets(&acknowledgement);
    let [c0, c1] = header.octets(&[0x50, flags]).plus(pseudo).checksum().to_be_bytes();
    // Data offset and flags, no window, the checksum, no urgent pointer.
    frame.write(at + tcp::field::DATA_OFFSET, [0x50, flags, 0, 0, c0, c1, 0, 0])
}

/// Turns the IP header round, with options and extension headers as they are, and gives it a new
/// length; returns the sum of the pseudo header of 20 octets of TCP.
#[inline(always)]
fn address(frame: &mut impl Frame, packet: &Packet, ip: usize, length: u16) -> Option<Sum> {
    let (source, destination) = (packet.key.destination, packet.key.source);
    let tcp = Sum::new().octets(&[0, protocol::TCP, 0, 20]);
    match packet.family {
        Family::V4 => {
            let checksum = u16::from_be_bytes(frame.read(ip + ipv4::field::CHECKSUM)?);
            let old = Sum::new().word(packet.length).octets(&[packet.ttl, 0]);
            let new = Sum::new().word(length).octets(&[TTL, 0]);
            let checksum = wire::checksum::update(checksum, old, new);
            frame.write(ip + 2, length.to_be_bytes())?;
            frame.write(ip + ipv4::field::TTL, [TTL])?;
            frame.write(ip + ipv4::field::CHECKSUM, checksum.to_be_bytes())?;
            frame.write(ip + ipv4::field::SOURCE, source.low4())?;
            frame.write(ip + ipv4::field::DESTINATION, destination.low4())?;
            Some(tcp.octets(&source.low4()).octets(&destination.low4()))
        }
        Family::V6 => {
            frame.write(ip + 4, (length - 40).to_be_bytes())?;
            frame.write(ip + ipv6::field::HOP_LIMIT, [TTL])?;
            frame.write(ip + ipv6::field::SOURCE, source.octets())?;
            frame.write(ip + ipv6::field::DESTINATION, destination.octets())?;
            Some(tcp.octets(&source.octets()).octets(&destination.octets()))
        }
    }
}
