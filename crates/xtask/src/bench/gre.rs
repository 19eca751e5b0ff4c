//! gredist against the bare loop: CPU time of the forwarding thread per packet that reaches the
//! backend, hence packets a second on one core.
//!
//! ```text
//!   client (core 1) ── edge: gredist and the bare loop (core 0) ── backend: drops at ingress
//! ```
//! Both send to the same backends and run the whole time, each with a frontend of its own; the generator takes turns, so that
//! whatever else the machine does meets both alike. What a packet costs the process is read from
//! /proc/PID/task/TID/schedstat; the receiving side's softirq runs within it, as on the wire it would
//! not, equally for both. What gredist's health checks cost is measured apart.

use super::record::{Goal, Record, median};
use crate::command;
use anyhow::{Context as _, anyhow, bail};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::bed::wait_for_lines;
use testkit::lab::{Host, Lab};
use testkit::process::Process;
use testkit::wait;

const GREDIST: &str = "10.79.0.1";
const BARE: &str = "10.79.0.2";
const PACKETS: u64 = 100_000;
const GOAL: f64 = 0.9;
const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    client: Host,
    edge: Host,
    backend: Host,
}

#[derive(Clone, Copy)]
struct Case {
    size: u32,
    backends: u32,
    flows: u32,
}

/// All cases.
pub(crate) fn measure(rounds: usize) -> anyhow::Result<Vec<Record>> {
    let bench = Bench::new().context("the bench needs root")?;
    let mut records = Vec::new();
    for backends in [1, 1_000] {
        for flows in [10, 100_000] {
            for size in [64, 1_400] {
                let case = Case { size, backends, flows };
                records.extend(bench.run(case, rounds)?);
            }
        }
    }
    Ok(records)
}

impl Case {
    fn name(self) -> String {
        let Self { size, backends, flows } = self;
        format!("{size} bytes, {backends} backends, {flows} flows")
    }

    /// The IP packet has the case's size: 20 octets of IPv4 and 8 of GRE with a key go off. The
    /// least payload of the generator is 24 octets.
    fn payload(self) -> String {
        (self.size - 28).max(24).to_string()
    }
}

impl Bench {
    fn new() -> anyhow::Result<Self> {
        let lab = Lab::new("bench")?;
        let (client, edge) = (lab.host("client")?, lab.host("edge")?);
        let backend = lab.host("backend")?;
        lab.link(&client, &["10.79.1.2/24"], &edge, &["10.79.1.1/24"])?;
        let link = lab.link(&backend, &["10.79.2.2/24"], &edge, &["10.79.2.1/24"])?;
        client.route("10.79.0.0/24", "10.79.1.1")?;
        for frontend in [GREDIST, BARE] {
            edge.address("lo", &format!("{frontend}/32"))?;
        }
        // Every address of 10.80.0.0/16 is a backend: all are this one host, which answers pings
        // and drops GRE where it comes in.
        edge.route("10.80.0.0/16", "10.79.2.2")?;
        backend.local_route("10.80.0.0/16")?;
        backend.route("10.79.1.0/24", "10.79.2.1")?;
        let drop = format!(
            "table netdev bench {{\n chain in {{\n type filter hook ingress device \"{}\" priority 0; \
             policy accept;\n ip protocol gre counter name gre drop\n }}\n counter gre {{ }}\n}}\n",
            link.left
        );
        backend.nft(&drop).context("nft is needed: apt-get install nftables")?;
        Ok(Self { client, edge, backend })
    }

    fn run(&self, case: Case, rounds: usize) -> anyhow::Result<Vec<Record>> {
        eprint!("  {} ", case.name());
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("bench.conf");
        std::fs::write(&file, config(case.backends))?;
        let gredist = self.pinned(&self.edge, "gredist", &["-c", &file.to_string_lossy()])?;
        let addresses = addresses(case.backends);
        let bare_args: Vec<_> =
            [BARE].into_iter().chain(addresses.iter().map(String::as_str)).collect();
        let bare = self.pinned(&self.edge, "examples/bare", &bare_args)?;
        let up = usize::try_from(case.backends)?;
        wait_for_lines(&gredist, "backend came up", up).map_err(|error| anyhow!(error))?;
        wait_for_lines(&bare, "ready", 1).map_err(|error| anyhow!(error))?;
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let packets = thread(&gredist, "packets")?;
        let loop_thread = thread(&bare, "bare")?;
        self.cost(&packets, GREDIST, case)?;
        let memory = gredist.rss_bytes()?;
        for _ in 0..rounds {
            eprint!(".");
            let our = 1e9 / self.cost(&packets, GREDIST, case)?;
            let their = 1e9 / self.cost(&loop_thread, BARE, case)?;
            ours.push(our);
            theirs.push(their);
            ratios.push(our / their);
        }
        let checks = self.checks(&gredist)?;
        let grown = gredist.rss_bytes()?.saturating_sub(memory);
        eprintln!();
        if grown > 1 << 20 {
            bail!("memory is not flat: {} grew by {grown} bytes", case.name());
        }
        let record = Record {
            bench: "gredist",
            case: case.name(),
            value: median(ours),
            unit: "packets/s/core".into(),
            baseline: Some(median(theirs)),
            ratio: Some(median(ratios)),
            goal: Some(Goal::RatioAtLeast(GOAL)),
        };
        let memory = Record {
            case: format!("{}: resident", case.name()),
            value: memory as f64 / f64::from(1 << 20),
            unit: "MiB".into(),
            baseline: None,
            ratio: None,
            goal: None,
            ..record.clone()
        };
        let checks = Record {
            case: format!("{}: health checks", case.name()),
            value: checks,
            unit: "% of a core".into(),
            ..memory.clone()
        };
        Ok(vec![record, memory, checks])
    }

    /// What the control side costs while no packet comes, in percent of a core.
    fn checks(&self, gredist: &Process) -> anyhow::Result<f64> {
        let control = thread(gredist, "gredist")?;
        let (before, start) = (cpu_ns(&control)?, now());
        let span = Duration::from_secs(4);
        wait::until(span * 2, "two rounds of checks", || start.elapsed() >= span)
            .map_err(|error| anyhow!(error))?;
        Ok((cpu_ns(&control)? - before) as f64 / start.elapsed().as_nanos() as f64 * 100.0)
    }

    /// Nanoseconds of CPU that the thread spent per packet of one burst.
    fn cost(&self, thread: &Path, frontend: &str, case: Case) -> anyhow::Result<f64> {
        let (cpu, received) = (cpu_ns(thread)?, self.received()?);
        let (count, flows, payload) = (PACKETS.to_string(), case.flows.to_string(), case.payload());
        let args = [frontend, "--key", "1", "--flows", &flows, "--count", &count];
        let options = ["--rate", "0", "--size", &payload];
        let mut sender =
            self.pinned_to(1, &self.client, "gre-send", &[&args[..], &options].concat())?;
        let status = sender.wait(PATIENCE).map_err(|error| anyhow!(error))?;
        if !status.success() {
            bail!("gre-send failed: {}", sender.lines().join("; "));
        }
        // The burst is over when the backend's counter stands still.
        let mut last = self.received()?;
        let mut still = 0;
        wait::until(PATIENCE, "the burst to pass", || {
            let now = self.received().unwrap_or(last);
            still = if now == last { still + 1 } else { 0 };
            last = now;
            still > 4
        })
        .map_err(|error| anyhow!(error))?;
        let forwarded = last - received;
        if forwarded < PACKETS / 10 {
            bail!("only {forwarded} of {PACKETS} packets passed in {}", case.name());
        }
        Ok((cpu_ns(thread)? - cpu) as f64 / forwarded as f64)
    }

    /// GRE packets that have reached the backend.
    fn received(&self) -> anyhow::Result<u64> {
        let list = ["list", "counter", "netdev", "bench", "gre"];
        let mut nft = self.backend.spawn("nft", list)?;
        nft.wait(PATIENCE).map_err(|error| anyhow!(error))?;
        let lines = nft.lines();
        let line = lines.iter().find_map(|line| line.trim().strip_prefix("packets "));
        let count = line.and_then(|line| line.split_whitespace().next());
        count.context("nft shows no counter")?.parse().context("nft's counter")
    }

    fn pinned(&self, host: &Host, program: &str, args: &[&str]) -> anyhow::Result<Process> {
        self.pinned_to(0, host, program, args)
    }

    fn pinned_to(
        &self,
        core: u32,
        host: &Host,
        program: &str,
        args: &[&str],
    ) -> anyhow::Result<Process> {
        let path = command::target_directory()?.join("release").join(program);
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string()]).arg(path).args(args);
        Ok(host.spawn_command(&mut command)?)
    }
}

fn config(backends: u32) -> String {
    let mut text = format!("frontend={GREDIST}\n");
    for address in addresses(backends) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "backend={address}");
    }
    text
}

fn addresses(backends: u32) -> Vec<String> {
    (1..=backends).map(|n| format!("10.80.{}.{}", n / 250, n % 250 + 1)).collect()
}

/// The directory in /proc of a process's thread, by the thread's name.
fn thread(process: &Process, name: &str) -> anyhow::Result<PathBuf> {
    for task in std::fs::read_dir(format!("/proc/{}/task", process.id()))? {
        let path = task?.path();
        if std::fs::read_to_string(path.join("comm"))?.trim() == name {
            return Ok(path);
        }
    }
    bail!("no thread is called {name}")
}

/// CPU time of a thread, in nanoseconds.
fn cpu_ns(thread: &Path) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(thread.join("schedstat"))?;
    Ok(text.split_whitespace().next().unwrap_or("0").parse()?)
}

#[expect(clippy::disallowed_methods, reason = "a bench is a shell: it reads the clock")]
fn now() -> Instant {
    Instant::now()
}
