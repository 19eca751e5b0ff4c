//! The IPv4 header (RFC 791 3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |Version|  IHL  |  DSCP/ECN     |          Total Length         |
//! |         Identification        |Flags|      Fragment Offset    |
//! |  Time to Live |    Protocol   |         Header Checksum       |
//! |                         Source Address                        |
//! |                      Destination Address                      |
//! ```
//! Options are counted in `header_length` but neither parsed nor emitted.

use crate::checksum::Sum;

/// Octets of a header without options.
pub const HEADER_BYTES: usize = 20;
/// The least MTU that IPv4 allows (RFC 791 3.2).
pub const MIN_MTU: u32 = 68;

/// Octet offsets inside the header.
pub mod field {
    /// Time to live.
    pub const TTL: usize = 8;
    /// Header checksum, two octets.
    pub const CHECKSUM: usize = 10;
    /// Source address, four octets.
    pub const SOURCE: usize = 12;
    /// Destination address, four octets.
    pub const DESTINATION: usize = 16;
}

/// What the fixed part of an IPv4 header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Octets of the header with its options, 20..=60.
    pub header_length: u8,
    /// DSCP and ECN, the former type-of-service octet.
    pub tos: u8,
    /// Octets of the whole packet.
    pub total_length: u16,
    /// Identification, for fragments.
    pub identification: u16,
    /// Don't fragment.
    pub dont_fragment: bool,
    /// More fragments follow.
    pub more_fragments: bool,
    /// Offset of this fragment in units of eight octets, 13 bits.
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
}

impl Header {
    /// Reads the fixed part. `None` if the version is not 4 or the header length below 20.
    /// The checksum is not verified.
    #[inline(always)]
    pub const fn parse(octets: [u8; HEADER_BYTES]) -> Option<Self> {
        let [
            vihl,
            tos,
            l0,
            l1,
            i0,
            i1,
            f0,
            f1,
            ttl,
            protocol,
            _,
            _,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ] = octets;
        let header_length = (vihl & 0x0f) * 4;
        if vihl >> 4 != 4 || (header_length as usize) < HEADER_BYTES {
            return None;
        }
        let flags = u16::from_be_bytes([f0, f1]);
        Some(Self {
            header_length,
            tos,
            total_length: u16::from_be_bytes([l0, l1]),
            identification: u16::from_be_bytes([i0, i1]),
            dont_fragment: flags & 0x4000 != 0,
            more_fragments: flags & 0x2000 != 0,
            fragment_offset: flags & 0x1fff,
            ttl,
            protocol,
            source: [s0, s1, s2, s3],
            destination: [d0, d1, d2, d3],
        })
    }

    /// Whether this is a part of a larger packet.
    #[inline(always)]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// A header of 20 octets with its checksum. `header_length` is not written: options are
    /// never emitted.
    #[inline(always)]
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut flags = self.fragment_offset & 0x1fff;
        if self.dont_fragment {
            flags |= 0x4000;
        }
        if self.more_fragments {
            flags |= 0x2000;
        }
        let [l0, l1] = self.total_length.to_be_bytes();
        let [i0, i1] = self.identification.to_be_bytes();
        let [f0, f1] = flags.to_be_bytes();
        let [s0, s1, s2, s3] = self.source;
        let [d0, d1, d2, d3] = self.destination;
        let bare = [
            0x45,
            self.tos,
            l0,
            l1,
            i0,
            i1,
            f0,
            f1,
            self.ttl,
            self.protocol,
            0,
            0,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ];
        let [c0, c1] = Sum::new().octets(&bare).checksum().to_be_bytes();
        [
            0x45,
            self.tos,
            l0,
            l1,
            i0,
            i1,
            f0,
            f1,
            self.ttl,
            self.protocol,
            c0,
            c1,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // An ICMP echo request's header on loopback, built by scapy 2.8, which computed the checksum.
    const SCAPY: [u8; 20] = [
        0x45, 0x00, 0x00, 0x54, 0x43, 0x3f, 0x40, 0x00, 0x40, 0x01, 0xf9, 0x67, 0x7f, 0x00, 0x00,
        0x01, 0x7f, 0x00, 0x00, 0x01,
    ];

    #[test]
    fn parses_a_header_of_another_implementation() {
        let header = Header::parse(SCAPY).unwrap();
        assert_eq!((header.total_length, header.ttl, header.protocol), (84, 64, 1));
        assert!(header.dont_fragment && !header.is_fragment());
        assert_eq!(header.identification, 0x433f);
    }

    #[test]
    fn emits_the_header_and_checksum_of_another_implementation() {
        assert_eq!(Header::parse(SCAPY).unwrap().emit(), SCAPY);
    }

    #[test]
    fn refuses_other_versions_and_short_header_lengths() {
        for vihl in 0..=255u8 {
            let mut octets = SCAPY;
            octets[0] = vihl;
            assert_eq!(Header::parse(octets).is_some(), vihl >> 4 == 4 && vihl & 15 >= 5);
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_to_the_same(octets: [u8; 20]) {
            let mut octets = octets;
            octets[0] = 0x45;
            octets[6] &= 0x7f; // the reserved flag is not kept
            let header = Header::parse(octets).unwrap();
            let emitted = header.emit();
            prop_assert_eq!(Header::parse(emitted), Some(header));
            prop_assert!(Sum::new().octets(&emitted).is_valid());
        }
    }
}
