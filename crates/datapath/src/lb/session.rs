//! A session's record, as the maps have it.

use super::layout::{Direction, FlowKey, Hop};
use wire::Address;

/// A session: what a client's packets and a backend's replies are translated to.
///
/// 128 octets, so that a hit touches two neighbouring cache lines and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Session {
    /// The client.
    pub client: Address,
    /// The address that the client sends to.
    pub vip: Address,
    /// The backend.
    pub backend: Address,
    /// The address that the backend sees as the client.
    pub source: Address,
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
    /// When it was last used, in [`Settings`] ticks.
    pub last: u32,
    /// [`session_state`] bits; they are only ever set.
    pub state: u32,
    /// The way to the client. The way to the backend is shared by all of its sessions.
    pub to_client: Hop,
    /// Zero.
    pub zero: [u8; 22],
}

impl Session {
    /// A record that nobody uses.
    pub const EMPTY: Self = Self {
        client: Address::v6([0; 16]),
        vip: Address::v6([0; 16]),
        backend: Address::v6([0; 16]),
        source: Address::v6([0; 16]),
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
        zero: [0; 22],
    };
}

impl Session {
    /// With [`session_flag::AFFINITY`]: seconds for which the client stays with its backend.
    #[must_use]
    pub const fn affinity_s(&self) -> u32 {
        let ([a, b], [c, d]) = (self.backend_port, self.source_port);
        u32::from_ne_bytes([a, b, c, d])
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
