//! What the packet core costs per packet, without any system call.

#![allow(clippy::unwrap_used, missing_docs, reason = "a bench ends where its input is wrong")]

use criterion::{Criterion, criterion_group, criterion_main};
use datapath::fixed::FixedTables;
use datapath::gre::{Flow, process};
use datapath::ip::Packet;
use datapath::{SliceFrame, Verdict};
use std::hint::black_box;
use testkit::packet::{gre, ipv4};

const HEADROOM: usize = 128;

/// A client's packets, one for each of many flows.
fn packets() -> Vec<Vec<u8>> {
    let packet = |key| ipv4("198.51.100.7", "192.0.2.1").gre(gre().key(key).payload([0; 36]));
    (0..1024).map(|key| packet(key).build()).collect()
}

fn forwarding(c: &mut Criterion, name: &str, mut tables: FixedTables) {
    let mut buffers: Vec<Vec<u8>> =
        packets().into_iter().map(|packet| [vec![0; HEADROOM], packet].concat()).collect();
    let fresh = buffers.clone();
    let mut next = 0;
    c.bench_function(name, |bencher| {
        bencher.iter(|| {
            next = (next + 1) % buffers.len();
            let buffer = &mut buffers[next];
            buffer.copy_from_slice(&fresh[next]);
            let end = buffer.len();
            let mut frame = SliceFrame::new(buffer, HEADROOM, end).unwrap();
            let verdict = process(&mut frame, &mut tables);
            assert!(matches!(verdict, Verdict::ToBackend(_)));
            black_box(frame.range())
        });
    });
}

fn benches(c: &mut Criterion) {
    let mut packets = packets();
    let mut next = 0;
    c.bench_function("parse and select", |bencher| {
        bencher.iter(|| {
            next = (next + 1) % packets.len();
            let packet = &mut packets[next];
            let end = packet.len();
            let frame = SliceFrame::new(packet, 0, end).unwrap();
            let outer = Packet::parse(&frame).unwrap();
            let flow = Flow::parse(&frame, &outer, outer.source).unwrap();
            black_box(balance::hash::row_of(flow.hash(u32::MAX)))
        });
    });
    let backends = |text: [&str; 3]| text.map(|backend| backend.parse().unwrap());
    let frontend = "192.0.2.1".parse().unwrap();
    let v4 = FixedTables::new(frontend, &backends(["10.0.0.1", "10.0.0.2", "10.0.0.3"]));
    forwarding(c, "forward, one family", v4);
    let v6 = backends(["2001:db8::1", "2001:db8::2", "2001:db8::3"]);
    let v6 = FixedTables::new(frontend, &v6).with_prefix("2001:db8:64::".parse().unwrap());
    forwarding(c, "forward, IPv4 to IPv6", v6);
}

criterion_group!(all, benches);
criterion_main!(all);
