//! What holds for every frame.

use super::*;
use proptest::prelude::*;

/// A node with services of every kind, in both modes.
fn everything() -> World {
    let mut world = World::with_sessions(16);
    let four = [world.backend(BACKEND4, 8080), world.backend(SECOND4, 0)];
    let six = [world.backend(BACKEND6, 8080)];
    for (port, mode) in [(80, Mode::Nat), (81, Mode::TwiceNat)] {
        for protocol in [TCP, UDP] {
            world.serve(VIP4, port, protocol, mode, &four);
            world.serve(VIP6, port, protocol, mode, &six);
        }
    }
    world.serve(VIP4, 0, ICMP, Mode::TwiceNat, &four[1..]);
    world.serve(VIP6, 0, ICMPV6, Mode::Nat, &six);
    world.serve(VIP4, 0, RAW, Mode::Nat, &four);
    world
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![Just(80), Just(81), Just(0), Just(40_000), any::<u16>()]
}

fn address4() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(CLIENT4), Just(VIP4), Just(BACKEND4), Just(NODE4), Just("127.0.0.1")]
}

fn address6() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(CLIENT6), Just(VIP6), Just(BACKEND6), Just(NODE6), Just("fe80::1")]
}

fn packet4() -> impl Strategy<Value = Ipv4> {
    let fields = (address4(), address4(), port(), port(), any::<[u8; 4]>(), any::<Vec<u8>>());
    fields.prop_map(|(source, destination, from, to, [a, b, c, d], body)| {
        let packet = ipv4(source, destination).ttl(a).options(vec![1; usize::from(b % 11) * 4]);
        match c % 6 {
            0 | 1 => packet.tcp(tcp(from, to).flags(d).options(vec![1; usize::from(b % 11)])),
            2 => packet.udp(from, to, body),
            3 => packet.udp_without_checksum(from, to, body),
            4 => packet.icmp(icmp(d % 16, 0).echo(from, to).body(body)),
            _ => packet.payload(RAW, body),
        }
    })
}

fn packet6() -> impl Strategy<Value = Ipv6> {
    let fields = (address6(), address6(), port(), port(), any::<[u8; 4]>(), any::<Vec<u8>>());
    fields.prop_map(|(source, destination, from, to, [a, b, c, d], body)| {
        let packet = ipv6(source, destination).hop_limit(a);
        let packet = if b & 1 == 0 { packet } else { packet.hop_by_hop([b; 6]) };
        let packet = if b & 2 == 0 { packet } else { packet.destination_options([c; 14]) };
        match c % 5 {
            0 | 1 => packet.tcp(tcp(from, to).flags(d)),
            2 => packet.udp(from, to, body),
            3 => packet.icmp(icmp(120 + d % 20, 0).echo(from, to).body(body)),
            _ => packet.payload(RAW, body),
        }
    })
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let to = prop_oneof![8 => Just(FRONT_MAC), 1 => Just(BACK_MAC), 1 => Just(BROADCAST)];
    let tags = proptest::collection::vec(any::<u16>(), 0..3);
    (to, tags, prop_oneof![packet4().prop_map(Ok), packet6().prop_map(Err)]).prop_map(
        |(to, tags, packet)| {
            let frame = ethernet(ROUTER_MAC, to);
            let frame = tags.into_iter().fold(frame, |frame, tag| frame.tag(0x8100, tag));
            match packet {
                Ok(four) => frame.ipv4(four).build(),
                Err(six) => frame.ipv6(six).build(),
            }
        },
    )
}

/// Frames that come near to packets of ours: built ones with a few octets overwritten, or cut.
fn nearly_a_frame() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (frame(), changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(mut frame, changes, cut, is_cut)| {
            for (at, octet) in changes {
                let at = at.index(frame.len());
                frame[at] = octet;
            }
            if is_cut {
                frame.truncate(cut.index(frame.len() + 1));
            }
            frame
        },
    )
}

proptest! {
    // `World::receive` checks that what passes is untouched, and the sums of what leaves.
    #[test]
    fn arbitrary_octets_have_a_verdict(octets: Vec<u8>, kind in 0usize..4) {
        let kind = [0x0800, 0x86dd, 0x0806, 0x8100][kind];
        let frame = ethernet(ROUTER_MAC, FRONT_MAC).payload(kind, octets).build();
        everything().receive(FRONT, &frame);
    }

    #[test]
    fn every_frame_has_a_verdict(frames in proptest::collection::vec(nearly_a_frame(), 1..40)) {
        let mut world = everything();
        for frame in frames {
            world.receive(FRONT, &frame);
        }
    }

    #[test]
    fn what_leaves_has_right_checksums_and_one_hop_less(
        frames in proptest::collection::vec(frame(), 1..40),
    ) {
        let mut world = everything();
        for frame in frames {
            prop_assert_eq!(verify_sums(&frame), Ok(()));
            world.receive(FRONT, &frame);
        }
    }

    #[test]
    fn the_way_back_restores_addresses_and_ports(
        client: [u8; 3], port in 1u16.., service in 80u16..82, body: Vec<u8>, is_udp: bool,
    ) {
        let [a, b, c] = client;
        let client = format!("198.{a}.{b}.{c}");
        let mut world = everything();
        world.route(&client, FRONT, ROUTER_MAC);
        let packet = |source: &str, destination: &str, from, to, ttl| {
            let packet = ipv4(source, destination).ttl(ttl);
            if is_udp { packet.udp(from, to, &body) } else { packet.tcp(tcp(from, to).syn()) }
        };
        let asked = world.client_sends(packet(&client, VIP4, port, service, 64));
        asked.leaves();
        let word = |at: usize| u16::from_be_bytes([asked.frame[at], asked.frame[at + 1]]);
        let seen = format!("{}", Address::v4(asked.frame[26..30].try_into().unwrap()));
        let reply = packet(&asked.destination(), &seen, word(36), word(34), 64);
        let expected = packet(VIP4, &client, service, port, 63);
        world.backend_sends(reply).reaches_client(expected);
    }
}
