//! What tables promise: one set of candidates, one table; and the figures they are chosen by.

extern crate std;

use super::*;
use crate::figures::{Moves, candidates, fleet, max_over_mean};
use crate::rendezvous::Weight;
use alloc::format;
use alloc::string::String;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::println;

const SELECTIONS: [Selection; 4] = [
    Selection::Maglev,
    Selection::Rendezvous { slack_permille: 0 },
    Selection::Rendezvous { slack_permille: 50 },
    Selection::WeightedRandom,
];

fn digest(table: &Table) -> [u8; 32] {
    Sha256::digest(table.serialise()).into()
}

fn hex(digest: [u8; 32]) -> String {
    digest.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Digests by a Python implementation over hashlib, which builds the tables as well.
#[test]
fn digests_agree_with_another_implementation() {
    let weighted = candidates(&[1, 2, 3, 10, 20]);
    for (selection, expected) in SELECTIONS.into_iter().zip([
        "0786ea5434aac58456874266f1c92876ebcfede28c1b8fe1e88429df88e3ab42",
        "29ecf5a8432580d3ddbdd83446704c7c06bb61086b5062499310f4b6d660a6f2",
        "3a8a334dd56a0609b39e965b4500100762e7dc75a5a6d04ceb461e08093f4f96",
        "fcfc916c2e374976d78101c1af47a321b0916a7c53de67a1d9a355adf1a39b12",
    ]) {
        let table = build(selection, TableSize::new(251).unwrap(), &weighted);
        assert_eq!(hex(digest(&table)), expected, "{selection:?}");
    }
    let equal = candidates(&[1; 10]);
    for (selection, expected) in [
        (Selection::Maglev, "468c901c5686c09cd4065665a83949421fbe7670a2eae80b6686de28f22c80bc"),
        (
            Selection::Rendezvous { slack_permille: 0 },
            "d3d6d6f30879cffacfee9972ff55397df210ba5210b73f4779cf6f6aa142712d",
        ),
        (
            Selection::WeightedRandom,
            "3c9914064b3135064075686377f4a749768434eb50bd17fbc90a89247dfc1e22",
        ),
    ] {
        let table = build(selection, TableSize::DEFAULT, &equal);
        assert_eq!(hex(digest(&table)), expected, "{selection:?}");
    }
    let empty = build(Selection::Maglev, TableSize::new(5).unwrap(), &[]);
    let expected = "38db66419e262af4678430fd95bafdf556bd95a2be316f37cd3cdc94cdef4ce8";
    assert_eq!(hex(digest(&empty)), expected);
}

#[test]
fn without_a_candidate_no_row_has_a_winner() {
    for selection in SELECTIONS {
        let table = build(selection, TableSize::new(5).unwrap(), &[]);
        assert_eq!(*table.rows(), [NO_WINNER; 5]);
        assert!(table.shares().is_empty());
    }
}

#[test]
fn what_tells_tables_apart_is_in_the_digest() {
    let size = |rows| TableSize::new(rows).unwrap();
    let one = candidates(&[1]);
    let base = build(SELECTIONS[1], size(97), &one);
    for other in [
        build(SELECTIONS[0], size(97), &one),
        build(SELECTIONS[2], size(97), &one),
        build(SELECTIONS[1], size(98), &one),
        build(SELECTIONS[1], size(97), &candidates(&[2])),
        build(SELECTIONS[1], size(97), &fleet(1, &[1])),
        build(SELECTIONS[1], size(97), &[]),
    ] {
        assert_ne!(digest(&base), digest(&other), "{:?}", other.selection());
    }
}

#[test]
fn candidates_past_the_maximum_are_left_out() {
    let many = candidates(&vec![1; MAX_CANDIDATES + 1]);
    let table = build(Selection::WeightedRandom, TableSize::MAX, &many);
    assert_eq!(table.candidates().len(), MAX_CANDIDATES);
    assert_eq!(table.shares().iter().sum::<usize>(), table.rows().len());
}

/// Prints what the selections are chosen by (`cargo test -p balance figures -- --nocapture`), and
/// holds them to the figures of the simulation they were chosen by, with a margin for its few
/// removals: max/mean, and the rows that move without need when one of the candidates leaves.
#[test]
fn the_figures_that_selections_are_chosen_by_hold() {
    println!("selection                               N  max/mean  moved %  needless %  10->5 %");
    for (selection, count, busiest, needless) in [
        (SELECTIONS[0], 10, 1.008, 0.0045),
        (SELECTIONS[0], 100, 1.008, 0.008),
        (SELECTIONS[0], 500, 1.008, 0.014),
        (SELECTIONS[1], 10, 1.0002, 0.0035),
        (SELECTIONS[1], 100, 1.0011, 0.005),
        (SELECTIONS[1], 500, 1.0072, 0.005),
        (SELECTIONS[2], 10, 1.051, 0.0),
        (SELECTIONS[2], 100, 1.052, 0.0008),
        (SELECTIONS[2], 500, 1.054, 0.0018),
        (SELECTIONS[3], 10, 1.0002, 1.0),
        (SELECTIONS[3], 100, 1.0011, 1.0),
        (SELECTIONS[3], 500, 1.0072, 1.0),
    ] {
        let rows = |some: &[Candidate]| build(selection, TableSize::DEFAULT, some).rows;
        let equal = candidates(&vec![10; count]);
        let max_over_mean = max_over_mean(&build(selection, TableSize::DEFAULT, &equal).shares());
        let removals = Moves::of_removals(&equal, [0, 2, 4, 6, 8], rows);
        let mut halved = equal.clone();
        halved[5].weight = Weight::new(5).unwrap();
        let halving = Moves::between(&rows(&equal), &rows(&halved), 5);
        println!(
            "{:34} {count:6}  {max_over_mean:8.4}  {:7.2}  {:10.3}  {:7.2}",
            format!("{selection:?}"),
            100.0 * removals.all,
            100.0 * removals.needless,
            100.0 * halving.all
        );
        assert!(max_over_mean <= busiest, "{selection:?} {count}: {max_over_mean}");
        assert!(removals.needless <= needless, "{selection:?} {count}: {removals:?}");
    }
}

fn any_selection() -> impl Strategy<Value = Selection> {
    proptest::sample::select(&SELECTIONS[..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn l4_34_same_backends_in_any_order_have_the_same_digest(
        selection in any_selection(),
        (listed, shuffled) in proptest::collection::vec((0u64..40, 1u8..), 0..40)
            .prop_flat_map(|listed| (Just(listed.clone()), Just(listed).prop_shuffle())),
    ) {
        let table = |listed: &[(u64, u8)]| {
            let candidates: Vec<_> = listed
                .iter()
                .map(|(id, weight)| Candidate { id: *id, weight: Weight::new(*weight).unwrap() })
                .collect();
            build(selection, TableSize::new(997).unwrap(), &candidates)
        };
        let (one, other) = (table(&listed), table(&shuffled));
        prop_assert_eq!(digest(&one), digest(&other));
        // Not the digest alone: each row names the same id and weight.
        let names = |table: &Table| -> Vec<_> {
            table.rows().iter().map(|row| table.candidates().get(usize::from(*row)).copied()).collect()
        };
        prop_assert_eq!(names(&one), names(&other));
    }

    #[test]
    fn every_row_has_a_candidate_if_there_is_one(
        selection in any_selection(), size in 1u32..3000,
        weights in proptest::collection::vec(1u8.., 1..50),
    ) {
        let table = build(selection, TableSize::new(size).unwrap(), &candidates(&weights));
        prop_assert_eq!(table.shares().iter().sum::<usize>(), table.rows().len());
    }
}
