//! Packets that go no further: who is told, by whom, and how often a router sees them.

use crate::bed;
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape, ip};
use labs::lb::capture::Capture;
use labs::lb::mapping::Mapping;
use labs::lb::servers::Nginx;
use labs::lb::{done, run, servers};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(15);

fn id(name: &str, family: Family) -> String {
    format!("{name}{}", if family == Family::V4 { 4 } else { 6 })
}

/// From this port of the VIP to that port of all backends.
fn mapping(bed: &Bed, family: Family, protocol: &str, port: Option<u16>, to: &str) -> Mapping {
    let mapping = Mapping::new(&id(protocol, family), &bed.vip(family, 10), protocol, port);
    (0..bed.backends.len()).fold(mapping, |mapping, number| {
        mapping.backend(&format!("backend{}", number + 1), &bed.backend(family, number), to)
    })
}

fn web(bed: &Bed) -> [Mapping; 2] {
    Family::ALL.map(|family| mapping(bed, family, "tcp", Some(80), ", port: 8080").twice_nat())
}

fn pings(bed: &Bed) -> [Mapping; 2] {
    Family::ALL.map(|family| mapping(bed, family, "icmp", None, "").twice_nat())
}

#[test]
fn l4_09_an_unused_port_is_refused_and_the_router_sees_it_once() {
    let Some(bed) = bed("unused", Shape::OneArm, 1) else { return };
    let balancer = Balancer::start(&bed, &web(&bed)).unwrap();
    for family in Family::ALL {
        let vip = bed.vip(family, 10);
        let at_router =
            Capture::start(&bed.router, "switch1", "tcp port 81 or udp port 99").unwrap();
        let refused = bed.client.run(|| TcpStream::connect((vip.as_str(), 81)).unwrap_err().kind());
        assert_eq!(refused, ErrorKind::ConnectionRefused, "{}", balancer.summary());
        let unreachable = bed.client.run(|| {
            let any = if family == Family::V4 { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).unwrap();
            socket.set_read_timeout(Some(LONG)).unwrap();
            socket.connect((vip.as_str(), 99)).unwrap();
            socket.send(b"anybody?").unwrap();
            socket.recv(&mut [0; 9]).unwrap_err().kind()
        });
        assert_eq!(unreachable, ErrorKind::ConnectionRefused, "{}", balancer.summary());
        at_router.wait("Flags [R.]", 1).unwrap();
        at_router.wait(".99: ", 1).unwrap();
        assert_eq!(at_router.count("Flags [S]"), 1, "{:?}", at_router.lines());
        assert_eq!(at_router.count(".99: "), 1, "{:?}", at_router.lines());
    }
    balancer.wait_dropped("no_service", 4).unwrap();
}

#[test]
fn a_vip_without_a_mapping_of_echoes_answers_them_itself() {
    let Some(bed) = bed("echo", Shape::TwoArms, 1) else { return };
    let _balancer = Balancer::start(&bed, &web(&bed)).unwrap();
    for family in Family::ALL {
        let args = ["-c", "5", "-i", "0.05", "-s", "1400", "-W", "3", &bed.vip(family, 10)];
        let text = done(&bed.client, "ping", &args).unwrap();
        assert!(text.contains("5 received"), "{text}");
    }
}

#[test]
fn l4_08_the_node_is_one_hop_and_speaks_as_the_vip() {
    let Some(bed) = bed("hops", Shape::TwoArms, 1) else { return };
    let _balancer = Balancer::start(&bed, &pings(&bed)).unwrap();
    for family in Family::ALL {
        let vip = bed.vip(family, 10);
        let probe = |ttl: &str| {
            run(&bed.client, "ping", &["-t", ttl, "-c", "1", "-W", "3", &vip]).unwrap().1
        };
        let (first, second) = (probe("1"), probe("2"));
        let told = match family {
            Family::V4 => format!("From {vip} icmp_seq=1 Time to live exceeded"),
            Family::V6 => format!("From {vip} icmp_seq=1 Time exceeded: Hop limit"),
        };
        assert!(first.contains(&told), "{first}");
        assert!(second.contains("1 received"), "{second}");
    }
}

#[test]
fn a_packet_too_large_for_the_way_to_the_backend_is_told_the_size_that_fits() {
    let Some(bed) = bed("too-big", Shape::TwoArms, 1) else { return };
    ip(&bed.node, &format!("link set {} mtu 1400", bed.arms[1])).unwrap();
    let _balancer = Balancer::start(&bed, &pings(&bed)).unwrap();
    for family in Family::ALL {
        let vip = bed.vip(family, 10);
        let args = ["-M", "do", "-s", "1440", "-c", "1", "-W", "3", &vip];
        let (_, text) = run(&bed.client, "ping", &args).unwrap();
        let told = match family {
            Family::V4 => {
                format!("From {vip} icmp_seq=1 Frag needed and DF set (mtu = 1400)")
            }
            Family::V6 => format!("From {vip} icmp_seq=1 Packet too big: mtu=1400"),
        };
        assert!(text.contains(&told), "{text}");
        let args = ["-M", "do", "-s", "1300", "-c", "2", "-i", "0.1", "-W", "3", &vip];
        let text = done(&bed.client, "ping", &args).unwrap();
        assert!(text.contains("2 received"), "{text}");
    }
}

/// A download whose way back to the client has a hop of 1300 octets, behind the node.
fn narrow_way_back(name: &str, twice: bool) {
    let Some(bed) = bed(name, Shape::OneArm, 1) else { return };
    if !twice {
        bed.route_backends().unwrap();
    }
    // The router's end alone: the client still agrees to segments of 1460 octets.
    ip(&bed.router, "link set client0 mtu 1300").unwrap();
    let server = Nginx::start(&bed.backends[0]).unwrap();
    let mappings = Family::ALL.map(|family| {
        let mapping = mapping(&bed, family, "tcp", Some(80), ", port: 8080");
        if twice { mapping.twice_nat() } else { mapping }
    });
    let balancer = Balancer::start(&bed, &mappings).unwrap();
    for family in Family::ALL {
        let (backend, vip) = (bed.backend(family, 0), bed.vip(family, 10));
        let peer = if twice { bed.node_address(family) } else { bed.client_address(family) };
        let told = Capture::start(&bed.backends[0], &bed.backend_links[0], TOO_BIG).unwrap();
        let host = if family == Family::V4 { vip } else { format!("[{vip}]") };
        let same = format!(
            "curl -sS --max-time 15 'http://{host}/big' | cmp - {}",
            server.file("big").display()
        );
        done(&bed.client, "sh", &["-c", &same])
            .unwrap_or_else(|error| panic!("{family:?}: {error}: {}", balancer.summary()));
        assert_told(&told, family, &format!("{backend}.8080 > {peer}."));
    }
}

/// What a router says of a packet larger than its next hop.
const TOO_BIG: &str = "(icmp[0] == 3) or (icmp6 and ip6[40] == 2)";

/// Somebody was told of 1300 octets, and the error quotes what he had sent. tcpdump does not print
/// the quotes of ICMPv6: there the transfer, which goes on in smaller pieces, is the proof.
fn assert_told(capture: &Capture, family: Family, quote: &str) {
    match family {
        Family::V4 => {
            capture.wait("need to frag (mtu 1300)", 1).unwrap();
            capture.wait(quote, 1).unwrap();
        }
        Family::V6 => capture.wait("packet too big, mtu 1300", 1).unwrap(),
    }
    assert_eq!(capture.count("wrong"), 0, "{:?}", capture.lines());
}

#[test]
fn l4_14_a_download_through_a_narrow_hop_completes_with_nat() {
    narrow_way_back("narrow-nat", false);
}

#[test]
fn l4_14_a_download_through_a_narrow_hop_completes_with_twice_nat() {
    narrow_way_back("narrow-twice", true);
}

#[test]
fn l4_14_an_error_about_an_upload_quotes_what_the_client_sent() {
    let Some(mut bed) = bed("upload", Shape::TwoArms, 1) else { return };
    // node ── gate ─1300─ far gate ── backend: neither end of the connection knows of the hop.
    let far = far_backend(&mut bed);
    let _echo = servers::echo(&far.backend, 7000).unwrap();
    let mappings = Family::ALL.map(|family| {
        Mapping::new(&id("far", family), &bed.vip(family, 10), "tcp", Some(80))
            .backend("far", &family.host(7, 2), ", port: 7000")
            .twice_nat()
    });
    let balancer = Balancer::start(&bed, &mappings).unwrap();
    for family in Family::ALL {
        let vip = bed.vip(family, 10);
        let told = Capture::start(&bed.client, &bed.client_link, TOO_BIG).unwrap();
        let port = bed.client.run(|| {
            let mut stream = TcpStream::connect((vip.as_str(), 80)).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let text = servers::pattern(200_000);
            let mut answer = vec![0; "far\n".len() + text.len()];
            stream.write_all(text.as_bytes()).unwrap();
            stream
                .read_exact(&mut answer)
                .unwrap_or_else(|error| panic!("{error}: {}", balancer.summary()));
            assert_eq!(&answer[4..], text.as_bytes());
            stream.local_addr().unwrap().port()
        });
        let quote = format!("{}.{port} > {vip}.80", bed.client_address(family));
        assert_told(&told, family, &quote);
    }
}

struct Far {
    backend: testkit::lab::Host,
    _gates: [testkit::lab::Host; 2],
}

/// A backend behind two routers with 1300 octets between them.
fn far_backend(bed: &mut Bed) -> Far {
    let (gate, _) = bed.neighbour("gate", 200).unwrap();
    let (far_gate, backend) = (bed.host("fargate").unwrap(), bed.host("far").unwrap());
    let narrow = bed.link((&gate, 6, 1), (&far_gate, 6, 2)).unwrap();
    bed.link((&far_gate, 7, 1), (&backend, 7, 2)).unwrap();
    ip(&gate, &format!("link set {} mtu 1300", narrow.left)).unwrap();
    ip(&far_gate, &format!("link set {} mtu 1300", narrow.right)).unwrap();
    for router in [&gate, &far_gate] {
        router.forwarding().unwrap();
    }
    for family in Family::ALL {
        let (all, far) = match family {
            Family::V4 => ("0.0.0.0/0", "10.7.0.0/24"),
            Family::V6 => ("::/0", "fd07::/64"),
        };
        bed.node.route(far, &family.host(2, 200)).unwrap();
        gate.route(far, &family.host(6, 2)).unwrap();
        far_gate.route(all, &family.host(6, 1)).unwrap();
        backend.route(all, &family.host(7, 1)).unwrap();
        gate.route(all, &family.host(2, 1)).unwrap();
    }
    Far { backend, _gates: [gate, far_gate] }
}
