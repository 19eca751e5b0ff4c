//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624, equation 3).

/// A running one's-complement sum of 16-bit words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    #[inline(always)]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds octets that start at an even offset of the summed data. An odd last octet is padded
    /// with zero, so only the last part may have an odd length.
    #[inline]
    pub fn octets(mut self, octets: &[u8]) -> Self {
        let (words, rest) = octets.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_be_bytes(*word));
        }
        let mut tail = [0u8; 4];
        for (to, from) in tail.iter_mut().zip(rest) {
            *to = *from;
        }
        self.0 += u64::from(u32::from_be_bytes(tail));
        self
    }

    /// Adds one 16-bit word.
    #[inline(always)]
    pub const fn word(mut self, word: u16) -> Self {
        self.0 += word as u64;
        self
    }

    /// Both sums together; each must cover an even number of octets, but for the last one.
    #[inline(always)]
    pub const fn plus(mut self, other: Self) -> Self {
        self.0 += other.0;
        self
    }

    /// The checksum field for the summed data: the complement of the folded sum.
    #[inline(always)]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Whether data that includes its checksum field sums up as it must.
    #[inline(always)]
    pub const fn is_valid(self) -> bool {
        self.folded() == 0xffff
    }

    #[inline(always)]
    const fn folded(self) -> u16 {
        let mut sum = self.0;
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        #[expect(clippy::cast_possible_truncation, reason = "three folds leave 16 bits")]
        let folded = sum as u16;
        folded
    }
}

/// The checksum after the data's words `old` were replaced by `new`: `~(~HC + ~m + m')`
/// (RFC 1624, equation 3). Both sums must cover the same, even number of octets.
#[inline(always)]
pub const fn update(checksum: u16, old: Sum, new: Sum) -> u16 {
    !Sum(!checksum as u64 + !old.folded() as u64 + new.folded() as u64).folded()
}

/// What a replacement of `old` by `new` adds to a sum: `~m + m'` of RFC 1624, equation 3. Its
/// complement is what the way back adds.
#[inline(always)]
pub const fn change(old: Sum, new: Sum) -> u16 {
    Sum(!old.folded() as u64 + new.folded() as u64).folded()
}

/// The checksum after replacements that together add this much: [`change`]s and their sums.
#[inline(always)]
pub const fn changed(checksum: u16, by: Sum) -> u16 {
    !Sum(!checksum as u64).plus(by).folded()
}

/// The pseudo header of ICMPv6 (RFC 8200 8.1): addresses, upper-layer length, next header.
#[inline]
pub fn pseudo_v6(source: [u8; 16], destination: [u8; 16], length: u32, next_header: u8) -> Sum {
    Sum::new()
        .octets(&source)
        .octets(&destination)
        .octets(&length.to_be_bytes())
        .word(next_header as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sums_the_example_of_rfc_1071() {
        // RFC 1071 section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
        let sum = Sum::new().octets(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.checksum(), !0xddf2);
    }

    #[test]
    fn updates_the_example_of_rfc_1624() {
        // RFC 1624 section 4: HC = dd2f, m = 5555, m' = 3285 gives 0000.
        let old = Sum::new().word(0x5555);
        let new = Sum::new().word(0x3285);
        assert_eq!(update(0xdd2f, old, new), 0x0000);
    }

    #[test]
    fn a_change_and_its_complement_lead_there_and_back() {
        for (old, new) in [(0x5555, 0x3285), (0, 0xffff), (0xffff, 0), (7, 7), (0x1234, 0)] {
            let (from, to) = (Sum::new().word(old), Sum::new().word(new));
            let by = change(from, to);
            for checksum in 0..0xffff {
                let there = changed(checksum, Sum::new().word(by));
                assert_eq!(there, update(checksum, from, to));
                let back = changed(there, Sum::new().word(!by));
                assert_eq!(back, checksum, "{old:04x} {new:04x}");
            }
        }
    }

    #[test]
    fn updating_agrees_with_summing_anew_for_every_word() {
        // One word of a fixed header replaced by each of 65,536 values.
        let mut header =
            [0x45, 0, 0, 0x54, 0x12, 0x34, 0x40, 0, 64, 47, 0, 0, 192, 0, 2, 1, 0, 0, 0, 0];
        let before = Sum::new().octets(&header).checksum();
        for value in 0..=u16::MAX {
            let [high, low] = value.to_be_bytes();
            (header[18], header[19]) = (high, low);
            let anew = Sum::new().octets(&header).checksum();
            let updated = update(before, Sum::new().word(0), Sum::new().word(value));
            assert_eq!(updated, anew, "value {value:04x}");
        }
    }

    proptest! {
        #[test]
        fn an_updated_checksum_still_verifies(
            mut words in proptest::collection::vec(any::<u16>(), 4..40), at in 0usize..4, new: u16,
        ) {
            words[0] |= 1; // all-zero data has two representations of its sum
            let sum = |words: &[u16]| words.iter().fold(Sum::new(), |sum, word| sum.word(*word));
            let checksum = sum(&words).checksum();
            let old = words[at];
            words[at] = new;
            let updated = update(checksum, Sum::new().word(old), Sum::new().word(new));
            prop_assert!(words.iter().all(|w| *w == 0) || sum(&words).word(updated).is_valid());
        }
    }
}
