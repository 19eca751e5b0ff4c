//! One address type for both families: 16 octets, IPv4 as `::ffff:a.b.c.d` (RFC 4291 2.5.5.2).
//!
//! Tables, hashes and map layouts then need no case distinction, and a key has one fixed size.

use core::cmp::Ordering;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IP version of an address or a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// An IPv4 or IPv6 address in 16 octets, network byte order.
///
/// In memory the octets lie as they do in a packet; they are kept as two words because copying,
/// comparing and hashing are what is done with most addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Address {
    high: u64,
    low: u64,
}

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Address {
    /// The address of these four octets, kept in mapped form.
    #[inline(always)]
    pub const fn v4(octets: [u8; 4]) -> Self {
        let [a, b, c, d] = octets;
        Self { high: 0, low: u64::from_ne_bytes([0, 0, 0xff, 0xff, a, b, c, d]) }
    }

    /// The address of these sixteen octets. A mapped address is taken as IPv4.
    #[inline(always)]
    pub const fn v6(octets: [u8; 16]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = octets;
        let high = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        Self { high, low: u64::from_ne_bytes([i, j, k, l, m, n, o, p]) }
    }

    /// All sixteen octets.
    #[inline(always)]
    pub const fn octets(self) -> [u8; 16] {
        let Self { high, low } = self;
        let [a, b, c, d, e, f, g, h] = high.to_ne_bytes();
        let [i, j, k, l, m, n, o, p] = low.to_ne_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    /// The last four octets: the IPv4 address of a mapped one, or what a /96 embeds.
    #[inline(always)]
    pub const fn low4(self) -> [u8; 4] {
        let Self { low, .. } = self;
        let [.., a, b, c, d] = low.to_ne_bytes();
        [a, b, c, d]
    }

    /// The first twelve octets: what a /96 consists of.
    #[inline(always)]
    pub const fn high12(self) -> [u8; 12] {
        let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = self.octets();
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// The /96 of `high` with `low` embedded (RFC 6052 2.2, prefix length 96).
    #[inline(always)]
    pub const fn embed(high: [u8; 12], low: [u8; 4]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = high;
        let [m, n, o, p] = low;
        Self::v6([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
    }

    /// Which family the address is of.
    #[inline(always)]
    pub const fn family(self) -> Family {
        const PREFIX: Address = Address::embed(MAPPED, [0; 4]);
        const BITS: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        let Self { high, low } = self;
        if high == PREFIX.high && low & BITS == PREFIX.low { Family::V4 } else { Family::V6 }
    }

    /// The two halves as 64-bit words, for hashing: the same on every machine.
    #[inline(always)]
    pub const fn words(self) -> [u64; 2] {
        let Self { high, low } = self;
        [u64::from_le(high), u64::from_le(low)]
    }

    /// Whether the address can be the source of a packet that came over a network: not the
    /// unspecified, a loopback, a multicast or the limited broadcast address, nor class E
    /// (RFC 1812 5.3.7, RFC 4291 2.5 and 2.7).
    #[inline(always)]
    pub fn is_unicast(self) -> bool {
        match self.family() {
            Family::V4 => {
                let [a, ..] = self.low4();
                a != 0 && a != 127 && a < 224
            }
            Family::V6 => {
                let [a, ..] = self.octets();
                a != 0xff && u128::from_be_bytes(self.octets()) > 1
            }
        }
    }

    /// Whether a router may forward packets from and to the address: unicast, and of more than
    /// one link (RFC 3927 2.7, RFC 4291 2.5.6).
    #[inline(always)]
    pub fn is_routable(self) -> bool {
        let link_local = match self.family() {
            Family::V4 => {
                let [a, b, ..] = self.low4();
                a == 169 && b == 254
            }
            Family::V6 => {
                let [a, b, ..] = self.octets();
                a == 0xfe && b & 0xc0 == 0x80
            }
        };
        self.is_unicast() && !link_local
    }
}

/// As the octets are ordered.
impl Ord for Address {
    fn cmp(&self, other: &Self) -> Ordering {
        self.octets().cmp(&other.octets())
    }
}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Self::v4(v4.octets()),
            IpAddr::V6(v6) => Self::v6(v6.octets()),
        }
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        match address.family() {
            Family::V4 => Self::V4(Ipv4Addr::from(address.low4())),
            Family::V6 => Self::V6(Ipv6Addr::from(address.octets())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn an_address_survives_the_way_through_sixteen_octets() {
        for text in ["192.0.2.1", "255.255.255.255", "2001:db8::1", "::1", "fe80::1"] {
            let ip: IpAddr = text.parse().unwrap();
            let address = Address::from(ip);
            assert_eq!(IpAddr::from(address), ip);
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn only_unicast_addresses_can_be_a_source() {
        for (text, unicast) in [
            ("192.0.2.1", true),
            ("10.0.0.1", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("127.0.0.1", false),
            ("224.0.0.5", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2001:db8::1", true),
            ("fe80::1", true),
            ("::", false),
            ("::1", false),
            ("ff02::1", false),
        ] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(Address::from(ip).is_unicast(), unicast, "{text}");
        }
    }

    #[test]
    fn addresses_of_one_link_are_not_routable() {
        for (text, routable) in [
            ("192.0.2.1", true),
            ("169.253.255.255", true),
            ("169.254.0.0", false),
            ("169.254.255.255", false),
            ("169.255.0.0", true),
            ("127.0.0.1", false),
            ("2001:db8::1", true),
            ("fe7f::1", true),
            ("fe80::1", false),
            ("febf:ffff::1", false),
            ("fec0::1", true),
            ("ff02::1", false),
        ] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(Address::from(ip).is_routable(), routable, "{text}");
        }
    }

    #[test]
    fn a_prefix_of_96_bits_embeds_an_ipv4_address_reversibly() {
        let prefix: Ipv6Addr = "2001:db8:64::".parse().unwrap();
        let whole = Address::embed(Address::v6(prefix.octets()).high12(), [192, 0, 2, 33]);
        assert_eq!(whole.to_string(), "2001:db8:64::c000:221");
        assert_eq!(whole.low4(), [192, 0, 2, 33]);
    }
}
