//! Test packets, written the way one says them.
//!
//! ```
//! use testkit::packet::{gre, ipv4};
//!
//! let packet = ipv4("10.0.0.1", "10.0.0.47")
//!     .ttl(9)
//!     .gre(gre().key(42).checksum().payload(b"inner"))
//!     .build();
//! assert_eq!(packet.len(), 20 + 12 + 5);
//! ```
//!
//! A packet starts at the IP header; [`ethernet`] makes a frame of it. Lengths and checksums come out right unless a method says
//! otherwise. Nothing here is shared with the product's parsers, and everything is computed in the
//! most obvious way, so that the two can be held against each other.

mod ethernet;
mod gre;
mod icmp;
mod ipv4;
mod ipv6;
mod neighbour;
mod sums;
mod tcp;

pub use ethernet::{Arp, BROADCAST, Ethernet, Mac, arp_reply, arp_request, ethernet};
pub use gre::{Gre, gre};
pub use icmp::{Icmp, icmp};
pub use ipv4::{Ipv4, ipv4};
pub use ipv6::{Fragments, Ipv6, ipv6};
pub use neighbour::{neighbour_advertisement, neighbour_solicitation, solicited_node};
pub use sums::verify_sums;
pub use tcp::{Tcp, tcp};

/// IP protocol number of ICMP for IPv4.
pub const PROTOCOL_ICMP: u8 = 1;
/// IP protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// IP protocol number of GRE.
pub const PROTOCOL_GRE: u8 = 47;
/// IP protocol number of ICMP for IPv6.
pub const PROTOCOL_ICMPV6: u8 = 58;

/// The Internet checksum (RFC 1071): the complement of the ones' complement sum of all 16-bit
/// words, an odd last byte padded with zero.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) * 256 + word.get(1).map_or(0, |low| u32::from(*low));
        if sum > 0xffff {
            sum = sum - 0x1_0000 + 1;
        }
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// `packet` with the bits of `mask` flipped in byte `index`.
///
/// # Panics
/// `packet` has no byte `index`.
#[must_use]
pub fn corrupt(mut packet: Vec<u8>, index: usize, mask: u8) -> Vec<u8> {
    packet[index] ^= mask;
    packet
}

/// A UDP datagram (RFC 768) whose checksum covers `pseudo_header`.
fn udp(source_port: u16, destination_port: u16, payload: &[u8], pseudo: &PseudoHeader) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(source_port.to_be_bytes());
    datagram.extend(destination_port.to_be_bytes());
    datagram.extend(length_u16(8 + payload.len()).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    let sum = match pseudo.checksum(PROTOCOL_UDP, &datagram) {
        // Zero would mean that there is no checksum.
        0 => 0xffff,
        sum => sum,
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram
}

/// A UDP datagram whose checksum field says that there is none.
fn udp_without_checksum(source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let pseudo = PseudoHeader { addresses: Vec::new() };
    let mut datagram = udp(source_port, destination_port, payload, &pseudo);
    datagram[6..8].fill(0);
    datagram
}

/// The addresses that transport checksums cover beside the datagram, in the order source,
/// destination: four or sixteen bytes each.
struct PseudoHeader {
    addresses: Vec<u8>,
}

impl PseudoHeader {
    /// The checksum of `datagram` behind the pseudo header. Its length takes four bytes
    /// (RFC 8200 8.1), which sums to the same as the two of RFC 768.
    fn checksum(&self, protocol: u8, datagram: &[u8]) -> u16 {
        let length = u32::from(length_u16(datagram.len()));
        let mut bytes = self.addresses.clone();
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0, 0, protocol]);
        bytes.extend(datagram);
        checksum(&bytes)
    }
}

/// A length as packets carry it.
#[expect(clippy::expect_used, reason = "a test packet that cannot exist is a mistake in the test")]
fn length_u16(length: usize) -> u16 {
    u16::try_from(length).expect("a packet has at most 65535 bytes")
}

/// A header's length in `unit`-byte words.
#[expect(clippy::expect_used, reason = "a test packet that cannot exist is a mistake in the test")]
fn words_u8(length: usize, unit: usize) -> u8 {
    assert_eq!(length % unit, 0, "a header is a multiple of {unit} bytes");
    u8::try_from(length / unit).expect("a header length fits its field")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_the_example_in_rfc_1071() {
        // RFC 1071 3: the sum is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
        assert_eq!(checksum(&[0xff]), !0xff00);
        assert_eq!(checksum(&[]), 0xffff);
    }

    #[test]
    fn corruption_flips_the_bits_asked_for() {
        assert_eq!(corrupt(vec![1, 2, 3], 1, 0x82), [1, 0x80, 3]);
    }

    #[test]
    fn udp_checksum_is_never_zero_on_the_wire() {
        // A payload that makes the sum come out as ffff, its complement zero.
        let pseudo = PseudoHeader { addresses: vec![0; 8] };
        let plain = udp(0, 0, &[0, 0], &pseudo);
        let needed = u16::from_be_bytes([plain[6], plain[7]]);
        let datagram = udp(0, 0, &needed.to_be_bytes(), &pseudo);
        assert_eq!(datagram[6..8], [0xff, 0xff]);
    }
}
