//! Headers around the flow: tags, options, extension headers, fragments, checksums.

use super::*;
use crate::lb::layout::Direction;
use testkit::packet::{Fragments, checksum};

/// A world with a UDP service behind both families' addresses.
fn dns() -> World {
    let mut world = World::new();
    let (four, six) = (world.backend(BACKEND4, 53), world.backend(BACKEND6, 53));
    world.serve(VIP4, 53, UDP, Mode::Nat, &[four]);
    world.serve(VIP6, 53, UDP, Mode::Nat, &[six]);
    world
}

#[test]
fn l4_05_a_vlan_tag_is_kept() {
    let mut world = web(Mode::Nat);
    let tagged = Hop { vlan: 42u16.to_ne_bytes(), ..hop(BACK, BACKEND_MAC) };
    world.tables.routes.insert(address(BACKEND4), Ok(tagged));
    // Priority and drop eligibility are the sender's.
    let frame = ethernet(ROUTER_MAC, FRONT_MAC).tag(0x8100, 0xb02a).ipv4(syn()).build();
    let seen = ipv4(CLIENT4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).syn());
    let expected = ethernet(BACK_MAC, BACKEND_MAC).tag(0x8100, 0xb02a).ipv4(seen).build();
    world.receive(FRONT, &frame).leaves_as(BACK, &expected);
}

#[test]
fn l4_05_a_reply_has_the_tag_of_its_client_also_after_routes_changed() {
    let mut world = web(Mode::Nat);
    let frame = ethernet(ROUTER_MAC, FRONT_MAC).tag(0x8100, 42).ipv4(syn()).build();
    let seen = ipv4(CLIENT4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).syn());
    // The way to the backend has no tag, and the frame to it has none.
    world.receive(FRONT, &frame).reaches_backend(seen);
    for _ in 0..2 {
        let reply = ipv4(BACKEND4, CLIENT4).tcp(tcp(8080, 40_000).syn().ack());
        let told = ipv4(VIP4, CLIENT4).ttl(63).tcp(tcp(80, 40_000).syn().ack());
        let expected = ethernet(FRONT_MAC, ROUTER_MAC).tag(0x8100, 42).ipv4(told).build();
        world.backend_sends(reply).leaves_as(FRONT, &expected);
        world.tables.settings.generation += 1;
    }
}

#[test]
fn l4_05_one_arm_keeps_the_tag_that_a_frame_came_with() {
    let mut world = web(Mode::Nat);
    world.tables.routes.insert(address(BACKEND4), Ok(hop(FRONT, BACKEND_MAC)));
    let seen = ipv4(CLIENT4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).syn());
    let frame = ethernet(ROUTER_MAC, FRONT_MAC).tag(0x8100, 42).ipv4(syn()).build();
    let expected = ethernet(FRONT_MAC, BACKEND_MAC).tag(0x8100, 42).ipv4(seen.clone()).build();
    world.receive(FRONT, &frame).turns_into(&expected);
    let plain = ethernet(ROUTER_MAC, FRONT_MAC).ipv4(syn()).build();
    world.receive(FRONT, &plain).turns_into(&ethernet(FRONT_MAC, BACKEND_MAC).ipv4(seen).build());
}

#[test]
fn l4_05_two_tags_are_kept() {
    let mut world = web(Mode::Nat);
    let tagged = Hop { vlan: 42u16.to_ne_bytes(), ..hop(BACK, BACKEND_MAC) };
    world.tables.routes.insert(address(BACKEND4), Ok(tagged));
    let frame = |from, to| ethernet(from, to).tag(0x88a8, 42).vlan(7);
    let seen = ipv4(CLIENT4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).syn());
    let outcome = world.receive(FRONT, &frame(ROUTER_MAC, FRONT_MAC).ipv4(syn()).build());
    outcome.leaves_as(BACK, &frame(BACK_MAC, BACKEND_MAC).ipv4(seen).build());
}

#[test]
fn padding_behind_a_short_packet_stays() {
    let mut world = dns();
    let frame = |from, to, packet: Ipv4| ethernet(from, to).ipv4(packet).padded().build();
    let sent = frame(ROUTER_MAC, FRONT_MAC, ipv4(CLIENT4, VIP4).udp(9, 53, b"?"));
    let seen = ipv4(CLIENT4, BACKEND4).ttl(63).udp(9, 53, b"?");
    world.receive(FRONT, &sent).leaves_as(BACK, &frame(BACK_MAC, BACKEND_MAC, seen));
    assert_eq!(world.tables.traffic(0).octets_in, 29);
}

#[test]
fn l4_21_ports_stand_behind_ipv4_options() {
    for words in 0..=10 {
        let options = vec![1; words * 4];
        let mut world = web(Mode::Nat);
        let packet = |to, port| ipv4(CLIENT4, to).options(&options).tcp(tcp(40_000, port).syn());
        world.client_sends(packet(VIP4, 80)).reaches_backend(packet(BACKEND4, 8080).ttl(63));
    }
}

#[test]
fn l4_19_ports_stand_behind_ipv6_extension_headers() {
    type Chain = fn(Ipv6) -> Ipv6;
    let chains: [(&str, Chain); 6] = [
        ("none", |packet| packet),
        ("hop by hop", |packet| packet.hop_by_hop([])),
        ("destination options", |packet| packet.destination_options([1; 14])),
        ("routing that ends here", |packet| packet.routing(4, 0, [0; 4])),
        ("atomic fragment", |packet| packet.fragment(9, 0, Fragments::Last)),
        ("eight", |packet| {
            (0..7).fold(packet.hop_by_hop([]), |packet, _| packet.destination_options([]))
        }),
    ];
    for (name, chain) in chains {
        let mut world = dns();
        let sent = chain(ipv6(CLIENT6, VIP6)).udp(40_000, 53, b"?");
        let expected = chain(ipv6(CLIENT6, BACKEND6)).hop_limit(63).udp(40_000, 53, b"?");
        let outcome = world.client_sends(sent);
        assert_eq!(outcome.verdict, Verdict::Redirect(BACK), "{name}");
        outcome.reaches_backend(expected);
    }
}

#[test]
fn l4_19_extension_headers_without_end_are_dropped_if_they_are_for_us() {
    let long = |to: &str| {
        let packet = (0..9).fold(ipv6(CLIENT6, to), |packet, _| packet.destination_options([]));
        packet.udp(40_000, 53, b"?")
    };
    let onward = |to: &str| ipv6(CLIENT6, to).routing(0, 1, [0; 20]).udp(40_000, 53, b"?");
    let mut world = dns();
    world.client_sends(long(VIP6)).is_dropped(DropReason::IpExtensions);
    world.client_sends(onward(VIP6)).is_dropped(DropReason::IpExtensions);
    world.client_sends(long(BACKEND6)).passes();
    world.client_sends(onward(BACKEND6)).passes();
}

#[test]
fn l4_19_headers_beyond_the_reach_of_the_kernels_build_are_dropped_here_too() {
    // The last header may start at 1984: 14 + 40 octets are before these.
    let packet = |octets: usize| {
        let header = [vec![0, u8::try_from(octets / 8 - 1).unwrap()], vec![0; octets - 2]].concat();
        ipv6(CLIENT6, VIP6).extension(60, header).udp(40_000, 53, b"?")
    };
    let mut world = dns();
    world.route(BACKEND6, BACK, BACKEND_MAC);
    let Some(Ok(way)) = world.tables.routes.get_mut(&address(BACKEND6)) else { panic!() };
    way.mtu = 9000u16.to_ne_bytes();
    world.client_sends(packet(1928)).leaves();
    world.client_sends(packet(1936)).is_dropped(DropReason::IpTruncated);
    world.client_sends(packet(2048)).is_dropped(DropReason::IpTruncated);
}

#[test]
fn fragments_are_dropped_if_they_are_for_us_alone() {
    let mut world = dns();
    let four = |to: &str| ipv4(CLIENT4, to).udp(40_000, 53, b"12345678");
    let six = |to: &str, offset, more| {
        ipv6(CLIENT6, to).fragment(1, offset, more).udp(40_000, 53, b"12345678")
    };
    world.client_sends(four(VIP4).more_fragments()).is_dropped(DropReason::Fragment);
    world.client_sends(four(VIP4).fragment_offset(3)).is_dropped(DropReason::Fragment);
    world.client_sends(four(BACKEND4).more_fragments()).passes();
    world.client_sends(four(BACKEND4).fragment_offset(3)).passes();
    for (offset, more) in [(0, Fragments::More), (3, Fragments::More), (3, Fragments::Last)] {
        world.client_sends(six(VIP6, offset, more)).is_dropped(DropReason::Fragment);
        world.client_sends(six(BACKEND6, offset, more)).passes();
    }
}

#[test]
fn l4_08_a_packet_whose_hops_are_used_up_goes_no_further() {
    for ttl in [0, 1] {
        let mut world = dns();
        let four = ipv4(CLIENT4, VIP4).ttl(ttl).udp(40_000, 53, b"?");
        world.client_sends(four).is_refused(DropReason::TtlExpired);
        let six = ipv6(CLIENT6, VIP6).hop_limit(ttl).udp(40_000, 53, b"?");
        world.client_sends(six).is_refused(DropReason::TtlExpired);
        assert!(world.tables.sessions().is_empty());
        // Of a known session it is the same.
        world.client_sends(ipv4(CLIENT4, VIP4).ttl(2).udp(40_000, 53, b"?")).leaves();
        let again = ipv4(CLIENT4, VIP4).ttl(ttl).udp(40_000, 53, b"?");
        world.client_sends(again).is_refused(DropReason::TtlExpired);
        let reply = ipv4(BACKEND4, CLIENT4).ttl(ttl).udp(53, 40_000, b"!");
        world.backend_sends(reply).is_refused(DropReason::TtlExpired);
    }
}

#[test]
fn a_packet_larger_than_the_way_takes_goes_no_further() {
    let mut world = dns();
    let four = |to: &str, bytes| ipv4(CLIENT4, to).udp(40_000, 53, vec![7; bytes]);
    world.client_sends(four(VIP4, 1473)).is_dropped(DropReason::TooBig);
    world.client_sends(four(VIP4, 1472)).reaches_backend(four(BACKEND4, 1472).ttl(63));
    world.client_sends(four(VIP4, 1473)).is_dropped(DropReason::TooBig);
    let six = |to: &str, bytes| ipv6(CLIENT6, to).udp(40_000, 53, vec![7; bytes]);
    // Where nobody may fragment it, its source is told.
    let whole = |bytes| four(VIP4, bytes).dont_fragment();
    world.client_sends(whole(1473)).is_refused(DropReason::TooBig);
    world.client_sends(six(VIP6, 1453)).is_refused(DropReason::TooBig);
    world.client_sends(six(VIP6, 1452)).reaches_backend(six(BACKEND6, 1452).hop_limit(63));
}

#[test]
fn the_largest_packet_there_is_has_a_verdict() {
    let mut world = dns();
    let four = ipv4(CLIENT4, VIP4).udp(40_000, 53, vec![7; 65_507]);
    world.client_sends(four).is_dropped(DropReason::TooBig);
    let six = ipv6(CLIENT6, VIP6).udp(40_000, 53, vec![7; 65_487]);
    world.client_sends(six).is_refused(DropReason::TooBig);
    let six = ipv6(CLIENT6, VIP6).udp(40_000, 53, vec![7; 65_488]);
    world.client_sends(six).is_dropped(DropReason::IpTruncated);
}

#[test]
fn l4_20_udp_checksum_zero_stays_zero() {
    for mode in [Mode::Nat, Mode::TwiceNat] {
        let mut world = World::new();
        let backend = world.backend(BACKEND4, 5353);
        world.serve(VIP4, 53, UDP, mode, &[backend]);
        let seen = if mode == Mode::Nat { CLIENT4 } else { NODE4 };
        let sent = ipv4(CLIENT4, VIP4).udp_without_checksum(40_000, 53, b"?");
        let expected = ipv4(seen, BACKEND4).ttl(63).udp_without_checksum(40_000, 5353, b"?");
        world.client_sends(sent).reaches_backend(expected);
    }
}

#[test]
fn l4_20_a_udp_checksum_that_comes_out_as_zero_is_sent_as_ffff() {
    // The word that makes the translated datagram's sum come out as zero.
    let plain = ipv4(CLIENT4, BACKEND4).udp(40_000, 53, [0, 0]).build();
    let needed = [plain[26], plain[27]];
    let expected = ipv4(CLIENT4, BACKEND4).ttl(63).udp(40_000, 53, needed);
    assert_eq!(expected.build()[26..28], [0xff, 0xff]);
    dns().client_sends(ipv4(CLIENT4, VIP4).udp(40_000, 53, needed)).reaches_backend(expected);
}

#[test]
fn l4_10_echo_checksum_of_all_65536_values() {
    let mut world = World::new();
    let (four, six) = (world.backend(BACKEND4, 0), world.backend(BACKEND6, 0));
    world.serve(VIP4, 0, ICMP, Mode::TwiceNat, &[four]);
    world.serve(VIP6, 0, ICMPV6, Mode::TwiceNat, &[six]);
    // An identifier below the node's ports, so that it is translated.
    for value in 0..=u16::MAX {
        let body = value.to_be_bytes();
        let sent = ipv4(CLIENT4, VIP4).icmp(icmp(8, 0).echo(7, 1).body(body));
        let asked = world.client_sends(sent);
        asked.leaves();
        assert_eq!(checksum(&asked.frame[34..]), 0);
        let identifier = u16::from_be_bytes([asked.frame[38], asked.frame[39]]);
        let reply = ipv4(BACKEND4, NODE4).icmp(icmp(0, 0).echo(identifier, 1).body(body));
        let expected = ipv4(VIP4, CLIENT4).ttl(63).icmp(icmp(0, 0).echo(7, 1).body(body));
        world.backend_sends(reply).reaches_client(expected);
        let sent = ipv6(CLIENT6, VIP6).icmp(icmp(128, 0).echo(7, 1).body(body));
        world.client_sends(sent).leaves();
    }
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let mut world = web(Mode::TwiceNat);
    for packet in [
        client_segment(tcp(40_000, 80).syn().bad_checksum()),
        ipv4(CLIENT4, VIP4).bad_checksum().tcp(tcp(40_000, 80).syn()),
    ] {
        let outcome = world.client_sends(packet);
        outcome.leaves();
        assert!(verify_sums(&outcome.frame).is_err());
    }
}

#[test]
fn a_frame_that_ends_in_its_headers_is_dropped_if_it_is_known_to_be_for_us() {
    let frame = syn().carried_by(ethernet(ROUTER_MAC, FRONT_MAC));
    for length in 0..frame.len() {
        let mut world = web(Mode::Nat);
        let outcome = world.receive(FRONT, &frame[..length]);
        // Without its destination address it is nobody's.
        if length < 34 {
            outcome.passes();
        } else {
            outcome.is_dropped(DropReason::IpTruncated);
        }
    }
    for (name, packet, reason) in [
        ("no ports", ipv4(CLIENT4, VIP4).payload(TCP, [0; 3]), DropReason::TransportTruncated),
        ("19 octets", ipv4(CLIENT4, VIP4).payload(TCP, [0; 19]), DropReason::TransportTruncated),
        ("7 octets", ipv4(CLIENT4, VIP4).payload(UDP, [0; 7]), DropReason::TransportTruncated),
        ("an echo", ipv4(CLIENT4, VIP4).payload(ICMP, [8; 7]), DropReason::TransportTruncated),
        ("version", syn().false_version(6), DropReason::IpMalformed),
        ("header length", syn().false_header_words(4), DropReason::IpMalformed),
        ("no room", syn().false_total_length(16), DropReason::IpTruncated),
    ] {
        let outcome = web(Mode::Nat).client_sends(packet);
        assert_eq!(outcome.verdict, Verdict::Drop(reason), "{name}");
    }
}

#[test]
fn a_frame_that_ends_in_its_addresses_passes_whatever_came_before() {
    let mut world = dns();
    world.client_sends(ipv4(CLIENT4, VIP4).udp(40_000, 53, b"?")).leaves();
    let frame = ipv4(CLIENT4, VIP4).carried_by(ethernet(ROUTER_MAC, FRONT_MAC));
    world.receive(FRONT, &frame[..33]).passes();
    world.client_sends(ipv6(CLIENT6, VIP6).udp(40_000, 53, b"?")).leaves();
    let frame = ipv6(CLIENT6, VIP6).carried_by(ethernet(ROUTER_MAC, FRONT_MAC));
    world.receive(FRONT, &frame[..53]).passes();
}

#[test]
fn an_ipv4_address_in_an_ipv6_header_is_not_that_address() {
    let mut world = dns();
    let mapped = |source: &str, destination: &str| ipv6(source, destination).udp(40_000, 53, b"?");
    let vip = "::ffff:203.0.113.10";
    world.client_sends(mapped(CLIENT6, vip)).is_dropped(DropReason::IpMalformed);
    world.client_sends(mapped("::ffff:198.51.100.7", VIP6)).is_dropped(DropReason::IpMalformed);
    world.client_sends(mapped(CLIENT6, "::ffff:10.9.9.9")).passes();
}

#[test]
fn a_session_is_found_by_both_keys() {
    let mut world = dns();
    world.client_sends(ipv4(CLIENT4, VIP4).udp(40_000, 53, b"?")).leaves();
    let key = |source: &str, destination: &str, source_port: u16, destination_port: u16| {
        crate::lb::layout::FlowKey {
            source: address(source),
            destination: address(destination),
            source_port: source_port.to_be_bytes(),
            destination_port: destination_port.to_be_bytes(),
            protocol: UDP,
            zero: [0; 3],
        }
    };
    let forward = world.tables.session(&key(CLIENT4, VIP4, 40_000, 53)).unwrap();
    let reply = world.tables.session(&key(BACKEND4, CLIENT4, 53, 40_000)).unwrap();
    assert_eq!((forward.0, forward.1), (reply.0, Direction::Forward));
    assert_eq!(reply.1, Direction::Reply);
    assert!(world.tables.session(&key(BACKEND4, CLIENT4, 53, 40_001)).is_none());
}
