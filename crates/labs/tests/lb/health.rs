//! What checks find, and what the mapping makes of it.

use crate::bed;
use labs::lb::balancer::Balancer;
use labs::lb::bed::{Bed, Family, Shape};
use labs::lb::mapping::Mapping;
use labs::lb::servers::Nginx;
use labs::lb::{PATIENCE, done, run};
use netio::process::Signal;

const HTTP: &str = "{ type: HTTP, httpPath: /healthz, httpExpectedStatus: 200, intervalMs: 100, \
     timeoutMs: 100, healthyThreshold: 2, unhealthyThreshold: 3 }";
const WEB: &str = "lb/web";

fn web(bed: &Bed, check: &str) -> Mapping {
    let mapping = Mapping::new("web", &bed.vip(Family::V4, 10), "tcp", Some(80));
    let mapping = mapping.check(check);
    (0..bed.backends.len()).fold(mapping, |mapping, number| {
        let name = format!("backend{}", number + 1);
        mapping.backend(&name, &bed.backend(Family::V4, number), ", port: 8080")
    })
}

fn get(bed: &Bed) -> (Option<i32>, String) {
    let url = format!("http://{}/", bed.vip(Family::V4, 10));
    run(&bed.client, "curl", &["-sS", "--max-time", "2", &url]).unwrap()
}

/// Who answers 16 requests, each of which must be answered.
fn answers(bed: &Bed) -> Vec<String> {
    let mut seen: Vec<String> = (0..16)
        .map(|_| {
            let (code, text) = get(bed);
            assert_eq!(code, Some(0), "{text}");
            text
        })
        .collect();
    seen.sort();
    seen.dedup();
    seen
}

#[test]
fn a_wrong_status_takes_a_backend_out_and_a_right_one_brings_it_back() {
    let Some(bed) = bed("status", Shape::TwoArms, 2) else { return };
    let servers: Vec<_> = bed.backends.iter().map(|host| Nginx::start(host).unwrap()).collect();
    let balancer = Balancer::start(&bed, &[web(&bed, HTTP).twice_nat()]).unwrap();
    for name in ["backend1", "backend2"] {
        balancer.wait_backend(WEB, name, true).unwrap();
    }
    assert_eq!(answers(&bed), ["backend1", "backend2"]);
    servers[0].set_sick(true).unwrap();
    balancer.wait_backend(WEB, "backend1", false).unwrap();
    let cause = balancer.backend(WEB, "backend1")["lastFailure"].to_string();
    assert!(cause.contains("503"), "{cause}");
    assert_eq!(answers(&bed), ["backend2"]);
    servers[0].set_sick(false).unwrap();
    balancer.wait_backend(WEB, "backend1", true).unwrap();
    assert_eq!(answers(&bed), ["backend1", "backend2"]);
}

#[test]
fn checks_come_back_though_nat_knows_whose_answers_a_backends_are() {
    let Some(bed) = bed("nat-check", Shape::TwoArms, 2) else { return };
    bed.route_backends().unwrap();
    let _servers: Vec<_> = bed.backends.iter().map(|host| Nginx::start(host).unwrap()).collect();
    let mapping = web(&bed, HTTP);
    let balancer = Balancer::start(&bed, &[mapping]).unwrap();
    for name in ["backend1", "backend2"] {
        balancer.wait_backend(WEB, name, true).unwrap();
    }
    assert_eq!(answers(&bed), ["backend1", "backend2"]);
}

#[test]
fn an_echo_that_is_not_answered_takes_a_backend_out() {
    let Some(bed) = bed("icmp-check", Shape::TwoArms, 2) else { return };
    let check = "{ type: ICMP, intervalMs: 100, timeoutMs: 100, unhealthyThreshold: 2 }";
    let balancer = Balancer::start(&bed, &[web(&bed, check).twice_nat()]).unwrap();
    balancer.wait_backend(WEB, "backend1", true).unwrap();
    balancer.wait_backend(WEB, "backend2", true).unwrap();
    bed.backends[0].sysctl("net/ipv4/icmp_echo_ignore_all", "1").unwrap();
    balancer.wait_backend(WEB, "backend1", false).unwrap();
    bed.backends[0].sysctl("net/ipv4/icmp_echo_ignore_all", "0").unwrap();
    balancer.wait_backend(WEB, "backend1", true).unwrap();
}

#[test]
fn without_a_backend_the_vip_stays_and_drops_new_flows() {
    let Some(bed) = bed("all-down", Shape::TwoArms, 2) else { return };
    let mut servers: Vec<_> = bed.backends.iter().map(|host| Nginx::start(host).unwrap()).collect();
    let balancer = Balancer::start(&bed, &[web(&bed, HTTP).twice_nat()]).unwrap();
    balancer.wait_backend(WEB, "backend1", true).unwrap();
    balancer.wait_backend(WEB, "backend2", true).unwrap();
    for server in &mut servers {
        server.process.signal(Signal::KILL).unwrap();
    }
    balancer.wait_backend(WEB, "backend1", false).unwrap();
    balancer.wait_backend(WEB, "backend2", false).unwrap();
    balancer.wait_lines("no backend is left", 1).unwrap();
    // 28: no answer in time. A refusal (7) would be a service that is not there.
    assert_eq!(get(&bed).0, Some(28), "{}", balancer.summary());
    balancer.wait_dropped("no_backend", 1).unwrap();
    let text = done(&bed.client, "ping", &["-c", "1", &bed.vip(Family::V4, 10)]).unwrap();
    assert!(text.contains("1 received"), "{text}");
}

#[test]
fn a_dead_backend_is_left_within_its_thresholds() {
    let Some(bed) = bed("killed", Shape::TwoArms, 2) else { return };
    let mut servers: Vec<_> = bed.backends.iter().map(|host| Nginx::start(host).unwrap()).collect();
    let balancer = Balancer::start(&bed, &[web(&bed, HTTP).twice_nat()]).unwrap();
    balancer.wait_backend(WEB, "backend1", true).unwrap();
    balancer.wait_backend(WEB, "backend2", true).unwrap();
    servers[0].process.signal(Signal::KILL).unwrap();
    // Three checks 100 ms apart, each of 100 ms at most, and the status a second later at most.
    let down = || balancer.backend(WEB, "backend1")["up"] == false;
    testkit::wait::until(std::time::Duration::from_secs(2), "backend1 to be left", down).unwrap();
    assert_eq!(answers(&bed), ["backend2"]);
}

#[test]
fn backends_that_are_not_checked_count_as_alive() {
    let Some(bed) = bed("disabled", Shape::TwoArms, 2) else { return };
    let _server = Nginx::start(&bed.backends[0]).unwrap();
    let balancer = Balancer::start(&bed, &[web(&bed, "{ type: DISABLED }").twice_nat()]).unwrap();
    balancer.wait_backend(WEB, "backend1", true).unwrap();
    balancer.wait_backend(WEB, "backend2", true).unwrap();
    let refused = || get(&bed).0 == Some(7);
    testkit::wait::until(PATIENCE, "a flow to the backend without a server", refused).unwrap();
    let answered = || get(&bed) == (Some(0), "backend1".into());
    testkit::wait::until(PATIENCE, "a flow to the other", answered).unwrap();
}

#[test]
fn failing_open_needs_silence_from_every_backend() {
    let Some(bed) = bed("fail-open", Shape::TwoArms, 2) else { return };
    let servers: Vec<_> = bed.backends.iter().map(|host| Nginx::start(host).unwrap()).collect();
    let open = HTTP.replace(" }", ", failOpen: true }");
    let balancer = Balancer::start(&bed, &[web(&bed, &open).twice_nat()]).unwrap();
    balancer.wait_backend(WEB, "backend1", true).unwrap();
    balancer.wait_backend(WEB, "backend2", true).unwrap();
    // A wrong status is an answer: both are out.
    servers.iter().for_each(|server| server.set_sick(true).unwrap());
    balancer.wait_lines("no backend is left", 1).unwrap();
    servers.iter().for_each(|server| server.set_sick(false).unwrap());
    balancer.wait_backend(WEB, "backend1", true).unwrap();
    balancer.wait_backend(WEB, "backend2", true).unwrap();
    // The checks alone are cut off; what clients send goes through, and is served on.
    let node = bed.node_address(Family::V4);
    for host in &bed.backends {
        host.nft(&format!(
            "table ip cut {{\n chain in {{ type filter hook input priority 0;\n \
             ip saddr {node} tcp sport < 16384 drop\n }}\n }}\n"
        ))
        .unwrap();
    }
    balancer.wait_lines("backend went down", 4).unwrap();
    balancer.wait_backend(WEB, "backend1", true).unwrap();
    balancer.wait_backend(WEB, "backend2", true).unwrap();
    assert_eq!(answers(&bed), ["backend1", "backend2"]);
}
