//! What the packet thread reads: compiled, immutable, published whole by one swap.
//!
//! Counters of a backend live in an `Arc` that is carried from snapshot to snapshot by its
//! address, so that they survive every reload.

use crate::config::{BackendConfig, Config};
use crate::statistics::BackendCounters;
use balance::hash::hash;
use balance::rendezvous::{Candidate, NO_WINNER, Rows};
use datapath::gre::{Returns, Service};
use ipnet::{IpNet, Ipv4Net};
use std::collections::HashMap;
use std::sync::Arc;
use wire::Address;

/// Seed of the hash that turns a backend's address into its name in the selection.
const NAME_SEED: u64 = 0x6e_616d65;

/// A backend as the packet thread knows it.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Where its packets go.
    pub address: Address,
    /// What it got and gave.
    pub counters: Arc<BackendCounters>,
}

/// One state of the world.
#[derive(Debug)]
pub struct Snapshot {
    /// Frontend, key mask and way back.
    pub service: Service,
    /// All configured backends, in the order that the rows' indices mean.
    pub backends: Arc<[Backend]>,
    /// The winner of each row.
    pub winners: Box<[u16]>,
    /// The healthy backends.
    pub up: Box<[u16]>,
    /// Backends by address.
    pub by_address: Arc<HashMap<Address, u16>>,
    /// The pool's addresses, in configured order.
    pub pool: Arc<[Address]>,
    /// The prefixes that they come from.
    pub pool_prefixes: Arc<[Ipv4Net]>,
}

impl Snapshot {
    /// The backend that has won the row.
    #[inline]
    pub fn row(&self, row: u16) -> Option<u16> {
        self.winners.get(usize::from(row)).copied().filter(|winner| *winner != NO_WINNER)
    }
}

/// The candidate that stands for a backend in the selection, the same on every node.
pub fn candidate(backend: &BackendConfig) -> Candidate {
    let [low, high] = Address::from(backend.address).words();
    Candidate { id: hash(NAME_SEED, [low, high]), weight: backend.weight }
}

/// All candidates of a configuration, in the order of its backends.
pub fn candidates(config: &Config) -> Vec<Candidate> {
    config.backends.iter().map(candidate).collect()
}

/// The selection of a configuration: its rows, to be told who is up.
pub fn rows(config: &Config) -> Rows {
    Rows::new(&candidates(config))
}

/// The parts of a snapshot that only a new configuration changes.
#[derive(Debug)]
pub struct Compiled {
    service: Service,
    backends: Arc<[Backend]>,
    by_address: Arc<HashMap<Address, u16>>,
    pool: Arc<[Address]>,
    pool_prefixes: Arc<[Ipv4Net]>,
}

impl Compiled {
    /// Compiles a configuration; backends that `previous` has keep their counters.
    pub fn new(config: &Config, previous: Option<&Self>) -> Self {
        let counters_of = |address: Address| {
            let kept = previous.and_then(|old| old.by_address.get(&address).map(|i| (old, *i)));
            let kept = kept.and_then(|(old, index)| old.backends.get(usize::from(index)));
            kept.map(|backend| Arc::clone(&backend.counters)).unwrap_or_default()
        };
        let backends: Arc<[Backend]> = config
            .backends
            .iter()
            .map(|backend| Address::from(backend.address))
            .map(|address| Backend { address, counters: counters_of(address) })
            .collect();
        let by_address = backends.iter().map(|backend| backend.address).zip(0..).collect();
        let returns = match (&config.prefix, config.pool.is_empty()) {
            (Some(prefix), _) => Returns::Prefix(Address::from(prefix.network()).high12()),
            (None, false) => Returns::Pool,
            (None, true) => Returns::None,
        };
        let pool_prefixes: Arc<[Ipv4Net]> = config
            .pool
            .iter()
            .filter_map(|net| match net {
                IpNet::V4(v4) => Some(*v4),
                IpNet::V6(_) => None,
            })
            .collect();
        let frontend = Address::from(config.frontend);
        Self {
            service: Service { frontend, key_mask: config.key_mask, returns },
            backends,
            by_address: Arc::new(by_address),
            pool: pool_addresses(&pool_prefixes),
            pool_prefixes,
        }
    }

    /// The snapshot in which the rows are won as given.
    pub fn snapshot(&self, rows: &Rows) -> Snapshot {
        Snapshot {
            service: self.service,
            backends: Arc::clone(&self.backends),
            winners: rows.winners().into(),
            up: (0..)
                .zip(self.backends.iter())
                .map(|(i, _)| i)
                .filter(|i| rows.is_present(*i))
                .collect(),
            by_address: Arc::clone(&self.by_address),
            pool: Arc::clone(&self.pool),
            pool_prefixes: Arc::clone(&self.pool_prefixes),
        }
    }

    /// The pool's addresses.
    pub fn pool(&self) -> Arc<[Address]> {
        Arc::clone(&self.pool)
    }

    /// All backends, with their counters.
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }
}

/// Every address of the pool's prefixes, network and broadcast addresses included: they are
/// routed to this host as a whole, and lie on no link.
fn pool_addresses(prefixes: &[Ipv4Net]) -> Arc<[Address]> {
    let ranges = prefixes.iter().map(|net| net.network().to_bits()..=net.broadcast().to_bits());
    ranges.flatten().map(|bits| Address::v4(bits.to_be_bytes())).collect()
}
