//! One distributor per address: two would each get a copy of every packet, and send it twice.
//!
//! A claim is an abstract Unix socket (unix(7)): its name belongs to the network namespace, as the
//! address does, and the kernel takes it back when the process ends, however it ends.

use crate::config::Config;
use ipnet::IpNet;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

/// A claim on an address or prefix; it holds until the last copy is dropped.
#[derive(Clone, Debug)]
pub struct Claim {
    name: String,
    _socket: Arc<UnixDatagram>,
}

/// Why an address cannot be claimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process distributes it.
    #[error("{0} is distributed by another gredist on this host; stop that one first")]
    Taken(IpNet),
    /// Another failure of the kernel.
    #[error("cannot claim {0}: {1}")]
    Kernel(IpNet, io::Error),
}

/// Claims the frontend and the return prefixes of a configuration; claims in `held` are shared.
///
/// # Errors
/// The first that cannot be claimed.
pub fn take_all(config: &Config, held: &[Claim]) -> Result<Vec<Claim>, Error> {
    let ours = std::iter::once(IpNet::from(config.frontend));
    let ours = ours.chain(config.prefix).chain(config.pool.iter().copied());
    ours.map(|net| {
        Claim::take(&net.to_string(), held).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Error::Taken(net),
            _ => Error::Kernel(net, error),
        })
    })
    .collect()
}

impl Claim {
    /// Claims what is called `name`, or shares the claim that `held` has on it.
    ///
    /// # Errors
    /// `AddrInUse` if another process has it.
    fn take(name: &str, held: &[Self]) -> io::Result<Self> {
        if let Some(claim) = held.iter().find(|claim| claim.name == name) {
            return Ok(claim.clone());
        }
        let address = SocketAddr::from_abstract_name(format!("castellum/gredist/{name}"))?;
        let socket = UnixDatagram::bind_addr(&address)?;
        Ok(Self { name: name.to_owned(), _socket: Arc::new(socket) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_excludes_others_until_it_is_dropped() {
        let name = format!("test-{}", std::process::id());
        let claim = Claim::take(&name, &[]).unwrap();
        assert_eq!(Claim::take(&name, &[]).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let shared = Claim::take(&name, std::slice::from_ref(&claim)).unwrap();
        drop(claim);
        assert!(Claim::take(&name, &[]).is_err(), "the shared claim still holds");
        drop(shared);
        assert!(Claim::take(&name, &[]).is_ok());
    }
}
