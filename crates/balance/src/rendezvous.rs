//! Rendezvous rows: 65,536 rows, each won by the candidate with the highest random weight.
//!
//! A flow's hash names its row; the row names its winner. The winner is a function of the row and
//! the present candidates alone, with no history: a candidate that leaves gives away only the
//! rows it had won, and takes back exactly these when it returns. Weights follow the weighted
//! rendezvous of Schindelhauer and Schomaker (2005): the least `-ln(u) / weight` wins. Nothing
//! bounds the load of a candidate: with 65,536 rows the busiest of ten is about 2 % above the mean.
//!
//! A change costs one score per row, plus, on a removal, one per present candidate for each row
//! that the leaving one had won. Memory is fixed: ten octets a row.

use crate::hash::hash;
use crate::logarithm::neg_log2;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::num::NonZeroU8;

/// Rows of a table.
pub const ROWS: usize = 65_536;
/// Candidates that a table can hold.
pub const MAX_CANDIDATES: usize = u16::MAX as usize;
/// What a row holds while no candidate is present.
pub const NO_WINNER: u16 = u16::MAX;

const ROW_SEED: u64 = 0x72_6f77;

/// A candidate's share of the rows, relative to the others' weights: 1..=255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(NonZeroU8);

impl Weight {
    /// Equal shares.
    pub const ONE: Self = Self(NonZeroU8::MIN);

    /// `None` for zero.
    pub const fn new(weight: u8) -> Option<Self> {
        match NonZeroU8::new(weight) {
            Some(weight) => Some(Self(weight)),
            None => None,
        }
    }

    /// The weight as a number, 1..=255.
    pub const fn get(self) -> u8 {
        self.0.get()
    }
}

/// Who may win rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// A hash of the candidate's stable name, the same on every node.
    pub id: u64,
    /// Its share.
    pub weight: Weight,
}

/// A candidate's draw in one row; the least cost per weight wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// `-log2(u)` with 56 fraction bits.
    pub cost: u64,
    /// The candidate's weight.
    pub weight: Weight,
}

impl Draw {
    fn of(candidate: &Candidate, row: u16) -> Self {
        Self::from_hash(Self::hash(candidate.id, row.into()), candidate.weight)
    }

    /// What the candidate of this id rolls in this row.
    #[inline(always)]
    pub(crate) fn hash(id: u64, row: u32) -> u64 {
        hash(ROW_SEED, [id, u64::from(row)])
    }

    pub(crate) fn from_hash(hash: u64, weight: Weight) -> Self {
        Self { cost: neg_log2(hash), weight }
    }

    /// Cost per weight, compared exactly; the lesser one wins.
    pub fn compare(&self, other: &Self) -> Ordering {
        let ours = u128::from(self.cost) * u128::from(other.weight.get());
        let theirs = u128::from(other.cost) * u128::from(self.weight.get());
        ours.cmp(&theirs)
    }
}

/// A table that follows its candidates' comings and goings.
#[derive(Clone, Debug)]
pub struct Rows {
    candidates: Vec<Candidate>,
    present: Vec<bool>,
    winners: Box<[u16]>,
    costs: Box<[u64]>,
}

impl Rows {
    /// A table of candidates none of which is present yet. Candidates past [`MAX_CANDIDATES`]
    /// are left out: configurations are bounded before.
    pub fn new(candidates: &[Candidate]) -> Self {
        let candidates: Vec<_> = candidates.iter().copied().take(MAX_CANDIDATES).collect();
        Self {
            present: vec![false; candidates.len()],
            candidates,
            winners: vec![NO_WINNER; ROWS].into_boxed_slice(),
            costs: vec![u64::MAX; ROWS].into_boxed_slice(),
        }
    }

    /// The table for other candidates, in which those that are the same and present stay present.
    /// Only the rows of candidates that are gone or changed are decided anew, so that a small
    /// change of a large pool is cheap. Both lists must name what they share in the same order.
    #[must_use]
    pub fn with_candidates(mut self, candidates: &[Candidate]) -> Self {
        let mut table = Self::new(candidates);
        let place = |candidate| table.candidates.iter().position(|other| *other == candidate);
        let places: Vec<_> = self
            .candidates
            .iter()
            .map(|candidate| place(*candidate).and_then(|at| u16::try_from(at).ok()))
            .collect();
        for (index, place) in (0..).zip(&places) {
            match place {
                None => self.remove(index),
                Some(place) => table.set_present(*place, self.is_present(index)),
            }
        }
        let moved = |winner: &u16| places.get(usize::from(*winner)).copied().flatten();
        for (to, from) in table.winners.iter_mut().zip(&self.winners) {
            *to = moved(from).unwrap_or(NO_WINNER);
        }
        table.costs = self.costs;
        table
    }

    /// The winners of all rows: indices into the candidates, or [`NO_WINNER`].
    pub fn winners(&self) -> &[u16] {
        &self.winners
    }

    /// Whether the candidate takes part.
    pub fn is_present(&self, index: u16) -> bool {
        self.present.get(usize::from(index)).copied().unwrap_or(false)
    }

    /// How many rows each candidate has won, in the candidates' order.
    pub fn shares(&self) -> Vec<usize> {
        shares(&self.winners, self.candidates.len())
    }

    /// Every candidate's draw in this row, best first: why the row's winner is who it is.
    pub fn ranking(&self, row: u16) -> Vec<(u16, Draw)> {
        let mut ranking: Vec<_> =
            (0..).zip(&self.candidates).map(|(index, c)| (index, Draw::of(c, row))).collect();
        ranking.sort_by(|(a, x), (b, y)| x.compare(y).then(a.cmp(b)));
        ranking
    }

    /// Lets a candidate take part: it wins the rows in which its draw is the best. No other row
    /// changes. Present or unknown candidates change nothing.
    pub fn add(&mut self, index: u16) {
        let Some(candidate) = self.candidates.get(usize::from(index)).copied() else { return };
        if self.is_present(index) {
            return;
        }
        self.set_present(index, true);
        for row in 0..=u16::MAX {
            self.contest(row, index, Draw::of(&candidate, row));
        }
    }

    /// Takes a candidate away: each row that it had won goes to the best of the others. No other
    /// row changes. Absent or unknown candidates change nothing.
    pub fn remove(&mut self, index: u16) {
        if !self.is_present(index) {
            return;
        }
        self.set_present(index, false);
        let rest: Vec<(u16, Candidate)> = (0..)
            .zip(self.candidates.iter().copied())
            .filter(|(other, _)| self.is_present(*other))
            .collect();
        for row in 0..=u16::MAX {
            if self.winners.get(usize::from(row)) != Some(&index) {
                continue;
            }
            self.set_winner(row, NO_WINNER, u64::MAX);
            for (other, candidate) in &rest {
                self.contest(row, *other, Draw::of(candidate, row));
            }
        }
    }

    /// Gives the row to the challenger if its draw beats the winner's; equal draws go to the
    /// candidate that stands first.
    fn contest(&mut self, row: u16, challenger: u16, draw: Draw) {
        let at = usize::from(row);
        let (Some(&winner), Some(&cost)) = (self.winners.get(at), self.costs.get(at)) else {
            return;
        };
        let wins = match self.candidates.get(usize::from(winner)) {
            None => true,
            Some(holder) => {
                let held = Draw { cost, weight: holder.weight };
                draw.compare(&held).then(challenger.cmp(&winner)) == Ordering::Less
            }
        };
        if wins {
            self.set_winner(row, challenger, draw.cost);
        }
    }

    fn set_winner(&mut self, row: u16, winner: u16, cost: u64) {
        let at = usize::from(row);
        if let (Some(w), Some(c)) = (self.winners.get_mut(at), self.costs.get_mut(at)) {
            (*w, *c) = (winner, cost);
        }
    }

    fn set_present(&mut self, index: u16, present: bool) {
        if let Some(slot) = self.present.get_mut(usize::from(index)) {
            *slot = present;
        }
    }
}

/// How many rows each of so many candidates has.
pub(crate) fn shares(rows: &[u16], candidates: usize) -> Vec<usize> {
    let mut shares = vec![0; candidates];
    for winner in rows {
        if let Some(share) = shares.get_mut(usize::from(*winner)) {
            *share += 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests;
