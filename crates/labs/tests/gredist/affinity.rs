//! Flows stay where they are while the pool changes around them.

use crate::{bed, packets, reports};
use labs::distributor::{Distributor, OPS};
use std::collections::HashMap;
use std::time::Duration;
use testkit::bed::{Bed, Families, finish_sender, wait_for_lines};
use testkit::process::Process;
use testkit::wait;

type Map = HashMap<(String, Option<u32>), usize>;

/// Sends one packet of each of 10,000 flows and looks where they arrive.
fn map(bed: &Bed, sinks: &mut [Process]) -> Map {
    let args = ["--key", "1", "--flows", "10000", "--count", "10000", "--rate", "20000"];
    bed.send(Families::V4, &args).unwrap();
    let mut map = Map::new();
    let arrived = |map: &mut Map, sinks: &mut [Process]| {
        for (backend, report) in reports(sinks).into_iter().enumerate() {
            for flow in report.flows {
                map.insert((flow.source, flow.key), backend);
            }
        }
        map.len()
    };
    let all = || arrived(&mut map, sinks) == 10_000;
    wait::until(Duration::from_secs(20), "10,000 flows to arrive", all).unwrap();
    map
}

fn moved(before: &Map, after: &Map) -> Vec<(usize, usize)> {
    let pairs = before.iter().map(|(flow, was)| (*was, after[flow]));
    pairs.filter(|(was, is)| was != is).collect()
}

fn config(backends: &[usize]) -> String {
    let lines = backends.iter().map(|n| format!("backend={}\n", Families::V4.backend(*n)));
    format!("frontend={}\n{}", Families::V4.frontend(), lines.collect::<String>())
}

#[test]
fn ten_thousand_flows_move_only_with_their_backend() {
    let Some(bed) = bed("affinity", 4) else { return };
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let mut gredist = Distributor::start(&bed, &config(&[0, 1, 2, 3]), 4).unwrap();
    let start = map(&bed, &mut sinks);

    // A backend fails: its flows move, no other does.
    bed.set_backend_link(2, false).unwrap();
    wait_for_lines(&gredist.process, "backend went down", 1).unwrap();
    let failed = map(&bed, &mut sinks);
    assert!(moved(&start, &failed).iter().all(|(was, is)| *was == 2 && *is != 2));
    assert!(failed.values().all(|backend| *backend != 2));

    // It recovers: exactly its own flows return.
    bed.set_backend_link(2, true).unwrap();
    wait_for_lines(&gredist.process, "backend came up", 5).unwrap();
    assert_eq!(moved(&start, &map(&bed, &mut sinks)), []);

    // A reload takes a backend out: its flows move, no other does.
    gredist.reload(&config(&[0, 1, 2])).unwrap();
    let removed = map(&bed, &mut sinks);
    assert!(moved(&start, &removed).iter().all(|(was, is)| *was == 3 && *is != 3));

    // Another reload, other order of lines, brings it back.
    gredist.reload(&config(&[3, 2, 1, 0])).unwrap();
    wait_for_lines(&gredist.process, "backend came up", 6).unwrap();
    assert_eq!(moved(&start, &map(&bed, &mut sinks)), []);
}

#[test]
fn a_reload_under_traffic_loses_nothing() {
    let Some(bed) = bed("reload", 3) else { return };
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let mut gredist = Distributor::start(&bed, &config(&[0, 1, 2]), 3).unwrap();
    let args = ["--key", "1", "--flows", "100", "--count", "20000", "--rate", "10000"];
    let mut sender = bed.sender(Families::V4, &args).unwrap();
    // Two seconds of traffic; reloads that change thresholds, weights, sockets, and nothing.
    let variants = [
        config(&[0, 1, 2]),
        format!("{}check_fall=3\n", config(&[0, 1, 2])),
        format!("{}receive_queue=2MiB\n", config(&[0, 1, 2])),
        config(&[0, 1, 2]).replace("11.2", "11.2 weight=2"),
    ];
    for number in 0..12 {
        gredist.reload(&variants[number % variants.len()]).unwrap();
    }
    assert_eq!(finish_sender(&mut sender).unwrap().sent, 20_000);
    let mut arrived = 0;
    let all = || {
        arrived += packets(&reports(&mut sinks));
        arrived == 20_000
    };
    wait::until(Duration::from_secs(10), "20,000 packets to arrive", all)
        .unwrap_or_else(|error| panic!("{error}: {}", gredist.status().unwrap()));
}

#[test]
fn a_bad_file_keeps_the_running_configuration_and_says_so() {
    let Some(bed) = bed("bad-reload", 2) else { return };
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let mut gredist = Distributor::start(&bed, &config(&[0, 1]), 2).unwrap();
    std::fs::write(gredist.file(), "frontend=nonsense\nbackend=10.0.0.1\nbackend=x\n").unwrap();
    gredist.process.signal(netio::process::Signal::HUP).unwrap();
    wait_for_lines(&gredist.process, "the running configuration stays", 1).unwrap();
    assert_eq!(gredist.count_lines("lab.conf:1: frontend=nonsense"), 1);
    assert_eq!(gredist.count_lines("lab.conf:3: backend=x"), 1);
    bed.send(Families::V4, &["--count", "500", "--key", "1", "--flows", "50"]).unwrap();
    let mut arrived = 0;
    wait::until(Duration::from_secs(10), "500 packets", || {
        arrived += packets(&reports(&mut sinks));
        arrived == 500
    })
    .unwrap();
}

#[test]
fn rapid_flapping_neither_crashes_nor_moves_other_flows() {
    let Some(bed) = bed("flapping", 3) else { return };
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let text = format!("{}check_interval=20ms\ncheck_timeout=20ms\n", config(&[0, 1, 2]));
    let gredist = Distributor::start(&bed, &text, 3).unwrap();
    let args = ["--key", "1", "--flows", "300", "--count", "15000", "--rate", "5000"];
    let mut sender = bed.sender(Families::V4, &args).unwrap();
    for round in 1..=10 {
        bed.set_backend_link(1, false).unwrap();
        wait_for_lines(&gredist.process, "backend went down", round).unwrap();
        bed.set_backend_link(1, true).unwrap();
        wait_for_lines(&gredist.process, "backend came up", 3 + round).unwrap();
    }
    finish_sender(&mut sender).unwrap();
    // A flow of a backend that never failed was only ever there: no other sink has it twice.
    let seen = reports(&mut sinks);
    let flows_of = |n: usize| seen[n].flows.iter().map(|flow| flow.key).collect::<Vec<_>>();
    let (first, third) = (flows_of(0), flows_of(2));
    let before_and_after = map(&bed, &mut sinks);
    for ((_, key), home) in &before_and_after {
        let Some(key) = key.filter(|key| *key <= 300) else { continue };
        if *home == 0 {
            assert!(!third.contains(&Some(key)), "a flow of backend 1 went to backend 3");
        }
        if *home == 2 {
            assert!(!first.contains(&Some(key)), "a flow of backend 3 went to backend 1");
        }
    }
}

#[test]
fn without_a_healthy_backend_everything_is_dropped_and_counted() {
    let Some(bed) = bed("none", 2) else { return };
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let gredist = Distributor::start(&bed, &config(&[0, 1]), 2).unwrap();
    (0..2).for_each(|backend| bed.set_backend_link(backend, false).unwrap());
    wait_for_lines(&gredist.process, "no backend is healthy", 1).unwrap();
    bed.send(Families::V4, &["--count", "200", "--key", "7"]).unwrap();
    gredist.wait_dropped("no_healthy_backend", 200).unwrap();
    assert_eq!(packets(&reports(&mut sinks)), 0);
    let (head, body) = gredist.page("/readyz").unwrap();
    assert!(head.starts_with("HTTP/1.1 503") && body.contains("no backend is healthy"), "{body}");
}

#[test]
fn a_storm_of_reloads_under_traffic_leaves_the_last_frontend_served() {
    let Some(bed) = bed("storm", 2) else { return };
    bed.edge.address("lo", "10.77.0.48/32").unwrap();
    bed.router.route("10.77.0.48/32", "10.77.2.2").unwrap();
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let mut gredist = Distributor::start(&bed, &config(&[0, 1]), 2).unwrap();
    let args = ["--key", "1", "--flows", "50", "--count", "0", "--rate", "0"];
    let _flood = bed.sender(Families::V4, &args).unwrap();
    let other = config(&[0, 1]).replace("10.77.0.47", "10.77.0.48");
    for round in 0..40 {
        let text = if round % 2 == 0 { &other } else { &config(&[0, 1]) };
        std::fs::write(gredist.file(), format!("{text}check_interval=100ms\nops={OPS}\n")).unwrap();
        gredist.process.signal(netio::process::Signal::HUP).unwrap();
    }
    drop(_flood);
    gredist.reload(&other).unwrap();
    gredist.reload(&config(&[0, 1])).unwrap();
    wait_for_lines(&gredist.process, "backend came up", 2).unwrap();
    let quiet = || packets(&reports(&mut sinks)) == 0;
    wait::until(Duration::from_secs(20), "the flood to pass", quiet).unwrap();
    bed.send(Families::V4, &["--key", "1", "--count", "500"]).unwrap();
    let mut arrived = 0;
    wait::until(Duration::from_secs(10), "500 packets", || {
        arrived += packets(&reports(&mut sinks));
        arrived == 500
    })
    .unwrap_or_else(|error| panic!("{error}: {}", gredist.status().unwrap()));
}

#[test]
fn forwarding_survives_a_change_of_the_hosts_own_address() {
    let Some(bed) = bed("renumbered", 1) else { return };
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let gredist = Distributor::start(&bed, &config(&[0]), 1).unwrap();
    bed.send(Families::V4, &["--key", "1", "--count", "10"]).unwrap();
    let link = bed.edge_link.left.clone();
    bed.edge.sysctl("net/ipv4/conf/all/promote_secondaries", "1").unwrap();
    bed.edge.address(&link, "10.77.2.3/24").unwrap();
    let old = "10.77.2.2/24".parse().unwrap();
    bed.edge.netlink(|netlink| netlink.delete_address(&link, old)).unwrap();
    let route = ["route", "replace", "10.77.0.47/32", "via", "10.77.2.3"];
    let mut ip = bed.router.spawn("ip", route).unwrap();
    assert!(ip.wait(Duration::from_secs(9)).unwrap().success(), "{:?}", ip.lines());
    let mut arrived = 0;
    wait::until(Duration::from_secs(20), "packets after the change", || {
        bed.send(Families::V4, &["--key", "1", "--count", "100"]).unwrap();
        arrived += packets(&reports(&mut sinks));
        arrived >= 300
    })
    .unwrap_or_else(|error| panic!("{error}: {}", gredist.status().unwrap()));
}
