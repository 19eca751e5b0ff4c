//! Which addresses are this host's: the frontend and the return addresses must be, or their packets
//! would be lost; a backend had better not be.

use crate::config::Config;
use ipnet::IpNet;
use netio::netlink::Netlink;
use std::io;
use std::net::IpAddr;

/// Why packets to the frontend or to return addresses would not come here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The frontend is not an address of this host.
    #[error(
        "frontend {0} is not an address of this host; add it, for example: ip address add {1} dev lo"
    )]
    Frontend(IpAddr, IpNet),
    /// The prefix is not delivered to this host.
    #[error(
        "replies to {0} would not reach this host; add the route: ip route add local {0} dev lo"
    )]
    NotLocal(IpNet),
    /// The routing table could not be read.
    #[error("cannot look up the route to {0}: {1}")]
    Lookup(IpNet, io::Error),
}

/// Checks that the frontend, and the first and the last address of every return prefix, are local.
///
/// # Errors
/// The first that is not, with the command that is missing.
pub fn check(config: &Config) -> Result<(), Error> {
    let frontend = IpNet::from(config.frontend);
    if !is_local(frontend, config.frontend)? {
        return Err(Error::Frontend(config.frontend, frontend));
    }
    for net in config.prefix.iter().chain(&config.pool) {
        for address in [net.network(), net.broadcast()] {
            if !is_local(*net, address)? {
                return Err(Error::NotLocal(*net));
            }
        }
    }
    Ok(())
}

/// Backends that are addresses of this host; what cannot be looked up is none.
pub fn local_backends(config: &Config) -> Vec<IpAddr> {
    let backends = config.backends.iter().map(|backend| backend.address);
    backends.filter(|b| is_local(IpNet::from(*b), *b).unwrap_or(false)).collect()
}

fn is_local(net: IpNet, address: IpAddr) -> Result<bool, Error> {
    let local = Netlink::open().and_then(|mut netlink| netlink.route_is_local(address));
    local.map_err(|error| Error::Lookup(net, error))
}
