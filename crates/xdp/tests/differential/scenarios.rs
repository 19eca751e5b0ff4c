//! What the generated frames are about: one function a scenario.

use crate::generator::{ACK, DIM, FIRST_BAD, Generator, ORDINARY, SYN, Sent};
use crate::lab::{ARM, BACKEND_MAC, BAD, NEAR4, NEAR6, ROUTER_MAC, UNKNOWN};
use crate::packets::{Flow, Packet, Role};
use crate::world::{BACKEND_PORT, LOST_VIPS, OTHER_VIPS, POOL, VIPS, family, port};
use testkit::packet::{
    BROADCAST, arp_reply, arp_request, ethernet, icmp, ipv4, ipv6, neighbour_solicitation,
    solicited_node,
};
use wire::protocol::{TCP, UDP};

/// Makes one frame.
type Scenario = fn(&mut Generator) -> Sent;

/// All of them; some count more than once.
pub(crate) const SCENARIOS: [Scenario; 54] = [
    Generator::new_flow,
    Generator::new_flow,
    Generator::new_flow,
    Generator::new_flow_with_extras,
    Generator::known_request,
    Generator::known_request,
    Generator::known_request,
    Generator::known_reply,
    Generator::known_reply,
    Generator::known_reply,
    Generator::one_arm,
    Generator::one_arm,
    Generator::moving,
    Generator::moving,
    Generator::hairpin,
    Generator::two_vips,
    Generator::client_without_a_route,
    Generator::client_without_a_route,
    Generator::client_without_a_route,
    Generator::client_without_a_route,
    Generator::by_the_dim_interface,
    Generator::backend_without_a_route,
    Generator::backend_without_a_route,
    Generator::backend_without_a_route,
    Generator::special_service,
    Generator::special_service,
    Generator::refused_source,
    Generator::no_service,
    Generator::without_a_session,
    Generator::fragment,
    Generator::malformed,
    Generator::used_up,
    Generator::too_big,
    Generator::cut,
    Generator::extensions,
    Generator::tagged,
    Generator::not_ours,
    Generator::question,
    Generator::answer_without_a_session,
    Generator::answer_without_a_session,
    Generator::error_about_a_request,
    Generator::error_about_a_request,
    Generator::error_about_a_request,
    Generator::error_about_a_reply,
    Generator::error_about_a_bad_clients_request,
    Generator::error_about_a_bad_clients_request,
    Generator::error_about_nothing_of_ours,
    Generator::connection_to_reset,
    Generator::connection_to_reset,
    Generator::connection_to_reset,
    Generator::connection_to_reset,
    Generator::question,
    Generator::by_the_dim_interface,
    Generator::client_without_a_route,
];

impl Generator {
    fn new_flow(&mut self) -> Sent {
        let flow = self.any_request();
        self.opens(flow, ORDINARY)
    }

    fn new_flow_with_extras(&mut self) -> Sent {
        let flow = self.any_request();
        let packet = self.first(&flow).with_extras(&mut self.random);
        self.by_front(packet)
    }

    fn known_request(&mut self) -> Sent {
        let Some(known) = self.known(ORDINARY) else { return self.new_flow() };
        let (flags, data) = (self.flags(), self.random.index(100));
        let packet = known.request.packet(Role::Request, flags, data);
        let extra = self.random.below(4) == 0;
        let packet = if extra { packet.with_extras(&mut self.random) } else { packet };
        self.by_front(packet)
    }

    fn known_reply(&mut self) -> Sent {
        let Some(known) = self.known(ORDINARY) else { return self.new_flow() };
        let (flags, data) = (self.flags(), self.random.index(100));
        let packet = known.reply.packet(Role::Reply, flags, data);
        let extra = self.random.below(4) == 0;
        let packet = if extra { packet.with_extras(&mut self.random) } else { packet };
        self.by_back(packet)
    }

    fn one_arm(&mut self) -> Sent {
        let protocol = self.random.pick(&[TCP, UDP]);
        let to = self.random.pick(&[port::ARM, port::ARM_TWICE]);
        let flow = self.flow(protocol, to);
        let packet = self.first(&flow);
        self.by_front(packet)
    }

    fn moving(&mut self) -> Sent {
        let protocol = self.random.pick(&[TCP, UDP]);
        let to = self.random.pick(&[port::MOVING, port::MOVING_TWICE]);
        let mut flow = self.flow(protocol, to);
        // Few ports, so that flows are known.
        flow.from = 30_000 + flow.from % 8;
        let (flags, data) = (self.flags(), self.random.index(40));
        self.by_front(flow.packet(Role::Request, flags, data))
    }

    fn hairpin(&mut self) -> Sent {
        let mut flow = self.any_request();
        let place = self.random.index(2);
        let near = [NEAR4[place], NEAR6[place]];
        flow.source = near[family(&flow.destination)].to_owned();
        let packet = self.first(&flow);
        self.by_back(packet)
    }

    fn two_vips(&mut self) -> Sent {
        let protocol = self.random.pick(&[TCP, UDP]);
        let mut flow = self.flow(protocol, port::NAT);
        flow.from = 50_000 + flow.from % 16;
        if self.random.below(2) == 0 {
            flow.destination = OTHER_VIPS[family(&flow.source)].to_owned();
        }
        let packet = self.first(&flow);
        self.by_front(packet)
    }

    fn client_without_a_route(&mut self) -> Sent {
        let which = self.random.index(BAD.len());
        let list = FIRST_BAD + which;
        let rarely = self.random.below(8) == 0;
        match self.known(list) {
            Some(known) if !rarely => {
                let (flags, data) = (self.random.pick(&[ACK, ACK | SYN]), self.random.index(40));
                self.by_back(known.reply.packet(Role::Reply, flags, data))
            }
            _ => {
                let source = BAD[which].0.to_owned();
                let destination = VIPS[family(&source)].to_owned();
                let from = self.random.word();
                let protocol = self.random.pick(&[TCP, UDP]);
                let flow = Flow { protocol, source, destination, from, to: port::TWICE };
                self.opens(flow, list)
            }
        }
    }

    fn by_the_dim_interface(&mut self) -> Sent {
        let reply = match self.known(DIM) {
            Some(known) if self.random.below(8) != 0 => known.reply,
            _ => {
                let protocol = self.random.pick(&[TCP, UDP]);
                let flow = self.flow(protocol, port::TWICE);
                return self.opens(flow, DIM);
            }
        };
        let frame = ethernet(BACKEND_MAC, self.ports.dim.mac);
        let packet = if self.random.below(2) == 0 {
            let packet = reply.packet(Role::Reply, SYN | ACK, 9);
            if self.random.below(3) == 0 {
                error_about(&sent_by(&reply, 48), self, 48)
            } else {
                packet
            }
        } else {
            let source = self.client(0);
            let destination = VIPS[0].to_owned();
            let from = self.random.word();
            Flow { protocol: UDP, source, destination, from, to: port::DIM }.packet(
                Role::Request,
                0,
                9,
            )
        };
        Sent { frame: packet.carried_by(frame), port: self.ports.dim.clone() }
    }

    fn backend_without_a_route(&mut self) -> Sent {
        let which = self.random.index(BAD.len() + 1);
        let protocol = self.random.pick(&[TCP, UDP]);
        let mut flow = self.flow(protocol, port::UNKNOWN);
        if let (Some((bad, _)), Ok(which)) = (BAD.get(which), u16::try_from(which)) {
            let family = family(bad);
            flow = Flow {
                source: self.client(family),
                destination: VIPS[family].to_owned(),
                to: port::BAD + which,
                ..flow
            };
        }
        let packet = self.first(&flow);
        self.by_front(packet)
    }

    fn special_service(&mut self) -> Sent {
        let protocol = self.random.pick(&[TCP, UDP]);
        let to = self.random.pick(&[port::EMPTY, port::NARROW]);
        let mut flow = self.flow(protocol, to);
        if self.random.below(8) == 0 {
            flow.source = UNKNOWN[2].to_owned();
            flow.destination = VIPS[0].to_owned();
        }
        let packet = self.first(&flow);
        self.by_front(packet)
    }

    fn refused_source(&mut self) -> Sent {
        let mut flow = self.flow(UDP, port::NAT);
        let four = ["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255"];
        let six = ["::", "::1", "fe80::1", "ff02::1", "fe80::2"];
        let among = if family(&flow.source) == 0 { four } else { six };
        flow.source = self.random.pick(&among).to_owned();
        let packet = self.first(&flow);
        self.by_front(packet)
    }

    fn no_service(&mut self) -> Sent {
        let mut flow = self.any_request();
        flow.to = 7;
        if flow.protocol != TCP && flow.protocol != UDP {
            // ICMP messages that are no echo request, to a VIP that balances echoes.
            let kind = self.random.pick(&[5, 9, 13, 129, 130, 133, 137]);
            let message = icmp(kind, 0).rest([0; 4]).body([0; 24]);
            let packet = match flow.packet(Role::Reply, 0, 8) {
                Packet::Four(packet) => Packet::Four(packet.icmp(message)),
                Packet::Six(packet) => Packet::Six(packet.icmp(message)),
            };
            return self.by_front(packet);
        }
        if self.random.below(3) == 0 {
            flow.destination = LOST_VIPS[family(&flow.source)].to_owned();
        }
        let packet = self.first(&flow);
        self.by_front(packet)
    }

    fn without_a_session(&mut self) -> Sent {
        let mut flow = self.flow(TCP, port::TWICE);
        if self.random.below(2) == 0 {
            flow.destination = POOL[family(&flow.source)].to_owned();
            flow.to = 9;
        }
        self.by_front(flow.packet(Role::Request, ACK, 5))
    }

    /// A request of a known flow or a new one.
    fn some_request(&mut self) -> Packet {
        let flow = match self.known(ORDINARY) {
            Some(known) if self.random.below(2) == 0 => known.request,
            _ => self.any_request(),
        };
        self.first(&flow)
    }

    fn fragment(&mut self) -> Sent {
        let packet = self.some_request().fragment(&mut self.random);
        self.by_front(packet)
    }

    fn malformed(&mut self) -> Sent {
        let packet = self.some_request().malformed(&mut self.random);
        self.by_front(packet)
    }

    fn used_up(&mut self) -> Sent {
        let hops = self.random.pick(&[0, 1, 1, 2]);
        let packet = self.some_request().hops(hops);
        if self.random.below(4) == 0 {
            let frame = self.front_frame().vlan(3).vlan(4);
            return Sent { frame: packet.carried_by(frame), port: self.ports.front.clone() };
        }
        self.by_front(packet)
    }

    fn too_big(&mut self) -> Sent {
        let flow = match self.known(ORDINARY) {
            Some(known) if self.random.below(2) == 0 => known.request,
            _ => self.any_request(),
        };
        let data = 1430 + self.random.index(1900);
        self.by_front(flow.packet(Role::Request, SYN, data))
    }

    /// A frame cut anywhere, or a packet whose transport header is.
    fn cut(&mut self) -> Sent {
        let packet = self.some_request();
        if self.random.below(2) == 0 {
            let short = vec![8; self.random.index(8)];
            let protocol = self.random.pick(&[TCP, UDP]);
            return self.by_front(match packet {
                Packet::Four(packet) => Packet::Four(packet.payload(protocol, short)),
                Packet::Six(packet) => Packet::Six(packet.payload(protocol, short)),
            });
        }
        let packet =
            if self.random.below(2) == 0 { packet.with_extras(&mut self.random) } else { packet };
        let mut sent = self.by_front(packet);
        let length = 14 + self.random.index(sent.frame.len() - 14);
        sent.frame.truncate(length);
        sent
    }

    /// Chains of extension headers that are too long, or lead elsewhere.
    fn extensions(&mut self) -> Sent {
        let flow = Flow {
            source: self.client(1),
            destination: VIPS[1].to_owned(),
            ..self.flow(UDP, port::NAT)
        };
        let mut packet = ipv6(&flow.source, &flow.destination);
        packet = match self.random.below(4) {
            0 => packet.routing(0, 1, [0; 20]),
            1 => packet.destination_options([0; 1900]),
            _ => (0..9).fold(packet, |packet, _| packet.destination_options([])),
        };
        self.by_front(Packet::Six(packet.udp(flow.from, flow.to, b"?")))
    }

    fn tagged(&mut self) -> Sent {
        let packet = self.some_request();
        let frame = self.front_frame().tag(0x8100, self.random.pick(&[0, 5, 0xe005]));
        let frame = if self.random.below(3) == 0 { frame } else { frame.vlan(9) };
        Sent { frame: packet.carried_by(frame), port: self.ports.front.clone() }
    }

    fn not_ours(&mut self) -> Sent {
        let mut flow = self.any_request();
        let frame = match self.random.below(5) {
            0 => ethernet(ROUTER_MAC, BACKEND_MAC),
            1 => ethernet(ROUTER_MAC, BROADCAST),
            2 => {
                let frame = self.front_frame().payload(self.random.word(), vec![1; 60]);
                return Sent { frame: frame.build(), port: self.ports.front.clone() };
            }
            _ => {
                flow.destination = ["10.0.1.1", "2001:db8:b::1"][family(&flow.source)].to_owned();
                self.front_frame()
            }
        };
        let packet = self.first(&flow);
        Sent { frame: packet.carried_by(frame), port: self.ports.front.clone() }
    }

    /// ARP and neighbour discovery, about addresses of ours and of others.
    fn question(&mut self) -> Sent {
        let about = self.random.pick(&[VIPS, OTHER_VIPS, LOST_VIPS, POOL, ["10.0.1.1", "fe80::9"]]);
        let mut frame = ethernet(ROUTER_MAC, BROADCAST);
        for _ in 0..self.random.below(3) {
            frame = frame.vlan(u16::from(self.random.octet()));
        }
        let frame = match self.random.below(6) {
            0 => frame.arp(arp_request(ROUTER_MAC, "198.51.100.2", about[0])),
            1 => frame.arp(arp_request(ROUTER_MAC, "0.0.0.0", about[0])).padded(),
            2 => frame.arp(arp_reply(ROUTER_MAC, "198.51.100.2", BACKEND_MAC, about[0])),
            kind => {
                let option = [None, Some(ROUTER_MAC)][self.random.index(2)];
                let asker = ["2001:db8:c::2", "::"][self.random.index(2)];
                let (group, _) = solicited_node(about[1]);
                let to = if kind == 3 { about[1] } else { &group };
                let hops = if kind == 3 { 64 } else { self.random.pick(&[255, 255, 254]) };
                let message = neighbour_solicitation(about[1], option);
                frame.ipv6(ipv6(asker, to).hop_limit(hops).icmp(message))
            }
        };
        Sent { frame: frame.build(), port: self.ports.front.clone() }
    }

    /// A backend's answer that no session knows, but its address and port name the service.
    fn answer_without_a_session(&mut self) -> Sent {
        let protocol = self.random.pick(&[TCP, UDP]);
        let request = self.flow(protocol, port::STATELESS);
        let one_arm = self.random.below(2) == 0;
        let backends = if one_arm { ARM } else { [NEAR4[4], NEAR6[2]] };
        let reply = Flow {
            protocol,
            source: backends[family(&request.source)].to_owned(),
            destination: request.source,
            from: BACKEND_PORT,
            to: request.from,
        };
        let packet = reply.packet(Role::Reply, ACK, 7);
        if one_arm {
            return self.by_front(packet);
        }
        if self.random.below(3) == 0 {
            let frame = ethernet(BACKEND_MAC, self.ports.back.mac).vlan(3).vlan(4);
            return Sent { frame: packet.carried_by(frame), port: self.ports.back.clone() };
        }
        self.by_back(packet)
    }

    /// A router behind us tells of a packet that the backend was sent.
    fn error_about_a_request(&mut self) -> Sent {
        let Some(known) = self.known(ORDINARY) else { return self.new_flow() };
        let octets = self.random.pick(&[0, 10, 20, 28, 48, 60, 500, 1600]);
        let packet = error_about(&sent_by(&known.reply, octets), self, octets);
        if self.random.below(8) == 0 {
            let frame = ethernet(BACKEND_MAC, self.ports.back.mac).vlan(3).vlan(4);
            return Sent { frame: packet.carried_by(frame), port: self.ports.back.clone() };
        }
        // From the clients' side it turns around.
        if self.random.below(4) == 0 { self.by_front(packet) } else { self.by_back(packet) }
    }

    /// A router before us tells of a packet that the client was sent.
    fn error_about_a_reply(&mut self) -> Sent {
        let Some(known) = self.known(ORDINARY) else { return self.new_flow() };
        let octets = self.random.pick(&[0, 12, 28, 48, 60, 500]);
        let packet = error_about(&sent_by(&known.request, octets), self, octets);
        self.by_front(packet)
    }

    fn error_about_a_bad_clients_request(&mut self) -> Sent {
        let list = FIRST_BAD + self.random.index(BAD.len());
        let Some(known) = self.known(list) else { return self.client_without_a_route() };
        let packet = error_about(&sent_by(&known.reply, 48), self, 48);
        self.by_back(packet)
    }

    fn error_about_nothing_of_ours(&mut self) -> Sent {
        let mut flow = self.any_request();
        // It reaches the address that has sent the quoted packet.
        let from_a_client = self.random.below(2) == 0;
        if from_a_client {
            flow.destination = self.client(family(&flow.source));
        }
        let packet = error_about(&sent_by(&flow, 48), self, 48);
        self.by_front(packet)
    }

    /// Data of a connection whose backend is gone, and whose sessions are to be reset.
    fn connection_to_reset(&mut self) -> Sent {
        let mut flow = self.flow(TCP, port::MOVING);
        flow.from = 31_000 + flow.from % 16;
        let flags = self.random.pick(&[ACK, ACK, ACK | 8, ACK | 1, 4, SYN]);
        let packet = flow.packet(Role::Request, flags, 3);
        if self.random.below(2) == 0 {
            let frame = self.front_frame().vlan(3).vlan(4);
            return Sent { frame: packet.carried_by(frame), port: self.ports.front.clone() };
        }
        self.by_front(packet)
    }
}

/// The packet whose answer, or whose request, has the flow the other way round.
fn sent_by(answer: &Flow, data: usize) -> Packet {
    let flow = Flow {
        source: answer.destination.clone(),
        destination: answer.source.clone(),
        protocol: answer.protocol,
        from: answer.to,
        to: answer.from,
    };
    flow.packet(Role::Request, ACK, data)
}

/// An ICMP error that quotes so many octets of the packet, to whom has sent it.
fn error_about(quoted: &Packet, generator: &mut Generator, octets: usize) -> Packet {
    let hops = generator.random.pick(&[64, 64, 64, 1]);
    let code = generator.random.pick(&[0, 1, 4]);
    match quoted {
        Packet::Four(packet) => {
            let quoted = packet.build();
            let to = std::net::Ipv4Addr::from(<[u8; 4]>::try_from(&quoted[12..16]).unwrap());
            let message = icmp(generator.random.pick(&[3, 11, 12]), code).mtu(1400);
            let message = message.quoting(&quoted, octets);
            Packet::Four(ipv4("198.51.100.2", &to.to_string()).ttl(hops).icmp(message))
        }
        Packet::Six(packet) => {
            let quoted = packet.build();
            let to = std::net::Ipv6Addr::from(<[u8; 16]>::try_from(&quoted[8..24]).unwrap());
            let message = icmp(generator.random.pick(&[1, 2, 3]), code).mtu(1400);
            let message = message.quoting(&quoted, octets + octets.min(20));
            Packet::Six(ipv6("2001:db8:c::2", &to.to_string()).hop_limit(hops).icmp(message))
        }
    }
}
