//! Checks of many backends by connection or echo, each with a name of the caller's choice.
//!
//! Equal checks share one probe. Probes are spread over time, at most [`MAX_IN_FLIGHT`] are out at
//! once, and one that our own stall delayed counts neither way. Connections are never bound to a
//! source: the kernel picks the port as it connects, so that one port serves many backends
//! (without `bind` there is nothing for `IP_BIND_ADDRESS_NO_PORT` to defer), from
//! `ip_local_port_range`, which SNAT ports must not overlap.
//!
//! Does not follow redirects, judge certificates, reuse connections or ask for HTTP/2.

mod check;
mod connection;
mod head;
mod pings;
mod schedule;
mod tls;

use std::collections::HashMap;
use std::time::Instant;

use health::{Cause, State, Transition};
use rustix::process::{Resource, getrlimit};
use tokio::select;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::Error;
use crate::sockets::{Sockets, now, sleep_until};

pub use check::{Check, CheckId, Http, Kind, MAX_HOST_BYTES, MAX_PATH_BYTES};
pub use connection::MAX_BODY_BYTES;
pub use head::{MAX_HEAD_BYTES, MAX_HEADERS};

use connection::Log;
use pings::Pings;
use schedule::{Action, FlightId, Outcome, Report, Schedule};

/// The most checks of one driver: 256 services with 256 backends each.
pub const MAX_CHECKS: usize = 65_536;

/// The most probes under way at once, and so the most sockets, but never more than half of the
/// descriptors that the process may open. 4,096 silent backends can be waited for while the others
/// are probed on time; a socket that connects takes about 2 KiB of kernel memory.
pub const MAX_IN_FLIGHT: usize = 4096;

/// Something that the controller must know about one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which check.
    pub id: CheckId,
    /// What happened.
    pub event: Event,
}

/// What happened to a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many results in a row changed the state.
    State(Transition),
    /// The latest probe got no answer of any kind, unlike the one before. The state may be
    /// unchanged; fail-open must be decided anew.
    Silent,
    /// The backend answers again, well or badly.
    Answering,
}

/// What is known about one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// The state.
    pub state: State,
    /// When it was entered; `None` while unproven.
    pub since: Option<Instant>,
    /// Successes in a row; zero after a failure.
    pub successes: u32,
    /// Failures in a row; zero after a success.
    pub failures: u32,
    /// The latest failure, kept when successes follow.
    pub last_cause: Option<&'a Cause>,
    /// The latest result is that no answer of any kind came: a timeout, no route. A refusal, a
    /// reset, a wrong status and a handshake are answers. `false` before the first result.
    pub silent: bool,
    /// When the latest probe started.
    pub last_probe: Option<Instant>,
}

/// Probes backends and reports what changes.
pub struct Checks {
    schedule: Schedule,
    tls: tls::Client,
    pings: Pings,
    connections: HashMap<FlightId, Connection>,
    reports: mpsc::Receiver<(FlightId, Report)>,
    reporter: mpsc::Sender<(FlightId, Report)>,
}

/// What the loop wakes up for.
enum Input {
    Report(FlightId, Report),
    Replies(Vec<FlightId>),
    Due,
}

/// A task with a socket; both end when this is dropped.
struct Connection(AbortHandle);

impl Checks {
    /// No checks yet, to be called inside the tokio runtime that will drive them. `sockets` are for
    /// echo requests: without one of its family an ICMP check fails and says so.
    ///
    /// # Errors
    /// Fails if the runtime cannot watch the sockets or TLS cannot be set up.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub fn new(sockets: Sockets) -> Result<Self, Error> {
        let (sockets, _) = sockets.watch()?;
        let (reporter, reports) = mpsc::channel(REPORTS);
        Ok(Self {
            schedule: Schedule::new(flights()),
            tls: tls::client()?,
            pings: Pings::new(sockets),
            connections: HashMap::new(),
            reports,
            reporter,
        })
    }

    /// Makes `checks` the checks, all of them or, on an error, none.
    ///
    /// A check that stays as it was goes on undisturbed. One that is gone or changed has its probe
    /// cancelled. A changed check inherits the state of its name if the address is the same: with
    /// its counters if only the policy changed, else counting from zero. Any other check is
    /// unproven and first probed within 10 ms times the number of new checks, at most one interval.
    ///
    /// None of this is reported as a change: read [`status`](Self::status) of every check after it.
    ///
    /// # Errors
    /// Names the first check that is refused: a name given twice, port 0 (ICMP aside), a policy
    /// that does not validate; or more than [`MAX_CHECKS`] of them.
    pub fn set(&mut self, checks: impl IntoIterator<Item = (CheckId, Check)>) -> Result<(), Error> {
        self.schedule.replace(checks.into_iter().collect(), now())?;
        self.act();
        Ok(())
    }

    /// Probes until something changes. Waits forever without checks.
    ///
    /// Cancel-safe: dropping the future loses no change. Probes run only while it is awaited; what
    /// a longer absence spoils is void.
    pub async fn next_change(&mut self) -> Change {
        loop {
            self.act();
            if let Some(change) = self.schedule.poll_change() {
                return change;
            }
            let Self { schedule, pings, reports, .. } = self;
            // Results before deadlines: what came in time must not fail because we were late.
            let input = select! {
                biased;
                Some((flight, report)) = reports.recv() => Input::Report(flight, report),
                flights = pings.replies() => Input::Replies(flights),
                () = sleep_until(schedule.poll_timeout()) => Input::Due,
            };
            match input {
                Input::Report(flight, report) => self.handle_report(flight, report),
                Input::Replies(flights) => self.handle_replies(flights),
                Input::Due => self.fire_timers().await,
            }
        }
    }

    /// What is known about one check; `None` for a name that is not in the set.
    #[must_use]
    pub fn status(&self, id: CheckId) -> Option<Status<'_>> {
        self.schedule.status(id)
    }

    /// The same of all checks, in no order.
    pub fn statuses(&self) -> impl Iterator<Item = (CheckId, Status<'_>)> {
        self.schedule.statuses()
    }

    /// How many probes counted neither way because this process stalled or ran out of descriptors
    /// or buffers. Grows only when the prober is starved.
    #[must_use]
    pub fn voided(&self) -> u64 {
        self.schedule.voided()
    }

    /// Sockets that became ready while we were away are served before a deadline fires.
    async fn fire_timers(&mut self) {
        tokio::task::yield_now().await;
        while let Ok((flight, report)) = self.reports.try_recv() {
            self.handle_report(flight, report);
        }
        let flights = self.pings.replies_now();
        self.handle_replies(flights);
        self.schedule.handle_timeout(now());
    }

    fn handle_report(&mut self, flight: FlightId, report: Report) {
        if report == Report::Closed {
            self.connections.remove(&flight);
        }
        self.schedule.handle_report(flight, report, now());
    }

    fn handle_replies(&mut self, flights: Vec<FlightId>) {
        for flight in flights {
            self.schedule.handle_report(flight, Report::Settled(Outcome::Success), now());
            self.schedule.handle_report(flight, Report::Closed, now());
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.schedule.poll_action() {
            match action {
                Action::Start(flight, check) => self.start(flight, &check),
                Action::Cancel(flight) => {
                    self.connections.remove(&flight);
                    self.pings.cancel(flight);
                }
            }
        }
    }

    fn start(&mut self, flight: FlightId, check: &Check) {
        let to = check.socket_address();
        let log = Log::new(flight, self.reporter.clone());
        let task = match &check.kind {
            Kind::Tcp => tokio::spawn(connection::tcp(to, log)),
            Kind::Http(http) => tokio::spawn(connection::http(to, http.clone(), log)),
            Kind::Https(http) => {
                tokio::spawn(connection::https(to, http.clone(), self.tls.clone(), log))
            }
            Kind::Icmp => {
                if let Err(outcome) = self.pings.start(flight, check.address) {
                    self.schedule.handle_report(flight, Report::Settled(outcome), now());
                    self.schedule.handle_report(flight, Report::Closed, now());
                }
                return;
            }
        };
        self.connections.insert(flight, Connection(task.abort_handle()));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How many flights this process has descriptors for.
fn flights() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors / 2).unwrap_or(usize::MAX).min(MAX_IN_FLIGHT)
}

/// Reports that wait to be read; a task with another one waits in turn.
const REPORTS: usize = 1024;
