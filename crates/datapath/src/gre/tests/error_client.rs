//! ICMP errors about packets on their way to a backend of the other family: sent on to the client
//! in its own family, as if the frontend had reported.

use super::*;
use testkit::packet::{gre, icmp, ipv4, ipv6};

const KEY: u32 = 42;

/// What an IPv6 backend was sent, and the same packet as the client sent it.
fn sent_to_backend6(payload: usize) -> (Vec<u8>, Vec<u8>) {
    let header = || gre().key(KEY).payload(vec![0x5a; payload]);
    let to_backend = ipv6(EMBEDDED_CLIENT4, BACKEND6).traffic_class(0xb9).hop_limit(33);
    let from_client = ipv4(CLIENT4, FRONTEND4).tos(0xb9).ttl(33).dont_fragment();
    (to_backend.gre(header()).build(), from_client.gre(header()).build())
}

fn sent_to_backend4() -> (Vec<u8>, Vec<u8>) {
    let header = || gre().key(KEY).payload([0x5a; 1400]);
    let to_backend = ipv4(POOL4, BACKEND4).tos(0xb9).ttl(33).dont_fragment();
    let from_client = ipv6(CLIENT6, FRONTEND6).traffic_class(0xb9).hop_limit(33);
    (to_backend.gre(header()).build(), from_client.gre(header()).build())
}

fn v6_to_v4_with_client() -> FixedTables {
    let mut tables = v6_to_v4();
    verdict(&ipv6(CLIENT6, FRONTEND6).gre(gre().key(KEY)).build(), &mut tables);
    tables.identification = 0x7f;
    tables
}

#[test]
fn l3_57_a_client_hears_in_ipv4_of_a_narrow_way_to_an_ipv6_backend() {
    let (to_backend, from_client) = sent_to_backend6(1400);
    let message = icmp(2, 0).mtu(1400).quoting(&to_backend, 1232);
    let error = ipv6(ROUTER6, EMBEDDED_CLIENT4).traffic_class(0xc0).hop_limit(9).icmp(message);
    // 1400 octets of IPv6 are 1380 of IPv4; 576 octets in all (RFC 1812 4.3.2.3).
    let message = icmp(3, 4).mtu(1380).quoting(&from_client, 548);
    let expected = ipv4(FRONTEND4, CLIENT4).tos(0xc0).ttl(8).id(1).icmp(message).build();
    let (verdict, octets) = decide(&error.build(), &mut v4_to_v6());
    assert_eq!((verdict, octets), (Verdict::ToClient(0), expected));
}

#[test]
fn l3_57_a_client_hears_in_ipv6_of_a_narrow_way_to_an_ipv4_backend() {
    let (to_backend, from_client) = sent_to_backend4();
    let message = icmp(3, 4).mtu(1300).quoting(&to_backend, 548);
    let error = ipv4(ROUTER4, POOL4).tos(0xc0).ttl(9).icmp(message);
    let message = icmp(2, 0).mtu(1320).quoting(&from_client, 568);
    let expected = ipv6(FRONTEND6, CLIENT6).traffic_class(0xc0).hop_limit(8).icmp(message).build();
    let (verdict, octets) = decide(&error.build(), &mut v6_to_v4_with_client());
    assert_eq!((verdict, octets), (Verdict::ToClient(0), expected));
}

#[test]
fn an_error_does_not_keep_a_clients_record_alive_and_a_reply_does() {
    // Anybody can forge an error; only a backend replies.
    let mut tables = v6_to_v4_with_client();
    let (to_backend, _) = sent_to_backend4();
    let error = ipv4(ROUTER4, POOL4).icmp(icmp(3, 4).mtu(1300).quoting(&to_backend, 28)).build();
    assert_eq!(verdict(&error, &mut tables), Verdict::ToClient(0));
    assert_eq!(tables.refreshed, []);
    let reply = ipv4(BACKEND4, POOL4).gre(gre().key(KEY)).build();
    assert_eq!(verdict(&reply, &mut tables), Verdict::ToClient(0));
    assert_eq!(tables.refreshed, [(address(POOL4), KEY)]);
}

#[test]
fn l3_13_28_quoted_octets_suffice_in_this_direction_too() {
    let (to_backend, from_client) = sent_to_backend4();
    let error = ipv4(ROUTER4, POOL4).icmp(icmp(3, 1).quoting(&to_backend, 28));
    let message = icmp(1, 0).quoting(&from_client, 48);
    let expected = ipv6(FRONTEND6, CLIENT6).hop_limit(63).icmp(message).build();
    let (verdict, octets) = decide(&error.build(), &mut v6_to_v4_with_client());
    assert_eq!((verdict, octets), (Verdict::ToClient(0), expected));
    // The /96 names the client: a key outside of the quote does no harm.
    let to_backend = ipv6(EMBEDDED_CLIENT4, BACKEND6).gre(gre().key(KEY).checksum()).build();
    let error = ipv6(ROUTER6, EMBEDDED_CLIENT4).icmp(icmp(1, 0).quoting(&to_backend, 48));
    assert_eq!(verdict_of(error.build(), &mut v4_to_v6()), Verdict::ToClient(0));
    // The pool does not: without the key nobody can be told.
    let to_backend = ipv4(POOL4, BACKEND4).gre(gre().key(KEY).checksum()).build();
    let error = ipv4(ROUTER4, POOL4).icmp(icmp(3, 1).quoting(&to_backend, 28)).build();
    is_dropped(&error, DropReason::ErrorTruncated, &mut v6_to_v4_with_client());
}

fn verdict_of(packet: Vec<u8>, tables: &mut FixedTables) -> Verdict {
    verdict(&packet, tables)
}

#[test]
fn l3_24_errors_about_packets_to_strangers_or_for_strangers_reach_nobody() {
    let to_stranger = ipv6(EMBEDDED_CLIENT4, "2001:db8:b::99").gre(gre()).build();
    let error =
        ipv6(ROUTER6, EMBEDDED_CLIENT4).icmp(icmp(2, 0).mtu(1300).quoting(&to_stranger, 99));
    is_dropped(&error.build(), DropReason::BackendUnknown, &mut v4_to_v6());
    let for_stranger = ipv4(POOL4, BACKEND4).gre(gre().key(7)).build();
    let error = ipv4(ROUTER4, POOL4).icmp(icmp(3, 4).mtu(1300).quoting(&for_stranger, 28));
    is_dropped(&error.build(), DropReason::ClientUnknown, &mut v6_to_v4_with_client());
    // A quote that another return address sent is not about this one.
    let other = ipv6("2001:db8:64::1.2.3.4", BACKEND6).gre(gre()).build();
    let error = ipv6(ROUTER6, EMBEDDED_CLIENT4).icmp(icmp(2, 0).mtu(1300).quoting(&other, 99));
    assert_eq!(verdict_of(error.build(), &mut v4_to_v6()), Verdict::Pass);
}

#[test]
fn a_corrupt_error_to_a_return_address_is_dropped() {
    let (to_backend, _) = sent_to_backend6(100);
    let message = icmp(2, 0).mtu(1400).quoting(&to_backend, 148).bad_checksum();
    let error = ipv6(ROUTER6, EMBEDDED_CLIENT4).icmp(message).build();
    is_dropped(&error, DropReason::ErrorChecksum, &mut v4_to_v6());
}
