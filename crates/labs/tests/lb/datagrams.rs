//! UDP, protocols by number, and a service on every port.

use crate::bed;
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape};
use labs::lb::mapping::Mapping;
use labs::lb::{PATIENCE, servers};
use labs::peers::PYTHON;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

const PORT: u16 = 7000;

fn mapping(bed: &Bed, family: Family, protocol: &str, port: Option<u16>, more: &str) -> Mapping {
    let id = match family {
        Family::V4 => "echo4",
        Family::V6 => "echo6",
    };
    let mapping = Mapping::new(id, &bed.vip(family, 10), protocol, port);
    (0..bed.backends.len()).fold(mapping, |mapping, number| {
        mapping.backend(&format!("backend{}", number + 1), &bed.backend(family, number), more)
    })
}

/// Sends one datagram and returns the words of the answer: who, client's address and port as seen
/// there, payload.
fn ask(socket: &UdpSocket, payload: &str) -> Vec<String> {
    socket.send(payload.as_bytes()).unwrap();
    let mut answer = [0; 256];
    let length = socket.recv(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).split(' ').map(str::to_owned).collect()
}

fn socket(vip: &str, port: u16) -> UdpSocket {
    let any = if vip.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect((vip, port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// 200 clients of UDP, three datagrams each: a client stays where it is, all backends have some.
fn many_clients(name: &str, shape: Shape, twice: bool) {
    let Some(bed) = bed(name, shape, 2) else { return };
    if !twice {
        bed.route_backends().unwrap();
    }
    let _echoes: Vec<_> =
        bed.backends.iter().map(|host| servers::echo(host, PORT).unwrap()).collect();
    let mappings = Family::ALL.map(|family| {
        let mapping = mapping(&bed, family, "udp", Some(5000), ", port: 7000");
        if twice { mapping.twice_nat() } else { mapping }
    });
    let _balancer = Balancer::start(&bed, &mappings).unwrap();
    for family in Family::ALL {
        let vip = bed.vip(family, 10);
        let seen_as = match twice {
            true => bed.node_address(family),
            false => bed.client_address(family),
        };
        let shares = bed.client.run(|| {
            let sockets: Vec<UdpSocket> = (0..200).map(|_| socket(&vip, 5000)).collect();
            let mut homes = BTreeMap::<String, u32>::new();
            for socket in &sockets {
                let first = ask(socket, "one");
                assert_eq!(first[1], seen_as, "{first:?}");
                if !twice {
                    let own = socket.local_addr().unwrap().port().to_string();
                    assert_eq!(first[2], own);
                }
                for payload in ["two", "three"] {
                    let next = ask(socket, payload);
                    assert_eq!((&next[..3], next[3].as_str()), (&first[..3], payload));
                }
                *homes.entry(first[0].clone()).or_default() += 1;
            }
            homes
        });
        assert!(shares.len() == 2 && shares.values().all(|share| *share > 50), "{shares:?}");
    }
}

#[test]
fn udp_of_many_clients_through_twice_nat_with_two_arms() {
    many_clients("udp-twice2", Shape::TwoArms, true);
}

#[test]
fn udp_of_many_clients_through_nat_with_two_arms() {
    many_clients("udp-nat2", Shape::TwoArms, false);
}

#[test]
fn udp_of_many_clients_through_twice_nat_with_one_arm() {
    many_clients("udp-twice1", Shape::OneArm, true);
}

#[test]
fn udp_of_many_clients_through_nat_with_one_arm() {
    many_clients("udp-nat1", Shape::OneArm, false);
}

#[test]
fn port_0_serves_every_port() {
    let Some(bed) = bed("every-port", Shape::TwoArms, 2) else { return };
    let ports = [PORT, 7001, 65_535];
    let _echoes: Vec<_> = bed
        .backends
        .iter()
        .flat_map(|host| ports.map(|port| servers::echo(host, port).unwrap()))
        .collect();
    let mappings = Family::ALL.map(|family| mapping(&bed, family, "udp", Some(0), "").twice_nat());
    let _balancer = Balancer::start(&bed, &mappings).unwrap();
    for (family, port) in Family::ALL.iter().flat_map(|family| ports.map(|port| (*family, port))) {
        let answer = bed.client.run(|| ask(&socket(&bed.vip(family, 10), port), "here"));
        assert_eq!(answer[3], "here");
    }
}

/// A raw socket of protocol 97 that sends everything back; IPv4 hands its own header over too.
const RAW_ECHO: &str = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_RAW, 97)
print('listening', flush=True)
while True:
    data, peer = s.recvfrom(2048)
    if family == socket.AF_INET: data = data[20:]
    s.sendto(b'echo of ' + data, peer)
";
/// Asks it three times.
const RAW_ASK: &str = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family, socket.SOCK_RAW, 97)
s.settimeout(5)
s.connect((sys.argv[1], 0))
for n in range(3):
    s.send(b'datagram %d' % n)
    data = s.recv(2048)
    print(data[20:].decode() if family == socket.AF_INET else data.decode(), flush=True)
";

/// A protocol that has no ports.
fn raw_protocol(name: &str, twice: bool) {
    let Some(bed) = bed(name, Shape::TwoArms, 2) else { return };
    if !twice {
        bed.route_backends().unwrap();
    }
    let mappings = Family::ALL.map(|family| {
        let mapping = mapping(&bed, family, "97", None, "");
        if twice { mapping.twice_nat() } else { mapping }
    });
    let balancer = Balancer::start(&bed, &mappings).unwrap();
    for family in Family::ALL {
        let vip = bed.vip(family, 10);
        let mut echoes: Vec<_> = bed
            .backends
            .iter()
            .map(|host| host.spawn(PYTHON, ["-c", RAW_ECHO, &vip]).unwrap())
            .collect();
        for echo in &mut echoes {
            echo.wait_for_line(|line| line == "listening", PATIENCE).unwrap();
        }
        let mut client = bed.client.spawn(PYTHON, ["-c", RAW_ASK, &vip]).unwrap();
        client.wait(PATIENCE).unwrap();
        let expected = ["echo of datagram 0", "echo of datagram 1", "echo of datagram 2"];
        assert_eq!(client.lines(), expected, "{family:?}: {}", balancer.summary());
    }
}

#[test]
fn a_protocol_by_number_through_twice_nat() {
    raw_protocol("raw-twice", true);
}

#[test]
fn a_protocol_by_number_through_nat() {
    raw_protocol("raw-nat", false);
}
