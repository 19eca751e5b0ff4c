//! The IPv6 header (RFC 8200 3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |Version| Traffic Class |           Flow Label                  |
//! |         Payload Length        |  Next Header  |   Hop Limit   |
//! |                    Source Address (128 bits)                  |
//! |                 Destination Address (128 bits)                |
//! ```
//! Extension headers are walked by the packet core: they have no fixed place.

/// Octets of the fixed header.
pub const HEADER_BYTES: usize = 40;
/// The least MTU that IPv6 allows (RFC 8200 5).
pub const MIN_MTU: u32 = 1280;

/// Octet offsets inside the header.
pub mod field {
    /// Next header.
    pub const NEXT_HEADER: usize = 6;
    /// Hop limit.
    pub const HOP_LIMIT: usize = 7;
    /// Source address, sixteen octets.
    pub const SOURCE: usize = 8;
    /// Destination address, sixteen octets.
    pub const DESTINATION: usize = 24;
}

/// What an IPv6 header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Octets after this header.
    pub payload_length: u16,
    /// What follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

impl Header {
    /// Reads the header. `None` if the version is not 6.
    #[inline(always)]
    pub fn parse(octets: [u8; HEADER_BYTES]) -> Option<Self> {
        let (words, _) = octets.as_chunks::<8>();
        let [first, s0, s1, d0, d1] = words else { return None };
        let [a, b, c, d, l0, l1, next_header, hop_limit] = *first;
        if a >> 4 != 6 {
            return None;
        }
        Some(Self {
            traffic_class: (a << 4) | (b >> 4),
            flow_label: u32::from_be_bytes([0, b & 0x0f, c, d]),
            payload_length: u16::from_be_bytes([l0, l1]),
            next_header,
            hop_limit,
            source: join(*s0, *s1),
            destination: join(*d0, *d1),
        })
    }

    /// The header's forty octets.
    #[inline(always)]
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let first = 0x6000_0000 | (self.traffic_class as u32) << 20 | (self.flow_label & 0xf_ffff);
        let [a, b, c, d] = first.to_be_bytes();
        let [l0, l1] = self.payload_length.to_be_bytes();
        let mut octets = [0; HEADER_BYTES];
        if let ([head, rest @ ..], _) = octets.as_chunks_mut::<8>() {
            *head = [a, b, c, d, l0, l1, self.next_header, self.hop_limit];
            let halves = [split(self.source), split(self.destination)];
            for (to, from) in rest.iter_mut().zip(halves.into_iter().flatten()) {
                *to = from;
            }
        }
        octets
    }
}

#[inline(always)]
const fn join(high: [u8; 8], low: [u8; 8]) -> [u8; 16] {
    ((u64::from_be_bytes(high) as u128) << 64 | u64::from_be_bytes(low) as u128).to_be_bytes()
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
const fn split(octets: [u8; 16]) -> [[u8; 8]; 2] {
    let whole = u128::from_be_bytes(octets);
    [((whole >> 64) as u64).to_be_bytes(), (whole as u64).to_be_bytes()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_each_field_at_its_place() {
        let mut octets = [0u8; 40];
        octets[..8].copy_from_slice(&[0x6a, 0xbc, 0xde, 0xf1, 0x05, 0xdc, 47, 63]);
        octets[23] = 1;
        octets[39] = 2;
        let header = Header::parse(octets).unwrap();
        assert_eq!((header.traffic_class, header.flow_label), (0xab, 0xcdef1));
        assert_eq!((header.payload_length, header.next_header, header.hop_limit), (1500, 47, 63));
        assert_eq!((header.source[15], header.destination[15]), (1, 2));
    }

    proptest! {
        #[test]
        fn what_is_parsed_emits_the_same_octets(
            head: [u8; 8], source: [u8; 16], destination: [u8; 16],
        ) {
            let mut octets = [0u8; 40];
            octets[..8].copy_from_slice(&head);
            octets[8..24].copy_from_slice(&source);
            octets[24..].copy_from_slice(&destination);
            octets[0] = 0x60 | octets[0] & 0x0f;
            prop_assert_eq!(Header::parse(octets).unwrap().emit(), octets);
        }
    }
}
