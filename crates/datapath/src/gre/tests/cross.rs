//! Client to a backend of the other family: the envelope of RFC 7915 4.1 and 5.1.

use super::*;
use crate::gre::Returns;
use testkit::packet::{Gre, gre, ipv4, ipv6};
use xxhash_rust::xxh64::xxh64;

const KEY: u32 = 42;

fn inner() -> Gre {
    gre().key(KEY).checksum().sequence(3).payload(b"inner packet")
}

/// The low 20 bits of the flow's hash, by the other implementation of XXH64.
fn label(client: &str, key: u32) -> u32 {
    let key = (1 << 32 | u64::from(key)).to_le_bytes();
    let hash = xxh64(&[&address(client).octets()[..], &key].concat(), 0x67_7265);
    u32::try_from(hash & 0xf_ffff).unwrap()
}

#[test]
fn l3_58_ipv4_is_rebuilt_as_ipv6_field_by_field() {
    // Version 6; traffic class = TOS; payload length = total length - header; next header 47;
    // hop limit = TTL - 1; source in the /96; destination the backend. The flow label, 0 in
    // RFC 7915, spreads flows (RFC 6438 2).
    let envelope = || ipv6(EMBEDDED_CLIENT4, BACKEND6).flow_label(label(CLIENT4, KEY));
    for tos in [0, 3, 0xb8, 0xff] {
        let sent = ipv4(CLIENT4, FRONTEND4).tos(tos).ttl(9).id(7).gre(inner()).build();
        let expected = envelope().traffic_class(tos).hop_limit(8).gre(inner()).build();
        becomes(&sent, &expected, &mut v4_to_v6());
    }
    // Options are left behind, DF has no counterpart.
    for sent in [
        ipv4(CLIENT4, FRONTEND4).options([1; 40]).gre(inner()),
        ipv4(CLIENT4, FRONTEND4).dont_fragment().gre(inner()),
    ] {
        let expected = envelope().hop_limit(63).gre(inner()).build();
        becomes(&sent.build(), &expected, &mut v4_to_v6());
    }
}

#[test]
fn l3_58_ipv6_is_rebuilt_as_ipv4_field_by_field() {
    // IHL 5; TOS = traffic class; total length = payload length + 20; DF 0 and an identification
    // up to 1260 octets; TTL = hop limit - 1; protocol 47; source from the pool.
    for class in [0, 3, 0xb8, 0xff] {
        let mut tables = v6_to_v4();
        tables.identification = 0x1233;
        let sent = ipv6(CLIENT6, FRONTEND6).traffic_class(class).flow_label(5).hop_limit(9);
        let expected = ipv4(POOL4, BACKEND4).tos(class).ttl(8).id(0x1234).gre(inner()).build();
        becomes(&sent.gre(inner()).build(), &expected, &mut tables);
    }
    // Extension headers are left behind.
    let sent = ipv6(CLIENT6, FRONTEND6).hop_by_hop([]).destination_options([4, 1, 4]).gre(inner());
    let expected = ipv4(POOL4, BACKEND4).id(1).ttl(63).gre(inner()).build();
    becomes(&sent.build(), &expected, &mut v6_to_v4());
}

#[test]
fn l3_17_ipv4_made_of_ipv6_has_df_or_an_identification() {
    // RFC 7915 5.1: up to 1260 octets DF is 0 and the identification unique, beyond DF is 1.
    for (length, fragmentable) in [(28, true), (1259, true), (1260, true), (1261, false)] {
        let header = gre().key(KEY).payload(vec![1; length - 28]);
        let mut tables = v6_to_v4();
        tables.identification = 0xff;
        let expected = match fragmentable {
            true => ipv4(POOL4, BACKEND4).id(0x100),
            false => ipv4(POOL4, BACKEND4).dont_fragment(),
        };
        let sent = ipv6(CLIENT6, FRONTEND6).gre(header.clone()).build();
        becomes(&sent, &expected.ttl(63).gre(header).build(), &mut tables);
    }
}

#[test]
fn l3_47_gre_checksum_is_untouched_across_families() {
    for header in [inner(), gre().key(KEY).bad_checksum().payload([0; 99])] {
        let header = header.build();
        let v4 = ipv4(CLIENT4, FRONTEND4).payload(47, &header).build();
        assert_eq!(decide(&v4, &mut v4_to_v6()).1[40..], header);
        let v6 = ipv6(CLIENT6, FRONTEND6).payload(47, &header).build();
        assert_eq!(decide(&v6, &mut v6_to_v4()).1[20..], header);
    }
}

#[test]
fn l3_22_flow_labels_spread_flows_and_are_never_0() {
    let mut labels: Vec<_> = (0..500)
        .map(|key| {
            let packet = ipv4(CLIENT4, FRONTEND4).gre(gre().key(key)).build();
            let (_, octets) = decide(&packet, &mut v4_to_v6());
            u32::from_be_bytes([0, octets[1] & 0xf, octets[2], octets[3]])
        })
        .collect();
    assert!(labels.iter().all(|label| *label != 0));
    labels.sort_unstable();
    labels.dedup();
    assert!(labels.len() > 490, "{}", labels.len());
}

#[test]
fn l3_22_a_flow_whose_hash_ends_in_zeros_has_a_label_all_the_same() {
    // 0 says that there is no label (RFC 6437 2).
    let key = (0..).find(|key| label(CLIENT4, *key) == 0).unwrap();
    let packet = ipv4(CLIENT4, FRONTEND4).gre(gre().key(key)).build();
    let expected = ipv6(EMBEDDED_CLIENT4, BACKEND6).flow_label(1).hop_limit(63);
    becomes(&packet, &expected.gre(gre().key(key)).build(), &mut v4_to_v6());
}

#[test]
fn l3_50_a_client_without_key_cannot_go_through_the_pool() {
    let packet = ipv6(CLIENT6, FRONTEND6).gre(gre()).build();
    let mut tables = v6_to_v4();
    is_dropped(&packet, DropReason::KeyRequired, &mut tables);
    assert!(tables.clients.is_empty());
    // Through the /96 it can: there the client's address itself comes back.
    let packet = ipv4(CLIENT4, FRONTEND4).gre(gre()).build();
    assert_eq!(verdict(&packet, &mut v4_to_v6()), Verdict::ToBackend(0));
}

#[test]
fn l3_50_two_clients_of_one_key_get_two_pool_addresses_and_a_third_none() {
    let mut tables = v6_to_v4().with_pool(&[ip(POOL4), ip("10.9.0.2")]);
    let mut source = |client, key| {
        let packet = ipv6(client, FRONTEND6).gre(gre().key(key)).build();
        match decide(&packet, &mut tables) {
            (Verdict::ToBackend(0), octets) => Ok(octets[12..16].to_vec()),
            (verdict, _) => Err(verdict),
        }
    };
    let (first, second) = (source("2001:db8::a", 7), source("2001:db8::b", 7));
    assert!(first.is_ok() && second.is_ok() && first != second);
    assert_eq!(source("2001:db8::c", 7), Err(Verdict::Drop(DropReason::PoolExhausted)));
    assert!(source("2001:db8::c", 8).is_ok());
    assert_eq!(source("2001:db8::a", 7), first);
}

#[test]
fn without_a_way_back_no_packet_crosses_families() {
    let mut tables = v4_to_v6();
    tables.service.returns = Returns::None;
    let packet = ipv4(CLIENT4, FRONTEND4).gre(gre()).build();
    is_dropped(&packet, DropReason::NoRoute, &mut tables);
}

#[test]
fn without_room_before_the_packet_it_cannot_grow() {
    let mut packet = ipv4(CLIENT4, FRONTEND4).gre(gre()).build();
    let end = packet.len();
    let mut frame = SliceFrame::new(&mut packet, 0, end).unwrap();
    let verdict = process(&mut frame, &mut v4_to_v6());
    assert_eq!(verdict, Verdict::Drop(DropReason::NoHeadroom));
}

#[test]
fn the_longest_packet_grows_no_further_than_its_length_field() {
    // 65,535 octets of IPv4 are 65,555 of IPv6, whose payload length still fits; the other way
    // round a payload of 65,535 octets does not fit.
    let mut tables = v4_to_v6();
    tables.mtu = Some(u32::MAX);
    let packet = ipv4(CLIENT4, FRONTEND4).gre(gre().payload(vec![0; 65_535 - 24])).build();
    let (verdict, octets) = decide(&packet, &mut tables);
    assert_eq!((verdict, octets.len()), (Verdict::ToBackend(0), 65_555));
    let mut tables = v6_to_v4();
    tables.mtu = Some(u32::MAX);
    let packet = ipv6(CLIENT6, FRONTEND6).gre(gre().key(1).payload(vec![0; 65_535 - 8])).build();
    is_dropped(&packet, DropReason::TooBig, &mut tables);
}
