//! Packets that are rare, and legal: options, extension headers, no checksum, short quotes.

use crate::{bed, echo_mapping, echoes};
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape};
use labs::lb::capture::Capture;
use labs::lb::mapping::Mapping;
use labs::lb::{PATIENCE, done};
use labs::peers::{PYTHON, have_scapy, scapy};

/// UDP from port 53 of the VIPs to the echoes, which say by which address and port they see the
/// client.
fn udp(bed: &Bed) -> [Mapping; 2] {
    Family::ALL.map(|family| {
        let id = if family == Family::V4 { "udp4" } else { "udp6" };
        let mapping = Mapping::new(id, &bed.vip(family, 10), "udp", Some(53)).twice_nat();
        (0..bed.backends.len()).fold(mapping, |mapping, number| {
            let name = format!("backend{}", number + 1);
            mapping.backend(&name, &bed.backend(family, number), ", port: 7000")
        })
    })
}

/// Asks twice from port 40000, the first time with what `prepare` makes of the socket `s`; both
/// answers.
fn ask(bed: &Bed, family: Family, prepare: &str) -> Vec<String> {
    let kind = if family == Family::V4 { "AF_INET" } else { "AF_INET6" };
    let script = format!(
        "import socket\n\
         for first in (True, False):\n    \
             s = socket.socket(socket.{kind}, socket.SOCK_DGRAM)\n    \
             s.settimeout(5)\n    \
             s.bind(('', 40000))\n    \
             if first: {prepare}\n    \
             s.connect(('{}', 53))\n    \
             s.send(b'12345678')\n    \
             print(s.recv(999).decode(), flush=True)\n    \
             s.close()\n",
        bed.vip(family, 10)
    );
    let text = done(&bed.client, PYTHON, &["-c", &script]).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// What `prepare` adds to packets does not change who answers.
fn same_backend(name: &str, family: Family, prepare: &str, filter: &str) {
    let Some(bed) = bed(name, Shape::TwoArms, 3) else { return };
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &udp(&bed)).unwrap();
    let sent = Capture::start(&bed.client, &bed.client_link, filter).unwrap();
    let answers = ask(&bed, family, prepare);
    assert!(answers.len() == 2 && answers[0] == answers[1], "{answers:?} {}", balancer.summary());
    sent.wait("ethertype", 1).unwrap();
}

#[test]
fn l4_21_ip_options_change_nothing() {
    let prepare = "s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b'\\x01\\x01\\x01\\x00')";
    same_backend("options", Family::V4, prepare, "ip[0] == 0x46");
}

#[test]
fn l4_19_extension_headers_change_nothing() {
    // Hop-by-Hop and Destination Options of eight octets of padding each.
    let prepare = "[s.setsockopt(socket.IPPROTO_IPV6, o, b'\\x00\\x00\\x01\\x04' + bytes(4)) \
                   for o in (socket.IPV6_HOPOPTS, socket.IPV6_DSTOPTS)]";
    same_backend("extensions", Family::V6, prepare, "ip6[6] == 0 and ip6[40] == 60");
}

#[test]
fn l4_20_a_datagram_without_a_checksum_stays_without() {
    let Some(bed) = bed("no-checksum", Shape::TwoArms, 1) else { return };
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &udp(&bed)).unwrap();
    let seen = |checksum: &str| {
        let filter = format!("udp dst port 7000 and udp[6:2] {checksum}");
        Capture::start(&bed.backends[0], &bed.backend_links[0], &filter).unwrap()
    };
    let (without, with) = (seen("== 0"), seen("!= 0"));
    // SO_NO_CHECK is 11 (socket(7) does not name it; asm-generic/socket.h does).
    let answers = ask(&bed, Family::V4, "s.setsockopt(socket.SOL_SOCKET, 11, 1)");
    assert_eq!(answers.len(), 2, "{}", balancer.summary());
    without.wait("ethertype", 1).unwrap();
    with.wait("ethertype", 1).unwrap();
    assert_eq!((without.count("ethertype"), with.count("ethertype")), (1, 1));
}

#[test]
fn l4_11_every_fragment_is_dropped_and_counted() {
    let Some(bed) = bed("fragments", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &udp(&bed)).unwrap();
    for family in Family::ALL {
        let filter = "udp port 53 or ip[6:2] & 0x3fff != 0 or ip6 proto 44";
        let behind = Capture::start(&bed.backends[0], &bed.backend_links[0], filter).unwrap();
        let before = balancer.dropped("fragment");
        bed.client.run(|| {
            let any = if family == Family::V4 { "0.0.0.0:0" } else { "[::]:0" };
            let socket = std::net::UdpSocket::bind(any).unwrap();
            socket.send_to(&[0; 4000], (bed.vip(family, 10).as_str(), 53)).unwrap();
        });
        balancer.wait_dropped("fragment", before + 3).unwrap();
        assert_eq!(behind.count("ethertype"), 0, "{:?}", behind.lines());
    }
}

#[test]
fn l4_13_an_error_that_quotes_no_more_than_eight_octets_reaches_the_client() {
    let Some(bed) = bed("quote", Shape::TwoArms, 1) else { return };
    if !have_scapy() {
        return;
    }
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &udp(&bed)).unwrap();
    let (vip, client) = (bed.vip(Family::V4, 10), bed.client_address(Family::V4));
    let (node, backend) = (bed.node_address(Family::V4), bed.backend(Family::V4, 0));
    let answers = ask(&bed, Family::V4, "pass");
    let port = answers[0].split(' ').nth(2).unwrap().to_owned();
    let told = Capture::start(&bed.client, &bed.client_link, "icmp").unwrap();
    let script = format!(
        "quote = bytes(IP(src='{node}', dst='{backend}', len=1400, proto=17, flags='DF', ttl=60)\
         /UDP(sport={port}, dport=7000, len=1380, chksum=0x1234))[:28]\n\
         send(IP(dst='{node}')/ICMP(type=3, code=4, nexthopmtu=1300)/Raw(quote))\n"
    );
    let status = scapy(&bed.backends[0], &script).unwrap().wait(PATIENCE).unwrap();
    assert!(status.success());
    told.wait(&format!("{vip} > {client}: ICMP {vip} unreachable - need to frag (mtu 1300)"), 1)
        .unwrap_or_else(|error| panic!("{error} {}", balancer.summary()));
    told.wait(&format!("{client}.40000 > {vip}.53"), 1).unwrap();
    assert_eq!(told.count("wrong"), 0, "{:?}", told.lines());
}

#[test]
fn l4_05_an_answer_has_the_tag_of_its_question() {
    let Some(bed) = bed("tagged", Shape::TwoArms, 1) else { return };
    if !have_scapy() {
        return;
    }
    let balancer = Balancer::start(&bed, &udp(&bed)).unwrap();
    let (vip, link) = (bed.vip(Family::V4, 10), &bed.client_link);
    let script = format!(
        "tag = lambda mac: Ether(dst=mac)/Dot1Q(vlan=7, prio=5)\n\
         who = srp1(tag('ff:ff:ff:ff:ff:ff')/ARP(pdst='{vip}'), iface='{link}', timeout=9)\n\
         print('arp', who[Dot1Q].vlan, who[ARP].psrc, flush=True)\n\
         echo = srp1(tag(who[ARP].hwsrc)/IP(dst='{vip}')/ICMP(id=7), iface='{link}', timeout=9)\n\
         print('icmp', echo[Dot1Q].vlan, echo[IP].src, echo[ICMP].type, flush=True)\n"
    );
    let mut client = scapy(&bed.client, &script).unwrap();
    client.wait(PATIENCE).unwrap();
    let expected = [format!("arp 7 {vip}"), format!("icmp 7 {vip} 0")];
    assert_eq!(client.lines(), expected, "{}", balancer.summary());
}

#[test]
fn iperf3_runs_both_ways_with_all_its_connections_on_one_backend() {
    let Some(bed) = bed("iperf", Shape::TwoArms, 2) else { return };
    if !labs::peers::have("iperf3", "iperf3") {
        return;
    }
    let mut servers: Vec<_> = bed
        .backends
        .iter()
        .map(|host| host.spawn("iperf3", ["-s", "-p", "7000", "--forceflush"]).unwrap())
        .collect();
    for server in &mut servers {
        server.wait_for_line(|line| line.contains("listening"), PATIENCE).unwrap();
    }
    let mapping = echo_mapping(&bed, &[0, 1]).twice_nat().with("affinityTimeoutSec: 60");
    let balancer = Balancer::start(&bed, &[mapping]).unwrap();
    let vip = bed.vip(Family::V4, 10);
    for direction in [&[][..], &["-R"]] {
        let args = [&["-c", &vip, "-p", "80", "-P", "4", "-t", "1"], direction].concat();
        let text = done(&bed.client, "iperf3", &args)
            .unwrap_or_else(|error| panic!("{error} {}", balancer.summary()));
        assert!(text.contains("iperf Done"), "{text}");
    }
}
