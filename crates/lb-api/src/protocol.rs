//! What a service balances: TCP, UDP, ICMP echo, or another IP protocol as a whole.

use crate::decode::Value;
use crate::problem::Read;
use crate::scalar::Kind;
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;

/// The protocol of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP (RFC 9293).
    Tcp,
    /// UDP (RFC 768).
    Udp,
    /// ICMP (RFC 792) of an IPv4, ICMPv6 (RFC 4443) of an IPv6 VIP: echo only.
    Icmp,
    /// Any other protocol, by addresses alone.
    Raw(RawProtocol),
}

/// The number of a protocol without ports that packets can carry behind all headers of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawProtocol(u8);

/// <https://www.iana.org/assignments/protocol-numbers>
mod number {
    pub(super) const ICMP: u8 = 1;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const ICMPV6: u8 = 58;
    pub(super) const NO_NEXT_HEADER: u8 = 59;
    /// Hop-by-hop, routing, fragment, destination options, mobility, HIP, Shim6.
    pub(super) const EXTENSION_HEADERS: [u8; 7] = [0, 43, 44, 60, 135, 139, 140];
}

impl Protocol {
    /// Whether services of it differ by port.
    #[must_use]
    pub fn has_ports(self) -> bool {
        match self {
            Self::Tcp | Self::Udp => true,
            Self::Icmp | Self::Raw(_) => false,
        }
    }

    /// The number in packets to `vip`.
    #[must_use]
    pub fn number(self, vip: IpAddr) -> u8 {
        match self {
            Self::Tcp => number::TCP,
            Self::Udp => number::UDP,
            Self::Icmp if vip.is_ipv4() => number::ICMP,
            Self::Icmp => number::ICMPV6,
            Self::Raw(RawProtocol(number)) => number,
        }
    }

    /// `tcp`, `udp`, `icmp` or a number; `vip` tells which ICMP a number may name.
    pub(crate) fn read(value: &Value<'_>, vip: Option<IpAddr>) -> Read<Self> {
        if value.plain_kind() == Some(Kind::Number) {
            let number = value.whole(0..=u8::MAX)?;
            return Self::from_number(number, vip).map_err(|wrong| value.refuse(wrong));
        }
        let names = [("tcp", Self::Tcp), ("udp", Self::Udp), ("icmp", Self::Icmp)];
        value.choice(&names, "tcp, udp, icmp or a protocol number")
    }

    fn from_number(number: u8, vip: Option<IpAddr>) -> Result<Self, String> {
        let other_family = match number {
            number::ICMP => vip.is_some_and(|vip| vip.is_ipv6()),
            number::ICMPV6 => vip.is_some_and(|vip| vip.is_ipv4()),
            _ => false,
        };
        match number {
            number::TCP => Ok(Self::Tcp),
            number::UDP => Ok(Self::Udp),
            _ if other_family => {
                Err(format!("{number} is ICMP of the VIP's other family: write icmp"))
            }
            number::ICMP | number::ICMPV6 => Ok(Self::Icmp),
            number::AUTHENTICATION => Err(format!(
                "{number} is the authentication header, which does not survive NAT (RFC 3715 2.1)"
            )),
            number::NO_NEXT_HEADER => {
                Err(format!("{number} says that nothing follows: name a protocol"))
            }
            _ if number::EXTENSION_HEADERS.contains(&number) => Err(format!(
                "{number} is an IPv6 extension header: name the protocol that follows it"
            )),
            _ => Ok(Self::Raw(RawProtocol(number))),
        }
    }
}

impl RawProtocol {
    /// The number, 2..=255.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

/// As it is written in a resource.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp => f.write_str("tcp"),
            Self::Udp => f.write_str("udp"),
            Self::Icmp => f.write_str("icmp"),
            Self::Raw(RawProtocol(number)) => number.fmt(f),
        }
    }
}

/// A word, or a number.
impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Tcp | Self::Udp | Self::Icmp => serializer.collect_str(self),
            Self::Raw(RawProtocol(number)) => serializer.serialize_u8(*number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_has_a_name_is_that_protocol() {
        let v4: IpAddr = "203.0.113.10".parse().unwrap();
        let v6: IpAddr = "2001:db8::10".parse().unwrap();
        for (number, vip, expected) in [
            (6, v4, Protocol::Tcp),
            (17, v6, Protocol::Udp),
            (1, v4, Protocol::Icmp),
            (58, v6, Protocol::Icmp),
            (47, v4, Protocol::Raw(RawProtocol(47))),
            (50, v6, Protocol::Raw(RawProtocol(50))),
            (255, v6, Protocol::Raw(RawProtocol(255))),
        ] {
            let protocol = Protocol::from_number(number, Some(vip)).unwrap();
            assert_eq!(protocol, expected, "{number}");
            assert_eq!(protocol.number(vip), number);
        }
    }

    #[test]
    fn every_number_is_a_protocol_or_refused_with_a_reason() {
        let vip: IpAddr = "203.0.113.10".parse().unwrap();
        let refused: Vec<u8> =
            (0..=255).filter(|n| Protocol::from_number(*n, Some(vip)).is_err()).collect();
        assert_eq!(refused, [0, 43, 44, 51, 58, 59, 60, 135, 139, 140]);
    }
}
