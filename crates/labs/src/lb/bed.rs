//! The networks under a balancer.
//!
//! ```text
//! TwoArms:  client ─10.1.0.0/24─ node ─10.2.0.0/24─ switch ── backends .11, .12 ...
//! OneArm:   client ─10.1.0.0/24─ router ─10.2.0.0/24─ switch ── node, backends .11, .12 ...
//! Flat:     client .1, backends .2, .3, node .4 (and .5), all of 10.9.0.0/24 on one switch
//! ```
//! Every network has an IPv6 twin: `fd01::/64` for `10.1.0.0/24`. Hosts have no other default
//! route than the node, but for the node itself, which has the router where there is one.
//!
//! A far end of the node's cables runs a program that passes everything, or frames that XDP
//! transmits would vanish; the sender's checksums are complete, or XDP would see partial ones.

use crate::lb::done;
use std::io;
use testkit::lab::{Host, Lab, Link};
use xdp::Stub;

/// How hosts are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Clients on one interface of the node, backends on the other.
    TwoArms,
    /// Everything comes and goes by one interface; clients are behind a router.
    OneArm,
    /// One network for all, the node on it with one interface.
    Flat,
    /// One network for all, the node on it with two interfaces.
    FlatTwoArms,
}

impl Shape {
    const fn is_flat(self) -> bool {
        matches!(self, Self::Flat | Self::FlatTwoArms)
    }
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The address of this number in this network.
    #[must_use]
    pub fn host(self, network: u8, number: usize) -> String {
        match self {
            Self::V4 => format!("10.{network}.0.{number}"),
            Self::V6 => format!("fd0{network}::{number}"),
        }
    }
}

/// The hosts, wired and routed.
#[derive(Debug)]
pub struct Bed {
    /// Asks.
    pub client: Host,
    /// Between the client and the node, with one arm; elsewhere a host without cables.
    pub router: Host,
    /// Runs lb-node.
    pub node: Host,
    /// Joins what is on one network.
    pub switch: Host,
    /// Answer.
    pub backends: Vec<Host>,
    /// Names of the node's interfaces; with two arms the client's is the first.
    pub arms: Vec<String>,
    /// Name of the client's interface.
    pub client_link: String,
    /// Names of the backends' interfaces.
    pub backend_links: Vec<String>,
    shape: Shape,
    lab: Lab,
    /// Of far ends of the node's cables; they end with the bed.
    stubs: Vec<Stub>,
}

impl Bed {
    /// Builds the hosts, cables and routes.
    ///
    /// # Errors
    /// Namespaces or XDP are not permitted, or the kernel refuses a link or a route.
    pub fn new(name: &str, shape: Shape, backends: usize) -> io::Result<Self> {
        let lab = Lab::new(name)?;
        let hosts: Vec<Host> =
            (1..=backends).map(|n| lab.host(&format!("backend{n}"))).collect::<io::Result<_>>()?;
        let mut bed = Self {
            client: lab.host("client")?,
            router: lab.host("router")?,
            node: lab.host("node")?,
            switch: lab.host("switch")?,
            backends: hosts,
            arms: Vec::new(),
            client_link: String::new(),
            backend_links: Vec::new(),
            shape,
            lab,
            stubs: Vec::new(),
        };
        ip(&bed.switch, "link add br0 type bridge mcast_snooping 0")?;
        ip(&bed.switch, "link set br0 up")?;
        match shape {
            Shape::TwoArms => bed.wire_two_arms()?,
            Shape::OneArm => bed.wire_one_arm()?,
            Shape::Flat => bed.wire_flat(1)?,
            Shape::FlatTwoArms => bed.wire_flat(2)?,
        }
        bed.wire_backends()?;
        Ok(bed)
    }

    /// The virtual address of this last number; 10 is the usual one.
    #[must_use]
    pub fn vip(&self, family: Family, number: usize) -> String {
        match (self.shape.is_flat(), family) {
            (true, _) => family.host(9, number),
            (false, Family::V4) => format!("203.0.113.{number}"),
            (false, Family::V6) => format!("2001:db8:113::{number}"),
        }
    }

    /// The client's address.
    #[must_use]
    pub fn client_address(&self, family: Family) -> String {
        if self.shape.is_flat() { family.host(9, 1) } else { family.host(1, 2) }
    }

    /// The address of the backend of this number, from 0.
    #[must_use]
    pub fn backend(&self, family: Family, number: usize) -> String {
        if self.shape.is_flat() { family.host(9, 2 + number) } else { family.host(2, 11 + number) }
    }

    /// The node's address towards the backends.
    #[must_use]
    pub fn node_address(&self, family: Family) -> String {
        if self.shape.is_flat() { family.host(9, 4) } else { family.host(2, 1) }
    }

    /// Gives every backend a default route through the node, as NAT needs it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn route_backends(&self) -> io::Result<()> {
        for backend in &self.backends {
            backend.route("0.0.0.0/0", &self.node_address(Family::V4))?;
            backend.route("::/0", &self.node_address(Family::V6))?;
        }
        Ok(())
    }

    /// A further host on the switch's network, with both addresses of this number.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn neighbour(&mut self, name: &str, number: usize) -> io::Result<(Host, String)> {
        let host = self.lab.host(name)?;
        let link = self.plug(&host, if self.shape.is_flat() { 9 } else { 2 }, number)?;
        Ok((host, link.left))
    }

    /// A further host, without cables.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn host(&self, name: &str) -> io::Result<Host> {
        self.lab.host(name)
    }

    /// Connects two hosts beside the node: each with its number's addresses in a network.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn link(&self, left: (&Host, u8, usize), right: (&Host, u8, usize)) -> io::Result<Link> {
        let addresses = |(_, network, number): (&Host, u8, usize)| {
            [
                format!("{}/24", Family::V4.host(network, number)),
                format!("{}/64", Family::V6.host(network, number)),
            ]
        };
        let (at_left, at_right) = (addresses(left), addresses(right));
        let link = self.lab.link(
            left.0,
            &at_left.each_ref().map(String::as_str),
            right.0,
            &at_right.each_ref().map(String::as_str),
        )?;
        prepare(left.0, &link.left)?;
        prepare(right.0, &link.right)?;
        Ok(link)
    }

    fn wire_two_arms(&mut self) -> io::Result<()> {
        let link = self.lab.link(
            &self.client,
            &["10.1.0.2/24", "fd01::2/64"],
            &self.node,
            &["10.1.0.1/24", "fd01::1/64"],
        )?;
        prepare(&self.client, &link.left)?;
        self.stubs.push(stub(&self.client, &link.left)?);
        self.client.route("0.0.0.0/0", "10.1.0.1")?;
        self.client.route("::/0", "fd01::1")?;
        self.client_link = link.left;
        self.arms.push(link.right);
        self.plug_node(2, 1)
    }

    fn wire_one_arm(&mut self) -> io::Result<()> {
        self.router.forwarding()?;
        let link = self.lab.link(
            &self.client,
            &["10.1.0.2/24", "fd01::2/64"],
            &self.router,
            &["10.1.0.1/24", "fd01::1/64"],
        )?;
        prepare(&self.client, &link.left)?;
        self.client.route("0.0.0.0/0", "10.1.0.1")?;
        self.client.route("::/0", "fd01::1")?;
        self.client_link = link.left;
        let link = self.plug(&self.router, 2, 254)?;
        prepare(&self.router, &link.left)?;
        self.plug_node(2, 1)?;
        self.router.route("203.0.113.0/24", "10.2.0.1")?;
        self.router.route("2001:db8:113::/64", "fd02::1")?;
        self.node.route("0.0.0.0/0", "10.2.0.254")?;
        self.node.route("::/0", "fd02::254")
    }

    fn wire_flat(&mut self, arms: usize) -> io::Result<()> {
        let link = self.plug(&self.client, 9, 1)?;
        self.client_link = link.left;
        self.plug_node(9, 4)?;
        if arms == 2 {
            // Its addresses bring no second route to the one network, which of the two routers
            // would take in turns.
            let link = self.lab.link(&self.node, &[], &self.switch, &[])?;
            ip(&self.switch, &format!("link set {} master br0", link.right))?;
            for address in ["10.9.0.5/24", "fd09::5/64"] {
                ip(&self.node, &format!("addr add {address} dev {} noprefixroute", link.left))?;
            }
            self.stubs.push(stub(&self.switch, &link.right)?);
            self.arms.push(link.left);
        }
        Ok(())
    }

    fn wire_backends(&mut self) -> io::Result<()> {
        for at in 0..self.backends.len() {
            let Some(host) = self.backends.get(at) else { break };
            let (network, number) = if self.shape.is_flat() { (9, 2 + at) } else { (2, 11 + at) };
            let link = self.plug(host, network, number)?;
            self.backend_links.push(link.left);
        }
        Ok(())
    }

    /// Connects the node to the switch.
    fn plug_node(&mut self, network: u8, number: usize) -> io::Result<()> {
        let link = self.plug(&self.node, network, number)?;
        self.stubs.push(stub(&self.switch, &link.right)?);
        self.arms.push(link.left);
        Ok(())
    }

    /// Connects a host to the switch, with its number's addresses of both families.
    fn plug(&self, host: &Host, network: u8, number: usize) -> io::Result<Link> {
        let addresses = [
            format!("{}/24", Family::V4.host(network, number)),
            format!("{}/64", Family::V6.host(network, number)),
        ];
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let link = self.lab.link(host, &addresses, &self.switch, &[])?;
        ip(&self.switch, &format!("link set {} master br0", link.right))?;
        prepare(host, &link.left)?;
        Ok(link)
    }
}

/// Runs ip(8) on a host.
///
/// # Errors
/// It fails; the text is what it says.
pub fn ip(host: &Host, arguments: &str) -> io::Result<()> {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    done(host, "ip", &arguments).map(|_| ()).map_err(io::Error::other)
}

/// Has the host compute the checksums that a network card would.
///
/// # Errors
/// ethtool is missing or refuses.
pub fn prepare(host: &Host, link: &str) -> io::Result<()> {
    done(host, "ethtool", &["-K", link, "tx", "off"]).map(|_| ()).map_err(io::Error::other)
}

/// Has the link take frames that the other end's XDP program sends.
///
/// # Errors
/// XDP is not permitted.
pub fn stub(host: &Host, link: &str) -> io::Result<Stub> {
    let index = host.netlink(|netlink| Ok(netlink.link(link)?.index))?;
    host.run(|| Stub::attach(index)).map_err(|error| {
        // The cause says whether it is a matter of privileges.
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        io::Error::other(format!("{error}: {}", cause.unwrap_or_default()))
    })
}
