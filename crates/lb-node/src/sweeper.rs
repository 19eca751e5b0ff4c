//! Ends sessions that have been silent for too long: the only hand that frees them.
//!
//! ```text
//! in use ──too old──> both entries taken out of the index ──GRACE──> free
//! ```
//! A packet that found the session before its entries went is decided long before the record is
//! used again. One that comes after opens a new session, with another record.

use crate::config::Timeouts;
use datapath::lb::Direction;
use datapath::lb::index::Hash;
use datapath::lb::layout::{
    BUCKET, Entry, Levels, Session, TICK_SHIFT, session_flag, session_state,
};
use std::collections::{HashMap, VecDeque};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::protocol;
use xdp::Shared;

/// From the removal of a session's entries to the next use of its record.
pub const GRACE: Duration = Duration::from_millis(100);

/// How the kernel's clock runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Jiffies a second: the kernel's `HZ`.
    pub hertz: u32,
}

impl Rate {
    /// The rate that explains so many jiffies in this time: one of those that kernels are built
    /// with.
    pub fn of(jiffies: u32, time: Duration) -> Self {
        let per_second = f64::from(jiffies) / time.as_secs_f64();
        let off = |hertz: &u32| (f64::from(*hertz).ln() - per_second.max(1.0).ln()).abs();
        let rates = [100, 250, 300, 1000];
        let hertz = rates.into_iter().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(250);
        Self { hertz }
    }

    /// So many ticks as a time.
    pub fn time(self, ticks: u32) -> Duration {
        let jiffies = u64::from(ticks) << TICK_SHIFT;
        Duration::from_millis(jiffies.saturating_mul(1000) / u64::from(self.hertz.max(1)))
    }

    /// So many ticks are no shorter than this time.
    pub fn ticks(self, time: Duration) -> u32 {
        let jiffies = time.as_millis() * u128::from(self.hertz) / 1000;
        u32::try_from(jiffies >> TICK_SHIFT).unwrap_or(u32::MAX - 1) + 1
    }
}

/// What one sweep found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Sessions in use, by backend.
    pub active: HashMap<u16, u32>,
    /// Clients that stay with their backend, by backend.
    pub sticky: HashMap<u16, u32>,
    /// Sessions in use.
    pub sessions: u32,
    /// Half-open TCP sessions among them.
    pub half_open: u32,
    /// Sessions ended by this sweep.
    pub ended: u32,
}

/// The sweeper of one node's sessions.
pub struct Sweeper {
    shared: Arc<Shared>,
    rate: Rate,
    limits: Limits,
    /// Sessions without entries, and since when.
    fading: VecDeque<(Instant, u32)>,
}

/// Ages in ticks.
struct Limits {
    udp: u32,
    established: u32,
    transitory: u32,
    icmp: u32,
    other: u32,
}

impl Sweeper {
    /// Sweeps these maps.
    pub fn new(shared: Arc<Shared>, timeouts: &Timeouts, rate: Rate) -> Self {
        let limits = Limits {
            udp: rate.ticks(timeouts.udp),
            established: rate.ticks(timeouts.tcp_established),
            transitory: rate.ticks(timeouts.tcp_transitory),
            icmp: rate.ticks(timeouts.icmp),
            other: rate.ticks(timeouts.other),
        };
        Self { shared, rate, limits, fading: VecDeque::new() }
    }

    /// Makes every session of new maps free. Session 0 is never used.
    pub fn fill(&self) {
        for session in 1..self.shared.sessions.len() {
            self.free(session);
        }
    }

    /// Goes on with what an earlier process began: sessions whose entries it took out.
    pub fn resume(&mut self, now: Instant) {
        for at in 1..self.shared.sessions.len() {
            let fades = |session: Session| session.state & FADING != 0;
            if self.shared.sessions.load(at).is_some_and(fades) {
                self.fading.push_back((now, at));
            }
        }
    }

    /// Ends what is too old at this moment of the kernel's clock.
    pub fn sweep(&mut self, jiffies: u32, now: Instant) -> Census {
        self.free_faded(now);
        let tick = jiffies >> TICK_SHIFT;
        self.shared.end_capture(tick);
        let mut census = Census::default();
        for at in 1..self.shared.sessions.len() {
            let Some(session) = self.shared.sessions.load(at) else { continue };
            if !is_in_use(&session) {
                continue;
            }
            if self.is_over(&session, tick) {
                self.end(at, &session, now);
                census.ended += 1;
                continue;
            }
            census.sessions += 1;
            let by_backend = match session.flags & session_flag::AFFINITY {
                0 => &mut census.active,
                _ => &mut census.sticky,
            };
            *by_backend.entry(session.backend_id).or_default() += 1;
            if is_half_open(&session) {
                census.half_open += 1;
            }
        }
        census
    }

    fn is_over(&self, session: &Session, tick: u32) -> bool {
        let limit = match session.protocol {
            _ if session.state & session_state::ABANDONED != 0 => 2,
            _ if session.flags & session_flag::AFFINITY != 0 => {
                self.rate.ticks(Duration::from_secs(u64::from(session.affinity_s())))
            }
            protocol::TCP => {
                let open = session.state & session_state::ESTABLISHED != 0;
                let closing = session.state & (session_state::CLOSING | session_state::REPLACED);
                if open && closing == 0 { self.limits.established } else { self.limits.transitory }
            }
            protocol::UDP => self.limits.udp,
            protocol::ICMP | protocol::ICMPV6 => self.limits.icmp,
            _ => self.limits.other,
        };
        age(session, tick) > limit
    }

    fn end(&mut self, at: u32, session: &Session, now: Instant) {
        if let Some(state) = self.shared.sessions.half_word(at, offset_of!(Session, state)) {
            state.fetch_or(FADING, Ordering::AcqRel);
        }
        let Some(settings) = self.shared.settings.load(0) else { return };
        for direction in [Direction::Forward, Direction::Reply] {
            let hash = Hash::of(&session.key(direction), settings.seed);
            self.take_entry(hash, Entry::new(hash.tag(), at, direction));
        }
        self.fading.push_back((now, at));
    }

    fn take_entry(&self, hash: Hash, entry: Entry) {
        let buckets = self.shared.index.len();
        for number in hash.buckets() {
            for place in 0..BUCKET {
                let Some(word) = self.shared.index.word(number & (buckets - 1), place * 8) else {
                    continue;
                };
                let taken = word.compare_exchange(entry.0, 0, Ordering::AcqRel, Ordering::Relaxed);
                if taken.is_ok() {
                    return;
                }
            }
        }
    }

    fn free_faded(&mut self, now: Instant) {
        while let Some((since, at)) = self.fading.front().copied() {
            if now.saturating_duration_since(since) < GRACE {
                break;
            }
            self.fading.pop_front();
            let Some(session) = self.shared.sessions.load(at) else { continue };
            if is_half_open(&session) {
                self.close_half();
            }
            if let Some(state) = self.shared.sessions.half_word(at, offset_of!(Session, state)) {
                state.store(0, Ordering::Release);
            }
            self.free(at);
        }
    }

    /// Puts a session into the ring of free ones.
    fn free(&self, session: u32) {
        let levels = &self.shared.levels;
        let Some(freed) = levels.word(0, offset_of!(Levels, freed)) else { return };
        let count = freed.load(Ordering::Acquire);
        let mask = u64::from(self.shared.free.len() - 1);
        self.shared.free.store(u32::try_from(count & mask).unwrap_or(0), session);
        freed.store(count.wrapping_add(1), Ordering::Release);
    }

    fn close_half(&self) {
        if let Some(half) = self.shared.levels.word(0, offset_of!(Levels, half_open)) {
            half.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Of the sweeper alone: the session's entries are gone.
const FADING: u32 = 1 << 31;

/// Whether the session is somebody's.
pub fn is_in_use(session: &Session) -> bool {
    session.state & session_state::LIVE != 0 && session.state & FADING == 0
}

/// Ticks for which the session has been silent.
pub fn age(session: &Session, tick: u32) -> u32 {
    // The kernel's clock is the younger one if it was used since it was asked; it wraps at 26 bits.
    let age = tick.wrapping_sub(session.last) & (u32::MAX >> TICK_SHIFT);
    if age < 1 << 25 { age } else { 0 }
}

/// Whether the session counts as half-open.
pub fn is_half_open(session: &Session) -> bool {
    let closed = session_state::ESTABLISHED | session_state::ABANDONED;
    session.protocol == protocol::TCP
        && session.flags & session_flag::AFFINITY == 0
        && session.state & closed == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_every_usual_kernel_is_told_from_a_short_look() {
        for hertz in [100, 250, 300, 1000] {
            for off in [-2i64, 0, 2] {
                let jiffies = u32::try_from(i64::from(hertz) * 3 / 10 + off).unwrap();
                assert_eq!(Rate::of(jiffies, Duration::from_millis(300)), Rate { hertz });
            }
        }
    }

    #[test]
    fn ticks_are_never_shorter_than_the_time() {
        let rate = Rate { hertz: 250 };
        assert_eq!(rate.ticks(Duration::from_secs(60)), 60 * 250 / 64 + 1);
        assert_eq!(rate.ticks(Duration::ZERO), 1);
        assert_eq!(rate.ticks(Duration::MAX), u32::MAX);
    }
}
