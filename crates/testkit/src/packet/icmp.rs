//! ICMP messages for IPv4 (RFC 792, RFC 1191) and IPv6 (RFC 4443).
//!
//! The four bytes after the checksum are called `rest`: unused, an MTU, a pointer, or identifier
//! and sequence number.

use super::{PROTOCOL_ICMPV6, PseudoHeader, checksum};

/// An ICMP message under construction; the IP header decides which ICMP it is.
#[derive(Debug, Clone)]
pub struct Icmp {
    kind: u8,
    code: u8,
    rest: [u8; 4],
    checksum_error: u16,
    body: Vec<u8>,
}

/// A message of type `kind` with `code`, nothing else set.
///
/// IPv4: 3 unreachable (code 4 fragmentation needed), 8 echo, 11 time exceeded.
/// IPv6: 1 unreachable, 2 packet too big, 3 time exceeded, 4 parameter problem, 128 echo.
#[must_use]
pub fn icmp(kind: u8, code: u8) -> Icmp {
    Icmp { kind, code, rest: [0; 4], checksum_error: 0, body: Vec::new() }
}

impl Icmp {
    /// The MTU in bytes: the last two bytes of `rest` for IPv4, all four for IPv6, which agree
    /// below 65536.
    #[must_use]
    pub fn mtu(mut self, mtu: u32) -> Self {
        self.rest = mtu.to_be_bytes();
        self
    }

    /// All four bytes after the checksum.
    #[must_use]
    pub fn rest(mut self, rest: [u8; 4]) -> Self {
        self.rest = rest;
        self
    }

    /// Identifier and sequence number of an echo.
    #[must_use]
    pub fn echo(mut self, identifier: u16, sequence: u16) -> Self {
        let [a, b] = identifier.to_be_bytes();
        let [c, d] = sequence.to_be_bytes();
        self.rest = [a, b, c, d];
        self
    }

    /// Quotes the first `length` bytes of `packet`, or all of it if it is shorter.
    #[must_use]
    pub fn quoting(mut self, packet: &[u8], length: usize) -> Self {
        self.body = packet[..length.min(packet.len())].to_vec();
        self
    }

    /// What follows the first eight bytes.
    #[must_use]
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// The checksum is wrong.
    #[must_use]
    pub fn bad_checksum(mut self) -> Self {
        self.checksum_error = 0x0100;
        self
    }

    /// The message for IPv4, whose checksum covers the message alone.
    pub(super) fn build_v4(&self) -> Vec<u8> {
        self.build(checksum)
    }

    /// The message for IPv6, whose checksum covers a pseudo header too.
    pub(super) fn build_v6(&self, pseudo: &PseudoHeader) -> Vec<u8> {
        self.build(|message| pseudo.checksum(PROTOCOL_ICMPV6, message))
    }

    fn build(&self, sum: impl Fn(&[u8]) -> u16) -> Vec<u8> {
        let mut message = vec![self.kind, self.code, 0, 0];
        message.extend(self.rest);
        message.extend(&self.body);
        let sum = sum(&message) ^ self.checksum_error;
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        message
    }
}
