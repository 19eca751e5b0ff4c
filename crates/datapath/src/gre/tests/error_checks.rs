//! What keeps an ICMP error from being sent on.

use super::*;
use testkit::packet::{Icmp, gre, icmp, ipv4, ipv6};

const KEY: u32 = 42;

fn message4() -> Icmp {
    let reply = ipv4(FRONTEND4, CLIENT4).dont_fragment().gre(gre().key(KEY).payload([1; 99]));
    icmp(3, 4).mtu(1400).quoting(&reply.build(), 9999)
}

fn message6() -> Icmp {
    let reply = ipv6(FRONTEND6, CLIENT6).gre(gre().key(KEY).payload([1; 99]));
    icmp(2, 0).mtu(1400).quoting(&reply.build(), 9999)
}

/// An IPv6 frontend with an IPv4 backend that has had a packet of the client.
fn v6_to_v4_with_client() -> FixedTables {
    let mut tables = v6_to_v4();
    verdict(&ipv6(CLIENT6, FRONTEND6).gre(gre().key(KEY)).build(), &mut tables);
    tables
}

#[test]
fn an_error_whose_hops_are_used_up_is_dropped_and_never_answered() {
    // RFC 1812 4.3.2.7, RFC 4443 2.4 e.1: no error about an error.
    let keyed = gre().key(KEY).checksum().payload([1; 9]);
    let short4 = ipv4(FRONTEND4, CLIENT4).gre(keyed.clone()).build();
    let short6 = ipv6(FRONTEND6, CLIENT6).gre(keyed).build();
    for ttl in [0, 1] {
        for message in [message4(), icmp(3, 4).mtu(1400).quoting(&short4, 28)] {
            let error = ipv4(ROUTER4, FRONTEND4).ttl(ttl).icmp(message).build();
            for mut tables in [v4_to_v4(), v4_to_v6()] {
                is_dropped(&error, DropReason::TtlExpired, &mut tables);
                let (verdict, _) = copy_to(0, &error, &mut tables);
                assert_eq!(verdict, Verdict::Drop(DropReason::TtlExpired));
                assert_eq!((tables.answers, tables.copies), (100, 100));
            }
        }
        for message in [message6(), icmp(2, 0).mtu(1400).quoting(&short6, 48)] {
            let error = ipv6(ROUTER6, FRONTEND6).hop_limit(ttl).icmp(message).build();
            for mut tables in [v6_to_v6(), v6_to_v4_with_client()] {
                is_dropped(&error, DropReason::TtlExpired, &mut tables);
                assert_eq!((tables.answers, tables.copies), (100, 100));
            }
        }
    }
}

#[test]
fn an_error_larger_than_the_way_ahead_is_not_answered() {
    let mut tables = v4_to_v4();
    tables.mtu = Some(68);
    let error = ipv4(ROUTER4, FRONTEND4).dont_fragment().icmp(message4()).build();
    assert!(!matches!(verdict(&error, &mut tables), Verdict::Answer(_)));
    assert_eq!(tables.answers, 100);
}

#[test]
fn l3_24_an_error_of_a_source_that_no_network_delivers_is_dropped() {
    for source in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"] {
        let error = ipv4(source, FRONTEND4).icmp(message4()).build();
        is_dropped(&error, DropReason::SourceInvalid, &mut v4_to_v4());
        is_dropped(&error, DropReason::SourceInvalid, &mut v4_to_v6());
        let (verdict, _) = copy_to(0, &error, &mut v4_to_v4());
        assert_eq!(verdict, Verdict::Drop(DropReason::SourceInvalid));
    }
    for source in ["::", "::1", "ff02::1", "fe80::1", "::ffff:203.0.113.77"] {
        let error = ipv6(source, FRONTEND6).icmp(message6()).build();
        is_dropped(&error, DropReason::SourceInvalid, &mut v6_to_v6());
        is_dropped(&error, DropReason::SourceInvalid, &mut v6_to_v4_with_client());
    }
}

#[test]
fn a_client_of_an_error_may_report_itself() {
    // Port and protocol unreachable come from the client.
    let error = ipv4(CLIENT4, FRONTEND4).icmp(message4()).build();
    let expected = ipv4(EDGE4, BACKEND4).ttl(63).icmp(message4()).build();
    becomes(&error, &expected, &mut v4_to_v4());
}

#[test]
fn with_no_healthy_backend_an_error_is_dropped() {
    let mut tables = v4_to_v4();
    tables.winners.clear();
    let error = ipv4(ROUTER4, FRONTEND4).icmp(message4()).build();
    is_dropped(&error, DropReason::NoHealthyBackend, &mut tables);
}

#[test]
fn a_corrupt_error_is_not_laundered_by_translation() {
    let error = ipv4(ROUTER4, FRONTEND4).icmp(message4().bad_checksum()).build();
    is_dropped(&error, DropReason::ErrorChecksum, &mut v4_to_v6());
    let (copied, _) = copy_to(0, &error, &mut v4_to_v6());
    assert_eq!(copied, Verdict::Drop(DropReason::ErrorChecksum));
    let error = ipv6(ROUTER6, FRONTEND6).icmp(message6().bad_checksum()).build();
    is_dropped(&error, DropReason::ErrorChecksum, &mut v6_to_v4_with_client());
    // An ICMPv6 checksum without the pseudo header is as wrong.
    let as_icmp = ipv4(ROUTER4, FRONTEND4).icmp(message6()).build();
    let error = ipv6(ROUTER6, FRONTEND6).payload(58, &as_icmp[20..]).build();
    is_dropped(&error, DropReason::ErrorChecksum, &mut v6_to_v4_with_client());
    // Padding is no part of the message.
    let error = ipv4(ROUTER4, FRONTEND4).icmp(message4()).build();
    let padded = [error, vec![0xee; 7]].concat();
    assert_eq!(verdict(&padded, &mut v4_to_v6()), Verdict::ToBackend(0));
}

#[test]
fn a_corrupt_error_stays_corrupt_within_its_family() {
    // The receiver drops it: the checksum is carried along, not made anew.
    let error = |to| ipv4(sender4(to), to).icmp(message4().bad_checksum());
    becomes(&error(FRONTEND4).build(), &error(BACKEND4).ttl(63).build(), &mut v4_to_v4());
    let error = |to| ipv6(sender6(to), to).icmp(message6().bad_checksum());
    let (verdict, octets) = decide(&error(FRONTEND6).build(), &mut v6_to_v6());
    assert_eq!(verdict, Verdict::ToBackend(0));
    let right = ipv6(EDGE6, BACKEND6).hop_limit(63).icmp(message6()).build();
    assert_ne!(octets, right);
    assert_eq!((&octets[..42], &octets[44..]), (&right[..42], &right[44..]));
}

#[test]
fn the_icmpv6_checksum_is_right_for_every_destination() {
    let reply = ipv6(FRONTEND6, CLIENT6).gre(gre()).build();
    for low in 0..=u16::MAX {
        let backend = std::format!("2001:db8:b::{low:x}");
        let mut tables = FixedTables::new(ip(FRONTEND6), &[ip(&backend)]);
        let message = icmp(2, 0).mtu(1280).quoting(&reply, 48);
        let error = |to: &str| ipv6(sender6(to), to).icmp(message.clone());
        let (_, octets) = decide(&error(FRONTEND6).build(), &mut tables);
        // Where the sum comes out as zero, both forms of zero verify (RFC 1624 3).
        assert_eq!(octets[42..44], error(&backend).build()[42..44], "{backend}");
    }
}
