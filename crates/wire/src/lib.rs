//! Packet formats: pure, `no_std`, behind any frame, in the kernel and on the host alike.
//!
//! A fixed header is `parse([u8; N]) -> Option<Header>` and `emit() -> [u8; N]`. Reading the
//! octets out of a frame, and every bound check, is the caller's: this crate never sees a slice
//! of unknown length but for checksums.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]

pub mod address;
pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod gre;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod neighbour;
pub mod tcp;
pub mod udp;

pub use address::{Address, Family};

/// IP protocol and IPv6 next-header numbers (IANA protocol-numbers).
pub mod protocol {
    /// IPv6 hop-by-hop options (RFC 8200 4.3).
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: u8 = 1;
    /// Transmission Control Protocol (RFC 9293).
    pub const TCP: u8 = 6;
    /// User Datagram Protocol (RFC 768).
    pub const UDP: u8 = 17;
    /// IPv6 routing header (RFC 8200 4.4).
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header (RFC 8200 4.5).
    pub const FRAGMENT: u8 = 44;
    /// Generic Routing Encapsulation (RFC 2784).
    pub const GRE: u8 = 47;
    /// IP authentication header (RFC 4302).
    pub const AUTHENTICATION: u8 = 51;
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// IPv6 destination options (RFC 8200 4.6).
    pub const DESTINATION_OPTIONS: u8 = 60;
}
