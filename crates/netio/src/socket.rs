//! Raw IP sockets (raw(7), ipv6(7)): receive one protocol on one address, or send whole packets.

use ipnet::IpNet;
use libc::{c_int, c_void, socklen_t};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use wire::{Address, Family};

/// A non-blocking raw socket of one family.
#[derive(Debug)]
pub struct RawSocket {
    socket: Socket,
    family: Family,
    connected: bool,
}

/// Octets of queue that were asked for and that the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSize {
    /// What was asked for.
    pub wanted: usize,
    /// What the socket has: at most `net.core.rmem_max` or `wmem_max`.
    pub granted: usize,
}

impl RawSocket {
    /// Receives IP packets of `protocol` that are addressed to `address`. IPv4 packets come whole,
    /// IPv6 ones without their IPv6 header, which the ancillary data describes. Needs CAP_NET_RAW.
    pub fn bound(address: IpAddr, protocol: u8) -> io::Result<Self> {
        let raw = Self::receiver(Address::from(address).family(), protocol)?;
        raw.socket.bind(&SockAddr::from(SocketAddr::new(address, 0)))?;
        Ok(raw)
    }

    /// Receives IP packets of `protocol` and family to any local address. Needs CAP_NET_RAW.
    pub fn any(family: Family, protocol: u8) -> io::Result<Self> {
        Self::receiver(family, protocol)
    }

    /// Sends whole IPv4 or IPv6 packets, headers included. Needs CAP_NET_RAW.
    pub fn sender(family: Family) -> io::Result<Self> {
        let domain = domain(family);
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
        socket.set_nonblocking(true)?;
        let raw = Self { socket, family, connected: false };
        // Without this the kernel keeps silent about packets that a full device queue has dropped
        // (ip(7), IP_RECVERR). It also queues notes about oversized packets, which nobody reads:
        // the least queue bounds them.
        const ON: c_int = 1;
        match family {
            Family::V4 => raw.set(libc::IPPROTO_IP, libc::IP_RECVERR, &ON)?,
            Family::V6 => raw.set(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &ON)?,
        }
        raw.socket.set_recv_buffer_size(0)?;
        Ok(raw)
    }

    /// A datagram socket that carries whole IP packets to and from one peer, such as one end of a
    /// socket pair. No privilege is needed, and destinations are the peer's affair.
    pub fn connected(family: Family, socket: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self { socket, family, connected: true })
    }

    fn receiver(family: Family, protocol: u8) -> io::Result<Self> {
        let domain = domain(family);
        let protocol = Protocol::from(c_int::from(protocol));
        let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
        socket.set_nonblocking(true)?;
        let raw = Self { socket, family, connected: false };
        const ON: c_int = 1;
        if family == Family::V6 {
            raw.set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &ON)?;
            raw.set(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, &ON)?;
            raw.set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &ON)?;
            raw.set(libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO, &ON)?;
            raw.set(libc::IPPROTO_IPV6, libc::IPV6_RECVFRAGSIZE, &ON)?;
        } else {
            raw.set(libc::IPPROTO_IP, libc::IP_RECVFRAGSIZE, &ON)?;
        }
        raw.set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &ON)?;
        Ok(raw)
    }

    /// Lets only packets through whose destination lies in one of the prefixes, which must be of
    /// the socket's family. Replaces an earlier filter of this kind without a gap.
    pub fn accept_destinations(&self, prefixes: &[IpNet]) -> io::Result<()> {
        let filter = destination_filter(prefixes)?;
        let program = libc::sock_fprog {
            len: u16::try_from(filter.len()).map_err(io::Error::other)?,
            filter: filter.as_ptr().cast_mut(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Lets only ICMP or ICMPv6 messages of these types through; the socket's protocol must be
    /// one of the two.
    pub fn accept_icmp_types(&self, types: &[u8]) -> io::Result<()> {
        // A set bit blocks. ICMP_FILTER has 32 of them (raw(7)), ICMP6_FILTER 256 (RFC 3542 3.2).
        let mut blocked = [u32::MAX; 8];
        for kind in types {
            if let Some(word) = blocked.get_mut(usize::from(kind / 32)) {
                *word &= !(1 << (kind % 32));
            }
        }
        if self.family == Family::V6 {
            const ICMP6_FILTER: c_int = 1;
            self.set(libc::IPPROTO_ICMPV6, ICMP6_FILTER, &blocked)
        } else {
            const ICMP_FILTER: c_int = 1;
            let [first, ..] = blocked;
            self.set(libc::SOL_RAW, ICMP_FILTER, &first)
        }
    }

    /// Sends packets that must not be fragmented, whatever is known of the path: so that routers
    /// tell (ip(7), IP_PMTUDISC_PROBE).
    pub fn probe_path_mtu(&self) -> io::Result<()> {
        match self.family {
            Family::V4 => {
                self.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_PROBE)
            }
            Family::V6 => {
                self.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &libc::IPV6_PMTUDISC_PROBE)
            }
        }
    }

    /// Asks for a receive queue of `wanted` octets; one that is of that size stays as it is.
    pub fn set_receive_queue(&self, wanted: usize) -> io::Result<QueueSize> {
        // The kernel doubles the value for its own overhead (socket(7)).
        let granted = || Ok::<_, io::Error>(self.socket.recv_buffer_size()? / 2);
        // With CAP_NET_ADMIN the system's bound does not hold (SO_RCVBUFFORCE).
        if granted()? != wanted
            && sockopt::set_socket_recv_buffer_size_force(&self.socket, wanted).is_err()
        {
            self.socket.set_recv_buffer_size(wanted)?;
        }
        Ok(QueueSize { wanted, granted: granted()? })
    }

    /// Asks for a send queue of `wanted` octets; one that is of that size stays as it is.
    pub fn set_send_queue(&self, wanted: usize) -> io::Result<QueueSize> {
        let granted = || Ok::<_, io::Error>(self.socket.send_buffer_size()? / 2);
        if granted()? != wanted
            && sockopt::set_socket_send_buffer_size_force(&self.socket, wanted).is_err()
        {
            self.socket.set_send_buffer_size(wanted)?;
        }
        Ok(QueueSize { wanted, granted: granted()? })
    }

    /// The family of the socket's packets.
    pub const fn family(&self) -> Family {
        self.family
    }

    /// Whether the socket has one peer to which everything is sent.
    pub const fn is_connected(&self) -> bool {
        self.connected
    }

    fn set<T>(&self, level: c_int, name: c_int, value: &T) -> io::Result<()> {
        let length = socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
        // SAFETY: `value` points to `length` readable octets for the duration of the call, and
        // the kernel copies them. A `sock_fprog` in it points to a slice that the caller holds.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                level,
                name,
                std::ptr::from_ref(value).cast::<c_void>(),
                length,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for RawSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn domain(family: Family) -> Domain {
    match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    }
}

/// A classic BPF program that accepts packets whose destination lies in one of the prefixes.
fn destination_filter(prefixes: &[IpNet]) -> io::Result<Vec<libc::sock_filter>> {
    // Offsets from the network header, wherever the socket's own data starts (SKF_NET_OFF).
    const NETWORK: i32 = -0x10_0000;
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const MASK: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
    const COMPARE: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jf: usize, k: u32| -> io::Result<libc::sock_filter> {
        Ok(libc::sock_filter {
            code: u16::try_from(code).map_err(io::Error::other)?,
            jt: 0,
            jf: u8::try_from(jf).map_err(io::Error::other)?,
            k,
        })
    };
    let mut program = Vec::new();
    for prefix in prefixes {
        let (base, words) = match prefix.network() {
            IpAddr::V4(v4) => (16, vec![v4.to_bits()]),
            IpAddr::V6(v6) => (24, words_of(v6)),
        };
        let compared = usize::from(prefix.prefix_len()).div_ceil(32).max(1);
        for (number, word) in words.into_iter().take(compared).enumerate() {
            let bits = usize::from(prefix.prefix_len()).saturating_sub(number * 32).min(32);
            let mask = u32::try_from(u64::from(u32::MAX) << (32 - bits) & 0xffff_ffff)
                .map_err(io::Error::other)?;
            let offset = NETWORK + base + i32::try_from(number * 4).map_err(io::Error::other)?;
            program.push(step(LOAD, 0, offset.cast_unsigned())?);
            program.push(step(MASK, 0, mask)?);
            // On a mismatch, to the next prefix: over the rest of this one and its return.
            program.push(step(COMPARE, 3 * (compared - number - 1) + 1, word & mask)?);
        }
        program.push(step(RETURN, 0, u32::MAX)?);
    }
    program.push(step(RETURN, 0, 0)?);
    Ok(program)
}

fn words_of(address: Ipv6Addr) -> Vec<u32> {
    let octets = address.octets();
    let (words, _) = octets.as_chunks::<4>();
    words.iter().map(|word| u32::from_be_bytes(*word)).collect()
}
