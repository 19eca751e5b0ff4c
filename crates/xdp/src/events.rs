//! What the packet core asks of userspace: neighbours whose Ethernet address it needs.

use aya::maps::{MapData, RingBuf};
use std::os::fd::{AsRawFd, RawFd};
use wire::Address;

/// Destinations whose next hop nobody knows; readable when there is one.
pub struct Events(pub(crate) RingBuf<MapData>);

impl Events {
    /// The next destination, or `None` for now.
    pub fn next_wanted(&mut self) -> Option<Address> {
        loop {
            let item = self.0.next()?;
            if let Ok(octets) = <[u8; 16]>::try_from(&*item) {
                return Some(Address::v6(octets));
            }
        }
    }
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
