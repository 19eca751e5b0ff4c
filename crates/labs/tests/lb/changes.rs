//! Backends come and go under open connections.

use crate::{bed, echo_address, echo_mapping, echoes};
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape};
use labs::lb::clients::{Connection, open, rounds};
use labs::lb::mapping::Mapping;
use labs::lb::servers::Nginx;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;
use testkit::process::Process;
use testkit::wait;

/// How many connections each server has.
fn shares(connections: &[Connection]) -> BTreeMap<&str, usize> {
    let mut shares = BTreeMap::new();
    for connection in connections {
        *shares.entry(connection.server.as_str()).or_default() += 1;
    }
    shares
}

/// Several changes of table and weights, none of which may break a flow, with rounds over all
/// connections in between.
fn change(
    bed: &Bed,
    balancer: &Balancer<'_>,
    shape: fn(Mapping) -> Mapping,
    all: &mut [Connection],
) {
    let all_three = || echo_mapping(bed, &[0, 1, 2]);
    let heavy = Mapping::new("echo", &bed.vip(Family::V4, 10), "tcp", Some(80))
        .backend("backend1", &bed.backend(Family::V4, 0), ", port: 7000, weight: 9")
        .backend("backend2", &bed.backend(Family::V4, 1), ", port: 7000, weight: 1")
        .backend("backend3", &bed.backend(Family::V4, 2), ", port: 7000, weight: 4");
    for mapping in [
        echo_mapping(bed, &[0, 1]),
        all_three(),
        heavy,
        echo_mapping(bed, &[2]),
        echo_mapping(bed, &[1, 2]),
        all_three().with("selection: rendezvous"),
        all_three(),
    ] {
        balancer.put(&[shape(mapping)]).unwrap();
        let broken = bed.client.run(|| rounds(all));
        assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
    }
}

/// A thousand open connections, opened before and during changes.
fn thousand(name: &str, shape: fn(Mapping) -> Mapping) {
    let Some(bed) = bed(name, Shape::TwoArms, 3) else { return };
    bed.route_backends().unwrap();
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &[shape(echo_mapping(&bed, &[0, 1, 2]))]).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 1000)).unwrap();
    let before = shares(&all);
    assert!(before.len() == 3 && before.values().all(|share| *share > 200), "{before:?}");
    change(&bed, &balancer, shape, &mut all);
}

#[test]
fn l4_32_a_thousand_connections_through_nat_outlive_every_change() {
    thousand("many-nat", |mapping| mapping);
}

#[test]
fn l4_32_a_thousand_connections_through_twice_nat_outlive_every_change() {
    thousand("many-twice", Mapping::twice_nat);
}

#[test]
fn downloads_and_keep_alive_connections_survive_reloads() {
    let Some(bed) = bed("reload", Shape::TwoArms, 3) else { return };
    let servers: Vec<_> = bed.backends.iter().map(|host| Nginx::start(host).unwrap()).collect();
    let _echoes = echoes(&bed);
    let web = |backends: &[usize]| {
        let mapping = Mapping::new("web", &bed.vip(Family::V4, 11), "tcp", Some(80)).twice_nat();
        backends.iter().fold(mapping, |mapping, number| {
            let name = format!("backend{}", number + 1);
            mapping.backend(&name, &bed.backend(Family::V4, *number), ", port: 8080")
        })
    };
    let both = |backends: &[usize]| [echo_mapping(&bed, backends).twice_nat(), web(backends)];
    let balancer = Balancer::start(&bed, &both(&[0, 1, 2])).unwrap();
    let same = format!(
        "curl -sS --max-time 15 'http://{}/slow' | cmp - {}",
        bed.vip(Family::V4, 11),
        servers[0].file("slow").display()
    );
    let mut downloads: Vec<Process> =
        (0..6).map(|_| bed.client.spawn("sh", ["-c", &same]).unwrap()).collect();
    let mut all = bed.client.run(|| open(echo_address(&bed), 200)).unwrap();
    for backends in [&[0, 1, 2][..], &[0, 1], &[2], &[1, 2], &[0], &[0, 1, 2]] {
        balancer.put(&both(backends)).unwrap();
        let broken = bed.client.run(|| rounds(&mut all));
        assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
    }
    for download in &mut downloads {
        let status = download.wait(Duration::from_secs(20)).unwrap();
        assert!(status.success(), "{:?}\n{}", download.lines(), balancer.summary());
    }
    let broken = bed.client.run(|| rounds(&mut all));
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
}

#[test]
fn l4_32_a_removed_backend_keeps_its_connections_and_gets_no_new_one() {
    let Some(bed) = bed("keep", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let balancer = Balancer::start(&bed, &[echo_mapping(&bed, &[0, 1]).twice_nat()]).unwrap();
    let mut old = bed.client.run(|| open(echo_address(&bed), 40)).unwrap();
    assert_eq!(shares(&old).len(), 2);
    balancer.put(&[echo_mapping(&bed, &[1]).twice_nat()]).unwrap();
    let mut new = bed.client.run(|| open(echo_address(&bed), 40)).unwrap();
    assert_eq!(shares(&new).keys().collect::<Vec<_>>(), [&"backend2"]);
    for _ in 0..3 {
        let broken = bed.client.run(|| [rounds(&mut old), rounds(&mut new)].concat());
        assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
    }
}

#[test]
fn l4_32_with_on_down_reset_a_removed_backends_connections_are_reset_within_a_second() {
    let Some(bed) = bed("reset", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let mapping =
        |backends: &[usize]| echo_mapping(&bed, backends).twice_nat().with("onDown: reset");
    let balancer = Balancer::start(&bed, &[mapping(&[0, 1])]).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 40)).unwrap();
    balancer.put(&[mapping(&[1])]).unwrap();
    let (mut left, mut kept): (Vec<_>, Vec<_>) =
        all.drain(..).partition(|connection| connection.server == "backend1");
    assert!(!left.is_empty() && !kept.is_empty());
    let count = left.len();
    let mut broken = Vec::new();
    bed.client.run(|| {
        wait::until(Duration::from_secs(1), "resets", || {
            broken.extend(rounds(&mut left));
            broken.len() >= count
        })
        .unwrap();
    });
    assert!(broken.iter().all(|why| why.contains("reset by peer")), "{broken:?}");
    let broken = bed.client.run(|| rounds(&mut kept));
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
    balancer.wait_dropped("session_reset", count as u64).unwrap();
}

#[test]
fn l4_32_with_on_down_reset_a_removed_mappings_connections_are_reset() {
    let Some(bed) = bed("unmapped", Shape::TwoArms, 1) else { return };
    let _echoes = echoes(&bed);
    let mapping = echo_mapping(&bed, &[0]).twice_nat().with("onDown: reset");
    let balancer = Balancer::start(&bed, &[mapping]).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 10)).unwrap();
    balancer.put(&[]).unwrap();
    let broken = bed.client.run(|| rounds(&mut all));
    let reset = broken.iter().filter(|why| why.contains("reset by peer"));
    assert_eq!(reset.count(), 10, "{broken:?}\n{}", balancer.summary());
}

/// Open connections to a backend whose check fails while it serves on: how many break.
fn failed_backend(name: &str, on_down: &str) -> Option<usize> {
    let bed = bed(name, Shape::TwoArms, 2)?;
    let _echoes = echoes(&bed);
    let servers: Vec<_> = bed.backends.iter().map(|host| Nginx::start(host).unwrap()).collect();
    let check = "{ type: HTTP, port: 8080, httpPath: /healthz, httpExpectedStatus: 200, \
                 intervalMs: 100, timeoutMs: 100, unhealthyThreshold: 2 }";
    let mapping = echo_mapping(&bed, &[0, 1]).twice_nat().check(check).with(on_down);
    let balancer = Balancer::start(&bed, &[mapping]).unwrap();
    for name in ["backend1", "backend2"] {
        balancer.wait_backend("lb/echo", name, true).unwrap();
    }
    let all = bed.client.run(|| open(echo_address(&bed), 40)).unwrap();
    let (mut failing, mut well): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|connection| connection.server == "backend1");
    assert!(!failing.is_empty() && !well.is_empty());
    servers[0].set_sick(true).unwrap();
    balancer.wait_backend("lb/echo", "backend1", false).unwrap();
    let broken = bed.client.run(|| rounds(&mut well));
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
    let broken = bed.client.run(|| rounds(&mut failing));
    assert!(broken.iter().all(|why| why.contains("reset by peer")), "{broken:?}");
    let share = broken.len() * 100 / failing.len();
    Some(share)
}

#[test]
fn l4_32_a_failed_backends_connections_are_kept_or_reset_as_the_mapping_says() {
    let Some(broken) = failed_backend("fail-keep", "onDown: keep") else { return };
    assert_eq!(broken, 0, "percent of the connections");
    assert_eq!(failed_backend("fail-reset", "onDown: reset"), Some(100));
}

#[test]
fn l4_33_a_udp_client_of_a_removed_backend_has_another_at_once() {
    let Some(bed) = bed("udp-moves", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let mapping = |backends: &[usize]| {
        let mapping = Mapping::new("udp", &bed.vip(Family::V4, 10), "udp", Some(53)).twice_nat();
        backends.iter().fold(mapping, |mapping, number| {
            let name = format!("backend{}", number + 1);
            mapping.backend(&name, &bed.backend(Family::V4, *number), ", port: 7000")
        })
    };
    let balancer = Balancer::start(&bed, &[mapping(&[0, 1])]).unwrap();
    let vip = bed.vip(Family::V4, 10);
    let sockets: Vec<UdpSocket> = bed.client.run(|| (0..20).map(|_| socket(&vip)).collect());
    let servers = || sockets.iter().map(ask).collect::<Vec<_>>();
    let before = servers();
    assert!(before.iter().any(|server| server == "backend1"));
    balancer.put(&[mapping(&[1])]).unwrap();
    let after = servers();
    assert!(after.iter().all(|server| server == "backend2"), "{after:?}");
}

fn socket(vip: &str) -> UdpSocket {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((vip, 53)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// Who answers a datagram.
fn ask(socket: &UdpSocket) -> String {
    socket.send(b"who?").unwrap();
    let mut answer = [0; 128];
    let length = socket.recv(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer[..length]);
    text.split(' ').next().unwrap().to_owned()
}

#[test]
fn weights_share_new_connections_and_a_change_moves_no_open_one() {
    let Some(bed) = bed("weights", Shape::TwoArms, 2) else { return };
    let _echoes = echoes(&bed);
    let mapping = |first: u8, second: u8| {
        Mapping::new("echo", &bed.vip(Family::V4, 10), "tcp", Some(80))
            .backend(
                "backend1",
                &bed.backend(Family::V4, 0),
                &format!(", port: 7000, weight: {first}"),
            )
            .backend(
                "backend2",
                &bed.backend(Family::V4, 1),
                &format!(", port: 7000, weight: {second}"),
            )
            .twice_nat()
    };
    let balancer = Balancer::start(&bed, &[mapping(30, 10)]).unwrap();
    let mut all = bed.client.run(|| open(echo_address(&bed), 400)).unwrap();
    let first = shares(&all)["backend1"];
    // 300 are expected; the standard deviation is 9.
    assert!((255..=345).contains(&first), "{first} of 400");
    balancer.put(&[mapping(10, 30)]).unwrap();
    let new = bed.client.run(|| open(echo_address(&bed), 400)).unwrap();
    let first = shares(&new)["backend1"];
    assert!((55..=145).contains(&first), "{first} of 400");
    let broken = bed.client.run(|| rounds(&mut all));
    assert!(broken.is_empty(), "{broken:?}\n{}", balancer.summary());
}
