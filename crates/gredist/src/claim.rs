//! One distributor per address: two would each get a copy of every packet, and send it twice.
//!
//! A claim is an abstract Unix socket (unix(7)): its name belongs to the network namespace, as the
//! address does, and the kernel takes it back when the process ends, however it ends.

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

impl Claim {
    /// Claims what is called `name`, or shares the claim that `held` has on it.
    ///
    /// # Errors
    /// `AddrInUse` if another process has it.
    pub fn take(name: &str, held: &[Self]) -> io::Result<Self> {
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
