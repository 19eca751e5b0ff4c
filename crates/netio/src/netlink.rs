//! Synchronous rtnetlink (RFC 3549) for the namespace of the thread that opened the handle.
//!
//! One request, one acknowledgement. Links, addresses and routes only as far as hosts of a lab and
//! the address checks of a daemon need them; no dumps, no notifications.
//! Every error names the operation and its object, and has the kernel's error as its source.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NLMSG_ALIGNTO,
    NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteNextHop, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;

use crate::context::context;

/// Longest reply that is read; the kernel's are a few hundred bytes.
const MAX_REPLY_BYTES: usize = 64 * 1024;
/// Most datagrams read for one request: the answer, its acknowledgement, and stale ones.
const MAX_REPLIES: usize = 16;
/// Most datagrams read for one list: some tens of thousands of entries.
const MAX_DUMP_DATAGRAMS: usize = 4096;
/// `RT_TABLE_LOCAL` of rtnetlink(7): what is delivered to this host.
const TABLE_LOCAL: u8 = 255;
/// `1 << RTAX_MTU`: the MTU metric is locked, path MTU discovery does not change it.
const LOCK_MTU: u32 = 1 << 2;

/// A route netlink socket.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// A route to add.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// Destination prefix; host bits are ignored.
    pub destination: IpNet,
    /// Next hop, of the destination's family.
    pub via: Option<IpAddr>,
    /// Outgoing link; without it the kernel finds the link of `via`.
    pub link: Option<&'a str>,
    /// Path MTU in bytes, locked against discovery.
    pub mtu: Option<u32>,
}

impl<'a> Route<'a> {
    /// A route to `destination` through the neighbour `via`.
    #[must_use]
    pub fn via(destination: IpNet, via: IpAddr) -> Self {
        Self { destination, via: Some(via), link: None, mtu: None }
    }

    /// A route to `destination`, which is directly on `link`.
    #[must_use]
    pub fn on_link(destination: IpNet, link: &'a str) -> Self {
        Self { destination, via: None, link: Some(link), mtu: None }
    }

    /// Locks the path MTU to `mtu` bytes.
    #[must_use]
    pub fn with_mtu(self, mtu: u32) -> Self {
        Self { mtu: Some(mtu), ..self }
    }
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace; it stays there.
    ///
    /// # Errors
    /// No netlink socket to be had.
    pub fn open() -> io::Result<Self> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| context("open route netlink", error))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Creates a virtual Ethernet cable: `name` here, `peer_name` in the namespace `peer_namespace`.
    ///
    /// # Errors
    /// A name in use or longer than 15 bytes, no `CAP_NET_ADMIN` over both namespaces.
    pub fn veth(
        &mut self,
        name: &str,
        peer_name: &str,
        peer_namespace: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes = vec![
            LinkAttribute::IfName(peer_name.to_owned()),
            LinkAttribute::NetNsFd(peer_namespace.as_raw_fd()),
        ];
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        self.change(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|error| context(format!("create veth {name} with peer {peer_name}"), error))
    }

    /// Sets `link` administratively up.
    ///
    /// # Errors
    /// No such link, or no `CAP_NET_ADMIN`.
    pub fn set_up(&mut self, link: &str) -> io::Result<()> {
        self.set_link(link, |message| {
            message.header.flags = LinkFlags::Up;
            message.header.change_mask = LinkFlags::Up;
        })
        .map_err(|error| context(format!("set link {link} up"), error))
    }

    /// Takes `link` down, as pulling its cable does.
    ///
    /// # Errors
    /// No such link, or no `CAP_NET_ADMIN`.
    pub fn set_down(&mut self, link: &str) -> io::Result<()> {
        self.set_link(link, |message| message.header.change_mask = LinkFlags::Up)
            .map_err(|error| context(format!("set link {link} down"), error))
    }

    /// Sets the MTU of `link` to `mtu` bytes.
    ///
    /// # Errors
    /// No such link, an MTU it does not support, or no `CAP_NET_ADMIN`.
    pub fn set_mtu(&mut self, link: &str, mtu: u32) -> io::Result<()> {
        self.set_link(link, |message| message.attributes.push(LinkAttribute::Mtu(mtu)))
            .map_err(|error| context(format!("set mtu {mtu} on {link}"), error))
    }

    /// Deletes `link`, and with it the other end of a veth.
    ///
    /// # Errors
    /// No such link, or no `CAP_NET_ADMIN`.
    pub fn delete_link(&mut self, link: &str) -> io::Result<()> {
        let mut message = LinkMessage::default();
        self.index(link)
            .and_then(|index| {
                message.header.index = index;
                self.change(RouteNetlinkMessage::DelLink(message), 0)
            })
            .map_err(|error| context(format!("delete link {link}"), error))
    }

    /// Adds `address` with its on-link prefix to `link`.
    ///
    /// An IPv6 address skips duplicate address detection, so that it can be used at once.
    ///
    /// # Errors
    /// The address is there already, no such link, or no `CAP_NET_ADMIN`.
    pub fn add_address(&mut self, link: &str, address: IpNet) -> io::Result<()> {
        self.new_address(link, address, NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|error| context(format!("add address {address} to {link}"), error))
    }

    /// Adds `address` to `link`, or does nothing if it is there.
    ///
    /// # Errors
    /// No such link, or no `CAP_NET_ADMIN`.
    pub fn replace_address(&mut self, link: &str, address: IpNet) -> io::Result<()> {
        self.new_address(link, address, NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|error| context(format!("replace address {address} on {link}"), error))
    }

    /// Removes `address` from `link`.
    ///
    /// # Errors
    /// No such address or link, or no `CAP_NET_ADMIN`.
    pub fn delete_address(&mut self, link: &str, address: IpNet) -> io::Result<()> {
        self.index(link)
            .map(|index| address_message(index, address))
            .and_then(|message| self.change(RouteNetlinkMessage::DelAddress(message), 0))
            .map_err(|error| context(format!("delete address {address} from {link}"), error))
    }

    /// Adds a unicast route to the main table.
    ///
    /// # Errors
    /// The route exists, the next hop is unreachable, or no `CAP_NET_ADMIN`.
    pub fn add_route(&mut self, route: Route<'_>) -> io::Result<()> {
        self.try_add_route(route)
            .map_err(|error| context(format!("add route to {}", route.destination.trunc()), error))
    }

    /// Adds a route to `destination` over several next hops, which share its flows (ECMP).
    ///
    /// # Errors
    /// The route exists, a next hop is unreachable, or no `CAP_NET_ADMIN`.
    pub fn add_multipath_route(&mut self, destination: IpNet, hops: &[IpAddr]) -> io::Result<()> {
        let mut message = route_message(destination);
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.kind = RouteType::Unicast;
        message.header.scope = RouteScope::Universe;
        let hops = hops.iter().map(|via| {
            let mut hop = RouteNextHop::default();
            hop.attributes.push(RouteAttribute::Gateway((*via).into()));
            hop
        });
        message.attributes.push(RouteAttribute::MultiPath(hops.collect()));
        self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|error| context(format!("add routes to {}", destination.trunc()), error))
    }

    /// Delivers every address of `destination` to this host: `ip route add local PREFIX dev lo`.
    ///
    /// A socket can bind to such an IPv4 address; to an IPv6 one only with `IPV6_FREEBIND` or the
    /// sysctl `net/ipv6/ip_nonlocal_bind`.
    ///
    /// # Errors
    /// The route exists, or no `CAP_NET_ADMIN`.
    pub fn add_local_route(&mut self, destination: IpNet) -> io::Result<()> {
        let lo = self.index("lo");
        lo.and_then(|lo| {
            let mut message = route_message(destination);
            message.header.table = TABLE_LOCAL;
            message.header.scope = RouteScope::Host;
            message.header.kind = RouteType::Local;
            message.attributes.push(RouteAttribute::Oif(lo));
            self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
        })
        .map_err(|error| context(format!("add local route to {}", destination.trunc()), error))
    }

    /// Whether a packet to `address` is delivered to this host. Needs no privilege.
    ///
    /// # Errors
    /// The kernel does not answer the lookup.
    pub fn route_is_local(&mut self, address: IpAddr) -> io::Result<bool> {
        route_lookup(self, address)
            .map(|route| route.is_some_and(|route| route.header.kind == RouteType::Local))
            .map_err(|error| context(format!("look up the route to {address}"), error))
    }

    fn try_add_route(&mut self, route: Route<'_>) -> io::Result<()> {
        let mut message = route_message(route.destination);
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.kind = RouteType::Unicast;
        message.header.scope =
            if route.via.is_some() { RouteScope::Universe } else { RouteScope::Link };
        if let Some(via) = route.via {
            if via.is_ipv4() != route.destination.addr().is_ipv4() {
                let reason = format!("next hop {via} is of the other address family");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
            }
            message.attributes.push(RouteAttribute::Gateway(via.into()));
        }
        if let Some(link) = route.link {
            message.attributes.push(RouteAttribute::Oif(self.index(link)?));
        }
        if let Some(mtu) = route.mtu {
            let metrics = vec![RouteMetric::Lock(LOCK_MTU), RouteMetric::Mtu(mtu)];
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    fn new_address(&mut self, link: &str, address: IpNet, flags: u16) -> io::Result<()> {
        let message = address_message(self.index(link)?, address);
        self.change(RouteNetlinkMessage::NewAddress(message), flags)
    }

    fn set_link(&mut self, link: &str, edit: impl FnOnce(&mut LinkMessage)) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.index(link)?;
        edit(&mut message);
        self.change(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// The index of `link` in the socket's namespace.
    fn index(&self, link: &str) -> io::Result<u32> {
        // SAFETY: the descriptor is `self.socket`'s, which stays open for the call.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) };
        Ok(name_to_index(socket, link)?)
    }

    pub(crate) fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.request(message, flags).map(|_| ())
    }

    /// Sends one request, waits for its acknowledgement, returns the message that came before it.
    pub(crate) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let mut answer = None;
        for _ in 0..MAX_REPLIES {
            for reply in split(&self.receive()?)? {
                if reply.header.sequence_number != self.sequence {
                    continue;
                }
                match reply.payload {
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answer),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(message) => answer = Some(message),
                    // Of multi-part answers and lost messages: neither is asked for.
                    _ => {}
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel did not acknowledge"))
    }

    /// Sends one request for a list, and returns the whole of it.
    pub(crate) fn dump(
        &mut self,
        message: RouteNetlinkMessage,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut list = Vec::new();
        for _ in 0..MAX_DUMP_DATAGRAMS {
            for reply in split(&self.receive()?)? {
                if reply.header.sequence_number != self.sequence {
                    continue;
                }
                match reply.payload {
                    NetlinkPayload::Done(_) => return Ok(list),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(message) => list.push(message),
                    _ => {}
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's list does not end"))
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(MAX_REPLY_BYTES);
        loop {
            match self.socket.recv(&mut bytes, 0) {
                Ok(_) => return Ok(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The netlink messages of one datagram, each padded to four bytes.
fn split(mut datagram: &[u8]) -> io::Result<Vec<NetlinkMessage<RouteNetlinkMessage>>> {
    let mut messages = Vec::new();
    while !datagram.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
        let padded = length.next_multiple_of(usize::from(NLMSG_ALIGNTO)).max(1);
        datagram = datagram.get(padded..).unwrap_or_default();
        messages.push(message);
    }
    Ok(messages)
}

pub(crate) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn address_message(index: u32, address: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address.addr());
    message.header.prefix_len = address.prefix_len();
    message.header.index = index;
    message.attributes.push(AddressAttribute::Address(address.addr()));
    match address {
        IpNet::V4(_) => message.attributes.push(AddressAttribute::Local(address.addr())),
        IpNet::V6(_) => message.header.flags = AddressHeaderFlags::Nodad,
    }
    message
}

/// A route message with destination and origin; table, scope and kind are the caller's.
fn route_message(destination: IpNet) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(destination.addr());
    message.header.destination_prefix_length = destination.prefix_len();
    message.header.protocol = RouteProtocol::Static;
    message.attributes.push(RouteAttribute::Destination(destination.network().into()));
    message
}

/// The route that the kernel takes to `address`; `None` if there is none.
pub(crate) fn route_lookup(
    netlink: &mut Netlink,
    address: IpAddr,
) -> io::Result<Option<RouteMessage>> {
    let lookup = route_message(address.into());
    let mut message = RouteMessage::default();
    message.header.address_family = lookup.header.address_family;
    message.header.destination_prefix_length = lookup.header.destination_prefix_length;
    message.attributes = lookup.attributes;
    match netlink.request(RouteNetlinkMessage::GetRoute(message), 0) {
        Ok(Some(RouteNetlinkMessage::NewRoute(route))) => Ok(Some(route)),
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel sent no route")),
        Err(error) if is_no_route(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a lookup failed because of what the table says: no route, or one of the kinds
/// unreachable (`EHOSTUNREACH`), prohibit (`EACCES`), blackhole (`EINVAL`).
fn is_no_route(error: &io::Error) -> bool {
    [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::ACCESS, Errno::INVAL]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
