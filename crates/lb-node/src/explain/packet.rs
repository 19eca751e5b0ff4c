//! Builds the packet that is asked about.

use super::flow::{Flags, Flow};
use datapath::lb::Direction;
use std::net::IpAddr;
use wire::checksum::{Sum, pseudo_v6};
use wire::ethernet::kind;
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};
use wire::{icmp, ipv4, ipv6, tcp, udp};

/// The TTL and hop limit that hosts begin with.
const TTL: u8 = 64;
/// A TCP window.
const WINDOW: u16 = 64_240;

/// What the packet is beside its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Destination and source Ethernet address.
    pub ethernet: [u8; 12],
    /// TCP control bits.
    pub flags: Flags,
    /// Octets of the IP packet; it is no smaller than its headers.
    pub octets: u16,
}

/// The frame: the smallest packet of the flow, filled up with zeroes.
pub fn frame(flow: &Flow, shape: &Shape) -> Vec<u8> {
    let header = if flow.source.is_ipv4() { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES };
    let mut segment = transport(flow, shape.flags);
    segment.resize(usize::from(shape.octets).saturating_sub(header).max(segment.len()), 0);
    let length = u16::try_from(segment.len()).unwrap_or(u16::MAX);
    if flow.protocol == UDP
        && let Some(place) = segment.get_mut(4..6)
    {
        place.copy_from_slice(&length.to_be_bytes());
    }
    let (kind, header, pseudo) = network(flow, length);
    let (place, pseudo) = match flow.protocol {
        TCP => (tcp::field::CHECKSUM, pseudo),
        UDP => (udp::field::CHECKSUM, pseudo),
        ICMP => (icmp::CHECKSUM, Sum::new()),
        ICMPV6 => (icmp::CHECKSUM, pseudo),
        _ => (usize::MAX, Sum::new()),
    };
    let checksum = pseudo.octets(&segment).checksum();
    if let Some(place) = place.checked_add(2).and_then(|end| segment.get_mut(place..end)) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
    [&shape.ethernet[..], &kind.to_be_bytes(), &header, &segment].concat()
}

/// The smallest header of the protocol, without its checksum.
fn transport(flow: &Flow, flags: Flags) -> Vec<u8> {
    let ports = [flow.source_port.to_be_bytes(), flow.destination_port.to_be_bytes()].concat();
    match flow.protocol {
        TCP => {
            let numbers = [[0, 0, 0, 1], [0, 0, 0, u8::from(flags.0 & tcp::flag::ACK != 0)]];
            let window = WINDOW.to_be_bytes();
            [&ports, &numbers.concat(), &[0x50, flags.0][..], &window, &[0; 4]].concat()
        }
        UDP => [&ports[..], &[0; 4]].concat(),
        ICMP | ICMPV6 => {
            let (kind, identifier) = match (flow.protocol, flow.direction) {
                (ICMP, Direction::Forward) => (icmp::v4::ECHO_REQUEST, flow.source_port),
                (ICMP, Direction::Reply) => (icmp::v4::ECHO_REPLY, flow.destination_port),
                (_, Direction::Forward) => (icmp::v6::ECHO_REQUEST, flow.source_port),
                (_, Direction::Reply) => (icmp::v6::ECHO_REPLY, flow.destination_port),
            };
            let numbers = [identifier.to_be_bytes(), flow.sequence.to_be_bytes()].concat();
            [&[kind, 0, 0, 0][..], &numbers].concat()
        }
        _ => vec![0; 8],
    }
}

/// EtherType, IP header, and the sum of the pseudo-header.
fn network(flow: &Flow, length: u16) -> (u16, Vec<u8>, Sum) {
    match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (source, destination) = (source.octets(), destination.octets());
            let header = ipv4::Header {
                header_length: 20,
                tos: 0,
                total_length: length.saturating_add(20),
                identification: 1,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: TTL,
                protocol: flow.protocol,
                source,
                destination,
            };
            let sum = Sum::new().octets(&source).octets(&destination);
            let sum = sum.word(flow.protocol.into()).word(length);
            (kind::IPV4, header.emit().to_vec(), sum)
        }
        (source, destination) => {
            let [source, destination] =
                [source, destination].map(|address| wire::Address::from(address).octets());
            let header = ipv6::Header {
                traffic_class: 0,
                flow_label: 0,
                payload_length: length,
                next_header: flow.protocol,
                hop_limit: TTL,
                source,
                destination,
            };
            let sum = pseudo_v6(source, destination, length.into(), flow.protocol);
            (kind::IPV6, header.emit().to_vec(), sum)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::packet::{PROTOCOL_UDP, checksum};

    fn shape(octets: u16) -> Shape {
        Shape { ethernet: [2; 12], flags: Flags(tcp::flag::SYN), octets }
    }

    #[test]
    fn every_packets_checksums_are_right() {
        for (protocol, source, destination) in [
            ("tcp", "192.0.2.1:1234", "203.0.113.10:443"),
            ("udp", "192.0.2.1:1234", "203.0.113.10:53"),
            ("tcp", "[2001:db8::1]:1234", "[2001:db8::10]:443"),
            ("udp", "[2001:db8::1]:1234", "[2001:db8::10]:53"),
            ("icmp", "2001:db8::1", "2001:db8::10"),
        ] {
            let flow = Flow::parse(protocol, source, destination, &[]).unwrap();
            for octets in [0, 100, 1501] {
                let frame = frame(&flow, &shape(octets));
                let (addresses, segment) = match flow.source {
                    IpAddr::V4(_) => (&frame[26..34], &frame[34..]),
                    IpAddr::V6(_) => (&frame[22..54], &frame[54..]),
                };
                let length = u32::try_from(segment.len()).unwrap().to_be_bytes();
                let pseudo = [addresses, &length, &[0, 0, 0, flow.protocol], segment].concat();
                assert_eq!(checksum(&pseudo), 0, "{protocol} {source} {octets}");
                if flow.source.is_ipv4() {
                    assert_eq!(checksum(&frame[14..34]), 0);
                }
            }
        }
        assert_eq!(PROTOCOL_UDP, UDP);
    }

    #[test]
    fn a_packet_has_the_size_that_was_asked_for_or_that_of_its_headers() {
        let flow = Flow::parse("icmp", "192.0.2.1", "203.0.113.10", &[]).unwrap();
        assert_eq!(frame(&flow, &shape(0)).len(), 14 + 28);
        assert_eq!(frame(&flow, &shape(1500)).len(), 14 + 1500);
        assert_eq!(checksum(&frame(&flow, &shape(90))[34..]), 0);
    }
}
