//! The packet core's tables on the host: the snapshot, the kernel's path MTUs, recorded clients
//! and the budgets of our own messages.

use crate::clients::Clients;
use crate::paths::Paths;
use crate::snapshot::Snapshot;
use datapath::gre::{self, Service};
use datapath::{Budget, Fib, Tables};
use netio::path;
use std::net::IpAddr;
use std::time::Instant;
use wire::Address;

/// Mutable state of the packet thread behind the tables.
#[derive(Debug)]
pub struct Host {
    paths: Paths,
    /// Clients behind the pool.
    pub clients: Clients,
    answers: Bucket,
    copies: Bucket,
    identification: u16,
    /// The time of the batch at hand.
    pub now: Instant,
}

impl Host {
    /// `error_rate` is messages per second of each kind.
    pub fn new(clients: Clients, error_rate: u32, now: Instant) -> Self {
        Self {
            paths: Paths::default(),
            clients,
            answers: Bucket::new(error_rate, now),
            copies: Bucket::new(error_rate, now),
            identification: 0,
            now,
        }
    }

    /// Changes the rate of our own messages.
    pub fn set_error_rate(&mut self, error_rate: u32) {
        self.answers.rate = error_rate;
        self.copies.rate = error_rate;
    }

    /// Forgets the path to a destination: the kernel has just learned something about it.
    pub fn forget_path(&mut self, destination: Address) {
        self.paths.forget(destination);
    }
}

/// Asks the kernel.
fn look_up(destination: Address) -> Option<Fib> {
    let path = path::lookup(IpAddr::from(destination)).ok()?;
    Some(Fib { mtu: path.mtu, source: Address::from(path.source) })
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
        let now = self.host.now;
        self.host.paths.get(destination, now, look_up)
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
            Budget::Answer => self.host.answers.take(1, now),
            // One message becomes as many as there are healthy backends, and costs as much.
            Budget::Everyone => self.host.copies.take(self.snapshot.up.len(), now),
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

    fn client(&self, pool: Address, key: u32) -> Option<Address> {
        self.host.clients.client(pool, key)
    }

    fn refresh(&mut self, pool: Address, key: u32) {
        let now = self.host.now;
        self.host.clients.refresh(pool, key, now);
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

    /// Takes `count` messages if there is any left; what goes beyond is owed.
    fn take(&mut self, count: usize, now: Instant) -> bool {
        let rate = f64::from(self.rate);
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + elapsed * rate).min(rate);
        self.filled = now;
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= count as f64;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_lets_its_rate_through_and_no_more() {
        #[expect(clippy::disallowed_methods, reason = "virtual time needs a beginning")]
        let start = Instant::now();
        let mut bucket = Bucket::new(10, start);
        let burst = (0..100).filter(|_| bucket.take(1, start)).count();
        assert_eq!(burst, 10);
        let later = start + Duration::from_millis(500);
        assert_eq!((0..100).filter(|_| bucket.take(1, later)).count(), 5);
        let much_later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| bucket.take(1, much_later)).count(), 10);
        assert_eq!((0..5).filter(|_| Bucket::new(0, start).take(1, much_later)).count(), 0);
    }

    #[test]
    fn a_message_that_becomes_many_is_paid_for_before_the_next() {
        #[expect(clippy::disallowed_methods, reason = "virtual time needs a beginning")]
        let start = Instant::now();
        let mut bucket = Bucket::new(100, start);
        assert!(bucket.take(4_096, start));
        // 3,996 are owed, at 100 a second.
        assert!(!bucket.take(4_096, start + Duration::from_secs(39)));
        assert!(bucket.take(4_096, start + Duration::from_secs(41)));
    }
}
