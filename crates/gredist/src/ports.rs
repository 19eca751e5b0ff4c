//! The sockets of the packet thread: where packets come in and where they go out.

use crate::config::Config;
use ipnet::IpNet;
use netio::socket::{QueueSize, RawSocket};
use std::io;
use std::net::IpAddr;
use wire::{Family, icmp, protocol};

/// The sockets that one configuration needs.
#[derive(Debug)]
pub struct Ports {
    /// GRE and ICMP errors to the frontend, replies to return addresses.
    pub receivers: Vec<Receiver>,
    /// Sends IPv4 packets.
    pub v4: Option<RawSocket>,
    /// Sends IPv6 packets.
    pub v6: Option<RawSocket>,
    /// Queues that are smaller than the configuration asks for.
    pub short_queues: Vec<ShortQueue>,
}

/// A socket that packets are read from.
#[derive(Debug)]
pub struct Receiver {
    /// The socket.
    pub socket: RawSocket,
    /// What it receives: an IP protocol number.
    pub protocol: u8,
    /// What the kernel last said about packets dropped for a full queue.
    pub queue_drops: u32,
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
    /// A socket that receives this protocol.
    pub const fn new(socket: RawSocket, protocol: u8) -> Self {
        Self { socket, protocol, queue_drops: 0 }
    }
}

impl Ports {
    /// Opens the sockets of a configuration. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// The first socket that could not be opened.
    pub fn open(config: &Config) -> Result<Self, Error> {
        let frontend = config.frontend;
        let gre = bound(frontend, protocol::GRE, "GRE")?;
        let mut receivers = vec![Receiver::new(gre, protocol::GRE), errors_to(frontend)?];
        let returns: Vec<IpNet> = config.prefix.iter().chain(&config.pool).copied().collect();
        if !returns.is_empty() {
            let socket = RawSocket::within(&returns, protocol::GRE)
                .map_err(|source| Error::Socket { what: "replies".into(), source })?;
            receivers.push(Receiver::new(socket, protocol::GRE));
        }
        let mut ports = Self {
            receivers,
            v4: sender(config, Family::V4)?,
            v6: sender(config, Family::V6)?,
            short_queues: Vec::new(),
        };
        ports.size_queues(config)?;
        Ok(ports)
    }

    fn size_queues(&mut self, config: &Config) -> Result<(), Error> {
        let failed = |source| Error::Socket { what: "packets (setting its queue)".into(), source };
        let mut note = |size: QueueSize, sysctl| {
            if size.granted < size.wanted {
                self.short_queues.push(ShortQueue { size, sysctl });
            }
        };
        for receiver in &self.receivers {
            let size = receiver.socket.set_receive_queue(config.receive_queue).map_err(failed)?;
            note(size, "net.core.rmem_max");
        }
        for sender in [&self.v4, &self.v6].into_iter().flatten() {
            let size = sender.set_send_queue(config.send_queue).map_err(failed)?;
            note(size, "net.core.wmem_max");
        }
        Ok(())
    }
}

/// A socket that receives this protocol on the frontend.
fn bound(frontend: IpAddr, protocol: u8, what: &str) -> Result<RawSocket, Error> {
    RawSocket::bound(frontend, protocol).map_err(|source| match source.kind() {
        io::ErrorKind::AddrNotAvailable => Error::NotLocal(frontend, IpNet::from(frontend)),
        _ => Error::Socket { what: format!("{what} to {frontend}"), source },
    })
}

/// The socket for ICMP errors about packets that have the frontend as source.
fn errors_to(frontend: IpAddr) -> Result<Receiver, Error> {
    let (protocol, types) = match frontend {
        IpAddr::V4(_) => (
            protocol::ICMP,
            [icmp::v4::UNREACHABLE, icmp::v4::TIME_EXCEEDED, icmp::v4::PARAMETER_PROBLEM]
                .as_slice(),
        ),
        IpAddr::V6(_) => (
            protocol::ICMPV6,
            [
                icmp::v6::UNREACHABLE,
                icmp::v6::PACKET_TOO_BIG,
                icmp::v6::TIME_EXCEEDED,
                icmp::v6::PARAMETER_PROBLEM,
            ]
            .as_slice(),
        ),
    };
    let socket = bound(frontend, protocol, "ICMP errors")?;
    let filtered = socket.accept_icmp_types(types);
    filtered.map_err(|source| Error::Socket { what: "ICMP errors (its filter)".into(), source })?;
    Ok(Receiver::new(socket, protocol))
}

/// A sender of the family, if the frontend or a backend is of it.
fn sender(config: &Config, family: Family) -> Result<Option<RawSocket>, Error> {
    let used = (family == Family::V4) == config.frontend.is_ipv4() || config.is_mixed();
    used.then(|| RawSocket::sender(family))
        .transpose()
        .map_err(|source| Error::Socket { what: format!("sending {family:?} packets"), source })
}
