//! How often each stage ended with each verdict, and which of these cannot be.

use datapath::lb::DropReason::{
    ErrorTruncated, ErrorUnknown, ForwardingDisabled, Fragment, HalfOpenExhausted, IndexFull,
    Internal, IpChecksum, IpExtensions, IpMalformed, IpTruncated, NoBackend, NoHeadroom,
    NoNeighbour, NoService, NoSession, RouteBlackhole, RouteNotForwarded, RouteProhibited,
    RouteUnreachable, RouteUnsupported, SessionRace, SessionReset, SessionsExhausted,
    SnatExhausted, SourceInvalid, TooBig, TransportTruncated, TtlExpired,
};
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
        Verdict::Drop(reason) => dropped(reason),
        Verdict::Answer(reason) => answered(reason),
    }
}

fn dropped(reason: DropReason) -> Outcome {
    3 + reason.index()
}

fn answered(reason: DropReason) -> Outcome {
    3 + DropReason::ALL.len() + reason.index()
}

/// The reason of an outcome that has one.
fn reason(outcome: Outcome) -> Option<DropReason> {
    let index = outcome.checked_sub(3)?;
    Some(DropReason::ALL[index % DropReason::ALL.len()])
}

fn name(outcome: Outcome) -> String {
    match (outcome, reason(outcome)) {
        (PASS, _) => "pass".to_owned(),
        (TRANSMIT, _) => "transmit".to_owned(),
        (_, None) => "redirect".to_owned(),
        (_, Some(reason)) if outcome == dropped(reason) => format!("drop {}", reason.name()),
        (_, Some(reason)) => format!("answer {}", reason.name()),
    }
}

/// What a route can say, but for a neighbour that is not known.
const ROUTES: [DropReason; 6] = [
    RouteBlackhole,
    RouteUnreachable,
    RouteProhibited,
    RouteNotForwarded,
    ForwardingDisabled,
    RouteUnsupported,
];

/// Where a stage can end.
fn reachable(stage: Stage) -> Vec<Outcome> {
    let sent = [PASS, TRANSMIT, REDIRECT];
    let (verdicts, drops): (&[Outcome], &[DropReason]) = match stage {
        Stage::Enter => (
            &sent,
            &[IpTruncated, IpMalformed, IpExtensions, Fragment, TransportTruncated, NoHeadroom],
        ),
        Stage::Admit => (
            &sent,
            &[
                SourceInvalid,
                NoBackend,
                NoSession,
                SessionsExhausted,
                HalfOpenExhausted,
                NoNeighbour,
                NoHeadroom,
            ],
        ),
        Stage::Claim => (&sent[1..], &[IndexFull, SnatExhausted, NoHeadroom]),
        Stage::Answer => (&sent[..2], &[NoService]),
        Stage::Error => (&sent, &[ErrorTruncated, ErrorUnknown, TtlExpired, TooBig, NoHeadroom]),
        Stage::Clamp => (&sent[1..], &[NoHeadroom]),
        Stage::Refuse => (&[], &[TtlExpired, TooBig, NoService, SessionReset]),
    };
    let routes: &[DropReason] = match stage {
        Stage::Enter | Stage::Admit | Stage::Error | Stage::Clamp => &ROUTES,
        Stage::Claim | Stage::Answer | Stage::Refuse => &[],
    };
    let answers: &[DropReason] = match stage {
        Stage::Refuse => drops,
        _ => &[],
    };
    let drops = drops.iter().chain(routes).map(|reason| dropped(*reason));
    let answers = answers.iter().map(|reason| answered(*reason));
    verdicts.iter().copied().chain(drops).chain(answers).collect()
}

/// Why the stage cannot end so.
fn why_not(stage: Stage, outcome: Outcome) -> String {
    match (stage, reason(outcome)) {
        (_, Some(IpChecksum)) => "header checksums are the receiver's".to_owned(),
        (_, Some(SessionRace)) => "needs two processors at one moment".to_owned(),
        (_, Some(Internal)) => "needs tables that contradict each other".to_owned(),
        (_, Some(reason)) if outcome == answered(reason) && !told(reason) => {
            "its source is not told".to_owned()
        }
        (Stage::Enter | Stage::Error | Stage::Clamp, Some(NoNeighbour)) => {
            "a session's ways were known once".to_owned()
        }
        _ => {
            let others = Stage::ALL.iter().filter(|stage| reachable(**stage).contains(&outcome));
            let others: Vec<&str> = others.map(|stage| stage.name()).collect();
            if others.is_empty() { String::new() } else { format!("only in {}", others.join(", ")) }
        }
    }
}

/// Whether a packet's source is told of the reason.
fn told(reason: DropReason) -> bool {
    reachable(Stage::Refuse).contains(&answered(reason))
}

impl Cells {
    pub(crate) fn count(&mut self, stage: Stage, verdict: Verdict) {
        *self.0.entry((stage, outcome(verdict))).or_default() += 1;
    }

    /// Prints the table, and returns what is wrong with it.
    pub(crate) fn report(&self) -> Vec<String> {
        let mut faults = Vec::new();
        println!("{:8} {:26} {:>9}", "stage", "verdict", "frames");
        let outcomes = 3 + 2 * DropReason::ALL.len();
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
            let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for outcome in (0..outcomes).filter(|outcome| !reachable.contains(outcome)) {
                let why = why_not(*stage, outcome);
                if why.is_empty() || self.0.contains_key(&(*stage, outcome)) {
                    faults.push(format!("{} {}: {why}, yet it is", stage.name(), name(outcome)));
                }
                reasons.entry(why).or_default().push(name(outcome));
            }
            for (why, outcomes) in reasons {
                println!("{:8} {why}: {}", stage.name(), outcomes.join(", "));
            }
        }
        faults
    }
}
