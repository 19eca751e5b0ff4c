//! `cargo xtask bench`: figures as ratios, side by side in one run.

mod criterion;
mod gre;
mod lb;
mod record;

use crate::command;
use anyhow::Context as _;
use std::path::Path;
use std::process::ExitCode;

const BUILD: [&str; 5] = ["build", "--release", "--bins", "--example", "bare"];
const MICRO: [&str; 7] =
    ["bench", "--package", "datapath", "--features", "fixed", "--bench", "gre"];

/// Measures gredist and prints a table; records go to `json` as well.
pub(crate) fn gredist(json: Option<&Path>, rounds: usize) -> anyhow::Result<ExitCode> {
    command::run(&mut command::cargo(BUILD))?;
    let mut records = gre::measure(rounds)?;
    command::run(&mut command::cargo(MICRO))?;
    records.extend(criterion::records()?);
    show(&records, json)
}

/// Measures lb-node's packet core and prints a table; records go to `json` as well.
pub(crate) fn lb(
    json: Option<&Path>,
    rounds: usize,
    only: Option<&str>,
) -> anyhow::Result<ExitCode> {
    show(&lb::measure(rounds, only)?, json)
}

fn show(records: &[record::Record], json: Option<&Path>) -> anyhow::Result<ExitCode> {
    println!("\n{}", record::table(records));
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(records)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("records written to {}", path.display());
    }
    let missed = records.iter().filter(|record| !record.reached()).count();
    if missed > 0 {
        println!("{missed} goals missed");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
