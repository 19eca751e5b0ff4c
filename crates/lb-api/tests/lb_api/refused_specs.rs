//! One wrong spec for each rule of service, backends and options, with what it says.

use crate::support::{EXAMPLE, check, problems, with};

const SECOND: &str = "name: backend-2, address: 10.0.1.12, port: 8443, weight: 10";

#[test]
fn the_vip_is_checked() {
    let routable = "must be a unicast address that routers forward to";
    let vip = "vipAddress: 203.0.113.10";
    check(&[
        (
            "  vipAddress: 203.0.113.10\n",
            "\n",
            "3: spec.vipAddress: missing: add vipAddress: ADDRESS, \
            where clients send to",
        ),
        (
            vip,
            "vip_address: 203.0.113.10",
            "3: spec.vipAddress: missing: add vipAddress: ADDRESS, \
            where clients send to\n4: spec.vip_address: unknown field: did you mean vipAddress?",
        ),
        (
            vip,
            "vipAddress: 127.0.0.1",
            &format!(
                "4: spec.vipAddress: `127.0.0.1`: a loopback address: \
            {routable}"
            ),
        ),
        (
            vip,
            "vipAddress: 203.0.113.10/32",
            "4: spec.vipAddress: `203.0.113.10/32`: not an IPv4 or \
            IPv6 address: write it without port, brackets and prefix length",
        ),
        (
            vip,
            "vipAddress: {}",
            "4: spec.vipAddress: is a mapping, must be an IPv4 or IPv6 address",
        ),
    ]);
}

#[test]
fn port_and_protocol_are_checked() {
    check(&[
        (
            "  vipPort: 443\n",
            "\n",
            "3: spec.vipPort: missing: add vipPort: NUMBER, or 0 for every port",
        ),
        (
            "vipPort: 443",
            "vipPort: 65536",
            "5: spec.vipPort: `65536` is out of range: must be 0 to 65535",
        ),
        (
            "vipPort: 443",
            "vipPort: -1",
            "5: spec.vipPort: `-1` is out of range: must be 0 to 65535",
        ),
        (
            "  protocol: tcp ",
            "  # ",
            "3: spec.protocol: missing: add protocol: tcp, udp, icmp or a number",
        ),
        (
            "protocol: tcp ",
            "protocol: TCP ",
            "6: spec.protocol: `TCP` is unknown: must be tcp, udp, icmp \
            or a protocol number; did you mean tcp?",
        ),
        (
            "protocol: tcp ",
            "protocol: 256 ",
            "6: spec.protocol: `256` is out of range: must be 0 to 255",
        ),
        (
            "protocol: tcp ",
            "protocol: 44 ",
            "6: spec.protocol: 44 is an IPv6 extension header: name the \
            protocol that follows it",
        ),
        (
            "protocol: tcp ",
            "protocol: 58 ",
            "6: spec.protocol: 58 is ICMP of the VIP's other family: \
            write icmp",
        ),
        (
            "protocol: tcp ",
            "protocol: icmp ",
            "5: spec.vipPort: protocol icmp has no ports: remove it, \
            or write 0\n\
            10: spec.backends[0].port: protocol icmp has no ports: remove it, or write 0\n\
            11: spec.backends[1].port: protocol icmp has no ports: remove it, or write 0",
        ),
    ]);
}

#[test]
fn backends_are_checked() {
    let second = |to: &str| with(SECOND, to);
    for (to, expected) in [
        (
            "name: backend-1, address: 10.0.1.12, port: 8443",
            ": backend-1 is already the name of spec.backends[0]: names are unique in a mapping",
        ),
        (
            "name: backend-2, address: 10.0.1.11, port: 8443",
            ": 10.0.1.11 port 8443 is already backend backend-1: remove one of the two; a weight \
             gives a larger share",
        ),
        (
            "address: 10.0.1.12, port: 8443",
            ".name: missing: add name: NAME, unique in this mapping",
        ),
        ("name: b, port: 8443", ".address: missing: add address: ADDRESS"),
        ("name: b, address: 10.0.1.12", ".port: missing: add port: NUMBER"),
        (
            "name: b, address: 10.0.1.12, port: 0",
            ".port: 0, the port that was asked for, goes only with vipPort: 0: write a port",
        ),
        (
            "name: b, address: 10.0.1.12, port: 70000",
            ".port: `70000` is out of range: must be 0 to 65535",
        ),
        (
            "name: b, address: 10.0.1.12, port: 1, weight: 0",
            ".weight: `0` is out of range: must be 1 to 255",
        ),
        (
            "name: b, address: 10.0.1.12, port: 1, weight: 256",
            ".weight: `256` is out of range: must be 1 to 255",
        ),
        (
            "name: b, address: 10.0.1.12, port: 1, wieght: 2",
            ".wieght: unknown field: did you mean weight?",
        ),
        (
            "name: b, address: '2001:db8::2', port: 1",
            ".address: 2001:db8::2 is IPv6, the VIP 203.0.113.10 is IPv4: use a backend address of \
             the VIP's family",
        ),
        (
            "name: b, address: 224.0.0.1, port: 1",
            ".address: `224.0.0.1`: a multicast address: must be a unicast address that routers \
             forward to",
        ),
    ] {
        assert_eq!(problems(&second(to)), format!("web.yaml:11: spec.backends[1]{expected}"));
    }
    check(&[(
        "{ name: backend-2, address: 10.0.1.12, port: 8443, weight: 10 }",
        "10.0.1.12",
        "11: spec.backends[1]: is text (`10.0.1.12`), must be a mapping",
    )]);
    let from = EXAMPLE.find("  backends").unwrap();
    let to = EXAMPLE.find("  healthCheck").unwrap();
    let without = format!("{}{}", &EXAMPLE[..from], &EXAMPLE[to..]);
    assert_eq!(
        problems(&without),
        "web.yaml:3: spec.backends: missing: add backends, a list; an \
        empty one, [], keeps the VIP and drops its packets"
    );
}

#[test]
fn what_goes_only_with_something_else_is_checked() {
    let last = "  affinityTimeoutSec: 0\n";
    let more = |lines: &str| with(last, lines);
    for (lines, expected) in [
        (
            "  affinityTimeoutSec: 86401\n",
            "affinityTimeoutSec: `86401` is out of range: must be 0 to 86400",
        ),
        (
            "  selection: random\n",
            "selection: `random` is unknown: must be maglev, rendezvous or \
            weightedRandom",
        ),
        (
            "  tableSize: 255\n",
            "tableSize: 255 rows are too few for 2 backends: write 256 or more, 128 for \
            each backend up to the full table",
        ),
        ("  tableSize: 65538\n", "tableSize: `65538` is out of range: must be 1 to 65537"),
        ("  mssClamp: 87\n", "mssClamp: `87` is out of range: must be 88 to 65495"),
        ("  mssClamp: 65496\n", "mssClamp: `65496` is out of range: must be 88 to 65495"),
        ("  onDown: drop\n", "onDown: `drop` is unknown: must be keep or reset"),
        (
            "  icmpPerSequence: true\n",
            "icmpPerSequence: only for protocol icmp, not tcp: remove it",
        ),
    ] {
        assert_eq!(problems(&more(lines)), format!("web.yaml:8: spec.{expected}"));
    }
    assert_eq!(
        problems(&more("  tableSize: 65537\n  selection: rendezvous\n")),
        "web.yaml:8: spec.tableSize: `65537` is out of range: must be 1 to 65536"
    );
    assert_eq!(
        problems(&more("  tableSize: 256\n  selection: weightedRandom\n")),
        "web.yaml:8: spec.tableSize: weightedRandom has no table: remove it"
    );
    assert_eq!(
        problems(&with("twiceNat: true ", "snatPool: a #")),
        "web.yaml:7: spec.snatPool: only with twiceNat: true; add that or remove this"
    );
    let udp = |line: &str| EXAMPLE.replace("protocol: tcp", "protocol: udp").replace(last, line);
    assert_eq!(
        problems(&udp("  mssClamp: 1400\n")),
        "web.yaml:8: spec.mssClamp: only for protocol tcp, not udp: remove it"
    );
    assert_eq!(
        problems(&udp("  onDown: reset\n")),
        "web.yaml:8: spec.onDown: only for protocol tcp, not udp: remove it"
    );
    let icmp = "type: NATLBMappings.lb.siha\nmetadata: {namespace: lb, id: web}\nspec:\n  vipAddress: \
        203.0.113.10\n  protocol: icmp\n  healthCheck: {type: ICMP}\n  backends: []\n  \
        affinityTimeoutSec: 5\n  icmpPerSequence: true\n";
    assert_eq!(
        problems(icmp),
        "web.yaml:9: spec.icmpPerSequence: contradicts affinityTimeoutSec: \
        remove one of the two"
    );
}
