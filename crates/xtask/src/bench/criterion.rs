//! Reads what criterion measured: its medians lie in files.

use super::record::Record;
use crate::command;
use anyhow::Context as _;

/// Cases of `cargo bench -p datapath`, by criterion's directory names.
const CASES: [&str; 3] = ["parse and select", "forward, one family", "forward, IPv4 to IPv6"];

/// The medians, in nanoseconds a packet.
pub(crate) fn records() -> anyhow::Result<Vec<Record>> {
    let record = |case: &&str| {
        let value = median(case)?;
        Ok(plain("datapath", (*case).to_owned(), value, "ns/packet"))
    };
    CASES.iter().map(record).collect()
}

/// How long it takes to build a table of `cargo bench -p balance`, in milliseconds.
pub(crate) fn built(selection: &str, candidates: u32) -> anyhow::Result<Record> {
    let value = median(&format!("build/{selection}, {candidates} candidates"))? / 1e6;
    let case = format!("build a table, {selection}, {candidates} backends");
    Ok(plain("lb", case, value, "ms"))
}

fn plain(bench: &'static str, case: String, value: f64, unit: &'static str) -> Record {
    Record { bench, case, value, unit: unit.into(), baseline: None, ratio: None, goal: None }
}

fn median(case: &str) -> anyhow::Result<f64> {
    let path = command::target_directory()?.join("criterion").join(case).join("new/estimates.json");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("no result of criterion in {}", path.display()))?;
    let estimates: serde_json::Value = serde_json::from_str(&text)?;
    let median = &estimates["median"]["point_estimate"];
    median.as_f64().with_context(|| format!("no median in {}", path.display()))
}
