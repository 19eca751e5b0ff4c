//! The IP headers by themselves: what is read of them, and how they are rewritten.

use super::*;
use crate::SliceFrame;
use std::vec;
use std::vec::Vec;
use testkit::packet::{Fragments, ipv4, ipv6};

const V4: (&str, &str) = ("198.51.100.7", "192.0.2.1");
const V6: (&str, &str) = ("2001:db8:c::7", "2001:db8::1");

fn parse(mut packet: Vec<u8>) -> Result<Packet, Damage> {
    let end = packet.len();
    Packet::parse(&SliceFrame::new(&mut packet, 0, end).unwrap())
}

#[test]
fn every_field_of_an_ipv4_header_is_read_from_its_place() {
    let built = ipv4(V4.0, V4.1).tos(0xb9).ttl(7).dont_fragment().options([1; 8]);
    let packet = parse(built.payload(47, [0; 10]).build()).unwrap();
    let expected = Packet {
        source: Address::v4([198, 51, 100, 7]),
        destination: Address::v4([192, 0, 2, 1]),
        family: Family::V4,
        protocol: 47,
        payload: 28,
        length: 38,
        ttl: 7,
        tos: 0xb9,
        dont_fragment: true,
        part: Part::Whole,
    };
    assert_eq!(packet, expected);
}

#[test]
fn every_field_of_an_ipv6_header_is_read_from_its_place() {
    let built = ipv6(V6.0, V6.1).traffic_class(0xb9).hop_limit(7).flow_label(0xabcde);
    let built = built.hop_by_hop([0; 14]).payload(47, [0; 10]);
    let packet = parse(built.build()).unwrap();
    let address = |text: &str| Address::from(text.parse::<std::net::IpAddr>().unwrap());
    let expected = Packet {
        source: address(V6.0),
        destination: address(V6.1),
        family: Family::V6,
        protocol: 47,
        payload: 56,
        length: 66,
        ttl: 7,
        tos: 0xb9,
        dont_fragment: true,
        part: Part::Whole,
    };
    assert_eq!(packet, expected);
}

#[test]
fn the_header_ends_where_each_ihl_says() {
    for words in 5..=15 {
        let options = vec![1; (words - 5) * 4];
        let packet = parse(ipv4(V4.0, V4.1).options(options).payload(47, [0; 4]).build()).unwrap();
        assert_eq!((packet.payload, packet.length), (words * 4, words * 4 + 4));
    }
}

#[test]
fn each_flag_and_offset_of_ipv4_tells_the_part() {
    let base = || ipv4(V4.0, V4.1).payload(47, [0; 8]);
    for (packet, part) in [
        (base(), Part::Whole),
        (base().dont_fragment(), Part::Whole),
        (base().reserved_flag(), Part::Whole),
        (base().more_fragments(), Part::First),
        (base().more_fragments().fragment_offset(1), Part::Later),
        (base().fragment_offset(1), Part::Later),
        (base().fragment_offset(0x1000), Part::Later),
        (base().fragment_offset(0x1fff), Part::Later),
    ] {
        assert_eq!(parse(packet.build()).unwrap().part, part, "{packet:?}");
    }
}

#[test]
fn each_fragment_header_of_ipv6_tells_the_part() {
    let base = || ipv6(V6.0, V6.1);
    for (packet, part) in [
        (base().fragment(1, 0, Fragments::Last), Part::Whole),
        (base().fragment(1, 0, Fragments::More), Part::First),
        (base().fragment(1, 1, Fragments::More), Part::Later),
        (base().fragment(1, 1, Fragments::Last), Part::Later),
        (base().fragment(1, 0x1fff, Fragments::Last), Part::Later),
        // A second fragment header cannot make a whole of a part.
        (base().fragment(1, 0, Fragments::More).fragment(1, 0, Fragments::Last), Part::First),
        (base().fragment(1, 0, Fragments::Last).fragment(1, 0, Fragments::More), Part::First),
        (base().fragment(1, 0, Fragments::More).destination_options([]), Part::First),
    ] {
        let packet = parse(packet.payload(47, [0; 8]).build()).unwrap();
        assert_eq!((packet.part, packet.protocol), (part, 47));
    }
    let unknown = base().fragment(1, 1, Fragments::Last).destination_options([]);
    assert_eq!(parse(unknown.payload(47, []).build()), Err(Damage::Fragment));
}

#[test]
fn other_next_headers_end_the_walk() {
    for protocol in [1, 4, 6, 17, 41, 50, 58, 59, 89, 132, 135, 139, 140, 253, 255] {
        let packet = parse(ipv6(V6.0, V6.1).hop_by_hop([]).payload(protocol, [0; 4]).build());
        let packet = packet.unwrap();
        assert_eq!((packet.protocol, packet.payload), (protocol, 48));
    }
}

#[test]
fn one_wrong_bit_in_an_ipv4_header_is_noticed() {
    let whole = ipv4(V4.0, V4.1).options([1; 8]).payload(47, [0; 300]).build();
    for at in 0..28 {
        for bit in 0..8 {
            let damaged = testkit::packet::corrupt(whole.clone(), at, 1 << bit);
            assert!(parse(damaged).is_err(), "octet {at}, bit {bit}");
        }
    }
}

#[test]
fn a_checksum_of_either_form_of_zero_is_right() {
    // RFC 1624 3: a header that sums to ffff may carry ffff or 0.
    let base = ipv4("0.0.0.0", "0.0.0.0").ttl(0).payload(0, []);
    let plain = base.clone().build();
    let sum = u16::from_be_bytes([plain[10], plain[11]]);
    // The identification that makes all other words sum to ffff.
    let mut packet = base.id(sum).build();
    assert_eq!(packet[10..12], [0, 0]);
    assert!(parse(packet.clone()).is_ok());
    packet[10..12].copy_from_slice(&[0xff, 0xff]);
    assert!(parse(packet).is_ok());
}

#[test]
fn readdressing_a_packet_with_no_hop_left_changes_nothing() {
    let mut octets = ipv4(V4.0, V4.1).ttl(0).build();
    let packet = parse(octets.clone()).unwrap();
    let before = octets.clone();
    let end = octets.len();
    let mut frame = SliceFrame::new(&mut octets, 0, end).unwrap();
    assert_eq!(readdress(&mut frame, &packet, Address::v4([10, 0, 0, 1])), None);
    assert_eq!(octets, before);
}
