//! What a data plane asks of the host: its links, the way to a backend, its neighbours.

use crate::context::context;
use crate::netlink::{Netlink, route_lookup};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp};
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourExtFlags, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMetric, RouteType};
use std::io;
use std::net::IpAddr;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address; `None` for one that has no such address.
    pub mac: Option<[u8; 6]>,
    /// Octets of the largest IP packet.
    pub mtu: u32,
    /// The XDP program that it runs.
    pub program: Option<u32>,
    /// Its addresses of more than one link, as the kernel lists them.
    pub addresses: Vec<IpAddr>,
}

/// How the host reaches an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Index of the link.
    pub link: u32,
    /// The router, if the address is not on the link itself.
    pub via: Option<IpAddr>,
    /// The host's own address towards it.
    pub source: Option<IpAddr>,
    /// Octets of the largest packet, where the route says.
    pub mtu: Option<u32>,
    /// The address is the host's own.
    pub local: bool,
}

impl Netlink {
    /// The link of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn link(&mut self, name: &str) -> io::Result<Link> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        self.look_at(message).map_err(|error| context(format!("look at interface {name}"), error))
    }

    /// The link of this index.
    ///
    /// # Errors
    /// There is none.
    pub fn link_at(&mut self, index: u32) -> io::Result<Link> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.look_at(message).map_err(|error| context(format!("look at interface {index}"), error))
    }

    fn look_at(&mut self, asked: LinkMessage) -> io::Result<Link> {
        match self.request(RouteNetlinkMessage::GetLink(asked), 0)? {
            Some(RouteNetlinkMessage::NewLink(link)) => {
                let mut link = read_link(&link);
                link.addresses = self.addresses(link.index)?;
                Ok(link)
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel sent no link")),
        }
    }

    /// The Ethernet address of a link's neighbour; `None` if the kernel does not know it.
    ///
    /// # Errors
    /// The kernel does not list its neighbours.
    pub fn neighbour(&mut self, link: u32, address: IpAddr) -> io::Result<Option<[u8; 6]>> {
        let mut message = NeighbourMessage::default();
        message.header.family = crate::netlink::family(address);
        let list = self.dump(RouteNetlinkMessage::GetNeighbour(message));
        let list = list.map_err(|error| context(format!("look for neighbour {address}"), error))?;
        let found = list.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewNeighbour(one) if one.header.ifindex == link => Some(one),
            _ => None,
        });
        Ok(found.filter(|one| is_of(one, address)).find_map(|one| ethernet_address(&one)))
    }

    /// The addresses of a link that packets over more than one link can have.
    fn addresses(&mut self, link: u32) -> io::Result<Vec<IpAddr>> {
        let list = self.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        let own = list.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewAddress(address) if address.header.index == link => {
                local_address(&address)
            }
            _ => None,
        });
        Ok(own.filter(|address| wire::Address::from(*address).is_routable()).collect())
    }

    /// The way to `address`; `None` if the routing table has none.
    ///
    /// # Errors
    /// The kernel does not answer the lookup.
    pub fn way(&mut self, address: IpAddr) -> io::Result<Option<Way>> {
        let route = route_lookup(self, address)
            .map_err(|error| context(format!("look up the route to {address}"), error))?;
        let Some(route) = route else { return Ok(None) };
        let local = route.header.kind == RouteType::Local;
        if !local && route.header.kind != RouteType::Unicast {
            return Ok(None);
        }
        let mut way = Way { link: 0, via: None, source: None, mtu: None, local };
        for attribute in &route.attributes {
            match attribute {
                RouteAttribute::Oif(link) => way.link = *link,
                RouteAttribute::Gateway(via) => way.via = ip(via),
                RouteAttribute::PrefSource(source) => way.source = ip(source),
                RouteAttribute::Metrics(metrics) => {
                    way.mtu = metrics.iter().find_map(|metric| match metric {
                        RouteMetric::Mtu(mtu) => Some(*mtu),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        Ok(Some(way))
    }

    /// Has the kernel find a neighbour's Ethernet address and keep it fresh (`NTF_EXT_MANAGED`).
    ///
    /// # Errors
    /// A kernel before 5.16, or no `CAP_NET_ADMIN`.
    pub fn manage_neighbour(&mut self, link: u32, address: IpAddr) -> io::Result<()> {
        let mut message = neighbour(link, address);
        message.attributes.push(NeighbourAttribute::ExtFlags(NeighbourExtFlags::Managed));
        self.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|error| context(format!("manage neighbour {address}"), error))
    }

    /// Has the kernel find a neighbour's Ethernet address now (`NTF_USE`).
    ///
    /// # Errors
    /// No `CAP_NET_ADMIN`.
    pub fn use_neighbour(&mut self, link: u32, address: IpAddr) -> io::Result<()> {
        let mut message = neighbour(link, address);
        message.header.flags = NeighbourFlags::Use;
        self.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE)
            .map_err(|error| context(format!("look for neighbour {address}"), error))
    }
}

fn neighbour(link: u32, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = crate::netlink::family(address);
    message.header.ifindex = link;
    message.header.state = NeighbourState::None;
    message.header.kind = RouteType::Unicast;
    message.attributes.push(NeighbourAttribute::Destination(address.into()));
    message
}

/// Whether the record is of this address.
fn is_of(message: &NeighbourMessage, address: IpAddr) -> bool {
    let wanted = NeighbourAttribute::Destination(address.into());
    message.attributes.contains(&wanted)
}

fn ethernet_address(message: &NeighbourMessage) -> Option<[u8; 6]> {
    message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(address) => address.as_slice().try_into().ok(),
        _ => None,
    })
}

fn read_link(message: &LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mac: None,
        mtu: 0,
        program: None,
        addresses: Vec::new(),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(address) => link.mac = address.as_slice().try_into().ok(),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Xdp(parts) => {
                link.program = parts.iter().find_map(|part| match part {
                    LinkXdp::ProgId(id) => Some(*id),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    link
}

/// The host's own end of an address: on a point-to-point link the other is the peer's.
fn local_address(message: &AddressMessage) -> Option<IpAddr> {
    let mut found = None;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => return Some(*address),
            AddressAttribute::Address(address) => found = Some(*address),
            _ => {}
        }
    }
    found
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}
