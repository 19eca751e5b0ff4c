//! ICMP errors about replies, sent on to the backend of the quoted flow: in one family.

use super::*;
use testkit::packet::{Fragments, Gre, Icmp, gre, icmp, ipv4, ipv6};

const KEY: u32 = 42;

/// A reply as the backend sends it to the client, with the frontend as source.
fn reply4(header: Gre) -> Vec<u8> {
    ipv4(FRONTEND4, CLIENT4).id(9).dont_fragment().gre(header.payload([0x5a; 100])).build()
}

fn reply6(header: Gre) -> Vec<u8> {
    ipv6(FRONTEND6, CLIENT6).gre(header.payload([0x5a; 100])).build()
}

/// Every kind of error that either family has.
fn kinds4() -> Vec<Icmp> {
    vec![icmp(3, 0), icmp(3, 2), icmp(3, 4).mtu(1400), icmp(11, 0), icmp(11, 1), icmp(12, 0)]
}

fn kinds6() -> Vec<Icmp> {
    vec![icmp(1, 0), icmp(1, 4), icmp(2, 0).mtu(1280), icmp(3, 0), icmp(3, 1), icmp(4, 1)]
}

#[test]
fn l3_13_an_error_with_28_quoted_octets_reaches_the_flows_backend() {
    for header in [gre(), gre().key(KEY), gre().key(KEY).sequence(1), gre().sequence(1)] {
        for kind in kinds4() {
            let message = kind.quoting(&reply4(header.clone()), 28);
            let error = |to| ipv4(sender4(to), to).tos(0xc0).id(3).icmp(message.clone());
            let expected = error(BACKEND4).ttl(63).build();
            becomes(&error(FRONTEND4).build(), &expected, &mut v4_to_v4());
        }
        for kind in kinds6() {
            let message = kind.quoting(&reply6(header.clone()), 48);
            let error = |to| ipv6(sender6(to), to).traffic_class(0xc0).icmp(message.clone());
            // The builder computes ICMPv6's checksum over the new destination anew.
            let expected = error(BACKEND6).hop_limit(63).build();
            becomes(&error(FRONTEND6).build(), &expected, &mut v6_to_v6());
        }
    }
}

#[test]
fn l3_12_the_quoted_flow_and_the_clients_own_packets_share_a_row() {
    for (header, quoted) in [
        (gre(), 28),
        (gre().checksum(), 28),
        (gre().key(KEY), 28),
        (gre().key(0), 28),
        (gre().key(KEY).checksum(), 32),
        (gre().key(KEY).checksum().sequence(1), 200),
    ] {
        let client = ipv4(CLIENT4, FRONTEND4).gre(header.clone()).build();
        let message = icmp(3, 4).mtu(1400).quoting(&reply4(header.clone()), quoted);
        let error = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
        assert_eq!(row(&error, &mut v4_to_v4()), row(&client, &mut v4_to_v4()), "{quoted}");
        let client = ipv6(CLIENT6, FRONTEND6).gre(header.clone()).build();
        let message = icmp(2, 0).mtu(1400).quoting(&reply6(header), quoted + 20);
        let error = ipv6(ROUTER6, FRONTEND6).icmp(message).build();
        assert_eq!(row(&error, &mut v6_to_v6()), row(&client, &mut v6_to_v6()), "{quoted}");
    }
}

#[test]
fn l3_52_the_key_mask_holds_for_quoted_keys_too() {
    let mut tables = v4_to_v4();
    tables.service.key_mask = 0xffff_ff00;
    let mut error_row = |key| {
        let message = icmp(3, 4).mtu(1400).quoting(&reply4(gre().key(key)), 28);
        row(&ipv4(ROUTER4, FRONTEND4).icmp(message).build(), &mut tables)
    };
    assert_eq!(error_row(0x100), error_row(0x1ff));
}

#[test]
fn l3_52_a_quote_that_ends_before_the_key_is_for_everyone() {
    let header = || gre().key(KEY).checksum();
    for quoted in 24..32 {
        let message = icmp(3, 4).mtu(1400).quoting(&reply4(header()), quoted);
        let error = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
        assert_eq!(decide(&error, &mut v4_to_v4()), (Verdict::Everyone, error), "{quoted}");
        let message = icmp(2, 0).mtu(1400).quoting(&reply6(header()), quoted + 20);
        let error = ipv6(ROUTER6, FRONTEND6).icmp(message).build();
        assert_eq!(decide(&error, &mut v6_to_v6()), (Verdict::Everyone, error), "{quoted}");
    }
    for quoted in [32, 100] {
        let message = icmp(3, 4).mtu(1400).quoting(&reply4(header()), quoted);
        let error = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
        assert_eq!(verdict(&error, &mut v4_to_v4()), Verdict::ToBackend(0), "{quoted}");
    }
}

#[test]
fn l3_52_everyone_gets_a_copy_of_their_own() {
    let mut tables = FixedTables::new(ip(FRONTEND4), &[ip(BACKEND4), ip("10.0.0.2")]);
    let message = icmp(3, 4).mtu(1400).quoting(&reply4(gre().key(KEY).checksum()), 28);
    let error = |to| ipv4(sender4(to), to).icmp(message.clone());
    let sent = error(FRONTEND4).build();
    assert_eq!(verdict(&sent, &mut tables), Verdict::Everyone);
    for (index, backend) in [(0, BACKEND4), (1, "10.0.0.2")] {
        let copy = copy_to(index, &sent, &mut tables);
        assert_eq!(copy, (Verdict::ToBackend(index), error(backend).ttl(63).build()));
    }
    assert_eq!(copy_to(2, &sent, &mut tables).0, Verdict::Drop(DropReason::NoHealthyBackend));
    let message = icmp(2, 0).mtu(1400).quoting(&reply6(gre().key(KEY).checksum()), 48);
    let error = |to| ipv6(sender6(to), to).icmp(message.clone());
    let copy = copy_to(0, &error(FRONTEND6).build(), &mut v6_to_v6());
    assert_eq!(copy, (Verdict::ToBackend(0), error(BACKEND6).hop_limit(63).build()));
}

#[test]
fn l3_52_copies_for_everyone_are_limited() {
    let message = icmp(3, 4).mtu(1400).quoting(&reply4(gre().key(KEY).checksum()), 28);
    let error = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
    let mut tables = v4_to_v4();
    tables.copies = 1;
    assert_eq!(verdict(&error, &mut tables), Verdict::Everyone);
    is_dropped(&error, DropReason::ErrorRateLimited, &mut tables);
    assert_eq!(tables.answers, 100);
}

#[test]
fn nothing_but_such_an_error_is_copied_to_everyone() {
    for packet in [
        ipv4(CLIENT4, FRONTEND4).gre(gre()).build(),
        ipv4(CLIENT4, FRONTEND4).udp(1, 2, b"").build(),
        ipv4(ROUTER4, FRONTEND4).icmp(icmp(8, 0).body(reply4(gre()))).build(),
        ipv4(ROUTER4, "192.0.2.2").icmp(icmp(3, 0).body(reply4(gre()))).build(),
    ] {
        assert_eq!(copy_to(0, &packet, &mut v4_to_v4()).0, Verdict::Pass);
    }
}

#[test]
fn a_quote_too_short_to_name_a_flow_is_dropped_and_counted() {
    for quoted in 0..24 {
        let message = icmp(3, 4).mtu(1400).quoting(&reply4(gre()), quoted);
        let error = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
        is_dropped(&error, DropReason::ErrorTruncated, &mut v4_to_v4());
    }
    let quoted = ipv6(FRONTEND6, CLIENT6).destination_options([4, 1, 4]).gre(gre()).build();
    for cut in 0..52 {
        let message = icmp(2, 0).mtu(1400).quoting(&quoted, cut);
        let error = ipv6(ROUTER6, FRONTEND6).icmp(message).build();
        is_dropped(&error, DropReason::ErrorTruncated, &mut v6_to_v6());
    }
    // The message itself is cut.
    for cut in 1..8 {
        let error = ipv4(ROUTER4, FRONTEND4).payload(1, &[3; 8][..cut]).build();
        is_dropped(&error, DropReason::ErrorTruncated, &mut v4_to_v4());
    }
}

#[test]
fn l3_21_the_quotes_own_options_and_extension_headers_are_stepped_over() {
    let options = ipv4(FRONTEND4, CLIENT4).options([1; 24]).gre(gre().key(KEY)).build();
    let message = icmp(11, 0).quoting(&options, 52);
    let error = ipv4(ROUTER4, FRONTEND4).options([1; 8]).icmp(message).build();
    let client = ipv4(CLIENT4, FRONTEND4).gre(gre().key(KEY)).build();
    assert_eq!(row(&error, &mut v4_to_v4()), row(&client, &mut v4_to_v4()));

    let client = ipv6(CLIENT6, FRONTEND6).gre(gre().key(KEY)).build();
    for quoted in [
        ipv6(FRONTEND6, CLIENT6).destination_options([4, 1, 4]),
        ipv6(FRONTEND6, CLIENT6).hop_by_hop([]).routing(4, 0, [0; 20]).ah(1, 2, [0; 12]),
        ipv6(FRONTEND6, CLIENT6).fragment(1, 0, Fragments::Last),
        // The first fragment of a reply that the backend had to fragment (RFC 7676 4.3).
        ipv6(FRONTEND6, CLIENT6).fragment(1, 0, Fragments::More),
    ] {
        let quoted = quoted.gre(gre().key(KEY)).build();
        let message = icmp(2, 0).mtu(1280).quoting(&quoted, 9999);
        let error = |to| ipv6(sender6(to), to).destination_options([]).icmp(message.clone());
        let expected = error(BACKEND6).hop_limit(63).build();
        becomes(&error(FRONTEND6).build(), &expected, &mut v6_to_v6());
        let sent = error(FRONTEND6).build();
        assert_eq!(row(&sent, &mut v6_to_v6()), row(&client, &mut v6_to_v6()));
    }
    let first = ipv4(FRONTEND4, CLIENT4).more_fragments().gre(gre().key(KEY)).build();
    let error = ipv4(ROUTER4, FRONTEND4).icmp(icmp(11, 1).quoting(&first, 28)).build();
    assert_eq!(verdict(&error, &mut v4_to_v4()), Verdict::ToBackend(0));
}

#[test]
fn quotes_of_something_else_are_left_to_the_host() {
    let from = |source| ipv4(source, CLIENT4);
    let from6 = |source| ipv6(source, CLIENT6);
    for quoted in [
        from("192.0.2.2").gre(gre()).build(),
        from(CLIENT4).gre(gre()).build(),
        from(FRONTEND4).udp(1, 2, b"x").build(),
        from(FRONTEND4).payload(6, [0; 20]).build(),
        from(FRONTEND4).gre(gre().version(1)).build(),
        from(FRONTEND4).gre(gre().routing()).build(),
        from(FRONTEND4).fragment_offset(1).gre(gre()).build(),
        from(FRONTEND4).false_header_words(4).gre(gre()).build(),
        from6(FRONTEND6).gre(gre()).build(),
    ] {
        for kind in kinds4() {
            let error = ipv4(ROUTER4, FRONTEND4).icmp(kind.quoting(&quoted, 9999)).build();
            let (verdict, octets) = decide(&error, &mut v4_to_v4());
            assert_eq!((verdict, octets), (Verdict::Pass, error), "{quoted:02x?}");
        }
    }
    for quoted in [
        from6("2001:db8::2").gre(gre()).build(),
        from6(FRONTEND6).udp(1, 2, b"x").build(),
        from6(FRONTEND6).gre(gre().version(1)).build(),
        from6(FRONTEND6).fragment(1, 1, Fragments::Last).gre(gre()).build(),
        from6(FRONTEND6).routing(4, 1, [0; 20]).gre(gre()).build(),
        ipv6(FRONTEND6, "::ffff:198.51.100.7").gre(gre()).build(),
        from(FRONTEND4).gre(gre().payload([0; 40])).build(),
    ] {
        for kind in kinds6() {
            let error = ipv6(ROUTER6, FRONTEND6).icmp(kind.quoting(&quoted, 9999)).build();
            let (verdict, octets) = decide(&error, &mut v6_to_v6());
            assert_eq!((verdict, octets), (Verdict::Pass, error), "{quoted:02x?}");
        }
    }
    let nine = (0..9).fold(from6(FRONTEND6), |packet, _| packet.destination_options([]));
    let message = icmp(1, 0).quoting(&nine.gre(gre()).build(), 9999);
    let error = ipv6(ROUTER6, FRONTEND6).icmp(message).build();
    assert_eq!(verdict(&error, &mut v6_to_v6()), Verdict::Pass);
}

#[test]
fn messages_that_report_no_error_are_left_to_the_host() {
    // Source quench, redirect, the queries; neighbour discovery, and types not yet known.
    for kind in [0, 4, 5, 8, 9, 10, 13, 14, 17, 18, 40, 255] {
        let message = icmp(kind, 0).quoting(&reply4(gre()), 9999);
        let packet = ipv4(ROUTER4, FRONTEND4).icmp(message).build();
        assert_eq!(verdict(&packet, &mut v4_to_v4()), Verdict::Pass, "{kind}");
    }
    assert_eq!(
        verdict(&ipv4(ROUTER4, FRONTEND4).payload(1, []).build(), &mut v4_to_v4()),
        Verdict::Pass
    );
    assert_eq!(
        verdict(&ipv6(ROUTER6, FRONTEND6).payload(58, []).build(), &mut v6_to_v6()),
        Verdict::Pass
    );
    for kind in [0, 5, 100, 127, 128, 129, 133, 134, 135, 136, 137, 255] {
        let message = icmp(kind, 0).quoting(&reply6(gre()), 9999);
        let packet = ipv6(ROUTER6, FRONTEND6).icmp(message).build();
        assert_eq!(verdict(&packet, &mut v6_to_v6()), Verdict::Pass, "{kind}");
    }
}
