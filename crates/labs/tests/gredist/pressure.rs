//! Loss, full queues, a stopped process: bounded memory, counted drops, recovery.

use crate::{bed, packets, reports};
use labs::distributor::Distributor;
use labs::peers::have;
use netio::process::Signal;
use std::time::Duration;
use testkit::bed::{Families, finish_sender};
use testkit::wait;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_lossy_network_costs_what_it_loses_and_keeps_the_order() {
    let Some(bed) = bed("loss", 2) else { return };
    if !have("nft", "nftables") {
        return;
    }
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let gredist = Distributor::start(&bed, &Families::V4.config(2), 2).unwrap();
    bed.router
        .nft(
            "table ip lossy {\n chain forward {\n type filter hook forward priority 0; policy accept;\n\
             ip protocol gre ip daddr 10.77.0.47 numgen random mod 100 < 30 counter drop\n }\n}\n",
        )
        .unwrap();
    let args = ["--key", "1", "--flows", "20", "--count", "20000", "--rate", "20000"];
    bed.send(Families::V4, &args).unwrap();
    // What got through has arrived when two looks a moment apart agree.
    let mut received = 0;
    let mut agreed = 0;
    wait::until(PATIENCE, "the packets to pass", || {
        let now = gredist.number("receivedPackets");
        agreed = if now == received { agreed + 1 } else { 0 };
        received = now;
        agreed > 40
    })
    .unwrap();
    // Thirty percent of 20,000, give or take five standard deviations.
    assert!((13_675..14_325).contains(&received), "{received}");
    let mut arrived = 0;
    let mut late = 0;
    wait::until(PATIENCE, "what got through", || {
        for report in reports(&mut sinks) {
            arrived += report.packets;
            late += report.flows.iter().map(|flow| flow.late).sum::<u64>();
        }
        arrived == received
    })
    .unwrap();
    assert_eq!(late, 0, "l3_48: order within a flow is kept");
}

#[test]
fn a_full_receive_queue_is_counted_and_recovers_in_bounded_memory() {
    let Some(bed) = bed("queue", 2) else { return };
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let config = format!("{}receive_queue=64KiB\n", Families::V4.config(2));
    let mut gredist = Distributor::start(&bed, &config, 2).unwrap();
    bed.send(Families::V4, &["--key", "1", "--count", "2000", "--rate", "20000"]).unwrap();
    let before = gredist.process.rss_bytes().unwrap();
    for _ in 0..3 {
        gredist.process.signal(Signal::STOP).unwrap();
        let args = ["--key", "1", "--flows", "50", "--count", "30000", "--rate", "0"];
        bed.send(Families::V4, &args).unwrap();
        gredist.process.signal(Signal::CONT).unwrap();
        // The next packet tells how many were dropped before it.
        bed.send(Families::V4, &["--key", "1", "--count", "100", "--rate", "2000"]).unwrap();
    }
    gredist.wait_dropped("receive_queue_full", 60_000).unwrap();
    let accounted = || {
        let dropped = gredist.dropped("receive_queue_full");
        gredist.number("receivedPackets") + dropped == 2_000 + 3 * 30_100
    };
    wait::until(PATIENCE, "every packet to be accounted for", accounted)
        .unwrap_or_else(|error| panic!("{error}: {}", gredist.status().unwrap()));
    let grown = gredist.process.rss_bytes().unwrap().saturating_sub(before);
    assert!(grown < 8 << 20, "grew by {grown} bytes");

    // It recovers, its backends included, and loses nothing more.
    testkit::bed::wait_for_lines(&gredist.process, "backend came up", 2).unwrap();
    let up = || {
        gredist.status().unwrap()["backends"]
            .as_array()
            .is_some_and(|backends| backends.iter().all(|backend| backend["state"] == "up"))
    };
    wait::until(PATIENCE, "all backends up", up).unwrap();
    reports(&mut sinks);
    bed.send(Families::V4, &["--key", "1", "--flows", "50", "--count", "10000", "--rate", "5000"])
        .unwrap();
    let mut arrived = 0;
    wait::until(PATIENCE, "10,000 packets after the pressure", || {
        arrived += packets(&reports(&mut sinks));
        arrived == 10_000
    })
    .unwrap();
}

#[test]
fn a_full_device_queue_is_counted_and_recovers() {
    let Some(bed) = bed("device", 1) else { return };
    if !have("tc", "iproute2") {
        return;
    }
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let gredist = Distributor::start(&bed, &Families::V4.config(1), 1).unwrap();
    let tc = |args: &[&str]| {
        let line = ["qdisc", args[0], "dev", &bed.edge_link.left, "root"];
        let mut process = bed.edge.spawn("tc", [&line[..], &args[1..]].concat()).unwrap();
        assert!(process.wait(PATIENCE).unwrap().success(), "tc: {:?}", process.lines());
    };
    tc(&["add", "tbf", "rate", "2mbit", "burst", "4kb", "limit", "16kb"]);
    let args = ["--key", "1", "--count", "3000", "--rate", "10000", "--size", "500"];
    let mut sender = bed.sender(Families::V4, &args).unwrap();
    finish_sender(&mut sender).unwrap();
    gredist.wait_dropped("send_queue_full", 1_000).unwrap();
    let mut arrived = 0;
    wait::until(PATIENCE, "sent and dropped packets to add up", || {
        arrived += packets(&reports(&mut sinks));
        arrived + gredist.dropped("send_queue_full") + gredist.dropped("no_healthy_backend")
            == 3_000
    })
    .unwrap_or_else(|error| panic!("{error}: {arrived}, {}", gredist.status().unwrap()));
    tc(&["del"]);
    let up = || gredist.page("/readyz").is_ok_and(|(head, _)| head.starts_with("HTTP/1.1 200"));
    wait::until(PATIENCE, "the backend to be up", up).unwrap();
    bed.send(Families::V4, &["--key", "1", "--count", "1000", "--rate", "5000"]).unwrap();
    let mut after = 0;
    wait::until(PATIENCE, "1,000 packets afterwards", || {
        after += packets(&reports(&mut sinks));
        after == 1_000
    })
    .unwrap();
}
