//! What a packet costs in the packet core, by `BPF_PROG_TEST_RUN`, and how fast frames pass
//! between two veth links. `cargo xtask bench lb` runs it and makes a table of what it prints.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench ends where the kernel says no"
)]
#![allow(missing_docs, reason = "a bench")]

mod assembly;
mod bed;
mod bpf;
mod cases;
mod harness;
mod live;
mod packets;
mod world;

use serde::Serialize;
use std::process::ExitCode;

/// One figure.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) case: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) baseline: Option<f64>,
    pub(crate) ratio: Option<f64>,
    /// The most that the value may be.
    pub(crate) at_most: Option<f64>,
    /// The least that the ratio may be.
    pub(crate) at_least: Option<f64>,
}

/// The median; 0 of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// What to measure.
pub(crate) struct Request {
    pub(crate) rounds: usize,
    only: String,
}

impl Request {
    /// Whether a case of this name is asked for.
    pub(crate) fn wants(&self, case: &str) -> bool {
        case.contains(&self.only)
    }
}

/// The word behind this one in the command line.
fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn main() -> ExitCode {
    let rounds = argument("--rounds").and_then(|rounds| rounds.parse().ok()).unwrap_or(7);
    let request = Request { rounds, only: argument("--only").unwrap_or_default() };
    match measure(&request) {
        Ok(figures) => {
            for figure in figures {
                println!("{}", serde_json::to_string(&figure).unwrap());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(request: &Request) -> anyhow::Result<Vec<Figure>> {
    let mut figures = cases::measure(request)?;
    figures.extend(live::measure(request)?);
    Ok(figures)
}
