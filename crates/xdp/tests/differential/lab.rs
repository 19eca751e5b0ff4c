//! The node of the comparison: a network namespace whose routing table has every answer.
//!
//! ```text
//! router ── [front  node  back] ── backends
//!                  [dim]           an interface that does not forward
//! ```
//! The kernel's build asks it through `bpf_fib_lookup`; [`Node::routes`] says the same to the host's.

use datapath::lb::DropReason;
use datapath::lb::layout::Hop;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::process::Command;
use testkit::lab::{Host, Lab};
use testkit::packet::Mac;
use wire::Address;

pub(crate) const ROUTER_MAC: Mac = [2, 0, 0, 0, 0, 0x0f];
pub(crate) const BACKEND_MAC: Mac = [2, 0, 0, 0, 0, 0x11];
const MTU: u16 = 1500;

/// An interface of the node.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mac: Mac,
    /// Its own address of either family.
    pub(crate) own: [&'static str; 2],
}

/// The node, and what it is connected to.
pub(crate) struct Node {
    pub(crate) host: Host,
    pub(crate) front: Port,
    pub(crate) back: Port,
    pub(crate) dim: Port,
    _neighbours: [Host; 3],
}

/// Destinations by what the routing table says of them.
pub(crate) const CLIENTS4: &str = "100.64.0.";
pub(crate) const CLIENTS6: &str = "2001:db8:cc::";
pub(crate) const CLIENTS: u32 = 32;
pub(crate) const NEAR4: [&str; 5] =
    ["10.0.1.11", "10.0.1.12", "10.0.1.13", "10.0.1.14", "10.0.1.15"];
pub(crate) const NEAR6: [&str; 3] = ["2001:db8:b::11", "2001:db8:b::12", "2001:db8:b::13"];
pub(crate) const ARM: [&str; 2] = ["198.51.100.3", "2001:db8:c::3"];
/// On a subnet of ours, but nobody has asked for them.
pub(crate) const UNKNOWN: [&str; 3] = ["10.0.1.200", "2001:db8:b::200", "198.51.100.200"];
pub(crate) const BAD: [(&str, DropReason); 9] = [
    ("100.64.1.1", DropReason::RouteBlackhole),
    ("100.64.2.1", DropReason::RouteUnreachable),
    ("100.64.3.1", DropReason::RouteProhibited),
    ("100.64.4.1", DropReason::RouteNotForwarded),
    ("100.64.5.1", DropReason::RouteUnsupported),
    ("2001:db8:f1::1", DropReason::RouteBlackhole),
    ("2001:db8:f2::1", DropReason::RouteUnreachable),
    ("2001:db8:f3::1", DropReason::RouteProhibited),
    ("2001:db8:f4::1", DropReason::RouteNotForwarded),
];

impl Node {
    /// The node with its links, addresses, routes and permanent neighbours.
    pub(crate) fn new(lab: &Lab) -> io::Result<Self> {
        let host = lab.host("node")?;
        let neighbours = [lab.host("front")?, lab.host("back")?, lab.host("dim")?];
        let [front, back, dim] = &neighbours;
        let front = lab.link(&host, &["198.51.100.1/24", "2001:db8:c::1/64"], front, &[])?.left;
        let back = lab.link(&host, &["10.0.1.1/24", "2001:db8:b::1/64"], back, &[])?.left;
        let dim = lab.link(&host, &["10.0.9.1/24", "2001:db8:9::1/64"], dim, &[])?.left;
        host.forwarding()?;
        for family in ["ipv4", "ipv6"] {
            host.sysctl(&format!("net/{family}/conf/{dim}/forwarding"), "0")?;
        }
        let port =
            |name: &str, last, own| host.run(|| Port::named(name, [2, 0, 0, 0, 0x0a, last], own));
        let front = port(&front, 1, ["198.51.100.1", "2001:db8:c::1"])?;
        let back = port(&back, 2, ["10.0.1.1", "2001:db8:b::1"])?;
        let dim = port(&dim, 3, ["10.0.9.1", "2001:db8:9::1"])?;
        // An interface that changes its address forgets its neighbours.
        host.run(|| prepare(&front.name, &back.name))?;
        Ok(Self { front, back, dim, host, _neighbours: neighbours })
    }

    /// The routing table, as the host's build has it.
    pub(crate) fn routes(&self) -> HashMap<Address, Result<Hop, DropReason>> {
        let mut routes = HashMap::new();
        let to_router = hop(&self.front, ROUTER_MAC);
        for client in 1..=CLIENTS {
            routes.insert(address(&format!("{CLIENTS4}{client}")), Ok(to_router));
            routes.insert(address(&format!("{CLIENTS6}{client:x}")), Ok(to_router));
        }
        for near in NEAR4.iter().chain(&NEAR6) {
            routes.insert(address(near), Ok(hop(&self.back, BACKEND_MAC)));
        }
        for near in ARM {
            routes.insert(address(near), Ok(hop(&self.front, BACKEND_MAC)));
        }
        for unknown in UNKNOWN {
            routes.insert(address(unknown), Err(DropReason::NoNeighbour));
        }
        for (bad, reason) in BAD {
            routes.insert(address(bad), Err(reason));
        }
        routes
    }
}

/// The way by this interface.
pub(crate) fn hop(port: &Port, neighbour: Mac) -> Hop {
    let [a, b, c, d, e, f] = neighbour;
    let [g, h, i, j, k, l] = port.mac;
    Hop {
        addresses: [a, b, c, d, e, f, g, h, i, j, k, l],
        interface: port.index.to_ne_bytes(),
        mtu: MTU.to_ne_bytes(),
        vlan: [0; 2],
        generation: [0; 2],
    }
}

pub(crate) fn address(text: &str) -> Address {
    Address::from(text.parse::<IpAddr>().unwrap())
}

impl Port {
    /// Gives the interface this Ethernet address; its index stands in the list of its addresses.
    fn named(name: &str, mac: Mac, own: [&'static str; 2]) -> io::Result<Self> {
        ip(&format!("link set {name} address {}", spelled(mac)))?;
        let table = fs::read_to_string("/proc/thread-self/net/if_inet6")?;
        let index = table.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, index, _, _, _, of] = fields[..] else { return None };
            if of == name { u32::from_str_radix(index, 16).ok() } else { None }
        });
        let index = index.ok_or_else(|| io::Error::other(format!("no interface {name}")))?;
        Ok(Self { name: name.to_owned(), index, mac, own })
    }
}

/// Routes and neighbours; the caller is in the node.
fn prepare(front: &str, back: &str) -> io::Result<()> {
    for router in ["198.51.100.2", "2001:db8:c::2"] {
        neighbour(router, front, ROUTER_MAC)?;
    }
    for near in ARM {
        neighbour(near, front, BACKEND_MAC)?;
    }
    for near in NEAR4.iter().chain(&NEAR6) {
        neighbour(near, back, BACKEND_MAC)?;
    }
    for route in [
        format!("route add {CLIENTS4}0/24 via 198.51.100.2"),
        format!("-6 route add {CLIENTS6}/64 via 2001:db8:c::2"),
        "route add blackhole 100.64.1.0/24".to_owned(),
        "route add unreachable 100.64.2.0/24".to_owned(),
        "route add prohibit 100.64.3.0/24".to_owned(),
        format!("route add 100.64.5.0/24 encap ip id 5 dst 10.0.1.11 via 10.0.1.11 dev {back}"),
        "-6 route add blackhole 2001:db8:f1::/64".to_owned(),
        "-6 route add unreachable 2001:db8:f2::/64".to_owned(),
        "-6 route add prohibit 2001:db8:f3::/64".to_owned(),
    ] {
        ip(&route)?;
    }
    Ok(())
}

/// Enters a permanent neighbour; the caller is in the node.
pub(crate) fn neighbour(address: &str, link: &str, mac: Mac) -> io::Result<()> {
    ip(&format!("neigh replace {address} lladdr {} dev {link} nud permanent", spelled(mac)))
}

/// Takes a neighbour away; the caller is in the node.
pub(crate) fn forget(address: &str, link: &str) -> io::Result<()> {
    ip(&format!("neigh del {address} dev {link}"))
}

fn spelled(mac: Mac) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}

fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output()?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("ip {arguments}: {complaint}")))
}
