//! What raw ICMP sockets deliver to the prober.

use netio::icmp::EchoReply;
use std::net::{IpAddr, Ipv4Addr};
use testkit::packet::checksum;
use wire::Family;

/// A reply's fields stand where RFC 792 and RFC 4443 4.2 put them, and an IPv4 one sums up.
pub fn icmp_reply(octets: &[u8]) {
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for family in [Family::V4, Family::V6] {
        let Some(reply) = EchoReply::parse(family, from, octets) else { continue };
        let (start, kind) = match family {
            Family::V4 => (usize::from(octets[0] & 15) * 4, 0),
            Family::V6 => (0, 129),
        };
        let message = &octets[start..];
        assert_eq!((message[0], message[1]), (kind, 0));
        assert_eq!(reply.id.to_be_bytes(), message[4..6]);
        assert_eq!(reply.seq.to_be_bytes(), message[6..8]);
        assert_eq!(reply.payload, &message[8..]);
        assert_eq!(reply.from, from);
        if family == Family::V4 {
            assert_eq!(checksum(message), 0);
        }
    }
}
