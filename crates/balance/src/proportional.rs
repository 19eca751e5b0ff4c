//! Contiguous rows, one run per candidate, as long as its weight: for selection by random numbers.
//!
//! Shares are exact: each is its quota `M w/W` rounded down or up, and the rows left over go to
//! those with the largest remainders. A change of the candidates moves the borders of all runs, so
//! such a table suits only flows that keep their choice elsewhere, or do not care.
//!
//! Runs follow the order of the candidates; [`crate::table::build`] settles it.

use crate::rendezvous::{Candidate, MAX_CANDIDATES, NO_WINNER};
use crate::size::TableSize;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::iter;

/// The rows: indices into `candidates`, or [`NO_WINNER`] without a candidate. Candidates past
/// [`MAX_CANDIDATES`] have none. Of equal remainders the one that stands first goes first.
pub fn rows(size: TableSize, candidates: &[Candidate]) -> Box<[u16]> {
    let size = size.get() as usize;
    let candidates = candidates.get(..MAX_CANDIDATES).unwrap_or(candidates);
    let lengths = run_lengths(size, candidates).into_iter().zip(0..);
    let runs = lengths.flat_map(|(length, index)| iter::repeat_n(index, length));
    runs.chain(iter::repeat(NO_WINNER)).take(size).collect()
}

/// How many rows each candidate has; together all of them.
fn run_lengths(rows: usize, candidates: &[Candidate]) -> Vec<usize> {
    let weights = candidates.iter().map(|candidate| usize::from(candidate.weight.get()));
    let sum = weights.clone().sum::<usize>().max(1);
    // A table has less than 2^20 rows: the product fits in 32 bits.
    let mut lengths: Vec<_> = weights.clone().map(|weight| rows * weight / sum).collect();
    let left = rows - lengths.iter().sum::<usize>();
    let remainders = weights.map(|weight| rows * weight % sum);
    let mut by_remainder: Vec<_> = remainders.zip(&mut lengths).collect();
    by_remainder.sort_by_key(|(remainder, _)| Reverse(*remainder));
    for (_, length) in by_remainder.into_iter().take(left) {
        *length += 1;
    }
    lengths
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::figures::candidates;
    use crate::rendezvous::shares;
    use proptest::prelude::*;
    use std::vec;

    fn rows_of(size: u32, weights: &[u8]) -> Box<[u16]> {
        rows(TableSize::new(size).unwrap(), &candidates(weights))
    }

    #[test]
    fn runs_follow_the_order_and_the_weights() {
        assert_eq!(*rows_of(6, &[1, 2, 3]), [0, 1, 1, 2, 2, 2]);
        assert_eq!(*rows_of(3, &[7]), [0, 0, 0]);
    }

    #[test]
    fn the_largest_remainders_have_the_rows_left_over() {
        // Quotas 1.25, 2.5 and 1.25; 1.5 and 1.5; 0.5 for each of six.
        assert_eq!(*rows_of(5, &[1, 2, 1]), [0, 1, 1, 1, 2]);
        assert_eq!(*rows_of(3, &[9, 9]), [0, 0, 1]);
        assert_eq!(*rows_of(3, &[1; 6]), [0, 1, 2]);
    }

    #[test]
    fn without_a_candidate_no_row_has_a_winner() {
        assert_eq!(*rows_of(3, &[]), [NO_WINNER; 3]);
    }

    #[test]
    fn candidates_past_the_maximum_have_no_row() {
        let table = rows(TableSize::MAX, &candidates(&vec![1; MAX_CANDIDATES + 2]));
        let shares = shares(&table, MAX_CANDIDATES);
        assert_eq!(shares.iter().sum::<usize>(), table.len());
        assert!(shares.iter().all(|share| (16..=17).contains(share)));
    }

    proptest! {
        #[test]
        fn a_share_is_its_quota_rounded_down_or_up(
            weights in proptest::collection::vec(1u8.., 1..300), size in 1u32..70_000,
        ) {
            let table = rows_of(size, &weights);
            prop_assert!(table.is_sorted());
            prop_assert_eq!(table.len(), size as usize);
            let sum: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
            for (share, weight) in shares(&table, weights.len()).into_iter().zip(&weights) {
                let quota = table.len() * usize::from(*weight);
                prop_assert!((quota / sum..=quota.div_ceil(sum)).contains(&share));
            }
        }
    }
}
