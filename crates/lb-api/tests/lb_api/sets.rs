//! Rules over several mappings and files, and against a node.

use crate::support::{EXAMPLE, problems, read, with};
use lb_api::{NodeView, SnatPool};
use std::net::IpAddr;

/// The example under another id, VIP and port, so that it contradicts nothing.
fn other(id: &str, vip: &str, port: u16) -> String {
    EXAMPLE
        .replace("id: web", &format!("id: {id}"))
        .replace("203.0.113.10", vip)
        .replace("vipPort: 443", &format!("vipPort: {port}"))
}

#[test]
fn mappings_of_several_files_come_sorted_by_name() {
    let files = [
        ("b.yaml", format!("{EXAMPLE}---\n{}", other("mail", "203.0.113.11", 25))),
        ("a.yaml", other("zone", "203.0.113.12", 53)),
    ];
    let resources = read(&files.each_ref().map(|(file, text)| (*file, text.as_str()))).unwrap();
    let ids: Vec<&str> = resources.mappings().map(|mapping| mapping.metadata.id.as_str()).collect();
    assert_eq!(ids, ["mail", "web", "zone"]);
    let places: Vec<String> =
        resources.placed().iter().map(|placed| placed.place().to_string()).collect();
    assert_eq!(places, ["b.yaml:15", "b.yaml:1", "a.yaml:1"]);
    let problem = resources.placed()[0].problem("vipPort", "taken");
    assert_eq!(problem.to_string(), "b.yaml:19: spec.vipPort: taken");
}

#[test]
fn a_name_is_given_once() {
    let found = read(&[("b.yaml", EXAMPLE), ("a.yaml", &other("web", "203.0.113.11", 25))]);
    let expected =
        "b.yaml:1: metadata.id: lb/web is already in a.yaml:1: rename or remove one of the two";
    assert_eq!(found.unwrap_err(), expected);
    let elsewhere = other("web", "203.0.113.11", 25).replace("namespace: lb", "namespace: qa");
    assert!(read(&[("b.yaml", EXAMPLE), ("a.yaml", &elsewhere)]).is_ok());
}

#[test]
fn a_service_has_one_mapping() {
    let twin = other("twin", "203.0.113.10", 443).replace("protocol: tcp", "protocol: 6");
    assert_eq!(
        problems(&format!("{EXAMPLE}---\n{twin}")),
        "web.yaml:18: spec.vipAddress: tcp 203.0.113.10 port 443 is already mapping lb/web in \
         web.yaml:1: remove one of the two, or merge them"
    );
    let udp = other("twin", "203.0.113.10", 443).replace("protocol: tcp", "protocol: udp");
    assert!(read(&[("a.yaml", EXAMPLE), ("b.yaml", &udp)]).is_ok());
}

#[test]
fn every_port_and_exact_ports_of_one_vip_go_together_but_each_once() {
    let every = other("every", "203.0.113.10", 0);
    let exact = other("ssh", "203.0.113.10", 22);
    assert!(read(&[("a.yaml", EXAMPLE), ("b.yaml", &every), ("c.yaml", &exact)]).is_ok());
    let again = every.replace("id: every", "id: again");
    let found = read(&[("a.yaml", &every), ("b.yaml", &again)]).unwrap_err();
    assert!(found.contains("tcp 203.0.113.10 every port is already mapping lb/every"), "{found}");
}

#[test]
fn a_vip_is_no_backend() {
    let chained = other("chained", "10.0.1.12", 443).replace("10.0.1.12, port", "10.0.1.13, port");
    assert_eq!(
        read(&[("a.yaml", EXAMPLE), ("b.yaml", &chained)]).unwrap_err(),
        "a.yaml:11: spec.backends[1].address: 10.0.1.12 is the VIP of mapping lb/chained in \
         b.yaml:1: name the backends behind it instead"
    );
    let own = with("10.0.1.11", "203.0.113.10");
    let found = problems(&own);
    assert!(found.starts_with("web.yaml:10: spec.backends[0].address: 203.0.113.10 is the VIP of"));
}

#[test]
fn a_wrong_document_hides_no_contradiction_of_the_others() {
    let twin = other("twin", "203.0.113.10", 443);
    let wrong = other("wrong", "203.0.113.13", 443).replace("protocol: tcp", "protocol: tpc");
    let found = problems(&format!("{EXAMPLE}---\n{wrong}---\n{twin}"));
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 2, "{found}");
    assert!(lines[0].contains("did you mean tcp?"), "{found}");
    assert!(lines[1].contains("is already mapping lb/web"), "{found}");
}

#[test]
fn a_node_must_have_the_pools_and_keep_them_apart_from_vips() {
    let range = |first: &str, last: &str| {
        let [first, last]: [IpAddr; 2] = [first, last].map(|address| address.parse().unwrap());
        first..=last
    };
    let pool = |name: &str, first, last| SnatPool {
        name: name.parse().unwrap(),
        addresses: vec![range(first, last)],
    };
    let edge = pool("edge", "198.51.100.1", "198.51.100.9");
    let v6 = pool("six", "2001:db8::1", "2001:db8::ffff");
    let wide = pool("wide", "203.0.113.0", "203.0.113.255");
    let inner = pool("inner", "10.0.1.12", "10.0.1.12");
    let uses =
        |name: &str| with("twiceNat: true ", &format!("snatPool: {name}\n  twiceNat: true "));
    for (text, pools, expected) in [
        (uses("edge"), vec![edge.clone(), v6.clone()], ""),
        (
            uses("egde"),
            vec![edge.clone()],
            "web.yaml:7: spec.snatPool: no SNAT pool egde: did you mean edge?",
        ),
        (
            uses("other"),
            vec![edge.clone(), v6.clone()],
            "web.yaml:7: spec.snatPool: no SNAT pool other: the node has edge, six",
        ),
        (uses("other"), vec![], "web.yaml:7: spec.snatPool: no SNAT pool other: the node has none"),
        (
            uses("six"),
            vec![v6],
            "web.yaml:7: spec.snatPool: pool six has no IPv4 address for VIP 203.0.113.10: name a \
             pool that has",
        ),
        (
            EXAMPLE.to_owned(),
            vec![edge, wide, inner],
            "web.yaml:4: spec.vipAddress: VIP 203.0.113.10 of mapping lb/web is also in SNAT pool \
             wide: take it out of one of the two\n\
             web.yaml:11: spec.backends[1].address: backend 10.0.1.12 is also in SNAT pool inner: \
             take it out of one of the two",
        ),
    ] {
        let resources = read(&[("web.yaml", &text)]).unwrap();
        let answer = resources.check_against(&NodeView { pools: &pools });
        let found = answer.err().map(|problems| problems.to_string()).unwrap_or_default();
        assert_eq!(found, expected);
    }
}
