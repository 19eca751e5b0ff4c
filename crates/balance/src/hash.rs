//! The one keyed 64-bit hash of all selection: XXH64 over whole 64-bit words.
//!
//! XXH64 needs 64-bit multiplications, rotations and exclusive-ors only, which the kernel's BPF
//! machine has. The words are taken as little-endian octets, so any XXH64 implementation gives
//! the same value (the specification is xxHash's `doc/xxhash_spec.md`). It spreads well but is no
//! secret: whoever knows the seed can choose keys that meet in one row.

/// Changes whenever equal input would give another value, seed use and word order included.
/// Nodes of one fleet must agree on it.
pub const HASH_VERSION: u32 = 1;

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// XXH64 of `words`, seeded.
#[inline(always)]
pub fn hash<const N: usize>(seed: u64, words: [u64; N]) -> u64 {
    let mut rest = words.as_slice();
    let mut state = if N < 4 {
        seed.wrapping_add(P5)
    } else {
        let mut lanes = [
            seed.wrapping_add(P1).wrapping_add(P2),
            seed.wrapping_add(P2),
            seed,
            seed.wrapping_sub(P1),
        ];
        while let Some((stripe, tail)) = rest.split_first_chunk::<4>() {
            for (lane, word) in lanes.iter_mut().zip(stripe) {
                *lane = round(*lane, *word);
            }
            rest = tail;
        }
        let [a, b, c, d] = lanes;
        let sum = a
            .rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18));
        lanes
            .iter()
            .fold(sum, |state, lane| (state ^ round(0, *lane)).wrapping_mul(P1).wrapping_add(P4))
    };
    state = state.wrapping_add(N as u64 * 8);
    for word in rest {
        state = (state ^ round(0, *word)).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
    }
    avalanche(state)
}

/// The table row, of 65,536, that a flow's hash names: its upper 16 bits.
#[inline(always)]
pub const fn row_of(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// The table row, of `rows`, that a flow's hash names: its upper 32 bits as a fraction of the rows.
/// Of 65,536 rows it is the one that [`row_of`] names; of none it is 0.
///
/// A row's share of all hashes differs from the others' by less than `rows` in 2^32.
#[inline(always)]
pub const fn row_in(hash: u64, rows: u32) -> u32 {
    (((hash >> 32) * rows as u64) >> 32) as u32
}

#[inline(always)]
const fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

#[inline(always)]
const fn avalanche(mut state: u64) -> u64 {
    state ^= state >> 33;
    state = state.wrapping_mul(P2);
    state ^= state >> 29;
    state = state.wrapping_mul(P3);
    state ^ state >> 32
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn octets(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Golden values by the reference C library (python xxhash 4.1.0, `xxh64_intdigest`).
    #[test]
    fn golden_values_hold() {
        assert_eq!(hash(0x0, []), 0xef46db3751d8e999);
        assert_eq!(hash(0x0, [0x1]), 0x9f29cb17a2a49995);
        assert_eq!(hash(0x1, [0x1, 0x2]), 0x0a9f804f744f3728);
        assert_eq!(hash(0x123456789abcdef, [0x1, 0x2, 0x3]), 0xc66777d4b8a1db7f);
        assert_eq!(hash(0x2a, [0xffffffffffffffff, 0x0, 0x5, 0x7]), 0xcca6370cb18fca90);
        assert_eq!(hash(0x2a, [0x1, 0x2, 0x3, 0x4, 0x5]), 0x56851e17faf3ff00);
    }

    #[test]
    fn rows_of_any_number_divide_the_hashes_evenly() {
        for (hash, rows, row) in [
            (0, 65_537, 0),
            (u64::MAX, 65_537, 65_536),
            (u64::MAX, u32::MAX, u32::MAX - 1),
            (u64::MAX, 1, 0),
            (u64::MAX, 0, 0),
            (1 << 63, 65_537, 32_768),
            // The last hash of the first of three rows, and the first of the second.
            (0x5555_5555_ffff_ffff, 3, 0),
            (0x5555_5556_0000_0000, 3, 1),
        ] {
            assert_eq!(row_in(hash, rows), row, "{hash:#x} of {rows}");
        }
    }

    fn agrees<const N: usize>(seed: u64, words: [u64; N]) {
        let expected = xxhash_rust::xxh64::xxh64(&octets(&words), seed);
        assert_eq!(hash(seed, words), expected, "{N} words");
    }

    proptest! {
        #[test]
        fn of_65536_rows_both_functions_name_the_same(hash: u64) {
            prop_assert_eq!(row_in(hash, 65_536), u32::from(row_of(hash)));
        }

        #[test]
        fn a_row_is_one_of_the_rows(hash: u64, rows in 1u32..) {
            prop_assert!(row_in(hash, rows) < rows);
        }

        #[test]
        fn agrees_with_another_implementation(seed: u64, words: [u64; 9]) {
            let [a, b, c, d, e, f, g, h, i] = words;
            agrees(seed, []);
            agrees(seed, [a]);
            agrees(seed, [a, b]);
            agrees(seed, [a, b, c]);
            agrees(seed, [a, b, c, d]);
            agrees(seed, [a, b, c, d, e]);
            agrees(seed, [a, b, c, d, e, f, g, h]);
            agrees(seed, [a, b, c, d, e, f, g, h, i]);
        }
    }
}
