//! The balancer's decisions, frame by frame, in a small world:
//!
//! ```text
//! client ── router ── [FRONT node BACK] ── backends
//! ```
//! Frames are built, and expected ones spelled out, by `testkit::packet`, which shares nothing with
//! the parsers under test. Whatever happens, [`World::receive`] checks that a frame that passes is
//! untouched, and that one that leaves has right checksums if it came with right ones.

mod answer;
mod error;
mod headers;
mod nat;
mod ports;
mod properties;
mod refuse;
mod sessions;
mod table;
mod way;

use super::host::HostTables;
use super::layout::{
    Backend, Hop, Interface, Owned, Row, Service, ServiceKey, Session, Source, backend_flag,
    owned_kind, service_flag,
};
use super::{DropReason, Scratch, Verdict, process};
use crate::SliceFrame;
use std::format;
use std::net::IpAddr;
use std::string::String;
use std::vec;
use std::vec::Vec;
use testkit::packet::{
    BROADCAST, Ethernet, Ipv4, Ipv6, Mac, Tcp, ethernet, icmp, ipv4, ipv6, tcp, verify_sums,
};
use wire::Address;
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

/// A protocol without ports (RFC 3692).
const RAW: u8 = 253;

const CLIENT4: &str = "198.51.100.7";
const VIP4: &str = "203.0.113.10";
const OTHER_VIP4: &str = "203.0.113.20";
const BACKEND4: &str = "10.0.1.11";
const SECOND4: &str = "10.0.1.12";
const NODE4: &str = "10.0.1.1";

const CLIENT6: &str = "2001:db8:c::7";
const VIP6: &str = "2001:db8::10";
const BACKEND6: &str = "2001:db8:b::11";
const NODE6: &str = "2001:db8:b::1";

/// Interface of the clients' side.
const FRONT: u32 = 2;
/// Interface of the backends' side.
const BACK: u32 = 3;
const FRONT_MAC: Mac = [2, 0, 0, 0, 0x0a, 1];
const BACK_MAC: Mac = [2, 0, 0, 0, 0x0a, 2];
/// Addresses of the interfaces themselves.
const FRONT_OWN: [&str; 2] = ["198.51.100.1", "2001:db8:c::1"];
const BACK_OWN: [&str; 2] = [NODE4, NODE6];
const ROUTER_MAC: Mac = [2, 0, 0, 0, 0, 0x0f];
const BACKEND_MAC: Mac = [2, 0, 0, 0, 0, 0x11];
const SECOND_MAC: Mac = [2, 0, 0, 0, 0, 0x12];

/// Ports of the node's own address that clients are translated to.
const PORTS: (u16, u16) = (16_384, 65_535);
/// Room before a frame.
const HEADROOM: usize = 256;

fn address(text: &str) -> Address {
    Address::from(text.parse::<IpAddr>().unwrap())
}

/// What the backend sees as the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Nat,
    TwiceNat,
}

/// The node, its tables, and its processor's scratch.
struct World {
    tables: HostTables,
    scratch: Scratch,
}

/// What became of a frame.
#[derive(Debug)]
struct Outcome {
    verdict: Verdict,
    frame: Vec<u8>,
}

impl World {
    /// A node with two arms, no service, and a way to every machine.
    fn new() -> Self {
        Self::with_sessions(64)
    }

    /// The same with so many records of sessions, the first of which is never used.
    fn with_sessions(sessions: u32) -> Self {
        Self::of(HostTables::new(sessions, 16))
    }

    /// The same with these tables, which are empty.
    fn of(mut tables: HostTables) -> Self {
        tables.settings.seed = 0x5eed;
        for (index, mac) in [(FRONT, FRONT_MAC), (BACK, BACK_MAC)] {
            let own = if index == FRONT { FRONT_OWN } else { BACK_OWN };
            let [v4, v6] = own.map(address);
            tables.interfaces.push(Interface { index, mac, zero: [0; 6], v4, v6 });
        }
        for node in [NODE4, NODE6] {
            let (first_port, last_port) = PORTS;
            let address = address(node);
            tables.sources.push(Source { address, first_port, last_port, zero: 0 });
        }
        let mut world = Self { tables, scratch: Scratch::EMPTY };
        for client in [CLIENT4, CLIENT6] {
            world.route(client, FRONT, ROUTER_MAC);
        }
        for backend in [BACKEND4, BACKEND6] {
            world.route(backend, BACK, BACKEND_MAC);
        }
        world.route(SECOND4, BACK, SECOND_MAC);
        world
    }

    /// Packets to this address leave by this interface, to this neighbour.
    fn route(&mut self, to: &str, interface: u32, neighbour: Mac) {
        self.tables.routes.insert(address(to), Ok(hop(interface, neighbour)));
    }

    /// Something changed in the routing tables.
    fn routes_changed(&mut self) {
        self.tables.settings.generation += 1;
    }

    /// A backend at this address and port, with the node's own address as the client's.
    fn backend(&mut self, at: &str, port: u16) -> u16 {
        let id = u16::try_from(self.tables.backends.len()).unwrap();
        let at = address(at);
        let sources_at = if at.family() == wire::Family::V4 { 0 } else { 1 };
        let port = port.to_be_bytes();
        let backend = Backend { address: at, port, segment: 0, flags: 0, sources_at, sources: 1 };
        self.tables.backends.push(backend);
        id
    }

    /// The backend is down or removed.
    fn is_gone(&mut self, backend: u16) {
        self.tables.backends[usize::from(backend)].flags |= backend_flag::GONE;
    }

    /// The address is one that we answer for.
    fn owns(&mut self, vip: &str) {
        let owned = Owned { until_ns: u64::MAX, kind: owned_kind::VIRTUAL, zero: 0 };
        self.tables.owned.insert(address(vip), owned);
    }

    /// A service of these backends, one row each.
    fn serve(&mut self, vip: &str, port: u16, protocol: u8, mode: Mode, backends: &[u16]) {
        self.owns(vip);
        let count = u16::try_from(backends.len()).unwrap();
        let service = Service {
            rows_at: u32::try_from(self.tables.rows.len()).unwrap(),
            rows: u32::from(count),
            members_at: u32::try_from(self.tables.members.len()).unwrap(),
            affinity_s: 0,
            flags: if mode == Mode::TwiceNat { service_flag::TWICE_NAT } else { 0 },
        };
        let rows = (0..count).map(|row| Row::new(row, (row + 1) % count, false));
        self.tables.rows.extend(rows);
        self.tables.members.extend(backends.iter().map(|id| u32::from(*id)));
        self.tables.services.insert(service_key(vip, port, protocol), service);
    }

    /// The service's rows, all alike from now on: pool-local indices.
    fn rows_become(&mut self, vip: &str, port: u16, protocol: u8, row: Row) {
        let service = self.tables.services[&service_key(vip, port, protocol)];
        let at = usize::try_from(service.rows_at).unwrap();
        let end = at + usize::try_from(service.rows).unwrap();
        self.tables.rows[at..end].fill(row);
    }

    /// The client's packet comes from the router.
    fn client_sends(&mut self, packet: impl Carried) -> Outcome {
        self.receive(FRONT, &packet.carried_by(ethernet(ROUTER_MAC, FRONT_MAC)))
    }

    /// A backend's packet comes from its own side.
    fn backend_sends(&mut self, packet: impl Carried) -> Outcome {
        self.receive(BACK, &packet.carried_by(ethernet(BACKEND_MAC, BACK_MAC)))
    }

    /// A frame comes in by the interface.
    fn receive(&mut self, interface: u32, frame: &[u8]) -> Outcome {
        self.tables.ingress = interface;
        let mut buffer = vec![0xa5; HEADROOM];
        buffer.extend(frame);
        let end = buffer.len();
        let mut slice = SliceFrame::new(&mut buffer, HEADROOM, end).unwrap();
        let verdict = process(&mut slice, &self.tables, &mut self.scratch);
        let octets = slice.octets().to_vec();
        match verdict {
            Verdict::Pass => assert_eq!(octets, frame, "a frame that passes is untouched"),
            Verdict::Transmit | Verdict::Redirect(_) | Verdict::Answer(_)
                if verify_sums(frame).is_ok() =>
            {
                assert_eq!(verify_sums(&octets), Ok(()), "{octets:02x?}");
            }
            _ => {}
        }
        Outcome { verdict, frame: octets }
    }

    /// The only session.
    fn session(&self) -> Session {
        let sessions = self.tables.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions[0]
    }
}

impl Outcome {
    /// It went to the first backend as this packet.
    #[track_caller]
    fn reaches_backend(&self, packet: impl Carried) {
        self.leaves_as(BACK, &packet.carried_by(ethernet(BACK_MAC, BACKEND_MAC)));
    }

    /// It went to the client's router as this packet.
    #[track_caller]
    fn reaches_client(&self, packet: impl Carried) {
        self.leaves_as(FRONT, &packet.carried_by(ethernet(FRONT_MAC, ROUTER_MAC)));
    }

    #[track_caller]
    fn leaves_as(&self, interface: u32, frame: &[u8]) {
        assert_eq!(self.verdict, Verdict::Redirect(interface));
        assert_eq!(self.frame, frame, "\n got {:02x?}\nnot {frame:02x?}", self.frame);
    }

    /// It turned around as this frame.
    #[track_caller]
    fn turns_into(&self, frame: &[u8]) {
        assert_eq!(self.verdict, Verdict::Transmit);
        assert_eq!(self.frame, frame, "\n got {:02x?}\nnot {frame:02x?}", self.frame);
    }

    #[track_caller]
    fn passes(&self) {
        assert_eq!(self.verdict, Verdict::Pass);
    }

    #[track_caller]
    fn is_dropped(&self, reason: DropReason) {
        assert_eq!(self.verdict, Verdict::Drop(reason));
    }

    /// It was dropped, and its source is told.
    #[track_caller]
    fn is_refused(&self, reason: DropReason) {
        assert_eq!(self.verdict, Verdict::Answer(reason));
    }

    /// It went on, whatever to.
    #[track_caller]
    fn leaves(&self) {
        let leaves = matches!(self.verdict, Verdict::Redirect(_) | Verdict::Transmit);
        assert!(leaves, "{:?}", self.verdict);
    }

    /// The port that the packet, IPv4 without options, comes from.
    fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.frame[34], self.frame[35]])
    }

    /// The destination address of the packet, IPv4 without a tag.
    fn destination(&self) -> String {
        format!("{}", Address::v4(self.frame[30..34].try_into().unwrap()))
    }
}

/// A packet that a frame can carry.
trait Carried {
    fn carried_by(self, frame: Ethernet) -> Vec<u8>;
}

impl Carried for Ipv4 {
    fn carried_by(self, frame: Ethernet) -> Vec<u8> {
        frame.ipv4(self).build()
    }
}

impl Carried for Ipv6 {
    fn carried_by(self, frame: Ethernet) -> Vec<u8> {
        frame.ipv6(self).build()
    }
}

fn hop(interface: u32, neighbour: Mac) -> Hop {
    let own = if interface == FRONT { FRONT_MAC } else { BACK_MAC };
    Hop {
        addresses: [neighbour, own].concat().try_into().unwrap(),
        interface: interface.to_ne_bytes(),
        mtu: 1500u16.to_ne_bytes(),
        vlan: [0; 2],
        generation: [0; 2],
    }
}

fn service_key(vip: &str, port: u16, protocol: u8) -> ServiceKey {
    let port = port.to_be_bytes();
    ServiceKey { address: address(vip), port, protocol, zero: 0, zero_too: 0 }
}

/// A node with one NAT or twice-NAT service: `VIP4:80` by TCP, to port 8080 of `BACKEND4`.
fn web(mode: Mode) -> World {
    let mut world = World::new();
    let backend = world.backend(BACKEND4, 8080);
    world.serve(VIP4, 80, TCP, mode, &[backend]);
    world
}

/// The client's first segment.
fn syn() -> Ipv4 {
    client_segment(tcp(40_000, 80).syn())
}

/// A segment of the client's.
fn client_segment(segment: Tcp) -> Ipv4 {
    ipv4(CLIENT4, VIP4).tcp(segment)
}

/// A segment of the backend's, in answer to [`syn`] by NAT.
fn backend_segment(segment: Tcp) -> Ipv4 {
    ipv4(BACKEND4, CLIENT4).tcp(segment)
}

/// Opens the connection of [`syn`] with all three segments.
fn open(world: &mut World) {
    world.client_sends(syn()).leaves();
    world.backend_sends(backend_segment(tcp(8080, 40_000).syn().ack())).leaves();
    world.client_sends(client_segment(tcp(40_000, 80).ack())).leaves();
}
