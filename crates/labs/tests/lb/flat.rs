//! One network for clients, backends and node: echoes of many hosts at once, all of the address
//! that was asked.

use crate::bed;
use labs::lb::PATIENCE;
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape};
use labs::lb::capture::Capture;
use labs::lb::done;
use labs::lb::mapping::Mapping;
use testkit::lab::Host;
use testkit::process::Process;

const PINGS: usize = 20;

fn echo_mapping(bed: &Bed, family: Family) -> Mapping {
    let id = match family {
        Family::V4 => "ping4",
        Family::V6 => "ping6",
    };
    let mapping = Mapping::new(id, &bed.vip(family, 10), "icmp", None).twice_nat();
    (0..bed.backends.len()).fold(mapping, |mapping, number| {
        mapping.backend(&format!("backend{}", number + 1), &bed.backend(family, number), "")
    })
}

/// The client and the backends, each with its interface and address.
fn hosts(bed: &Bed, family: Family) -> Vec<(&Host, &str, String)> {
    let client = (&bed.client, bed.client_link.as_str(), bed.client_address(family));
    let backends = bed.backends.iter().zip(&bed.backend_links).zip(0..);
    let backends = backends.map(|((host, link), n)| (host, link.as_str(), bed.backend(family, n)));
    std::iter::once(client).chain(backends).collect()
}

/// `ping` and `hping3` from every host at once; counts by capture what came back.
fn everybody_pings(name: &str, shape: Shape) {
    let Some(bed) = bed(name, shape, 2) else { return };
    if !labs::peers::have("hping3", "hping3") {
        return;
    }
    let balancer =
        Balancer::start(&bed, &Family::ALL.map(|family| echo_mapping(&bed, family))).unwrap();
    for family in Family::ALL {
        let vip = bed.vip(family, 10);
        let hosts = hosts(&bed, family);
        let captures: Vec<Capture> = hosts
            .iter()
            .map(|(host, link, own)| {
                let filter = format!("(icmp or icmp6) and dst host {own}");
                Capture::start(host, link, &filter).unwrap()
            })
            .collect();
        let count = PINGS.to_string();
        let mut pings: Vec<Process> = Vec::new();
        for (host, _, _) in &hosts {
            let args = ["-c", &count, "-i", "0.05", "-W", "3", &vip];
            pings.push(host.spawn("ping", args).unwrap());
            if family == Family::V4 {
                let args = ["--icmp", "-c", &count, "-i", "u50000", &vip];
                pings.push(host.spawn("hping3", args).unwrap());
            }
        }
        for ping in &mut pings {
            ping.wait(PATIENCE).unwrap();
            let text = ping.lines().join("\n");
            let whole = text.contains(" 0% packet loss") && !text.contains("DIFFERENT ADDRESS");
            assert!(whole, "{text}\n{}", balancer.summary());
        }
        let expected = if family == Family::V4 { 2 * PINGS } else { PINGS };
        for ((_, _, own), capture) in hosts.iter().zip(&captures) {
            capture.wait("echo reply", expected).unwrap();
            let lines = capture.lines();
            let replies = lines.iter().filter(|line| line.contains("echo reply"));
            let ours = replies.filter(|line| line.contains(&format!("{vip} > {own}: ")));
            assert_eq!((ours.count(), capture.count("echo reply")), (expected, expected));
        }
    }
}

#[test]
fn everybody_pings_the_vip_on_a_flat_network_with_one_arm() {
    everybody_pings("flat1", Shape::Flat);
}

#[test]
fn everybody_pings_the_vip_on_a_flat_network_with_two_arms() {
    everybody_pings("flat2", Shape::FlatTwoArms);
}

#[test]
fn equal_identifiers_of_many_clients_never_mix() {
    let Some(bed) = bed("equal", Shape::Flat, 2) else { return };
    let _balancer = Balancer::start(&bed, &[echo_mapping(&bed, Family::V4)]).unwrap();
    let vip = bed.vip(Family::V4, 10);
    let hosts = hosts(&bed, Family::V4);
    let args = ["-e", "77", "-c", "20", "-i", "0.02", "-W", "3", &vip];
    let mut pings: Vec<Process> =
        hosts.iter().map(|(host, _, _)| host.spawn("ping", args).unwrap()).collect();
    for ping in &mut pings {
        ping.wait(PATIENCE).unwrap();
        let text = ping.lines().join("\n");
        assert!(text.contains(" 0% packet loss") && !text.contains("DUP!"), "{text}");
    }
}

#[test]
fn one_ping_is_spread_by_sequence_numbers() {
    let Some(bed) = bed("spread", Shape::Flat, 2) else { return };
    let mapping = echo_mapping(&bed, Family::V4).with("icmpPerSequence: true");
    let balancer = Balancer::start(&bed, &[mapping]).unwrap();
    let args = ["-c", "40", "-i", "0.02", "-W", "3", &bed.vip(Family::V4, 10)];
    let text = done(&bed.client, "ping", &args).unwrap();
    assert!(text.contains("40 received") && !text.contains("DIFFERENT ADDRESS"), "{text}");
    for name in ["backend1", "backend2"] {
        let all = || balancer.backend("lb/ping4", name)["packetsIn"].as_u64().unwrap_or(0) >= 8;
        testkit::wait::until(PATIENCE, "a share of the requests", all)
            .unwrap_or_else(|error| panic!("{name}: {error}: {}", balancer.summary()));
    }
}
