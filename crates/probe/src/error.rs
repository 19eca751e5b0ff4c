//! What can be wrong before the first probe is sent, grouped by who can put it right.

use std::io;

use wire::Family;

use crate::checks::{CheckId, MAX_CHECKS, MAX_HOST_BYTES, MAX_PATH_BYTES};

/// Why probing cannot begin, or a check is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // Configuration.
    /// A path that cannot stand in a request line.
    #[error("HTTP path {0:?} is not `/` and up to {MAX_PATH_BYTES} printable ASCII characters")]
    Path(String),
    /// A host that cannot stand in a `Host` header.
    #[error(
        "HTTP host {0:?} is not a name or an address of up to {MAX_HOST_BYTES} characters, with or without a port"
    )]
    Host(String),
    /// A status that no response can have at its end.
    #[error("HTTP status {0} is not in 200..=599")]
    Status(u16),
    /// A check of a protocol with ports names none.
    #[error("check {0}: port 0 cannot be probed")]
    Port(CheckId),
    /// More checks than one driver takes.
    #[error("{0} checks are more than {MAX_CHECKS}")]
    TooManyChecks(usize),
    /// Two checks have one name.
    #[error("check {0} is there twice")]
    Repeated(CheckId),
    /// A schedule or threshold that cannot work.
    #[error("check {id}: {source}")]
    Policy {
        /// Whose policy it is.
        id: CheckId,
        /// The rule that it breaks.
        source: health::Error,
    },

    // This host.
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

    // Us.
    /// The TLS library refused its own defaults.
    #[error("cannot set up TLS: {0}")]
    Tls(#[source] rustls::Error),
}
