//! ICMP errors about replies, sent on in the form of the backend's family: RFC 7915 4.2, 4.3, 5.2
//! and 5.3.

use super::*;
use testkit::packet::{Icmp, gre, icmp, ipv4, ipv6};

const KEY: u32 = 42;

/// What the frontend sent to the client in the name of an IPv6 backend, 1500 octets long.
fn reply4() -> Vec<u8> {
    let header = gre().key(KEY).payload([0x5a; 1472]);
    ipv4(FRONTEND4, CLIENT4).tos(0xb9).ttl(33).id(9).dont_fragment().gre(header).build()
}

/// The same packet as the IPv6 backend knows it.
fn known_to_backend6() -> Vec<u8> {
    let header = gre().key(KEY).payload([0x5a; 1472]);
    let packet = ipv6(BACKEND6, EMBEDDED_CLIENT4).traffic_class(0xb9).hop_limit(33);
    packet.gre(header).build()
}

fn reply6() -> Vec<u8> {
    let header = gre().key(KEY).payload([0x5a; 1452]);
    ipv6(FRONTEND6, CLIENT6).traffic_class(0xb9).flow_label(5).hop_limit(33).gre(header).build()
}

fn known_to_backend4() -> Vec<u8> {
    let header = gre().key(KEY).payload([0x5a; 1452]);
    ipv4(BACKEND4, POOL4).tos(0xb9).ttl(33).dont_fragment().gre(header).build()
}

fn v6_to_v4_with_client() -> FixedTables {
    let mut tables = v6_to_v4();
    verdict(&ipv6(CLIENT6, FRONTEND6).gre(gre().key(KEY)).build(), &mut tables);
    tables.identification = 0x7f;
    tables
}

/// Asserts what an IPv4 error becomes for an IPv6 backend; `quoted` octets of the reply's GRE
/// header and payload are quoted.
#[track_caller]
fn in_v6(message: Icmp, expected: Option<Icmp>, quoted: usize) {
    let message = message.quoting(&reply4(), 20 + quoted);
    let error = ipv4(ROUTER4, FRONTEND4).tos(0xc0).ttl(9).icmp(message).build();
    let Some(expected) = expected else {
        return is_dropped(&error, DropReason::ErrorUntranslatable, &mut v4_to_v6());
    };
    // In all, an ICMPv6 error is at most 1280 octets long (RFC 4443 2.4 c).
    let expected = expected.quoting(&known_to_backend6(), 40 + quoted.min(1280 - 88));
    let expected = ipv6(EMBEDDED_ROUTER4, BACKEND6).traffic_class(0xc0).hop_limit(8).icmp(expected);
    becomes(&error, &expected.build(), &mut v4_to_v6());
}

#[track_caller]
fn in_v4(message: Icmp, expected: Option<Icmp>, quoted: usize) {
    let message = message.quoting(&reply6(), 40 + quoted);
    let error = ipv6(ROUTER6, FRONTEND6).traffic_class(0xc0).hop_limit(9).icmp(message).build();
    let mut tables = v6_to_v4_with_client();
    let Some(expected) = expected else {
        return is_dropped(&error, DropReason::ErrorUntranslatable, &mut tables);
    };
    // In all, an ICMP error is at most 576 octets long (RFC 1812 4.3.2.3).
    let expected = expected.quoting(&known_to_backend4(), 20 + quoted.min(576 - 48));
    let expected = ipv4(POOL4, BACKEND4).tos(0xc0).ttl(8).id(0x80).icmp(expected).build();
    becomes(&error, &expected, &mut tables);
}

#[test]
fn unreachable_is_translated_to_icmpv6_code_by_code() {
    // RFC 7915 4.2; `None`: silently dropped.
    for (code, expected) in [
        (0, Some(icmp(1, 0))),
        (1, Some(icmp(1, 0))),
        (2, Some(icmp(4, 1).rest([0, 0, 0, 6]))),
        (3, Some(icmp(1, 4))),
        (5, Some(icmp(1, 0))),
        (6, Some(icmp(1, 0))),
        (7, Some(icmp(1, 0))),
        (8, Some(icmp(1, 0))),
        (9, Some(icmp(1, 1))),
        (10, Some(icmp(1, 1))),
        (11, Some(icmp(1, 0))),
        (12, Some(icmp(1, 0))),
        (13, Some(icmp(1, 1))),
        (14, None),
        (15, Some(icmp(1, 1))),
        (16, None),
        (255, None),
    ] {
        in_v6(icmp(3, code), expected, 8);
    }
}

#[test]
fn unreachable_is_translated_to_icmp_code_by_code() {
    // RFC 7915 5.2.
    for (code, expected) in [
        (0, Some(icmp(3, 1))),
        (1, Some(icmp(3, 10))),
        (2, Some(icmp(3, 1))),
        (3, Some(icmp(3, 1))),
        (4, Some(icmp(3, 3))),
        (5, None),
        (6, None),
        (255, None),
    ] {
        in_v4(icmp(1, code), expected, 8);
    }
}

#[test]
fn time_exceeded_keeps_its_code() {
    for code in [0, 1] {
        in_v6(icmp(11, code), Some(icmp(3, code)), 8);
        in_v4(icmp(3, code), Some(icmp(11, code)), 8);
    }
}

#[test]
fn a_parameter_problem_points_to_the_counterpart_of_the_field() {
    // RFC 7915 4.2, figure 3.
    for (pointer, expected) in [
        (0, Some(0)),
        (1, Some(1)),
        (2, Some(4)),
        (3, Some(4)),
        (4, None),
        (5, None),
        (6, None),
        (7, None),
        (8, Some(7)),
        (9, Some(6)),
        (10, None),
        (11, None),
        (12, Some(8)),
        (15, Some(8)),
        (16, Some(24)),
        (19, Some(24)),
        (20, None),
        (255, None),
    ] {
        for code in [0, 2] {
            let expected = expected.map(|pointer| icmp(4, 0).rest([0, 0, 0, pointer]));
            in_v6(icmp(12, code).rest([pointer, 0, 0, 0]), expected, 8);
        }
    }
    in_v6(icmp(12, 1), None, 8);
    in_v6(icmp(12, 3), None, 8);
    // RFC 7915 5.2, figure 6.
    for (pointer, expected) in [
        (0, Some(0)),
        (1, Some(1)),
        (2, None),
        (3, None),
        (4, Some(2)),
        (5, Some(2)),
        (6, Some(9)),
        (7, Some(8)),
        (8, Some(12)),
        (23, Some(12)),
        (24, Some(16)),
        (39, Some(16)),
        (40, None),
        (0x0100_0000, None),
        (u32::MAX, None),
    ] {
        let expected = expected.map(|pointer| icmp(12, 0).rest([pointer, 0, 0, 0]));
        in_v4(icmp(4, 0).rest(u32::to_be_bytes(pointer)), expected, 8);
    }
    in_v4(icmp(4, 1).rest([0, 0, 0, 6]), Some(icmp(3, 2)), 8);
    in_v4(icmp(4, 2), None, 8);
}

#[test]
fn l3_57_the_mtu_grows_and_shrinks_by_the_difference_of_the_headers() {
    for (mtu, expected) in [(1400, 1420), (1480, 1500), (1260, 1280), (576, 1280), (68, 1280)] {
        in_v6(icmp(3, 4).mtu(mtu), Some(icmp(2, 0).mtu(expected)), 100);
    }
    // The upper half of the word is no part of the MTU (RFC 1191 4).
    in_v6(icmp(3, 4).rest([0xff, 0, 0x05, 0x78]), Some(icmp(2, 0).mtu(1420)), 100);
    for (mtu, expected) in [(1420, 1400), (1280, 1260), (68, 68), (0, 68), (0x1_0000, 65_516)] {
        in_v4(icmp(2, 0).mtu(mtu), Some(icmp(3, 4).mtu(expected)), 100);
    }
    in_v4(icmp(2, 0).mtu(u32::MAX), Some(icmp(3, 4).mtu(0xffff)), 100);
    // A receiver ignores the code (RFC 4443 3.2).
    in_v4(icmp(2, 7).mtu(1420), Some(icmp(3, 4).mtu(1400)), 100);
}

#[test]
fn l3_57_without_an_mtu_the_next_lower_plateau_is_taken() {
    // RFC 7915 4.2: the greatest plateau of RFC 1191 7.1 below the quoted total length, 1500.
    in_v6(icmp(3, 4).mtu(0), Some(icmp(2, 0).mtu(1512)), 100);
    for (length, expected) in [(2003, 2022), (2002, 1512), (1493, 1512), (1492, 1280), (28, 1280)] {
        let reply = ipv4(FRONTEND4, CLIENT4).gre(gre().key(KEY)).false_total_length(length);
        let message = icmp(3, 4).mtu(0).quoting(&reply.build(), 28);
        let error = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
        let (_, octets) = decide(&error, &mut v4_to_v6());
        assert_eq!(octets[44..48], u32::to_be_bytes(expected), "{length}");
    }
}

#[test]
fn a_long_quote_is_cut_to_what_the_family_allows() {
    for quoted in [4, 8, 500, 527, 528, 529, 1191, 1192, 1193, 1480] {
        // Four quoted octets of GRE end before the key.
        if quoted > 4 {
            in_v6(icmp(3, 1), Some(icmp(1, 0)), quoted);
            in_v4(icmp(1, 1), Some(icmp(3, 10)), quoted.min(1200));
        }
    }
}

#[test]
fn a_short_quoted_packet_may_be_fragmented_in_ipv4() {
    // RFC 7915 5.3 with 5.1: DF is 0 up to 1260 octets.
    let header = || gre().key(KEY).payload([1; 30]);
    let reply = ipv6(FRONTEND6, CLIENT6).hop_limit(1).gre(header()).build();
    let error = ipv6(ROUTER6, FRONTEND6).icmp(icmp(3, 0).quoting(&reply, 9999)).build();
    let known = ipv4(BACKEND4, POOL4).ttl(1).gre(header()).build();
    let expected = icmp(11, 0).quoting(&known, 9999);
    let expected = ipv4(POOL4, BACKEND4).ttl(63).id(0x80).icmp(expected).build();
    becomes(&error, &expected, &mut v6_to_v4_with_client());
}

#[test]
fn l3_19_the_quotes_extension_headers_and_options_are_left_behind() {
    let header = || gre().key(KEY).payload([1; 30]);
    let reply = ipv6(FRONTEND6, CLIENT6).destination_options([4, 1, 4]).gre(header()).build();
    let error = ipv6(ROUTER6, FRONTEND6).hop_by_hop([]).icmp(icmp(3, 0).quoting(&reply, 9999));
    let known = ipv4(BACKEND4, POOL4).gre(header()).build();
    let expected = icmp(11, 0).quoting(&known, 9999);
    let expected = ipv4(POOL4, BACKEND4).ttl(63).id(0x80).icmp(expected).build();
    becomes(&error.build(), &expected, &mut v6_to_v4_with_client());

    let reply = ipv4(FRONTEND4, CLIENT4).options([1; 12]).gre(header()).build();
    let error = ipv4(ROUTER4, FRONTEND4).options([1; 4]).icmp(icmp(11, 0).quoting(&reply, 9999));
    let known = ipv6(BACKEND6, EMBEDDED_CLIENT4).gre(header()).build();
    let expected = icmp(3, 0).quoting(&known, 9999);
    let expected = ipv6(EMBEDDED_ROUTER4, BACKEND6).hop_limit(63).icmp(expected).build();
    becomes(&error.build(), &expected, &mut v4_to_v6());
}

#[test]
fn the_extensions_of_rfc_4884_are_cut_off_with_their_length() {
    // An MPLS label stack object behind 128 quoted octets; the length is in octet 5 in units of
    // four (ICMP) or in octet 4 in units of eight (ICMPv6). The quote's length in octets stays
    // unknown to receivers only if no extension follows.
    let extension = [0x20, 0, 0, 0, 0, 8, 1, 1, 0, 1, 0, 1];
    let body = |reply: &[u8]| [&reply[..128], &extension[..]].concat();
    for (kind, kind6) in [(3, 1), (11, 3)] {
        let message = icmp(kind, 0).rest([0, 32, 0, 0]).body(body(&reply4()));
        let error = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
        let expected = icmp(kind6, 0).quoting(&known_to_backend6(), 148);
        let expected = ipv6(EMBEDDED_ROUTER4, BACKEND6).hop_limit(63).icmp(expected).build();
        becomes(&error, &expected, &mut v4_to_v6());

        let message = icmp(kind6, 0).rest([16, 0, 0, 0]).body(body(&reply6()));
        let error = ipv6(ROUTER6, FRONTEND6).icmp(message).build();
        let code = u8::from(kind == 3);
        let expected = icmp(kind, code).quoting(&known_to_backend4(), 108);
        let expected = ipv4(POOL4, BACKEND4).ttl(63).id(0x80).icmp(expected).build();
        becomes(&error, &expected, &mut v6_to_v4_with_client());
    }
    // A length beyond the message cuts nothing; one too short for the flow ends the quote there.
    let message = icmp(3, 1).rest([0, 255, 0, 0]).quoting(&reply4(), 100);
    let error = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
    assert_eq!(verdict(&error, &mut v4_to_v6()), Verdict::ToBackend(0));
    let message = icmp(3, 1).rest([0, 1, 0, 0]).quoting(&reply4(), 100);
    let error = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
    is_dropped(&error, DropReason::ErrorTruncated, &mut v4_to_v6());
}

#[test]
fn l3_52_a_flow_that_the_pool_does_not_know_cannot_be_translated() {
    let error = |header: testkit::packet::Gre, quoted| {
        let reply = ipv6(FRONTEND6, CLIENT6).gre(header.payload([0; 99])).build();
        ipv6(ROUTER6, FRONTEND6).icmp(icmp(2, 0).mtu(1280).quoting(&reply, quoted)).build()
    };
    let mut tables = v6_to_v4_with_client();
    is_dropped(&error(gre(), 99), DropReason::KeyRequired, &mut tables);
    is_dropped(&error(gre().key(1), 99), DropReason::ClientUnknown, &mut tables);
    let short = error(gre().key(KEY).checksum(), 48);
    assert_eq!(verdict(&short, &mut tables), Verdict::Everyone);
    let (copied, _) = copy_to(0, &short, &mut tables);
    assert_eq!(copied, Verdict::Drop(DropReason::ErrorTruncated));
    assert_eq!(tables.clients.len(), 1, "an error records no client");
}

#[test]
fn l3_52_a_copy_for_everyone_is_translated_too() {
    let header = || gre().key(KEY).checksum().payload([0; 99]);
    let reply = ipv4(FRONTEND4, CLIENT4).gre(header()).build();
    let error = ipv4(ROUTER4, FRONTEND4).icmp(icmp(11, 0).quoting(&reply, 28)).build();
    let mut tables = v4_to_v6();
    assert_eq!(verdict(&error, &mut tables), Verdict::Everyone);
    let known = ipv6(BACKEND6, EMBEDDED_CLIENT4).gre(header()).build();
    let expected = icmp(3, 0).quoting(&known, 48);
    let expected = ipv6(EMBEDDED_ROUTER4, BACKEND6).hop_limit(63).icmp(expected).build();
    assert_eq!(copy_to(0, &error, &mut tables), (Verdict::ToBackend(0), expected));
}

#[test]
fn without_room_a_translated_error_is_dropped() {
    let message = icmp(11, 0).quoting(&reply4(), 28);
    let mut packet = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
    let end = packet.len();
    let mut frame = SliceFrame::new(&mut packet, 0, end).unwrap();
    let verdict = process(&mut frame, &mut v4_to_v6());
    assert_eq!(verdict, Verdict::Drop(DropReason::NoHeadroom));
}
