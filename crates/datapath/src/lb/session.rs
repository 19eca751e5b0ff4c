//! A session's record, as the maps have it.
//!
//! ```text
//! first line:  addresses of IPv4 | ports | protocol, backend, last use, state | way to the client
//! second line: addresses of both families
//! ```
//! The second one is for IPv6 and for what seldom happens: a table of many sessions is not in the
//! processor's caches, and every line that a packet touches costs as much as all of its
//! instructions.

use super::layout::{Direction, FlowKey, Hop};
use wire::checksum::{Sum, change};
use wire::{Address, Family};

/// A session: what a client's packets and a backend's replies are translated to.
///
/// 128 octets: two cache lines, of which an IPv4 packet of the session touches the first one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Session {
    /// Of an IPv4 session, [`vip`](Self::vip) and [`client`](Self::client) as its replies carry
    /// them; set by [`fold`](Self::fold).
    pub outside: [u8; 8],
    /// In the same way [`source`](Self::source) and [`backend`](Self::backend).
    pub inside: [u8; 8],
    /// The client's port.
    pub client_port: [u8; 2],
    /// The service's port.
    pub vip_port: [u8; 2],
    /// The backend's port.
    pub backend_port: [u8; 2],
    /// The port that the backend sees as the client's.
    pub source_port: [u8; 2],
    /// IP protocol.
    pub protocol: u8,
    /// [`session_flag`] bits.
    pub flags: u8,
    /// The backend's id.
    pub backend_id: u16,
    /// When it was last used, in [`Settings`](super::layout::Settings) ticks.
    pub last: u32,
    /// [`session_state`] bits; they are only ever set.
    pub state: u32,
    /// The way to the client. The way to the backend is shared by all of its sessions.
    pub to_client: Hop,
    /// IP version, 4 or 6; set by [`fold`](Self::fold).
    pub version: u8,
    /// Zero.
    pub zero: u8,
    /// What the client's packets' checksums change by with the addresses; set by
    /// [`fold`](Self::fold).
    pub by_addresses: u16,
    /// The same for the ports.
    pub by_ports: u16,
    /// The client.
    pub client: Address,
    /// The address that the client sends to.
    pub vip: Address,
    /// The backend.
    pub backend: Address,
    /// The address that the backend sees as the client.
    pub source: Address,
}

impl Session {
    /// A record that nobody uses.
    pub const EMPTY: Self = Self {
        outside: [0; 8],
        inside: [0; 8],
        client_port: [0; 2],
        vip_port: [0; 2],
        backend_port: [0; 2],
        source_port: [0; 2],
        protocol: 0,
        flags: 0,
        backend_id: 0,
        last: 0,
        state: 0,
        to_client: Hop::NONE,
        version: 0,
        zero: 0,
        by_addresses: 0,
        by_ports: 0,
        client: Address::v6([0; 16]),
        vip: Address::v6([0; 16]),
        backend: Address::v6([0; 16]),
        source: Address::v6([0; 16]),
    };

    /// With [`session_flag::AFFINITY`]: seconds for which the client stays with its backend.
    #[must_use]
    pub const fn affinity_s(&self) -> u32 {
        let ([a, b], [c, d]) = (self.backend_port, self.source_port);
        u32::from_ne_bytes([a, b, c, d])
    }

    /// Enters in the first line what follows from addresses and ports, once they are all known.
    #[inline(always)]
    pub fn fold(&mut self) {
        let sum = |a: Address, b: Address| Sum::new().octets(&a.octets()).octets(&b.octets());
        let ports = |a: [u8; 2], b: [u8; 2]| Sum::new().octets(&a).octets(&b);
        self.by_addresses = change(sum(self.client, self.vip), sum(self.source, self.backend));
        self.by_ports = change(
            ports(self.client_port, self.vip_port),
            ports(self.source_port, self.backend_port),
        );
        self.outside = pair(self.vip, self.client);
        self.inside = pair(self.source, self.backend);
        self.version = match self.client.family() {
            Family::V4 => 4,
            Family::V6 => 6,
        };
    }

    /// Whether packets of this direction have this key.
    #[inline(always)]
    pub(super) fn has(&self, direction: Direction, key: &FlowKey) -> bool {
        let (addresses, source_port, destination_port) = match direction {
            Direction::Forward => (&self.outside, &self.client_port, &self.vip_port),
            Direction::Reply => (&self.inside, &self.backend_port, &self.source_port),
        };
        let ports = *source_port == key.source_port && *destination_port == key.destination_port;
        if !ports || self.protocol != key.protocol {
            return false;
        }
        match key.source.family() {
            Family::V4 => self.version == 4 && *addresses == pair(key.destination, key.source),
            Family::V6 => {
                let (source, destination) = match direction {
                    Direction::Forward => (&self.client, &self.vip),
                    Direction::Reply => (&self.backend, &self.source),
                };
                *source == key.source && *destination == key.destination
            }
        }
    }

    /// The key that packets of this direction have.
    #[must_use]
    pub const fn key(&self, direction: Direction) -> FlowKey {
        let (source, destination, source_port, destination_port) = match direction {
            Direction::Forward => (self.client, self.vip, self.client_port, self.vip_port),
            Direction::Reply => (self.backend, self.source, self.backend_port, self.source_port),
        };
        let protocol = self.protocol;
        FlowKey { source, destination, source_port, destination_port, protocol, zero: [0; 3] }
    }
}

/// The last octets of two addresses.
#[inline(always)]
const fn pair(first: Address, second: Address) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (first.low4(), second.low4());
    [a, b, c, d, e, f, g, h]
}

/// Bits of [`Session::flags`].
pub mod session_flag {
    /// The client's address was translated.
    pub const TWICE_NAT: u8 = 1;
    /// The record names a client's backend, not a flow.
    pub const AFFINITY: u8 = 2;
}

/// Bits of [`Session::state`].
pub mod session_state {
    /// The backend answered.
    pub const ANSWERED: u32 = 1;
    /// The client answered the backend's answer: the TCP connection is open.
    pub const ESTABLISHED: u32 = 2;
    /// The client said that it has no more data.
    pub const CLIENT_FIN: u32 = 4;
    /// The backend said that it has no more data.
    pub const BACKEND_FIN: u32 = 8;
    /// Either side reset the connection.
    pub const RESET: u32 = 16;
    /// Another session took its client's key over.
    pub const REPLACED: u32 = 32;
    /// The record is in use; the sweeper takes this bit away when it frees it.
    pub const LIVE: u32 = 64;
    /// The session could not be indexed: the record is to be freed.
    pub const ABANDONED: u32 = 128;
    /// Bits of a connection that is closing or closed.
    pub const CLOSING: u32 = CLIENT_FIN | BACKEND_FIN | RESET;
}
