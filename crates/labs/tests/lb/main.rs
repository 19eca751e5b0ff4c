//! lb-node end to end: the real binary in native XDP between real network stacks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod beside;
mod changes;
mod datagrams;
mod flat;
mod health;
mod http;
mod interfaces;
mod packets;
mod ports;
mod refused;
mod resources;
mod restart;
mod stress;

use labs::lb::bed::{Bed, Family, Shape};
use labs::lb::mapping::Mapping;
use labs::programs::{directory, skip};
use std::net::SocketAddr;
use testkit::process::Process;

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

/// The usual mapping of IPv4: port 80 of the VIP to port 7000, where echoes are, of these backends.
fn echo_mapping(bed: &Bed, backends: &[usize]) -> Mapping {
    let mapping = Mapping::new("echo", &bed.vip(Family::V4, 10), "tcp", Some(80));
    backends.iter().fold(mapping, |mapping, number| {
        let name = format!("backend{}", number + 1);
        mapping.backend(&name, &bed.backend(Family::V4, *number), ", port: 7000")
    })
}

/// Where [`echo_mapping`] listens.
fn echo_address(bed: &Bed) -> SocketAddr {
    format!("{}:80", bed.vip(Family::V4, 10)).parse().unwrap()
}

/// An echo on every backend.
fn echoes(bed: &Bed) -> Vec<Process> {
    bed.backends.iter().map(|host| labs::lb::servers::echo(host, 7000).unwrap()).collect()
}

/// What every lab of this tier needs.
const PROGRAMS: [(&str, &str); 4] =
    [("ethtool", "ethtool"), ("nginx", "nginx-light"), ("curl", "curl"), ("tcpdump", "tcpdump")];
