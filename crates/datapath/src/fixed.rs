//! Tables of fixed values, for tests, fuzzing and comparisons: every answer is a field.

use crate::gre::{self, Returns, Service};
use crate::{Budget, Fib, Tables};
use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::vec::Vec;
use wire::{Address, Family};

/// A world that changes only where the packet core changes it.
#[derive(Clone, Debug)]
pub struct FixedTables {
    /// The frontend's parameters.
    pub service: Service,
    /// All backends.
    pub backends: Vec<Address>,
    /// The winner of row `r` is the entry at `r` modulo the length; none if there is no entry.
    pub winners: Vec<u16>,
    /// The MTU towards every destination without one in `mtu_to`; `None`: there is no route.
    pub mtu: Option<u32>,
    /// The MTU towards single destinations.
    pub mtu_to: HashMap<Address, u32>,
    /// How many more answers are admitted.
    pub answers: u32,
    /// How many more errors for every backend are admitted.
    pub copies: u32,
    /// The identification handed out last.
    pub identification: u16,
    /// The pool.
    pub pool: Vec<Address>,
    /// Which client a pool address and key stand for.
    pub clients: HashMap<(Address, u32), Address>,
    /// The pairs of pool address and key whose clients were answered, in order.
    pub refreshed: Vec<(Address, u32)>,
    /// The row that was asked for last.
    pub asked: Cell<Option<u16>>,
}

impl FixedTables {
    /// A frontend with these backends, all healthy, every MTU 1500, budgets for 100 messages of
    /// each kind, no pool, and no way back from the other family.
    pub fn new(frontend: IpAddr, backends: &[IpAddr]) -> Self {
        let frontend = Address::from(frontend);
        let backends: Vec<_> = backends.iter().copied().map(Address::from).collect();
        Self {
            service: Service { frontend, key_mask: u32::MAX, returns: Returns::None },
            winners: (0..).zip(&backends).map(|(index, _)| index).collect(),
            backends,
            mtu: Some(1500),
            mtu_to: HashMap::new(),
            answers: 100,
            copies: 100,
            identification: 0,
            pool: Vec::new(),
            clients: HashMap::new(),
            refreshed: Vec::new(),
            asked: Cell::new(None),
        }
    }

    /// The host's own source address, towards every destination of a family: 10.255.0.9 or
    /// 2001:db8:ed::9.
    pub const fn source(family: Family) -> Address {
        match family {
            Family::V4 => Address::v4([10, 255, 0, 9]),
            Family::V6 => Address::v6([0x20, 1, 0xd, 0xb8, 0, 0xed, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]),
        }
    }

    /// The same, with backends of the other family returning through this /96.
    pub fn with_prefix(mut self, prefix: IpAddr) -> Self {
        self.service.returns = Returns::Prefix(Address::from(prefix).high12());
        self
    }

    /// The same, with backends of the other family returning through these addresses.
    pub fn with_pool(mut self, pool: &[IpAddr]) -> Self {
        self.service.returns = Returns::Pool;
        self.pool = pool.iter().copied().map(Address::from).collect();
        self
    }
}

impl Tables for FixedTables {
    fn fib(&mut self, destination: Address) -> Option<Fib> {
        let mtu = self.mtu_to.get(&destination).copied().or(self.mtu)?;
        Some(Fib { mtu, source: Self::source(destination.family()) })
    }

    fn identification(&mut self, _: Address) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    fn admit(&mut self, budget: Budget) -> bool {
        let left = match budget {
            Budget::Answer => &mut self.answers,
            Budget::Everyone => &mut self.copies,
        };
        let admitted = *left > 0;
        *left = left.saturating_sub(1);
        admitted
    }
}

impl gre::Tables for FixedTables {
    fn service(&self) -> Service {
        self.service
    }

    fn row(&self, row: u16) -> Option<u16> {
        self.asked.set(Some(row));
        let place = usize::from(row).checked_rem(self.winners.len())?;
        self.winners.get(place).copied()
    }

    fn backend(&self, index: u16) -> Option<Address> {
        self.backends.get(usize::from(index)).copied()
    }

    fn backend_of(&self, address: Address) -> Option<u16> {
        let place = self.backends.iter().position(|backend| *backend == address)?;
        u16::try_from(place).ok()
    }

    fn in_pool(&self, address: Address) -> bool {
        self.pool.contains(&address)
    }

    fn claim(&mut self, client: Address, key: u32, hash: u64) -> Option<Address> {
        if let Some(recorded) = gre::Tables::pool_address(self, client, key) {
            return Some(recorded);
        }
        let size = u64::try_from(self.pool.len()).ok()?;
        let first = usize::try_from(hash.checked_rem(size)?).ok()?;
        let from_first = self.pool.iter().cycle().skip(first).take(self.pool.len());
        let free = from_first.copied().find(|pool| !self.clients.contains_key(&(*pool, key)))?;
        self.clients.insert((free, key), client);
        Some(free)
    }

    fn pool_address(&self, client: Address, key: u32) -> Option<Address> {
        let mine = |pool: &&Address| self.clients.get(&(**pool, key)) == Some(&client);
        self.pool.iter().find(mine).copied()
    }

    fn client(&self, pool: Address, key: u32) -> Option<Address> {
        self.clients.get(&(pool, key)).copied()
    }

    fn refresh(&mut self, pool: Address, key: u32) {
        self.refreshed.push((pool, key));
    }
}
