//! GRE (RFC 2784) with key and sequence number (RFC 2890), and the routing of RFC 1701.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |C|R|K|S|     reserved    | ver |         protocol type         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     checksum (C or R)         |      reserved1 / offset       |
//! |                           key (K)                             |
//! |                     sequence number (S)                       |
//! |                         routing (R)                           |
//! ```

use super::checksum;

const CHECKSUM_PRESENT: u16 = 0x8000;
const ROUTING_PRESENT: u16 = 0x4000;
const KEY_PRESENT: u16 = 0x2000;
const SEQUENCE_PRESENT: u16 = 0x1000;
const TYPE_IPV4: u16 = 0x0800;

/// A GRE packet under construction.
#[derive(Debug, Clone)]
pub struct Gre {
    flags: u16,
    protocol_type: u16,
    key: u32,
    sequence: u32,
    reserved1: u16,
    checksum_error: u16,
    payload: Vec<u8>,
}

/// GRE with no optional field, carrying IPv4 (protocol type 0x0800), with an empty payload.
#[must_use]
pub fn gre() -> Gre {
    Gre {
        flags: 0,
        protocol_type: TYPE_IPV4,
        key: 0,
        sequence: 0,
        reserved1: 0,
        checksum_error: 0,
        payload: Vec::new(),
    }
}

impl Gre {
    /// Sets the K bit and the key.
    #[must_use]
    pub fn key(mut self, key: u32) -> Self {
        self.flags |= KEY_PRESENT;
        self.key = key;
        self
    }

    /// Sets the S bit and the sequence number.
    #[must_use]
    pub fn sequence(mut self, sequence: u32) -> Self {
        self.flags |= SEQUENCE_PRESENT;
        self.sequence = sequence;
        self
    }

    /// Sets the C bit; the checksum is computed.
    #[must_use]
    pub fn checksum(mut self) -> Self {
        self.flags |= CHECKSUM_PRESENT;
        self
    }

    /// Sets the C bit; the checksum is wrong.
    #[must_use]
    pub fn bad_checksum(mut self) -> Self {
        self.checksum_error = 0x0100;
        self.checksum()
    }

    /// Sets the R bit, with the routing of one empty source route entry (RFC 1701).
    #[must_use]
    pub fn routing(mut self) -> Self {
        self.flags |= ROUTING_PRESENT;
        self
    }

    /// Sets the three version bits; 1 is the GRE of PPTP (RFC 2637).
    #[must_use]
    pub fn version(mut self, version: u8) -> Self {
        self.flags |= u16::from(version & 7);
        self
    }

    /// Sets further bits of the first 16: bits 4 to 12 (0x0ff8) are reserved.
    #[must_use]
    pub fn reserved(mut self, bits: u16) -> Self {
        self.flags |= bits;
        self
    }

    /// The 16 bits behind the checksum, sent where that is present.
    #[must_use]
    pub fn reserved1(mut self, bits: u16) -> Self {
        self.reserved1 = bits;
        self
    }

    /// The protocol type: 0x0800 IPv4, 0x86dd IPv6, 0x6558 Ethernet.
    #[must_use]
    pub fn protocol_type(mut self, protocol_type: u16) -> Self {
        self.protocol_type = protocol_type;
        self
    }

    /// What is carried.
    #[must_use]
    pub fn payload(mut self, payload: impl AsRef<[u8]>) -> Self {
        self.payload = payload.as_ref().to_vec();
        self
    }

    /// The bytes from the GRE header on.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let has = |flag| self.flags & flag != 0;
        let mut packet = Vec::new();
        packet.extend(self.flags.to_be_bytes());
        packet.extend(self.protocol_type.to_be_bytes());
        if has(CHECKSUM_PRESENT) || has(ROUTING_PRESENT) {
            packet.extend([0, 0]);
            packet.extend(self.reserved1.to_be_bytes());
        }
        if has(KEY_PRESENT) {
            packet.extend(self.key.to_be_bytes());
        }
        if has(SEQUENCE_PRESENT) {
            packet.extend(self.sequence.to_be_bytes());
        }
        if has(ROUTING_PRESENT) {
            packet.extend([0, 0, 0, 0]);
        }
        packet.extend(&self.payload);
        if has(CHECKSUM_PRESENT) {
            let sum = checksum(&packet) ^ self.checksum_error;
            packet[4..6].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_laid_out_as_in_the_rfcs() {
        let cases: [(&str, Gre, &[u8]); 7] = [
            ("plain", gre(), &[0, 0, 8, 0]),
            ("key", gre().key(42), &[0x20, 0, 8, 0, 0, 0, 0, 42]),
            ("sequence", gre().sequence(7), &[0x10, 0, 8, 0, 0, 0, 0, 7]),
            (
                "all, in order",
                gre().sequence(2).key(1).checksum(),
                // By hand: b000 + 0800 + 1 + 2 = b803, complement 47fc.
                &[0xb0, 0, 8, 0, 0x47, 0xfc, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2],
            ),
            ("version", gre().version(1).protocol_type(0x880b), &[0, 1, 0x88, 0x0b]),
            ("reserved", gre().reserved(0x0400), &[4, 0, 8, 0]),
            ("routing", gre().routing().reserved1(3), &[0x40, 0, 8, 0, 0, 0, 0, 3, 0, 0, 0, 0]),
        ];
        for (name, gre, expected) in cases {
            assert_eq!(gre.build(), expected, "{name}");
        }
    }

    #[test]
    fn the_checksum_covers_the_payload_of_odd_length() {
        let packet = gre().checksum().payload(b"abc").build();
        assert_eq!(checksum(&packet), 0);
        assert_ne!(checksum(&gre().bad_checksum().payload(b"abc").build()), 0);
    }
}
