//! The state of a running node in plain memory: what its maps hold is copied, and nothing that
//! happens here reaches them.

use super::HostTables;
use crate::lb::layout::{BUCKET, Entry, Hop, Session};
use std::cell::{Cell, RefCell};
use std::vec::Vec;

/// What a node holds of its sessions, and of the ways to its backends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The words of the index, bucket by bucket; the number of buckets is a power of two.
    pub index: Vec<[u64; BUCKET]>,
    /// The sessions, in use or not.
    pub sessions: Vec<Session>,
    /// Those that nobody uses, the next one first.
    pub free: Vec<u32>,
    /// Half-open TCP sessions.
    pub half_open: u64,
    /// By backend, as they were last looked up.
    pub ways: Vec<Hop>,
}

impl HostTables {
    /// Puts this in the place of all sessions and ways.
    pub fn adopt(&mut self, held: Held) {
        let words = |bucket: [u64; BUCKET]| bucket.map(|word| Cell::new(Entry(word)));
        self.index = held.index.into_iter().map(words).collect();
        self.sessions = held.sessions.into_iter().map(RefCell::new).collect();
        self.free = RefCell::new(held.free.into());
        self.half_open = Cell::new(held.half_open);
        self.ways = RefCell::new(held.ways);
    }

    /// A copy of the session of this number, in use or not.
    #[must_use]
    pub fn session_at(&self, session: u32) -> Option<Session> {
        let record = self.sessions.get(usize::try_from(session).ok()?)?;
        record.try_borrow().ok().map(|record| *record)
    }
}
