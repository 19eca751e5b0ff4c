//! Active health checks: probes backends and drives their health machines.
//!
//! ```text
//!   Prober (sockets, clock)  <──>  Echoes (who waits for which reply)  <──>  health::Machine
//!   prober.rs, the shell           echoes.rs, sans-IO                        one per backend
//!
//!   Checks (sockets, clock)  <──>  Schedule (what is due, shared, void)  <──>  health::Machine
//!   checks.rs, the shell           checks/schedule.rs, sans-IO                 one per check
//! ```
//!
//! [`Prober`] sends echo requests only and knows a backend by its address; [`checks`] also opens
//! connections and knows a check by its name.
//!
//! An echo reply counts only for the backend whose address it came from, and only with the identifier,
//! sequence number and nonce of the request that this backend has not answered yet.

#![forbid(unsafe_code)]

pub mod checks;
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
