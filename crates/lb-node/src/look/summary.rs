//! A frame in one line: who sends what to whom.

use super::names;
use crate::explain::flow::FLAGS;
use std::fmt;
use wire::ethernet::{self, kind};
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};
use wire::{Address, icmp, ipv4, ipv6};

/// What a frame's headers say, as far as they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    /// An IP packet.
    Ip(Ip),
    /// Another EtherType.
    Other(u16),
    /// Too short for an Ethernet header, or for the IP header that it announces.
    Short,
}

/// What an IP packet's headers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip {
    /// The outermost VLAN.
    pub vlan: Option<u16>,
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// The protocol that follows the header.
    pub protocol: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Octets of the packet.
    pub octets: usize,
    /// Ports, or what kind of message it is.
    pub detail: String,
}

impl Summary {
    /// Reads a frame.
    pub fn of(frame: &[u8]) -> Self {
        let mut at = ethernet::field::KIND;
        let mut vlan = None;
        let mut kind = u16_at(frame, at);
        while let Some(kind::VLAN | kind::SERVICE_VLAN) = kind {
            vlan = vlan.or(u16_at(frame, at + 2).map(|tag| tag & ethernet::VLAN_ID));
            at += ethernet::TAG_BYTES;
            kind = u16_at(frame, at);
        }
        let packet = frame.get(at + 2..).unwrap_or_default();
        let ip = match kind {
            Some(kind::IPV4) => v4(packet),
            Some(kind::IPV6) => v6(packet),
            Some(other) => return Self::Other(other),
            None => None,
        };
        ip.map_or(Self::Short, |ip| Self::Ip(Ip { vlan, ..ip }))
    }

    /// The addresses, if it is an IP packet.
    pub fn addresses(&self) -> Option<[Address; 2]> {
        match self {
            Self::Ip(ip) => Some([ip.source, ip.destination]),
            Self::Other(_) | Self::Short => None,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(Ip { vlan, source, destination, protocol, octets, detail, ttl }) => {
                if let Some(vlan) = vlan {
                    write!(f, "vlan {vlan} ")?;
                }
                let protocol = names::protocol(*protocol);
                write!(f, "src={source} dst={destination} {protocol} {detail}")?;
                write!(f, "{}{octets} octets ttl {ttl}", if detail.is_empty() { "" } else { " " })
            }
            Self::Other(kind::ARP) => f.write_str("arp"),
            Self::Other(kind) => write!(f, "ethertype {kind:#06x}"),
            Self::Short => f.write_str("cut short"),
        }
    }
}

fn v4(packet: &[u8]) -> Option<Ip> {
    let header = ipv4::Header::parse(*packet.first_chunk()?)?;
    let segment = packet.get(usize::from(header.header_length)..).unwrap_or_default();
    let detail = match (header.fragment_offset, header.more_fragments) {
        (0, false) => detail(header.protocol, segment),
        (offset, _) => format!("fragment at {}", u32::from(offset) * 8),
    };
    Some(Ip {
        vlan: None,
        source: Address::v4(header.source),
        destination: Address::v4(header.destination),
        protocol: header.protocol,
        ttl: header.ttl,
        octets: header.total_length.into(),
        detail,
    })
}

fn v6(packet: &[u8]) -> Option<Ip> {
    let header = ipv6::Header::parse(*packet.first_chunk()?)?;
    let segment = packet.get(ipv6::HEADER_BYTES..).unwrap_or_default();
    Some(Ip {
        vlan: None,
        source: Address::v6(header.source),
        destination: Address::v6(header.destination),
        protocol: header.next_header,
        ttl: header.hop_limit,
        octets: usize::from(header.payload_length) + ipv6::HEADER_BYTES,
        detail: detail(header.next_header, segment),
    })
}

/// Ports and control bits, or the kind of an ICMP message.
fn detail(protocol: u8, segment: &[u8]) -> String {
    let ports = || Some((u16_at(segment, 0)?, u16_at(segment, 2)?));
    let said = match protocol {
        TCP => ports().map(|(source, destination)| {
            let bits = segment.get(13).copied().unwrap_or(0);
            let flags = FLAGS.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name);
            format!("{source}>{destination} {}", flags.collect::<Vec<_>>().join(","))
        }),
        UDP => ports().map(|(source, destination)| format!("{source}>{destination}")),
        ICMP | ICMPV6 => segment.first_chunk().map(|octets: &[u8; 8]| message(protocol, *octets)),
        _ => Some(String::new()),
    };
    said.unwrap_or_else(|| "cut short".to_owned())
}

fn message(protocol: u8, [kind, code, _, _, i0, i1, s0, s1]: [u8; 8]) -> String {
    use icmp::{v4, v6};
    let name = match (protocol, kind) {
        (ICMP, v4::ECHO_REQUEST) | (ICMPV6, v6::ECHO_REQUEST) => "echo request",
        (ICMP, v4::ECHO_REPLY) | (ICMPV6, v6::ECHO_REPLY) => "echo reply",
        (ICMP, v4::UNREACHABLE) | (ICMPV6, v6::UNREACHABLE) => "unreachable",
        (ICMP, v4::TIME_EXCEEDED) | (ICMPV6, v6::TIME_EXCEEDED) => "time exceeded",
        (ICMPV6, v6::PACKET_TOO_BIG) => "packet too big",
        (ICMPV6, wire::neighbour::SOLICITATION) => "neighbour solicitation",
        _ => return format!("type {kind} code {code}"),
    };
    if name.starts_with("echo") {
        let (id, sequence) = (u16::from_be_bytes([i0, i1]), u16::from_be_bytes([s0, s1]));
        return format!("{name} id={id} seq={sequence}");
    }
    format!("{name} code {code}")
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::flow::{Flags, Flow};
    use crate::explain::packet::{Shape, frame};

    fn said(words: [&str; 3]) -> String {
        let [protocol, source, destination] = words;
        let flow = Flow::parse(protocol, source, destination, &[]).unwrap();
        let shape = Shape { ethernet: [2; 12], flags: Flags(0x12), octets: 0 };
        Summary::of(&frame(&flow, &shape)).to_string()
    }

    #[test]
    fn a_frame_is_said_in_one_line() {
        for (words, line) in [
            (
                ["tcp", "192.0.2.1:1234", "203.0.113.10:443"],
                "src=192.0.2.1 dst=203.0.113.10 tcp 1234>443 syn,ack 40 octets ttl 64",
            ),
            (
                ["udp", "[2001:db8::1]:9", "[2001:db8::10]:53"],
                "src=2001:db8::1 dst=2001:db8::10 udp 9>53 48 octets ttl 64",
            ),
            (
                ["icmp", "192.0.2.1", "203.0.113.10"],
                "src=192.0.2.1 dst=203.0.113.10 icmp echo request id=1 seq=1 28 octets ttl 64",
            ),
            (
                ["47", "192.0.2.1", "203.0.113.10"],
                "src=192.0.2.1 dst=203.0.113.10 47 28 octets ttl 64",
            ),
        ] {
            assert_eq!(said(words), line);
        }
        assert_eq!(Summary::of(&[0; 60]).to_string(), "ethertype 0x0000");
        assert_eq!(Summary::of(&[0; 9]).to_string(), "cut short");
        let arp = [[0; 12].as_slice(), &[8, 6], &[0; 28]].concat();
        assert_eq!(Summary::of(&arp).to_string(), "arp");
    }
}
