//! From a frame to a flow: Ethernet, VLAN tags, IP with its options and extension headers, ports.
//!
//! Only the flow is read, nothing is judged: a packet that is not for us passes however odd it is.

use super::layout::{Direction, FlowKey};
use super::verdict::DropReason;
use crate::Frame;
use crate::ip::{Damage, Part, walk_extensions};
use wire::{Address, Family, ethernet, icmp, ipv4, ipv6, protocol, tcp, udp};

/// VLAN tags that are read before the frame is left to the host.
const MAX_TAGS: usize = 2;
/// Where the header of the protocol starts at the latest: the kernel's build reaches no further
/// than 2048 octets into a frame, and both builds must see the same.
const MAX_HEADERS: usize = 1984;

/// What a frame's headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// The flow.
    pub key: FlowKey,
    /// Where the IP header starts.
    pub ip: u16,
    /// Where the header of its protocol starts.
    pub transport: u16,
    /// Octets of the IP packet by its own word.
    pub length: u16,
    /// Control information of the outermost VLAN tag; 0 without one.
    pub vlan: u16,
    /// IP version.
    pub family: Family,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// What the protocol is to us.
    pub kind: Kind,
    /// TCP control bits.
    pub flags: u8,
    /// No router may fragment it: IPv4's DF, always so in IPv6.
    pub dont_fragment: bool,
    /// An echo's sequence number.
    pub sequence: [u8; 2],
}

/// How a packet's flow is named, and where its checksum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// An ICMP or ICMPv6 echo request.
    EchoRequest,
    /// An ICMP or ICMPv6 echo reply.
    EchoReply,
    /// An ICMP or ICMPv6 error, which quotes a packet of the flow.
    Error,
    /// Neighbour solicitation.
    Solicitation,
    /// Another ICMP or ICMPv6 message.
    Control,
    /// Another protocol, without ports.
    Other,
}

/// What an Ethernet frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    /// EtherType behind the tags.
    pub(super) kind: u16,
    /// Where it starts.
    pub(super) at: u16,
    /// Control information of the outermost tag.
    pub(super) vlan: u16,
}

impl Packet {
    /// Nothing.
    pub const EMPTY: Self = Self {
        key: FlowKey {
            source: Address::v6([0; 16]),
            destination: Address::v6([0; 16]),
            source_port: [0; 2],
            destination_port: [0; 2],
            protocol: 0,
            zero: [0; 3],
        },
        ip: 0,
        transport: 0,
        length: 0,
        vlan: 0,
        family: Family::V4,
        ttl: 0,
        tos: 0,
        kind: Kind::Other,
        flags: 0,
        dont_fragment: false,
        sequence: [0; 2],
    };

    /// Whether a packet of this kind can be of a session in this direction. With identifier 0 an
    /// echo has the ports of a message that has none.
    #[inline(always)]
    pub const fn may_go(&self, direction: Direction) -> bool {
        match self.kind {
            Kind::Tcp | Kind::Udp | Kind::Other => true,
            Kind::EchoRequest => matches!(direction, Direction::Forward),
            Kind::EchoReply => matches!(direction, Direction::Reply),
            Kind::Error | Kind::Solicitation | Kind::Control => false,
        }
    }

    /// Makes an echo's sequence number part of its flow's name.
    #[inline(always)]
    pub(super) fn name_sequence(&mut self) {
        match self.kind {
            Kind::EchoRequest => self.key.destination_port = self.sequence,
            Kind::EchoReply => self.key.source_port = self.sequence,
            _ => {}
        }
    }

    /// Takes an echo's sequence number out of its flow's name.
    #[inline(always)]
    pub(super) fn forget_sequence(&mut self) {
        match self.kind {
            Kind::EchoRequest => self.key.destination_port = [0; 2],
            Kind::EchoReply => self.key.source_port = [0; 2],
            _ => {}
        }
    }

    /// Whether it is a TCP segment with exactly these of the bits in `mask`.
    #[inline(always)]
    pub fn is_tcp_with(&self, bits: u8, mask: u8) -> bool {
        self.kind == Kind::Tcp && self.flags & mask == bits
    }
}

/// Reads the Ethernet header and up to two tags. `None` for a frame that is too short.
#[inline(always)]
pub(super) fn ethernet(frame: &impl Frame) -> Option<Payload> {
    let mut kind = u16::from_be_bytes(frame.read(ethernet::field::KIND)?);
    let (mut at, mut vlan) = (ethernet::HEADER_BYTES, 0);
    for _ in 0..MAX_TAGS {
        if kind != ethernet::kind::VLAN && kind != ethernet::kind::SERVICE_VLAN {
            break;
        }
        let [c0, c1, k0, k1] = frame.read(at)?;
        if at == ethernet::HEADER_BYTES {
            vlan = u16::from_be_bytes([c0, c1]);
        }
        kind = u16::from_be_bytes([k0, k1]);
        at += ethernet::TAG_BYTES;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a header and two tags")]
    let at = frame.unknown(at) as u16;
    Some(Payload { kind, at, vlan })
}

/// Reads the addresses alone, so that even a damaged packet's are known.
///
/// # Errors
/// The fixed header is not there.
#[inline(always)]
pub(super) fn addresses(
    frame: &impl Frame,
    payload: Payload,
    packet: &mut Packet,
) -> Result<(), Damage> {
    let at = usize::from(payload.at);
    packet.ip = payload.at;
    packet.vlan = payload.vlan;
    let [first] = frame.read(at).ok_or(Damage::Truncated)?;
    if payload.kind == ethernet::kind::IPV4 {
        let [s0, s1, s2, s3, d0, d1, d2, d3] =
            frame.read(at + ipv4::field::SOURCE).ok_or(Damage::Truncated)?;
        packet.family = Family::V4;
        packet.key.source = Address::v4([s0, s1, s2, s3]);
        packet.key.destination = Address::v4([d0, d1, d2, d3]);
        if first >> 4 == 4 && first & 0x0f >= 5 { Ok(()) } else { Err(Damage::Malformed) }
    } else {
        let source = frame.read(at + ipv6::field::SOURCE).ok_or(Damage::Truncated)?;
        let destination = frame.read(at + ipv6::field::DESTINATION).ok_or(Damage::Truncated)?;
        packet.family = Family::V6;
        packet.key.source = Address::v6(source);
        packet.key.destination = Address::v6(destination);
        let mapped = packet.key.source.family() == Family::V4
            || packet.key.destination.family() == Family::V4;
        if first >> 4 == 6 && !mapped { Ok(()) } else { Err(Damage::Malformed) }
    }
}

/// Reads the rest of the flow, after [`addresses`].
///
/// # Errors
/// What is wrong with it, or that it is a fragment, which has no ports.
#[inline(always)]
pub(super) fn flow(frame: &impl Frame, packet: &mut Packet) -> Result<(), DropReason> {
    match ip(frame, packet)? {
        Part::Whole => transport(frame, packet),
        Part::First | Part::Later => Err(DropReason::Fragment),
    }
}

/// Reads the rest of the IP headers.
///
/// # Errors
/// What is wrong with them.
#[inline(always)]
fn ip(frame: &impl Frame, packet: &mut Packet) -> Result<Part, Damage> {
    match packet.family {
        Family::V4 => ip_v4(frame, packet),
        Family::V6 => ip_v6(frame, packet),
    }
}

#[inline(always)]
fn ip_v4(frame: &impl Frame, packet: &mut Packet) -> Result<Part, Damage> {
    let at = usize::from(packet.ip);
    let [first, tos, l0, l1, _, _, f0, f1, ttl, protocol] =
        frame.read(at).ok_or(Damage::Truncated)?;
    let header = u16::from(first & 0x0f) * 4;
    packet.length = u16::from_be_bytes([l0, l1]);
    if at + usize::from(packet.length) > frame.len() || header > packet.length {
        return Err(Damage::Truncated);
    }
    let fragment = u16::from_be_bytes([f0, f1]);
    packet.transport = packet.ip + header;
    (packet.ttl, packet.tos, packet.key.protocol) = (ttl, tos, protocol);
    packet.dont_fragment = fragment & 0x4000 != 0;
    Ok(Part::of(fragment & 0x1fff, fragment & 0x2000 != 0))
}

#[inline(always)]
fn ip_v6(frame: &impl Frame, packet: &mut Packet) -> Result<Part, Damage> {
    let at = usize::from(packet.ip);
    let [a, b, _, _, l0, l1, next, ttl] = frame.read(at).ok_or(Damage::Truncated)?;
    let payload = u16::from_be_bytes([l0, l1]);
    let start = at + ipv6::HEADER_BYTES;
    let end = start + usize::from(payload);
    packet.length = payload.checked_add(40).ok_or(Damage::Truncated)?;
    if end > frame.len() {
        return Err(Damage::Truncated);
    }
    let upper = walk_extensions(frame, next, start, end.min(MAX_HEADERS))?;
    packet.transport = u16::try_from(frame.unknown(upper.at)).map_err(|_| Damage::Truncated)?;
    (packet.ttl, packet.tos, packet.key.protocol) = (ttl, a << 4 | b >> 4, upper.protocol);
    packet.dont_fragment = true;
    Ok(upper.part)
}

/// Reads ports, or what stands for them, of a packet that has the header of its protocol.
///
/// # Errors
/// The header is cut short.
#[inline(always)]
fn transport(frame: &impl Frame, packet: &mut Packet) -> Result<(), DropReason> {
    let at = usize::from(packet.transport);
    packet.key.source_port = [0; 2];
    packet.key.destination_port = [0; 2];
    packet.flags = 0;
    let left = packet.length - (packet.transport - packet.ip);
    match (packet.key.protocol, packet.family) {
        (protocol::TCP, _) => {
            let [s0, s1, d0, d1, .., flags] = head::<14>(frame, at, left, tcp::HEADER_BYTES)?;
            packet.kind = Kind::Tcp;
            packet.key.source_port = [s0, s1];
            packet.key.destination_port = [d0, d1];
            packet.flags = flags;
        }
        (protocol::UDP, _) => {
            let [s0, s1, d0, d1] = head::<4>(frame, at, left, udp::HEADER_BYTES)?;
            packet.kind = Kind::Udp;
            packet.key.source_port = [s0, s1];
            packet.key.destination_port = [d0, d1];
        }
        (protocol::ICMP, Family::V4) | (protocol::ICMPV6, Family::V6) => {
            let [kind, _, _, _, i0, i1, q0, q1] = head(frame, at, left, icmp::HEADER_BYTES)?;
            packet.kind = icmp_kind(kind, packet.family);
            packet.sequence = [q0, q1];
            match packet.kind {
                Kind::EchoRequest => packet.key.source_port = [i0, i1],
                Kind::EchoReply => packet.key.destination_port = [i0, i1],
                _ => {}
            }
        }
        _ => packet.kind = Kind::Other,
    }
    Ok(())
}

/// Reads the packet that an ICMP error quotes, as far as it names a flow: the IP header and eight
/// octets are enough (RFC 792). `None` if there is less, or a later fragment.
///
/// The quote's `length` is what of it is here, from its IP header on.
#[inline(always)]
pub(super) fn quote(frame: &impl Frame, error: &Packet, quoted: &mut Packet) -> Option<()> {
    const FLOW_BYTES: usize = 8;
    let at = usize::from(error.transport) + icmp::HEADER_BYTES;
    let end = usize::from(error.ip) + usize::from(error.length);
    let kind = match error.family {
        Family::V4 => ethernet::kind::IPV4,
        Family::V6 => ethernet::kind::IPV6,
    };
    let ip = u16::try_from(frame.unknown(at)).ok()?;
    addresses(frame, Payload { kind, at: ip, vlan: 0 }, quoted).ok()?;
    let at = usize::from(ip);
    let transport = match error.family {
        Family::V4 => {
            let [first, _, _, _, _, _, f0, f1, ttl, protocol] = frame.read(at)?;
            (quoted.ttl, quoted.key.protocol) = (ttl, protocol);
            if u16::from_be_bytes([f0, f1]) & 0x1fff != 0 {
                return None;
            }
            at + usize::from(first & 0x0f) * 4
        }
        Family::V6 => {
            let [_, _, _, _, _, _, next, ttl] = frame.read(at)?;
            let upper =
                walk_extensions(frame, next, at + ipv6::HEADER_BYTES, end.min(MAX_HEADERS)).ok()?;
            (quoted.ttl, quoted.key.protocol) = (ttl, upper.protocol);
            if upper.part == Part::Later {
                return None;
            }
            frame.unknown(upper.at)
        }
    };
    if transport + FLOW_BYTES > end {
        return None;
    }
    quoted.transport = u16::try_from(transport).ok()?;
    quoted.length = u16::try_from(end.checked_sub(at)?).ok()?;
    let [a, b, c, d, e, f, _, _] = frame.read(transport)?;
    quoted.key.source_port = [0; 2];
    quoted.key.destination_port = [0; 2];
    match (quoted.key.protocol, error.family) {
        (protocol::TCP | protocol::UDP, _) => {
            quoted.kind = if quoted.key.protocol == protocol::TCP { Kind::Tcp } else { Kind::Udp };
            quoted.key.source_port = [a, b];
            quoted.key.destination_port = [c, d];
        }
        (protocol::ICMP, Family::V4) | (protocol::ICMPV6, Family::V6) => {
            quoted.kind = icmp_kind(a, error.family);
            match quoted.kind {
                Kind::EchoRequest => quoted.key.source_port = [e, f],
                Kind::EchoReply => quoted.key.destination_port = [e, f],
                _ => return None,
            }
        }
        _ => quoted.kind = Kind::Other,
    }
    Some(())
}

/// The first `N` octets of a header of which `whole` octets must be there.
#[inline(always)]
fn head<const N: usize>(
    frame: &impl Frame,
    at: usize,
    left: u16,
    whole: usize,
) -> Result<[u8; N], DropReason> {
    if usize::from(left) < whole {
        return Err(DropReason::TransportTruncated);
    }
    frame.read(at).ok_or(DropReason::TransportTruncated)
}

#[inline(always)]
fn icmp_kind(kind: u8, family: Family) -> Kind {
    match (family, kind) {
        (Family::V4, icmp::v4::ECHO_REQUEST) | (Family::V6, icmp::v6::ECHO_REQUEST) => {
            Kind::EchoRequest
        }
        (Family::V4, icmp::v4::ECHO_REPLY) | (Family::V6, icmp::v6::ECHO_REPLY) => Kind::EchoReply,
        (
            Family::V4,
            icmp::v4::UNREACHABLE | icmp::v4::TIME_EXCEEDED | icmp::v4::PARAMETER_PROBLEM,
        ) => Kind::Error,
        (Family::V6, kind) if kind < icmp::v6::FIRST_INFORMATIONAL => Kind::Error,
        (Family::V6, wire::neighbour::SOLICITATION) => Kind::Solicitation,
        _ => Kind::Control,
    }
}
