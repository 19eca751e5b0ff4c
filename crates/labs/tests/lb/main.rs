//! lb-node end to end: the real binary in native XDP between real network stacks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod datagrams;
mod flat;
mod health;
mod http;
mod refused;

use labs::lb::bed::{Bed, Shape};
use labs::programs::{directory, skip};

/// A bed for a test, or `None` with the reason printed.
fn bed(name: &str, shape: Shape, backends: usize) -> Option<Bed> {
    if !directory().join("lb-node").exists() {
        skip("the release build is missing: cargo build --release, or use cargo xtask test");
        return None;
    }
    for (program, package) in PROGRAMS {
        if !labs::peers::have(program, package) {
            return None;
        }
    }
    match Bed::new(name, shape, backends) {
        Ok(bed) => Some(bed),
        Err(error) => {
            skip(&format!("no network namespaces or no XDP: {error}"));
            None
        }
    }
}

/// What every lab of this tier needs.
const PROGRAMS: [(&str, &str); 4] =
    [("ethtool", "ethtool"), ("nginx", "nginx-light"), ("curl", "curl"), ("tcpdump", "tcpdump")];
