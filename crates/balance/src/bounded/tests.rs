//! What bounded rows promise: nobody above the bound, and the best that this allows.

use super::*;
use crate::figures::{Moves, candidates, fleet};
use crate::rendezvous::{Rows, Weight, shares};
use alloc::vec;
use proptest::prelude::*;

const SIZE: TableSize = TableSize::DEFAULT;

/// The first and the last rows of 251 by a Python implementation that sorts all candidates for each
/// row, with floating-point logarithms.
#[test]
fn rows_agree_with_another_implementation() {
    let rows = rows(TableSize::new(251).unwrap(), 0, &candidates(&[1, 2, 3, 10, 20]));
    assert_eq!(
        rows[..48],
        [
            4, 4, 4, 3, 2, 4, 3, 2, 3, 4, 3, 3, 3, 4, 2, 4, 4, 3, 3, 4, 4, 3, 3, 4, 4, 1, 4, 1, 4,
            4, 4, 3, 1, 3, 3, 4, 4, 3, 0, 4, 4, 4, 4, 4, 4, 3, 0, 4
        ]
    );
    assert_eq!(
        rows[251 - 24..],
        [4, 4, 1, 4, 3, 4, 3, 3, 3, 4, 4, 4, 4, 2, 4, 4, 2, 4, 4, 4, 2, 4, 4, 2]
    );
    assert_eq!(shares(&rows, 5), [7, 14, 20, 70, 140]);
}

#[test]
fn without_a_bound_that_binds_the_rows_are_those_of_plain_rendezvous() {
    for weights in [&[1; 7][..], &[1, 2, 3, 10, 20], &[255, 1, 1, 254, 77]] {
        let candidates = candidates(weights);
        let mut plain = Rows::new(&candidates);
        (0..7).for_each(|index| plain.add(index));
        assert_eq!(*rows(SIZE, u16::MAX, &candidates), *plain.winners());
    }
}

#[test]
fn without_a_candidate_no_row_has_a_winner() {
    assert_eq!(*rows(TableSize::new(5).unwrap(), 0, &[]), [NO_WINNER; 5]);
}

#[test]
fn candidates_past_the_maximum_have_no_row() {
    let many = candidates(&vec![1; MAX_CANDIDATES + 2]);
    let rows = rows(TableSize::new(100).unwrap(), 0, &many);
    assert_eq!(shares(&rows, MAX_CANDIDATES).into_iter().sum::<usize>(), 100);
}

#[test]
fn of_candidates_of_one_id_the_heavier_and_then_the_first_is_filled_before() {
    for (weights, expected) in
        [([1, 1, 2], [2, 2, 2, 2, 0, 0, 1, 1]), ([2, 1, 1], [0, 0, 0, 0, 1, 1, 2, 2])]
    {
        let mut same = candidates(&weights);
        same[1].id = same[0].id;
        same[2].id = same[0].id;
        assert_eq!(*rows(TableSize::new(8).unwrap(), 0, &same), expected);
    }
}

/// The figures of a simulation with another hash: 0.22 % without slack at 10 candidates, 0.04 %
/// with 5 % at 100; the limits are twice as high.
#[test]
fn removals_move_few_rows_that_need_not_move() {
    for (count, slack_permille, limit) in [(10, 0, 0.0044), (100, 50, 0.0008)] {
        let candidates = fleet(1, &vec![1; count]);
        let build = |some: &[Candidate]| rows(SIZE, slack_permille, some);
        let moves = Moves::of_removals(&candidates, [0, 3, 5, 7, 9], build);
        assert!(moves.needless <= limit, "{count} candidates: {moves:?}");
    }
}

#[test]
fn a_hopeless_draw_has_everything_within_reach() {
    let worst = Draw::from_hash(0, Weight::ONE);
    assert_eq!(reach_of(worst), u64::MAX);
    assert!(is_within(u64::MAX, 0, 255));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nobody_is_above_the_bound_and_no_row_is_empty(
        weights in proptest::collection::vec(1u8.., 1..60),
        size in 1u32..5000, slack_permille in prop_oneof![Just(0), 0u16..300],
    ) {
        let rows = rows(TableSize::new(size).unwrap(), slack_permille, &candidates(&weights));
        let sum: f64 = weights.iter().copied().map(f64::from).sum();
        let shares = shares(&rows, weights.len());
        prop_assert_eq!(shares.iter().sum::<usize>(), size as usize);
        for (share, weight) in shares.into_iter().zip(&weights) {
            let quota = f64::from(size) * f64::from(*weight) / sum;
            let bound = quota * (1.0 + f64::from(slack_permille) / 1000.0);
            prop_assert!((share as f64) < bound + 1.0 + 1e-6, "{share} of {quota}");
            // The bounds exceed all rows by less than one each, and by the slack.
            let spare = weights.len() as f64 + f64::from(size) * f64::from(slack_permille) / 1000.0;
            prop_assert!(share as f64 > bound - spare - 1e-6, "{share} of {quota}");
        }
    }

    #[test]
    fn each_row_has_the_best_of_those_that_are_not_full(
        weights in proptest::collection::vec(1u8.., 1..12), slack_permille in 0u16..100,
    ) {
        let candidates = candidates(&weights);
        let mut plain = Rows::new(&candidates);
        (0..).take(weights.len()).for_each(|index| plain.add(index));
        let rows = rows(TableSize::new(1000).unwrap(), slack_permille, &candidates);
        let sum: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        let bound = |index: u16| {
            let weight = usize::from(weights[usize::from(index)]);
            (1000 * weight * (1000 + usize::from(slack_permille))).div_ceil(sum * 1000)
        };
        let mut have = vec![0; weights.len()];
        for (winner, row) in rows.iter().zip(0..) {
            let ranking = plain.ranking(row);
            let best = ranking.iter().find(|(index, _)| have[usize::from(*index)] < bound(*index));
            prop_assert_eq!(*winner, best.unwrap().0);
            have[usize::from(*winner)] += 1;
        }
    }

    /// The limits are twice the worst of 600 sets of uneven weights and more.
    #[test]
    fn a_removal_moves_few_rows_that_need_not_move_whatever_the_weights(
        weights in proptest::collection::vec(1u8.., 2..20), victim: proptest::sample::Index,
        (slack_permille, limit) in prop_oneof![Just((0, 0.01)), Just((50, 0.002))],
    ) {
        let victim = u16::try_from(victim.index(weights.len())).unwrap();
        let build = |some: &[Candidate]| rows(SIZE, slack_permille, some);
        let moves = Moves::of_removals(&candidates(&weights), [victim], build);
        prop_assert!(moves.needless <= limit, "{moves:?}");
    }

    #[test]
    fn what_is_just_out_of_reach_does_not_win(
        held: u64, magnitude in 0u32..64, past in 1u64..1 << 20, weights: [u8; 2],
    ) {
        let [held_weight, weight] = weights.map(|weight| Weight::new(weight.max(1)).unwrap());
        // Winners' hashes are near 2^64: all magnitudes of the distance.
        let held = Draw::from_hash(!(held >> magnitude), held_weight);
        let reach = reach_of(held).saturating_mul(weight.get().into());
        let challenger = Draw::from_hash(!reach.saturating_add(past), weight);
        let loses = challenger.compare(&held) == Ordering::Greater;
        prop_assert!(loses || reach.saturating_add(past) == u64::MAX);
        prop_assert!(reach == u64::MAX || !is_within(reach_of(held), !(reach + 1), weight.get()));
    }
}
