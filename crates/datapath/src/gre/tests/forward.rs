//! Client to a backend of the client's own family.

use super::*;
use testkit::packet::{corrupt, gre, icmp, ipv4, ipv6};

#[test]
fn l3_08_ipv4_changes_only_in_destination_ttl_and_header_checksum() {
    let inner = gre().key(42).checksum().sequence(3).payload(b"inner packet");
    let sent = ipv4(CLIENT4, FRONTEND4).tos(0xb9).id(0x1234).ttl(200).dont_fragment();
    let sent = sent.gre(inner.clone()).build();
    let expected = ipv4(CLIENT4, BACKEND4).tos(0xb9).id(0x1234).ttl(199).dont_fragment();
    becomes(&sent, &expected.gre(inner).build(), &mut v4_to_v4());
}

#[test]
fn l3_08_ipv6_changes_only_in_destination_and_hop_limit() {
    let inner = gre().key(42).checksum().sequence(3).payload(b"inner packet");
    let envelope = |to| ipv6(CLIENT6, to).traffic_class(0xb9).flow_label(0xabcde);
    let sent = envelope(FRONTEND6).hop_limit(200).gre(inner.clone()).build();
    let expected = envelope(BACKEND6).hop_limit(199).gre(inner).build();
    becomes(&sent, &expected, &mut v6_to_v6());
}

#[test]
fn l3_18_every_dscp_and_ecn_value_is_kept() {
    for tos in 0..=255 {
        let v4 = |to| ipv4(CLIENT4, to).tos(tos).gre(gre());
        becomes(&v4(FRONTEND4).build(), &v4(BACKEND4).ttl(63).build(), &mut v4_to_v4());
        let v6 = |to| ipv6(CLIENT6, to).traffic_class(tos).gre(gre());
        becomes(&v6(FRONTEND6).build(), &v6(BACKEND6).hop_limit(63).build(), &mut v6_to_v6());
    }
}

#[test]
fn the_header_checksum_is_right_for_every_identification_and_ttl() {
    // 65,536 checksums, each with another TTL: the incremental update of RFC 1624.
    for id in 0..=u16::MAX {
        let ttl = u8::try_from(2 + id % 254).unwrap();
        let packet = |to, ttl| ipv4(CLIENT4, to).id(id).ttl(ttl).gre(gre()).build();
        becomes(&packet(FRONTEND4, ttl), &packet(BACKEND4, ttl - 1), &mut v4_to_v4());
    }
}

#[test]
fn l3_17_df_identification_and_the_reserved_flag_are_kept() {
    for packet in [
        |to| ipv4(CLIENT4, to).id(7),
        |to| ipv4(CLIENT4, to).id(0).dont_fragment(),
        |to| ipv4(CLIENT4, to).id(0xffff).reserved_flag(),
    ] {
        let expected = packet(BACKEND4).ttl(63).gre(gre()).build();
        becomes(&packet(FRONTEND4).gre(gre()).build(), &expected, &mut v4_to_v4());
    }
}

#[test]
fn l3_21_ipv4_options_are_stepped_over_and_kept() {
    for options in [&[1u8; 4][..], &[7, 7, 4, 0, 0, 0, 0, 0], &[1; 40]] {
        let packet = |to| ipv4(CLIENT4, to).options(options).gre(gre().key(9).payload(b"x"));
        let expected = packet(BACKEND4).ttl(63).build();
        becomes(&packet(FRONTEND4).build(), &expected, &mut v4_to_v4());
        // The same backend as without options.
        let plain = ipv4(CLIENT4, FRONTEND4).gre(gre().key(9)).build();
        assert_eq!(row(&packet(FRONTEND4).build(), &mut v4_to_v4()), row(&plain, &mut v4_to_v4()));
    }
}

#[test]
fn l3_55_destination_options_before_gre_are_stepped_over_and_kept() {
    // What Linux' ip6gre sends: tunnel encapsulation limit 4, padded (RFC 2473 4.1.1).
    let packet = |to| {
        ipv6(CLIENT6, to).destination_options([4, 1, 4, 1, 1, 0]).gre(gre().key(9).payload(b"x"))
    };
    let expected = packet(BACKEND6).hop_limit(63).build();
    becomes(&packet(FRONTEND6).build(), &expected, &mut v6_to_v6());
    let plain = ipv6(CLIENT6, FRONTEND6).gre(gre().key(9)).build();
    assert_eq!(row(&packet(FRONTEND6).build(), &mut v6_to_v6()), row(&plain, &mut v6_to_v6()));
}

#[test]
fn padding_behind_the_packet_is_cut() {
    for padding in [1, 6, 46, 1000] {
        let v4 = |to| ipv4(CLIENT4, to).gre(gre().key(1));
        let padded = [v4(FRONTEND4).build(), vec![0xee; padding]].concat();
        becomes(&padded, &v4(BACKEND4).ttl(63).build(), &mut v4_to_v4());
        let v6 = |to| ipv6(CLIENT6, to).gre(gre().key(1));
        let padded = [v6(FRONTEND6).build(), vec![0xee; padding]].concat();
        becomes(&padded, &v6(BACKEND6).hop_limit(63).build(), &mut v6_to_v6());
    }
}

#[test]
fn rows_choose_among_backends_and_a_row_without_winner_drops() {
    let backends: Vec<_> = (1..=5).map(|n| ip(&std::format!("10.0.0.{n}"))).collect();
    let mut tables = FixedTables::new(ip(FRONTEND4), &backends);
    for key in 0..100 {
        let packet = ipv4(CLIENT4, FRONTEND4).gre(gre().key(key)).build();
        let (verdict, octets) = decide(&packet, &mut tables);
        let winner = tables.asked.get().unwrap() % 5;
        assert_eq!(verdict, Verdict::ToBackend(winner));
        assert_eq!(octets[16..20], [10, 0, 0, u8::try_from(winner + 1).unwrap()]);
    }
    tables.winners.clear();
    let packet = ipv4(CLIENT4, FRONTEND4).gre(gre()).build();
    is_dropped(&packet, DropReason::NoHealthyBackend, &mut tables);
    // A row of an older configuration may name a backend that is gone.
    tables.winners = vec![5];
    is_dropped(&packet, DropReason::NoHealthyBackend, &mut tables);
}

#[test]
fn without_a_route_the_packet_is_dropped() {
    let mut tables = v4_to_v4();
    tables.mtu = None;
    let packet = ipv4(CLIENT4, FRONTEND4).gre(gre()).build();
    is_dropped(&packet, DropReason::NoRoute, &mut tables);
}

#[test]
fn l3_24_sources_that_no_network_delivers_are_dropped() {
    for source in [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        // Link-local: no router forwards it (RFC 3927 2.7).
        "169.254.1.1",
        // The frontend itself.
        FRONTEND4,
    ] {
        let packet = ipv4(source, FRONTEND4).gre(gre()).build();
        is_dropped(&packet, DropReason::SourceInvalid, &mut v4_to_v4());
        is_dropped(&packet, DropReason::SourceInvalid, &mut v4_to_v6());
    }
    for source in [
        "::",
        "::1",
        "ff02::1",
        "ff0e::1",
        // Link-local: no router forwards it (RFC 4291 2.5.6).
        "fe80::1",
        "febf::1",
        // An IPv4 address in IPv6 notation is none on the wire (RFC 6890 2.2.3).
        "::ffff:198.51.100.7",
        FRONTEND6,
    ] {
        let packet = ipv6(source, FRONTEND6).gre(gre().key(1)).build();
        is_dropped(&packet, DropReason::SourceInvalid, &mut v6_to_v6());
        is_dropped(&packet, DropReason::SourceInvalid, &mut v6_to_v4());
    }
}

#[test]
fn what_is_not_for_the_frontend_is_left_to_the_host_as_it_came() {
    let other4 = || ipv4(CLIENT4, "192.0.2.2");
    let other6 = || ipv6(CLIENT6, "2001:db8::2");
    let v4 = ipv4(CLIENT4, FRONTEND4);
    let v6 = ipv6(CLIENT6, FRONTEND6);
    let reply4 = ipv4(FRONTEND4, CLIENT4).gre(gre()).build();
    let frontend_in_v6 = std::format!("::ffff:{FRONTEND4}");
    for packet in [
        other4().gre(gre()).build(),
        other4().gre(gre().version(1)).build(),
        other4().more_fragments().gre(gre()).build(),
        other4().gre(gre()).bad_checksum().build(),
        corrupt(other4().gre(gre()).build(), 3, 0x80),
        other6().gre(gre()).build(),
        other6().fragment(1, 9, testkit::packet::Fragments::Last).gre(gre()).build(),
        other6().routing(0, 1, [0; 4]).gre(gre()).build(),
        // The frontend's address in a packet of the other family is not the frontend.
        ipv6(CLIENT6, &frontend_in_v6).gre(gre()).build(),
        // Other protocols of the host, whole or in fragments.
        v4.clone().udp(1, 2, b"x").build(),
        v4.clone().more_fragments().udp(1, 2, b"x").build(),
        v4.clone().fragment_offset(9).payload(17, [0; 8]).build(),
        v4.clone().payload(6, [0; 20]).build(),
        v6.clone().udp(1, 2, b"x").build(),
        v6.clone().fragment(1, 0, testkit::packet::Fragments::More).udp(1, 2, b"x").build(),
        v6.clone().payload(59, []).build(),
        // The host answers echo requests to the frontend, and the other family's ICMP is none.
        v4.clone().icmp(icmp(8, 0).echo(1, 2).body(b"ping")).build(),
        v4.clone().icmp(icmp(0, 0).echo(1, 2)).build(),
        v4.clone().more_fragments().icmp(icmp(8, 0).echo(1, 2)).build(),
        // Nor is a fragment an ICMP error, whatever it seems to quote.
        v4.clone().more_fragments().icmp(icmp(3, 4).body(reply4.clone())).build(),
        v4.clone().fragment_offset(3).icmp(icmp(3, 4).body(reply4)).build(),
        v4.clone().payload(58, [1; 8]).build(),
        v6.clone().icmp(icmp(128, 0).echo(1, 2).body(b"ping")).build(),
        v6.clone().icmp(icmp(135, 0)).build(),
        v6.clone().payload(1, [3; 8]).build(),
    ] {
        for mut tables in [v4_to_v4(), v6_to_v6(), v4_to_v6(), v6_to_v4()] {
            let (verdict, octets) = decide(&packet, &mut tables);
            assert_eq!(verdict, Verdict::Pass, "{packet:02x?}");
            assert_eq!(octets, packet);
        }
    }
}
