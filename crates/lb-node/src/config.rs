//! The node's own configuration: interfaces, where resources lie, sizes, timeouts, SNAT pools.
//!
//! TOML, read once at the start. What balances, and how, is said by resources (`resources.rs`).

mod read;

pub use read::{KEYS, POOL_KEYS, TIMEOUT_KEYS};

use config::diagnostics::Diagnostics;
use lb_api::{Name, SnatPool};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interfaces that a node can have.
pub const MAX_INTERFACES: usize = 64;
/// SNAT pools that a node can have.
pub const MAX_POOLS: usize = 256;
/// Addresses of one SNAT pool.
pub const MAX_POOL_ADDRESSES: usize = 4096;

/// What a node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Names of the interfaces that packets come in by.
    pub interfaces: Vec<String>,
    /// What carries the packets.
    pub data_plane: DataPlane,
    /// The directory of resources.
    pub resources: PathBuf,
    /// Where the last good resources are kept.
    pub state: Option<PathBuf>,
    /// The BPF file system in which maps and attachments outlive the process.
    pub pins: Option<PathBuf>,
    /// The ops listener.
    pub ops: Option<SocketAddr>,
    /// Ports of the node's own addresses that clients are translated to.
    pub snat_ports: RangeInclusive<u16>,
    /// The SNAT pools.
    pub pools: Vec<Pool>,
    /// Sessions that can be open at a time.
    pub sessions: u32,
    /// Half-open TCP sessions among them.
    pub half_open_sessions: u32,
    /// When sessions end.
    pub timeouts: Timeouts,
    /// How long a row of a table is in transition after a change.
    pub transition: Duration,
}

/// What carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPlane {
    /// XDP in the driver.
    Native,
    /// XDP after the kernel has made its own buffer: slower, for drivers without XDP.
    Generic,
}

/// Addresses that clients are translated to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name and addresses.
    pub addresses: SnatPool,
    /// The ports of each address.
    pub ports: RangeInclusive<u16>,
}

/// How long a silent session stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// UDP (RFC 4787 REQ-5).
    pub udp: Duration,
    /// An open TCP connection (RFC 5382 REQ-5).
    pub tcp_established: Duration,
    /// A TCP connection that is opening or closing (RFC 5382 REQ-5).
    pub tcp_transitory: Duration,
    /// ICMP echo (RFC 5508 REQ-1).
    pub icmp: Duration,
    /// Other protocols.
    pub other: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            udp: Duration::from_secs(300),
            tcp_established: Duration::from_secs(7440),
            tcp_transitory: Duration::from_secs(240),
            icmp: Duration::from_secs(60),
            other: Duration::from_secs(300),
        }
    }
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, Diagnostics> {
        let name = file.display().to_string();
        match std::fs::read_to_string(file) {
            Ok(text) => Self::parse(&name, &text),
            Err(error) => {
                let mut diagnostics = Diagnostics::new(name);
                diagnostics.overall("", format!("cannot be read: {error}"));
                Err(diagnostics)
            }
        }
    }

    /// Reads the text of a file of this name.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Self, Diagnostics> {
        read::config(file, text)
    }

    /// The pool of this name.
    pub fn pool(&self, name: &Name) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.addresses.name == *name)
    }
}

#[cfg(test)]
mod tests;
