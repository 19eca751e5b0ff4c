//! How often each stage ended with each verdict, and which of these cannot be.

use datapath::lb::{DropReason, Stage, Verdict};
use std::collections::BTreeMap;

/// Frames that every cell which can be reached must have seen.
pub(crate) const LEAST: u64 = 1000;

/// A verdict without its interface: 0 pass, 1 transmit, 2 redirect, then the reasons.
type Outcome = usize;

const PASS: Outcome = 0;
const TRANSMIT: Outcome = 1;
const REDIRECT: Outcome = 2;

/// The counts.
#[derive(Default)]
pub(crate) struct Cells(BTreeMap<(Stage, Outcome), u64>);

fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Pass => PASS,
        Verdict::Transmit => TRANSMIT,
        Verdict::Redirect(_) => REDIRECT,
        Verdict::Drop(reason) => 3 + reason.index(),
    }
}

fn name(outcome: Outcome) -> String {
    match outcome {
        PASS => "pass".to_owned(),
        TRANSMIT => "transmit".to_owned(),
        REDIRECT => "redirect".to_owned(),
        _ => format!("drop {}", DropReason::ALL[outcome - 3].name()),
    }
}

/// Where a stage can end.
fn reachable(stage: Stage) -> Vec<Outcome> {
    use DropReason::{
        ForwardingDisabled, Fragment, HalfOpenExhausted, IndexFull, IpExtensions, IpMalformed,
        IpTruncated, NoBackend, NoHeadroom, NoNeighbour, NoService, NoSession, RouteBlackhole,
        RouteNotForwarded, RouteProhibited, RouteUnreachable, RouteUnsupported, SessionsExhausted,
        SnatExhausted, SourceInvalid, TooBig, TransportTruncated, TtlExpired,
    };
    let routes = [
        RouteBlackhole,
        RouteUnreachable,
        RouteProhibited,
        RouteNotForwarded,
        ForwardingDisabled,
        RouteUnsupported,
    ];
    let (verdicts, reasons): (&[Outcome], Vec<DropReason>) = match stage {
        Stage::Enter => {
            let own = [
                IpTruncated,
                IpMalformed,
                IpExtensions,
                Fragment,
                TransportTruncated,
                TtlExpired,
                TooBig,
                NoHeadroom,
            ];
            (&[PASS, TRANSMIT, REDIRECT], [&own[..], &routes[..]].concat())
        }
        Stage::Admit => {
            let own = [
                SourceInvalid,
                TtlExpired,
                TooBig,
                NoService,
                NoBackend,
                NoSession,
                SessionsExhausted,
                HalfOpenExhausted,
                NoNeighbour,
            ];
            (&[PASS], [&own[..], &routes[..]].concat())
        }
        Stage::Claim => (&[], vec![IndexFull, SnatExhausted]),
        Stage::Answer => (&[PASS, TRANSMIT], vec![NoService]),
    };
    let reasons = reasons.into_iter().map(|reason| 3 + reason.index());
    verdicts.iter().copied().chain(reasons).collect()
}

/// Why the stage cannot end so.
fn why_not(stage: Stage, outcome: Outcome) -> String {
    let reason = outcome.checked_sub(3).map(|index| DropReason::ALL[index]);
    match (stage, reason) {
        (_, Some(DropReason::IpChecksum)) => "header checksums are the receiver's".to_owned(),
        (_, Some(DropReason::ErrorTruncated | DropReason::ErrorUnknown)) => {
            "no stage reads ICMP errors".to_owned()
        }
        (_, Some(DropReason::SessionRace)) => "needs two processors at one moment".to_owned(),
        (_, Some(DropReason::Internal)) => "needs tables that contradict each other".to_owned(),
        (Stage::Enter, Some(DropReason::NoNeighbour)) => {
            "a session's ways were known once".to_owned()
        }
        _ => {
            let others = Stage::ALL.iter().filter(|stage| reachable(**stage).contains(&outcome));
            let others: Vec<&str> = others.map(|stage| stage.name()).collect();
            if others.is_empty() { String::new() } else { format!("only in {}", others.join(", ")) }
        }
    }
}

impl Cells {
    pub(crate) fn count(&mut self, stage: Stage, verdict: Verdict) {
        *self.0.entry((stage, outcome(verdict))).or_default() += 1;
    }

    /// Prints the table, and returns what is wrong with it.
    pub(crate) fn report(&self) -> Vec<String> {
        let mut faults = Vec::new();
        println!("{:8} {:26} {:>9}", "stage", "verdict", "frames");
        let outcomes = 3 + DropReason::ALL.len();
        for stage in Stage::ALL {
            for outcome in reachable(*stage) {
                let count = self.0.get(&(*stage, outcome)).copied().unwrap_or(0);
                println!("{:8} {:26} {count:9}", stage.name(), name(outcome));
                if count < LEAST {
                    faults.push(format!("{} {}: {count} frames", stage.name(), name(outcome)));
                }
            }
        }
        println!("not reachable:");
        for stage in Stage::ALL {
            let reachable = reachable(*stage);
            for outcome in (0..outcomes).filter(|outcome| !reachable.contains(outcome)) {
                let why = why_not(*stage, outcome);
                println!("{:8} {:26} {why}", stage.name(), name(outcome));
                if why.is_empty() || self.0.contains_key(&(*stage, outcome)) {
                    faults.push(format!("{} {}: {why}, yet it is", stage.name(), name(outcome)));
                }
            }
        }
        faults
    }
}
