//! Packets that can go no further, and what their source is told.

use super::*;
use testkit::packet::{Gre, gre, icmp, ipv4, ipv6};

/// Asserts that the packet is answered with `expected`.
#[track_caller]
fn is_answered(packet: &[u8], reason: DropReason, expected: &[u8], tables: &mut FixedTables) {
    let (verdict, octets) = decide(packet, tables);
    assert_eq!(verdict, Verdict::Answer(reason));
    assert_eq!(octets, expected);
}

/// ICMP errors have precedence "internetwork control" (RFC 1812 4.3.2.5), quote up to 576 octets
/// in all (4.3.2.3), and come from the address that the packet was sent to.
fn error_v4(from: &str, to: &str, id: u16, kind: u8, code: u8, mtu: u32, quoted: &[u8]) -> Vec<u8> {
    let message = icmp(kind, code).mtu(mtu).quoting(quoted, 576 - 28);
    ipv4(from, to).tos(0xc0).id(id).icmp(message).build()
}

/// ICMPv6 errors quote up to 1280 octets in all (RFC 4443 2.4 c).
fn error_v6(from: &str, to: &str, kind: u8, mtu: u32, quoted: &[u8]) -> Vec<u8> {
    let message = icmp(kind, 0).mtu(mtu).quoting(quoted, 1280 - 48);
    ipv6(from, to).traffic_class(0xc0).icmp(message).build()
}

/// GRE that makes an IP packet of `length` octets with a header of `header`.
fn filling(length: usize, header: usize) -> Gre {
    gre().key(1).payload(vec![0x5a; length - header - 8])
}

#[test]
fn l3_15_too_big_for_the_own_family_tells_the_mtu_ahead() {
    for mtu in [1280, 1400, 1499] {
        let mut tables = v4_to_v4();
        tables.mtu = Some(mtu);
        let fits = ipv4(CLIENT4, FRONTEND4).dont_fragment().gre(filling(mtu as usize, 20)).build();
        assert_eq!(verdict(&fits, &mut tables), Verdict::ToBackend(0));
        let sent = ipv4(CLIENT4, FRONTEND4).dont_fragment().gre(filling(mtu as usize + 1, 20));
        let sent = sent.build();
        let expected = error_v4(FRONTEND4, CLIENT4, 1, 3, 4, mtu, &sent);
        is_answered(&sent, DropReason::TooBig, &expected, &mut tables);

        let mut tables = v6_to_v6();
        tables.mtu = Some(mtu);
        let fits = ipv6(CLIENT6, FRONTEND6).gre(filling(mtu as usize, 40)).build();
        assert_eq!(verdict(&fits, &mut tables), Verdict::ToBackend(0));
        let sent = ipv6(CLIENT6, FRONTEND6).gre(filling(mtu as usize + 1, 40)).build();
        let expected = error_v6(FRONTEND6, CLIENT6, 2, mtu, &sent);
        is_answered(&sent, DropReason::TooBig, &expected, &mut tables);
    }
}

#[test]
fn l3_57_too_big_for_ipv6_tells_an_ipv4_client_20_octets_less() {
    let mut tables = v4_to_v6();
    let fits = ipv4(CLIENT4, FRONTEND4).dont_fragment().gre(filling(1480, 20)).build();
    assert_eq!(verdict(&fits, &mut tables), Verdict::ToBackend(0));
    for length in [1481, 1500] {
        let sent = ipv4(CLIENT4, FRONTEND4).dont_fragment().gre(filling(length, 20)).build();
        let expected = error_v4(FRONTEND4, CLIENT4, 1, 3, 4, 1480, &sent);
        is_answered(&sent, DropReason::TooBig, &expected, &mut v4_to_v6());
    }
}

#[test]
fn l3_57_too_big_for_ipv4_tells_an_ipv6_client_20_octets_more() {
    let mut tables = v6_to_v4();
    tables.mtu = Some(1400);
    let fits = ipv6(CLIENT6, FRONTEND6).gre(filling(1420, 40)).build();
    assert_eq!(verdict(&fits, &mut tables), Verdict::ToBackend(0));
    let sent = ipv6(CLIENT6, FRONTEND6).gre(filling(1421, 40)).build();
    let expected = error_v6(FRONTEND6, CLIENT6, 2, 1420, &sent);
    is_answered(&sent, DropReason::TooBig, &expected, &mut tables);
}

#[test]
fn l3_15_no_mtu_below_the_familys_least_is_told() {
    // 68 for IPv4 (RFC 791), 1280 for IPv6 (RFC 8200 5).
    let mut tables = v4_to_v4();
    tables.mtu = Some(40);
    let sent = ipv4(CLIENT4, FRONTEND4).dont_fragment().gre(filling(100, 20)).build();
    is_answered(
        &sent,
        DropReason::TooBig,
        &error_v4(FRONTEND4, CLIENT4, 1, 3, 4, 68, &sent),
        &mut tables,
    );
    let mut tables = v6_to_v6();
    tables.mtu = Some(1000);
    let sent = ipv6(CLIENT6, FRONTEND6).gre(filling(1200, 40)).build();
    is_answered(
        &sent,
        DropReason::TooBig,
        &error_v6(FRONTEND6, CLIENT6, 2, 1280, &sent),
        &mut tables,
    );
    // A path beyond 65,535 octets does not overflow the field.
    let mut tables = v4_to_v6();
    tables.mtu = Some(65_540);
    let sent = ipv4(CLIENT4, FRONTEND4).dont_fragment().gre(filling(65_535, 20)).build();
    is_answered(
        &sent,
        DropReason::TooBig,
        &error_v4(FRONTEND4, CLIENT4, 1, 3, 4, 65_520, &sent),
        &mut tables,
    );
}

#[test]
fn l3_57_without_df_too_big_is_dropped_and_not_told() {
    let sent = ipv4(CLIENT4, FRONTEND4).gre(filling(1500, 20)).build();
    let mut tables = v4_to_v6();
    is_dropped(&sent, DropReason::TooBig, &mut tables);
    assert_eq!(tables.answers, 100, "the budget is untouched");
}

#[test]
fn l3_57_an_ipv4_packet_that_may_be_fragmented_goes_on() {
    let sent = ipv4(CLIENT4, FRONTEND4).gre(filling(1500, 20)).build();
    let mut tables = v4_to_v4();
    tables.mtu = Some(1400);
    assert_eq!(verdict(&sent, &mut tables), Verdict::ToBackend(0));
    // An IPv6 packet of the least MTU fits every path: as an IPv4 packet it may be fragmented
    // (RFC 7915 5.1).
    let least = ipv6(CLIENT6, FRONTEND6).gre(filling(1280, 40)).build();
    let mut tables = v6_to_v4();
    tables.mtu = Some(600);
    assert_eq!(verdict(&least, &mut tables), Verdict::ToBackend(0));
    let more = ipv6(CLIENT6, FRONTEND6).gre(filling(1281, 40)).build();
    assert_eq!(verdict(&more, &mut tables), Verdict::Answer(DropReason::TooBig));
}

#[test]
fn l3_15_headers_that_end_here_do_not_count_and_those_that_go_on_do() {
    let mut tables = v4_to_v4();
    tables.mtu = Some(1400);
    let sent = ipv4(CLIENT4, FRONTEND4).dont_fragment().options([1; 40]).gre(filling(1401, 60));
    assert_eq!(verdict(&sent.build(), &mut tables), Verdict::Answer(DropReason::TooBig));
    let mut tables = v4_to_v6();
    tables.mtu = Some(1400);
    let sent = ipv4(CLIENT4, FRONTEND4).dont_fragment().options([1; 40]).gre(filling(1420, 60));
    assert_eq!(verdict(&sent.build(), &mut tables), Verdict::ToBackend(0));
    let mut tables = v6_to_v4();
    tables.mtu = Some(1400);
    let sent = ipv6(CLIENT6, FRONTEND6).destination_options([4, 1, 4]).gre(filling(1428, 48));
    assert_eq!(verdict(&sent.build(), &mut tables), Verdict::ToBackend(0));
}

#[test]
fn a_reply_that_is_too_big_is_told_to_the_backend_by_the_return_address() {
    let mut tables = v4_to_v6();
    tables.mtu = Some(1400);
    let sent = ipv6(BACKEND6, EMBEDDED_CLIENT4).gre(filling(1421, 40)).build();
    let expected = error_v6(EMBEDDED_CLIENT4, BACKEND6, 2, 1420, &sent);
    is_answered(&sent, DropReason::TooBig, &expected, &mut tables);

    let mut tables = v6_to_v4();
    verdict(&ipv6(CLIENT6, FRONTEND6).gre(gre().key(1)).build(), &mut tables);
    tables.identification = 0;
    let sent = ipv4(BACKEND4, POOL4).dont_fragment().gre(filling(1481, 20)).build();
    let expected = error_v4(POOL4, BACKEND4, 1, 3, 4, 1480, &sent);
    is_answered(&sent, DropReason::TooBig, &expected, &mut tables);
}

#[test]
fn l3_08_a_packet_whose_hops_are_used_up_is_answered_from_the_frontend() {
    for ttl in [0, 1] {
        let sent = ipv4(CLIENT4, FRONTEND4).tos(3).ttl(ttl).gre(filling(60, 20)).build();
        for mut tables in [v4_to_v4(), v4_to_v6()] {
            let expected = error_v4(FRONTEND4, CLIENT4, 1, 11, 0, 0, &sent);
            is_answered(&sent, DropReason::TtlExpired, &expected, &mut tables);
        }
        let sent = ipv6(CLIENT6, FRONTEND6).hop_limit(ttl).gre(filling(80, 40)).build();
        for mut tables in [v6_to_v6(), v6_to_v4()] {
            let expected = error_v6(FRONTEND6, CLIENT6, 3, 0, &sent);
            is_answered(&sent, DropReason::TtlExpired, &expected, &mut tables);
            assert!(tables.clients.is_empty());
        }
    }
    let sent = ipv4(CLIENT4, FRONTEND4).ttl(2).gre(gre()).build();
    becomes(&sent, &ipv4(CLIENT4, BACKEND4).ttl(1).gre(gre()).build(), &mut v4_to_v4());
}

#[test]
fn a_reply_whose_hops_are_used_up_is_answered_from_the_return_address() {
    let sent = ipv6(BACKEND6, EMBEDDED_CLIENT4).hop_limit(1).gre(gre()).build();
    let expected = error_v6(EMBEDDED_CLIENT4, BACKEND6, 3, 0, &sent);
    is_answered(&sent, DropReason::TtlExpired, &expected, &mut v4_to_v6());
}

#[test]
fn an_answer_quotes_as_much_as_its_family_allows() {
    for length in [28, 547, 548, 549, 1400] {
        let sent = ipv4(CLIENT4, FRONTEND4).ttl(1).gre(filling(length, 20)).build();
        let (_, octets) = decide(&sent, &mut v4_to_v4());
        assert_eq!(octets.len(), (length + 28).min(576));
    }
    for length in [48, 1231, 1232, 1233, 1400] {
        let sent = ipv6(CLIENT6, FRONTEND6).hop_limit(1).gre(filling(length, 40)).build();
        let (_, octets) = decide(&sent, &mut v6_to_v6());
        assert_eq!(octets.len(), (length + 48).min(1280));
    }
}

#[test]
fn padding_is_not_quoted() {
    let sent = ipv4(CLIENT4, FRONTEND4).ttl(1).gre(gre()).build();
    let padded = [sent.clone(), vec![0xee; 22]].concat();
    let expected = error_v4(FRONTEND4, CLIENT4, 1, 11, 0, 0, &sent);
    is_answered(&padded, DropReason::TtlExpired, &expected, &mut v4_to_v4());
}

#[test]
fn without_budget_the_packet_is_dropped_and_its_reason_counted() {
    let expired = ipv4(CLIENT4, FRONTEND4).ttl(1).gre(gre()).build();
    let too_big = ipv4(CLIENT4, FRONTEND4).dont_fragment().gre(filling(1501, 20)).build();
    let mut tables = v4_to_v4();
    tables.answers = 1;
    assert_eq!(verdict(&expired, &mut tables), Verdict::Answer(DropReason::TtlExpired));
    is_dropped(&expired, DropReason::TtlExpired, &mut tables);
    is_dropped(&too_big, DropReason::TooBig, &mut tables);
}

#[test]
fn without_room_for_the_answer_the_packet_is_dropped_and_its_reason_counted() {
    let mut packet = ipv4(CLIENT4, FRONTEND4).ttl(1).gre(gre()).build();
    let end = packet.len();
    let mut frame = SliceFrame::new(&mut packet, 0, end).unwrap();
    let verdict = process(&mut frame, &mut v4_to_v4());
    assert_eq!(verdict, Verdict::Drop(DropReason::TtlExpired));
}

#[test]
fn a_source_that_cannot_be_told_is_not_answered() {
    // RFC 1812 4.3.2.7, RFC 4443 2.4 e.6.
    for source in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"] {
        let packet = ipv4(source, FRONTEND4).ttl(1).gre(gre()).build();
        is_dropped(&packet, DropReason::SourceInvalid, &mut v4_to_v4());
    }
    for source in ["::", "ff02::1"] {
        let packet = ipv6(source, FRONTEND6).hop_limit(1).gre(gre()).build();
        is_dropped(&packet, DropReason::SourceInvalid, &mut v6_to_v6());
    }
}
