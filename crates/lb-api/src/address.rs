//! Addresses that packets can be sent to over a network.

use crate::error::Error;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use wire::Address;

/// A unicast address that a router may forward packets to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RoutableAddr(IpAddr);

impl RoutableAddr {
    /// The address.
    #[must_use]
    pub fn get(self) -> IpAddr {
        self.0
    }

    /// `IPv4` or `IPv6`.
    #[must_use]
    pub fn family(self) -> &'static str {
        if self.0.is_ipv4() { "IPv4" } else { "IPv6" }
    }
}

impl TryFrom<IpAddr> for RoutableAddr {
    type Error = Error;

    fn try_from(address: IpAddr) -> Result<Self, Error> {
        let is_link_local = match address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        if let IpAddr::V6(v6) = address
            && let Some(v4) = v6.to_ipv4_mapped()
        {
            return Err(Error::MappedAddress(v4));
        }
        let what = match address {
            _ if address.is_unspecified() => "the unspecified address",
            _ if address.is_loopback() => "a loopback address",
            _ if address.is_multicast() => "a multicast address",
            _ if is_link_local => "a link-local address",
            _ if !Address::from(address).is_routable() => "a reserved address",
            _ => return Ok(Self(address)),
        };
        Err(Error::NotRoutable(what))
    }
}

impl FromStr for RoutableAddr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse::<IpAddr>().map_err(|_| Error::Address)?.try_into()
    }
}

impl fmt::Display for RoutableAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_routers_forward_to_are_accepted() {
        for text in ["203.0.113.10", "10.0.1.11", "192.168.0.1", "2001:db8::1", "fd00::1"] {
            let address: RoutableAddr = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.family(), if text.contains(':') { "IPv6" } else { "IPv4" });
        }
    }

    #[test]
    fn each_other_address_is_refused_by_its_name() {
        for (text, expected) in [
            ("0.0.0.0", "the unspecified address"),
            ("::", "the unspecified address"),
            ("127.0.0.1", "a loopback address"),
            ("::1", "a loopback address"),
            ("224.0.0.18", "a multicast address"),
            ("ff02::1", "a multicast address"),
            ("169.254.0.1", "a link-local address"),
            ("fe80::1", "a link-local address"),
            ("0.1.2.3", "a reserved address"),
            ("255.255.255.255", "a reserved address"),
            ("240.0.0.1", "a reserved address"),
            ("::ffff:192.0.2.1", "an IPv4 address in IPv6 notation: write 192.0.2.1"),
            ("192.0.2.1:80", "not an IPv4 or IPv6 address"),
            ("[2001:db8::1]", "not an IPv4 or IPv6 address"),
            ("192.0.2.0/24", "not an IPv4 or IPv6 address"),
            ("192.0.2.01", "not an IPv4 or IPv6 address"),
            ("fe80::1%eth0", "not an IPv4 or IPv6 address"),
            ("web", "not an IPv4 or IPv6 address"),
            ("", "not an IPv4 or IPv6 address"),
        ] {
            let error = text.parse::<RoutableAddr>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
