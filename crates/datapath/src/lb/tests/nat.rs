//! NAT and twice-NAT, both ways, of every protocol and family.

use super::*;

/// What a case sends: a packet between these addresses and ports. Where a protocol has no ports
/// they say nothing; an echo's identifier is the port of the side that asks.
type Build = fn(&str, &str, u16, u16, u8) -> Vec<u8>;

struct Case {
    name: &'static str,
    protocol: u8,
    client: [&'static str; 3],
    backend: &'static str,
    node: &'static str,
    /// The service's port, the backend's port.
    ports: (u16, u16),
    request: Build,
    reply: Build,
}

fn cases() -> Vec<Case> {
    let (tcp_ports, udp_ports, none) = ((80, 8080), (53, 5353), (0, 0));
    vec![
        v4("tcp", TCP, tcp_ports, tcp4, tcp4_back),
        v4("udp", UDP, udp_ports, udp4, udp4_back),
        v4("echo", ICMP, none, echo4, echo4_back),
        v4("other", RAW, none, raw4, raw4_back),
        v6("tcp", TCP, tcp_ports, tcp6, tcp6_back),
        v6("udp", UDP, udp_ports, udp6, udp6_back),
        v6("echo", ICMPV6, none, echo6, echo6_back),
        v6("other", RAW, none, raw6, raw6_back),
    ]
}

fn v4(name: &'static str, protocol: u8, ports: (u16, u16), request: Build, reply: Build) -> Case {
    let client = [CLIENT4, VIP4, "v4"];
    Case { name, protocol, client, backend: BACKEND4, node: NODE4, ports, request, reply }
}

fn v6(name: &'static str, protocol: u8, ports: (u16, u16), request: Build, reply: Build) -> Case {
    let client = [CLIENT6, VIP6, "v6"];
    Case { name, protocol, client, backend: BACKEND6, node: NODE6, ports, request, reply }
}

fn tcp4(source: &str, destination: &str, from: u16, to: u16, ttl: u8) -> Vec<u8> {
    ipv4(source, destination).ttl(ttl).tcp(tcp(from, to).syn()).build()
}

fn tcp4_back(source: &str, destination: &str, from: u16, to: u16, ttl: u8) -> Vec<u8> {
    ipv4(source, destination).ttl(ttl).tcp(tcp(from, to).syn().ack()).build()
}

fn udp4(source: &str, destination: &str, from: u16, to: u16, ttl: u8) -> Vec<u8> {
    ipv4(source, destination).ttl(ttl).udp(from, to, b"question").build()
}

fn udp4_back(source: &str, destination: &str, from: u16, to: u16, ttl: u8) -> Vec<u8> {
    ipv4(source, destination).ttl(ttl).udp(from, to, b"the answer").build()
}

fn echo4(source: &str, destination: &str, identifier: u16, _: u16, ttl: u8) -> Vec<u8> {
    ipv4(source, destination).ttl(ttl).icmp(icmp(8, 0).echo(identifier, 1).body(b"abc")).build()
}

fn echo4_back(source: &str, destination: &str, _: u16, identifier: u16, ttl: u8) -> Vec<u8> {
    ipv4(source, destination).ttl(ttl).icmp(icmp(0, 0).echo(identifier, 1).body(b"abc")).build()
}

fn raw4(source: &str, destination: &str, _: u16, _: u16, ttl: u8) -> Vec<u8> {
    ipv4(source, destination).ttl(ttl).payload(RAW, b"raw").build()
}

fn raw4_back(source: &str, destination: &str, _: u16, _: u16, ttl: u8) -> Vec<u8> {
    ipv4(source, destination).ttl(ttl).payload(RAW, b"answer").build()
}

fn tcp6(source: &str, destination: &str, from: u16, to: u16, ttl: u8) -> Vec<u8> {
    ipv6(source, destination).hop_limit(ttl).tcp(tcp(from, to).syn()).build()
}

fn tcp6_back(source: &str, destination: &str, from: u16, to: u16, ttl: u8) -> Vec<u8> {
    ipv6(source, destination).hop_limit(ttl).tcp(tcp(from, to).syn().ack()).build()
}

fn udp6(source: &str, destination: &str, from: u16, to: u16, ttl: u8) -> Vec<u8> {
    ipv6(source, destination).hop_limit(ttl).udp(from, to, b"question").build()
}

fn udp6_back(source: &str, destination: &str, from: u16, to: u16, ttl: u8) -> Vec<u8> {
    ipv6(source, destination).hop_limit(ttl).udp(from, to, b"the answer").build()
}

fn echo6(source: &str, destination: &str, identifier: u16, _: u16, ttl: u8) -> Vec<u8> {
    let message = icmp(128, 0).echo(identifier, 1).body(b"abc");
    ipv6(source, destination).hop_limit(ttl).icmp(message).build()
}

fn echo6_back(source: &str, destination: &str, _: u16, identifier: u16, ttl: u8) -> Vec<u8> {
    let message = icmp(129, 0).echo(identifier, 1).body(b"abc");
    ipv6(source, destination).hop_limit(ttl).icmp(message).build()
}

fn raw6(source: &str, destination: &str, _: u16, _: u16, ttl: u8) -> Vec<u8> {
    ipv6(source, destination).hop_limit(ttl).payload(RAW, b"raw").build()
}

fn raw6_back(source: &str, destination: &str, _: u16, _: u16, ttl: u8) -> Vec<u8> {
    ipv6(source, destination).hop_limit(ttl).payload(RAW, b"answer").build()
}

/// The packet, in an untagged frame.
fn framed(packet: &[u8], from: Mac, to: Mac) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    ethernet(from, to).payload(kind, packet).build()
}

/// Sends a request and its reply through the node; each must come out as is expected.
fn there_and_back(case: &Case, mode: Mode) {
    let [client, vip, family] = case.client;
    let name = format!("{} {family} {mode:?}", case.name);
    let (vip_port, backend_port) = case.ports;
    let mut world = World::new();
    let id = world.backend(case.backend, backend_port);
    world.serve(vip, vip_port, case.protocol, mode, &[id]);
    let seen = if mode == Mode::Nat { client } else { case.node };

    let sent = framed(&(case.request)(client, vip, 40_000, vip_port, 64), ROUTER_MAC, FRONT_MAC);
    let outcome = world.receive(FRONT, &sent);
    let expected = (case.request)(seen, case.backend, 40_000, backend_port, 63);
    assert_eq!(outcome.verdict, Verdict::Redirect(BACK), "{name}");
    assert_eq!(outcome.frame, framed(&expected, BACK_MAC, BACKEND_MAC), "{name}");

    let sent = (case.reply)(case.backend, seen, backend_port, 40_000, 64);
    let outcome = world.receive(BACK, &framed(&sent, BACKEND_MAC, BACK_MAC));
    let expected = (case.reply)(vip, client, vip_port, 40_000, 63);
    assert_eq!(outcome.verdict, Verdict::Redirect(FRONT), "{name}");
    assert_eq!(outcome.frame, framed(&expected, FRONT_MAC, ROUTER_MAC), "{name}");

    let traffic = world.tables.traffic(id);
    assert_eq!((traffic.packets_in, traffic.packets_out, traffic.sessions), (1, 1, 1), "{name}");
    let sizes = (traffic.octets_in, traffic.octets_out);
    assert_eq!(sizes, (octets(case.request, case), octets(case.reply, case)), "{name}");
}

/// Octets of a case's packet.
fn octets(build: Build, case: &Case) -> u64 {
    build(case.backend, case.backend, 1, 1, 64).len() as u64
}

#[test]
fn requests_reach_the_backend_and_replies_the_client() {
    for case in cases() {
        there_and_back(&case, Mode::Nat);
        there_and_back(&case, Mode::TwiceNat);
    }
}

#[test]
fn a_backend_without_a_port_gets_the_one_that_was_asked_for() {
    let mut world = World::new();
    let backend = world.backend(BACKEND4, 0);
    world.serve(VIP4, 0, TCP, Mode::Nat, &[backend]);
    for port in [22, 80, 65_535] {
        let sent = ipv4(CLIENT4, VIP4).tcp(tcp(40_000, port).syn());
        let seen = ipv4(CLIENT4, BACKEND4).ttl(63).tcp(tcp(40_000, port).syn());
        world.client_sends(sent).reaches_backend(seen);
    }
}

#[test]
fn a_service_of_one_port_goes_before_one_of_every_port() {
    let mut world = World::new();
    let (every, one) = (world.backend(BACKEND4, 0), world.backend(SECOND4, 0));
    world.serve(VIP4, 0, TCP, Mode::Nat, &[every]);
    world.serve(VIP4, 443, TCP, Mode::Nat, &[one]);
    for (port, backend) in [(443, SECOND4), (80, BACKEND4)] {
        let outcome = world.client_sends(ipv4(CLIENT4, VIP4).tcp(tcp(40_000, port).syn()));
        assert_eq!(outcome.destination(), backend);
    }
}

#[test]
fn a_protocol_without_ports_is_answered_though_its_backend_has_one() {
    let mut world = World::new();
    let backend = world.backend(BACKEND4, 8080);
    world.serve(VIP4, 0, RAW, Mode::Nat, &[backend]);
    world.client_sends(ipv4(CLIENT4, VIP4).payload(RAW, b"raw")).leaves();
    let reply = world.backend_sends(ipv4(BACKEND4, CLIENT4).payload(RAW, b"answer"));
    reply.reaches_client(ipv4(VIP4, CLIENT4).ttl(63).payload(RAW, b"answer"));
}

#[test]
fn echoes_of_two_clients_with_one_identifier_never_mix() {
    for mode in [Mode::Nat, Mode::TwiceNat] {
        let mut world = World::new();
        let backend = world.backend(BACKEND4, 0);
        world.serve(VIP4, 0, ICMP, mode, &[backend]);
        let other = "198.51.100.8";
        world.route(other, FRONT, ROUTER_MAC);
        for client in [CLIENT4, other] {
            let asked = world.client_sends(ipv4(client, VIP4).icmp(icmp(8, 0).echo(7, 1)));
            // The answer goes to whatever address and identifier the backend saw.
            let seen = format!("{}", Address::v4(asked.frame[26..30].try_into().unwrap()));
            let identifier = u16::from_be_bytes([asked.frame[38], asked.frame[39]]);
            let reply = ipv4(BACKEND4, &seen).icmp(icmp(0, 0).echo(identifier, 1));
            let expected = ipv4(VIP4, client).ttl(63).icmp(icmp(0, 0).echo(7, 1));
            world.backend_sends(reply).reaches_client(expected);
        }
    }
}

#[test]
fn only_an_echo_request_is_a_new_flow_of_icmp() {
    let mut world = World::new();
    let (four, six) = (world.backend(BACKEND4, 0), world.backend(BACKEND6, 0));
    world.serve(VIP4, 0, ICMP, Mode::Nat, &[four]);
    world.serve(VIP6, 0, ICMPV6, Mode::Nat, &[six]);
    let reply = icmp(0, 0).echo(7, 1);
    world.client_sends(ipv4(CLIENT4, VIP4).icmp(reply)).is_refused(DropReason::NoService);
    let reply = icmp(129, 0).echo(7, 1);
    world.client_sends(ipv6(CLIENT6, VIP6).icmp(reply)).is_refused(DropReason::NoService);
    // Redirect, timestamp; multicast listener query, router advertisement: no error answers them.
    for kind in [5, 13] {
        let message = icmp(kind, 0).echo(7, 1).body([0; 12]);
        world.client_sends(ipv4(CLIENT4, VIP4).icmp(message)).is_dropped(DropReason::NoService);
    }
    for kind in [130, 134] {
        let message = icmp(kind, 0).echo(7, 1).body([0; 12]);
        world.client_sends(ipv6(CLIENT6, VIP6).icmp(message)).is_dropped(DropReason::NoService);
    }
    assert!(world.tables.sessions().is_empty());
}

#[test]
fn an_echo_with_identifier_zero_is_not_taken_for_another_message() {
    let mut world = World::new();
    let (four, six) = (world.backend(BACKEND4, 0), world.backend(BACKEND6, 0));
    world.serve(VIP4, 0, ICMP, Mode::Nat, &[four]);
    world.serve(VIP6, 0, ICMPV6, Mode::Nat, &[six]);
    world.client_sends(ipv4(CLIENT4, VIP4).icmp(icmp(8, 0).echo(0, 1))).leaves();
    world.client_sends(ipv6(CLIENT6, VIP6).icmp(icmp(128, 0).echo(0, 1))).leaves();
    // From the client: none of these is of the session.
    let reply = icmp(0, 0).body([0; 20]);
    world.client_sends(ipv4(CLIENT4, VIP4).icmp(reply)).is_refused(DropReason::NoService);
    let reply = icmp(129, 0).body([0; 20]);
    world.client_sends(ipv6(CLIENT6, VIP6).icmp(reply)).is_refused(DropReason::NoService);
    for kind in [5, 13] {
        let message = icmp(kind, 0).body([0; 20]);
        world.client_sends(ipv4(CLIENT4, VIP4).icmp(message)).is_dropped(DropReason::NoService);
    }
    for kind in [130, 134] {
        let message = icmp(kind, 0).body([0; 20]);
        world.client_sends(ipv6(CLIENT6, VIP6).icmp(message)).is_dropped(DropReason::NoService);
    }
    // From the backend: its own pings of the client are its own.
    world.backend_sends(ipv4(BACKEND4, CLIENT4).icmp(icmp(8, 0).echo(0, 1))).passes();
    world.backend_sends(ipv6(BACKEND6, CLIENT6).icmp(icmp(128, 0).echo(0, 1))).passes();
    world.backend_sends(ipv6(BACKEND6, CLIENT6).icmp(icmp(134, 0).body([0; 8]))).passes();
}
