//! What is not ours, and what nobody may have.

use super::*;

#[test]
fn what_is_not_ours_passes_untouched() {
    let mut world = web(Mode::Nat);
    let node = || ethernet(ROUTER_MAC, FRONT_MAC);
    let frames: [(&str, Vec<u8>); 9] = [
        ("SSH to the node", node().ipv4(ipv4(CLIENT4, NODE4).tcp(tcp(5, 22).syn())).build()),
        ("to a client", node().ipv4(ipv4(BACKEND4, CLIENT4).tcp(tcp(5, 22).syn())).build()),
        ("IPv6", node().ipv6(ipv6(CLIENT6, NODE6).udp(1, 2, b"x")).build()),
        ("LLDP", node().payload(0x88cc, vec![1; 50]).build()),
        ("three tags", node().vlan(1).vlan(2).vlan(3).ipv4(syn()).build()),
        ("an unknown version", node().ipv4(ipv4(CLIENT4, NODE4).false_version(9)).build()),
        ("nothing", Vec::new()),
        ("half an address", vec![2, 0, 0]),
        ("no payload", node().payload(0x0800, []).build()),
    ];
    for (name, frame) in frames {
        assert_eq!(world.receive(FRONT, &frame).verdict, Verdict::Pass, "{name}");
    }
}

#[test]
fn an_interface_that_is_not_served_passes_everything() {
    let mut world = web(Mode::Nat);
    let frame = syn().carried_by(ethernet(ROUTER_MAC, FRONT_MAC));
    world.receive(77, &frame).passes();
}

#[test]
fn a_frame_for_another_machine_is_that_machines() {
    let mut world = web(Mode::Nat);
    let damaged = || syn().more_fragments();
    for to in [BACKEND_MAC, BACK_MAC] {
        world.receive(FRONT, &syn().carried_by(ethernet(ROUTER_MAC, to))).passes();
        world.receive(FRONT, &damaged().carried_by(ethernet(ROUTER_MAC, to))).passes();
    }
}

#[test]
fn a_frame_for_a_group_is_not_balanced() {
    let mut world = web(Mode::Nat);
    for to in [BROADCAST, [1, 0, 0x5e, 0, 0, 1]] {
        world.receive(FRONT, &syn().carried_by(ethernet(ROUTER_MAC, to))).passes();
    }
    assert!(world.tables.sessions().is_empty());
}

#[test]
fn l4_09_an_unknown_port_of_a_vip_is_dropped_and_never_passed() {
    let mut world = web(Mode::Nat);
    world.owns(VIP6);
    for port in [0, 22, 79, 81, 65_535] {
        let outcome = world.client_sends(ipv4(CLIENT4, VIP4).tcp(tcp(40_000, port).syn()));
        outcome.is_refused(DropReason::NoService);
        let outcome = world.client_sends(ipv6(CLIENT6, VIP6).tcp(tcp(40_000, port).syn()));
        outcome.is_refused(DropReason::NoService);
    }
    world.client_sends(ipv4(CLIENT4, VIP4).udp(40_000, 80, b"?")).is_refused(DropReason::NoService);
    // An echo of the address itself is answered.
    let echo = ipv4(CLIENT4, VIP4).icmp(icmp(8, 0).echo(1, 1));
    let answer = ipv4(VIP4, CLIENT4).icmp(icmp(0, 0).echo(1, 1));
    let answer = answer.carried_by(ethernet(FRONT_MAC, ROUTER_MAC));
    world.client_sends(echo).turns_into(&answer);
    // With no answer left to give it is dropped.
    world.tables.answers.set(0);
    let last = ipv4(CLIENT4, VIP4).tcp(tcp(40_000, 81).syn());
    world.client_sends(last).is_dropped(DropReason::NoService);
    world.tables.answers.set(1);
    let raw = ipv4(CLIENT4, VIP4).payload(RAW, b"raw");
    world.client_sends(raw).is_refused(DropReason::NoService);
}

#[test]
fn a_packet_to_a_translation_address_without_a_session_is_dropped() {
    let mut world = web(Mode::TwiceNat);
    let pool = "192.0.2.99";
    let owned = Owned { until_ns: u64::MAX, kind: owned_kind::SOURCE, zero: 0 };
    world.tables.owned.insert(address(pool), owned);
    let stray = ipv4(BACKEND4, pool).tcp(tcp(8080, 40_000).ack());
    world.backend_sends(stray).is_dropped(DropReason::NoSession);
}

#[test]
fn a_source_that_no_router_forwards_opens_no_session() {
    let mut world = web(Mode::Nat);
    let six = world.backend(BACKEND6, 80);
    world.serve(VIP6, 80, TCP, Mode::Nat, &[six]);
    for source in
        ["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"]
    {
        let outcome = world.client_sends(ipv4(source, VIP4).tcp(tcp(40_000, 80).syn()));
        outcome.is_dropped(DropReason::SourceInvalid);
    }
    for source in ["::", "::1", "fe80::1", "ff02::1"] {
        let outcome = world.client_sends(ipv6(source, VIP6).tcp(tcp(40_000, 80).syn()));
        outcome.is_dropped(DropReason::SourceInvalid);
    }
    assert!(world.tables.sessions().is_empty());
}

#[test]
fn a_service_without_a_backend_drops_new_flows_and_keeps_open_ones() {
    let mut world = web(Mode::Nat);
    open(&mut world);
    world.is_gone(0);
    let service = world.tables.services.get_mut(&service_key(VIP4, 80, TCP)).unwrap();
    service.rows = 0;
    let other = ipv4(CLIENT4, VIP4).tcp(tcp(40_001, 80).syn());
    world.client_sends(other).is_dropped(DropReason::NoBackend);
    world.client_sends(client_segment(tcp(40_000, 80).data(b"GET"))).leaves();
    world.backend_sends(backend_segment(tcp(8080, 40_000).data(b"OK"))).leaves();
}

#[test]
fn every_reason_of_the_routing_table_has_its_own_name() {
    for reason in [
        DropReason::RouteBlackhole,
        DropReason::RouteUnreachable,
        DropReason::RouteProhibited,
        DropReason::RouteNotForwarded,
        DropReason::ForwardingDisabled,
        DropReason::RouteUnsupported,
        DropReason::NoNeighbour,
    ] {
        let mut world = web(Mode::Nat);
        world.tables.routes.insert(address(BACKEND4), Err(reason));
        world.client_sends(syn()).is_dropped(reason);
        assert!(world.tables.sessions().is_empty());
        assert_eq!(world.tables.half_open(), 0);
    }
}

#[test]
fn a_solicitation_to_an_address_of_ours_never_reaches_the_host() {
    let mut world = World::new();
    world.owns(VIP6);
    let question = || testkit::packet::neighbour_solicitation(NODE6, Some(ROUTER_MAC));
    // About another address, or through a router: not to be answered, but ours.
    let other = ipv6(CLIENT6, VIP6).hop_limit(255).icmp(question());
    world.client_sends(other).is_dropped(DropReason::NoService);
    let far = testkit::packet::neighbour_solicitation(VIP6, Some(ROUTER_MAC));
    world.client_sends(ipv6(CLIENT6, VIP6).icmp(far)).is_dropped(DropReason::NoService);
    // The host's own are the host's.
    world.client_sends(ipv6(CLIENT6, NODE6).hop_limit(255).icmp(question())).passes();
}
