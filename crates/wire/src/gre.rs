//! The GRE header (RFC 2784 2, with the key and sequence number of RFC 2890 2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |C|R|K|S|s|Recur|  Reserved   |Ver|         Protocol Type         |
//! |      Checksum (if C)          |       Reserved1 (if C)          |
//! |                         Key (if K)                              |
//! |                    Sequence Number (if S)                       |
//! ```
//! R (routing), s (strict source route) and the first recursion bit are RFC 1701's; RFC 2784 2.2
//! says to discard a packet that sets one of them, and to ignore bits 6 to 12. The checksum
//! covers the GRE header and payload alone: no pseudo header, so a change of the outer addresses
//! never touches it (RFC 2784 2.5).

/// Octets of the part that every header has.
pub const BASE_BYTES: usize = 4;
/// Octets of a header with checksum, key and sequence number.
pub const MAX_HEADER_BYTES: usize = 16;

/// Checksum present (bit 0).
pub const CHECKSUM_PRESENT: u16 = 0x8000;
/// Routing present (bit 1, RFC 1701).
pub const ROUTING_PRESENT: u16 = 0x4000;
/// Key present (bit 2, RFC 2890).
pub const KEY_PRESENT: u16 = 0x2000;
/// Sequence number present (bit 3, RFC 2890).
pub const SEQUENCE_PRESENT: u16 = 0x1000;
/// Strict source route (bit 4, RFC 1701).
pub const STRICT_SOURCE_ROUTE: u16 = 0x0800;
/// The first bit of recursion control (bit 5, RFC 1701).
pub const RECURSION: u16 = 0x0400;
/// The version number (bits 13 to 15); version 1 is RFC 2637's PPTP.
pub const VERSION: u16 = 0x0007;

/// Why a header must be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The version is not 0 (RFC 2784 2.3.1).
    Version,
    /// Bit 1 is set: routing (RFC 2784 2.2).
    Routing,
    /// Bit 4 is set: strict source route (RFC 2784 2.2).
    StrictSourceRoute,
    /// Bit 5 is set: recursion control (RFC 2784 2.2).
    Recursion,
}

/// What the first four octets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The flags and version as they came; bits 6 to 12 are kept, not interpreted.
    pub flags: u16,
    /// The EtherType of the payload; passed on without a look.
    pub protocol: u16,
}

impl Header {
    /// Reads the first four octets, or says why the packet must be discarded. Of several faults
    /// the version is named first: the meaning of all other bits depends on it.
    #[inline(always)]
    pub const fn parse(octets: [u8; BASE_BYTES]) -> Result<Self, Malformed> {
        let [f0, f1, p0, p1] = octets;
        let flags = u16::from_be_bytes([f0, f1]);
        if flags & VERSION != 0 {
            return Err(Malformed::Version);
        }
        if flags & ROUTING_PRESENT != 0 {
            return Err(Malformed::Routing);
        }
        if flags & STRICT_SOURCE_ROUTE != 0 {
            return Err(Malformed::StrictSourceRoute);
        }
        if flags & RECURSION != 0 {
            return Err(Malformed::Recursion);
        }
        Ok(Self { flags, protocol: u16::from_be_bytes([p0, p1]) })
    }

    /// The four octets.
    #[inline(always)]
    pub const fn emit(&self) -> [u8; BASE_BYTES] {
        let [f0, f1] = self.flags.to_be_bytes();
        let [p0, p1] = self.protocol.to_be_bytes();
        [f0, f1, p0, p1]
    }

    /// Whether a checksum (and Reserved1) follows.
    #[inline(always)]
    pub const fn has_checksum(&self) -> bool {
        self.flags & CHECKSUM_PRESENT != 0
    }

    /// Whether a sequence number follows.
    #[inline(always)]
    pub const fn has_sequence(&self) -> bool {
        self.flags & SEQUENCE_PRESENT != 0
    }

    /// Octets of the whole header: 4 + 4C + 4K + 4S.
    #[inline(always)]
    pub const fn length(&self) -> usize {
        BASE_BYTES + 4 * (self.flags >> 12 & 0b1011).count_ones() as usize
    }

    /// Where the key lies, 4 + 4C, if there is one.
    #[inline(always)]
    pub const fn key_offset(&self) -> Option<usize> {
        if self.flags & KEY_PRESENT == 0 {
            return None;
        }
        Some(if self.has_checksum() { BASE_BYTES + 4 } else { BASE_BYTES })
    }

    /// Where the sequence number lies, 4 + 4C + 4K, if there is one.
    #[inline(always)]
    pub const fn sequence_offset(&self) -> Option<usize> {
        if self.has_sequence() { Some(self.length() - 4) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2784 2.2 and RFC 2890 2, bit by bit.
    #[test]
    fn each_of_the_sixteen_flag_bits_has_its_verdict() {
        let verdicts = [
            Ok(()),
            Err(Malformed::Routing),
            Ok(()),
            Ok(()),
            Err(Malformed::StrictSourceRoute),
            Err(Malformed::Recursion),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Err(Malformed::Version),
            Err(Malformed::Version),
            Err(Malformed::Version),
        ];
        for (bit, expected) in verdicts.into_iter().enumerate() {
            let [f0, f1] = (0x8000u16 >> bit).to_be_bytes();
            let parsed = Header::parse([f0, f1, 0x65, 0x58]);
            assert_eq!(parsed.map(|_| ()), expected, "bit {bit}");
        }
    }

    #[test]
    fn lengths_and_offsets_follow_the_flags() {
        // (C, K, S) -> header length, key offset, sequence offset (RFC 2890 2).
        for (flags, length, key, sequence) in [
            (0x0000, 4, None, None),
            (0x8000, 8, None, None),
            (0x2000, 8, Some(4), None),
            (0xa000, 12, Some(8), None),
            (0x1000, 8, None, Some(4)),
            (0x9000, 12, None, Some(8)),
            (0x3000, 12, Some(4), Some(8)),
            (0xb000, 16, Some(8), Some(12)),
        ] {
            let header = Header { flags, protocol: 0x0800 };
            assert_eq!(header.length(), length, "{flags:04x}");
            assert_eq!(header.key_offset(), key, "{flags:04x}");
            assert_eq!(header.sequence_offset(), sequence, "{flags:04x}");
        }
    }

    #[test]
    fn every_accepted_header_is_emitted_as_it_came() {
        for flags in 0..=u16::MAX {
            let [f0, f1] = flags.to_be_bytes();
            if let Ok(header) = Header::parse([f0, f1, 0x88, 0xbe]) {
                assert_eq!(header.emit(), [f0, f1, 0x88, 0xbe]);
            }
        }
    }
}
