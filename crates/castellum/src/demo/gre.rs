//! GRE tunnels over three backends, in all four pairs of families; one backend fails and returns.

use super::report::{Report, Scenario};
use super::{program, progress};
use anyhow::{Context as _, anyhow};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;
use testkit::bed::{Bed, Families, finish_sender, sink_report, wait_for_lines};
use testkit::process::Process;

const BACKENDS: usize = 3;
/// The backend that fails.
const VICTIM: usize = 1;
/// Fast checks: the demonstration should not bore.
const CHECKS: &str = "check_interval=100ms\ncheck_timeout=100ms\n";

/// Which backend each flow was seen at.
type Map = HashMap<(String, Option<u32>), usize>;

pub(super) fn run(flows: u32, report: &mut Report) -> anyhow::Result<()> {
    progress("building the network: client, router, distributor, three backends");
    let bed = Bed::new("demo", BACKENDS, program)?;
    let directory = tempfile::tempdir()?;
    for families in Families::ALL {
        let name = families.name();
        let file = directory.path().join(format!("{}.conf", name.replace(' ', "-")));
        std::fs::write(&file, format!("{}{CHECKS}", families.config(BACKENDS)))?;
        scenario(&bed, families, &file, flows, report).with_context(|| name.to_owned())?;
    }
    Ok(())
}

fn scenario(
    bed: &Bed,
    families: Families,
    file: &Path,
    flows: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let name = families.name();
    progress(&format!("{name}: starting gredist and three backends"));
    let mut sinks = bed.answering_sinks(families)?;
    let gredist = bed.distributor(file)?;
    let wait = |text: &str, count| wait_for_lines(&gredist, text, count).map_err(|e| anyhow!(e));
    wait("backend came up", BACKENDS)?;

    progress(&format!("{name}: {flows} flows, all backends up"));
    let (all_up, sent, lost) = measure(bed, families, flows, &mut sinks)?;

    progress(&format!("{name}: cutting the second backend off under traffic"));
    let mut stream = bed.sender(families, &STREAM)?;
    let cut = now();
    bed.set_backend_link(VICTIM, false)?;
    wait("backend went down", 1)?;
    let seconds_to_remove = cut.elapsed().as_secs_f64();
    let streamed = finish_sender(&mut stream).map_err(|error| anyhow!(error))?;
    let lost_in_outage = streamed.sent - streamed.answered.unwrap_or(0);
    reports(&mut sinks)?;
    let (one_down, sent_down, lost_down) = measure(bed, families, flows, &mut sinks)?;

    progress(&format!("{name}: repairing it"));
    let repaired = now();
    bed.set_backend_link(VICTIM, true)?;
    wait("backend came up", BACKENDS + 1)?;
    let seconds_to_return = repaired.elapsed().as_secs_f64();
    let (back, sent_back, lost_back) = measure(bed, families, flows, &mut sinks)?;

    let moved = all_up
        .iter()
        .filter(|(flow, backend)| **backend != VICTIM && one_down.get(*flow) != Some(backend));
    let not_restored = all_up.iter().filter(|(flow, at)| back.get(*flow) != Some(at)).count();
    let scenario = Scenario {
        name,
        flows: all_up.len(),
        all_up: per_backend(&all_up),
        one_down: per_backend(&one_down),
        back: per_backend(&back),
        moved_without_reason: moved.count(),
        not_restored,
        sent_steady: sent + sent_down + sent_back,
        lost_steady: lost + lost_down + lost_back,
        lost_in_outage,
        seconds_to_remove,
        seconds_to_return,
    };
    claim(&scenario, flows, report);
    report.scenarios.push(scenario);
    Ok(())
}

fn claim(s: &Scenario, flows: u32, report: &mut Report) {
    let all = usize::try_from(flows).unwrap_or(usize::MAX);
    report.claim(s.name, format!("all {flows} flows arrive, each at one backend"), s.flows == all);
    report.claim(s.name, "every backend gets flows", s.all_up.iter().all(|flows| *flows > 0));
    let silent = s.one_down.get(VICTIM) == Some(&0);
    report.claim(s.name, "a backend that is down gets no flow", silent);
    report.claim(s.name, "no flow of another backend moves", s.moved_without_reason == 0);
    report.claim(s.name, "a backend that returns gets exactly its flows back", s.not_restored == 0);
    report.claim(s.name, "no packet is lost while nothing changes", s.lost_steady == 0);
}

/// Sends two packets a flow and looks where they arrive: the map, packets sent and lost.
fn measure(
    bed: &Bed,
    families: Families,
    flows: u32,
    sinks: &mut [Process],
) -> anyhow::Result<(Map, u64, u64)> {
    let (flow_count, count) = (flows.to_string(), (2 * flows).to_string());
    let args = ["--key", "1", "--flows", &flow_count, "--count", &count];
    let options = ["--rate", "20000", "--checksum", "--sequence", "--answers", "10s"];
    let sent = bed.send(families, &[args.as_slice(), &options].concat());
    let sent = sent.map_err(|error| anyhow!(error))?;
    let mut map = Map::new();
    for (backend, report) in reports(sinks)?.into_iter().enumerate() {
        for flow in report.flows {
            if let Some(other) = map.insert((flow.source.clone(), flow.key), backend) {
                return Err(anyhow!("flow {flow:?} is at two backends, {other} and {backend}"));
            }
        }
    }
    Ok((map, sent.sent, sent.sent - sent.answered.unwrap_or(0)))
}

/// A stream through the outage: one second, long enough for the checks to find out.
const STREAM: [&str; 10] =
    ["--key", "1", "--flows", "100", "--count", "2000", "--rate", "2000", "--answers", "300ms"];

fn reports(sinks: &mut [Process]) -> anyhow::Result<Vec<testkit::bed::SinkReport>> {
    sinks.iter_mut().map(|sink| sink_report(sink).map_err(|error| anyhow!(error))).collect()
}

fn per_backend(map: &Map) -> Vec<usize> {
    let count = |backend| map.values().filter(|at| **at == backend).count();
    (0..BACKENDS).map(count).collect()
}

#[expect(clippy::disallowed_methods, reason = "the demonstration is a shell: it reads the clock")]
fn now() -> Instant {
    Instant::now()
}
