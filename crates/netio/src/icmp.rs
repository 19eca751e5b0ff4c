//! Raw sockets that send ICMP echo requests and see echo replies only (RFC 792 p. 14, RFC 4443
//! 4.1, 4.2).
//!
//! The kernel filters all other ICMP types before they reach the socket. Whose request a reply
//! answers is the caller's question: every such socket sees every echo reply of its family.
//!
//! ```text
//!  0                   1                   2                   3
//! |     type      |   code = 0    |           checksum            |
//! |          identifier           |           sequence            |
//! |  payload ...
//! ```

use crate::socket::RawSocket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use wire::Family;

use rustix::net::{RecvFlags, SendFlags};

/// The longest payload [`EchoSocket::send_echo`] accepts: what `ping` sends by default.
pub const MAX_PAYLOAD: usize = 56;

/// A receive buffer of this size takes every reply to a request of ours with any IPv4 options.
pub const REPLY_BUFFER: usize = IPV4_MAX_HEADER + HEADER + MAX_PAYLOAD;

/// A non-blocking raw socket for echo requests and replies of one family.
#[derive(Debug)]
pub struct EchoSocket {
    socket: RawSocket,
}

/// An echo reply as it came from the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoReply<'a> {
    /// The source address.
    pub from: IpAddr,
    /// The identifier.
    pub id: u16,
    /// The sequence number.
    pub seq: u16,
    /// What followed the header, cut at the size of the receive buffer.
    pub payload: &'a [u8],
}

impl<'a> EchoReply<'a> {
    /// Reads what a raw socket of the family delivered from this address: an IPv4 packet, or an
    /// ICMPv6 message whose checksum the kernel has verified. `None` if it is no echo reply.
    #[must_use]
    pub fn parse(family: Family, from: IpAddr, delivered: &'a [u8]) -> Option<Self> {
        match family {
            Family::V4 => {
                let message = ipv4_payload(delivered)?;
                (checksum(message) == 0).then(|| echo_reply(message, ECHO_REPLY_V4, from))?
            }
            Family::V6 => echo_reply(delivered, ECHO_REPLY_V6, from),
        }
    }
}

impl EchoSocket {
    /// Opens the socket in the calling thread's network namespace; needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// Whatever the kernel says, above all `EPERM` without the capability and `EAFNOSUPPORT`
    /// without IPv6.
    pub fn new(family: Family) -> io::Result<Self> {
        let reply = match family {
            Family::V4 => ECHO_REPLY_V4,
            Family::V6 => ECHO_REPLY_V6,
        };
        let socket = open(family, &[reply])?;
        // Requests to neighbours that do not answer ARP wait in the kernel and count against the
        // send queue, so at its default a few hundred dead backends could block the probes of the
        // living; the receive queue takes the replies of thousands of backends at once.
        socket.set_send_queue(QUEUE_BYTES)?;
        socket.set_receive_queue(QUEUE_BYTES)?;
        Ok(Self { socket })
    }

    /// Sends one echo request.
    ///
    /// # Errors
    /// `InvalidInput` for an address of the other family or a payload over [`MAX_PAYLOAD`];
    /// otherwise the kernel's error, `WouldBlock` included.
    pub fn send_echo(&self, dst: IpAddr, id: u16, seq: u16, payload: &[u8]) -> io::Result<()> {
        let family = if dst.is_ipv4() { Family::V4 } else { Family::V6 };
        if family != self.family() || payload.len() > MAX_PAYLOAD {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let message = echo_request(family, id, seq, payload);
        let message = message.get(..HEADER + payload.len()).unwrap_or(&message);
        rustix::net::sendto(&self.socket, message, SendFlags::empty(), &SocketAddr::new(dst, 0))?;
        Ok(())
    }

    /// Takes one datagram off the socket; `Ok(None)` if it is not a well-formed echo reply.
    ///
    /// # Errors
    /// `WouldBlock` when nothing waits, otherwise the kernel's error.
    pub fn recv_reply<'a>(&self, buf: &'a mut [u8]) -> io::Result<Option<EchoReply<'a>>> {
        let (len, _, from) = rustix::net::recvfrom(&self.socket, &mut *buf, RecvFlags::empty())?;
        let from = from.and_then(|address| SocketAddr::try_from(address).ok());
        let (Some(from), Some(packet)) = (from, buf.get(..len)) else {
            return Ok(None);
        };
        Ok(EchoReply::parse(self.family(), from.ip(), packet))
    }

    /// The family given to [`EchoSocket::new`].
    #[must_use]
    pub fn family(&self) -> Family {
        self.socket.family()
    }
}

impl AsFd for EchoSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for EchoSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// A socket for echo requests that find out how large a packet may be on the way to a host: they
/// are as large as asked for, must not be fragmented, and nobody waits for their replies. What
/// counts is the "too big" of a router, which the kernel notes for all traffic to that host
/// ([`crate::path::lookup`] then tells).
#[derive(Debug)]
pub struct MtuProbe {
    socket: RawSocket,
}

impl MtuProbe {
    /// Opens the socket; needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// Whatever the kernel says.
    pub fn new(family: Family) -> io::Result<Self> {
        let socket = open(family, &[])?;
        socket.probe_path_mtu()?;
        Ok(Self { socket })
    }

    /// Sends an echo request that makes an IP packet of `mtu` octets, at least the family's
    /// minimum.
    ///
    /// # Errors
    /// The kernel's error; `EMSGSIZE` if the device itself does not take so large a packet.
    pub fn send(&self, dst: IpAddr, mtu: u32) -> io::Result<()> {
        let family = self.socket.family();
        let (overhead, least) = match family {
            Family::V4 => (IPV4_MIN_HEADER, wire::ipv4::MIN_MTU),
            Family::V6 => (wire::ipv6::HEADER_BYTES, wire::ipv6::MIN_MTU),
        };
        let length = usize::try_from(mtu.max(least)).map_err(io::Error::other)? - overhead;
        // Identifier and sequence number 0: no prober waits for it, and zeros sum up to nothing.
        let mut message = echo_request(family, 0, 0, &[]).to_vec();
        message.resize(length, 0);
        rustix::net::sendto(&self.socket, &message, SendFlags::empty(), &SocketAddr::new(dst, 0))?;
        Ok(())
    }
}

/// A raw ICMP socket of the family that receives these types.
fn open(family: Family, types: &[u8]) -> io::Result<RawSocket> {
    let protocol = match family {
        Family::V4 => wire::protocol::ICMP,
        Family::V6 => wire::protocol::ICMPV6,
    };
    let socket = RawSocket::any(family, protocol)?;
    socket.accept_icmp_types(types)?;
    Ok(socket)
}

/// An echo request at the head of a buffer for the longest one.
fn echo_request(family: Family, id: u16, seq: u16, payload: &[u8]) -> [u8; HEADER + MAX_PAYLOAD] {
    let mut message = [0; HEADER + MAX_PAYLOAD];
    message[0] = match family {
        Family::V4 => ECHO_REQUEST_V4,
        Family::V6 => ECHO_REQUEST_V6,
    };
    message[4..6].copy_from_slice(&id.to_be_bytes());
    message[6..8].copy_from_slice(&seq.to_be_bytes());
    for (to, from) in message[HEADER..].iter_mut().zip(payload) {
        *to = *from;
    }
    if family == Family::V4 {
        // The zeros behind the payload do not change the sum. The kernel fills in ICMPv6's, which
        // covers addresses that are not known here.
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

fn echo_reply(message: &[u8], echo_reply_type: u8, from: IpAddr) -> Option<EchoReply<'_>> {
    let (header, payload) = message.split_first_chunk::<HEADER>()?;
    let [kind, code, _, _, id_high, id_low, seq_high, seq_low] = *header;
    (kind == echo_reply_type && code == 0).then_some(EchoReply {
        from,
        id: u16::from_be_bytes([id_high, id_low]),
        seq: u16::from_be_bytes([seq_high, seq_low]),
        payload,
    })
}

/// What follows the IPv4 header (RFC 791 3.1) that raw sockets deliver with every packet.
fn ipv4_payload(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first()?;
    let header_len = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || header_len < IPV4_MIN_HEADER {
        return None;
    }
    packet.get(header_len..)
}

/// The Internet checksum (RFC 1071): zero over a message that carries its right checksum.
fn checksum(message: &[u8]) -> u16 {
    let (words, odd) = message.as_chunks::<2>();
    let mut sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    sum += odd.first().map_or(0, |byte| u32::from(*byte) << 8);
    while let carry @ 1.. = sum >> 16 {
        sum = (sum & 0xffff) + carry;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the loop folded it into 16 bits")]
    let folded = sum as u16;
    !folded
}

const HEADER: usize = 8;
const IPV4_MIN_HEADER: usize = 20;
const IPV4_MAX_HEADER: usize = 60;
const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REPLY_V4: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
/// A small packet is accounted with 768 bytes on Linux: room for about 5,000.
const QUEUE_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// The default payload of Windows' `ping`, whose packets are in every trace.
    const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwabcdefghi";

    #[test]
    fn echo_request_has_the_bytes_of_windows_ping() {
        let message = echo_request(Family::V4, 1, 1, ALPHABET);
        assert_eq!(message[..8], [0x08, 0x00, 0x4d, 0x5a, 0x00, 0x01, 0x00, 0x01]);
        assert_eq!(&message[8..40], ALPHABET);
    }

    #[test]
    fn checksum_agrees_with_the_example_of_rfc_1071() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&example), !0xddf2);
        assert_eq!(checksum(&example[..7]), !0xdcfb, "odd length is padded with zero");
    }

    #[test]
    fn ipv4_header_is_skipped_with_its_options_and_refused_when_malformed() {
        let packet = |first: u8, len: usize| {
            let mut packet = vec![0xa5; len];
            packet[0] = first;
            packet
        };
        for (first, len, expected) in [
            (0x45, 28, Some(8)),
            (0x46, 28, Some(4)),
            (0x4f, 60, Some(0)),
            (0x4f, 59, None),
            (0x44, 28, None),
            (0x65, 28, None),
            (0x45, 19, None),
        ] {
            let packet = packet(first, len);
            assert_eq!(ipv4_payload(&packet).map(<[u8]>::len), expected, "{first:#x} {len}");
        }
        assert_eq!(ipv4_payload(&[]), None);
    }

    #[test]
    fn reply_of_another_type_or_code_or_length_is_refused() {
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let reply = [0, 0, 0xa5, 0xa5, 0x12, 0x34, 0x56, 0x78, 9];
        let expected = EchoReply { from, id: 0x1234, seq: 0x5678, payload: &[9] };
        assert_eq!(echo_reply(&reply, ECHO_REPLY_V4, from), Some(expected));
        assert_eq!(echo_reply(&reply, ECHO_REPLY_V6, from), None);
        assert_eq!(echo_reply(&reply[..7], ECHO_REPLY_V4, from), None);
        assert_eq!(echo_reply(&[0, 1, 0, 0, 0, 0, 0, 0], ECHO_REPLY_V4, from), None);
    }

    #[test]
    fn loopback_answers_and_the_filter_hides_the_request() {
        for (family, address) in [
            (Family::V4, IpAddr::V4(Ipv4Addr::LOCALHOST)),
            (Family::V6, IpAddr::V6(Ipv6Addr::LOCALHOST)),
        ] {
            let socket = match EchoSocket::new(family) {
                Ok(socket) => socket,
                Err(error) => {
                    skip(&format!("no raw {family:?} socket: {error}"));
                    continue;
                }
            };
            // The kernel loops requests back to raw sockets too; only the reply may come out. Other
            // tests' replies come out as well, hence the search by payload.
            let payload = [family as u8, 1, 2, 3, 5, 8, 13, 21];
            if let Err(error) = socket.send_echo(address, 0x1234, 7, &payload) {
                skip(&format!("{address} is unreachable: {error}"));
                continue;
            }
            let mut buf = [0xa5; REPLY_BUFFER];
            loop {
                wait_readable(&socket);
                let reply = socket.recv_reply(&mut buf).unwrap().expect("only replies pass");
                if reply.payload == payload {
                    assert_eq!((reply.from, reply.id, reply.seq), (address, 0x1234, 7));
                    break;
                }
            }
        }
    }

    #[test]
    fn address_of_the_other_family_and_oversized_payload_are_refused() {
        let Ok(socket) = EchoSocket::new(Family::V4) else {
            return skip("no raw socket");
        };
        let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for (address, len) in [(v6, 8), (v4, MAX_PAYLOAD + 1)] {
            let error = socket.send_echo(address, 1, 1, &vec![0; len]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    fn skip(reason: &str) {
        let required = std::env::var_os("LABS").is_some_and(|value| value == "required");
        assert!(!required, "must not be skipped: {reason}");
        println!("skipped: {reason}");
    }

    fn wait_readable(socket: &EchoSocket) {
        let deadline = Timespec { tv_sec: 5, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&deadline)).unwrap();
        assert_eq!(ready, 1, "no answer within 5 s");
    }
}
