//! The way out: interface, Ethernet addresses, VLAN, and what happens when routes change.

use super::*;

#[test]
fn one_arm_transmits_and_two_arms_redirect() {
    let mut world = web(Mode::Nat);
    world.client_sends(syn()).leaves();
    let mut world = web(Mode::Nat);
    world.route(BACKEND4, FRONT, BACKEND_MAC);
    let seen = ipv4(CLIENT4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).syn());
    let outcome = world.client_sends(syn());
    outcome.turns_into(&seen.carried_by(ethernet(FRONT_MAC, BACKEND_MAC)));
    let reply = backend_segment(tcp(8080, 40_000).syn().ack());
    let outcome = world.receive(FRONT, &reply.carried_by(ethernet(BACKEND_MAC, FRONT_MAC)));
    let seen = ipv4(VIP4, CLIENT4).ttl(63).tcp(tcp(80, 40_000).syn().ack());
    outcome.turns_into(&seen.carried_by(ethernet(FRONT_MAC, ROUTER_MAC)));
}

#[test]
fn a_way_is_looked_up_again_only_when_something_changed() {
    let mut world = web(Mode::Nat);
    open(&mut world);
    world.route(BACKEND4, FRONT, SECOND_MAC);
    world.route(CLIENT4, BACK, SECOND_MAC);
    let data = || client_segment(tcp(40_000, 80).data(b"GET"));
    let reply = || backend_segment(tcp(8080, 40_000).data(b"OK"));
    assert_eq!(world.client_sends(data()).verdict, Verdict::Redirect(BACK));
    assert_eq!(world.backend_sends(reply()).verdict, Verdict::Redirect(FRONT));
    world.routes_changed();
    let moved = world.client_sends(data());
    assert_eq!((moved.verdict, &moved.frame[..6]), (Verdict::Transmit, &SECOND_MAC[..]));
    let moved = world.backend_sends(reply());
    assert_eq!((moved.verdict, &moved.frame[..6]), (Verdict::Transmit, &SECOND_MAC[..]));
}

#[test]
fn every_generation_differs_from_the_one_before_and_from_none() {
    for generation in [0xffff, 0x1_0000, 0x1_ffff, 0x2_0000, u32::MAX] {
        let mut world = web(Mode::Nat);
        world.tables.settings.generation = generation - 1;
        world.client_sends(syn()).leaves();
        world.tables.settings.generation = generation;
        world.route(BACKEND4, BACK, SECOND_MAC);
        assert_eq!(world.client_sends(syn()).frame[..6], SECOND_MAC, "{generation:#x}");
        // A backend that no packet has gone to.
        let mut world = web(Mode::Nat);
        world.tables.settings.generation = generation;
        let outcome = world.client_sends(syn());
        assert_eq!(outcome.verdict, Verdict::Redirect(BACK), "{generation:#x}");
    }
}

#[test]
fn l4_07_while_a_neighbour_is_unknown_the_last_way_stays_and_the_neighbour_is_asked_for() {
    let mut world = web(Mode::Nat);
    open(&mut world);
    world.tables.wanted.borrow_mut().clear();
    world.tables.routes.insert(address(BACKEND4), Err(DropReason::NoNeighbour));
    world.tables.routes.insert(address(CLIENT4), Err(DropReason::NoNeighbour));
    world.routes_changed();
    let data = || client_segment(tcp(40_000, 80).data(b"GET"));
    let seen = ipv4(CLIENT4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).data(b"GET"));
    world.client_sends(data()).reaches_backend(seen);
    let reply = backend_segment(tcp(8080, 40_000).data(b"OK"));
    let expected = ipv4(VIP4, CLIENT4).ttl(63).tcp(tcp(80, 40_000).data(b"OK"));
    world.backend_sends(reply).reaches_client(expected);
    assert_eq!(*world.tables.wanted.borrow(), [address(BACKEND4), address(CLIENT4)]);
    // Known again, it has moved.
    world.route(BACKEND4, BACK, SECOND_MAC);
    assert_eq!(world.client_sends(data()).frame[..6], SECOND_MAC);
}

#[test]
fn l4_07_without_any_way_the_packet_is_dropped_and_the_neighbour_asked_for() {
    let mut world = web(Mode::Nat);
    world.tables.routes.insert(address(BACKEND4), Err(DropReason::NoNeighbour));
    world.client_sends(syn()).is_dropped(DropReason::NoNeighbour);
    assert_eq!(*world.tables.wanted.borrow(), [address(BACKEND4)]);
    world.route(BACKEND4, BACK, BACKEND_MAC);
    world.client_sends(syn()).leaves();
}

#[test]
fn l4_07_a_client_on_our_own_subnet_is_answered_where_it_came_from() {
    let mut world = web(Mode::Nat);
    world.tables.routes.insert(address(CLIENT4), Err(DropReason::NoNeighbour));
    let client_mac = [2, 0, 0, 0, 0, 0x77];
    let frame = ethernet(client_mac, FRONT_MAC).vlan(9).ipv4(syn()).build();
    world.receive(FRONT, &frame).leaves();
    let reply = world.backend_sends(backend_segment(tcp(8080, 40_000).syn().ack()));
    let seen = ipv4(VIP4, CLIENT4).ttl(63).tcp(tcp(80, 40_000).syn().ack());
    reply.leaves_as(FRONT, &ethernet(FRONT_MAC, client_mac).vlan(9).ipv4(seen).build());
}

#[test]
fn a_frame_changes_its_vlan_with_its_way() {
    let seen4 = || ipv4(CLIENT4, BACKEND4).ttl(63).tcp(tcp(40_000, 8080).syn());
    let cases: [(&str, Option<u16>, u16); 4] =
        [("in", None, 7), ("out", Some(7), 0), ("over", Some(7), 9), ("kept", Some(7), 7)];
    for (name, before, after) in cases {
        let mut world = web(Mode::Nat);
        let tagged = Hop { vlan: after.to_ne_bytes(), ..hop(BACK, BACKEND_MAC) };
        world.tables.routes.insert(address(BACKEND4), Ok(tagged));
        let frame = ethernet(ROUTER_MAC, FRONT_MAC);
        let frame = before.map_or(frame.clone(), |vlan| frame.vlan(vlan)).ipv4(syn()).build();
        let expected = ethernet(BACK_MAC, BACKEND_MAC);
        let expected = if after == 0 { expected } else { expected.vlan(after) };
        let outcome = world.receive(FRONT, &frame);
        assert_eq!(outcome.frame, expected.ipv4(seen4()).build(), "{name}");
        outcome.leaves();
    }
    // IPv6 has its own EtherType.
    let mut world = World::new();
    let backend = world.backend(BACKEND6, 53);
    world.serve(VIP6, 53, UDP, Mode::Nat, &[backend]);
    let frame = ethernet(ROUTER_MAC, FRONT_MAC).vlan(7).ipv6(ipv6(CLIENT6, VIP6).udp(1, 53, b"?"));
    let seen = ipv6(CLIENT6, BACKEND6).hop_limit(63).udp(1, 53, b"?");
    world.receive(FRONT, &frame.build()).reaches_backend(seen);
}

#[test]
fn a_frame_with_two_tags_changes_neither() {
    let mut world = web(Mode::Nat);
    let frame = ethernet(ROUTER_MAC, FRONT_MAC).tag(0x88a8, 7).vlan(8).ipv4(syn()).build();
    world.receive(FRONT, &frame).is_dropped(DropReason::NoHeadroom);
}
