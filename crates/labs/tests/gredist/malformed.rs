//! What must not pass is dropped under its own counter; what may look odd passes unchanged.

use crate::{bed, packets, reports};
use labs::distributor::Distributor;
use labs::peers::{have_scapy, scapy};
use std::time::Duration;
use testkit::bed::{Bed, Families};
use testkit::process::Process;
use testkit::wait;

const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a scapy script on the client to its end.
fn run_scapy(bed: &Bed, script: &str) {
    let mut process = scapy(&bed.client, script).unwrap();
    let status = process.wait(PATIENCE).unwrap();
    assert!(status.success(), "scapy: {}", process.lines().join("\n"));
}

/// Starts a scapy sniffer on a host; waits until it listens.
fn sniff(host: &testkit::lab::Host, condition: &str, show: &str) -> Process {
    let script = format!(
        "s = AsyncSniffer(store=False, lfilter=lambda p: {condition}, prn=lambda p: print({show}, flush=True), started_callback=lambda: print('listening', flush=True))\n\
         s.start(); s.join()"
    );
    let mut process = scapy(host, &script).unwrap();
    process.wait_for_line(|line| line == "listening", PATIENCE).unwrap();
    process
}

fn each_fault_has_its_counter(families: Families, name: &str) {
    let Some(bed) = bed(name, 2) else { return };
    let mut sinks = bed.sinks(families).unwrap();
    let gredist = Distributor::start(&bed, &families.config(2), 2).unwrap();
    for (mode, counter) in [
        ("version", "gre_version"),
        ("routing", "gre_routing"),
        ("strict-source-route", "gre_strict_source_route"),
        ("recursion", "gre_recursion"),
    ] {
        let args = ["--malformed", mode, "--count", "25", "--key", "1", "--flows", "5"];
        bed.send(families, &args).unwrap();
        gredist.wait_dropped(counter, 25).unwrap();
        assert_eq!(gredist.dropped(counter), 25);
    }
    // Checksum, key and sequence number: sixteen octets, cut at every one.
    for length in 0..16 {
        let length = length.to_string();
        let args = ["--malformed", "truncated", "--truncate-at", &length];
        let options = ["--key", "1", "--checksum", "--sequence"];
        bed.send(families, &[&args[..], &options].concat()).unwrap();
    }
    gredist.wait_dropped("gre_truncated", 16).unwrap();
    assert_eq!(packets(&reports(&mut sinks)), 0, "nothing malformed was forwarded");
    // A wrong checksum is the receiver's to judge.
    bed.send(families, &["--malformed", "checksum", "--count", "10", "--key", "1"]).unwrap();
    let mut wrong = 0;
    wait::until(PATIENCE, "packets with a wrong checksum", || {
        wrong += reports(&mut sinks).iter().map(|report| report.checksum_errors).sum::<u64>();
        wrong == 10
    })
    .unwrap();
}

#[test]
fn l3_44_each_fault_of_v4_has_its_counter() {
    each_fault_has_its_counter(Families::V4, "malformed-v4");
}

#[test]
fn l3_46_each_fault_of_v6_has_its_counter() {
    each_fault_has_its_counter(Families::V6, "malformed-v6");
}

#[test]
fn each_fault_across_families_has_its_counter() {
    each_fault_has_its_counter(Families::V4ToV6, "malformed-v4-v6");
}

#[test]
fn l3_60_fragmented_packets_are_dropped_and_counted() {
    let Some(bed) = bed("fragments", 2) else { return };
    if !have_scapy() {
        return;
    }
    let mut sinks = bed.sinks(Families::V4).unwrap();
    let gredist = Distributor::start(&bed, &Families::V4.config(2), 2).unwrap();
    run_scapy(
        &bed,
        "p = IP(dst='10.77.0.47')/GRE(key_present=1,key=42)/Raw(b'x'*3000)\n\
         for f in fragment(p, fragsize=1000): send(f)\n\
         # Out of order, and a first fragment that is never completed.\n\
         p.id = 7\n\
         for f in reversed(fragment(p, fragsize=1000)): send(f)\n\
         p.id = 8\n\
         send(fragment(p, fragsize=1000)[0])",
    );
    gredist.wait_dropped("outer_fragment", 2).unwrap();
    assert_eq!(gredist.dropped("outer_fragment"), 2);
    assert_eq!(packets(&reports(&mut sinks)), 0);
}

#[test]
fn l3_56_fragmented_v6_packets_are_dropped_and_counted() {
    let Some(bed) = bed("fragments-v6", 2) else { return };
    if !have_scapy() {
        return;
    }
    let mut sinks = bed.sinks(Families::V6).unwrap();
    let gredist = Distributor::start(&bed, &Families::V6.config(2), 2).unwrap();
    run_scapy(
        &bed,
        "p = IPv6(dst='fd77::47')/IPv6ExtHdrFragment(id=9)/GRE(key_present=1,key=42)/Raw(b'x'*3000)\n\
         for f in fragment6(p, 1280): send(f)",
    );
    gredist.wait_dropped("outer_fragment", 1).unwrap();
    assert_eq!(packets(&reports(&mut sinks)), 0);
}

#[test]
fn l3_18_l3_47_l3_54_packets_of_scapy_leave_as_they_came_but_for_address_and_ttl() {
    let Some(bed) = bed("scapy", 1) else { return };
    if !have_scapy() {
        return;
    }
    let _gredist = Distributor::start(&bed, &Families::V4.config(1), 1).unwrap();
    let show = "'seen', p[IP].src, p[IP].dst, p[IP].ttl, p[IP].tos, str(p[IP].flags), p[IP].id, p[IP].chksum == IP(bytes(p[IP].copy())[:20]).chksum, bytes(p[IP].payload).hex()";
    let mut sniffer = sniff(&bed.backends[0], "IP in p and p[IP].proto == 47", show);
    // ERSPAN II, keepalive with a small reply inside, WCCP, checksum of its own, reserved bits.
    for (name, layers) in [
        (
            "erspan",
            "GRE(seqnum_present=1,seqence_number=5,proto=0x88be)/Raw(b'\\x10\\x01\\x00\\x00\\x00\\x00\\x00\\x00'+b'frame')",
        ),
        (
            "keepalive",
            "GRE(proto=0x0800)/IP(src='10.77.0.47',dst='10.77.1.2',proto=47)/Raw(b'\\0\\0\\0\\0')",
        ),
        ("wccp", "GRE(proto=0x883e)/Raw(b'\\x00\\x01\\x02\\x03'+b'E'*20)"),
        ("checksum", "GRE(chksum_present=1,key_present=1,key=7,proto=0x6558)/Raw(b'odd payload')"),
        ("reserved", "Raw(b'\\x23\\xf8\\x65\\x58\\x00\\x00\\x00\\x2a'+b'bits 6 to 12')"),
    ] {
        let script = format!(
            "p = IP(dst='10.77.0.47',ttl=33,tos=0xb9,flags='DF',id=4242,proto=47)/{layers}\n\
             print('sent', bytes(IP(bytes(p)).payload).hex())\nsend(p)"
        );
        let mut sender = scapy(&bed.client, &script).unwrap();
        assert!(sender.wait(PATIENCE).unwrap().success(), "{name}: {:?}", sender.lines());
        let sent = sender.lines().iter().find_map(|l| l.strip_prefix("sent ").map(str::to_owned));
        let sent = sent.unwrap();
        // One hop is the router before, one the distributor, one the router after it.
        let expected = format!("seen 10.77.1.2 10.77.11.2 30 185 DF 4242 True {sent}");
        sniffer
            .wait_for_line(|line| line == expected, PATIENCE)
            .unwrap_or_else(|error| panic!("{name}: expected {expected}: {error}"));
    }
}

#[test]
fn l3_55_a_destination_option_before_gre_changes_nothing_about_the_choice() {
    let Some(bed) = bed("options", 3) else { return };
    if !have_scapy() {
        return;
    }
    let mut sinks = bed.sinks(Families::V6).unwrap();
    let _gredist = Distributor::start(&bed, &Families::V6.config(3), 3).unwrap();
    // As Linux ip6gre does: an encapsulation limit (RFC 2473 4.1.1) before GRE.
    run_scapy(
        &bed,
        "for key in range(40):\n\
         \tfor options in (False, True):\n\
         \t\tp = IPv6(src='fd78::5', dst='fd77::47')\n\
         \t\tif options: p = p/IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=4,optlen=1,optdata=b'\\x04'),PadN(optdata=b'\\0')])\n\
         \t\tsend(p/GRE(key_present=1,key=key)/Raw(b'x'*40))",
    );
    let mut total = 0;
    let mut foreign = 0;
    wait::until(PATIENCE, "80 packets", || {
        for report in reports(&mut sinks) {
            total += report.packets;
            foreign += report.foreign;
            // Both packets of a key come to one backend: every backend's count is even.
            assert_eq!(report.packets % 2, 0);
        }
        total == 80
    })
    .unwrap();
    assert_eq!(foreign, 80, "the payload is scapy's, the GRE header well-formed");
}

#[test]
fn l3_18_the_fields_of_ipv6_are_kept_within_the_family() {
    let Some(bed) = bed("fields-v6", 1) else { return };
    if !have_scapy() {
        return;
    }
    let _gredist = Distributor::start(&bed, &Families::V6.config(1), 1).unwrap();
    let show = "'seen', p[IPv6].src, p[IPv6].dst, p[IPv6].hlim, p[IPv6].tc, p[IPv6].fl, p[IPv6].nh, bytes(p[IPv6].payload).hex()";
    let mut sniffer = sniff(&bed.backends[0], "IPv6 in p and p[IPv6].nh == 47", show);
    let script = "p = IPv6(src='fd78::5',dst='fd77::47',hlim=33,tc=0xb9,fl=0xabcde)/GRE(chksum_present=1,key_present=1,key=7)/Raw(b'payload')\n\
                  print('sent', bytes(IPv6(bytes(p)).payload).hex())\nsend(p)";
    let mut sender = scapy(&bed.client, script).unwrap();
    assert!(sender.wait(PATIENCE).unwrap().success(), "{:?}", sender.lines());
    let sent = sender.lines().iter().find_map(|l| l.strip_prefix("sent ").map(str::to_owned));
    let expected = format!("seen fd78::5 fd77:11::2 30 185 {} 47 {}", 0xabcde, sent.unwrap());
    sniffer.wait_for_line(|line| line == expected, PATIENCE).unwrap();
}

#[test]
fn l3_58_fields_are_carried_across_families() {
    let Some(bed) = bed("fields", 1) else { return };
    if !have_scapy() {
        return;
    }
    let _gredist = Distributor::start(&bed, &Families::V4ToV6.config(1), 1).unwrap();
    let show = "'seen', p[IPv6].src, p[IPv6].dst, p[IPv6].hlim, p[IPv6].tc, p[IPv6].fl != 0, p[IPv6].nh, bytes(p[IPv6].payload).hex()";
    let mut sniffer = sniff(&bed.backends[0], "IPv6 in p and p[IPv6].nh == 47", show);
    let script = "p = IP(dst='10.77.0.47',ttl=33,tos=0xb9,flags='DF')/GRE(chksum_present=1,key_present=1,key=7)/Raw(b'payload')\n\
                  print('sent', bytes(IP(bytes(p)).payload).hex())\nsend(p)";
    let mut sender = scapy(&bed.client, script).unwrap();
    assert!(sender.wait(PATIENCE).unwrap().success(), "{:?}", sender.lines());
    let sent = sender.lines().iter().find_map(|l| l.strip_prefix("sent ").map(str::to_owned));
    // 10.77.1.2 embedded in fd77:64::/96.
    let expected = format!("seen fd77:64::a4d:102 fd77:11::2 30 185 True 47 {}", sent.unwrap());
    sniffer.wait_for_line(|line| line == expected, PATIENCE).unwrap();
}
