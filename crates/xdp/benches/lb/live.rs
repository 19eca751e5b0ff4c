//! Frames on their way from one veth link to another: the packet core beside a program that does
//! nothing but redirect.
//!
//! ```text
//!   near: generator (core 1) ── node: program under test (core 0) ── far: counts and drops (core 0)
//! ```
//! The threads that poll both links are bound to one core; what they use of it, a frame that
//! arrives, is the cost. The generator makes more frames than that core can take. It hands the
//! driver the same pages over and over, as the receivers left them: the harness puts back what the
//! core changed.

use crate::bed::{self, Bed};
use crate::bpf::{self, Run};
use crate::cases::NAT;
use crate::harness::{self, Harness, Then, pollers};
use crate::packets::{Step, frames};
use crate::world::Shape;
use crate::{Figure, Request, median};
use anyhow::{Context as _, ensure};
use std::os::fd::OwnedFd;
use testkit::wait;

/// Frames of one measurement.
const FRAMES: u32 = 2 << 20;
const FLOWS: [u32; 2] = [256, 65_536];
/// The least share of a plain redirect's rate.
const GOAL: f64 = 0.85;

/// All cases that are asked for.
pub(crate) fn measure(request: &Request) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for flows in FLOWS {
        let name = format!("live forward, two arms, {flows} flows");
        if request.wants(&name) {
            figures.push(forward(name, Shape { flows, ..NAT }, request.rounds)?);
        }
    }
    Ok(figures)
}

fn forward(case: String, shape: Shape, rounds: usize) -> anyhow::Result<Figure> {
    eprint!("  {case} ");
    let bed = Bed::two_arms()?;
    let (far, far_link) = bed.far.as_ref().context("two arms have a far side")?;
    let (drop, count) = harness::sink()?;
    let (sink, _) = bed::identity(far, &far_link.left)?;
    let _sink = far.run(|| bpf::attach(&drop, sink))?;
    let (out, _) = bed::identity(&bed.node, &far_link.right)?;
    let redirect = harness::redirect(out)?;
    let mut world = bed.node.run(|| bed.open(shape))?;
    world.detach();
    let table = world.table()?;
    let core = harness::door(&table)?;
    let list = frames(&shape.keys(), bed.ethernet, Step::Forward);
    let (port, _) = bed::identity(&bed.near, &bed.link.left)?;
    let generator = Harness::new(&list, Then::Redirect(port))?;
    let link = bed.node.run(|| bpf::attach(&core, bed.interface))?;
    threaded(&bed.node, &bed.link.right)?;
    let threads = pollers(&bed.link.right)?;
    ensure!(!threads.is_empty(), "the link is not polled by a thread of its own");
    for thread in &threads {
        bpf::pin(*thread, 0)?;
    }
    let arrived = || -> anyhow::Result<u64> {
        let octets = count.load()?;
        Ok(octets.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)))
    };
    let cost = |program: &OwnedFd| -> anyhow::Result<f64> {
        bpf::exchange(&link, program)?;
        let (cpu, before) = (cpu_ns(&threads)?, arrived()?);
        bed.near.run(|| {
            bpf::pin(0, 1)?;
            let (program, frame) = (&generator.program, &list.frame);
            Run { program, frame, interface: 0, repeat: FRAMES }.live()
        })?;
        let mut last = 0;
        wait::until(bed::PATIENCE, "the last frames to arrive", || {
            let now = arrived().unwrap_or(0);
            std::mem::replace(&mut last, now) == now
        })
        .map_err(anyhow::Error::msg)?;
        let frames = arrived()? - before;
        ensure!(
            frames > u64::from(FRAMES / 10),
            "only {frames} of {FRAMES} frames arrived; drops: {:?}",
            world.drops()
        );
        Ok((cpu_ns(&threads)? - cpu) as f64 / frames as f64)
    };
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (our, their) = (1e9 / cost(&core)?, 1e9 / cost(&redirect)?);
        if round > 0 {
            eprint!(".");
            ours.push(our);
            theirs.push(their);
            ratios.push(our / their);
        }
    }
    let ratio = median(ratios);
    eprintln!(" {ratio:.2}");
    Ok(Figure {
        case,
        value: median(ours),
        unit: "packets/s/core",
        baseline: Some(median(theirs)),
        ratio: Some(ratio),
        at_most: None,
        at_least: Some(GOAL),
    })
}

/// Gives a link a thread that polls it, which can be bound to a core and whose time is counted.
fn threaded(host: &testkit::lab::Host, link: &str) -> anyhow::Result<()> {
    let script = format!("mount -t sysfs none /sys && echo 1 > /sys/class/net/{link}/threaded");
    bed::run(host, "unshare", &["--mount", "sh", "-c", &script]).map(|_| ())
}

/// What these threads have used of their cores.
fn cpu_ns(threads: &[i32]) -> anyhow::Result<u64> {
    let mut sum = 0;
    for thread in threads {
        let text = std::fs::read_to_string(format!("/proc/{thread}/schedstat"))?;
        sum += text.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(sum)
}
