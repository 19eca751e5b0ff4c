//! Active health checks: sends ICMP echo requests to backends and drives their health machines.
//!
//! ```text
//!   Prober (sockets, clock)  <──>  Echoes (who waits for which reply)  <──>  health::Machine
//!   prober.rs, the shell           echoes.rs, sans-IO                        one per backend
//! ```
//!
//! A reply counts only for the backend whose address it came from, and only with the identifier,
//! sequence number and nonce of the request that this backend has not answered yet.

#![forbid(unsafe_code)]

mod echoes;
mod error;
mod mtu;
mod prober;
mod sockets;

use std::net::IpAddr;

pub use error::Error;
pub use prober::Prober;
pub use sockets::Sockets;
pub use wire::Family;

/// A backend to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Whom to probe.
    pub backend: IpAddr,
    /// How often, and what decides.
    pub policy: health::Policy,
}

/// A backend whose state changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which backend.
    pub backend: IpAddr,
    /// What changed, and why.
    pub transition: health::Transition,
}
