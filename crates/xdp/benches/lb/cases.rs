//! Nanoseconds a packet, net of the harness: the packet core and a program that only sends the
//! frame back take turns in the same harness.

use crate::bed::{Bed, table_of_bare};
use crate::bpf;
use crate::harness::{self, Frames, Harness, Then};
use crate::packets::{Step, frames};
use crate::world::{Shape, World};
use crate::{Figure, Request, median};
use anyhow::Context as _;
use balance::hash::hash;
use datapath::lb::layout::FlowKey;
use wire::{Family, protocol};

/// Runs of one measurement; a multiple of every number of flows.
const RUNS: u32 = 1 << 20;
/// New sessions of one measurement: half of the table.
const NEW: u32 = 1 << 18;
const FLOWS: [u32; 3] = [1, 65_536, 524_288];
/// A hit of a session, of one flow and of 65,536, and a new session: nanoseconds at most.
const HIT: f64 = 75.0;
const HIT_OF_MANY: f64 = 190.0;
const NEW_SESSION: f64 = 250.0;

pub(crate) const NAT: Shape = Shape {
    family: Family::V4,
    protocol: protocol::TCP,
    twice: false,
    vips: 1,
    backends: 2,
    flows: 1,
};
const TWICE: Shape = Shape { twice: true, ..NAT };
const ECHO: Shape = Shape { protocol: protocol::ICMP, ..NAT };
const NAT_V6: Shape = Shape { family: Family::V6, ..NAT };
const LARGE: Shape = Shape { vips: 512, backends: 4_096, ..NAT };

/// One measurement.
struct Case<'a> {
    name: String,
    frames: &'a Frames,
    step: Step,
    runs: u32,
    at_most: Option<f64>,
}

/// All cases that are asked for.
pub(crate) fn measure(request: &Request) -> anyhow::Result<Vec<Figure>> {
    let bed = Bed::one_arm().context("the bench needs root")?;
    let mut figures = Vec::new();
    for (name, shape) in [
        ("NAT", NAT),
        ("twice-NAT", TWICE),
        ("ICMP echo", ECHO),
        ("NAT, IPv6", NAT_V6),
        ("NAT, 512 VIPs, 4096 backends", LARGE),
    ] {
        for flows in FLOWS {
            figures.extend(known(&bed, name, Shape { flows, ..shape }, request)?);
        }
    }
    figures.extend(known(&Bed::two_arms()?, "NAT, two arms", NAT, request)?);
    for (name, shape) in [
        ("NAT, new session", NAT),
        ("twice-NAT, new session", TWICE),
        ("NAT, IPv6, new session", NAT_V6),
        ("NAT, 512 VIPs, 4096 backends, new session", LARGE),
    ] {
        figures.extend(new_sessions(&bed, name, Shape { flows: NEW, ..shape }, request)?);
    }
    Ok(figures)
}

/// Packets of known sessions, both ways.
fn known(bed: &Bed, name: &str, shape: Shape, request: &Request) -> anyhow::Result<Vec<Figure>> {
    let plural = if shape.flows == 1 { "" } else { "s" };
    let steps = [("forward", Step::Forward), ("reply", Step::Reply)];
    let named =
        steps.map(|(way, step)| (format!("{name}, {way}, {} flow{plural}", shape.flows), step));
    if !named.iter().any(|(name, _)| request.wants(name)) {
        return Ok(Vec::new());
    }
    let at_most = match (shape.protocol, shape.family, shape.flows) {
        (protocol::TCP, Family::V4, 1) => Some(HIT),
        (protocol::TCP, Family::V4, 65_536) => Some(HIT_OF_MANY),
        _ => None,
    };
    bed.node.run(|| {
        bpf::pin(0, 1)?;
        let world = bed.open(shape)?;
        let replies = frames(&scattered(&world.replies()), bed.ethernet, Step::Reply);
        let forward = frames(&scattered(&shape.keys()), bed.ethernet, Step::Forward);
        // The connections are open once the client has answered the backend's answer.
        bed.pass(&world, &replies, Step::Reply)?;
        bed.pass(&world, &forward, Step::Forward)?;
        let mut figures = Vec::new();
        for (name, step) in named.into_iter().filter(|(name, _)| request.wants(name)) {
            let frames = if step == Step::Reply { &replies } else { &forward };
            let case = Case { name, frames, step, runs: RUNS, at_most };
            figures.push(compare(bed, &world, case, request.rounds)?);
        }
        Ok(figures)
    })
}

fn new_sessions(
    bed: &Bed,
    name: &str,
    shape: Shape,
    request: &Request,
) -> anyhow::Result<Option<Figure>> {
    if !request.wants(name) {
        return Ok(None);
    }
    bed.node.run(|| {
        bpf::pin(0, 1)?;
        let world = bed.open(shape)?;
        let frames = &frames(&shape.keys(), bed.ethernet, Step::Open);
        let at_most = (shape.family == Family::V4).then_some(NEW_SESSION);
        let case = Case { name: name.to_owned(), frames, step: Step::Open, runs: NEW, at_most };
        compare(bed, &world, case, request.rounds).map(Some)
    })
}

fn compare(bed: &Bed, world: &World, case: Case<'_>, rounds: usize) -> anyhow::Result<Figure> {
    let Case { name, frames, step, runs, at_most } = case;
    eprint!("  {name} ");
    let core = Harness::new(frames, Then::Program(world.table()?))?;
    let bare = Harness::new(frames, Then::Program(table_of_bare(harness::TRANSMIT)?))?;
    let (mut net, mut floor, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        if step == Step::Open {
            world.forget();
        }
        core.restart()?;
        bare.restart()?;
        let ours = bed.hit(world, &core, frames, (step, runs))?;
        let (theirs, _) = bed.time(&bare, frames, runs)?;
        // The first round warms the caches.
        if round > 0 {
            eprint!(".");
            net.push(ours - theirs);
            floor.push(theirs);
            ratios.push(ours / theirs);
        }
    }
    let value = median(net);
    eprintln!(" {value:.0} ns");
    Ok(Figure {
        case: name,
        value,
        unit: "ns/packet",
        baseline: Some(median(floor)),
        ratio: Some(median(ratios)),
        at_most,
        at_least: None,
    })
}

/// The flows in an order that is neither the sessions' nor a regular one.
fn scattered(keys: &[FlowKey]) -> Vec<FlowKey> {
    let mut order: Vec<_> = (0u64..).zip(keys).map(|(at, key)| (hash(0, [at]), *key)).collect();
    order.sort_unstable_by_key(|(place, _)| *place);
    order.into_iter().map(|(_, key)| key).collect()
}
