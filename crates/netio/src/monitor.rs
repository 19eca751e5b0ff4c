//! Tells that routes, addresses, links or neighbours changed, in the thread's namespace.
//!
//! What changed is not told: whoever caches the kernel's answers asks anew. A neighbour that is
//! only confirmed or grows stale is no change.

use crate::context::context;
use netlink_packet_core::{NLMSG_ALIGNTO, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Multicast groups of rtnetlink(7): links, neighbours, addresses and routes of both families.
const GROUPS: [u32; 6] = [1, 3, 5, 7, 9, 11];
/// Neighbours that are remembered; past that, every message about one counts as a change.
const MAX_NEIGHBOURS: usize = 65_536;
const MAX_DATAGRAM_BYTES: usize = 64 * 1024;

/// A socket that hears of changes.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    /// The Ethernet address of each neighbour by link and address, as far as it is known.
    neighbours: HashMap<(u32, Vec<u8>), Option<Vec<u8>>>,
}

impl Monitor {
    /// Listens from now on; the socket stays in the thread's namespace.
    ///
    /// # Errors
    /// No netlink socket to be had.
    pub fn open() -> io::Result<Self> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            for group in GROUPS {
                socket.add_membership(group)?;
            }
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| context("watch routes", error))?;
        Ok(Self { socket, neighbours: HashMap::new() })
    }

    /// Reads everything that waits, and tells whether it means a change. Messages that were lost
    /// because too many waited are a change.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn changed(&mut self) -> io::Result<bool> {
        let mut changed = false;
        loop {
            let mut bytes = Vec::with_capacity(MAX_DATAGRAM_BYTES);
            match self.socket.recv(&mut bytes, 0) {
                Ok(_) => changed |= self.means_change(&bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(changed),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.neighbours.clear();
                    changed = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn means_change(&mut self, mut datagram: &[u8]) -> bool {
        let mut changed = false;
        while !datagram.is_empty() {
            let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram) else {
                return true;
            };
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
            let padded = length.next_multiple_of(usize::from(NLMSG_ALIGNTO)).max(1);
            datagram = datagram.get(padded..).unwrap_or_default();
            changed |= match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(neighbour)) => {
                    self.neighbour_changed(&neighbour, false)
                }
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelNeighbour(neighbour)) => {
                    self.neighbour_changed(&neighbour, true)
                }
                _ => true,
            };
        }
        changed
    }

    /// Whether a neighbour's Ethernet address is another than before. One that is looked for is
    /// none: the old one stays in use until the new one is found.
    fn neighbour_changed(&mut self, message: &NeighbourMessage, gone: bool) -> bool {
        let (mut address, mut mac) = (Vec::new(), None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(destination) => {
                    address = format!("{destination:?}").into_bytes();
                }
                NeighbourAttribute::LinkLayerAddress(octets) => mac = Some(octets.clone()),
                _ => {}
            }
        }
        let unknown = [NeighbourState::Incomplete, NeighbourState::Failed, NeighbourState::None];
        if gone || unknown.contains(&message.header.state) {
            mac = None;
        }
        let key = (message.header.ifindex, address);
        if mac.is_none() {
            self.neighbours.remove(&key);
            return false;
        }
        if self.neighbours.len() >= MAX_NEIGHBOURS && !self.neighbours.contains_key(&key) {
            return true;
        }
        self.neighbours.insert(key, mac.clone()).flatten() != mac
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the socket's, which lives as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }
}

impl AsRawFd for Monitor {
    fn as_raw_fd(&self) -> i32 {
        self.socket.as_raw_fd()
    }
}
