//! The path to a destination, as the kernel's routing table and its cache of "packet too big"
//! messages know it: the MTU, and the source address that the host would use.

use libc::{c_int, c_void, socklen_t};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// What the kernel knows of the way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Octets of the largest packet that can be sent there.
    pub mtu: u32,
    /// The host's own source address towards it.
    pub source: IpAddr,
}

/// The path to `destination`; an error such as "network is unreachable" where there is no route.
///
/// No packet is sent: connecting a datagram socket looks the route up, and the socket then knows
/// its MTU and source (ip(7), IP_MTU). Each lookup has a socket of its own: one that is connected
/// again keeps its first source address, also when the host does not have it any more.
///
/// # Errors
/// What the kernel says.
pub fn lookup(destination: IpAddr) -> io::Result<Path> {
    let (domain, level, name) = match destination {
        IpAddr::V4(_) => (Domain::IPV4, libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => (Domain::IPV6, libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let socket = Socket::new(domain, Type::DGRAM, None)?;
    // Port 9 is "discard"; any port would do.
    socket.connect(&SockAddr::from(SocketAddr::new(destination, 9)))?;
    let mut mtu: c_int = 0;
    let mut length = socklen_t::try_from(size_of::<c_int>()).map_err(io::Error::other)?;
    // SAFETY: `mtu` and `length` are writable for the duration of the call, and `length` is the
    // size of `mtu`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(&mut mtu).cast::<c_void>(),
            &mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let source = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?.ip();
    Ok(Path { mtu: u32::try_from(mtu).map_err(io::Error::other)?, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_path_has_the_loopback_mtu() {
        let path = lookup("127.0.0.1".parse().unwrap()).unwrap();
        let device = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        // The device takes 65,536; an IPv4 packet's length has 16 bits (IP_MAX_MTU, net/ip.h).
        assert_eq!(path.mtu, device.trim().parse::<u32>().unwrap().min(65_535));
    }
}
