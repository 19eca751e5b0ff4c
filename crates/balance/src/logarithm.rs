//! `-log2` of a uniform 64-bit hash, in fixed point, the same bit for bit on every machine.
//!
//! Weighted rendezvous draws an exponential variable per candidate, `-ln(u) / weight`. The base
//! of the logarithm cancels in comparisons, so base 2 serves.

/// Fraction bits of [`neg_log2`].
pub const FRACTION_BITS: u32 = 56;

const SEGMENTS: usize = 256;
/// 1/ln 2 with 63 fraction bits.
const INVERSE_LN2: u64 = 0xb8aa_3b29_5c17_f0bc;
/// `log2(1 + i/256)` with 64 fraction bits.
const LOG2: [u64; SEGMENTS] = segment_logarithms();

/// `-log2((hash + 1/2) / 2^64)`, at most 64, with [`FRACTION_BITS`] fraction bits; 0 and 1 share
/// a value. The error is below 2^-50.
pub fn neg_log2(hash: u64) -> u64 {
    let hash = hash | 1;
    let zeros = hash.leading_zeros();
    // The mantissa, 1 to 2 with 63 fraction bits: 1 + segment/256, and what is left of it.
    let mantissa = hash << zeros;
    let segment = mantissa >> 55 & 0xff;
    let left = mantissa & ((1 << 55) - 1);
    // left / (1 + segment/256) with 64 fraction bits: below 1/256.
    let x = (left << 9) / (256 + segment);
    // ln(1 + x) = x (1 - x (1/2 - x (1/3 - x (1/4 - x (1/5 - x/6))))).
    let mut series = u64::MAX / 6;
    for divisor in [5, 4, 3, 2, 1] {
        series = u64::MAX / divisor - high(x, series);
    }
    let rest = high(high(x, series), INVERSE_LN2) << 1;
    let table = usize::try_from(segment).ok().and_then(|segment| LOG2.get(segment));
    let fraction = table.copied().unwrap_or(0).saturating_add(rest);
    // 1 - fraction, then the leading zeros on top.
    (u64::from(zeros) << FRACTION_BITS)
        + (fraction.wrapping_neg() >> (64 - FRACTION_BITS))
        + u64::from(fraction == 0) * (1 << FRACTION_BITS)
}

/// The upper half of a product: two factors with 64 fraction bits, so has the result.
const fn high(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

/// Logarithms by repeated squaring: each squaring yields one bit.
const fn segment_logarithms() -> [u64; SEGMENTS] {
    let mut table = [0; SEGMENTS];
    let mut segment = 0;
    while segment < SEGMENTS {
        // 1 to 2 with 63 fraction bits.
        let mut value = ((256 + segment) as u64) << 55;
        let mut logarithm = 0u64;
        let mut bit = 0;
        while bit < 64 {
            let square = (value as u128 * value as u128) >> 63;
            logarithm <<= 1;
            if square >> 64 != 0 {
                logarithm |= 1;
                value = (square >> 1) as u64;
            } else {
                #[expect(clippy::cast_possible_truncation, reason = "it is below 2^64")]
                let kept = square as u64;
                value = kept;
            }
            bit += 1;
        }
        table[segment] = logarithm;
        segment += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values by mpmath 1.4.1 with 60 digits: `floor(-log2(h / 2^64) * 2^56)`.
    #[test]
    fn agrees_with_arbitrary_precision_arithmetic() {
        for (hash, expected) in [
            (0x1, 0x4000000000000000),
            (0x3, 0x3e6a3fe5c6042978),
            (0xff, 0x3801720d9c06a835),
            (0x8000000000000001, 0xffffffffffffff),
            (0x7fffffffffffffff, 0x100000000000000),
            (0xffffffffffffffff, 0x0),
            (0xfffffffffffff001, 0x17),
            (0x123456789abcdef1, 0x3d053f6d2608968),
            (0xdeadbeefcafebabf, 0x33808cfd352bab),
            (0x80ffffffffffffff, 0xfd2035e9221ef5),
            (0x8100000000000001, 0xfd2035e9221ef5),
        ] {
            let error = neg_log2(hash).abs_diff(expected);
            assert!(error <= 64, "{hash:#x}: off by {error} of 2^-56");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_floating_point(hash in 1u64..) {
            let expected = -((hash | 1) as f64 / 2f64.powi(64)).log2();
            let value = neg_log2(hash) as f64 / 2f64.powi(56);
            prop_assert!((value - expected).abs() < 1e-12 * expected.max(1.0), "{value} {expected}");
        }

        #[test]
        fn a_larger_hash_never_costs_clearly_more(a: u64, b: u64) {
            let (small, large) = (a.min(b), a.max(b));
            prop_assert!(neg_log2(large) <= neg_log2(small) + 64);
        }
    }
}
