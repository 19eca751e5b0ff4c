//! What holds for every packet.

use super::*;
use proptest::prelude::*;
use std::boxed::Box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::string::ToString;
use testkit::packet::{Gre, checksum, gre, icmp, ipv4, ipv6};

/// Every pairing of families.
fn worlds() -> Vec<FixedTables> {
    vec![v4_to_v4(), v6_to_v6(), v4_to_v6(), v6_to_v4()]
}

/// GRE with any flags that are to be accepted, any key, and up to 100 octets of payload.
fn any_gre() -> impl Strategy<Value = Gre> {
    let fields = (any::<[bool; 3]>(), any::<[u32; 2]>(), any::<[u16; 2]>(), any::<Vec<u8>>());
    fields.prop_map(|([has_checksum, has_key, has_sequence], [key, sequence], bits, payload)| {
        let [reserved, protocol_type] = bits;
        let mut header = gre().reserved(reserved & 0x03f8).protocol_type(protocol_type);
        header = header.payload(payload);
        if has_key {
            header = header.key(key);
        }
        if has_sequence {
            header = header.sequence(sequence);
        }
        if has_checksum { header.checksum() } else { header }
    })
}

fn client4() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from).prop_filter("routable", |ip| {
        Address::from(IpAddr::from(*ip)).is_routable() && ip.to_string() != FRONTEND4
    })
}

fn client6() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(|bits| Ipv6Addr::from(bits >> 3 | 1 << 125)) // 2000::/3
}

/// Octets that come near to packets of ours: built ones with a few octets overwritten.
fn nearly_a_packet() -> impl Strategy<Value = Vec<u8>> {
    let kinds =
        (any_gre(), any::<[u8; 4]>(), 0usize..9).prop_map(|(header, [a, b, c, d], kind)| {
            let reply4 = || ipv4(FRONTEND4, CLIENT4).gre(header.clone()).build();
            let reply6 = || ipv6(FRONTEND6, CLIENT6).gre(header.clone()).build();
            match kind {
                0 => ipv4(CLIENT4, FRONTEND4).ttl(a).gre(header).build(),
                1 => ipv4(CLIENT4, FRONTEND4).options([b, c % 8, d, 1]).gre(header).build(),
                2 => ipv6(CLIENT6, FRONTEND6).hop_limit(a).gre(header).build(),
                3 => ipv6(CLIENT6, FRONTEND6)
                    .hop_by_hop([b; 6])
                    .routing(c, 0, [d; 4])
                    .gre(header)
                    .build(),
                4 => ipv6(BACKEND6, EMBEDDED_CLIENT4).gre(header).build(),
                5 => ipv4(BACKEND4, POOL4).gre(header).build(),
                6 => {
                    let message = icmp(3, b % 16).rest([0, 0, c, d]).quoting(&reply4(), 9999);
                    ipv4(ROUTER4, FRONTEND4).ttl(a).icmp(message).build()
                }
                7 => {
                    let message =
                        icmp(1 + a % 4, b % 8).rest([0, 0, c, d]).quoting(&reply6(), 9999);
                    ipv6(ROUTER6, FRONTEND6).icmp(message).build()
                }
                _ => vec![a, b, c, d],
            }
        });
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (kinds, changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(mut packet, changes, cut, is_cut)| {
            for (at, octet) in changes {
                let at = at.index(packet.len());
                packet[at] = octet;
            }
            if is_cut {
                packet.truncate(cut.index(packet.len() + 1));
            }
            packet
        },
    )
}

/// What every verdict promises about the frame that goes with it.
fn check(sent: &[u8], verdict: Verdict, octets: &[u8]) {
    match verdict {
        Verdict::ToBackend(_) | Verdict::ToClient(_) | Verdict::Answer(_) => {
            check_headers(octets);
        }
        Verdict::Pass | Verdict::Everyone => assert_eq!(octets, &sent[..octets.len()]),
        Verdict::Drop(_) => {}
    }
}

fn check_headers(octets: &[u8]) {
    let word = |at: usize| usize::from(u16::from_be_bytes([octets[at], octets[at + 1]]));
    match octets[0] >> 4 {
        4 => {
            let header = usize::from(octets[0] & 15) * 4;
            assert_eq!(word(2), octets.len());
            assert_eq!(checksum(&octets[..header]), 0);
        }
        6 => assert_eq!(40 + word(4), octets.len()),
        version => panic!("version {version}"),
    }
}

/// The octets of the GRE header and payload in a packet without options or extensions.
fn gre_octets(packet: &[u8]) -> &[u8] {
    if packet[0] >> 4 == 4 { &packet[20..] } else { &packet[40..] }
}

proptest! {
    #[test]
    fn arbitrary_octets_have_a_verdict(octets: Vec<u8>, version: bool) {
        let mut octets = octets;
        if let Some(first) = octets.first_mut() {
            *first = if version { 0x45 } else { 0x60 };
        }
        for mut tables in worlds() {
            let (verdict, after) = decide(&octets, &mut tables);
            check(&octets, verdict, &after);
            let (verdict, after) = copy_to(0, &octets, &mut tables);
            check(&octets, verdict, &after);
        }
    }

    #[test]
    fn what_is_sent_is_as_long_as_its_header_says(packet in nearly_a_packet(), room in 0usize..80) {
        for mut tables in worlds() {
            tables.clients.insert((address(POOL4), 0), address(CLIENT6));
            let (verdict, after) = decide(&packet, &mut tables);
            check(&packet, verdict, &after);
            let (verdict, after) = copy_to(0, &packet, &mut tables);
            check(&packet, verdict, &after);
            // With less room the verdict may be a drop, but never a panic or half a packet.
            let mut buffer = [vec![0; room], packet.clone()].concat();
            let end = buffer.len();
            let mut frame = SliceFrame::new(&mut buffer, room, end).unwrap();
            let verdict = process(&mut frame, &mut tables);
            let after = frame.octets().to_vec();
            check(&packet, verdict, &after);
        }
    }

    #[test]
    fn l3_47_gre_octets_leave_as_they_came(
        header in any_gre(), client4 in client4(), client6 in client6(),
    ) {
        let header = header.build();
        let v4 = ipv4(&client4.to_string(), FRONTEND4).payload(47, &header).build();
        let v6 = ipv6(&client6.to_string(), FRONTEND6).payload(47, &header).build();
        for (packet, mut tables) in
            [(&v4, v4_to_v4()), (&v4, v4_to_v6()), (&v6, v6_to_v6()), (&v6, v6_to_v4())]
        {
            let (verdict, octets) = decide(packet, &mut tables);
            if verdict != Verdict::Drop(DropReason::KeyRequired) {
                prop_assert_eq!(verdict, Verdict::ToBackend(0));
                prop_assert_eq!(gre_octets(&octets), &header[..]);
            }
        }
    }

    #[test]
    fn a_reply_comes_back_to_the_client_that_sent(
        header in any_gre(), key: u32, client4 in client4(), client6 in client6(),
    ) {
        let mut tables = v4_to_v6();
        let client4 = client4.to_string();
        let sent = ipv4(&client4, FRONTEND4).gre(header.clone()).build();
        let (_, seen) = decide(&sent, &mut tables);
        let source = Ipv6Addr::from(<[u8; 16]>::try_from(&seen[8..24]).unwrap());
        let reply = ipv6(BACKEND6, &source.to_string()).gre(header.clone()).build();
        tables.identification = 0;
        let expected = ipv4(FRONTEND4, &client4).ttl(63).id(1).gre(header.clone()).build();
        prop_assert_eq!(decide(&reply, &mut tables), (Verdict::ToClient(0), expected));

        let mut tables = v6_to_v4();
        let header = header.key(key);
        let sent = ipv6(&client6.to_string(), FRONTEND6).gre(header.clone()).build();
        let (_, seen) = decide(&sent, &mut tables);
        let source = Ipv4Addr::from(<[u8; 4]>::try_from(&seen[12..16]).unwrap());
        let reply = ipv4(BACKEND4, &source.to_string()).gre(header).build();
        let (verdict, octets) = decide(&reply, &mut tables);
        prop_assert_eq!(verdict, Verdict::ToClient(0));
        prop_assert_eq!(&octets[24..40], &client6.octets()[..]);
    }

    #[test]
    fn l3_12_a_client_and_its_errors_share_a_row(header in any_gre(), client in client4()) {
        let client = client.to_string();
        let sent = ipv4(&client, FRONTEND4).gre(header.clone()).build();
        let reply = ipv4(FRONTEND4, &client).gre(header).build();
        let error = ipv4(ROUTER4, FRONTEND4).icmp(icmp(3, 4).mtu(1400).quoting(&reply, 9999));
        prop_assert_eq!(row(&sent, &mut v4_to_v4()), row(&error.build(), &mut v4_to_v4()));
    }

    #[test]
    fn a_packet_cut_short_is_never_sent(header in any_gre(), cut: prop::sample::Index) {
        let whole: Box<[Vec<u8>]> = Box::new([
            ipv4(CLIENT4, FRONTEND4).gre(header.clone()).build(),
            ipv6(CLIENT6, FRONTEND6).destination_options([]).gre(header.clone()).build(),
            ipv6(BACKEND6, EMBEDDED_CLIENT4).gre(header.clone()).build(),
            ipv4(ROUTER4, FRONTEND4).icmp(icmp(3, 4).body([0; 60])).build(),
        ]);
        for packet in &whole {
            let part = &packet[..cut.index(packet.len())];
            for mut tables in worlds() {
                let verdict = verdict(part, &mut tables);
                prop_assert!(matches!(verdict, Verdict::Drop(_) | Verdict::Pass), "{verdict:?}");
            }
        }
    }
}
