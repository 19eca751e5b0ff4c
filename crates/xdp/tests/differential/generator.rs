//! The generator of frames: it knows which sessions are open, and what their replies look like.

use crate::lab::{BACKEND_MAC, BAD, CLIENTS, CLIENTS4, CLIENTS6, Port, ROUTER_MAC};
use crate::packets::{Flow, Packet, Random, Role};
use crate::scenarios::SCENARIOS;
use crate::world::{OTHER_VIPS, RAW, VIPS, family, port};
use testkit::packet::{Ethernet, ethernet};
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

/// TCP control bits.
pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 16;
/// Known flows that are kept of each sort.
const KEPT: usize = 512;

/// A frame, and the interface that it comes in by.
pub(crate) struct Sent {
    pub(crate) port: Port,
    pub(crate) frame: Vec<u8>,
}

/// A session as the generator knows it: how the client and how the backend sees it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) request: Flow,
    pub(crate) reply: Flow,
}

/// A request whose fate is not known yet.
#[derive(Clone, Debug)]
struct Pending {
    request: Flow,
    list: usize,
}

/// The interfaces of the node.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    pub(crate) front: Port,
    pub(crate) back: Port,
    pub(crate) dim: Port,
}

/// Lists of known flows: ordinary ones, those whose replies come by the interface that does not
/// forward, and those of each client that no route leads to.
pub(crate) const ORDINARY: usize = 0;
pub(crate) const DIM: usize = 1;
pub(crate) const FIRST_BAD: usize = 2;

pub(crate) struct Generator {
    pub(crate) random: Random,
    pub(crate) ports: Ports,
    known: Vec<Vec<Known>>,
    pending: Option<Pending>,
}

impl Generator {
    pub(crate) fn new(seed: u64, ports: Ports) -> Self {
        let known = vec![Vec::new(); FIRST_BAD + BAD.len()];
        Self { random: Random(seed), ports, known, pending: None }
    }

    pub(crate) fn next(&mut self) -> Sent {
        self.pending = None;
        let scenario = self.random.pick(&SCENARIOS);
        let mut sent = scenario(self);
        // One bit is wrong now and then, but for addresses, to which the host knows no route.
        let at = self.random.index(sent.frame.len());
        if self.random.below(48) == 0 && !(22..62).contains(&at) {
            sent.frame[at] ^= 1 << self.random.below(8);
            self.pending = None;
        }
        sent
    }

    /// The request went on as this frame: from now on its replies are known.
    pub(crate) fn went_on(&mut self, frame: &[u8]) {
        let Some(Pending { request, list }) = self.pending.take() else { return };
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (source, destination, transport) = if family(&request.source) == 0 {
            (text4(&frame[26..30]), text4(&frame[30..34]), 34)
        } else {
            (text6(&frame[22..38]), text6(&frame[38..54]), 54)
        };
        let (from, to) = match request.protocol {
            TCP | UDP => (word(transport + 2), word(transport)),
            ICMP | ICMPV6 => (word(transport + 4), 0),
            _ => (0, 0),
        };
        let reply =
            Flow { protocol: request.protocol, source: destination, destination: source, from, to };
        let list = &mut self.known[list];
        if list.len() == KEPT {
            let at = self.random.index(KEPT);
            list[at] = Known { request, reply };
        } else {
            list.push(Known { request, reply });
        }
    }

    /// The sessions are gone.
    pub(crate) fn forget(&mut self) {
        self.known.iter_mut().for_each(Vec::clear);
    }

    // === parts of frames ===

    pub(crate) fn front_frame(&self) -> Ethernet {
        ethernet(ROUTER_MAC, self.ports.front.mac)
    }

    pub(crate) fn by_front(&self, packet: Packet) -> Sent {
        Sent { frame: packet.carried_by(self.front_frame()), port: self.ports.front.clone() }
    }

    pub(crate) fn by_back(&self, packet: Packet) -> Sent {
        let frame = packet.carried_by(ethernet(BACKEND_MAC, self.ports.back.mac));
        Sent { frame, port: self.ports.back.clone() }
    }

    pub(crate) fn client(&mut self, family: usize) -> String {
        let number = 1 + self.random.below(CLIENTS);
        if family == 0 { format!("{CLIENTS4}{number}") } else { format!("{CLIENTS6}{number:x}") }
    }

    /// A flow of a client to this port of the VIP.
    pub(crate) fn flow(&mut self, protocol: u8, to: u16) -> Flow {
        let family = self.random.index(2);
        let source = self.client(family);
        let destination = VIPS[family].to_owned();
        Flow { protocol, source, destination, from: self.random.word(), to }
    }

    /// Its first packet.
    pub(crate) fn first(&mut self, flow: &Flow) -> Packet {
        let data = self.random.index(40);
        flow.packet(Role::Request, SYN, data)
    }

    pub(crate) fn opens(&mut self, request: Flow, list: usize) -> Sent {
        let packet = self.first(&request);
        self.pending = Some(Pending { request, list });
        self.by_front(packet)
    }

    pub(crate) fn any_request(&mut self) -> Flow {
        match self.random.below(6) {
            0 => {
                let mut flow = self.flow(ICMP, 0);
                let family = family(&flow.source);
                if family == 1 {
                    flow.protocol = ICMPV6;
                }
                // Echoes of which each sequence number is a flow of its own.
                if self.random.below(3) == 0 {
                    flow.destination = OTHER_VIPS[family].to_owned();
                }
                flow
            }
            1 => Flow { from: 0, ..self.flow(RAW, 0) },
            _ => {
                let protocol = self.random.pick(&[TCP, UDP]);
                let to = self.random.pick(&[port::NAT, port::TWICE, port::STATELESS, port::STICKY]);
                self.flow(protocol, to)
            }
        }
    }

    pub(crate) fn known(&mut self, list: usize) -> Option<Known> {
        let known = &self.known[list];
        if known.is_empty() {
            return None;
        }
        let at = self.random.index(known.len());
        Some(self.known[list][at].clone())
    }

    pub(crate) fn flags(&mut self) -> u8 {
        self.random.pick(&[SYN, ACK, ACK, ACK, SYN | ACK, ACK | 1, 4, ACK | 4, ACK | 8, 0])
    }
}

fn text4(octets: &[u8]) -> String {
    std::net::Ipv4Addr::from(<[u8; 4]>::try_from(octets).unwrap()).to_string()
}

fn text6(octets: &[u8]) -> String {
    std::net::Ipv6Addr::from(<[u8; 16]>::try_from(octets).unwrap()).to_string()
}
