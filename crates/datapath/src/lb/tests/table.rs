//! Rows: which choice a packet takes, in transition too, and backends that are gone.

use super::*;

/// Two backends; the rows of the UDP and the TCP service are `row`.
fn pair(row: Row) -> World {
    let mut world = World::new();
    let backends = [world.backend(BACKEND4, 0), world.backend(SECOND4, 0)];
    for protocol in [TCP, UDP] {
        world.serve(VIP4, 0, protocol, Mode::Nat, &backends);
        world.rows_become(VIP4, 0, protocol, row);
    }
    world
}

fn udp(port: u16) -> Ipv4 {
    ipv4(CLIENT4, VIP4).udp(port, 53, b"?")
}

#[test]
fn a_row_at_rest_names_the_backend_of_every_packet() {
    let mut world = pair(Row::new(1, 0, false));
    assert_eq!(world.client_sends(syn()).destination(), SECOND4);
    let middle = ipv4(CLIENT4, VIP4).tcp(tcp(40_001, 80).ack());
    assert_eq!(world.client_sends(middle).destination(), SECOND4);
    assert_eq!(world.client_sends(udp(1)).destination(), SECOND4);
}

#[test]
fn in_transition_a_new_connection_takes_the_first_choice_and_all_else_the_previous_owner() {
    let mut world = pair(Row::new(1, 0, true));
    assert_eq!(world.client_sends(syn()).destination(), SECOND4);
    let middle = || ipv4(CLIENT4, VIP4).tcp(tcp(40_001, 80).ack());
    assert_eq!(world.client_sends(middle()).destination(), BACKEND4);
    assert_eq!(world.client_sends(udp(1)).destination(), BACKEND4);
    // They are noted: the end of the transition moves none of them.
    world.rows_become(VIP4, 0, TCP, Row::new(1, 0, false));
    world.rows_become(VIP4, 0, UDP, Row::new(1, 0, false));
    assert_eq!(world.client_sends(middle()).destination(), BACKEND4);
    assert_eq!(world.client_sends(udp(1)).destination(), BACKEND4);
    assert_eq!(world.client_sends(udp(2)).destination(), SECOND4);
}

#[test]
fn l4_33_udp_of_a_backend_that_is_gone_moves_at_once() {
    for moving in [false, true] {
        let mut world = pair(Row::new(0, 1, false));
        assert_eq!(world.client_sends(udp(1)).destination(), BACKEND4);
        world.rows_become(VIP4, 0, UDP, Row::new(1, 0, moving));
        world.is_gone(0);
        for _ in 0..3 {
            assert_eq!(world.client_sends(udp(1)).destination(), SECOND4, "moving: {moving}");
        }
        // A flow that nobody has seen before does not go there either.
        assert_eq!(world.client_sends(udp(2)).destination(), SECOND4, "moving: {moving}");
        assert_eq!(world.tables.traffic(0).packets_in, 1);
    }
}

#[test]
fn l4_33_udp_comes_back_to_a_backend_that_recovers() {
    let mut world = pair(Row::new(0, 1, false));
    // Nothing to translate clients to: the backend must see this one.
    world.tables.backends.iter_mut().for_each(|backend| backend.sources = 0);
    world.client_sends(udp(1)).leaves();
    for _ in 0..3 {
        for (away, to, backend) in [(0, 1, SECOND4), (1, 0, BACKEND4)] {
            world.is_gone(away);
            world.tables.backends[usize::from(to)].flags = 0;
            world.rows_become(VIP4, 0, UDP, Row::new(to, away, true));
            let outcome = world.client_sends(udp(1));
            outcome.leaves();
            assert_eq!(outcome.destination(), backend);
            assert_eq!(outcome.frame[26..30], [198, 51, 100, 7]);
            let reply = ipv4(backend, CLIENT4).udp(53, 1, b"!");
            let expected = ipv4(VIP4, CLIENT4).ttl(63).udp(53, 1, b"!");
            world.backend_sends(reply).reaches_client(expected);
        }
    }
}

#[test]
fn l4_33_echo_of_a_backend_that_is_gone_moves_at_once() {
    let mut world = pair(Row::new(0, 1, false));
    world.serve(VIP4, 0, ICMP, Mode::Nat, &[0, 1]);
    world.rows_become(VIP4, 0, ICMP, Row::new(0, 1, false));
    let echo = |sequence| ipv4(CLIENT4, VIP4).icmp(icmp(8, 0).echo(7, sequence));
    assert_eq!(world.client_sends(echo(1)).destination(), BACKEND4);
    world.is_gone(0);
    world.rows_become(VIP4, 0, ICMP, Row::new(1, 0, true));
    assert_eq!(world.client_sends(echo(2)).destination(), SECOND4);
    let reply = ipv4(SECOND4, CLIENT4).icmp(icmp(0, 0).echo(7, 2));
    world
        .backend_sends(reply)
        .reaches_client(ipv4(VIP4, CLIENT4).ttl(63).icmp(icmp(0, 0).echo(7, 2)));
}

#[test]
fn a_choice_that_is_gone_is_passed_over_before_the_rows_say_so() {
    let mut world = pair(Row::new(0, 1, false));
    world.client_sends(udp(1)).leaves();
    world.is_gone(0);
    assert_eq!(world.client_sends(udp(1)).destination(), SECOND4);
    assert_eq!(world.client_sends(udp(2)).destination(), SECOND4);
    assert_eq!(world.client_sends(syn()).destination(), SECOND4);
    world.is_gone(1);
    world.client_sends(udp(3)).is_dropped(DropReason::NoBackend);
    world.client_sends(udp(1)).is_dropped(DropReason::NoBackend);
    let other = ipv4(CLIENT4, VIP4).tcp(tcp(40_001, 80).syn());
    world.client_sends(other).is_dropped(DropReason::NoBackend);
    assert_eq!(world.tables.half_open(), 1);
}

#[test]
fn the_middle_of_a_connection_stays_with_its_previous_owner_though_that_is_gone() {
    let mut world = pair(Row::new(1, 0, true));
    world.is_gone(0);
    let middle = ipv4(CLIENT4, VIP4).tcp(tcp(40_001, 80).ack());
    assert_eq!(world.client_sends(middle).destination(), BACKEND4);
}

#[test]
fn a_client_with_affinity_stays_with_its_backend_from_every_port() {
    let mut world = World::new();
    let backends: Vec<u16> = (0..8).map(|_| world.backend(BACKEND4, 0)).collect();
    world.serve(VIP4, 0, UDP, Mode::TwiceNat, &backends);
    let chosen = |world: &mut World| {
        for port in 1..=20 {
            world.client_sends(udp(port)).leaves();
        }
        let mut ids: Vec<u16> = world.tables.sessions().iter().map(|s| s.backend_id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    };
    assert!(chosen(&mut world) > 3);
    let mut world = World::new();
    for _ in 0..8 {
        world.backend(BACKEND4, 0);
    }
    world.serve(VIP4, 0, UDP, Mode::TwiceNat, &backends);
    world.tables.services.get_mut(&service_key(VIP4, 0, UDP)).unwrap().affinity_s = 60;
    assert_eq!(chosen(&mut world), 1);
}

#[test]
fn every_node_chooses_the_same_backend() {
    // The session index is seeded with a secret of each node, the choice is not.
    let mut choices = Vec::new();
    for seed in [1, 2] {
        let mut world = World::new();
        world.tables.settings.seed = seed;
        let backends = [world.backend(BACKEND4, 0), world.backend(SECOND4, 0)];
        world.serve(VIP4, 0, UDP, Mode::Nat, &backends);
        let chosen: Vec<_> =
            (1..50).map(|port| world.client_sends(udp(port)).destination()).collect();
        choices.push(chosen);
    }
    assert_eq!(choices[0], choices[1]);
    assert!(choices[0].iter().any(|backend| backend == SECOND4));
}
