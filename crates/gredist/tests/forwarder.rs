//! The forwarding loop over a socket pair: whole IPv4 packets in, decided, out, and counted. No
//! privilege, no namespace, no network.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of tests are tests")]

use config::live::Live;
use datapath::DropReason;
use gredist::clients::Clients;
use gredist::config::Config;
use gredist::forwarder::Forwarder;
use gredist::host::Host;
use gredist::plane::{Limits, Plane};
use gredist::ports::{Ports, Purpose, Receiver};
use gredist::snapshot::{Compiled, rows};
use gredist::statistics::Statistics;
use netio::socket::RawSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::packet::{gre, icmp, ipv4};
use wire::Family;

const BACKENDS: [&str; 2] = ["127.0.0.11", "127.0.0.12"];

struct Bench {
    forwarder: Forwarder,
    input: UnixDatagram,
    output: UnixDatagram,
    statistics: Arc<Statistics>,
    compiled: Compiled,
}

/// A forwarder between two socket pairs. The backends lie on loopback so that every host has a
/// route to them.
fn bench() -> Bench {
    let text = "frontend=192.0.2.1\nbackend=10.0.0.1\nbackend=10.0.0.2\n";
    let mut config = Config::parse("test", text).unwrap();
    for (backend, address) in config.backends.iter_mut().zip(BACKENDS) {
        backend.address = address.parse().unwrap();
    }
    let compiled = Compiled::new(&config, None);
    let mut rows = rows(&config);
    (0..2).for_each(|backend| rows.add(backend));
    let live = Arc::new(Live::new(Arc::new(compiled.snapshot(&rows))));
    let statistics = Arc::new(Statistics::default());
    let (input, receiver) = UnixDatagram::pair().unwrap();
    let (output, sender) = UnixDatagram::pair().unwrap();
    output.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let connected =
        |socket| Arc::new(RawSocket::connected(Family::V4, OwnedFd::from(socket)).unwrap());
    let ports = Ports {
        receivers: vec![Receiver::new(connected(receiver), Purpose::Frontend(config.frontend))],
        v4: Some(connected(sender)),
        v6: None,
        retired: Vec::new(),
        short_queues: Vec::new(),
    };
    let now = Instant::now();
    let host = Host::new(Clients::new(Duration::from_secs(300), 16), 20, now);
    let forwarder = Forwarder::new(ports, host, live, Arc::clone(&statistics));
    Bench { forwarder, input, output, statistics, compiled }
}

impl Bench {
    fn send(&self, packet: &[u8]) {
        self.input.send(packet).unwrap();
    }

    /// Turns until nothing waits.
    fn turn(&mut self) {
        while self.forwarder.turn(0, Instant::now()).unwrap() > 0 {}
    }

    fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 70_000];
        let length = self.output.recv(&mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.statistics.drops().find(|(other, _)| *other == reason).unwrap().1
    }

    fn forwarded(&self) -> Vec<u64> {
        let packets = |b: &gredist::snapshot::Backend| b.counters.forwarded.packets.get();
        self.compiled.backends().iter().map(packets).collect()
    }
}

fn packet(key: u32, payload: usize) -> Vec<u8> {
    ipv4("198.51.100.7", "192.0.2.1").gre(gre().key(key).payload(vec![7; payload])).build()
}

fn destination(packet: &[u8]) -> String {
    let octets: [u8; 4] = packet[16..20].try_into().unwrap();
    std::net::Ipv4Addr::from(octets).to_string()
}

#[test]
fn packets_of_a_flow_leave_in_order_to_one_backend_and_all_are_counted() {
    let mut bench = bench();
    let mut homes = std::collections::HashMap::new();
    for round in 0..3usize {
        for key in 0..50 {
            bench.send(&packet(key, 100 + round));
        }
        bench.turn();
        for key in 0..50u32 {
            let out = bench.receive();
            assert_eq!(out.len(), 20 + 8 + 100 + round);
            assert_eq!(out[24..28], key.to_be_bytes(), "order is kept");
            let home = homes.entry(key).or_insert_with(|| destination(&out)).clone();
            assert_eq!(destination(&out), home);
        }
    }
    let forwarded = bench.forwarded();
    assert_eq!(forwarded.iter().sum::<u64>(), 150);
    assert!(forwarded.iter().all(|packets| *packets > 0));
    assert_eq!(bench.statistics.received.packets.get(), 150);
}

#[test]
fn what_is_malformed_is_counted_and_what_is_not_ours_is_passed() {
    let mut bench = bench();
    bench.send(&ipv4("198.51.100.7", "192.0.2.1").gre(gre().version(1)).build());
    bench.send(&ipv4("198.51.100.7", "192.0.2.1").gre(gre().routing()).build());
    bench.send(&ipv4("198.51.100.7", "192.0.2.9").gre(gre()).build());
    bench.send(&[0x45]);
    bench.turn();
    assert_eq!(bench.dropped(DropReason::GreVersion), 1);
    assert_eq!(bench.dropped(DropReason::GreRouting), 1);
    assert_eq!(bench.dropped(DropReason::OuterTruncated), 1);
    assert_eq!(bench.statistics.passed.get(), 1);
    assert_eq!(bench.forwarded(), [0, 0]);
}

#[test]
fn the_largest_packet_fits() {
    let mut bench = bench();
    // 65,535 octets in all; the loopback path takes them.
    bench.send(&packet(1, 65_535 - 28));
    bench.turn();
    assert_eq!(bench.receive().len(), 65_535);
}

#[test]
fn an_error_for_every_backend_is_copied_to_each_and_limited() {
    let mut bench = bench();
    let reply = ipv4("192.0.2.1", "198.51.100.7").gre(gre().key(5).checksum()).build();
    let error = ipv4("203.0.113.1", "192.0.2.1").icmp(icmp(3, 4).mtu(1300).quoting(&reply, 28));
    let error = error.build();
    (0..20).for_each(|_| bench.send(&error));
    bench.turn();
    // Twenty copies a second are ten messages to two backends.
    let copies: Vec<_> = (0..20).map(|_| destination(&bench.receive())).collect();
    for backend in BACKENDS {
        assert_eq!(copies.iter().filter(|to| *to == backend).count(), 10);
    }
    assert_eq!(bench.statistics.fanned_out.get(), 10);
    assert_eq!(bench.dropped(DropReason::ErrorRateLimited), 10);
}

#[test]
fn a_full_way_out_is_counted_and_recovers() {
    let mut bench = bench();
    // Nobody reads the output: a socket pair holds a bounded number of datagrams.
    for key in 0..2_000 {
        bench.send(&packet(key, 100));
        bench.turn();
    }
    let full = bench.dropped(DropReason::SendQueueFull);
    assert!(full > 0);
    let passed = 2_000 - full;
    (0..passed).for_each(|_| drop(bench.receive()));
    assert_eq!(bench.forwarded().iter().sum::<u64>(), passed);
    bench.send(&packet(7, 100));
    bench.turn();
    assert_eq!(bench.receive().len(), 128);
    assert_eq!(bench.dropped(DropReason::SendQueueFull), full);
}

#[test]
fn the_thread_handles_what_waits_before_it_stops() {
    let bench = bench();
    let (input, output) = (bench.input, bench.output);
    let (plane, mut ended) = Plane::start(bench.forwarder).unwrap();
    for key in 0..200 {
        input.send(&packet(key, 50)).unwrap();
    }
    plane.stop().unwrap();
    assert!(ended.try_recv().is_err(), "the end of the thread is told");
    let mut buffer = [0; 200];
    output.set_nonblocking(true).unwrap();
    let received = (0..).take_while(|_| output.recv(&mut buffer).is_ok()).count();
    assert_eq!(received, 200);
}

#[test]
fn limits_change_while_the_thread_runs() {
    let bench = bench();
    let (input, output) = (bench.input, bench.output);
    let ports = bench.forwarder.ports.clone();
    let (plane, _ended) = Plane::start(bench.forwarder).unwrap();
    let limits = Limits {
        client_timeout: Duration::from_secs(1),
        client_limit: 1,
        pool: Arc::from([]),
        error_rate: 0,
    };
    plane.reconfigure(ports, limits);
    input.send(&packet(1, 50)).unwrap();
    assert_eq!(output.recv(&mut [0; 200]).unwrap(), 78);
    // No message of our own is left in the budget.
    let expired = ipv4("198.51.100.7", "192.0.2.1").ttl(1).gre(gre()).build();
    input.send(&expired).unwrap();
    plane.stop().unwrap();
    assert_eq!(bench.statistics.answered.get(), 0);
    let drops: Vec<_> = bench.statistics.drops().filter(|(_, count)| *count > 0).collect();
    assert_eq!(drops, [(DropReason::TtlExpired, 1)]);
}
