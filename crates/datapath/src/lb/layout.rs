//! The records that the packet core shares with userspace through maps.
//!
//! Every type is `repr(C)` without padding, so that its octets are its value. Ports are in
//! network byte order, as in the packet; everything else is in the machine's.
//!
//! ```text
//! services: (VIP, port, protocol) -> Service -> rows[rows_at + row] -> first, second: pool-local
//!           members[members_at + local] -> backend id -> backends[id]
//! index:    buckets of 8 words: tag (32) | session (31) | direction (1)  ->  sessions[session]
//! ```

pub use super::session::{Session, session_flag, session_state};
use core::mem::offset_of;

use wire::Address;
use wire::ethernet::Mac;

/// A flow's 5-tuple as one direction of its packets shows it.
///
/// Without ports the fields hold: an echo's identifier as the port of the side that asks, and 0
/// for the other; 0 and 0 for other protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FlowKey {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Source port.
    pub source_port: [u8; 2],
    /// Destination port.
    pub destination_port: [u8; 2],
    /// IP protocol.
    pub protocol: u8,
    /// Zero.
    pub zero: [u8; 3],
}

/// What names a service; with the backend's address and port, what names a reply's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ServiceKey {
    /// The virtual address.
    pub address: Address,
    /// The port; 0 in the table stands for every port.
    pub port: [u8; 2],
    /// IP protocol.
    pub protocol: u8,
    /// Zero.
    pub zero: u8,
    /// Zero.
    pub zero_too: u32,
}

/// A service: which rows choose among which backends, and how packets are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Service {
    /// The first of its rows in the arena.
    pub rows_at: u32,
    /// How many rows; 0 while no backend may take a new flow.
    pub rows: u32,
    /// The first of its members in the arena.
    pub members_at: u32,
    /// Seconds for which a client stays with its backend; 0: a flow's ports count too.
    pub affinity_s: u32,
    /// [`service_flag`] bits.
    pub flags: u32,
}

/// Bits of [`Service::flags`].
pub mod service_flag {
    /// The backend sees the node as the client.
    pub const TWICE_NAT: u32 = 1;
    /// Each ICMP echo sequence number is a flow of its own.
    pub const ICMP_PER_SEQUENCE: u32 = 2;
    /// Sessions of a backend that is gone are reset.
    pub const RESET: u32 = 4;
}

/// A backend of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Backend {
    /// Its address.
    pub address: Address,
    /// Its port; 0: the port that the client asked for.
    pub port: [u8; 2],
    /// The largest TCP segment to agree on with it; 0: as both ends say.
    pub segment: u16,
    /// [`backend_flag`] bits.
    pub flags: u32,
    /// The first address to translate its clients' to, in [`Source`] records.
    pub sources_at: u32,
    /// How many of them.
    pub sources: u32,
}

/// Bits of [`Backend::flags`].
pub mod backend_flag {
    /// Takes new flows no longer: unhealthy or removed. Open TCP sessions may go on.
    pub const GONE: u32 = 1;
    /// Its open sessions are to be reset.
    pub const RESET: u32 = 2;
}

/// An address, and its ports, that clients' addresses are translated to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Source {
    /// The address.
    pub address: Address,
    /// The first port, in the machine's byte order.
    pub first_port: u16,
    /// The last port, not less than the first.
    pub last_port: u16,
    /// Zero.
    pub zero: u32,
}

/// One row of a table: two pool-local indices, of 15 bits each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Row(pub u32);

impl Row {
    const MOVING: u32 = 1 << 31;
    const INDEX: u32 = 0x7fff;

    /// A row that chooses `first`, and `second` in its place; in transition `second` is the
    /// previous owner. Indices are below 32,768.
    #[inline(always)]
    pub const fn new(first: u16, second: u16, moving: bool) -> Self {
        let word = first as u32 & Self::INDEX | (second as u32 & Self::INDEX) << 16;
        Self(if moving { word | Self::MOVING } else { word })
    }

    /// The first choice.
    #[inline(always)]
    pub const fn first(self) -> u32 {
        self.0 & Self::INDEX
    }

    /// The second choice, or the previous owner.
    #[inline(always)]
    pub const fn second(self) -> u32 {
        self.0 >> 16 & Self::INDEX
    }

    /// Whether the row is in transition.
    #[inline(always)]
    pub const fn is_moving(self) -> bool {
        self.0 & Self::MOVING != 0
    }
}

/// The way to the next machine, valid while nothing changed in the routing tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Hop {
    /// Destination and source Ethernet address, as a frame begins with them.
    pub addresses: [u8; 12],
    /// Index of the interface.
    pub interface: [u8; 4],
    /// The largest packet that the way takes, in octets of IP.
    pub mtu: [u8; 2],
    /// The VLAN to tag with; 0: none, [`Hop::SAME_VLAN`]: that of the packet.
    pub vlan: [u8; 2],
    /// [`Settings::generation`] when it was looked up.
    pub generation: [u8; 2],
}

impl Hop {
    /// In [`Hop::vlan`]: a packet that leaves by the interface that it came in by keeps its tag,
    /// any other has none.
    pub const SAME_VLAN: [u8; 2] = [0xff; 2];

    /// No way: of a generation that never is.
    pub const NONE: Self = Self {
        addresses: [0; 12],
        interface: [0; 4],
        mtu: [0; 2],
        vlan: [0; 2],
        generation: [0; 2],
    };

    /// Index of the interface.
    #[inline(always)]
    pub const fn interface(&self) -> u32 {
        u32::from_ne_bytes(self.interface)
    }

    /// The largest packet that the way takes.
    #[inline(always)]
    pub const fn mtu(&self) -> u16 {
        u16::from_ne_bytes(self.mtu)
    }
}

/// A word of the index: the upper half of the key's hash, a session and a direction. Zero is
/// empty; session 0 is never used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

/// Which of a session's two keys an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    Forward,
    /// From the backend.
    Reply,
}

impl Entry {
    /// Nothing.
    pub const EMPTY: Self = Self(0);

    /// The entry for one of a session's keys.
    #[inline(always)]
    pub const fn new(tag: u32, session: u32, direction: Direction) -> Self {
        let direction = match direction {
            Direction::Forward => 0,
            Direction::Reply => 1,
        };
        Self((tag as u64) << 32 | (session as u64) << 1 & 0xffff_ffff | direction)
    }

    /// The upper half of the key's hash.
    #[inline(always)]
    pub const fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The session.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    pub const fn session(self) -> u32 {
        (self.0 as u32) >> 1
    }

    /// Which of the session's keys.
    #[inline(always)]
    pub const fn direction(self) -> Direction {
        if self.0 & 1 == 0 { Direction::Forward } else { Direction::Reply }
    }
}

/// In the kernel a tick of the sessions' clock is this power of two of its jiffies: a quarter of a
/// second or so, so that a session in use is not written with every packet.
pub const TICK_SHIFT: u32 = 6;

/// Words of one bucket of the index: a cache line.
pub const BUCKET: usize = 8;

/// What an address is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Owned {
    /// The boot clock, in nanoseconds, from which on the address is another node's; `u64::MAX`
    /// for an address that is always ours.
    pub until_ns: u64,
    /// [`owned_kind`].
    pub kind: u32,
    /// Zero.
    pub zero: u32,
}

/// Values of [`Owned::kind`].
pub mod owned_kind {
    /// A virtual address.
    pub const VIRTUAL: u32 = 1;
    /// An address that clients' addresses are translated to.
    pub const SOURCE: u32 = 2;
}

/// An interface that the program is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Interface {
    /// Its index; 0 in an unused record.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Zero.
    pub zero: [u8; 6],
    /// Its IPv4 address, or the unspecified one: who tells of packets that go no further.
    pub v4: Address,
    /// Its IPv6 address, or the unspecified one.
    pub v6: Address,
}

/// Records of interfaces: the lower bits of an interface's index are its place.
pub const INTERFACES: u32 = 1024;

/// What holds for every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Settings {
    /// Secret seed of the session index, so that nobody can fill a bucket on purpose.
    pub seed: u64,
    /// Counts the changes of routes, neighbours and links; never 0.
    pub generation: u32,
    /// Half-open TCP sessions that may be open at a time.
    pub half_open_limit: u32,
    /// [`capture::deadline`] until which packets are captured; 0 while none are.
    ///
    /// [`capture::deadline`]: super::capture::deadline
    pub capture_until: u32,
    /// While packets are captured: every how many of those that are not dropped; 0 for none.
    pub capture_every: u32,
}

/// Levels that change with every session, shared by all processors.
///
/// Free sessions wait in a ring: userspace puts them in at the tail, the packet core takes them
/// out at the head. The ring has as many places as its power of two says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Levels {
    /// Sessions taken out of the ring, ever, modulo 2^64.
    pub taken: u64,
    /// Half-open TCP sessions.
    pub half_open: u64,
    /// Zero: the next field is on another cache line, as another side writes it.
    pub zero: [u64; 6],
    /// Sessions put into the ring, ever, modulo 2^64.
    pub freed: u64,
    /// Zero.
    pub zero_too: [u64; 7],
}

/// Packets and octets of one backend, by direction, and its new sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Traffic {
    /// Packets to the backend.
    pub packets_in: u64,
    /// Octets of IP to the backend.
    pub octets_in: u64,
    /// Packets from the backend.
    pub packets_out: u64,
    /// Octets of IP from the backend.
    pub octets_out: u64,
    /// Sessions that were opened.
    pub sessions: u64,
}

impl Traffic {
    /// Counts a packet of so many octets of IP.
    #[inline(always)]
    pub fn count(&mut self, direction: Direction, octets: u16) {
        match direction {
            Direction::Forward => {
                self.packets_in += 1;
                self.octets_in += u64::from(octets);
            }
            Direction::Reply => {
                self.packets_out += 1;
                self.octets_out += u64::from(octets);
            }
        }
    }
}

/// Changes whenever a record or a hash of another build would be read wrongly: sizes and places of
/// every field, the version of what they mean, and of the hash that names rows.
#[must_use]
pub const fn abi() -> u64 {
    /// To be raised when a field means something else at the same place.
    const MEANING: usize = 1;
    let parts = [
        MEANING,
        balance::hash::HASH_VERSION as usize,
        size_of::<Service>(),
        offset_of!(Service, flags),
        size_of::<Backend>(),
        offset_of!(Backend, flags),
        size_of::<Source>(),
        offset_of!(Source, last_port),
        size_of::<Hop>(),
        offset_of!(Hop, generation),
        size_of::<Session>(),
        offset_of!(Session, client_port),
        offset_of!(Session, state),
        offset_of!(Session, to_client),
        offset_of!(Session, by_ports),
        offset_of!(Session, client),
        size_of::<Owned>(),
        size_of::<Interface>(),
        size_of::<Settings>(),
        size_of::<Levels>(),
        offset_of!(Levels, freed),
        size_of::<Traffic>(),
        BUCKET,
    ];
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut rest: &[usize] = &parts;
    while let [part, tail @ ..] = rest {
        sum = (sum ^ *part as u64).wrapping_mul(0x0100_0000_01b3);
        rest = tail;
    }
    sum
}

const _: () = {
    assert!(size_of::<FlowKey>() == 40);
    assert!(size_of::<ServiceKey>() == 24);
    assert!(size_of::<Service>() == 20);
    assert!(size_of::<Backend>() == 32);
    assert!(size_of::<Source>() == 24);
    assert!(size_of::<Hop>() == 22);
    assert!(size_of::<Session>() == 128 && offset_of!(Session, client) == 64);
    assert!(size_of::<Interface>() == 48);
};
