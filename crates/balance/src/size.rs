//! How many rows a table has.

/// Rows of a table: 1 to [`TableSize::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableSize(u32);

impl TableSize {
    /// 65,536 rows; as a prime 65,537.
    pub const DEFAULT: Self = Self(65_536);
    /// The largest prime below 2^20: a size and the prime above it have one maximum.
    pub const MAX: Self = Self(1_048_573);
    /// Rows per candidate that keep rounding below one percent of a share.
    pub const ROWS_PER_CANDIDATE: u32 = 128;

    /// `None` for zero and beyond [`TableSize::MAX`].
    pub const fn new(rows: u32) -> Option<Self> {
        if rows == 0 || rows > Self::MAX.0 { None } else { Some(Self(rows)) }
    }

    /// The least size that shares well among so many candidates, a prime: 128 rows each, as long
    /// as [`TableSize::MAX`] allows.
    pub fn for_candidates(candidates: usize) -> Self {
        let candidates = u32::try_from(candidates).unwrap_or(u32::MAX);
        let rows = candidates.saturating_mul(Self::ROWS_PER_CANDIDATE);
        Self(rows.clamp(1, Self::MAX.0)).to_prime()
    }

    /// The least prime that is not below it.
    #[must_use]
    pub fn to_prime(self) -> Self {
        Self((self.0..Self::MAX.0).find(|rows| is_prime(*rows)).unwrap_or(Self::MAX.0))
    }

    /// The rows as a number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for TableSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

fn is_prime(number: u32) -> bool {
    let divides = |divisor: &u32| number.is_multiple_of(*divisor);
    number > 1 && !(2..).take_while(|divisor| divisor * divisor <= number).any(|d| divides(&d))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_size_has_at_least_one_row_and_at_most_the_maximum() {
        assert_eq!(TableSize::new(0), None);
        assert_eq!(TableSize::new(1).map(TableSize::get), Some(1));
        assert_eq!(TableSize::new(1_048_573), Some(TableSize::MAX));
        assert_eq!(TableSize::new(1_048_574), None);
    }

    /// Primes from the list of the first ones, and OEIS A014210 and A014234.
    #[test]
    fn a_size_is_rounded_up_to_a_prime() {
        for (rows, prime) in [
            (1, 2),
            (2, 2),
            (3, 3),
            (4, 5),
            (90, 97),
            (1280, 1283),
            (65_521, 65_521),
            (65_522, 65_537),
            (65_536, 65_537),
            (1_048_572, 1_048_573),
            (1_048_573, 1_048_573),
        ] {
            assert_eq!(TableSize::new(rows).unwrap().to_prime().get(), prime, "{rows}");
        }
    }

    #[test]
    fn primes_agree_with_the_sieve() {
        let mut sieve = std::vec![true; 2000];
        for factor in 2..2000 {
            (factor * 2..2000).step_by(factor).for_each(|multiple| sieve[multiple] = false);
        }
        let sieved: Vec<u32> = (2..2000).filter(|n| sieve[*n as usize]).collect();
        let found: Vec<u32> = (0..2000).filter(|n| is_prime(*n)).collect();
        assert_eq!(found, sieved);
    }

    #[test]
    fn each_candidate_has_128_rows_until_the_maximum() {
        for (candidates, rows) in [
            (0, 2),
            (1, 131),
            (10, 1283),
            (512, 65_537),
            (8192, 1_048_573),
            (usize::MAX, 1_048_573),
        ] {
            assert_eq!(TableSize::for_candidates(candidates).get(), rows, "{candidates}");
        }
    }
}
