//! What can be wrong before the first probe is sent.

use std::io;

use wire::Family;

/// Why probing cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A raw socket was refused, most often for want of `CAP_NET_RAW`.
    #[error("cannot open a raw ICMP socket ({family:?}): {source}")]
    Socket {
        /// The family it was for.
        family: Family,
        /// What the kernel said.
        source: io::Error,
    },
    /// The runtime could not watch a socket.
    #[error("cannot watch the ICMP sockets: {0}")]
    Watch(#[source] io::Error),
}
