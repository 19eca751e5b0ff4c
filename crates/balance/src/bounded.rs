//! Rendezvous rows with bounded load: each row's best candidate that is not yet full.
//!
//! The rows are visited in their order; each goes to the candidate with the least cost per weight
//! ([`Draw`]) among those with less than `ceil(M w/W (1 + slack))` rows. The result is a function
//! of the candidates alone. Without slack shares are as even as Maglev's and fewer rows move than
//! there; more slack lets the busiest be busier, and less move, until nothing moves that need not,
//! as in [`crate::rendezvous`]. The bound follows "Consistent hashing with bounded loads"
//! (Mirrokni, Thorup, Zadimoghaddam, 2016).
//!
//! One hash per row and open candidate is the whole cost: a logarithm is computed only for a hash
//! that may beat the best so far, which one multiplication tells.
//!
//! Candidates whose draws are equal are ranked by their order; [`crate::table::build`] settles it.

use crate::logarithm::FRACTION_BITS;
use crate::rendezvous::{Candidate, Draw, MAX_CANDIDATES, NO_WINNER};
use crate::size::TableSize;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// ln 2 with 64 fraction bits, rounded up.
const LN2: u64 = 0xb172_17f7_d1cf_79ac;
/// More than the error of [`Draw::cost`], in its unit.
const COST_ERROR: u64 = 128;

/// The rows: indices into `candidates`, or [`NO_WINNER`] without a candidate. Candidates past
/// [`MAX_CANDIDATES`] have none.
///
/// `slack_permille` is what a candidate may have above its share, in thousandths of it. Without
/// slack all rows find a candidate too: the bounds are rounded up.
pub fn rows(size: TableSize, slack_permille: u16, candidates: &[Candidate]) -> Box<[u16]> {
    let candidates = candidates.iter().take(MAX_CANDIDATES);
    let sum: u64 = candidates.clone().map(|candidate| u64::from(candidate.weight.get())).sum();
    let bound = |weight: u8| {
        let rows = u64::from(size.get()) * u64::from(weight);
        (rows * (1000 + u64::from(slack_permille))).div_ceil(sum * 1000)
    };
    let mut open: Vec<_> = candidates
        .zip(0..)
        .map(|(candidate, index)| Open {
            candidate: *candidate,
            index,
            room: bound(candidate.weight.get()),
        })
        .collect();
    (0..size.get()).map(|row| take_best(&mut open, row)).collect()
}

/// A candidate that is not full.
struct Open {
    candidate: Candidate,
    index: u16,
    /// Rows that it may still have: one or more.
    room: u64,
}

/// Gives the row to the best and closes it if that was its last one. The others keep their order.
fn take_best(open: &mut Vec<Open>, row: u32) -> u16 {
    let best = best_of(open, row);
    let Some(winner) = open.get_mut(best) else { return NO_WINNER };
    let index = winner.index;
    winner.room -= 1;
    if winner.room == 0 {
        open.remove(best);
    }
    index
}

/// Where the candidate with the least cost per weight stands; the first of equals.
fn best_of(open: &[Open], row: u32) -> usize {
    let mut best: Option<(usize, Draw)> = None;
    let mut reach = u64::MAX;
    for (at, Open { candidate, .. }) in open.iter().enumerate() {
        let hash = Draw::hash(candidate.id, row);
        if !is_within(reach, hash, candidate.weight.get()) {
            continue;
        }
        let draw = Draw::from_hash(hash, candidate.weight);
        if best.is_none_or(|(_, held)| draw.compare(&held) == Ordering::Less) {
            best = Some((at, draw));
            reach = reach_of(draw);
        }
    }
    best.map_or(usize::MAX, |(at, _)| at)
}

/// How far below 2^64, for each unit of its weight, a candidate's hash may be to beat this draw.
///
/// A hash `u = 1 - v` costs `-log2(1 - v) >= v / ln 2`. It beats the cost c of weight w with its
/// own weight x only if `v / ln 2 <= c x/w`, which is `v <= x (ln 2 c/w)`.
fn reach_of(draw: Draw) -> u64 {
    let cost_per_weight = draw.cost / u64::from(draw.weight.get()) + COST_ERROR;
    let reach = (u128::from(cost_per_weight) * u128::from(LN2)) >> FRACTION_BITS;
    u64::try_from(reach).unwrap_or(u64::MAX)
}

#[inline(always)]
fn is_within(reach: u64, hash: u64, weight: u8) -> bool {
    !hash <= reach.saturating_mul(u64::from(weight))
}

#[cfg(test)]
mod tests;
