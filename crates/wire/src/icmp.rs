//! ICMP and ICMPv6 messages that report an error about a quoted packet (RFC 792, RFC 4443 3).
//!
//! ```text
//! |     Type      |     Code      |          Checksum             |
//! |       unused, or MTU, or pointer: depends on the type         |
//! |      the quoted packet, as much of it as the sender chose     |
//! ```
//! An echo has its identifier and sequence number where an error has the type's own word; other
//! queries are not described here.

/// Octets before the quoted packet, in both families.
pub const HEADER_BYTES: usize = 8;
/// Offset of the checksum.
pub const CHECKSUM: usize = 2;
/// Offset of an echo's identifier, two octets.
pub const IDENTIFIER: usize = 4;
/// Offset of an echo's sequence number, two octets.
pub const SEQUENCE: usize = 6;

/// Message types of ICMP for IPv4 (RFC 792).
pub mod v4 {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;

    /// Codes of "destination unreachable".
    pub mod unreachable {
        /// Host unreachable.
        pub const HOST: u8 = 1;
        /// Protocol unreachable.
        pub const PROTOCOL: u8 = 2;
        /// Port unreachable.
        pub const PORT: u8 = 3;
        /// Fragmentation needed and DF set; the MTU is in the last two octets (RFC 1191 4).
        pub const FRAGMENTATION_NEEDED: u8 = 4;
        /// Communication with destination host administratively prohibited (RFC 1122 3.2.2.1).
        pub const HOST_PROHIBITED: u8 = 10;
        /// Communication administratively prohibited (RFC 1812 5.2.7.1).
        pub const PROHIBITED: u8 = 13;
    }
}

/// Message types of ICMPv6 (RFC 4443 3).
pub mod v6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big; the MTU is in the four octets after the checksum.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Types from here on are no errors (RFC 4443 2.1).
    pub const FIRST_INFORMATIONAL: u8 = 128;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;

    /// Codes of "destination unreachable".
    pub mod unreachable {
        /// No route to destination.
        pub const NO_ROUTE: u8 = 0;
        /// Communication administratively prohibited.
        pub const PROHIBITED: u8 = 1;
        /// Address unreachable.
        pub const ADDRESS: u8 = 3;
        /// Port unreachable.
        pub const PORT: u8 = 4;
    }

    /// Codes of "parameter problem".
    pub mod parameter {
        /// Unrecognized next header type.
        pub const NEXT_HEADER: u8 = 1;
    }
}

/// What the eight octets before the quoted packet say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Message type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// Checksum as it came, or 0 before it is computed.
    pub checksum: u16,
    /// The type's own word: unused, MTU or pointer.
    pub rest: u32,
}

impl Header {
    /// Reads the eight octets.
    #[inline(always)]
    pub const fn parse(octets: [u8; HEADER_BYTES]) -> Self {
        let [kind, code, c0, c1, r0, r1, r2, r3] = octets;
        Self {
            kind,
            code,
            checksum: u16::from_be_bytes([c0, c1]),
            rest: u32::from_be_bytes([r0, r1, r2, r3]),
        }
    }

    /// The eight octets.
    #[inline(always)]
    pub const fn emit(&self) -> [u8; HEADER_BYTES] {
        let [c0, c1] = self.checksum.to_be_bytes();
        let [r0, r1, r2, r3] = self.rest.to_be_bytes();
        [self.kind, self.code, c0, c1, r0, r1, r2, r3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_emitted_as_it_came() {
        let octets = [3, 4, 0xab, 0xcd, 0, 0, 0x05, 0x14];
        let header = Header::parse(octets);
        assert_eq!((header.kind, header.code, header.rest), (3, 4, 1300));
        assert_eq!(header.emit(), octets);
    }
}
