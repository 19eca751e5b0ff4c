//! What the balancer asks of the world: maps and helpers in the kernel, plain memory on the host.
//!
//! Every method is one access; what is done with the answers is the same code everywhere.

use super::layout::{
    BUCKET, Backend, Entry, Hop, Interface, Owned, Row, Service, ServiceKey, Session, Settings,
    Source,
};
use super::{DropReason, Packet};
use core::ops::DerefMut;
use wire::Address;

/// The tables of the balancer.
pub trait Tables {
    /// A bucket of the session index.
    type Bucket<'a>: Bucket
    where
        Self: 'a;
    /// A session.
    type Record<'a>: Record
    where
        Self: 'a;
    /// The way to a backend.
    type Way<'a>: DerefMut<Target = Hop>
    where
        Self: 'a;

    /// What holds for every packet.
    fn settings(&self) -> Option<&Settings>;
    /// A clock for the age of sessions; its unit is the shell's.
    fn tick(&self) -> u32;
    /// The clock since the machine started, sleep included.
    fn boot_ns(&self) -> u64;
    /// The interface that the frame came in by, if we serve it.
    fn interface(&self) -> Option<&Interface>;

    /// What the address is to us.
    fn owned(&self, address: &Address) -> Option<&Owned>;
    /// The service of exactly this key.
    fn service(&self, key: &ServiceKey) -> Option<&Service>;
    /// The only service that this backend's address and port stand behind, keeping the clients'
    /// addresses.
    fn origin(&self, key: &ServiceKey) -> Option<&ServiceKey>;
    /// A row of the arena.
    fn row(&self, at: u32) -> Option<Row>;
    /// A member of the arena: a backend's id.
    fn member(&self, at: u32) -> Option<u32>;
    /// A backend.
    fn backend(&self, id: u32) -> Option<&Backend>;
    /// The way to a backend, as it was last looked up.
    fn way(&self, id: u32) -> Option<Self::Way<'_>>;
    /// An address to translate clients' addresses to.
    fn source(&self, at: u32) -> Option<&Source>;

    /// The bucket that this number names, whatever the number of buckets.
    fn bucket(&self, number: u32) -> Option<Self::Bucket<'_>>;
    /// A session's record.
    fn record(&self, session: u32) -> Option<Self::Record<'_>>;
    /// A record that nobody uses.
    fn take(&self) -> Option<u32>;
    /// Counts one more half-open session, unless there are as many as are allowed.
    fn open_half(&self) -> bool;
    /// Counts one half-open session less.
    fn close_half(&self);

    /// Looks up the way for the packet once it has these addresses, and enters it but for its
    /// generation.
    ///
    /// # Errors
    /// Why there is none; what was known stays.
    fn route(
        &self,
        packet: &Packet,
        source: &Address,
        destination: &Address,
        hop: &mut Hop,
    ) -> Result<(), DropReason>;
    /// Takes one answer of our own out of the budget; `false` if it is used up.
    fn admit(&self) -> bool;
    /// Asks for the Ethernet address of the next hop towards this destination.
    fn want_neighbour(&self, destination: &Address);
    /// Counts a packet towards the backend, or from it.
    fn count(&self, backend: u32, direction: super::Direction, octets: u16);
    /// Counts a new session of the backend.
    fn count_session(&self, backend: u32);
}

/// One bucket of the session index, shared with other processors.
pub trait Bucket {
    /// The entry at this place, below [`BUCKET`].
    fn get(&self, place: usize) -> Entry;
    /// Puts `new` at this place if `old` is still there.
    fn exchange(&self, place: usize, old: Entry, new: Entry) -> bool;
}

/// One session, shared with other processors.
pub trait Record: DerefMut<Target = Session> {
    /// Sets bits of the state, and tells which were set before.
    fn set_state(&mut self, bits: u32) -> u32;
}

/// Every place of a bucket.
pub(super) const PLACES: core::ops::Range<usize> = 0..BUCKET;
