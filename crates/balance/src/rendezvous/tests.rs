//! What rendezvous rows promise: no row moves without a reason, and history does not matter.

use super::*;
use proptest::prelude::*;

fn candidates(weights: &[u8]) -> Vec<Candidate> {
    (1..)
        .zip(weights)
        .map(|(name, weight)| Candidate {
            id: hash(0, [name]),
            weight: Weight::new(*weight).unwrap(),
        })
        .collect()
}

fn with_all(weights: &[u8]) -> Rows {
    let mut rows = Rows::new(&candidates(weights));
    for index in 0..u16::try_from(weights.len()).unwrap() {
        rows.add(index);
    }
    rows
}

/// The first 48 winners by a Python implementation over the reference xxHash library and
/// floating-point logarithms.
#[test]
fn winners_agree_with_another_implementation() {
    let equal = with_all(&[1; 7]);
    assert_eq!(
        equal.winners()[..48],
        [
            1, 4, 2, 3, 2, 4, 1, 2, 3, 4, 3, 3, 0, 6, 2, 0, 0, 3, 5, 4, 1, 6, 6, 6, 2, 1, 0, 1, 2,
            6, 0, 3, 1, 2, 1, 6, 2, 6, 0, 1, 0, 4, 0, 5, 6, 1, 0, 0
        ]
    );
    let weighted = with_all(&[1, 2, 3, 10, 20]);
    assert_eq!(
        weighted.winners()[..48],
        [
            4, 4, 4, 3, 2, 4, 3, 2, 3, 4, 3, 3, 3, 4, 2, 4, 4, 3, 3, 4, 4, 3, 3, 4, 4, 1, 4, 1, 4,
            4, 4, 3, 1, 3, 3, 4, 4, 3, 0, 4, 4, 4, 4, 4, 4, 3, 0, 4
        ]
    );
}

#[test]
fn shares_follow_the_weights() {
    let shares = with_all(&[10, 20, 30, 40]).shares();
    for (share, expected) in shares.into_iter().zip([0.1, 0.2, 0.3, 0.4]) {
        // Four standard deviations of a binomial draw.
        let mean: f64 = expected * 65_536.0;
        let deviation = (mean * (1.0 - expected)).sqrt();
        let share = share as f64;
        assert!((share - mean).abs() < 4.0 * deviation, "{share} of {mean}");
    }
}

#[test]
fn the_busiest_of_ten_is_a_few_percent_above_the_mean() {
    let shares = with_all(&[1; 10]).shares();
    let busiest = *shares.iter().max().unwrap() as f64;
    assert!(busiest / 6_553.6 < 1.04, "max/mean {}", busiest / 6_553.6);
}

#[test]
fn without_a_present_candidate_no_row_has_a_winner() {
    let mut rows = with_all(&[1, 1]);
    rows.remove(0);
    rows.remove(1);
    assert!(rows.winners().iter().all(|winner| *winner == NO_WINNER));
    assert!(Rows::new(&[]).winners().iter().all(|winner| *winner == NO_WINNER));
}

#[test]
fn the_ranking_names_the_winner_first() {
    let rows = with_all(&[3, 1, 200, 9]);
    for row in [0, 1, 77, 40_000, 65_535] {
        assert_eq!(rows.ranking(row)[0].0, rows.winners()[usize::from(row)]);
    }
}

#[test]
fn an_unknown_candidate_changes_nothing() {
    let mut rows = with_all(&[1, 1]);
    let before = rows.clone();
    rows.add(2);
    rows.remove(9);
    rows.add(0);
    assert_eq!(rows.winners(), before.winners());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn removing_moves_only_what_the_leaver_had_won_and_returning_restores_it(
        weights in proptest::collection::vec(1u8.., 2..12), leaver: proptest::sample::Index,
    ) {
        let mut rows = with_all(&weights);
        let before = rows.clone();
        let leaver = u16::try_from(leaver.index(weights.len())).unwrap();
        rows.remove(leaver);
        for (was, is) in before.winners().iter().zip(rows.winners()) {
            prop_assert!(is != &leaver);
            prop_assert!(was == is || *was == leaver);
        }
        rows.add(leaver);
        prop_assert_eq!(before.winners(), rows.winners());
    }

    #[test]
    fn the_order_of_events_leaves_no_trace(
        weights in proptest::collection::vec(1u8.., 1..8),
        events in proptest::collection::vec((any::<bool>(), 0u16..8), 0..24),
    ) {
        let mut rows = Rows::new(&candidates(&weights));
        for (add, index) in events {
            if add { rows.add(index) } else { rows.remove(index) }
        }
        let mut anew = Rows::new(&candidates(&weights));
        for index in (0..8).rev().filter(|index| rows.is_present(*index)) {
            anew.add(index);
        }
        prop_assert_eq!(anew.winners(), rows.winners());
    }

    #[test]
    fn a_table_carried_to_other_candidates_is_as_if_built_anew(
        weights in proptest::collection::vec(1u8.., 1..10),
        fates in proptest::collection::vec((any::<bool>(), 0u8..4), 10),
    ) {
        let old = candidates(&weights);
        let mut rows = Rows::new(&old);
        for (index, (present, _)) in (0..).zip(&fates).take(old.len()) {
            if *present { rows.add(index) }
        }
        // Some stay, some go, some change their weight; one is new.
        let mut new = vec![candidates(&[9; 11])[10]];
        let mut stays = vec![false];
        for (candidate, (present, fate)) in old.iter().zip(&fates) {
            match fate {
                0 => {}
                1 => {
                    let weight = Weight::new(candidate.weight.get() / 2 + 1).unwrap();
                    stays.push(*present && weight == candidate.weight);
                    new.push(Candidate { weight, ..*candidate });
                }
                _ => {
                    stays.push(*present);
                    new.push(*candidate);
                }
            }
        }
        let carried = rows.with_candidates(&new);
        let mut anew = Rows::new(&new);
        for (index, stays) in (0..).zip(stays) {
            if stays { anew.add(index) }
            prop_assert_eq!(carried.is_present(index), stays);
        }
        prop_assert_eq!(carried.winners(), anew.winners());
    }

    #[test]
    fn a_change_of_one_weight_moves_rows_only_to_or_from_its_candidate(
        weights in proptest::collection::vec(1u8.., 2..8),
        changed: proptest::sample::Index, weight in 1u8..,
    ) {
        let before = with_all(&weights);
        let changed = changed.index(weights.len());
        let mut new = weights.clone();
        new[changed] = weight;
        let after = with_all(&new);
        for (was, is) in before.winners().iter().zip(after.winners()) {
            let touched = usize::from(*was) == changed || usize::from(*is) == changed;
            prop_assert!(was == is || touched);
        }
    }
}
