//! The per-backend machine: rise, fall, and the schedule of its own probes.
//!
//! ```text
//!              rise successes in a row
//!   Unproven ───────────────────────────> Up
//!      │                                 │  ▲
//!      │ fall failures      fall failures│  │ rise successes
//!      │      in a row          in a row │  │ in a row
//!      │                                 ▼  │
//!      └───────────────────────────────> Down
//! ```
//!
//! Probes start on a grid of `interval`, so that the schedule does not drift; slots missed in a
//! stall are skipped, never caught up. A result counts while its probe is outstanding, and only
//! `handle_timeout` gives a probe up: a shell that reads its sockets before it fires its timers
//! does not hold its own stall against the backends.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use crate::Policy;

/// What is known about a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not enough results yet. Takes no traffic.
    Unproven,
    /// Takes traffic.
    Up,
    /// Takes no traffic.
    Down,
}

/// Names one probe of one machine; never used twice by that machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(pub u64);

/// Why a probe failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No answer within the policy's timeout.
    Timeout,
    /// The probe could not be sent, or nothing came back; the text is the shell's.
    Error(String),
    /// The backend answered, and not as it should: a refusal, a reset, a wrong status. The text is
    /// the shell's.
    Answer(String),
}

impl Cause {
    /// Whether the backend gave an answer of any kind. A network that is cut gives none.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Timeout | Self::Error(_) => false,
            Self::Answer(_) => true,
        }
    }
}

/// One change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state that was left.
    pub from: State,
    /// The state that was entered, never equal to `from`.
    pub to: State,
    /// The last failure's cause when `to` is `Down`, else `None`.
    pub cause: Option<Cause>,
}

/// What the shell must do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a probe and report its result under this name.
    Probe(ProbeId),
    /// The backend's state changed: tell whoever builds the next snapshot.
    Changed(Transition),
}

/// The health of one backend.
///
/// After every `handle_*` and `set_policy`, take actions until `poll_action` is empty (one input
/// causes at most two) and arm a timer for `poll_timeout`.
#[derive(Clone, Debug)]
pub struct Machine {
    policy: Policy,
    state: State,
    since: Option<Instant>,
    next_probe: Instant,
    outstanding: Option<Outstanding>,
    next_id: u64,
    successes: u32,
    failures: u32,
    last_cause: Option<Cause>,
    actions: VecDeque<Action>,
}

impl Machine {
    /// An unproven backend whose first probe is due at `first_probe`. The policy is expected to be
    /// valid (`Policy::validate`).
    #[must_use]
    pub fn new(policy: Policy, first_probe: Instant) -> Self {
        Self {
            policy,
            state: State::Unproven,
            since: None,
            next_probe: first_probe,
            outstanding: None,
            next_id: 0,
            successes: 0,
            failures: 0,
            last_cause: None,
            actions: VecDeque::new(),
        }
    }

    /// A machine for the same backend on another schedule: state and history go on, and a probe
    /// that is outstanding is forgotten.
    #[must_use]
    pub fn rescheduled(&self, policy: Policy, first_probe: Instant) -> Self {
        let mut machine = self.restarted(policy, first_probe);
        machine.successes = self.successes;
        machine.failures = self.failures;
        machine.last_cause.clone_from(&self.last_cause);
        machine
    }

    /// A machine for the same backend under another check: the state holds until the new check
    /// disproves it, and results are counted from zero.
    #[must_use]
    pub fn restarted(&self, policy: Policy, first_probe: Instant) -> Self {
        Self {
            state: self.state,
            since: self.since,
            // Late results of the old machine's probes must not fit the new one's.
            next_id: self.next_id,
            ..Self::new(policy, first_probe)
        }
    }

    /// Gives up a probe whose time is over and starts the one that is due. Calling early is
    /// harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.outstanding.is_some_and(|probe| probe.deadline <= now) {
            self.outstanding = None;
            self.record(Err(Cause::Timeout), now);
        }
        if self.next_probe <= now {
            self.next_probe = next_slot(self.next_probe, self.policy.interval, now);
            if self.outstanding.is_none() {
                self.start_probe(now);
            }
        }
    }

    /// The probe was answered. Ignored unless `id` is outstanding.
    pub fn handle_success(&mut self, id: ProbeId, now: Instant) {
        if self.settle(id) {
            self.record(Ok(()), now);
        }
    }

    /// The probe failed for a reason other than silence. Ignored unless `id` is outstanding.
    pub fn handle_failure(&mut self, id: ProbeId, cause: Cause, now: Instant) {
        if self.settle(id) {
            self.record(Err(cause), now);
        }
    }

    /// The probe told nothing about the backend, because it was the prober that failed: it counts
    /// neither way. Ignored unless `id` is outstanding.
    pub fn handle_void(&mut self, id: ProbeId) {
        self.settle(id);
    }

    /// Applies a new policy and keeps state and history.
    ///
    /// A shorter interval brings the next probe forward; thresholds apply from the next result on;
    /// an outstanding probe keeps the deadline it was sent with.
    pub fn set_policy(&mut self, policy: Policy, now: Instant) {
        self.policy = policy;
        self.next_probe = self.next_probe.min(now + policy.interval);
    }

    /// When `handle_timeout` must be called next. Always `Some`: probing never ends.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.outstanding.map(|probe| probe.deadline);
        Some(deadline.map_or(self.next_probe, |deadline| deadline.min(self.next_probe)))
    }

    /// The next thing to do, in the order in which it came up.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The state now.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// When the present state was entered; `None` while still unproven.
    #[must_use]
    pub fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Successes in a row up to now; zero after a failure. Saturates.
    #[must_use]
    pub fn successes(&self) -> u32 {
        self.successes
    }

    /// Failures in a row up to now; zero after a success. Saturates.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The cause of the latest failure, kept when successes follow.
    #[must_use]
    pub fn last_cause(&self) -> Option<&Cause> {
        self.last_cause.as_ref()
    }

    /// Whether the backend gave the latest probe an answer of any kind, good or bad; `None` before
    /// the first result.
    #[must_use]
    pub fn answered(&self) -> Option<bool> {
        if self.successes > 0 {
            return Some(true);
        }
        // Without successes the latest result, if there is one, is the failure of `last_cause`.
        self.last_cause.as_ref().map(Cause::is_answer)
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    fn start_probe(&mut self, now: Instant) {
        let id = ProbeId(self.next_id);
        self.next_id += 1;
        self.outstanding = Some(Outstanding { id, deadline: now + self.policy.timeout });
        self.actions.push_back(Action::Probe(id));
    }

    fn settle(&mut self, id: ProbeId) -> bool {
        self.outstanding.take_if(|probe| probe.id == id).is_some()
    }

    /// The one place where counters and state change.
    fn record(&mut self, result: Result<(), Cause>, now: Instant) {
        let cause = result.err();
        if let Some(cause) = &cause {
            self.failures = self.failures.saturating_add(1);
            self.successes = 0;
            self.last_cause = Some(cause.clone());
        } else {
            self.successes = self.successes.saturating_add(1);
            self.failures = 0;
        }
        let risen = self.successes >= self.policy.rise.get();
        let fallen = self.failures >= self.policy.fall.get();
        let to = match self.state {
            State::Unproven | State::Down if risen => State::Up,
            State::Unproven | State::Up if fallen => State::Down,
            State::Unproven | State::Up | State::Down => return,
        };
        let from = std::mem::replace(&mut self.state, to);
        self.since = Some(now);
        self.actions.push_back(Action::Changed(Transition { from, to, cause }));
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unproven => "unproven",
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("timeout"),
            Self::Error(text) | Self::Answer(text) => f.write_str(text),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    id: ProbeId,
    deadline: Instant,
}

/// The first slot after `now` on the grid through `slot`, which is not after `now`.
fn next_slot(slot: Instant, interval: Duration, now: Instant) -> Instant {
    // A zero interval, which `Policy::validate` refuses, must still not hang or divide by zero.
    let interval_ns = interval.as_nanos().max(1);
    let into_slot_ns = now.saturating_duration_since(slot).as_nanos() % interval_ns;
    // At most one interval; 64 bits of nanoseconds are 584 years.
    now + Duration::from_nanos(u64::try_from(interval_ns - into_slot_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
