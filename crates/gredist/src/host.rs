//! The packet core's tables on the host: the snapshot, the kernel's path MTUs, recorded clients
//! and the budgets of our own messages.

use crate::clients::Clients;
use crate::snapshot::Snapshot;
use datapath::gre::{self, Service};
use datapath::{Budget, Fib, Tables};
use netio::path::Paths;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wire::Address;

/// How long a path MTU is believed before the kernel is asked again.
const FIB_TIME: Duration = Duration::from_secs(2);
/// Paths remembered at once; a power of two.
const FIB_SLOTS: usize = 4_096;

/// Mutable state of the packet thread behind the tables.
#[derive(Debug)]
pub struct Host {
    paths: Paths,
    fib: Box<[Path]>,
    /// Clients behind the pool.
    pub clients: Clients,
    answers: Bucket,
    copies: Bucket,
    identification: u16,
    /// The time of the batch at hand.
    pub now: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    destination: Address,
    fib: Option<Fib>,
    until: Option<Instant>,
}

impl Host {
    /// Opens what the tables need. `error_rate` is messages per second of each kind.
    ///
    /// # Errors
    /// If the sockets for path MTUs cannot be opened.
    pub fn new(clients: Clients, error_rate: u32, now: Instant) -> std::io::Result<Self> {
        let empty = Path { destination: Address::v6([0; 16]), fib: None, until: None };
        Ok(Self {
            paths: Paths::open()?,
            fib: vec![empty; FIB_SLOTS].into_boxed_slice(),
            clients,
            answers: Bucket::new(error_rate, now),
            copies: Bucket::new(error_rate, now),
            identification: 0,
            now,
        })
    }

    /// Changes the rate of our own messages.
    pub fn set_error_rate(&mut self, error_rate: u32) {
        self.answers.rate = error_rate;
        self.copies.rate = error_rate;
    }

    /// Forgets the path to a destination: the kernel has just learned something about it.
    pub fn forget_path(&mut self, destination: Address) {
        if let Some(path) = self.fib.get_mut(slot_of(destination)) {
            path.until = None;
        }
    }

    fn fib(&mut self, destination: Address) -> Option<Fib> {
        let (now, paths) = (self.now, &self.paths);
        let slot = self.fib.get_mut(slot_of(destination))?;
        if slot.destination != destination || slot.until.is_none_or(|until| now >= until) {
            let path = paths.lookup(IpAddr::from(destination)).ok();
            let fib = path.map(|path| Fib { mtu: path.mtu, source: Address::from(path.source) });
            let until = Some(now + FIB_TIME);
            *slot = Path { destination, fib, until };
        }
        slot.fib
    }
}

fn slot_of(destination: Address) -> usize {
    let [low, high] = destination.words();
    // Only spreads paths over slots; it is no part of the selection.
    usize::try_from(balance::hash::hash(0, [low, high])).unwrap_or(0) % FIB_SLOTS
}

/// The tables for one batch: a snapshot, and the thread's own state.
#[derive(Debug)]
pub struct View<'a> {
    /// The snapshot that holds for the whole batch.
    pub snapshot: &'a Snapshot,
    /// The thread's own state.
    pub host: &'a mut Host,
}

impl Tables for View<'_> {
    fn fib(&mut self, destination: Address) -> Option<Fib> {
        self.host.fib(destination)
    }

    fn identification(&mut self, _: Address) -> u16 {
        // One sequence for all destinations: a value recurs after 65,535 packets. Never 0, which
        // would hand the choice to the kernel.
        self.host.identification = self.host.identification.checked_add(1).unwrap_or(1);
        self.host.identification
    }

    fn admit(&mut self, budget: Budget) -> bool {
        let now = self.host.now;
        match budget {
            Budget::Answer => self.host.answers.take(now),
            Budget::Everyone => self.host.copies.take(now),
        }
    }
}

impl gre::Tables for View<'_> {
    fn service(&self) -> Service {
        self.snapshot.service
    }

    fn row(&self, row: u16) -> Option<u16> {
        self.snapshot.row(row)
    }

    fn backend(&self, index: u16) -> Option<Address> {
        self.snapshot.backends.get(usize::from(index)).map(|backend| backend.address)
    }

    fn backend_of(&self, address: Address) -> Option<u16> {
        self.snapshot.by_address.get(&address).copied()
    }

    fn in_pool(&self, address: Address) -> bool {
        let IpAddr::V4(v4) = IpAddr::from(address) else { return false };
        self.snapshot.pool_prefixes.iter().any(|prefix| prefix.contains(&v4))
    }

    fn claim(&mut self, client: Address, key: u32, hash: u64) -> Option<Address> {
        let Host { clients, now, .. } = &mut *self.host;
        clients.claim(&self.snapshot.pool, client, key, hash, *now)
    }

    fn pool_address(&self, client: Address, key: u32) -> Option<Address> {
        self.host.clients.pool_address(client, key)
    }

    fn client(&mut self, pool: Address, key: u32) -> Option<Address> {
        let now = self.host.now;
        self.host.clients.client(pool, key, now)
    }
}

/// A token bucket: `rate` a second, and a burst of as many.
#[derive(Debug)]
struct Bucket {
    rate: u32,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn new(rate: u32, now: Instant) -> Self {
        Self { rate, tokens: f64::from(rate), filled: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let rate = f64::from(self.rate);
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + elapsed * rate).min(rate);
        self.filled = now;
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_its_rate_through_and_no_more() {
        #[expect(clippy::disallowed_methods, reason = "virtual time needs a beginning")]
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        let burst = (0..100).filter(|_| bucket.take(start)).count();
        assert_eq!(burst, 10);
        let later = start + Duration::from_millis(500);
        assert_eq!((0..100).filter(|_| bucket.take(later)).count(), 5);
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| bucket.take(much_later)).count(), 10);
        assert_eq!((0..5).filter(|_| Bucket::new(0, start).take(much_later)).count(), 0);
    }
}
