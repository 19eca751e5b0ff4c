//! Selection tables: what a pool of weighted candidates compiles to.
//!
//! A flow's hash names a row ([`crate::hash::row_in`]), the row names its candidate. A table is a
//! function of the selection, the size and the set of candidates: [`build`] sorts them by id and
//! weight first, so that the order in which a configuration lists them changes no flow's
//! candidate. Candidates of one id and one weight cannot be told apart: which of their places a
//! row names follows the listing, and the serialised form does not show it.

use crate::hash::HASH_VERSION;
use crate::rendezvous::{self, Candidate, MAX_CANDIDATES, NO_WINNER};
use crate::size::TableSize;
use crate::{bounded, maglev, proportional};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// How rows find their candidates.
///
/// What they are chosen by, at 10 / 100 / 500 candidates of one weight and the default size: the
/// busiest candidate's rows over the mean, and the rows, of all, that move without need when a
/// candidate leaves (mean of five). The tests print and check it.
///
/// | selection | max/mean | moved without need |
/// |--|--|--|
/// | Maglev | 1.0000 / 1.0010 / 1.0071 | 0.21 / 0.53 / 0.93 % |
/// | rendezvous, no slack | 1.0001 / 1.0010 / 1.0071 | 0.19 / 0.38 / 0.40 % |
/// | rendezvous, slack 50 | 1.0240 / 1.0513 / 1.0529 | 0 / 0.02 / 0.09 % |
/// | weighted random | 1.0001 / 1.0010 / 1.0071 | 24 / 29 / 33 % |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selection {
    /// Even shares; a change moves a few rows that need not move. See [`crate::maglev`].
    #[default]
    Maglev,
    /// Shares within a bound; the wider it is, the fewer rows move. See [`crate::bounded`].
    Rendezvous {
        /// What a candidate may have above its share, in thousandths of it.
        slack_permille: u16,
    },
    /// Exact shares, for flows that are spread by random numbers. See [`crate::proportional`].
    WeightedRandom,
}

impl Selection {
    /// The code and the slack in the serialisation of a table.
    fn code(self) -> (u8, u16) {
        match self {
            Self::Maglev => (0, 0),
            Self::Rendezvous { slack_permille } => (1, slack_permille),
            Self::WeightedRandom => (2, 0),
        }
    }
}

/// Rows that name candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    selection: Selection,
    candidates: Box<[Candidate]>,
    rows: Box<[u16]>,
}

/// The table of these candidates. [`Selection::Maglev`] rounds the size up to a prime. Without a
/// candidate every row is [`NO_WINNER`]. Candidates past [`MAX_CANDIDATES`] are left out:
/// configurations are bounded before.
pub fn build(selection: Selection, size: TableSize, candidates: &[Candidate]) -> Table {
    let candidates = candidates.get(..MAX_CANDIDATES).unwrap_or(candidates);
    let (sorted, places): (Vec<_>, Vec<_>) = sorted(candidates).into_iter().unzip();
    let mut rows = match selection {
        Selection::Maglev => maglev::rows(size, &sorted),
        Selection::Rendezvous { slack_permille } => bounded::rows(size, slack_permille, &sorted),
        Selection::WeightedRandom => proportional::rows(size, &sorted),
    };
    translate(&mut rows, &places);
    Table { selection, candidates: candidates.into(), rows }
}

impl Table {
    /// How rows found their candidates.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// The candidates as they were listed.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// All rows: indices into the candidates, or [`NO_WINNER`].
    pub fn rows(&self) -> &[u16] {
        &self.rows
    }

    /// How many rows each candidate has, in the candidates' order.
    pub fn shares(&self) -> Vec<usize> {
        rendezvous::shares(&self.rows, self.candidates.len())
    }

    /// The table in a form that does not depend on the order in which the candidates were listed:
    /// nodes that export equal SHA-256 digests of it treat every flow alike.
    ///
    /// All integers are big-endian, and nothing separates them:
    ///
    /// | octets | what |
    /// |--|--|
    /// | 4 | [`HASH_VERSION`] |
    /// | 1 | selection: 0 Maglev, 1 rendezvous, 2 weighted random |
    /// | 2 | slack in thousandths, 0 but for rendezvous |
    /// | 4 | number of rows |
    /// | 4 | number of candidates |
    /// | 9 each | candidates sorted by id, then weight: id (8), weight (1) |
    /// | 2 each | rows: place among the sorted candidates, 65,535 for none |
    pub fn serialise(&self) -> Vec<u8> {
        let (code, slack_permille) = self.selection.code();
        let sorted = sorted(&self.candidates);
        let mut octets = Vec::new();
        octets.extend(HASH_VERSION.to_be_bytes());
        octets.push(code);
        octets.extend(slack_permille.to_be_bytes());
        octets.extend(count(self.rows.len()).to_be_bytes());
        octets.extend(count(sorted.len()).to_be_bytes());
        let mut ranks = vec![NO_WINNER; sorted.len()];
        for ((candidate, place), rank) in sorted.iter().zip(0..) {
            octets.extend(candidate.id.to_be_bytes());
            octets.push(candidate.weight.get());
            if let Some(slot) = ranks.get_mut(usize::from(*place)) {
                *slot = rank;
            }
        }
        let mut rows = self.rows.clone();
        translate(&mut rows, &ranks);
        octets.extend(rows.iter().flat_map(|row| row.to_be_bytes()));
        octets
    }
}

/// The candidates by id, then weight, each with its place in the listing. Those that cannot be told
/// apart stay in their order.
fn sorted(candidates: &[Candidate]) -> Vec<(Candidate, u16)> {
    let mut sorted: Vec<_> = candidates.iter().copied().zip(0..).collect();
    sorted.sort_by_key(|(candidate, _)| (candidate.id, candidate.weight));
    sorted
}

/// Replaces each index by what `names` has for it.
fn translate(rows: &mut [u16], names: &[u16]) {
    for row in rows {
        *row = names.get(usize::from(*row)).copied().unwrap_or(NO_WINNER);
    }
}

/// Rows and candidates are bounded far below 2^32.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
