//! ICMP errors about packets of sessions, and errors and resets of our own.

use super::*;

const ROUTER4: &str = "10.0.1.254";
const ROUTER6: &str = "2001:db8:b::254";

/// A node with a UDP service behind both families' addresses.
fn dns(mode: Mode) -> World {
    let mut world = World::new();
    let (four, six) = (world.backend(BACKEND4, 5353), world.backend(BACKEND6, 5353));
    world.serve(VIP4, 53, UDP, mode, &[four]);
    world.serve(VIP6, 53, UDP, mode, &[six]);
    world
}

/// A datagram as it left somebody with this TTL.
fn datagram4(source: &str, destination: &str, from: u16, to: u16, ttl: u8) -> Vec<u8> {
    ipv4(source, destination).ttl(ttl).udp(from, to, [b'x'; 100]).build()
}

#[test]
fn l4_14_an_error_about_a_request_reaches_the_client_as_if_there_were_no_translation() {
    for mode in [Mode::Nat, Mode::TwiceNat] {
        for octets in [128, 60] {
            translated4(mode, octets);
        }
    }
}

#[test]
fn l4_13_a_quote_of_eight_octets_of_payload_is_enough() {
    translated4(Mode::Nat, 28);
    translated4(Mode::TwiceNat, 28);
}

/// An error that quotes so many octets of a datagram on its way to the backend reaches the client.
#[track_caller]
fn translated4(mode: Mode, octets: usize) {
    let mut world = dns(mode);
    let sent = ipv4(CLIENT4, VIP4).udp(40_000, 53, [b'x'; 100]);
    world.client_sends(sent).leaves();
    let seen = if mode == Mode::Nat { CLIENT4 } else { NODE4 };
    let lost = datagram4(seen, BACKEND4, 40_000, 5353, 63);
    let error = ipv4(ROUTER4, seen).icmp(icmp(3, 4).mtu(1400).quoting(&lost, octets));
    let known = datagram4(CLIENT4, VIP4, 40_000, 53, 63);
    let told = icmp(3, 4).mtu(1400).quoting(&known, octets);
    let expected = ipv4(VIP4, CLIENT4).ttl(63).icmp(told);
    world.backend_sends(error).reaches_client(expected);
}

#[test]
fn l4_12_an_icmpv6_error_about_a_request_follows_its_quote() {
    for mode in [Mode::Nat, Mode::TwiceNat] {
        let mut world = dns(mode);
        let sent = ipv6(CLIENT6, VIP6).udp(40_000, 53, [b'x'; 100]);
        world.client_sends(sent).leaves();
        let seen = if mode == Mode::Nat { CLIENT6 } else { NODE6 };
        let quoted = |source: &str, destination: &str, to| {
            ipv6(source, destination).hop_limit(63).udp(40_000, to, [b'x'; 100]).build()
        };
        let lost = quoted(seen, BACKEND6, 5353);
        let error = ipv6(ROUTER6, seen).icmp(icmp(2, 0).mtu(1400).quoting(&lost, 999));
        let told = icmp(2, 0).mtu(1400).quoting(&quoted(CLIENT6, VIP6, 53), 999);
        world.backend_sends(error).reaches_client(ipv6(VIP6, CLIENT6).hop_limit(63).icmp(told));
    }
}

#[test]
fn an_error_about_an_answer_reaches_the_backend() {
    for mode in [Mode::Nat, Mode::TwiceNat] {
        let mut world = dns(mode);
        world.client_sends(ipv4(CLIENT4, VIP4).udp(40_000, 53, b"?")).leaves();
        let lost = datagram4(VIP4, CLIENT4, 53, 40_000, 60);
        let error = ipv4("198.51.100.2", VIP4).icmp(icmp(3, 3).quoting(&lost, 28));
        let (seen, from) = match mode {
            Mode::Nat => (CLIENT4, "198.51.100.2"),
            Mode::TwiceNat => (NODE4, NODE4),
        };
        let known = datagram4(BACKEND4, seen, 5353, 40_000, 60);
        let expected = ipv4(from, BACKEND4).ttl(63).icmp(icmp(3, 3).quoting(&known, 28));
        world.client_sends(error).reaches_backend(expected);
    }
}

#[test]
fn an_error_about_nothing_of_ours_is_dropped_if_it_is_for_us() {
    let mut world = dns(Mode::Nat);
    let lost = datagram4(VIP4, CLIENT4, 53, 1, 60);
    let about = |to: &str, octets| ipv4("198.51.100.2", to).icmp(icmp(3, 3).quoting(&lost, octets));
    world.client_sends(about(VIP4, 28)).is_dropped(DropReason::ErrorUnknown);
    world.client_sends(about(VIP4, 27)).is_dropped(DropReason::ErrorTruncated);
    world.client_sends(about(VIP4, 0)).is_dropped(DropReason::ErrorTruncated);
    world.client_sends(about(NODE4, 28)).passes();
    world.client_sends(about(NODE4, 3)).passes();
}

#[test]
fn l4_08_the_source_of_a_packet_whose_hops_are_used_up_is_told() {
    let mut world = dns(Mode::TwiceNat);
    let sent = ipv4(CLIENT4, VIP4).ttl(1).udp(40_000, 53, [b'x'; 100]);
    let told = icmp(11, 0).quoting(&sent.build(), 548);
    let told = ipv4(VIP4, CLIENT4).tos(0xc0).dont_fragment().icmp(told);
    let told = told.carried_by(ethernet(FRONT_MAC, ROUTER_MAC));
    let outcome = world.client_sends(sent);
    outcome.is_refused(DropReason::TtlExpired);
    assert_eq!(outcome.frame, told);
}

#[test]
fn l4_15_the_mtu_that_is_told_is_the_ways() {
    let mut world = dns(Mode::TwiceNat);
    let sent = ipv4(CLIENT4, VIP4).dont_fragment().udp(40_000, 53, [b'x'; 1473]);
    let told = icmp(3, 4).mtu(1500).quoting(&sent.build(), 548);
    let told = ipv4(VIP4, CLIENT4).tos(0xc0).dont_fragment().icmp(told);
    let outcome = world.client_sends(sent);
    outcome.is_refused(DropReason::TooBig);
    assert_eq!(outcome.frame, told.carried_by(ethernet(FRONT_MAC, ROUTER_MAC)));
    let sent = ipv6(CLIENT6, VIP6).udp(40_000, 53, [b'x'; 1453]);
    let told = icmp(2, 0).mtu(1500).quoting(&sent.build(), 1232);
    let told = ipv6(VIP6, CLIENT6).traffic_class(0xc0).icmp(told);
    let outcome = world.client_sends(sent);
    outcome.is_refused(DropReason::TooBig);
    assert_eq!(outcome.frame, told.carried_by(ethernet(FRONT_MAC, ROUTER_MAC)));
}

#[test]
fn l4_16_the_largest_segment_is_lowered_and_never_raised() {
    let cases: [(&str, Vec<u8>, Vec<u8>); 7] = [
        ("lowered", vec![2, 4, 0x05, 0xb4], vec![2, 4, 0x04, 0xb0]),
        ("kept", vec![2, 4, 0x02, 0x18], vec![2, 4, 0x02, 0x18]),
        ("behind others", vec![1, 3, 3, 7, 2, 4, 5, 180], vec![1, 3, 3, 7, 2, 4, 4, 176]),
        ("at an odd place", vec![1, 2, 4, 5, 180, 0], vec![1, 2, 4, 4, 176, 0]),
        ("length 0 does not loop", vec![8, 0, 2, 4, 5, 180], vec![8, 0, 2, 4, 5, 180]),
        ("none", vec![], vec![]),
        ("cut short", vec![1, 1, 2, 4], vec![1, 1, 2, 4]),
    ];
    for (name, before, after) in cases {
        let mut world = web(Mode::Nat);
        world.tables.backends[0].segment = 1200;
        let sent = client_segment(tcp(40_000, 80).syn().options(&before));
        let seen = tcp(40_000, 8080).syn().options(&after);
        let seen = ipv4(CLIENT4, BACKEND4).ttl(63).tcp(seen);
        let outcome = world.client_sends(sent);
        assert_eq!(outcome.frame[54..], seen.build()[40..], "{name}");
        outcome.reaches_backend(seen);
        let reply = backend_segment(tcp(8080, 40_000).syn().ack().options(&before));
        let seen = tcp(80, 40_000).syn().ack().options(&after);
        world.backend_sends(reply).reaches_client(ipv4(VIP4, CLIENT4).ttl(63).tcp(seen));
    }
}

#[test]
fn l4_32_open_connections_of_a_removed_backend_are_kept_or_reset() {
    let mut world = web(Mode::Nat);
    open(&mut world);
    let data = || client_segment(tcp(40_000, 80).data(b"GET").numbers(7, 9));
    world.is_gone(0);
    world.client_sends(data()).leaves();
    world.tables.backends[0].flags |= backend_flag::RESET;
    let outcome = world.client_sends(data());
    outcome.is_refused(DropReason::SessionReset);
    assert_eq!(outcome.frame[47], 4, "RST");
    assert_eq!(outcome.frame[38..42], 9u32.to_be_bytes());
}
