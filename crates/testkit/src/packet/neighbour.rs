//! Neighbour discovery (RFC 4861 4.3, 4.4): ICMPv6 messages, to be carried with hop limit 255.

use std::net::Ipv6Addr;

use super::ethernet::Mac;
use super::{Icmp, icmp};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

/// The question who has `target`, with the asker's Ethernet address unless it has no address yet.
///
/// # Panics
/// Not an IPv6 address.
#[must_use]
pub fn neighbour_solicitation(target: &str, asker: Option<Mac>) -> Icmp {
    message(SOLICITATION, [0; 4], target, asker.map(|mac| (SOURCE_LINK_LAYER, mac)))
}

/// The answer that `target` is at `mac`; flags: 0x80 router, 0x40 solicited, 0x20 override.
///
/// # Panics
/// Not an IPv6 address.
#[must_use]
pub fn neighbour_advertisement(target: &str, flags: u8, mac: Mac) -> Icmp {
    message(ADVERTISEMENT, [flags, 0, 0, 0], target, Some((TARGET_LINK_LAYER, mac)))
}

#[expect(clippy::expect_used, reason = "a test packet that cannot exist is a mistake in the test")]
fn message(kind: u8, rest: [u8; 4], target: &str, option: Option<(u8, Mac)>) -> Icmp {
    let target: Ipv6Addr = target.parse().expect("the target is an IPv6 address");
    let mut body = target.octets().to_vec();
    if let Some((option, mac)) = option {
        body.extend([option, 1]);
        body.extend(mac);
    }
    icmp(kind, 0).rest(rest).body(body)
}

/// The group and its Ethernet address where the owner of `target` listens (RFC 4291 2.7.1).
///
/// # Panics
/// Not an IPv6 address.
#[expect(clippy::expect_used, reason = "a test packet that cannot exist is a mistake in the test")]
#[must_use]
pub fn solicited_node(target: &str) -> (String, Mac) {
    let target: Ipv6Addr = target.parse().expect("the target is an IPv6 address");
    let [.., a, b, c] = target.octets();
    (format!("ff02::1:ff{a:02x}:{b:02x}{c:02x}"), [0x33, 0x33, 0xff, a, b, c])
}

#[cfg(test)]
mod tests {
    use super::super::ipv6;
    use super::*;

    #[test]
    fn a_solicitation_is_laid_out_as_in_the_rfc() {
        let message = neighbour_solicitation("fd77::10", Some([2, 0, 0, 0, 0, 1]));
        let packet = ipv6("fd77::1", "fd77::2").hop_limit(255).icmp(message).build();
        assert_eq!([packet[40], packet[41], packet[7], packet[5]], [135, 0, 255, 32]);
        assert_eq!(packet[44..48], [0; 4]);
        assert_eq!(packet[48..64], "fd77::10".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(packet[64..], [1, 1, 2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn an_advertisement_has_its_flags_before_the_target() {
        let message = neighbour_advertisement("fd77::10", 0x60, [2, 0, 0, 0, 0, 1]);
        let packet = ipv6("fd77::1", "fd77::2").icmp(message).build();
        assert_eq!((packet[40], packet[44]), (136, 0x60));
        assert_eq!(packet[64..], [2, 1, 2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn the_group_of_an_address_ends_with_its_last_three_bytes() {
        let (group, mac) = solicited_node("2001:db8::12:3456");
        assert_eq!(group, "ff02::1:ff12:3456");
        assert_eq!(mac, [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
    }
}
