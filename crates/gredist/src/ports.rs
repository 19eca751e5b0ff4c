//! The sockets of the packet thread: where packets come in and where they go out.

use crate::config::Config;
use ipnet::IpNet;
use netio::socket::{QueueSize, RawSocket};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use wire::{Address, Family, icmp, protocol};

/// The sockets that one configuration needs. A socket that the next configuration needs as well
/// is shared with it, not opened anew: two sockets would each get a copy of every packet.
#[derive(Clone, Debug)]
pub struct Ports {
    /// GRE and ICMP errors to the frontend, replies to return addresses.
    pub receivers: Vec<Receiver>,
    /// Sends IPv4 packets.
    pub v4: Option<Arc<RawSocket>>,
    /// Sends IPv6 packets.
    pub v6: Option<Arc<RawSocket>>,
    /// Sockets of earlier configurations that the packet thread may still read.
    pub retired: Vec<(Purpose, Weak<RawSocket>)>,
    /// Queues that are smaller than the configuration asks for.
    pub short_queues: Vec<ShortQueue>,
}

/// A socket that packets are read from.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// The socket.
    pub socket: Arc<RawSocket>,
    /// What it receives.
    pub purpose: Purpose,
    /// What the kernel last said about packets dropped for a full queue.
    pub queue_drops: u32,
}

/// What a socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// GRE to the frontend.
    Frontend(IpAddr),
    /// ICMP errors to the frontend.
    Errors(IpAddr),
    /// GRE to return addresses of this family.
    Returns(Family),
    /// ICMP errors to return addresses of this family.
    ReturnErrors(Family),
}

impl Purpose {
    /// Whether it is about return addresses, which the configuration may change.
    const fn is_return(self) -> bool {
        matches!(self, Self::Returns(_) | Self::ReturnErrors(_))
    }

    /// The IP protocol number.
    pub const fn protocol(self) -> u8 {
        match self {
            Self::Frontend(_) | Self::Returns(_) => protocol::GRE,
            Self::Errors(IpAddr::V4(_)) | Self::ReturnErrors(Family::V4) => protocol::ICMP,
            Self::Errors(IpAddr::V6(_)) | Self::ReturnErrors(Family::V6) => protocol::ICMPV6,
        }
    }
}

/// A queue that the kernel made smaller than asked for.
#[derive(Clone, Copy, Debug)]
pub struct ShortQueue {
    /// Sizes asked for and granted.
    pub size: QueueSize,
    /// The sysctl that bounds it.
    pub sysctl: &'static str,
}

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The frontend is not an address of this host.
    #[error(
        "frontend {0} is not an address of this host; add it, for example: ip address add {1} dev lo"
    )]
    NotLocal(IpAddr, IpNet),
    /// Another failure of the kernel.
    #[error("cannot open the socket for {what}: {source}")]
    Socket {
        /// What the socket is for.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Receiver {
    /// A socket that receives this.
    pub const fn new(socket: Arc<RawSocket>, purpose: Purpose) -> Self {
        Self { socket, purpose, queue_drops: 0 }
    }
}

impl Ports {
    /// Opens the sockets of a configuration; those that `old` has already are shared with it.
    /// Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// The first socket that could not be opened.
    pub fn open(config: &Config, old: Option<&Self>) -> Result<Self, Error> {
        let frontend = config.frontend;
        let mut purposes = vec![Purpose::Frontend(frontend), Purpose::Errors(frontend)];
        let returns: Vec<IpNet> = config.prefix.iter().chain(&config.pool).copied().collect();
        if let Some(first) = returns.first() {
            let family = Address::from(first.addr()).family();
            purposes.extend([Purpose::Returns(family), Purpose::ReturnErrors(family)]);
        }
        let receiver = |purpose| match old.and_then(|old| old.known(purpose)) {
            Some(kept) => Ok(kept),
            None => Ok(Receiver::new(Arc::new(open_receiver(purpose)?), purpose)),
        };
        let mut ports = Self {
            receivers: purposes.into_iter().map(receiver).collect::<Result<_, Error>>()?,
            v4: sender(config, Family::V4, old.and_then(|old| old.v4.as_ref()))?,
            v6: sender(config, Family::V6, old.and_then(|old| old.v6.as_ref()))?,
            retired: old.map(Self::retire).unwrap_or_default(),
            short_queues: Vec::new(),
        };
        // Sockets that stay are changed in place: last, when nothing else can be refused.
        ports.size_queues(config)?;
        for receiver in ports.receivers.iter().filter(|receiver| receiver.purpose.is_return()) {
            let filtered = receiver.socket.accept_destinations(&returns);
            filtered.map_err(socket_for("replies (its filter)"))?;
        }
        Ok(ports)
    }

    /// The receiver of this purpose.
    pub fn receiver(&self, purpose: Purpose) -> Option<&Receiver> {
        self.receivers.iter().find(|receiver| receiver.purpose == purpose)
    }

    /// The receiver of this purpose, be it of an earlier configuration, as long as anybody has it:
    /// a frontend that is taken away and brought back at once must not be read twice.
    fn known(&self, purpose: Purpose) -> Option<Receiver> {
        let retired = || {
            let mut sockets = self.retired.iter().filter(|(other, _)| *other == purpose);
            let socket = sockets.find_map(|(_, socket)| socket.upgrade())?;
            Some(Receiver::new(socket, purpose))
        };
        self.receiver(purpose).cloned().or_else(retired)
    }

    /// What the next configuration may find still alive.
    fn retire(&self) -> Vec<(Purpose, Weak<RawSocket>)> {
        let ours = self.receivers.iter().map(|r| (r.purpose, Arc::downgrade(&r.socket)));
        let earlier = self.retired.iter().cloned();
        ours.chain(earlier.filter(|(_, socket)| socket.strong_count() > 0)).collect()
    }

    fn size_queues(&mut self, config: &Config) -> Result<(), Error> {
        let failed = socket_for("packets (setting its queue)");
        let mut note = |size: QueueSize, sysctl| {
            if size.granted < size.wanted {
                self.short_queues.push(ShortQueue { size, sysctl });
            }
        };
        for receiver in &self.receivers {
            let size = receiver.socket.set_receive_queue(config.receive_queue).map_err(&failed)?;
            note(size, "net.core.rmem_max");
        }
        for sender in [&self.v4, &self.v6].into_iter().flatten() {
            let size = sender.set_send_queue(config.send_queue).map_err(&failed)?;
            note(size, "net.core.wmem_max");
        }
        Ok(())
    }
}

fn open_receiver(purpose: Purpose) -> Result<RawSocket, Error> {
    let protocol = purpose.protocol();
    let bound = |frontend: IpAddr, what: &str| {
        RawSocket::bound(frontend, protocol).map_err(|source| match source.kind() {
            io::ErrorKind::AddrNotAvailable => Error::NotLocal(frontend, IpNet::from(frontend)),
            _ => socket_for(&format!("{what} to {frontend}"))(source),
        })
    };
    let any = |family| RawSocket::any(family, protocol).map_err(socket_for("replies"));
    let (socket, family) = match purpose {
        Purpose::Frontend(frontend) => return bound(frontend, "GRE"),
        // Its filter follows: until then it would take all GRE of this host.
        Purpose::Returns(family) => return any(family),
        Purpose::Errors(frontend) => {
            (bound(frontend, "ICMP errors")?, Address::from(frontend).family())
        }
        Purpose::ReturnErrors(family) => (any(family)?, family),
    };
    let filtered = socket.accept_icmp_types(error_types(family));
    filtered.map_err(socket_for("ICMP errors (its filter)"))?;
    Ok(socket)
}

/// The ICMP messages that quote a packet.
const fn error_types(family: Family) -> &'static [u8] {
    match family {
        Family::V4 => {
            &[icmp::v4::UNREACHABLE, icmp::v4::TIME_EXCEEDED, icmp::v4::PARAMETER_PROBLEM]
        }
        Family::V6 => &[
            icmp::v6::UNREACHABLE,
            icmp::v6::PACKET_TOO_BIG,
            icmp::v6::TIME_EXCEEDED,
            icmp::v6::PARAMETER_PROBLEM,
        ],
    }
}

/// A sender of the family, if the frontend or a backend is of it.
fn sender(
    config: &Config,
    family: Family,
    old: Option<&Arc<RawSocket>>,
) -> Result<Option<Arc<RawSocket>>, Error> {
    let used = (family == Family::V4) == config.frontend.is_ipv4() || config.is_mixed();
    match (used, old) {
        (false, _) => Ok(None),
        (true, Some(old)) => Ok(Some(Arc::clone(old))),
        (true, None) => {
            let opened = RawSocket::sender(family);
            opened.map(Arc::new).map(Some).map_err(socket_for("sending"))
        }
    }
}

fn socket_for(what: &str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Socket { what: what.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    fn ports(purpose: Purpose, retired: Vec<(Purpose, Weak<RawSocket>)>) -> Ports {
        let socket = OwnedFd::from(UnixDatagram::unbound().unwrap());
        let socket = Arc::new(RawSocket::connected(Family::V4, socket).unwrap());
        let receivers = vec![Receiver::new(socket, purpose)];
        Ports { receivers, v4: None, v6: None, retired, short_queues: Vec::new() }
    }

    #[test]
    fn a_socket_that_is_still_read_is_found_again_and_one_that_is_gone_is_not() {
        let [first, second] =
            ["192.0.2.1", "192.0.2.2"].map(|a| Purpose::Frontend(a.parse().unwrap()));
        let old = ports(first, Vec::new());
        let next = ports(second, old.retire());
        let after = ports(second, next.retire());
        // The packet thread has `old` still.
        let known = after.known(first).unwrap();
        assert!(Arc::ptr_eq(&known.socket, &old.receivers[0].socket));
        drop((known, old));
        assert!(after.known(first).is_none());
        assert_eq!(after.retire().len(), 2, "what is gone is forgotten");
    }
}
