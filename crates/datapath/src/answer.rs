//! ICMP errors of our own: the frame becomes the message that tells its source why it was dropped.
//!
//! Quotes as much as the RFCs ask for: 576 octets in all for IPv4 (RFC 1812 4.3.2.3), the minimum
//! MTU for IPv6 (RFC 4443 2.4 c). The sender of the message is the address that the packet was
//! sent to, the only one of ours that its source knows.

use crate::Tables;
use crate::frame::{Frame, prepend, sum_from};
use crate::ip::Packet;
use wire::checksum::{Sum, pseudo_v6};
use wire::{Family, icmp, ipv4, ipv6, protocol};

/// The largest ICMP error towards an IPv4 source (RFC 1812 4.3.2.3).
pub(crate) const MAX_V4_BYTES: usize = 576;
/// TTL of packets that start here (RFC 1700 "IP time to live parameter").
const TTL: u8 = 64;
/// Precedence "internetwork control" of ICMP errors (RFC 1812 4.3.2.5).
const TOS: u8 = 0xc0;

/// What to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// TTL or hop limit exceeded in transit.
    TtlExpired,
    /// Too big: IPv4 "fragmentation needed" or IPv6 "packet too big", with the largest size in
    /// octets that passes.
    TooBig {
        /// Octets of the largest packet of the source's family that passes.
        mtu: u32,
    },
}

/// Turns the frame, which still is `packet` as it came, into the answer to it. The answer may be
/// fragmented on its way, so in IPv4 it needs an identification of its own (RFC 6864 4.3).
#[inline(always)]
pub fn write(
    frame: &mut impl Frame,
    packet: &Packet,
    answer: Answer,
    tables: &mut impl Tables,
) -> Option<()> {
    match packet.family {
        Family::V4 => write_v4(frame, packet, answer, tables.identification(packet.source)),
        Family::V6 => write_v6(frame, packet, answer),
    }
}

#[inline(always)]
fn write_v4(
    frame: &mut impl Frame,
    packet: &Packet,
    answer: Answer,
    identification: u16,
) -> Option<()> {
    let (kind, code, rest) = match answer {
        Answer::TtlExpired => (icmp::v4::TIME_EXCEEDED, 0, 0),
        Answer::TooBig { mtu } => {
            let mtu = mtu.clamp(ipv4::MIN_MTU, u32::from(u16::MAX));
            (icmp::v4::UNREACHABLE, icmp::v4::unreachable::FRAGMENTATION_NEEDED, mtu)
        }
    };
    let overhead = ipv4::HEADER_BYTES + icmp::HEADER_BYTES;
    let length = (overhead + packet.length).min(MAX_V4_BYTES);
    frame.truncate(length - overhead)?;
    prepend_icmp(frame, icmp::Header { kind, code, checksum: 0, rest }, Sum::new())?;
    let header = ipv4::Header {
        header_length: 20,
        tos: TOS,
        total_length: u16::try_from(length).ok()?,
        identification,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: TTL,
        protocol: protocol::ICMP,
        source: packet.destination.low4(),
        destination: packet.source.low4(),
    };
    prepend(frame, header.emit())
}

#[inline(always)]
fn write_v6(frame: &mut impl Frame, packet: &Packet, answer: Answer) -> Option<()> {
    let (kind, rest) = match answer {
        Answer::TtlExpired => (icmp::v6::TIME_EXCEEDED, 0),
        Answer::TooBig { mtu } => (icmp::v6::PACKET_TOO_BIG, mtu.max(ipv6::MIN_MTU)),
    };
    let overhead = ipv6::HEADER_BYTES + icmp::HEADER_BYTES;
    let length = (overhead + packet.length).min(ipv6::MIN_MTU as usize);
    frame.truncate(length - overhead)?;
    let payload = length - ipv6::HEADER_BYTES;
    let (source, destination) = (packet.destination.octets(), packet.source.octets());
    let pseudo = pseudo_v6(source, destination, u32::try_from(payload).ok()?, protocol::ICMPV6);
    prepend_icmp(frame, icmp::Header { kind, code: 0, checksum: 0, rest }, pseudo)?;
    let header = ipv6::Header {
        traffic_class: TOS,
        flow_label: 0,
        payload_length: u16::try_from(payload).ok()?,
        next_header: protocol::ICMPV6,
        hop_limit: TTL,
        source,
        destination,
    };
    prepend(frame, header.emit())
}

/// Puts the message's header before what the frame holds, with the checksum over both and
/// `pseudo`. The header's own checksum must be 0.
#[inline(always)]
pub(crate) fn prepend_icmp(
    frame: &mut impl Frame,
    header: icmp::Header,
    pseudo: Sum,
) -> Option<()> {
    prepend(frame, header.emit())?;
    let checksum = sum_from(frame, 0)?.plus(pseudo).checksum();
    frame.write(icmp::CHECKSUM, checksum.to_be_bytes())
}
