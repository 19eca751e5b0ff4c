//! Many packets in one system call: recvmmsg(2) and sendmmsg(2) over one buffer.

use crate::socket::RawSocket;
use libc::{c_int, c_void};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Packets of one batch.
pub const BATCH: usize = BATCH_U32 as usize;
const BATCH_U32: u32 = 64;
/// Octets kept free before each packet: an IPv6 header that the kernel did not hand over, and
/// the 48 octets of an ICMPv6 error.
pub const HEADROOM: usize = 128;
/// Octets of the largest IP packet (RFC 791, RFC 8200 without jumbograms), IPv6 header apart.
pub const MAX_PACKET_BYTES: usize = 65_535;

/// Slots are spread over the cache's sets: the stride is a multiple of 64, not of 4096.
const STRIDE: usize = HEADROOM + MAX_PACKET_BYTES + 1 + 64 * 9;
const CONTROL_BYTES: usize = 256;

/// What the kernel told about a packet beside its octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub source: IpAddr,
    /// Whom it was sent to (IPv6 only).
    pub destination: Option<Ipv6Addr>,
    /// Hop limit (IPv6 only).
    pub hop_limit: u8,
    /// Traffic class (IPv6 only).
    pub traffic_class: u8,
    /// Flow label, 20 bits (IPv6 only).
    pub flow_label: u32,
    /// The packet came in fragments that the kernel put together.
    pub reassembled: bool,
    /// The packet did not fit into its slot.
    pub truncated: bool,
    /// Packets that the full receive queue has dropped since the socket was opened, wrapping.
    pub queue_drops: Option<u32>,
}

/// One packet to send: where it lies in the batch's buffer, and its destination.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    start: usize,
    length: usize,
    destination: IpAddr,
}

impl Outgoing {
    /// The packet at `place` within the slot. Its destination's family must be the socket's.
    pub fn new(slot: usize, place: Range<usize>, destination: IpAddr) -> Self {
        Self { start: slot * STRIDE + place.start, length: place.len(), destination }
    }

    /// Octets of the packet.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Where it goes.
    pub const fn destination(&self) -> IpAddr {
        self.destination
    }
}

/// A buffer of [`BATCH`] slots, each with room for the largest packet and for headers before it.
#[derive(Debug)]
pub struct Batch {
    buffer: Box<[u8]>,
    control: Box<[[u8; CONTROL_BYTES]]>,
    received: Vec<(usize, Received)>,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            buffer: vec![0; BATCH * STRIDE].into_boxed_slice(),
            control: vec![[0; CONTROL_BYTES]; BATCH].into_boxed_slice(),
            received: Vec::with_capacity(BATCH),
        }
    }
}

impl Batch {
    /// Slots of the last receive.
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Whether the last receive brought nothing.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// The octets of one slot with its headroom, and the packet's place within.
    pub fn slot(&mut self, slot: usize) -> Option<(&mut [u8], Range<usize>, Received)> {
        let (length, received) = *self.received.get(slot)?;
        let octets = self.buffer.get_mut(slot * STRIDE..(slot + 1) * STRIDE)?;
        Some((octets, HEADROOM..HEADROOM + length, received))
    }

    /// Puts a packet into a slot as if it had been received there; the slot's octets and the
    /// packet's place within. `None` if there is no such slot or the packet does not fit.
    pub fn put(&mut self, slot: usize, packet: &[u8]) -> Option<(&mut [u8], Range<usize>)> {
        let octets = self.buffer.get_mut(slot * STRIDE..(slot + 1) * STRIDE)?;
        let place = HEADROOM..HEADROOM + packet.len();
        octets.get_mut(place.clone())?.copy_from_slice(packet);
        Some((octets, place))
    }

    /// The octets of a packet to send, as they lie in the buffer.
    pub fn octets(&self, packet: &Outgoing) -> &[u8] {
        self.buffer.get(packet.start..packet.start + packet.length).unwrap_or_default()
    }

    /// Reads up to [`BATCH`] packets without waiting; 0 if none is there.
    pub fn receive(&mut self, socket: &RawSocket) -> io::Result<usize> {
        self.received.clear();
        // SAFETY: all-zero octets are a valid `sockaddr_in6`, of no family.
        let mut names: [libc::sockaddr_in6; BATCH] = unsafe { std::mem::zeroed() };
        let mut vectors = [EMPTY_VECTOR; BATCH];
        let mut messages = [EMPTY_MESSAGE; BATCH];
        let slots = self.buffer.chunks_exact_mut(STRIDE).zip(&mut self.control);
        for (((message, vector), name), (slot, control)) in
            messages.iter_mut().zip(&mut vectors).zip(&mut names).zip(slots)
        {
            let (_, room) = slot.split_at_mut(HEADROOM);
            *vector = libc::iovec {
                iov_base: room.as_mut_ptr().cast::<c_void>(),
                iov_len: MAX_PACKET_BYTES.min(room.len()),
            };
            let header = &mut message.msg_hdr;
            header.msg_name = std::ptr::from_mut(name).cast::<c_void>();
            header.msg_namelen = SOCKADDR_IN6_BYTES;
            header.msg_iov = std::ptr::from_mut(vector);
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast::<c_void>();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: each message points to a name, an iovec, a slot and a control buffer that live
        // until after the call and are not aliased; the lengths are those of the buffers.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH_U32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        };
        for (message, name) in messages.iter().zip(&names).take(count) {
            let source = address_of(name);
            let received = describe(&message.msg_hdr, source);
            self.received.push((message.msg_len as usize, received));
        }
        Ok(count)
    }

    /// Sends packets of this buffer, in order, in as few calls as possible. A packet that the
    /// kernel refuses is reported, and the others go on. Does not wait: a full queue is reported
    /// as `WouldBlock`, packet by packet.
    pub fn send(
        &self,
        socket: &RawSocket,
        packets: &[Outgoing],
        mut refused: impl FnMut(usize, io::Error),
    ) {
        for (chunk, first) in packets.chunks(BATCH).zip((0..).step_by(BATCH)) {
            self.send_chunk(socket, chunk, |index, error| refused(first + index, error));
        }
    }

    fn send_chunk(
        &self,
        socket: &RawSocket,
        packets: &[Outgoing],
        mut refused: impl FnMut(usize, io::Error),
    ) {
        // SAFETY: all-zero octets are a valid `sockaddr_in6`.
        let mut names: [libc::sockaddr_in6; BATCH] = unsafe { std::mem::zeroed() };
        let mut vectors = [EMPTY_VECTOR; BATCH];
        let mut messages = [EMPTY_MESSAGE; BATCH];
        for (((message, vector), name), packet) in
            messages.iter_mut().zip(&mut vectors).zip(&mut names).zip(packets)
        {
            let octets = self.octets(packet);
            *vector = libc::iovec {
                iov_base: octets.as_ptr().cast_mut().cast::<c_void>(),
                iov_len: octets.len(),
            };
            let header = &mut message.msg_hdr;
            if !socket.is_connected() {
                header.msg_namelen = write_address(name, packet.destination);
                header.msg_name = std::ptr::from_mut(name).cast::<c_void>();
            }
            header.msg_iov = std::ptr::from_mut(vector);
            header.msg_iovlen = 1;
        }
        let mut done = 0;
        while let Some(rest) = messages.get_mut(done..packets.len()).filter(|r| !r.is_empty()) {
            // SAFETY: `rest` holds `rest.len()` messages whose names, iovecs and octets live until
            // after the call; sendmmsg only reads them and writes `msg_len`.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    rest.as_mut_ptr(),
                    u32::try_from(rest.len()).unwrap_or(BATCH_U32),
                    libc::MSG_DONTWAIT,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => done += sent,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        refused(done, error);
                        done += 1;
                    }
                }
            }
        }
    }
}

const EMPTY_VECTOR: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
// SAFETY: all-zero octets are a valid `mmsghdr`: null pointers with zero lengths.
const EMPTY_MESSAGE: libc::mmsghdr = unsafe { std::mem::zeroed() };
const SOCKADDR_IN_BYTES: libc::socklen_t = 16;
const SOCKADDR_IN6_BYTES: libc::socklen_t = 28;
const _: () = assert!(
    size_of::<libc::sockaddr_in>() == 16 && size_of::<libc::sockaddr_in6>() == 28,
    "the sizes of socket addresses are part of the kernel's interface"
);
const INET: libc::sa_family_t = 2;
const INET6: libc::sa_family_t = 10;
const _: () = assert!(libc::AF_INET == 2 && libc::AF_INET6 == 10, "address families");

/// Reads a socket address; the unspecified one if the kernel gave none.
fn address_of(name: &libc::sockaddr_in6) -> IpAddr {
    let family = name.sin6_family;
    if family == INET6 {
        IpAddr::V6(Ipv6Addr::from(name.sin6_addr.s6_addr))
    } else if family == INET {
        // SAFETY: the family says that a `sockaddr_in` was written; it is no larger and no
        // stricter aligned than the initialised `sockaddr_in6` whose storage it took.
        let v4 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
        let address = v4.sin_addr.s_addr;
        IpAddr::V4(Ipv4Addr::from(u32::from_be(address)))
    } else {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    }
}

fn write_address(name: &mut libc::sockaddr_in6, destination: IpAddr) -> libc::socklen_t {
    match destination {
        IpAddr::V4(v4) => {
            let to = std::ptr::from_mut(name).cast::<libc::sockaddr_in>();
            // SAFETY: a `sockaddr_in` is no larger and no stricter aligned than the `sockaddr_in6`
            // whose storage it takes.
            unsafe {
                (*to).sin_family = INET;
                (*to).sin_addr.s_addr = u32::from(v4).to_be();
            }
            SOCKADDR_IN_BYTES
        }
        IpAddr::V6(v6) => {
            name.sin6_family = INET6;
            name.sin6_addr.s6_addr = v6.octets();
            SOCKADDR_IN6_BYTES
        }
    }
}

/// Reads the ancillary data (cmsg(3)).
fn describe(header: &libc::msghdr, source: IpAddr) -> Received {
    let mut received = Received {
        source,
        destination: None,
        hop_limit: 0,
        traffic_class: 0,
        flow_label: 0,
        reassembled: false,
        truncated: header.msg_flags & libc::MSG_TRUNC != 0,
        queue_drops: None,
    };
    // SAFETY: the kernel has set the control buffer and its length, which stay valid meanwhile.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return pointers to whole headers in the buffer.
        let (control, data) = unsafe { (&*next, libc::CMSG_DATA(next)) };
        // SAFETY: for each kind the kernel writes a value of this type, perhaps not aligned.
        unsafe {
            match (control.cmsg_level, control.cmsg_type) {
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    received.destination = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    received.hop_limit = octet(data.cast::<c_int>().read_unaligned());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    received.traffic_class = octet(data.cast::<c_int>().read_unaligned());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO) => {
                    let flow = u32::from_be(data.cast::<u32>().read_unaligned());
                    received.flow_label = flow & 0xf_ffff;
                }
                (libc::IPPROTO_IPV6, libc::IPV6_RECVFRAGSIZE)
                | (libc::IPPROTO_IP, libc::IP_RECVFRAGSIZE) => received.reassembled = true,
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    received.queue_drops = Some(data.cast::<u32>().read_unaligned());
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    received
}

fn octet(value: c_int) -> u8 {
    u8::try_from(value).unwrap_or(0)
}
