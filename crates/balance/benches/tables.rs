//! What it costs to build a table, and to find a flow's row in it.

#![allow(clippy::unwrap_used, missing_docs, reason = "a bench ends where its input is wrong")]

use balance::hash::{hash, row_in, row_of};
use balance::rendezvous::{Candidate, Weight};
use balance::size::TableSize;
use balance::table::{Selection, build};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

fn candidates(count: u64) -> Vec<Candidate> {
    (0..count).map(|name| Candidate { id: hash(0, [name]), weight: Weight::ONE }).collect()
}

fn building(c: &mut Criterion) {
    let mut group = c.benchmark_group("build");
    group.sample_size(10);
    for (name, selection) in [
        ("maglev", Selection::Maglev),
        ("rendezvous, no slack", Selection::Rendezvous { slack_permille: 0 }),
        ("rendezvous, 5 % slack", Selection::Rendezvous { slack_permille: 50 }),
        ("weighted random", Selection::WeightedRandom),
    ] {
        for count in [10, 100, 500] {
            let candidates = candidates(count);
            group.bench_function(format!("{name}, {count} candidates"), |bencher| {
                bencher.iter(|| build(selection, TableSize::DEFAULT, black_box(&candidates)));
            });
        }
    }
    group.finish();
    // One heavy among light ones: the most rounds of turns.
    let mut skewed = candidates(500);
    skewed[0].weight = Weight::new(255).unwrap();
    c.bench_function("build/maglev, 500 candidates, one 255 times the others", |bencher| {
        bencher.iter(|| build(Selection::Maglev, TableSize::DEFAULT, black_box(&skewed)));
    });
    let table = build(Selection::Maglev, TableSize::DEFAULT, &candidates(500));
    c.bench_function("serialise", |bencher| bencher.iter(|| black_box(&table).serialise()));
}

fn lookup(c: &mut Criterion) {
    let table = build(Selection::Maglev, TableSize::DEFAULT, &candidates(100));
    let rows = table.rows();
    let size = u32::try_from(rows.len()).unwrap();
    let mut flow = 0u64;
    c.bench_function("hash of a flow", |bencher| {
        bencher.iter(|| {
            flow += 1;
            black_box(hash(0, [flow]))
        });
    });
    c.bench_function("hash of a flow, row_of", |bencher| {
        bencher.iter(|| {
            flow += 1;
            black_box(rows[usize::from(row_of(hash(0, [flow])))])
        });
    });
    c.bench_function("hash of a flow, row_in", |bencher| {
        bencher.iter(|| {
            flow += 1;
            black_box(rows[row_in(hash(0, [flow]), size) as usize])
        });
    });
}

criterion_group!(all, building, lookup);
criterion_main!(all);
