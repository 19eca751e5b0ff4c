//! `lb-node explain`: what the node would do with a packet, and why, without sending it.
//!
//! ```text
//! words ─> Flow ─> frame ──┐
//! maps of the node ─> HostTables ──> the packet core, watched ─> Trace ─> story
//! routes by netlink ───────┘
//! ```
//! The packet core is the production one, `datapath::lb`; what it changes, it changes in the copy.

pub mod flow;
pub mod packet;
pub mod story;
mod tables;
pub mod witness;

use crate::args;
use crate::look::names::Backend;
use crate::look::{Error, Node, sessions};
use datapath::lb::Direction;
use datapath::lb::DropReason;
use datapath::lb::host::HostTables;
use datapath::lb::layout::{Hop, session_state};
use flow::{Flags, Flow};
use netio::links::Link;
use netio::netlink::Netlink;
use packet::Shape;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use story::{Scene, Step};
use wire::Address;
use wire::tcp::flag;

/// Where packets seem to come from while nobody knows the sender's Ethernet address.
const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// The story of a packet, and what of it programs want to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// The steps.
    pub steps: Vec<Step>,
    /// The rest, for JSON.
    pub facts: Value,
}

/// Explains the packet of these arguments.
///
/// # Errors
/// The arguments make no sense here, or the kernel does not answer.
pub fn explain(node: &mut Node, args: &args::Explain) -> Result<Story, Error> {
    let [protocol, source, destination] = [&args.protocol, &args.source, &args.destination];
    let flow = Flow::parse(protocol, source, destination, &args.echo).map_err(Error::Usage)?;
    let (tick, rate) = sessions::clock()?;
    let mut tables = tables::of(&node.view, tick);
    let (flow, flags) = asked(&tables, flow, args).map_err(Error::Usage)?;
    let ingress = ingress(node, &flow, args.interface.as_deref())?;
    tables.ingress = ingress.index;
    let own = tables.interfaces.iter().find(|interface| interface.index == ingress.index);
    let mac = own.map(|interface| interface.mac).or(ingress.mac).unwrap_or_default();
    let sender = sender(&mut node.netlink, flow.source, ingress.index)?;
    let mut ethernet = [0; 12];
    let (to, from) = ethernet.split_at_mut(6);
    to.copy_from_slice(&mac);
    from.copy_from_slice(&sender);
    let frame = packet::frame(&flow, &Shape { ethernet, flags, octets: args.size });
    let backends = tables::backends(&node.names, &node.view);
    let router = Router::new(&mut node.netlink);
    let interfaces: HashMap<u32, String> =
        node.links.iter().map(|link| (link.index, link.name.clone())).collect();
    let trace = witness::trace(&tables, &|to| router.route(to), &frame);
    let interfaces = router.names(interfaces)?;
    let scene = Scene {
        flow: &flow,
        frame: &frame,
        tables: &tables,
        trace: &trace,
        names: &node.names,
        backends: &backends,
        interfaces: &interfaces,
        rate,
    };
    Ok(story(&scene))
}

/// The story of a scene.
pub fn story(scene: &Scene<'_>) -> Story {
    let steps = scene.steps();
    let (verdict, reason) = scene.outcome();
    let told: Vec<Value> =
        steps.iter().map(|step| json!({ "about": step.about, "text": step.text })).collect();
    let hex = |frame: &[u8]| frame.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    let session = scene.session_after().map(|session| {
        let backend = scene.backend_called().unwrap_or_else(Backend::nobody);
        let line = sessions::line(&session, backend, std::time::Duration::ZERO);
        json!({
            "protocol": line.protocol,
            "client": line.client,
            "vip": line.vip,
            "source": line.source,
            "state": line.state,
        })
    });
    let backend = scene.backend_called().map(|backend| {
        json!({ "mapping": backend.mapping, "name": backend.name, "address": backend.address })
    });
    let facts = json!({
        "verdict": verdict,
        "reason": reason.map(DropReason::name),
        "backend": backend,
        "session": session,
        "frameIn": hex(scene.frame),
        "frameOut": hex(&scene.trace.frame),
        "stages": scene.trace.stages.iter().map(|(stage, _)| stage.name()).collect::<Vec<_>>(),
        "steps": told,
    });
    Story { steps, facts }
}

/// The flow that is meant, and its control bits: by default what would come next.
fn asked(tables: &HostTables, flow: Flow, args: &args::Explain) -> Result<(Flow, Flags), String> {
    let found = tables.session(&flow.key());
    if !args.reply {
        let open = found.is_some_and(|(session, _)| {
            session.state & (session_state::CLOSING | session_state::REPLACED) == 0
        });
        let next = if open { flag::ACK } else { flag::SYN };
        return Ok((flow, args.flags.unwrap_or(Flags(next))));
    }
    let Some((session, Direction::Forward)) = found else {
        return Err(format!(
            "--reply explains a backend's packet of a client's session, and no session has this \
             flow; without --reply give the backend's packet itself, from {} to the client",
            if flow.is_echo() { "BACKEND" } else { "BACKEND:PORT" }
        ));
    };
    let next = match session.state & session_state::ANSWERED {
        0 => flag::SYN | flag::ACK,
        _ => flag::ACK,
    };
    let reply = Flow::of_reply(&session.key(Direction::Reply), flow.sequence);
    Ok((reply, args.flags.unwrap_or(Flags(next))))
}

/// The interface that the packet comes in by: the one that is named, or that leads to its source.
fn ingress(node: &mut Node, flow: &Flow, name: Option<&str>) -> Result<Link, Error> {
    let served: Vec<_> = node.links.iter().map(|link| link.name.as_str()).collect();
    let unknown = |name: &str| {
        let served = served.join(", ");
        Error::Usage(format!("{name} is no interface of the node's: it has {served}"))
    };
    let link = match name {
        Some(name) => node.links.iter().find(|link| link.name == name).ok_or_else(|| unknown(name)),
        None => {
            let towards = node.netlink.way(flow.source)?.map(|way| way.link);
            let leads = node.links.iter().find(|link| Some(link.index) == towards);
            leads.or(node.links.first()).ok_or_else(|| unknown("nothing"))
        }
    };
    link.cloned()
}

/// The Ethernet address that the packet comes from.
fn sender(netlink: &mut Netlink, source: IpAddr, link: u32) -> Result<[u8; 6], Error> {
    let via = netlink.way(source)?.and_then(|way| way.via).unwrap_or(source);
    Ok(netlink.neighbour(link, via)?.unwrap_or(STRANGER))
}

/// Routes, neighbours and links as the kernel has them now.
struct Router<'a> {
    netlink: RefCell<&'a mut Netlink>,
    names: RefCell<HashMap<u32, String>>,
    failure: RefCell<Option<io::Error>>,
}

impl<'a> Router<'a> {
    fn new(netlink: &'a mut Netlink) -> Self {
        let netlink = RefCell::new(netlink);
        Self { netlink, names: RefCell::default(), failure: RefCell::default() }
    }

    fn route(&self, to: &Address) -> Result<Hop, DropReason> {
        self.look(IpAddr::from(*to)).unwrap_or_else(|error| {
            *self.failure.borrow_mut() = Some(error);
            Err(DropReason::RouteNotForwarded)
        })
    }

    fn look(&self, to: IpAddr) -> io::Result<Result<Hop, DropReason>> {
        let mut netlink = self.netlink.borrow_mut();
        let Some(way) = netlink.way(to)?.filter(|way| !way.local) else {
            return Ok(Err(DropReason::RouteNotForwarded));
        };
        let link = netlink.link_at(way.link)?;
        let neighbour = netlink.neighbour(way.link, way.via.unwrap_or(to))?;
        let (Some(theirs), Some(ours)) = (neighbour, link.mac) else {
            return Ok(Err(DropReason::NoNeighbour));
        };
        let mut hop = Hop::NONE;
        let (to, from) = hop.addresses.split_at_mut(6);
        to.copy_from_slice(&theirs);
        from.copy_from_slice(&ours);
        hop.interface = link.index.to_ne_bytes();
        let mtu = way.mtu.unwrap_or(link.mtu).min(link.mtu);
        hop.mtu = u16::try_from(mtu).unwrap_or(u16::MAX).to_ne_bytes();
        self.names.borrow_mut().insert(link.index, link.name);
        Ok(Ok(hop))
    }

    /// The names of all interfaces that were seen.
    fn names(self, mut known: HashMap<u32, String>) -> io::Result<HashMap<u32, String>> {
        known.extend(self.names.into_inner());
        self.failure.into_inner().map_or(Ok(known), Err)
    }
}

#[cfg(test)]
mod tests;
