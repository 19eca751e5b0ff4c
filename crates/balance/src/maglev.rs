//! Maglev rows: candidates take turns, each claims the next free row of a permutation of its own.
//!
//! Maglev (Eisenbud et al., NSDI 2016, 3.4): shares differ by little more than a row, and a change
//! of the candidates moves few rows but those it must; it does move some. Weights follow Katran's
//! second variant: in each round a candidate adds its weight to its credit, and takes a turn when
//! the credit reaches the largest weight. Of M rows a candidate of weight w among N with the sum W
//! has more than `M w/W - 2` and less than `M w/W + 1 + N w/W`.
//!
//! The rows depend on the order of the candidates; [`crate::table::build`] settles it.

use crate::hash::{hash, row_in};
use crate::rendezvous::{Candidate, MAX_CANDIDATES, NO_WINNER};
use crate::size::TableSize;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

const PERMUTATION_SEED: u64 = 0x6d61_676c_6576;

/// The rows, as many as the least prime that is not below `size`: indices into `candidates`, or
/// [`NO_WINNER`] without a candidate. Candidates past [`MAX_CANDIDATES`] have none.
///
/// It takes about `M ln M` steps, and at most `M N` for extreme weights.
pub fn rows(size: TableSize, candidates: &[Candidate]) -> Box<[u16]> {
    let size = size.to_prime().get();
    let mut rows = vec![NO_WINNER; size as usize].into_boxed_slice();
    let candidates = candidates.iter().take(MAX_CANDIDATES);
    let Some(heaviest) = candidates.clone().map(|candidate| candidate.weight).max() else {
        return rows;
    };
    let mut claimants: Vec<_> =
        candidates.map(|candidate| Claimant::new(candidate, size)).collect();
    let mut free = size;
    loop {
        for (claimant, index) in claimants.iter_mut().zip(0..) {
            if !claimant.has_turn(heaviest.get()) {
                continue;
            }
            claimant.claim(&mut rows, index);
            free -= 1;
            if free == 0 {
                return rows;
            }
        }
    }
}

/// A candidate on its way through its permutation: `next`, `next + skip`, ... modulo the size.
struct Claimant {
    next: u32,
    /// 1 to the size, exclusive: as the size is prime, it leads to every row.
    skip: u32,
    size: u32,
    weight: u32,
    credit: u32,
}

impl Claimant {
    fn new(candidate: &Candidate, size: u32) -> Self {
        let draw = |word| hash(PERMUTATION_SEED, [candidate.id, word]);
        Self {
            next: row_in(draw(0), size),
            skip: 1 + row_in(draw(1), size - 1),
            size,
            weight: u32::from(candidate.weight.get()),
            credit: 0,
        }
    }

    fn has_turn(&mut self, heaviest: u8) -> bool {
        let due = u32::from(heaviest);
        self.credit += self.weight;
        let has_turn = self.credit >= due;
        if has_turn {
            self.credit -= due;
        }
        has_turn
    }

    /// Takes the first free row that it has not visited; one must be free.
    fn claim(&mut self, rows: &mut [u16], index: u16) {
        for _ in 0..self.size {
            let row = rows.get_mut(self.next as usize);
            self.next = (self.next + self.skip) % self.size;
            if let Some(row) = row.filter(|row| **row == NO_WINNER) {
                *row = index;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
