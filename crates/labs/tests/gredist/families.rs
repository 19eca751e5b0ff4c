//! All four pairs of families, keyed and keyless: everything arrives unchanged and is answered.

use crate::{bed, packets, reports};
use labs::distributor::Distributor;
use testkit::bed::{Bed, Families};

fn everything_arrives(bed: &Bed, families: Families, flow_args: &[&str]) {
    let mut sinks = bed.answering_sinks(families).unwrap();
    let gredist = Distributor::start(bed, &families.config(3), 3).unwrap();
    // Routers drop bursts to hosts whose link address they do not know yet.
    let first =
        bed.send(families, &["--key", "7", "--count", "30", "--flows", "30", "--answers", "9s"]);
    assert!(first.unwrap().answered.unwrap() > 0);
    reports(&mut sinks);
    let args = ["--count", "10000", "--rate", "20000", "--answers", "5s"];
    let sent = bed.send(families, &[flow_args, &args].concat()).unwrap();
    assert_eq!((sent.sent, sent.refused), (10_000, 0));
    assert_eq!(sent.answered, Some(10_000), "{}", gredist.status().unwrap());
    assert_eq!(sent.damaged_answers, Some(0));
    let reports = reports(&mut sinks);
    assert_eq!(packets(&reports), 10_000);
    for report in &reports {
        assert!(report.packets > 0, "a backend got nothing");
        let faults = report.malformed + report.checksum_errors + report.payload_errors;
        assert_eq!((faults, report.foreign, report.queue_drops), (0, 0, 0));
        for flow in &report.flows {
            assert_eq!((flow.missing, flow.late), (0, 0), "{flow:?}");
        }
    }
    let flows: usize = reports.iter().map(|report| report.flows.len()).sum();
    assert_eq!(flows, 100, "each flow is at one backend");
}

const KEYED: [&str; 6] = ["--key", "0xfffffff0", "--flows", "100", "--checksum", "--sequence"];

#[test]
fn v4_keyed_flows_arrive_and_are_answered() {
    let Some(bed) = bed("v4", 3) else { return };
    everything_arrives(&bed, Families::V4, &KEYED);
}

#[test]
fn v4_keyless_flows_arrive_and_are_answered() {
    let Some(bed) = bed("v4-keyless", 3) else { return };
    let args = ["--source", Families::V4.many_sources(), "--flows", "100"];
    everything_arrives(&bed, Families::V4, &args);
}

#[test]
fn v6_keyed_flows_arrive_and_are_answered() {
    let Some(bed) = bed("v6", 3) else { return };
    everything_arrives(&bed, Families::V6, &KEYED);
}

#[test]
fn v6_keyless_flows_arrive_and_are_answered() {
    let Some(bed) = bed("v6-keyless", 3) else { return };
    let args = ["--source", Families::V6.many_sources(), "--flows", "100", "--checksum"];
    everything_arrives(&bed, Families::V6, &args);
}

#[test]
fn v4_clients_reach_v6_backends_and_back() {
    let Some(bed) = bed("v4-v6", 3) else { return };
    everything_arrives(&bed, Families::V4ToV6, &KEYED);
}

#[test]
fn v4_clients_reach_v6_backends_and_back_without_keys() {
    let Some(bed) = bed("v4-v6-keyless", 3) else { return };
    let args = ["--source", Families::V4ToV6.many_sources(), "--flows", "100", "--sequence"];
    everything_arrives(&bed, Families::V4ToV6, &args);
}

#[test]
fn v6_clients_reach_v4_backends_and_back() {
    let Some(bed) = bed("v6-v4", 3) else { return };
    everything_arrives(&bed, Families::V6ToV4, &KEYED);
}

#[test]
fn v6_clients_without_a_key_are_dropped_and_counted_before_v4_backends() {
    let Some(bed) = bed("v6-v4-keyless", 3) else { return };
    let gredist = Distributor::start(&bed, &Families::V6ToV4.config(3), 3).unwrap();
    bed.send(Families::V6ToV4, &["--count", "50"]).unwrap();
    gredist.wait_dropped("key_required", 50).unwrap();
}

#[test]
fn l3_50_clients_of_one_key_take_different_pool_addresses_until_none_is_left() {
    let Some(bed) = bed("pool", 1) else { return };
    let mut sinks = bed.answering_sinks(Families::V6ToV4).unwrap();
    let gredist = Distributor::start(&bed, &Families::V6ToV4.config(1), 1).unwrap();
    // Twenty clients, one key; the pool has sixteen addresses.
    let mut answered = 0;
    for client in 1..=20 {
        let source = format!("fd78::9:{client:x}");
        // The sender waits no longer than for its answer; the last four get none.
        let patience = if client <= 16 { "10s" } else { "300ms" };
        let args = ["--source", &source, "--key", "42", "--answers", patience];
        answered += bed.send(Families::V6ToV4, &args).unwrap().answered.unwrap();
    }
    assert_eq!(answered, 16);
    gredist.wait_dropped("pool_exhausted", 4).unwrap();
    let report = &reports(&mut sinks)[0];
    assert_eq!(report.flows.len(), 16, "each client has a source of its own");
}

#[test]
fn a_mixed_pool_serves_both_families_behind_one_frontend() {
    let Some(bed) = bed("mixed", 3) else { return };
    let (v4, v6) = (Families::V4, Families::V4ToV6);
    let config = format!(
        "frontend={}\nbackend={}\nbackend={}\nprefix={}\n",
        v4.frontend(),
        v4.backend(0),
        v6.backend(1),
        testkit::bed::PREFIX
    );
    let mut first = bed.answering_sinks(v4).unwrap();
    let mut second = bed.answering_sinks(v6).unwrap();
    let _gredist = Distributor::start(&bed, &config, 2).unwrap();
    let args = ["--key", "1", "--flows", "200", "--count", "10000", "--rate", "20000"];
    let sent = bed.send(v4, &[&args[..], &["--answers", "5s"]].concat()).unwrap();
    assert_eq!(sent.answered, Some(10_000));
    let (v4_packets, v6_packets) = (packets(&reports(&mut first)), packets(&reports(&mut second)));
    assert_eq!(v4_packets + v6_packets, 10_000);
    assert!(v4_packets > 0 && v6_packets > 0);
}
