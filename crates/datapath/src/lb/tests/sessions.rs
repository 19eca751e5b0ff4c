//! Sessions: how they open, close and are told apart, and what happens when there is no room.

use super::*;
use crate::lb::layout::session_state;

#[test]
fn a_connection_is_half_open_until_both_sides_have_spoken() {
    for mode in [Mode::Nat, Mode::TwiceNat] {
        let mut world = web(mode);
        world.client_sends(syn()).leaves();
        assert_eq!(world.tables.half_open(), 1);
        world.client_sends(syn()).leaves();
        // An acknowledgement of nothing: the backend has not answered.
        world.client_sends(client_segment(tcp(40_000, 80).ack())).leaves();
        assert_eq!(world.tables.half_open(), 1);
        let seen = if mode == Mode::Nat { CLIENT4 } else { NODE4 };
        world.backend_sends(ipv4(BACKEND4, seen).tcp(tcp(8080, 40_000).syn().ack())).leaves();
        assert_eq!(world.tables.half_open(), 1);
        for _ in 0..2 {
            world.client_sends(client_segment(tcp(40_000, 80).ack())).leaves();
            assert_eq!(world.tables.half_open(), 0);
        }
        assert_eq!(world.tables.traffic(0).sessions, 1);
    }
}

#[test]
fn l4_30_half_open_sessions_are_limited_and_open_ones_unharmed() {
    let mut world = web(Mode::Nat);
    open(&mut world);
    world.tables.settings.half_open_limit = 3;
    for port in 1..=3 {
        world.client_sends(ipv4(CLIENT4, VIP4).tcp(tcp(port, 80).syn())).leaves();
    }
    for port in 4..=9 {
        let outcome = world.client_sends(ipv4(CLIENT4, VIP4).tcp(tcp(port, 80).syn()));
        outcome.is_dropped(DropReason::HalfOpenExhausted);
    }
    assert_eq!(world.tables.half_open(), 3);
    world.client_sends(client_segment(tcp(40_000, 80).data(b"GET"))).leaves();
}

#[test]
fn a_refused_connection_that_is_tried_again_is_counted_half_open_once() {
    let mut world = web(Mode::Nat);
    world.tables.settings.half_open_limit = 2;
    for _ in 0..9 {
        world.client_sends(syn()).leaves();
        world.backend_sends(backend_segment(tcp(8080, 40_000).rst().ack())).leaves();
        assert_eq!(world.tables.half_open(), 1);
    }
    assert_eq!(world.tables.traffic(0).sessions, 9);
}

#[test]
fn l4_26_without_room_no_flow_has_only_one_direction_alive() {
    let mut world = World::with_sessions(64);
    let backend = world.backend(BACKEND4, 5353);
    world.serve(VIP4, 53, UDP, Mode::TwiceNat, &[backend]);
    let mut open = 0;
    for port in 1..=100 {
        let outcome = world.client_sends(ipv4(CLIENT4, VIP4).udp(port, 53, b"?"));
        match outcome.verdict {
            Verdict::Drop(reason) => {
                assert!(
                    matches!(reason, DropReason::SessionsExhausted | DropReason::IndexFull),
                    "{reason:?}"
                );
                continue;
            }
            _ => open += 1,
        }
        let reply = ipv4(BACKEND4, NODE4).udp(5353, outcome.source_port(), b"!");
        let expected = ipv4(VIP4, CLIENT4).ttl(63).udp(53, port, b"!");
        world.backend_sends(reply).reaches_client(expected);
    }
    assert!(open >= 50, "{open}");
    assert_eq!(world.tables.free(), 0);
    // What is open goes on.
    world.client_sends(ipv4(CLIENT4, VIP4).udp(1, 53, b"?")).leaves();
}

#[test]
fn when_all_records_are_in_use_new_flows_are_dropped() {
    let mut world = World::with_sessions(3);
    let backend = world.backend(BACKEND4, 53);
    world.serve(VIP4, 53, UDP, Mode::Nat, &[backend]);
    for port in [1, 2] {
        world.client_sends(ipv4(CLIENT4, VIP4).udp(port, 53, b"?")).leaves();
    }
    let third = ipv4(CLIENT4, VIP4).udp(3, 53, b"?");
    world.client_sends(third).is_dropped(DropReason::SessionsExhausted);
    world.serve(VIP4, 80, TCP, Mode::Nat, &[backend]);
    world.client_sends(syn()).is_dropped(DropReason::SessionsExhausted);
    assert_eq!(world.tables.half_open(), 0);
}

#[test]
fn when_both_places_of_a_key_are_full_the_flow_is_dropped_and_nothing_is_left_of_it() {
    // Two buckets of eight words, and more records than they can name.
    let mut world = World::of(HostTables::with_buckets(32, 2, 16));
    let backend = world.backend(BACKEND4, 53);
    world.serve(VIP4, 53, UDP, Mode::Nat, &[backend]);
    for port in 1..=8 {
        world.client_sends(ipv4(CLIENT4, VIP4).udp(port, 53, b"?")).leaves();
    }
    let words = world.tables.index();
    let ninth = ipv4(CLIENT4, VIP4).udp(9, 53, b"?");
    world.client_sends(ninth).is_dropped(DropReason::IndexFull);
    assert_eq!(world.tables.index(), words);
    let abandoned =
        world.tables.sessions().into_iter().filter(|s| s.state & session_state::ABANDONED != 0);
    assert_eq!(abandoned.count(), 1);
}

#[test]
fn l4_28_a_new_connection_on_a_closing_session_leaves_a_backend_that_is_gone() {
    for mode in [Mode::Nat, Mode::TwiceNat] {
        let mut world = World::new();
        let (first, second) = (world.backend(BACKEND4, 8080), world.backend(SECOND4, 8080));
        world.serve(VIP4, 80, TCP, mode, &[first, second]);
        world.rows_become(VIP4, 80, TCP, Row::new(0, 1, false));
        world.client_sends(syn()).leaves();
        world.is_gone(first);
        world.rows_become(VIP4, 80, TCP, Row::new(1, 0, true));
        // Data of the old connection stays, a new connection moves at once.
        assert_eq!(
            world.client_sends(client_segment(tcp(40_000, 80).ack())).destination(),
            BACKEND4
        );
        for _ in 0..2 {
            assert_eq!(world.client_sends(syn()).destination(), SECOND4);
        }
        assert_eq!(
            world.client_sends(client_segment(tcp(40_000, 80).ack())).destination(),
            SECOND4
        );
    }
}

#[test]
fn l4_28_a_new_connection_on_an_open_session_stays() {
    let mut world = World::new();
    let (first, second) = (world.backend(BACKEND4, 8080), world.backend(SECOND4, 8080));
    world.serve(VIP4, 80, TCP, Mode::Nat, &[first, second]);
    world.rows_become(VIP4, 80, TCP, Row::new(0, 1, false));
    open(&mut world);
    world.rows_become(VIP4, 80, TCP, Row::new(1, 0, true));
    assert_eq!(world.client_sends(syn()).destination(), BACKEND4);
    // Closing, it is begun anew where the table says.
    world.client_sends(client_segment(tcp(40_000, 80).fin().ack())).leaves();
    assert_eq!(world.client_sends(syn()).destination(), SECOND4);
}

#[test]
fn l4_29_reset_and_fin_shorten_a_session_and_never_delete_it() {
    let segments: [(&str, Tcp, u32); 3] = [
        ("RST", tcp(40_000, 80).rst(), session_state::RESET),
        ("RST ACK", tcp(40_000, 80).rst().ack(), session_state::RESET),
        ("FIN", tcp(40_000, 80).fin().ack(), session_state::CLIENT_FIN),
    ];
    for (name, segment, state) in segments {
        let mut world = web(Mode::TwiceNat);
        world.client_sends(syn()).leaves();
        let reply = |segment| ipv4(BACKEND4, NODE4).tcp(segment);
        world.backend_sends(reply(tcp(8080, 40_000).syn().ack())).leaves();
        world.client_sends(client_segment(tcp(40_000, 80).ack())).leaves();
        world.client_sends(client_segment(segment)).leaves();
        assert_eq!(world.session().state & session_state::CLOSING, state, "{name}");
        // The download goes on: the segment was forged, or the other side has more to say.
        world.backend_sends(reply(tcp(8080, 40_000).data(b"more"))).leaves();
        world.client_sends(client_segment(tcp(40_000, 80).ack())).leaves();
        world.backend_sends(reply(tcp(8080, 40_000).fin().ack())).leaves();
        let state = state | session_state::BACKEND_FIN;
        assert_eq!(world.session().state & session_state::CLOSING, state, "{name}");
    }
}

#[test]
fn l4_29_a_late_reset_creates_no_session() {
    for mode in [Mode::Nat, Mode::TwiceNat] {
        let mut world = web(mode);
        let late = client_segment(tcp(40_000, 80).rst());
        world.client_sends(late).is_dropped(DropReason::NoSession);
        let odd = client_segment(tcp(40_000, 80).syn().rst());
        world.client_sends(odd).is_dropped(DropReason::NoSession);
        assert!(world.tables.sessions().is_empty());
    }
}

#[test]
fn the_middle_of_a_connection_is_picked_up_where_the_client_is_kept() {
    let middle = || client_segment(tcp(40_000, 80).data(b"GET"));
    web(Mode::Nat).client_sends(middle()).leaves();
    // By twice-NAT nobody knows any longer which port the backend saw.
    web(Mode::TwiceNat).client_sends(middle()).is_dropped(DropReason::NoSession);
}

#[test]
fn a_session_says_when_it_was_last_used() {
    let mut world = web(Mode::Nat);
    world.tables.tick = 10;
    world.client_sends(syn()).leaves();
    assert_eq!(world.session().last, 10);
    world.tables.tick = 20;
    world.backend_sends(backend_segment(tcp(8080, 40_000).syn().ack())).leaves();
    assert_eq!(world.session().last, 20);
    world.tables.tick = 30;
    world.client_sends(client_segment(tcp(40_000, 80).ack())).leaves();
    assert_eq!(world.session().last, 30);
}
