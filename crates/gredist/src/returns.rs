//! Whether return addresses reach this host: without their route every reply would be lost.

use crate::config::Config;
use ipnet::IpNet;
use netio::netlink::Netlink;
use std::io;

/// Why replies of backends of the other family would not come back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The prefix is not delivered to this host.
    #[error(
        "replies to {0} would not reach this host; add the route: ip route add local {0} dev lo"
    )]
    NotLocal(IpNet),
    /// The routing table could not be read.
    #[error("cannot look up the route to {0}: {1}")]
    Lookup(IpNet, io::Error),
}

/// Checks that the first and the last address of every return prefix are local.
///
/// # Errors
/// The first prefix that is not, with the command that is missing.
pub fn check(config: &Config) -> Result<(), Error> {
    for net in config.prefix.iter().chain(&config.pool) {
        for address in [net.network(), net.broadcast()] {
            let local = Netlink::open().and_then(|mut netlink| netlink.route_is_local(address));
            match local {
                Ok(true) => {}
                Ok(false) => return Err(Error::NotLocal(*net)),
                Err(error) => return Err(Error::Lookup(*net, error)),
            }
        }
    }
    Ok(())
}
