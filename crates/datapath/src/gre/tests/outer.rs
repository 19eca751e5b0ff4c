//! Outer headers under which GRE is not balanced: fragments, extensions, source routes, damage.

use super::*;
use testkit::packet::{Fragments, gre, ipv4, ipv6};

#[test]
fn l3_56_fragments_of_gre_are_dropped_and_counted() {
    let v4 = || ipv4(CLIENT4, FRONTEND4);
    let v6 = || ipv6(CLIENT6, FRONTEND6);
    for (name, packet) in [
        ("first", v4().more_fragments().gre(gre()).build()),
        ("middle", v4().more_fragments().fragment_offset(3).gre(gre()).build()),
        ("last", v4().fragment_offset(0x1fff).gre(gre()).build()),
        ("first", v6().fragment(1, 0, Fragments::More).gre(gre()).build()),
        ("middle", v6().fragment(1, 3, Fragments::More).gre(gre()).build()),
        ("last", v6().fragment(1, 0x1fff, Fragments::Last).gre(gre()).build()),
        ("behind options", v6().hop_by_hop([]).fragment(1, 3, Fragments::Last).gre(gre()).build()),
        // Behind a later fragment nothing can be walked: what it is part of is not known.
        (
            "before options",
            v6().fragment(1, 3, Fragments::Last).destination_options([]).gre(gre()).build(),
        ),
        (
            "before options, first",
            v6().fragment(1, 0, Fragments::More).destination_options([]).gre(gre()).build(),
        ),
    ] {
        for mut tables in [v4_to_v4(), v4_to_v6()] {
            if packet[0] >> 4 == 4 {
                let verdict = verdict(&packet, &mut tables);
                assert_eq!(verdict, Verdict::Drop(DropReason::OuterFragment), "{name}");
            }
        }
        for mut tables in [v6_to_v6(), v6_to_v4()] {
            if packet[0] >> 4 == 6 {
                let verdict = verdict(&packet, &mut tables);
                assert_eq!(verdict, Verdict::Drop(DropReason::OuterFragment), "{name}");
            }
        }
    }
}

#[test]
fn an_atomic_fragment_is_a_whole_packet() {
    // RFC 6946 4: offset 0, no more fragments; the reserved bits say nothing (RFC 8200 4.5).
    let plain = ipv6(CLIENT6, FRONTEND6).gre(gre().key(3)).build();
    for reserved in [0, 2, 4, 6] {
        let header = vec![0, 0xff, 0, reserved, 1, 2, 3, 4];
        let packet = |to| ipv6(CLIENT6, to).extension(44, header.clone()).gre(gre().key(3));
        let expected = packet(BACKEND6).hop_limit(63).build();
        becomes(&packet(FRONTEND6).build(), &expected, &mut v6_to_v6());
        let sent = packet(FRONTEND6).build();
        assert_eq!(row(&sent, &mut v6_to_v6()), row(&plain, &mut v6_to_v6()));
    }
}

#[test]
fn l3_19_up_to_eight_extension_headers_are_walked() {
    let plain = ipv6(CLIENT6, FRONTEND6).gre(gre().key(3)).build();
    for count in 0..=10 {
        let base = |to| ipv6(CLIENT6, to).hop_by_hop([]);
        let packet =
            |to| (1..count).fold(base(to), |packet, _| packet.destination_options([9; 14]));
        let sent = packet(FRONTEND6).gre(gre().key(3)).build();
        if count > 8 {
            is_dropped(&sent, DropReason::OuterExtensions, &mut v6_to_v6());
            continue;
        }
        let expected = packet(BACKEND6).hop_limit(63).gre(gre().key(3)).build();
        becomes(&sent, &expected, &mut v6_to_v6());
        assert_eq!(row(&sent, &mut v6_to_v6()), row(&plain, &mut v6_to_v6()), "{count}");
    }
}

#[test]
fn l3_19_each_kind_of_extension_header_has_its_own_length_rule() {
    let plain = ipv6(CLIENT6, FRONTEND6).gre(gre().key(3)).build();
    for (name, packet) in [
        ("hop by hop", ipv6(CLIENT6, FRONTEND6).hop_by_hop([5, 2, 0, 0])),
        ("long hop by hop", ipv6(CLIENT6, FRONTEND6).hop_by_hop([0; 2038])),
        ("routing", ipv6(CLIENT6, FRONTEND6).routing(2, 0, [0; 20])),
        ("segment routing", ipv6(CLIENT6, FRONTEND6).routing(4, 0, [0; 36])),
        ("destination options", ipv6(CLIENT6, FRONTEND6).destination_options([1; 30])),
        ("authentication", ipv6(CLIENT6, FRONTEND6).ah(1, 2, [7; 12])),
        ("long authentication", ipv6(CLIENT6, FRONTEND6).ah(1, 2, [7; 1004])),
        (
            "all",
            ipv6(CLIENT6, FRONTEND6)
                .hop_by_hop([])
                .destination_options([])
                .routing(4, 0, [0; 20])
                .fragment(1, 0, Fragments::Last)
                .ah(1, 2, [7; 20])
                .destination_options([4, 1, 4]),
        ),
    ] {
        let mut tables = v6_to_v6();
        tables.mtu = Some(9000);
        let packet = packet.gre(gre().key(3)).build();
        assert_eq!(row(&packet, &mut tables), row(&plain, &mut v6_to_v6()), "{name}");
        // Across families all of them end here (RFC 7915 5.1).
        let mut tables = v6_to_v4();
        let (verdict, octets) = decide(&packet, &mut tables);
        assert_eq!(verdict, Verdict::ToBackend(0), "{name}");
        assert_eq!(octets[20..], gre().key(3).build(), "{name}");
    }
}

#[test]
fn extension_headers_cut_at_any_octet_are_dropped_and_counted() {
    let extended = ipv6(CLIENT6, FRONTEND6)
        .hop_by_hop([0; 14])
        .routing(4, 0, [0; 20])
        .fragment(1, 0, Fragments::Last)
        .ah(1, 2, [7; 12])
        .gre(gre())
        .build();
    let headers = extended.len() - 40 - 4;
    for cut in 0..headers {
        // The packet says that it is so short; behind it lies padding that must not be read.
        let mut packet = extended[..40 + cut].to_vec();
        packet[4..6].copy_from_slice(&u16::try_from(cut).unwrap().to_be_bytes());
        is_dropped(&packet, DropReason::OuterTruncated, &mut v6_to_v6());
        let padded = [packet, extended[40 + cut..].to_vec()].concat();
        is_dropped(&padded, DropReason::OuterTruncated, &mut v6_to_v6());
    }
}

#[test]
fn padding_is_not_taken_for_an_extension_header() {
    for header in [
        ipv6(CLIENT6, FRONTEND6).routing(4, 1, [0; 4]),
        ipv6(CLIENT6, FRONTEND6).fragment(1, 1, Fragments::Last),
    ] {
        let packet = header.gre(gre()).false_payload_length(0).build();
        is_dropped(&packet, DropReason::OuterTruncated, &mut v6_to_v6());
    }
}

#[test]
fn a_jumbogram_is_dropped() {
    // RFC 2675 2: payload length 0, the true one in a hop-by-hop option.
    let packet = ipv6(CLIENT6, FRONTEND6).hop_by_hop([0xc2, 4, 0, 1, 0, 0]).gre(gre());
    let packet = packet.false_payload_length(0).build();
    is_dropped(&packet, DropReason::OuterTruncated, &mut v6_to_v6());
}

#[test]
fn a_route_of_the_senders_that_does_not_end_here_is_not_followed() {
    for left in [1, 2, 255] {
        let packet = ipv6(CLIENT6, FRONTEND6).routing(4, left, [0; 20]).gre(gre().key(1)).build();
        is_dropped(&packet, DropReason::OuterExtensions, &mut v6_to_v6());
        is_dropped(&packet, DropReason::OuterExtensions, &mut v6_to_v4());
    }
    // RFC 7915 4.1; loose 131 and strict 137 (RFC 791 3.1): unexpired while the pointer is not
    // beyond the length.
    for kind in [131, 137] {
        for before in [&[][..], &[1, 1, 1], &[7, 7, 4, 0, 0, 0, 0]] {
            let route = |pointer| [before, &[kind, 7, pointer, 10, 0, 0, 9]].concat();
            let packet = |pointer| {
                ipv4(CLIENT4, FRONTEND4).options(route(pointer)).gre(gre().key(1)).build()
            };
            is_dropped(&packet(4), DropReason::OuterExtensions, &mut v4_to_v4());
            is_dropped(&packet(7), DropReason::OuterExtensions, &mut v4_to_v4());
            is_dropped(&packet(4), DropReason::OuterExtensions, &mut v4_to_v6());
            assert_eq!(verdict(&packet(8), &mut v4_to_v4()), Verdict::ToBackend(0));
        }
    }
}

#[test]
fn options_that_make_no_sense_end_the_search_for_a_source_route() {
    for options in [&[7u8, 0, 0, 0][..], &[7, 1, 131, 3, 0, 0, 0, 0], &[0, 131, 3, 0], &[7, 255]] {
        let packet = ipv4(CLIENT4, FRONTEND4).options(options).gre(gre()).build();
        assert_eq!(verdict(&packet, &mut v4_to_v4()), Verdict::ToBackend(0), "{options:?}");
    }
}

#[test]
fn malformed_headers_are_dropped_and_counted() {
    for words in 0..5 {
        let packet = ipv4(CLIENT4, FRONTEND4).gre(gre()).false_header_words(words).build();
        is_dropped(&packet, DropReason::OuterMalformed, &mut v4_to_v4());
    }
    for version in [0, 1, 2, 3, 5, 7, 8, 15] {
        let packet = ipv4(CLIENT4, FRONTEND4).gre(gre()).false_version(version).build();
        is_dropped(&packet, DropReason::OuterMalformed, &mut v4_to_v4());
    }
    let too_many_words = ipv4(CLIENT4, FRONTEND4).gre(gre()).false_header_words(15).build();
    is_dropped(&too_many_words, DropReason::OuterTruncated, &mut v4_to_v4());
    for length in [0, 19] {
        let packet = ipv4(CLIENT4, FRONTEND4).gre(gre()).false_total_length(length).build();
        is_dropped(&packet, DropReason::OuterTruncated, &mut v4_to_v4());
    }
    is_dropped(&[], DropReason::OuterTruncated, &mut v4_to_v4());
}

#[test]
fn a_header_with_a_wrong_checksum_is_neither_forwarded_nor_answered() {
    // RFC 1812 5.2.2 and 4.3.2.7. Across families a new header would hide the damage.
    let base = || ipv4(CLIENT4, FRONTEND4).dont_fragment();
    for packet in [
        base().gre(gre()).bad_checksum(),
        base().options([1; 40]).gre(gre()).bad_checksum(),
        base().ttl(1).gre(gre()).bad_checksum(),
        base().gre(gre().payload([0; 1500])).bad_checksum(),
    ] {
        is_dropped(&packet.build(), DropReason::OuterChecksum, &mut v4_to_v4());
        is_dropped(&packet.build(), DropReason::OuterChecksum, &mut v4_to_v6());
    }
}
