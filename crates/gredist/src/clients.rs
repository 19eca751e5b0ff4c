//! Clients behind the pool: which pool address and key stand for which IPv6 client.
//!
//! A pair of pool address and key names one client. A client's pair is searched from the flow's
//! hash on, so that it is the same on every node as long as no two clients of one key meet, and
//! it stays its own until it has been silent for the timeout. Memory is bounded by the limit.
//! Time is an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};
use wire::Address;

/// The record of all clients.
#[derive(Debug)]
pub struct Clients {
    timeout: Duration,
    limit: usize,
    by_client: HashMap<(Address, u32), Record>,
    by_pool: HashMap<(Address, u32), Address>,
    next_sweep: Option<Instant>,
    /// Until when a full record is not searched for silent clients again.
    full_until: Option<Instant>,
    /// Keys without a free pair, until when they are not searched again. There are at most as
    /// many as the limit has whole pools.
    exhausted: HashMap<u32, Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    pool: Address,
    last_seen: Instant,
}

/// How long a refusal holds before the next search: a flood of new clients must cost nothing.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// How often silent clients are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

impl Clients {
    /// No clients yet; at most `limit`, each forgotten after `timeout` of silence.
    pub fn new(timeout: Duration, limit: usize) -> Self {
        Self {
            timeout,
            limit,
            by_client: HashMap::new(),
            by_pool: HashMap::new(),
            next_sweep: None,
            full_until: None,
            exhausted: HashMap::new(),
        }
    }

    /// Applies a new configuration: clients whose pool address is gone are forgotten.
    pub fn reconfigure(&mut self, timeout: Duration, limit: usize, pool: &[Address]) {
        (self.timeout, self.limit) = (timeout, limit);
        let pool: std::collections::HashSet<_> = pool.iter().collect();
        self.retain(|record| pool.contains(&record.pool));
        self.exhausted.clear();
        self.full_until = None;
    }

    /// The client's pool address: the recorded one, or the first from `hash` on whose pair with
    /// the key is free. `None` if every pair is taken or the record is full. A refusal costs no
    /// search: a key without a free pair, and a full record, are looked at again after a second.
    pub fn claim(
        &mut self,
        pool: &[Address],
        client: Address,
        key: u32,
        hash: u64,
        now: Instant,
    ) -> Option<Address> {
        if let Some(record) = self.by_client.get_mut(&(client, key)) {
            record.last_seen = now;
            return Some(record.pool);
        }
        if self.by_client.len() >= self.limit {
            if self.full_until.is_some_and(|until| now < until) {
                return None;
            }
            self.sweep(now);
            self.full_until = Some(now + REFUSAL_TIME);
            if self.by_client.len() >= self.limit {
                return None;
            }
        }
        if self.exhausted.get(&key).is_some_and(|until| now < *until) {
            return None;
        }
        let modulus = u64::try_from(pool.len()).ok().filter(|size| *size > 0)?;
        let first = usize::try_from(hash % modulus).ok()?;
        let (before, after) = pool.split_at_checked(first)?;
        let free = after.iter().chain(before).find(|a| self.is_free(**a, key, now)).copied();
        let Some(free) = free else {
            self.exhausted.insert(key, now + REFUSAL_TIME);
            return None;
        };
        if let Some(silent) = self.by_pool.remove(&(free, key)) {
            self.by_client.remove(&(silent, key));
        }
        self.by_client.insert((client, key), Record { pool: free, last_seen: now });
        self.by_pool.insert((free, key), client);
        Some(free)
    }

    /// The pool address recorded for a client and key.
    pub fn pool_address(&self, client: Address, key: u32) -> Option<Address> {
        self.by_client.get(&(client, key)).map(|record| record.pool)
    }

    /// The client that a pool address and key stand for.
    pub fn client(&self, pool: Address, key: u32) -> Option<Address> {
        self.by_pool.get(&(pool, key)).copied()
    }

    /// The client that a pool address and key stand for is not silent.
    pub fn refresh(&mut self, pool: Address, key: u32, now: Instant) {
        let record = self.client(pool, key).and_then(|c| self.by_client.get_mut(&(c, key)));
        if let Some(record) = record {
            record.last_seen = now;
        }
    }

    /// Forgets silent clients, now and then.
    pub fn handle_time(&mut self, now: Instant) {
        if self.next_sweep.is_none_or(|at| now >= at) {
            self.sweep(now);
            self.next_sweep = Some(now + SWEEP_INTERVAL);
        }
    }

    /// Clients recorded.
    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// Whether no client is recorded.
    pub fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    fn is_free(&self, pool: Address, key: u32, now: Instant) -> bool {
        let holder = self.by_pool.get(&(pool, key));
        let record = holder.and_then(|client| self.by_client.get(&(*client, key)));
        record.is_none_or(|record| self.is_silent(record, now))
    }

    fn is_silent(&self, record: &Record, now: Instant) -> bool {
        now.saturating_duration_since(record.last_seen) >= self.timeout
    }

    fn sweep(&mut self, now: Instant) {
        let timeout = self.timeout;
        self.retain(|record| now.saturating_duration_since(record.last_seen) < timeout);
        self.exhausted.retain(|_, until| now < *until);
    }

    fn retain(&mut self, keep: impl Fn(&Record) -> bool) {
        let by_pool = &mut self.by_pool;
        self.by_client.retain(|(_, key), record| {
            let kept = keep(record);
            if !kept {
                by_pool.remove(&(record.pool, *key));
            }
            kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(size: u8) -> Vec<Address> {
        (0..size).map(|n| Address::v4([192, 0, 2, n])).collect()
    }

    fn client(n: u16) -> Address {
        let [high, low] = n.to_be_bytes();
        Address::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low])
    }

    fn start() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "virtual time needs a beginning")]
        Instant::now()
    }

    const TIMEOUT: Duration = Duration::from_secs(300);

    #[test]
    fn a_taken_pair_uses_the_next_address_and_the_last_one_is_refused() {
        let (pool, now) = (pool(3), start());
        let mut clients = Clients::new(TIMEOUT, 100);
        let claimed: Vec<_> = (0..4).map(|n| clients.claim(&pool, client(n), 7, 1, now)).collect();
        assert_eq!(claimed, [Some(pool[1]), Some(pool[2]), Some(pool[0]), None]);
        // Another key is another pair.
        assert_eq!(clients.claim(&pool, client(3), 8, 1, now), Some(pool[1]));
        assert_eq!(clients.client(pool[2], 7), Some(client(1)));
        assert_eq!(clients.client(pool[2], 9), None);
    }

    #[test]
    fn a_client_keeps_its_address_when_an_earlier_one_falls_free() {
        let (pool, now) = (pool(2), start());
        let mut clients = Clients::new(TIMEOUT, 100);
        clients.claim(&pool, client(0), 7, 0, now);
        assert_eq!(clients.claim(&pool, client(1), 7, 0, now), Some(pool[1]));
        let later = now + TIMEOUT;
        clients.refresh(pool[1], 7, later - Duration::from_secs(1));
        clients.handle_time(later);
        assert_eq!(clients.len(), 1);
        assert_eq!(clients.claim(&pool, client(1), 7, 0, later), Some(pool[1]));
    }

    #[test]
    fn a_silent_client_gives_its_pair_away_and_one_that_is_answered_does_not() {
        let (pool, now) = (pool(1), start());
        let mut clients = Clients::new(TIMEOUT, 100);
        clients.claim(&pool, client(0), 7, 0, now);
        let almost = now + TIMEOUT - Duration::from_millis(1);
        assert_eq!(clients.claim(&pool, client(1), 7, 0, almost), None);
        clients.refresh(pool[0], 7, almost);
        assert_eq!(clients.claim(&pool, client(1), 7, 0, now + TIMEOUT), None);
        assert_eq!(clients.claim(&pool, client(1), 7, 0, almost + TIMEOUT), Some(pool[0]));
        assert_eq!(clients.pool_address(client(0), 7), None);
    }

    #[test]
    fn the_record_never_grows_past_its_limit() {
        let (pool, now) = (pool(4), start());
        let mut clients = Clients::new(TIMEOUT, 2);
        assert!(clients.claim(&pool, client(0), 7, 0, now).is_some());
        assert!(clients.claim(&pool, client(1), 7, 0, now).is_some());
        assert_eq!(clients.claim(&pool, client(2), 7, 0, now), None);
        assert!(clients.claim(&pool, client(2), 7, 0, now + TIMEOUT).is_some());
    }

    #[test]
    fn a_pool_address_that_is_gone_takes_its_clients_along() {
        let (old, now) = (pool(2), start());
        let mut clients = Clients::new(TIMEOUT, 9);
        clients.claim(&old, client(0), 7, 0, now);
        clients.claim(&old, client(1), 7, 1, now);
        clients.reconfigure(TIMEOUT, 9, &old[1..]);
        assert_eq!(clients.pool_address(client(0), 7), None);
        assert_eq!(clients.pool_address(client(1), 7), Some(old[1]));
    }

    #[test]
    fn a_flood_of_refused_clients_costs_no_search() {
        let (pool, now) = (pool(4), start());
        let mut clients = Clients::new(TIMEOUT, 100);
        (0..4).for_each(|n| assert!(clients.claim(&pool, client(n), 7, 0, now).is_some()));
        assert_eq!(clients.claim(&pool, client(9), 7, 0, now), None);
        // Silent pairs are not even looked at until the refusal is over.
        clients.exhausted.insert(7, now + TIMEOUT + Duration::from_secs(1));
        assert_eq!(clients.claim(&pool, client(9), 7, 0, now + TIMEOUT), None);
        let over = now + TIMEOUT + Duration::from_secs(1);
        assert!(clients.claim(&pool, client(9), 7, 0, over).is_some());
    }

    proptest! {
        #[test]
        fn two_clients_never_share_a_pair(
            events in proptest::collection::vec((0u16..12, 0u32..3, any::<u64>(), 0u64..200), 1..200),
        ) {
            let pool = pool(4);
            let mut clients = Clients::new(TIMEOUT, 20);
            let mut now = start();
            for (number, key, hash, seconds) in events {
                now += Duration::from_secs(seconds);
                clients.handle_time(now);
                if let Some(address) = clients.claim(&pool, client(number), key, hash, now) {
                    prop_assert_eq!(clients.client(address, key), Some(client(number)));
                }
                prop_assert_eq!(clients.by_client.len(), clients.by_pool.len());
                prop_assert!(clients.len() <= 20);
            }
        }
    }
}
