//! Commands that look at a running node: from its interfaces to the maps, from the maps to names.
//!
//! ```text
//! configuration ─> interfaces ─> XDP program ─> View ──┐
//!               └> resources ──> names of backends ────┴─> sessions, stats, explain, capture
//! ```
//! The node itself is not asked, so that one that hangs or has been killed can be looked at too.

pub mod names;
pub mod sessions;
pub mod stats;
pub mod summary;
pub mod table;

use crate::config::Config;
use daemon::exit::Exit;
use names::Names;
use netio::links::Link;
use netio::netlink::Netlink;
use std::io::{self, Write as _};
use std::path::Path;
use xdp::View;

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No configuration was named.
    #[error("name the node's configuration with --config FILE")]
    NoConfig,
    /// The arguments make no sense on this node.
    #[error("{0}")]
    Usage(String),
    /// The configuration is wrong.
    #[error("{0}")]
    Config(::config::diagnostics::Diagnostics),
    /// The node does not run.
    #[error(
        "no interface of {config} ({interfaces}) runs an XDP program: lb-node does not run, or not \
         in this network namespace"
    )]
    NotRunning {
        /// The configuration's name.
        config: String,
        /// The interfaces.
        interfaces: String,
    },
    /// The kernel refuses, or runs something else.
    #[error("{0}")]
    Kernel(#[from] xdp::Error),
    /// The network, the terminal, a file.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::NoConfig | Error::Usage(_) => Self::Usage,
            Error::Config(_) => Self::Config,
            Error::NotRunning { .. } | Error::Kernel(_) | Error::Io(_) => Self::Runtime,
        }
    }
}

/// A running node.
pub struct Node {
    /// What it was told.
    pub config: Config,
    /// Its maps.
    pub view: View,
    /// Its interfaces.
    pub links: Vec<Link>,
    /// What its services and backends are called.
    pub names: Names,
    /// The kernel's routes, neighbours and links.
    pub netlink: Netlink,
}

impl Node {
    /// Finds the node of this configuration.
    ///
    /// # Errors
    /// It does not run here, or is of another build.
    pub fn open(file: &Path) -> Result<Self, Error> {
        let config = Config::load(file).map_err(Error::Config)?;
        let mut netlink = Netlink::open()?;
        let links = config.interfaces.iter().map(|name| netlink.link(name));
        let links: Vec<Link> = links.collect::<Result<_, _>>()?;
        let program = links.iter().find_map(|link| link.program);
        let program = program.ok_or_else(|| Error::NotRunning {
            config: file.display().to_string(),
            interfaces: config.interfaces.join(", "),
        })?;
        let view = View::of_program(program)?;
        let names = Names::read(&config);
        Ok(Self { config, view, links, names, netlink })
    }

    /// An interface's name.
    pub fn interface(&self, index: u32) -> String {
        let link = self.links.iter().find(|link| link.index == index);
        link.map_or_else(|| format!("interface {index}"), |link| link.name.clone())
    }
}

/// Prints to stdout. A closed pipe ends the program without a complaint: that is the reader's
/// choice.
///
/// # Errors
/// It cannot be written for another reason.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
