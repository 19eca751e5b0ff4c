//! The packet core of lb-node beside a program that only sends frames back, and the tables that it
//! chooses by. `crates/xdp/benches/lb` measures the one, criterion the other.

use super::criterion;
use super::record::{Goal, Record};
use crate::command;
use anyhow::Context as _;
use serde::Deserialize;
use std::process::Stdio;

const CORE: [&str; 6] = ["bench", "--quiet", "--package", "xdp", "--bench", "lb"];
const TABLES: [&str; 7] =
    ["bench", "--package", "balance", "--features", "alloc", "--bench", "tables"];
const SELECTIONS: [&str; 4] =
    ["maglev", "rendezvous, no slack", "rendezvous, 5 % slack", "weighted random"];

/// A line of what the bench prints.
#[derive(Deserialize)]
struct Figure {
    case: String,
    value: f64,
    unit: String,
    baseline: Option<f64>,
    ratio: Option<f64>,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

/// All figures, in interleaved rounds; of the packet core those cases whose names contain `only`.
pub(crate) fn measure(rounds: usize, only: Option<&str>) -> anyhow::Result<Vec<Record>> {
    let mut bench = command::cargo(CORE);
    bench.args(["--", "--rounds", &rounds.to_string()]);
    bench.args(only.map(|only| ["--only", only]).iter().flatten());
    println!("    {}", command::line(&bench));
    let output = bench.stderr(Stdio::inherit()).output().context("start cargo bench")?;
    anyhow::ensure!(output.status.success(), "the bench failed: {}", output.status);
    let lines = String::from_utf8(output.stdout)?;
    let mut records = Vec::new();
    for line in lines.lines().filter(|line| line.starts_with('{')) {
        records.push(record(serde_json::from_str(line)?));
    }
    if only.is_none() {
        command::run(&mut command::cargo(TABLES))?;
        for selection in SELECTIONS {
            for candidates in [10, 100, 500] {
                records.push(criterion::built(selection, candidates)?);
            }
        }
    }
    Ok(records)
}

fn record(figure: Figure) -> Record {
    let Figure { case, value, unit, baseline, ratio, at_most, at_least } = figure;
    let goal = at_most.map(Goal::AtMost).or(at_least.map(Goal::RatioAtLeast));
    Record { bench: "lb", case, value, unit: unit.into(), baseline, ratio, goal }
}
