//! The balancer's tables in plain memory: for tests, for the comparison with the kernel's build,
//! and for explaining a packet without sending one.

mod adopt;

pub use adopt::Held;

use super::index::Hash;
use super::layout::{
    BUCKET, Backend, Direction, Entry, FlowKey, Hop, Interface, Owned, Row, Service, ServiceKey,
    Session, Settings, Source, Traffic, session_state,
};
use super::{Bucket, DropReason, Packet, Record, Tables, index};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::vec;
use std::vec::Vec;
use wire::Address;

/// A world that changes only where the packet core changes it.
#[derive(Debug)]
pub struct HostTables {
    /// What holds for every packet.
    pub settings: Settings,
    /// Index of the interface that frames come in by.
    pub ingress: u32,
    /// The interfaces that are served.
    pub interfaces: Vec<Interface>,
    /// The addresses that are ours.
    pub owned: HashMap<Address, Owned>,
    /// The services.
    pub services: HashMap<ServiceKey, Service>,
    /// The only service behind which a backend's address and port stand.
    pub origins: HashMap<ServiceKey, ServiceKey>,
    /// The arena of rows.
    pub rows: Vec<Row>,
    /// The arena of members.
    pub members: Vec<u32>,
    /// The backends.
    pub backends: Vec<Backend>,
    /// The translation addresses.
    pub sources: Vec<Source>,
    /// The way to each destination, and what the routing table says of all others.
    pub routes: HashMap<Address, Result<Hop, DropReason>>,
    /// The clock of session ages.
    pub tick: u32,
    /// The clock since the machine started.
    pub boot_ns: u64,
    /// Destinations whose neighbour was asked for, in order.
    pub wanted: RefCell<Vec<Address>>,
    ways: RefCell<Vec<Hop>>,
    traffic: RefCell<Vec<Traffic>>,
    index: Vec<[Cell<Entry>; BUCKET]>,
    sessions: Vec<RefCell<Session>>,
    free: RefCell<VecDeque<u32>>,
    half_open: Cell<u64>,
    /// How many more answers of our own are admitted.
    pub answers: Cell<u32>,
}

impl HostTables {
    /// A node without services, with room for `sessions` sessions and `backends` backends; the
    /// index has as many buckets as the loader gives it.
    #[must_use]
    pub fn new(sessions: u32, backends: u16) -> Self {
        Self::with_buckets(sessions, (sessions / 2).next_power_of_two().max(2), backends)
    }

    /// The same with an index of so many buckets, a power of two.
    #[must_use]
    pub fn with_buckets(sessions: u32, buckets: u32, backends: u16) -> Self {
        let empty: fn() -> [Cell<Entry>; BUCKET] =
            || std::array::from_fn(|_| Cell::new(Entry::EMPTY));
        Self {
            settings: Settings {
                seed: 0,
                generation: 1,
                half_open_limit: u32::MAX,
                capture_until: 0,
                capture_every: 0,
            },
            ingress: 1,
            interfaces: Vec::new(),
            owned: HashMap::new(),
            services: HashMap::new(),
            origins: HashMap::new(),
            rows: Vec::new(),
            members: Vec::new(),
            backends: Vec::new(),
            sources: Vec::new(),
            routes: HashMap::new(),
            tick: 0,
            boot_ns: 0,
            wanted: RefCell::default(),
            ways: RefCell::new(vec![Hop::NONE; usize::from(backends)]),
            traffic: RefCell::new(vec![Traffic::default(); usize::from(backends)]),
            index: (0..buckets).map(|_| empty()).collect(),
            sessions: (0..sessions).map(|_| RefCell::new(Session::EMPTY)).collect(),
            free: RefCell::new((1..sessions).collect()),
            half_open: Cell::new(0),
            answers: Cell::new(u32::MAX),
        }
    }

    /// A copy of the session that has this key, and the key's direction.
    #[must_use]
    pub fn session(&self, key: &FlowKey) -> Option<(Session, Direction)> {
        let found = index::find(self, key, Hash::of(key, self.settings.seed))?;
        let record = self.record(found.session)?;
        Some((*record, found.direction))
    }

    /// Copies of all sessions in use.
    #[must_use]
    pub fn sessions(&self) -> Vec<Session> {
        let all = self.sessions.iter().map(|session| *session.borrow());
        all.filter(|session| session.state & session_state::LIVE != 0).collect()
    }

    /// The words of the index, bucket by bucket.
    #[must_use]
    pub fn index(&self) -> Vec<[u64; BUCKET]> {
        self.index.iter().map(|bucket| bucket.each_ref().map(|word| word.get().0)).collect()
    }

    /// Takes over the words of an index with as many buckets, as [`HostTables::index`] gives them.
    pub fn set_index(&mut self, words: &[[u64; BUCKET]]) {
        for (bucket, words) in self.index.iter_mut().zip(words) {
            *bucket = words.map(|word| Cell::new(Entry(word)));
        }
    }

    /// Sessions that nobody uses.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.borrow().len()
    }

    /// Half-open TCP sessions.
    #[must_use]
    pub fn half_open(&self) -> u64 {
        self.half_open.get()
    }

    /// The backend's counters.
    #[must_use]
    pub fn traffic(&self, backend: u16) -> Traffic {
        self.traffic.borrow().get(usize::from(backend)).copied().unwrap_or_default()
    }
}

/// A bucket in plain memory.
#[derive(Debug)]
pub struct HostBucket<'a>(&'a [Cell<Entry>; BUCKET]);

impl Bucket for HostBucket<'_> {
    fn get(&self, place: usize) -> Entry {
        self.0.get(place).map_or(Entry::EMPTY, Cell::get)
    }

    fn exchange(&self, place: usize, old: Entry, new: Entry) -> bool {
        let Some(word) = self.0.get(place).filter(|word| word.get() == old) else { return false };
        word.set(new);
        true
    }
}

/// A session in plain memory.
#[derive(Debug)]
pub struct HostRecord<'a>(RefMut<'a, Session>);

impl Deref for HostRecord<'_> {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.0
    }
}

impl DerefMut for HostRecord<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.0
    }
}

impl Record for HostRecord<'_> {
    fn set_state(&mut self, bits: u32) -> u32 {
        let before = self.0.state;
        self.0.state |= bits;
        before
    }
}

impl Tables for HostTables {
    type Bucket<'a> = HostBucket<'a>;
    type Record<'a> = HostRecord<'a>;
    type Way<'a> = RefMut<'a, Hop>;

    fn settings(&self) -> Option<&Settings> {
        Some(&self.settings)
    }

    fn tick(&self) -> u32 {
        self.tick
    }

    fn boot_ns(&self) -> u64 {
        self.boot_ns
    }

    fn interface(&self) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.index == self.ingress)
    }

    fn owned(&self, address: &Address) -> Option<&Owned> {
        self.owned.get(address)
    }

    fn service(&self, key: &ServiceKey) -> Option<&Service> {
        self.services.get(key)
    }

    fn origin(&self, key: &ServiceKey) -> Option<&ServiceKey> {
        self.origins.get(key)
    }

    fn row(&self, at: u32) -> Option<Row> {
        self.rows.get(usize::try_from(at).ok()?).copied()
    }

    fn member(&self, at: u32) -> Option<u32> {
        self.members.get(usize::try_from(at).ok()?).copied()
    }

    fn backend(&self, id: u32) -> Option<&Backend> {
        self.backends.get(usize::try_from(id).ok()?)
    }

    fn way(&self, id: u32) -> Option<RefMut<'_, Hop>> {
        let index = usize::try_from(id).ok()?;
        RefMut::filter_map(self.ways.try_borrow_mut().ok()?, |ways| ways.get_mut(index)).ok()
    }

    fn source(&self, at: u32) -> Option<&Source> {
        self.sources.get(usize::try_from(at).ok()?)
    }

    fn bucket(&self, number: u32) -> Option<HostBucket<'_>> {
        let mask = self.index.len() - 1;
        self.index.get(usize::try_from(number).ok()? & mask).map(HostBucket)
    }

    fn record(&self, session: u32) -> Option<HostRecord<'_>> {
        let record = self.sessions.get(usize::try_from(session).ok()?)?;
        record.try_borrow_mut().ok().map(HostRecord)
    }

    fn take(&self) -> Option<u32> {
        self.free.borrow_mut().pop_front()
    }

    fn open_half(&self) -> bool {
        let admitted = self.half_open.get() < u64::from(self.settings.half_open_limit);
        if admitted {
            self.half_open.set(self.half_open.get() + 1);
        }
        admitted
    }

    fn close_half(&self) {
        self.half_open.set(self.half_open.get().wrapping_sub(1));
    }

    fn route(
        &self,
        _: &Packet,
        _: &Address,
        destination: &Address,
        hop: &mut Hop,
    ) -> Result<(), DropReason> {
        let found = match self.routes.get(destination) {
            Some(found) => (*found)?,
            None => return Err(DropReason::RouteNotForwarded),
        };
        *hop = Hop { generation: hop.generation, ..found };
        Ok(())
    }

    fn admit(&self) -> bool {
        let left = self.answers.get();
        self.answers.set(left.saturating_sub(1));
        left > 0
    }

    fn want_neighbour(&self, destination: &Address) {
        self.wanted.borrow_mut().push(*destination);
    }

    fn count(&self, backend: u32, direction: Direction, octets: u16) {
        let mut traffic = self.traffic.borrow_mut();
        let place = usize::try_from(backend).ok();
        if let Some(traffic) = place.and_then(|at| traffic.get_mut(at)) {
            traffic.count(direction, octets);
        }
    }

    fn count_session(&self, backend: u32) {
        let mut traffic = self.traffic.borrow_mut();
        if let Some(traffic) = usize::try_from(backend).ok().and_then(|at| traffic.get_mut(at)) {
            traffic.sessions += 1;
        }
    }
}
