//! Counters: written by the packet thread, read by everyone.

use datapath::DropReason;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Packets and the octets of their IP packets as sent.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Packets.
    pub packets: Counter,
    /// Octets, outer IP header included.
    pub bytes: Counter,
}

impl Traffic {
    /// Counts one packet.
    #[inline]
    pub fn count(&self, bytes: usize) {
        self.packets.add(1);
        self.bytes.add(bytes as u64);
    }
}

/// What one backend got and gave.
#[derive(Debug, Default)]
pub struct BackendCounters {
    /// Sent to the backend: GRE packets and ICMP errors.
    pub forwarded: Traffic,
    /// Its replies sent on to clients, other family only.
    pub returned: Traffic,
}

/// Counters of the whole instance.
#[derive(Debug)]
pub struct Statistics {
    /// Packets read from the sockets, and the octets of their IP packets.
    pub received: Traffic,
    /// ICMP errors of our own sent to packets' sources.
    pub answered: Counter,
    /// ICMP errors copied to every backend.
    pub fanned_out: Counter,
    /// Packets that were not for us and were left to the host.
    pub passed: Counter,
    drops: Box<[Counter]>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            received: Traffic::default(),
            answered: Counter::default(),
            fanned_out: Counter::default(),
            passed: Counter::default(),
            drops: DropReason::ALL.iter().map(|_| Counter::default()).collect(),
        }
    }
}

impl Statistics {
    /// Counts dropped packets.
    #[inline]
    pub fn dropped(&self, reason: DropReason, count: u64) {
        if let Some(counter) = self.drops.get(reason.index()) {
            counter.add(count);
        }
    }

    /// Every reason with its count.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().copied().zip(self.drops.iter().map(Counter::get))
    }
}
