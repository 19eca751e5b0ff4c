//! Translation in place: addresses, ports, hops, and the checksums that follow (RFC 1624).
//!
//! A checksum that was wrong stays wrong, so that the receiver still sees it.

use super::parse::{Kind, Packet};
use crate::Frame;
use wire::checksum::{Sum, change, changed, update};
use wire::{Address, Family, icmp, ipv4, ipv6, tcp, udp};

/// What a packet's flow is translated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct To<'a> {
    pub(super) source: &'a Address,
    pub(super) destination: &'a Address,
    /// Both as an IPv4 packet carries them.
    pub(super) v4: [u8; 8],
    pub(super) source_port: [u8; 2],
    pub(super) destination_port: [u8; 2],
}

impl<'a> To<'a> {
    /// The addresses alone.
    #[inline(always)]
    pub(super) fn addresses(source: &'a Address, destination: &'a Address) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (source.low4(), destination.low4());
        let v4 = [a, b, c, d, e, f, g, h];
        Self { source, destination, v4, source_port: [0; 2], destination_port: [0; 2] }
    }
}

/// What a translation adds to checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// By the addresses.
    pub(super) addresses: u16,
    /// By the ports.
    pub(super) ports: u16,
}

impl Change {
    /// What translating the packet adds.
    #[inline(always)]
    pub(super) fn of(packet: &Packet, to: To<'_>) -> Self {
        let (old, new) = addresses(packet, to);
        let ports = |a: &[u8; 2], b: &[u8; 2]| Sum::new().octets(a).octets(b);
        let before = ports(&packet.key.source_port, &packet.key.destination_port);
        let after = ports(&to.source_port, &to.destination_port);
        Self { addresses: change(old, new), ports: change(before, after) }
    }

    #[inline(always)]
    fn both(self) -> Sum {
        Sum::new().word(self.addresses).word(self.ports)
    }
}

/// Translates the packet, and takes one hop off its life. `None` if a header is not there, which
/// parsing has excluded.
#[inline(always)]
pub(super) fn translate(
    frame: &mut impl Frame,
    packet: &Packet,
    to: To<'_>,
    change: Change,
) -> Option<()> {
    network(frame, packet, to, change.addresses)?;
    transport(frame, packet, to, change)
}

/// The sums of the addresses before and after.
#[inline(always)]
fn addresses(packet: &Packet, to: To<'_>) -> (Sum, Sum) {
    let key = &packet.key;
    match packet.family {
        Family::V4 => {
            let old = Sum::new().octets(&key.source.low4()).octets(&key.destination.low4());
            (old, Sum::new().octets(&to.v4))
        }
        Family::V6 => {
            let sum = |a: &Address, b: &Address| Sum::new().octets(&a.octets()).octets(&b.octets());
            (sum(&key.source, &key.destination), sum(to.source, to.destination))
        }
    }
}

#[inline(always)]
fn network(frame: &mut impl Frame, packet: &Packet, to: To<'_>, by: u16) -> Option<()> {
    /// One hop less, in the upper octet of its word.
    const ONE_HOP: u16 = !0x0100;
    let at = usize::from(packet.ip);
    let ttl = packet.ttl.checked_sub(1)?;
    match packet.family {
        Family::V4 => {
            let [s0, s1, s2, s3, d0, d1, d2, d3] = to.v4;
            let [_, protocol, c0, c1] = frame.read(at + ipv4::field::TTL)?;
            let by = Sum::new().word(by).word(ONE_HOP);
            let [c0, c1] = changed(u16::from_be_bytes([c0, c1]), by).to_be_bytes();
            let octets = [ttl, protocol, c0, c1, s0, s1, s2, s3, d0, d1, d2, d3];
            frame.write(at + ipv4::field::TTL, octets)
        }
        Family::V6 => {
            frame.write(at + ipv6::field::HOP_LIMIT, [ttl])?;
            frame.write(at + ipv6::field::SOURCE, to.source.octets())?;
            frame.write(at + ipv6::field::DESTINATION, to.destination.octets())
        }
    }
}

#[inline(always)]
fn transport(frame: &mut impl Frame, packet: &Packet, to: To<'_>, change: Change) -> Option<()> {
    let at = usize::from(packet.transport);
    let [s0, s1] = to.source_port;
    let [d0, d1] = to.destination_port;
    match packet.kind {
        Kind::Tcp => {
            let at_checksum = at + tcp::field::CHECKSUM;
            let checksum = u16::from_be_bytes(frame.read(at_checksum)?);
            frame.write(at, [s0, s1, d0, d1])?;
            frame.write(at_checksum, changed(checksum, change.both()).to_be_bytes())
        }
        Kind::Udp => {
            let at_checksum = at + udp::field::CHECKSUM;
            let checksum = u16::from_be_bytes(frame.read(at_checksum)?);
            frame.write(at, [s0, s1, d0, d1])?;
            // Zero is no checksum and stays so; a computed zero is sent as its other
            // representation (RFC 768).
            if checksum == 0 {
                return Some(());
            }
            let checksum = match changed(checksum, change.both()) {
                0 => 0xffff,
                checksum => checksum,
            };
            frame.write(at_checksum, checksum.to_be_bytes())
        }
        Kind::EchoRequest => echo(frame, packet, to.source_port, change),
        Kind::EchoReply => echo(frame, packet, to.destination_port, change),
        Kind::Error | Kind::Solicitation | Kind::Control | Kind::Other => Some(()),
    }
}

/// An echo's identifier, which stands for its ports. ICMPv6 has the addresses in its checksum, ICMP
/// has not.
#[inline(always)]
fn echo(
    frame: &mut impl Frame,
    packet: &Packet,
    identifier: [u8; 2],
    change: Change,
) -> Option<()> {
    let at = usize::from(packet.transport);
    let by = match packet.family {
        Family::V4 => Sum::new().word(change.ports),
        Family::V6 => change.both(),
    };
    let checksum = u16::from_be_bytes(frame.read(at + icmp::CHECKSUM)?);
    frame.write(at + icmp::IDENTIFIER, identifier)?;
    frame.write(at + icmp::CHECKSUM, changed(checksum, by).to_be_bytes())
}

/// Translates the packet that an ICMP error quotes, and readdresses the error, which loses one hop
/// of its life. The error's checksum follows everything that changes behind it, and in ICMPv6 its
/// own addresses.
#[inline(always)]
pub(super) fn error(
    frame: &mut impl Frame,
    packet: &Packet,
    quoted: &Packet,
    was: To<'_>,
    to: To<'_>,
) -> Option<()> {
    let (mut old, mut new) = quote(frame, quoted, was)?;
    let (old_outer, new_outer) = addresses(packet, to);
    network(frame, packet, to, change(old_outer, new_outer))?;
    if packet.family == Family::V6 {
        (old, new) = (old.plus(old_outer), new.plus(new_outer));
    }
    let at = usize::from(packet.transport) + icmp::CHECKSUM;
    let checksum = u16::from_be_bytes(frame.read(at)?);
    frame.write(at, update(checksum, old, new).to_be_bytes())
}

/// Translates a quoted packet, and returns the sums of what changed, before and after.
#[inline(always)]
fn quote(frame: &mut impl Frame, quoted: &Packet, was: To<'_>) -> Option<(Sum, Sum)> {
    let ip = usize::from(quoted.ip);
    let (mut old, mut new) = addresses(quoted, was);
    let addresses = (old, new);
    match quoted.family {
        Family::V4 => {
            let checksum = u16::from_be_bytes(frame.read(ip + ipv4::field::CHECKSUM)?);
            let updated = update(checksum, old, new);
            (old, new) = (old.word(checksum), new.word(updated));
            frame.write(ip + ipv4::field::CHECKSUM, updated.to_be_bytes())?;
            frame.write(ip + ipv4::field::SOURCE, was.v4)?;
        }
        Family::V6 => {
            frame.write(ip + ipv6::field::SOURCE, was.source.octets())?;
            frame.write(ip + ipv6::field::DESTINATION, was.destination.octets())?;
        }
    }
    let at = usize::from(quoted.transport);
    let key = &quoted.key;
    let old_ports = Sum::new().octets(&key.source_port).octets(&key.destination_port);
    let new_ports = Sum::new().octets(&was.source_port).octets(&was.destination_port);
    // Where the checksum is, whether it covers the addresses, and where the ports are.
    let (checksum, covers, ports) = match quoted.kind {
        Kind::Tcp => (tcp::field::CHECKSUM, true, 0),
        Kind::Udp => (udp::field::CHECKSUM, true, 0),
        Kind::EchoRequest | Kind::EchoReply => {
            (icmp::CHECKSUM, quoted.family == Family::V6, icmp::IDENTIFIER)
        }
        Kind::Error | Kind::Solicitation | Kind::Control | Kind::Other => {
            return Some((old, new));
        }
    };
    match quoted.kind {
        Kind::EchoRequest => frame.write(at + ports, was.source_port)?,
        Kind::EchoReply => frame.write(at + ports, was.destination_port)?,
        _ => {
            let ([s0, s1], [d0, d1]) = (was.source_port, was.destination_port);
            frame.write(at + ports, [s0, s1, d0, d1])?;
        }
    }
    (old, new) = (old.plus(old_ports), new.plus(new_ports));
    let quoted_end = ip + usize::from(quoted.length);
    if at + checksum + 2 > quoted_end {
        return Some((old, new));
    }
    let before = u16::from_be_bytes(frame.read(at + checksum)?);
    if quoted.kind == Kind::Udp && before == 0 {
        return Some((old, new));
    }
    let (old_covered, new_covered) = match covers {
        true => (addresses.0.plus(old_ports), addresses.1.plus(new_ports)),
        false => (old_ports, new_ports),
    };
    let after = match update(before, old_covered, new_covered) {
        0 if quoted.kind == Kind::Udp => 0xffff,
        after => after,
    };
    frame.write(at + checksum, after.to_be_bytes())?;
    Some((old.word(before), new.word(after)))
}
