//! Which check probes when, which checks share a probe, and what a report means. Sans-IO.
//!
//! ```text
//!            due, and a flight is free            Settled                     Closed
//!  starts ───────────────────────────> in flight ─────────> machine, starts ─────────> free
//!                                          │ deadline
//!                                          └──────> failure, or void if we were stalled
//! ```
//!
//! A *flight* is one probe from its start to the closing of its socket. At most `limit` are out at
//! once; a start that finds none free waits, the earliest due first, and its timeout begins when it
//! starts: what waits costs the backend nothing. A flight that is settled and only lets its backend
//! finish makes room for a start that waits.
//!
//! A *stall* is time in which we were due and did not run. A deadline that passes after a flight
//! lost more than half of its timeout to stalls voids the probe: it counts neither way.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use health::{Cause, Machine, ProbeId};

use super::check::{Check, CheckId};
use super::{Change, Event, Status};
use crate::Error;

mod replace;

/// How often we want to run while flights are out, due or not: that much of a stall goes unseen.
/// A group's quota (`cpu.max`) stops a process for up to 100 ms at a time.
const TICK: Duration = Duration::from_millis(20);

/// Timers are late by a millisecond or two on an idle machine: no stall.
const TIMER_NOISE: Duration = Duration::from_millis(10);

/// Names one probe from its start to the closing of its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FlightId(pub(super) u64);

/// What the shell must do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Probe and report.
    Start(FlightId, Arc<Check>),
    /// Close what belongs to this flight; nothing that it reports counts any more.
    Cancel(FlightId),
}

/// What the shell learned about a flight, in this order; `Connected` may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The backend completed the TCP handshake.
    Connected,
    /// The probe's result.
    Settled(Outcome),
    /// The socket is closed.
    Closed,
}

/// How a probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// As wanted.
    Success,
    /// Not as wanted.
    Failure(Cause),
    /// It could not be carried out here: no descriptors, no buffers.
    Void,
}

/// All checks.
///
/// After every input the shell carries out the actions and takes the changes. One input causes at
/// most two actions per flight and two changes per check.
#[derive(Debug)]
pub(super) struct Schedule {
    limit: usize,
    ids: HashMap<CheckId, Key>,
    keys: HashMap<Arc<Check>, Key>,
    groups: HashMap<Key, Group>,
    starts: BTreeSet<(Instant, Key)>,
    flights: HashMap<FlightId, Flight>,
    deadlines: BTreeSet<(Instant, FlightId)>,
    /// Flights that are settled, the oldest first.
    draining: BTreeSet<FlightId>,
    next_key: u64,
    next_flight: u64,
    actions: VecDeque<Action>,
    changes: VecDeque<Change>,
    /// The latest input.
    seen: Option<Instant>,
    /// All stalls up to now.
    stalled: Duration,
    voided: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key(u64);

/// Equal checks: one machine, one flight at a time that is not settled.
#[derive(Debug)]
struct Group {
    check: Arc<Check>,
    /// In ascending order, at least one.
    ids: Vec<CheckId>,
    machine: Machine,
    /// The time of this group's entry in `starts`; `None` while its probe is out.
    start: Option<Instant>,
    probe: Option<FlightId>,
    last_probe: Option<Instant>,
    silent: bool,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    key: Key,
    probe: ProbeId,
    deadline: Instant,
    connected: bool,
    /// `Schedule::stalled` at the start.
    stalled: Duration,
}

impl Schedule {
    /// No checks. At most `limit` flights, at least one.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            ids: HashMap::new(),
            keys: HashMap::new(),
            groups: HashMap::new(),
            starts: BTreeSet::new(),
            flights: HashMap::new(),
            deadlines: BTreeSet::new(),
            draining: BTreeSet::new(),
            next_key: 0,
            next_flight: 0,
            actions: VecDeque::new(),
            changes: VecDeque::new(),
            seen: None,
            stalled: Duration::ZERO,
            voided: 0,
        }
    }

    /// Makes `checks` the checks; see `Checks::set`.
    pub(super) fn replace(
        &mut self,
        checks: Vec<(CheckId, Check)>,
        now: Instant,
    ) -> Result<(), Error> {
        replace::validate(&checks)?;
        self.observe(now);
        self.apply(checks, now);
        Ok(())
    }

    /// Ends flights whose time is over, then starts what is due. Calling early is harmless.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.observe(now);
        while let Some(&(due, flight)) = self.deadlines.first()
            && due <= now
        {
            self.expire(flight, now);
        }
        while let Some(&(due, key)) = self.starts.first()
            && due <= now
            && self.has_room()
        {
            if self.flights.len() >= self.limit
                && let Some(&oldest) = self.draining.first()
            {
                self.cancel(oldest);
            }
            self.start(key, now);
        }
    }

    /// Ignored if the flight was cancelled.
    pub(super) fn handle_report(&mut self, id: FlightId, report: Report, now: Instant) {
        self.observe(now);
        match report {
            Report::Connected => {
                if let Some(flight) = self.flights.get_mut(&id) {
                    flight.connected = true;
                }
            }
            Report::Settled(outcome) => self.settle(id, outcome, now),
            Report::Closed => {
                // A flight that ends without a result was not the backend's fault.
                self.settle(id, Outcome::Void, now);
                self.forget(id);
            }
        }
    }

    /// When `handle_timeout` must be called next; `None` without checks.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let start = self.starts.first().map(|&(due, _)| due);
        let start = start.filter(|_| self.has_room());
        let deadline = self.deadlines.first().map(|&(due, _)| due);
        let tick = deadline.and(self.seen).map(|seen| seen + TICK);
        [start, deadline, tick].into_iter().flatten().min()
    }

    /// The next thing to do.
    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next change.
    pub(super) fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// What is known about one check.
    pub(super) fn status(&self, id: CheckId) -> Option<Status<'_>> {
        self.groups.get(self.ids.get(&id)?).map(Group::status)
    }

    /// The same of all checks, in no order.
    pub(super) fn statuses(&self) -> impl Iterator<Item = (CheckId, Status<'_>)> {
        let groups = self.groups.values();
        groups.flat_map(|group| group.ids.iter().map(|&id| (id, group.status())))
    }

    /// How many probes counted neither way, ever.
    pub(super) fn voided(&self) -> u64 {
        self.voided
    }

    /// Whether another flight can start.
    fn has_room(&self) -> bool {
        self.flights.len() < self.limit || !self.draining.is_empty()
    }

    /// Adds to the stalls what passed since this input was due.
    fn observe(&mut self, now: Instant) {
        if let (Some(due), Some(seen)) = (self.poll_timeout(), self.seen) {
            // What was due before the latest input waited for a flight, not for us.
            let late = now.saturating_duration_since(due.max(seen));
            if late > TIMER_NOISE {
                self.stalled += late;
            }
        }
        self.seen = Some(now);
    }

    fn start(&mut self, key: Key, now: Instant) {
        let Some(group) = self.groups.get_mut(&key) else { return };
        if let Some(start) = group.start.take() {
            self.starts.remove(&(start, key));
        }
        group.machine.handle_timeout(now);
        self.take_actions(key, now);
    }

    /// The deadline of a flight is over, settled or not.
    fn expire(&mut self, id: FlightId, now: Instant) {
        let Some(&flight) = self.flights.get(&id) else { return };
        let Some(group) = self.groups.get(&flight.key) else { return };
        let timeout = group.check.policy.timeout;
        let text = format!("timeout after {timeout:?}");
        let outcome = if self.stalled - flight.stalled > timeout / 2 {
            Outcome::Void
        } else if flight.connected {
            // The handshake was an answer.
            Outcome::Failure(Cause::Answer(format!("{text}, though connected")))
        } else {
            Outcome::Failure(Cause::Error(text))
        };
        self.settle(id, outcome, now);
        self.cancel(id);
    }

    /// Hands the result to the machine, unless it has one for this flight.
    fn settle(&mut self, id: FlightId, outcome: Outcome, now: Instant) {
        let Some(&Flight { key, probe, .. }) = self.flights.get(&id) else { return };
        let Some(group) = self.groups.get_mut(&key) else { return };
        if group.probe.take_if(|probe| *probe == id).is_none() {
            return;
        }
        self.draining.insert(id);
        match outcome {
            Outcome::Success => group.machine.handle_success(probe, now),
            Outcome::Failure(cause) => group.machine.handle_failure(probe, cause, now),
            Outcome::Void => {
                group.machine.handle_void(probe);
                self.voided += 1;
            }
        }
        self.take_actions(key, now);
    }

    /// Carries out what the machine asked for and, while its probe is not out, arms its start.
    fn take_actions(&mut self, key: Key, now: Instant) {
        let Some(group) = self.groups.get_mut(&key) else { return };
        let mut events = group.note_silence().into_iter().collect::<Vec<_>>();
        while let Some(action) = group.machine.poll_action() {
            match action {
                health::Action::Changed(transition) => events.push(Event::State(transition)),
                health::Action::Probe(probe) => {
                    let id = FlightId(self.next_flight);
                    self.next_flight += 1;
                    let deadline = now + group.check.policy.timeout;
                    let stalled = self.stalled;
                    let flight = Flight { key, probe, deadline, connected: false, stalled };
                    self.flights.insert(id, flight);
                    self.deadlines.insert((deadline, id));
                    self.actions.push_back(Action::Start(id, Arc::clone(&group.check)));
                    group.probe = Some(id);
                    group.last_probe = Some(now);
                }
            }
        }
        for event in events {
            let changes = group.ids.iter().map(|&id| Change { id, event: event.clone() });
            self.changes.extend(changes);
        }
        if group.probe.is_none() && group.start.is_none() {
            group.start = group.machine.poll_timeout();
            self.starts.extend(group.start.map(|start| (start, key)));
        }
    }

    fn cancel(&mut self, id: FlightId) {
        if self.forget(id) {
            self.actions.push_back(Action::Cancel(id));
        }
    }

    fn forget(&mut self, id: FlightId) -> bool {
        self.draining.remove(&id);
        let flight = self.flights.remove(&id);
        flight.is_some_and(|flight| self.deadlines.remove(&(flight.deadline, id)))
    }
}

impl Group {
    /// Whether answers ceased or came back with the latest result.
    fn note_silence(&mut self) -> Option<Event> {
        let silent = self.machine.answered() == Some(false);
        let before = std::mem::replace(&mut self.silent, silent);
        match (before, silent) {
            (false, true) => Some(Event::Silent),
            (true, false) => Some(Event::Answering),
            (true, true) | (false, false) => None,
        }
    }

    fn status(&self) -> Status<'_> {
        Status {
            state: self.machine.state(),
            since: self.machine.since(),
            successes: self.machine.successes(),
            failures: self.machine.failures(),
            last_cause: self.machine.last_cause(),
            silent: self.silent,
            last_probe: self.last_probe,
        }
    }
}

#[cfg(test)]
mod tests;
