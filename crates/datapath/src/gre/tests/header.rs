//! The GRE header: flags, key, truncation, versions (traps 44 to 46, 50 to 54 and 62).

use super::*;
use testkit::packet::{Gre, gre, ipv4, ipv6};
use xxhash_rust::xxh64::xxh64;

const KEY: u32 = 0x8000_002a;

/// The eight combinations of C, K and S, with what the header is then long.
fn combinations() -> Vec<(&'static str, Gre, usize, Option<u32>)> {
    vec![
        ("none", gre(), 4, None),
        ("C", gre().checksum(), 8, None),
        ("K", gre().key(KEY), 8, Some(KEY)),
        ("S", gre().sequence(7), 8, None),
        ("CK", gre().checksum().key(KEY), 12, Some(KEY)),
        ("CS", gre().checksum().sequence(7), 12, None),
        ("KS", gre().key(KEY).sequence(7), 12, Some(KEY)),
        ("CKS", gre().checksum().key(KEY).sequence(7), 16, Some(KEY)),
    ]
}

/// The row by the other implementation of XXH64: source in 16 octets, then the key with its
/// presence bit, little-endian; seed "gre".
fn row_by_the_book(source: &str, key: Option<u32>) -> u16 {
    let key = key.map_or(0, |key| 1 << 32 | u64::from(key));
    let source = address(source).octets();
    (xxh64(&[&source[..], &key.to_le_bytes()].concat(), 0x67_7265) >> 48) as u16
}

#[test]
fn l3_44_the_key_is_found_under_every_combination_of_flags() {
    for (name, header, _, key) in combinations() {
        let header = header.payload(b"payload");
        let v4 = ipv4(CLIENT4, FRONTEND4).gre(header.clone()).build();
        assert_eq!(row(&v4, &mut v4_to_v4()), row_by_the_book(CLIENT4, key), "{name}");
        let v6 = ipv6(CLIENT6, FRONTEND6).gre(header).build();
        assert_eq!(row(&v6, &mut v6_to_v6()), row_by_the_book(CLIENT6, key), "{name}");
    }
}

#[test]
fn l3_44_a_header_cut_at_any_octet_is_dropped_and_counted() {
    for (name, header, length, _) in combinations() {
        let whole = header.payload([0; 3]).build();
        for cut in 0..=whole.len() {
            let expected = if cut < length {
                Verdict::Drop(DropReason::GreTruncated)
            } else {
                Verdict::ToBackend(0)
            };
            let part = &whole[..cut];
            let v4 = ipv4(CLIENT4, FRONTEND4).payload(47, part);
            assert_eq!(verdict(&v4.build(), &mut v4_to_v4()), expected, "{name} {cut}");
            let v6 = ipv6(CLIENT6, FRONTEND6).payload(47, part);
            assert_eq!(verdict(&v6.build(), &mut v6_to_v6()), expected, "{name} {cut}");
            // What lies behind the packet must not complete the header.
            let padded = [v4.build(), vec![0; 20]].concat();
            assert_eq!(verdict(&padded, &mut v4_to_v4()), expected, "{name} {cut} padded");
        }
    }
}

#[test]
fn l3_44_a_packet_cut_at_any_octet_is_dropped_and_counted() {
    for (name, header, ..) in combinations() {
        let header = header.payload([0; 3]);
        let v4 = ipv4(CLIENT4, FRONTEND4).options([1; 4]).gre(header.clone()).build();
        for cut in 0..v4.len() {
            is_dropped(&v4[..cut], DropReason::OuterTruncated, &mut v4_to_v4());
        }
        let v6 = ipv6(CLIENT6, FRONTEND6).destination_options([]).gre(header).build();
        for cut in 0..v6.len() {
            let (verdict, _) = decide(&v6[..cut], &mut v6_to_v6());
            assert_eq!(verdict, Verdict::Drop(DropReason::OuterTruncated), "{name} {cut}");
        }
    }
}

#[test]
fn l3_46_each_flag_bit_has_its_verdict() {
    let sent = Verdict::ToBackend(0);
    let dropped = Verdict::Drop;
    let verdicts = [
        sent,
        dropped(DropReason::GreRouting),
        sent,
        sent,
        dropped(DropReason::GreStrictSourceRoute),
        dropped(DropReason::GreRecursion),
        sent,
        sent,
        sent,
        sent,
        sent,
        sent,
        sent,
        dropped(DropReason::GreVersion),
        dropped(DropReason::GreVersion),
        dropped(DropReason::GreVersion),
    ];
    for (bit, expected) in verdicts.into_iter().enumerate() {
        let [high, low] = (0x8000u16 >> bit).to_be_bytes();
        let octets = [&[high, low, 8, 0][..], &[0; 12]].concat();
        let v4 = ipv4(CLIENT4, FRONTEND4).payload(47, &octets).build();
        assert_eq!(verdict(&v4, &mut v4_to_v4()), expected, "bit {bit}");
        assert_eq!(verdict(&v4, &mut v4_to_v6()), expected, "bit {bit}");
        let v6 = ipv6(CLIENT6, FRONTEND6).payload(47, &octets).build();
        assert_eq!(verdict(&v6, &mut v6_to_v6()), expected, "bit {bit}");
    }
}

#[test]
fn l3_46_bits_6_to_12_are_ignored_and_forwarded_unchanged() {
    for bit in 6..=12 {
        let header = gre().reserved(0x8000 >> bit).key(KEY).payload(b"x");
        let v4 = ipv4(CLIENT4, FRONTEND4).gre(header.clone()).build();
        let plain = ipv4(CLIENT4, FRONTEND4).gre(gre().key(KEY).payload(b"x")).build();
        assert_eq!(row(&v4, &mut v4_to_v4()), row(&plain, &mut v4_to_v4()), "bit {bit}");
        let (_, same) = decide(&v4, &mut v4_to_v4());
        assert_eq!(same[20..], header.build(), "bit {bit}");
        let (_, other) = decide(&v4, &mut v4_to_v6());
        assert_eq!(other[40..], header.build(), "bit {bit}");
    }
}

#[test]
fn l3_45_every_version_but_0_is_dropped_and_counted() {
    for version in 1..=7 {
        // The acknowledgement bit and layout of PPTP (RFC 2637) are in bits that version 0 reads
        // otherwise, so the version must be looked at first.
        let header = gre().version(version).protocol_type(0x880b).key(KEY).routing();
        let v4 = ipv4(CLIENT4, FRONTEND4).gre(header.clone()).build();
        is_dropped(&v4, DropReason::GreVersion, &mut v4_to_v4());
        let v6 = ipv6(CLIENT6, FRONTEND6).gre(header).build();
        is_dropped(&v6, DropReason::GreVersion, &mut v6_to_v6());
    }
}

/// Asserts that each packet leaves as it came, within its family and across.
fn are_passed_on(headers: &[Gre]) {
    for header in headers {
        let packet = |to| ipv4(CLIENT4, to).gre(header.clone());
        let sent = packet(FRONTEND4).build();
        becomes(&sent, &packet(BACKEND4).ttl(63).build(), &mut v4_to_v4());
        let (verdict, octets) = decide(&sent, &mut v4_to_v6());
        assert_eq!(verdict, Verdict::ToBackend(0));
        assert_eq!(octets[40..], header.build());
    }
}

#[test]
fn l3_54_any_payload_type_is_passed_on_without_a_look() {
    let erspan_1 = gre().protocol_type(0x88be).payload([0x45; 14]);
    let erspan_2 = gre().protocol_type(0x88be).sequence(9).payload([0x10; 22]);
    let erspan_3 = gre().protocol_type(0x22eb).sequence(9).payload([0x20; 26]);
    are_passed_on(&[erspan_1, erspan_2, erspan_3, gre().protocol_type(0xffff), gre()]);
}

#[test]
fn l3_62_the_four_octets_of_wccp_are_payload() {
    // WCCP2's redirect header before the packet, and WCCP1's packet alone.
    let wccp = || gre().protocol_type(0x883e);
    are_passed_on(&[
        wccp().payload([0, 1, 2, 3, 0x45, 0, 0, 20]),
        wccp().payload([0x45, 0, 0, 20]),
    ]);
}

#[test]
fn l3_53_keepalives_are_passed_on_though_they_are_addressed_to_their_sender() {
    // Cisco: inside lies the answer, a GRE packet of protocol 0 from the frontend to the client.
    let answer = ipv4(FRONTEND4, CLIENT4).gre(gre().protocol_type(0)).build();
    let padded = ipv4(FRONTEND4, CLIENT4).gre(gre().protocol_type(0).payload([0; 4])).build();
    let keyed = ipv4(FRONTEND4, CLIENT4).gre(gre().protocol_type(0).key(KEY)).build();
    are_passed_on(&[
        gre().payload(answer),
        gre().payload(padded),
        gre().key(KEY).payload(keyed),
        // Answers on their way back, and variants of other vendors.
        gre().protocol_type(0),
        gre().protocol_type(0).payload([0; 4]),
        gre().protocol_type(4).payload([1; 24]),
    ]);
}

#[test]
fn l3_49_a_key_is_neither_dropped_nor_added_nor_changed() {
    // A receiver's lookup is exact: local, remote, and key or no key.
    are_passed_on(&[gre(), gre().key(0), gre().key(5), gre().key(u32::MAX).sequence(1)]);
    let mut masked = v4_to_v4();
    masked.service.key_mask = 0xffff_ff00;
    let packet = |to| ipv4(CLIENT4, to).gre(gre().key(0x1234_5678));
    becomes(&packet(FRONTEND4).build(), &packet(BACKEND4).ttl(63).build(), &mut masked);
}

#[test]
fn l3_50_key_0_is_another_flow_than_no_key() {
    let keyless = ipv4(CLIENT4, FRONTEND4).gre(gre()).build();
    let zero = ipv4(CLIENT4, FRONTEND4).gre(gre().key(0)).build();
    assert_ne!(row(&keyless, &mut v4_to_v4()), row(&zero, &mut v4_to_v4()));
}

#[test]
fn l3_51_keys_under_a_mask_share_a_backend() {
    let mut tables = v4_to_v4();
    let mut row_of = |key, mask| {
        tables.service.key_mask = mask;
        row(&ipv4(CLIENT4, FRONTEND4).gre(gre().key(key)).build(), &mut tables)
    };
    let nvgre: Vec<_> = (0x100..=0x1ff).map(|key| row_of(key, 0xffff_ff00)).collect();
    assert!(nvgre.iter().all(|row| *row == nvgre[0]));
    assert_eq!(nvgre[0], row_by_the_book(CLIENT4, Some(0x100)));
    assert_ne!(nvgre[0], row_of(0x200, 0xffff_ff00));
    // Unmasked, the same keys are spread.
    let mut spread: Vec<_> = (0x100..=0x1ff).map(|key| row_of(key, u32::MAX)).collect();
    spread.sort_unstable();
    spread.dedup();
    assert!(spread.len() > 200, "{}", spread.len());
}

#[test]
fn l3_48_nothing_but_source_and_key_names_a_flow() {
    let base = || ipv4(CLIENT4, FRONTEND4);
    let first = row(&base().gre(gre().key(5)).build(), &mut v4_to_v4());
    for other in [
        base().ttl(9).tos(0xff).id(77).dont_fragment().gre(gre().key(5)),
        base().gre(gre().key(5).sequence(1).payload(b"a")),
        base().gre(gre().key(5).sequence(2).checksum().payload(b"bc")),
        base().gre(gre().key(5).protocol_type(0x86dd)),
        base().options([1; 8]).gre(gre().key(5)),
    ] {
        assert_eq!(row(&other.build(), &mut v4_to_v4()), first);
    }
    let other_source = ipv4("198.51.100.8", FRONTEND4).gre(gre().key(5)).build();
    assert_ne!(row(&other_source, &mut v4_to_v4()), first);
}
