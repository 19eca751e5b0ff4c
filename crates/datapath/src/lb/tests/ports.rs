//! Addresses and ports that the backend sees as the client.

use super::*;
use std::collections::BTreeSet;

/// Twice-NAT with these ports of the node's own address alone, to two backends.
fn narrow(first_port: u16, last_port: u16) -> World {
    let mut world = World::with_sessions(1024);
    world.tables.sources[0].first_port = first_port;
    world.tables.sources[0].last_port = last_port;
    let (first, second) = (world.backend(BACKEND4, 53), world.backend(SECOND4, 53));
    world.serve(VIP4, 53, UDP, Mode::TwiceNat, &[first]);
    world.serve(OTHER_VIP4, 53, UDP, Mode::TwiceNat, &[second]);
    world
}

#[test]
fn l4_25_all_of_64_ports_are_used_and_the_65th_flow_is_a_counted_drop() {
    // Clients' ports outside of the range, all inside, and half of them.
    for clients in [1_000, 20_000, 20_032] {
        let mut world = narrow(20_000, 20_063);
        let mut seen = BTreeSet::new();
        for port in clients..clients + 64 {
            let outcome = world.client_sends(ipv4(CLIENT4, VIP4).udp(port, 53, b"?"));
            outcome.leaves();
            assert!(seen.insert(outcome.source_port()), "port {port}");
        }
        assert_eq!(seen, (20_000..=20_063).collect());
        let one_more = |vip: &str| ipv4(CLIENT4, vip).udp(clients + 64, 53, b"?");
        world.client_sends(one_more(VIP4)).is_dropped(DropReason::SnatExhausted);
        // Towards another backend the same ports are free.
        world.client_sends(one_more(OTHER_VIP4)).leaves();
        // What is open goes on.
        world.client_sends(ipv4(CLIENT4, VIP4).udp(clients, 53, b"?")).leaves();
    }
}

#[test]
fn l4_25_the_last_free_port_is_found_by_every_client() {
    for own in 20_000..20_064 {
        let mut world = narrow(20_000, 20_063);
        for port in 1_000..1_063 {
            world.client_sends(ipv4(CLIENT4, VIP4).udp(port, 53, b"?")).leaves();
        }
        world.client_sends(ipv4(CLIENT4, VIP4).udp(own, 53, b"?")).leaves();
    }
}

#[test]
fn l4_25_every_address_of_a_pool_is_used_to_its_last_port() {
    let mut world = narrow(20_000, 20_007);
    let source = world.tables.sources[0];
    // Three addresses of 8, 2 and 30 ports.
    world.tables.sources = vec![
        source,
        Source { address: address("10.0.1.2"), first_port: 30_000, last_port: 30_001, ..source },
        Source { address: address("10.0.1.3"), first_port: 1, last_port: 30, ..source },
    ];
    world.tables.backends[0].sources = 3;
    let mut seen = BTreeSet::new();
    for port in 0..40 {
        let outcome = world.client_sends(ipv4(CLIENT4, VIP4).udp(40_000 + port, 53, b"?"));
        assert_eq!(outcome.verdict, Verdict::Redirect(BACK), "flow {port}");
        assert!(seen.insert(outcome.frame[26..36].to_vec()));
    }
    let last = ipv4(CLIENT4, VIP4).udp(50_000, 53, b"?");
    world.client_sends(last).is_dropped(DropReason::SnatExhausted);
}

#[test]
fn without_an_address_to_translate_to_nothing_is_translated() {
    let mut world = narrow(20_000, 20_063);
    world.tables.backends[0].sources = 0;
    let packet = ipv4(CLIENT4, VIP4).udp(1, 53, b"?");
    world.client_sends(packet).is_dropped(DropReason::SnatExhausted);
}

#[test]
fn a_client_keeps_its_own_port_where_it_is_free() {
    let mut world = narrow(20_000, 20_063);
    let kept = world.client_sends(ipv4(CLIENT4, VIP4).udp(20_010, 53, b"?"));
    assert_eq!(kept.source_port(), 20_010);
    // Another client with that port gets another one, of the range.
    world.route("198.51.100.8", FRONT, ROUTER_MAC);
    let other = world.client_sends(ipv4("198.51.100.8", VIP4).udp(20_010, 53, b"?"));
    assert!((20_000..=20_063).contains(&other.source_port()));
    assert_ne!(other.source_port(), 20_010);
}

#[test]
fn a_protocol_without_ports_has_one_client_an_address() {
    let mut world = World::new();
    let backend = world.backend(BACKEND4, 0);
    world.serve(VIP4, 0, RAW, Mode::TwiceNat, &[backend]);
    world.route("198.51.100.8", FRONT, ROUTER_MAC);
    world.client_sends(ipv4(CLIENT4, VIP4).payload(RAW, b"1")).leaves();
    let second = ipv4("198.51.100.8", VIP4).payload(RAW, b"2");
    world.client_sends(second).is_dropped(DropReason::SnatExhausted);
}

#[test]
fn l4_37_two_vips_before_one_backend_are_told_apart() {
    let mut world = web(Mode::Nat);
    world.serve(OTHER_VIP4, 80, TCP, Mode::Nat, &[0]);
    let seen = ipv4(CLIENT4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).syn());
    world.client_sends(syn()).reaches_backend(seen);
    // The same port to the other address: the backend could not tell them apart.
    let second = ipv4(CLIENT4, OTHER_VIP4).tcp(tcp(40_000, 80).syn());
    let seen = ipv4(NODE4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).syn());
    world.client_sends(second).reaches_backend(seen);
    for (to, vip) in [(CLIENT4, VIP4), (NODE4, OTHER_VIP4)] {
        let reply = ipv4(BACKEND4, to).tcp(tcp(8080, 40_000).syn().ack());
        let expected = ipv4(vip, CLIENT4).ttl(63).tcp(tcp(80, 40_000).syn().ack());
        world.backend_sends(reply).reaches_client(expected);
    }
}

#[test]
fn l4_38_a_backend_that_is_its_own_client_sees_the_node() {
    let mut world = web(Mode::Nat);
    let hairpin = |frame: Outcome, to: Mac| {
        assert_eq!(frame.verdict, Verdict::Transmit);
        assert_eq!(frame.frame[..6], to);
        frame.frame[14..].to_vec()
    };
    let sent = ipv4(BACKEND4, VIP4).tcp(tcp(40_000, 80).syn());
    let seen = ipv4(NODE4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).syn()).build();
    assert_eq!(hairpin(world.backend_sends(sent), BACKEND_MAC), seen);
    let reply = ipv4(BACKEND4, NODE4).tcp(tcp(8080, 40_000).syn().ack());
    let seen = ipv4(VIP4, BACKEND4).ttl(63).tcp(tcp(80, 40_000).syn().ack()).build();
    assert_eq!(hairpin(world.backend_sends(reply), BACKEND_MAC), seen);
}
