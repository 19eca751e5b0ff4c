//! gredist end to end: the real binary between real network stacks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod affinity;
mod control;
mod errors;
mod families;
mod ipsec;
mod malformed;
mod ovs;
mod pressure;

use labs::programs::{directory, program, skip};
use testkit::bed::{Bed, SinkReport, sink_report};
use testkit::process::Process;

/// A bed for a test, or `None` with the reason printed.
fn bed(name: &str, backends: usize) -> Option<Bed> {
    if !directory().join("gredist").exists() {
        skip("the release build is missing: cargo build --release, or use cargo xtask test");
        return None;
    }
    match Bed::new(name, backends, program) {
        Ok(bed) => Some(bed),
        Err(error) => {
            skip(&format!("no network namespaces: {error}"));
            None
        }
    }
}

fn reports(sinks: &mut [Process]) -> Vec<SinkReport> {
    sinks.iter_mut().map(|sink| sink_report(sink).unwrap()).collect()
}

/// Packets of all reports.
fn packets(reports: &[SinkReport]) -> u64 {
    reports.iter().map(|report| report.packets).sum()
}
