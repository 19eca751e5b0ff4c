//! lb-node killed and started again: sessions, tables and attachments are pinned.

use crate::{bed, echo_address, echo_mapping, echoes};
use labs::lb::balancer::Balancer;
use labs::lb::bed::Shape;
use labs::lb::clients::{open, rounds};
use rustix::mount::{UnmountFlags, unmount};
use std::path::Path;
use tempfile::TempDir;

/// A directory for pins; what lb-node mounted there goes with it.
struct Pins(TempDir);

impl Pins {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _not_mounted = unmount(self.path(), UnmountFlags::DETACH);
    }
}

#[test]
fn connections_outlive_a_killed_lb_node_and_the_next_one_has_them() {
    let Some(bed) = bed("killed", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let pins = Pins::new();
    let config = format!("pins = \"{}\"\nsessions = 65536\n", pins.path().display());
    let check = "{ type: TCP, port: 7000, intervalMs: 200, timeoutMs: 200 }";
    let mapping = || echo_mapping(&bed, &[0, 1]).twice_nat().check(check);
    let mut balancer = Balancer::start_with(&bed, &config, &[mapping()]).unwrap();
    balancer.wait_backend("lb/echo", "backend1", true).unwrap();
    balancer.wait_backend("lb/echo", "backend2", true).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 100)).unwrap();
    for _ in 0..2 {
        balancer.kill().unwrap();
        // Nobody is there: open connections go on, and new ones are served.
        assert_eq!(bed.client.run(|| rounds(&mut all)), [] as [String; 0]);
        all.extend(bed.client.run(|| open(echo_address(&bed), 20)).unwrap());
        balancer.start_again().unwrap();
        assert_eq!(bed.client.run(|| rounds(&mut all)), [] as [String; 0]);
        all.extend(bed.client.run(|| open(echo_address(&bed), 20)).unwrap());
    }
    // It knows the sessions of its predecessors, and what was said before still holds.
    balancer.put(&[echo_mapping(&bed, &[0]).twice_nat().check(check)]).unwrap();
    assert_eq!(bed.client.run(|| rounds(&mut all)), [] as [String; 0]);
    assert_eq!(balancer.dropped("no_session"), 0, "{}", balancer.summary());
}

#[test]
fn l4_06_the_program_is_replaced_without_losing_a_packet() {
    let Some(bed) = bed("replaced", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let pins = Pins::new();
    let config = format!("pins = \"{}\"\nsessions = 65536\n", pins.path().display());
    let mappings = [echo_mapping(&bed, &[0, 1]).twice_nat()];
    let mut balancer = Balancer::start_with(&bed, &config, &mappings).unwrap();
    // One packet every 2 ms through the virtual address; none may be missing.
    let vip = bed.vip(labs::lb::bed::Family::V4, 10);
    let arguments = ["-i", "0.002", "-c", "1500", "-q", &vip];
    let mut ping = bed.client.spawn("ping", arguments).unwrap();
    for _ in 0..3 {
        balancer.restart().unwrap();
    }
    let status = ping.wait(std::time::Duration::from_secs(60)).unwrap();
    let said = ping.lines().join("\n");
    assert!(status.success() && said.contains("1500 received"), "{said}");
}
