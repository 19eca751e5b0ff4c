//! Reads what criterion measured: its medians lie in files.

use super::record::Record;
use crate::command;
use anyhow::Context as _;

/// Cases of `cargo bench -p datapath`, by criterion's directory names.
const CASES: [&str; 3] = ["parse and select", "forward, one family", "forward, IPv4 to IPv6"];

/// The medians, in nanoseconds a packet.
pub(crate) fn records() -> anyhow::Result<Vec<Record>> {
    CASES.iter().map(|case| record(case)).collect()
}

fn record(case: &str) -> anyhow::Result<Record> {
    let path = command::target_directory()?.join("criterion").join(case).join("new/estimates.json");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("no result of criterion in {}", path.display()))?;
    let estimates: serde_json::Value = serde_json::from_str(&text)?;
    let median = &estimates["median"]["point_estimate"];
    Ok(Record {
        bench: "datapath",
        case: case.to_owned(),
        value: median.as_f64().with_context(|| format!("no median in {}", path.display()))?,
        unit: "ns/packet",
        baseline: None,
        ratio: None,
        goal: None,
    })
}
