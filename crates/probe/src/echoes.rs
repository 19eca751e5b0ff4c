//! Which backend waits for which echo reply, and when the next one is due. Sans-IO.
//!
//! Timers of all machines lie in one ordered set and replies find their backend by address, so a
//! packet or a timer costs O(log backends) however many there are.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use health::{Action, Cause, Machine, ProbeId};
use netio::icmp::EchoReply;

use crate::sockets::Nonce;
use crate::{Change, Check};

/// An echo request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) backend: IpAddr,
    pub(crate) id: u16,
    pub(crate) seq: u16,
    pub(crate) nonce: Nonce,
    probe: ProbeId,
}

/// All backends under check.
///
/// After every input the shell takes the requests; it takes the changes before the next input.
/// Neither queue then outgrows the number of backends by more than a factor of two.
pub(crate) struct Echoes<N> {
    id: u16,
    next_seq: u16,
    nonces: N,
    backends: HashMap<IpAddr, Backend>,
    timeouts: BTreeSet<(Instant, IpAddr)>,
    requests: VecDeque<Request>,
    changes: VecDeque<Change>,
}

struct Backend {
    machine: Machine,
    /// The key of this backend in `timeouts`.
    armed: Instant,
    newest: Option<Request>,
}

impl<N: FnMut() -> Nonce> Echoes<N> {
    /// No backends yet. `id` is the identifier of all requests, `nonces` must be unguessable.
    pub(crate) fn new(id: u16, nonces: N) -> Self {
        Self {
            id,
            next_seq: 0,
            nonces,
            backends: HashMap::new(),
            timeouts: BTreeSet::new(),
            requests: VecDeque::new(),
            changes: VecDeque::new(),
        }
    }

    /// Makes `checks` the backends: known ones keep their machine, new ones start staggered.
    pub(crate) fn replace(&mut self, checks: &[Check], now: Instant) {
        let wanted: HashSet<IpAddr> = checks.iter().map(|check| check.backend).collect();
        self.backends.retain(|address, _| wanted.contains(address));
        self.timeouts.retain(|(_, address)| wanted.contains(address));
        self.requests.retain(|request| wanted.contains(&request.backend));
        self.changes.retain(|change| wanted.contains(&change.backend));
        let mut offset = Duration::ZERO;
        for &Check { backend, policy } in checks {
            let first_probe = now + offset;
            offset += stagger(policy.interval, checks.len());
            let entry = self.backends.entry(backend).or_insert_with(|| Backend {
                machine: Machine::new(policy, first_probe),
                armed: first_probe,
                newest: None,
            });
            if entry.machine.policy() != policy {
                entry.machine.set_policy(policy, now);
            }
            self.timeouts.insert((entry.armed, backend));
            self.settle(backend);
        }
    }

    /// Fires every timer that is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(due, backend)) = self.timeouts.first()
            && due <= now
        {
            if let Some(entry) = self.backends.get_mut(&backend) {
                entry.machine.handle_timeout(now);
            }
            self.settle(backend);
        }
    }

    /// Credits the reply to its backend if it answers that backend's newest request.
    pub(crate) fn handle_reply(&mut self, reply: &EchoReply<'_>, now: Instant) {
        let Some(entry) = self.backends.get_mut(&reply.from) else { return };
        let answered = entry.newest.take_if(|request| {
            (request.id, request.seq) == (reply.id, reply.seq) && request.nonce == *reply.payload
        });
        if let Some(request) = answered {
            entry.machine.handle_success(request.probe, now);
            self.settle(reply.from);
        }
    }

    /// The request could not be sent.
    pub(crate) fn handle_send_error(&mut self, request: &Request, text: String, now: Instant) {
        if let Some(entry) = self.backends.get_mut(&request.backend) {
            entry.machine.handle_failure(request.probe, Cause::Error(text), now);
            self.settle(request.backend);
        }
    }

    /// When `handle_timeout` must be called next; `None` without backends.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timeouts.first().map(|&(due, _)| due)
    }

    /// The next request to send.
    pub(crate) fn poll_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// The next change of state.
    pub(crate) fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// The machine of one backend.
    pub(crate) fn machine(&self, backend: IpAddr) -> Option<&Machine> {
        self.backends.get(&backend).map(|entry| &entry.machine)
    }

    /// Carries out what the machine of `backend` asked for and arms its timer anew.
    fn settle(&mut self, backend: IpAddr) {
        let Some(entry) = self.backends.get_mut(&backend) else { return };
        while let Some(action) = entry.machine.poll_action() {
            match action {
                Action::Probe(probe) => {
                    let (seq, nonce) = (self.next_seq, (self.nonces)());
                    self.next_seq = self.next_seq.wrapping_add(1);
                    let request = Request { backend, id: self.id, seq, nonce, probe };
                    entry.newest = Some(request);
                    self.requests.push_back(request);
                }
                Action::Changed(transition) => {
                    self.changes.push_back(Change { backend, transition });
                }
            }
        }
        self.timeouts.remove(&(entry.armed, backend));
        if let Some(due) = entry.machine.poll_timeout() {
            entry.armed = due;
            self.timeouts.insert((due, backend));
        }
    }
}

/// How far apart the first probes of two backends are: spread over one interval, but not so far
/// that a few backends wait long for their first verdict.
fn stagger(interval: Duration, backends: usize) -> Duration {
    let backends = u32::try_from(backends).unwrap_or(u32::MAX).max(1);
    (interval / backends).min(MAX_STAGGER)
}

const MAX_STAGGER: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
