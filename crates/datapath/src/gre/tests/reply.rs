//! Backend of the other family to client: back into the frontend's envelope.

use super::*;
use testkit::packet::{Fragments, gre, icmp, ipv4, ipv6};

const KEY: u32 = 42;

/// The world after the client's first packet, which made the record of the pool.
fn v6_to_v4_with_client() -> FixedTables {
    let mut tables = v6_to_v4();
    let packet = ipv6(CLIENT6, FRONTEND6).gre(gre().key(KEY)).build();
    assert_eq!(verdict(&packet, &mut tables), Verdict::ToBackend(0));
    tables.identification = 0;
    tables
}

#[test]
fn a_reply_through_the_prefix_comes_from_the_frontend() {
    for header in [gre().payload(b"x"), gre().key(KEY).checksum().sequence(1)] {
        let sent = ipv6(BACKEND6, EMBEDDED_CLIENT4).traffic_class(0xb9).hop_limit(64);
        let sent = sent.flow_label(9).gre(header.clone()).build();
        let expected = ipv4(FRONTEND4, CLIENT4).tos(0xb9).ttl(63).id(1).gre(header).build();
        let (verdict, octets) = decide(&sent, &mut v4_to_v6());
        assert_eq!(verdict, Verdict::ToClient(0));
        assert_eq!(octets, expected);
    }
}

#[test]
fn a_reply_through_the_pool_comes_from_the_frontend() {
    let header = gre().key(KEY).checksum().payload(b"x");
    let sent = ipv4(BACKEND4, POOL4).tos(0xb9).dont_fragment().gre(header.clone()).build();
    let (verdict, octets) = decide(&sent, &mut v6_to_v4_with_client());
    assert_eq!(verdict, Verdict::ToClient(0));
    let [_, a, b, c, ..] = octets[..] else { panic!() };
    let label = u32::from_be_bytes([0, a & 0xf, b, c]);
    assert_ne!(label, 0);
    let expected = ipv6(FRONTEND6, CLIENT6).traffic_class(0xb9).hop_limit(63).flow_label(label);
    assert_eq!(octets, expected.gre(header).build());
}

#[test]
fn l3_24_only_a_backend_may_reply() {
    let packet = ipv6("2001:db8:bad::1", EMBEDDED_CLIENT4).gre(gre()).build();
    is_dropped(&packet, DropReason::BackendUnknown, &mut v4_to_v6());
    let packet = ipv4("10.0.0.2", POOL4).gre(gre().key(KEY)).build();
    is_dropped(&packet, DropReason::BackendUnknown, &mut v6_to_v4_with_client());
    // A backend of the client's family has no business with return addresses, whatever notation
    // its address comes in.
    let mut mixed = FixedTables::new(ip(FRONTEND4), &[ip(BACKEND6), ip(BACKEND4)]);
    mixed = mixed.with_prefix(ip(PREFIX));
    let packet = ipv6("::ffff:10.0.0.1", EMBEDDED_CLIENT4).gre(gre()).build();
    is_dropped(&packet, DropReason::SourceInvalid, &mut mixed);
}

#[test]
fn a_backend_that_is_down_may_still_reply() {
    let mut tables = v4_to_v6();
    tables.winners.clear();
    let packet = ipv6(BACKEND6, EMBEDDED_CLIENT4).gre(gre()).build();
    assert_eq!(verdict(&packet, &mut tables), Verdict::ToClient(0));
}

#[test]
fn a_return_address_that_names_no_client_is_dropped() {
    let mut tables = v6_to_v4_with_client();
    for header in [gre(), gre().key(KEY + 1), gre().key(0)] {
        let packet = ipv4(BACKEND4, POOL4).gre(header).build();
        is_dropped(&packet, DropReason::ClientUnknown, &mut tables);
    }
    for embedded in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "169.254.0.1"] {
        let to = std::format!("2001:db8:64::{embedded}");
        let packet = ipv6(BACKEND6, &to).gre(gre()).build();
        is_dropped(&packet, DropReason::ClientUnknown, &mut v4_to_v6());
    }
}

#[test]
fn replies_are_read_as_strictly_as_packets_of_clients() {
    for (packet, reason) in [
        (ipv6(BACKEND6, EMBEDDED_CLIENT4).gre(gre().version(1)), DropReason::GreVersion),
        (ipv6(BACKEND6, EMBEDDED_CLIENT4).gre(gre().routing()), DropReason::GreRouting),
        (ipv6(BACKEND6, EMBEDDED_CLIENT4).payload(47, [0x20, 0, 8, 0]), DropReason::GreTruncated),
        (
            ipv6(BACKEND6, EMBEDDED_CLIENT4).fragment(1, 0, Fragments::More).gre(gre()),
            DropReason::OuterFragment,
        ),
    ] {
        is_dropped(&packet.build(), reason, &mut v4_to_v6());
    }
    let mut tables = v4_to_v6();
    tables.mtu = None;
    let packet = ipv6(BACKEND6, EMBEDDED_CLIENT4).gre(gre()).build();
    is_dropped(&packet, DropReason::NoRoute, &mut tables);
}

#[test]
fn other_protocols_and_addresses_beside_the_prefix_and_pool_are_left_to_the_host() {
    for packet in [
        ipv6(BACKEND6, EMBEDDED_CLIENT4).udp(1, 2, b"x").build(),
        ipv6(BACKEND6, EMBEDDED_CLIENT4).icmp(icmp(128, 0).echo(1, 2)).build(),
        ipv6(BACKEND6, "2001:db8:64::1:198.51.100.7").gre(gre()).build(),
        ipv6(ROUTER6, EMBEDDED_CLIENT4).icmp(icmp(2, 0).mtu(1280).body([0; 48])).build(),
    ] {
        assert_eq!(verdict(&packet, &mut v4_to_v6()), Verdict::Pass);
    }
    for packet in [
        ipv4(BACKEND4, POOL4).udp(1, 2, b"x").build(),
        ipv4(BACKEND4, "10.9.0.2").gre(gre().key(KEY)).build(),
    ] {
        assert_eq!(verdict(&packet, &mut v6_to_v4_with_client()), Verdict::Pass);
    }
}
