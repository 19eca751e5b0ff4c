//! The networks that packets seem to come from: a node, clients before it, backends behind it.

use crate::bpf::{self, Run};
use crate::harness::{self, Frames, Harness, Then};
use crate::packets::{Step, frames};
use crate::world::{Shape, World};
use anyhow::{Context as _, ensure};
use std::time::Duration;
use testkit::lab::{Host, Lab, Link};

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const CLIENTS: [&str; 2] = ["10.64.0.0/10", "fd79:6400::/32"];
const BACKENDS: [&str; 2] = ["10.80.0.0/16", "fd79:8000::/32"];
const NEAR: Cable = Cable {
    node: ["10.79.1.1/24", "fd79:1::1/64"],
    other: ["10.79.1.2/24", "fd79:1::2/64"],
    via: ["10.79.1.2", "fd79:1::2"],
};
const FAR: Cable = Cable {
    node: ["10.79.2.1/24", "fd79:2::1/64"],
    other: ["10.79.2.2/24", "fd79:2::2/64"],
    via: ["10.79.2.2", "fd79:2::2"],
};

struct Cable {
    node: [&'static str; 2],
    other: [&'static str; 2],
    via: [&'static str; 2],
}

/// A node between its neighbours.
pub(crate) struct Bed {
    pub(crate) node: Host,
    /// Where clients are, and backends too unless there are two arms.
    pub(crate) near: Host,
    /// Where backends are, and their link to the node.
    pub(crate) far: Option<(Host, Link)>,
    /// The clients' link to the node.
    pub(crate) link: Link,
    pub(crate) interface: u32,
    /// What frames from the clients' side begin with.
    pub(crate) ethernet: [u8; 12],
    verdict: u32,
}

impl Bed {
    /// Clients and backends are behind one link.
    pub(crate) fn one_arm() -> anyhow::Result<Self> {
        let mut bed = Self::near()?;
        bed.route(BACKENDS, NEAR.via)?;
        bed.verdict = harness::TRANSMIT.unsigned_abs();
        Ok(bed)
    }

    /// Clients are behind one link, backends behind another.
    pub(crate) fn two_arms() -> anyhow::Result<Self> {
        let mut bed = Self::near()?;
        let lab = Lab::new("bench")?;
        let far = lab.host("far")?;
        let link = lab.link(&far, &FAR.other, &bed.node, &FAR.node)?;
        bed.neighbour(&far, &link, FAR.via)?;
        bed.route(BACKENDS, FAR.via)?;
        bed.far = Some((far, link));
        bed.verdict = harness::REDIRECTED.unsigned_abs();
        Ok(bed)
    }

    fn near() -> anyhow::Result<Self> {
        let lab = Lab::new("bench")?;
        let (node, near) = (lab.host("node")?, lab.host("near")?);
        let link = lab.link(&near, &NEAR.other, &node, &NEAR.node)?;
        node.forwarding()?;
        let (interface, mac) = identity(&node, &link.right)?;
        let (_, neighbour) = identity(&near, &link.left)?;
        let mut ethernet = [0; 12];
        ethernet[..6].copy_from_slice(&mac);
        ethernet[6..].copy_from_slice(&neighbour);
        let bed = Self { node, near, far: None, link, interface, ethernet, verdict: 0 };
        bed.neighbour(&bed.near, &bed.link, NEAR.via)?;
        bed.route(CLIENTS, NEAR.via)?;
        Ok(bed)
    }

    fn route(&self, prefixes: [&str; 2], via: [&str; 2]) -> anyhow::Result<()> {
        for (prefix, via) in prefixes.into_iter().zip(via) {
            self.node.route(prefix, via)?;
        }
        Ok(())
    }

    /// A neighbour of the node that is never asked for.
    fn neighbour(&self, host: &Host, link: &Link, addresses: [&str; 2]) -> anyhow::Result<()> {
        let (_, mac) = identity(host, &link.left)?;
        let mac = mac.map(|octet| format!("{octet:02x}")).join(":");
        for address in addresses {
            let words = ["neigh", "replace", address, "lladdr", &mac, "nud", "permanent", "dev"];
            run(&self.node, "ip", &[&words[..], &[&link.right]].concat())?;
        }
        Ok(())
    }

    /// A node with all its sessions open, whose link runs the packet core: a veth link takes test
    /// runs in its name only once it runs a program.
    pub(crate) fn open(&self, shape: Shape) -> anyhow::Result<World> {
        let [a, b, c, d, e, f, ..] = self.ethernet;
        let mut world = World::new(shape, self.interface, [a, b, c, d, e, f])?;
        world.attach(&self.link.right, self.interface)?;
        self.pass(&world, &frames(&shape.keys(), self.ethernet, Step::Open), Step::Open)?;
        Ok(world)
    }

    /// Runs every frame once.
    pub(crate) fn pass(&self, world: &World, frames: &Frames, step: Step) -> anyhow::Result<()> {
        let harness = Harness::new(frames, Then::Program(world.table()?))?;
        let count = u32::try_from(frames.count())?;
        self.hit(world, &harness, frames, (step, count)).map(|_| ())
    }

    /// Nanoseconds a run, if every run was a hit.
    pub(crate) fn hit(
        &self,
        world: &World,
        harness: &Harness,
        frames: &Frames,
        (step, repeat): (Step, u32),
    ) -> anyhow::Result<f64> {
        let before = world.hits(step)?;
        let (time, verdict) = self.time(harness, frames, repeat)?;
        let hits = world.hits(step)? - before;
        // Test runs come by the clients' link, and answers leave by it.
        let onward =
            if step == Step::Reply { harness::TRANSMIT.unsigned_abs() } else { self.verdict };
        ensure!(
            hits == u64::from(repeat) && verdict == onward,
            "{hits} of {repeat} runs were hits, the last verdict was {verdict}; drops: {:?}",
            world.drops()
        );
        Ok(time)
    }

    /// Nanoseconds a run, and the last verdict.
    pub(crate) fn time(
        &self,
        harness: &Harness,
        frames: &Frames,
        repeat: u32,
    ) -> anyhow::Result<(f64, u32)> {
        let (program, frame) = (&harness.program, &frames.frame);
        let run = Run { program, frame, interface: self.interface, repeat };
        let (time, verdict) = run.time().context("test run")?;
        Ok((f64::from(time), verdict))
    }
}

/// Runs a program on a host to its end, and returns what it printed.
pub(crate) fn run(host: &Host, program: &str, words: &[&str]) -> anyhow::Result<String> {
    let mut process = host.spawn(program, words)?;
    let status = process.wait(PATIENCE).map_err(anyhow::Error::msg)?;
    let text = process.lines().join("\n");
    ensure!(status.success(), "{program} {}: {text}", words.join(" "));
    Ok(text)
}

/// An interface's index and Ethernet address.
pub(crate) fn identity(host: &Host, link: &str) -> anyhow::Result<(u32, [u8; 6])> {
    let text = run(host, "ip", &["-o", "link", "show", "dev", link])?;
    let index = text.split(':').next().context("no index")?.trim().parse()?;
    let words = text.split_whitespace().skip_while(|word| *word != "link/ether");
    let octets = words.skip(1).take(1).flat_map(|mac| mac.split(':'));
    let octets: Result<Vec<_>, _> = octets.map(|octet| u8::from_str_radix(octet, 16)).collect();
    let mac = octets?.try_into().map_err(|_| anyhow::anyhow!("{link} has no Ethernet address"))?;
    Ok((index, mac))
}

/// A program that does nothing but say so, in a table.
pub(crate) fn table_of_bare(action: i32) -> anyhow::Result<std::os::fd::OwnedFd> {
    Ok(bpf::table_of(&harness::bare(action)?)?)
}
