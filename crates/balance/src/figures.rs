//! What tables are judged by, in tests: how even the shares are, and what a change moves.

use crate::hash::hash;
use crate::rendezvous::{Candidate, Weight};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Candidates of these weights, all with different ids.
pub(crate) fn candidates(weights: &[u8]) -> Vec<Candidate> {
    fleet(0, weights)
}

/// Candidates of these weights; another fleet has other ids.
pub(crate) fn fleet(fleet: u64, weights: &[u8]) -> Vec<Candidate> {
    let candidate = |(weight, name): (&u8, u64)| Candidate {
        id: hash(fleet, [name]),
        weight: Weight::new(*weight).unwrap(),
    };
    weights.iter().zip(1..).map(candidate).collect()
}

/// The busiest candidate's rows over the mean, where all weights are equal.
pub(crate) fn max_over_mean(shares: &[usize]) -> f64 {
    let busiest = *shares.iter().max().unwrap();
    busiest as f64 * shares.len() as f64 / shares.iter().sum::<usize>() as f64
}

/// What a change of the candidates moved, in fractions of all rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moves {
    /// Rows with another candidate.
    pub(crate) all: f64,
    /// Those among them that neither had the changed candidate nor got it.
    pub(crate) needless: f64,
}

impl Moves {
    /// The tables are of one size and name candidates by the same indices.
    pub(crate) fn between(before: &[u16], after: &[u16], changed: u16) -> Self {
        assert_eq!(before.len(), after.len());
        let mut moves = Self::default();
        for (was, is) in before.iter().zip(after).filter(|(was, is)| was != is) {
            moves.all += 1.0 / before.len() as f64;
            if ![*was, *is].contains(&changed) {
                moves.needless += 1.0 / before.len() as f64;
            }
        }
        moves
    }

    /// The mean over the removals of each of these candidates alone.
    pub(crate) fn of_removals(
        candidates: &[Candidate],
        victims: impl IntoIterator<Item = u16>,
        rows: impl Fn(&[Candidate]) -> Box<[u16]>,
    ) -> Self {
        let before = rows(candidates);
        let removal = |victim: u16| {
            let mut others = candidates.to_vec();
            others.remove(victim.into());
            let mut after = rows(&others);
            for row in &mut after {
                *row += u16::from(*row >= victim);
            }
            Self::between(&before, &after, victim)
        };
        Self::mean(&victims.into_iter().map(removal).collect::<Vec<_>>())
    }

    fn mean(all: &[Self]) -> Self {
        let mean =
            |figure: fn(&Self) -> f64| all.iter().map(figure).sum::<f64>() / all.len() as f64;
        Self { all: mean(|moves| moves.all), needless: mean(|moves| moves.needless) }
    }
}
