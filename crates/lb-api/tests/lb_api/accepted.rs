//! What is right, and the value that it becomes.

use crate::support::{EXAMPLE, mapping, read, with};
use lb_api::{
    AffinityTimeout, Backend, Check, HealthCheck, Metadata, Mode, MssClamp, OnDown, Probe,
    Protocol, Selection, TableSize,
};
use std::num::NonZeroU16;
use std::time::Duration;

fn backend(name: &str, address: &str, port: u16, weight: u8) -> Backend {
    let weight = balance::rendezvous::Weight::new(weight).unwrap();
    let port = NonZeroU16::new(port);
    Backend { name: name.parse().unwrap(), address: address.parse().unwrap(), port, weight }
}

fn check(health_check: &HealthCheck) -> &Check {
    match health_check {
        HealthCheck::Enabled(check) => check,
        HealthCheck::Disabled => panic!("disabled"),
    }
}

#[test]
fn the_example_parses_to_the_expected_value() {
    let mapping = mapping(EXAMPLE);
    assert_eq!(mapping.metadata, Metadata::new("lb".parse().unwrap(), "web".parse().unwrap()));
    let spec = &mapping.spec;
    assert_eq!(spec.service.vip, "203.0.113.10".parse().unwrap());
    assert_eq!(spec.service.port, NonZeroU16::new(443));
    assert_eq!(spec.service.protocol, Protocol::Tcp);
    assert_eq!(spec.service.to_string(), "tcp 203.0.113.10 port 443");
    assert_eq!(spec.mode, Mode::TwiceNat { pool: None });
    assert_eq!(spec.affinity, None);
    let first = backend("backend-1", "10.0.1.11", 8443, 10);
    assert_eq!(spec.backends, [first.clone(), backend("backend-2", "10.0.1.12", 8443, 10)]);
    assert_eq!(spec.selection, Selection::Maglev(TableSize::FULL_MAGLEV));
    assert_eq!((spec.mss_clamp, spec.on_down), (None, OnDown::Keep));
    assert!(!spec.icmp_per_sequence);

    let check = check(&spec.health_check);
    let Probe::Http(request) = &check.probe else { panic!("{check:?}") };
    assert_eq!((request.path.as_str(), &request.host), ("/healthz", &None));
    assert_eq!(request.expected_status.get(), 200);
    assert_eq!(check.port_of(&first), NonZeroU16::new(8443));
    assert_eq!(check.policy.interval, Duration::from_secs(5));
    assert_eq!(check.policy.timeout, Duration::from_secs(2));
    assert_eq!((check.policy.rise.get(), check.policy.fall.get()), (2, 3));
    assert!(!check.fail_open);
    assert_eq!(check.policy.validate(), Ok(()));
}

#[test]
fn the_shortest_mapping_has_the_defaults() {
    let shortest = "\
type: NATLBMappings.lb.siha
metadata: {namespace: lb, id: web}
spec: {vipAddress: 203.0.113.10, vipPort: 443, protocol: tcp, healthCheck: {type: HTTPS},
  backends: [{name: a, address: 10.0.1.11, port: 8443}]}
";
    let spec = mapping(shortest).spec;
    assert_eq!(spec.mode, Mode::Nat);
    assert_eq!(spec.backends, [backend("a", "10.0.1.11", 8443, 1)]);
    let check = check(&spec.health_check);
    let Probe::Https(request) = &check.probe else { panic!("{check:?}") };
    assert_eq!((request.path.as_str(), request.expected_status.get()), ("/", 200));
    assert_eq!((check.port, check.port_of(&spec.backends[0])), (None, NonZeroU16::new(8443)));
    assert_eq!(check.policy.interval, Duration::from_secs(5));
    assert_eq!(check.policy.timeout, Duration::from_secs(2));
    assert_eq!((check.policy.rise.get(), check.policy.fall.get()), (2, 3));
}

#[test]
fn a_shorter_interval_shortens_the_default_timeout() {
    let text = with("intervalMs: 5000, timeoutMs: 2000", "intervalMs: 1000");
    assert_eq!(check(&mapping(&text).spec.health_check).policy.timeout, Duration::from_secs(1));
}

#[test]
fn every_addition_is_read() {
    let more = "  snatPool: edge\n  mssClamp: 1400\n  onDown: reset\n  selection: rendezvous\n  \
                tableSize: 256\n";
    let text = with("affinityTimeoutSec: 0\n", "affinityTimeoutSec: 86400\n") + more;
    let text = text.replace(
        "id: web }",
        "id: web, labels: { app.example/tier: front }, annotations: { note: \"a\\nb\" } }",
    );
    let mapping = mapping(&text);
    let spec = &mapping.spec;
    assert_eq!(spec.mode, Mode::TwiceNat { pool: Some("edge".parse().unwrap()) });
    assert_eq!((spec.mss_clamp, spec.on_down), (MssClamp::new(1400), OnDown::Reset));
    let Selection::Rendezvous(size) = spec.selection else { panic!("{:?}", spec.selection) };
    assert_eq!(size.rows(), 256);
    assert_eq!(spec.affinity, AffinityTimeout::new(86_400));
    assert_eq!(mapping.metadata.labels["app.example/tier"], "front");
    assert_eq!(mapping.metadata.annotations["note"], "a\nb");
}

#[test]
fn each_protocol_has_its_ports_or_none() {
    let case = |protocol: &str, vip: &str, backend: &str, ports: &str, backend_port: &str| {
        let text = format!(
            "type: NATLBMappings.lb.siha\nmetadata: {{namespace: lb, id: web}}\nspec:\n  \
             vipAddress: {vip}\n  protocol: {protocol}\n{ports}  healthCheck: {{type: ICMP}}\n  \
             backends: [{{name: a, address: {backend}{backend_port}}}]\n"
        );
        let spec = mapping(&text).spec;
        (spec.service.to_string(), spec.backends[0].port.map(NonZeroU16::get))
    };
    let [v4, v6] = [("203.0.113.1", "10.0.0.1"), ("2001:db8::1", "'fd00::1'")];
    for ((vip, backend), protocol, ports, backend_port, expected) in [
        (v4, "tcp", "  vipPort: 0\n", "", ("tcp 203.0.113.1 every port", None)),
        (v4, "udp", "  vipPort: 0\n", ", port: 0", ("udp 203.0.113.1 every port", None)),
        (v6, "udp", "  vipPort: 0\n", ", port: 53", ("udp 2001:db8::1 every port", Some(53))),
        (v6, "17", "  vipPort: 53\n", ", port: 5353", ("udp 2001:db8::1 port 53", Some(5353))),
        (v4, "icmp", "", "", ("icmp 203.0.113.1", None)),
        (v6, "icmp", "  vipPort: 0\n", ", port: 0", ("icmp 2001:db8::1", None)),
        (v6, "58", "", "", ("icmp 2001:db8::1", None)),
        (v4, "47", "", "", ("47 203.0.113.1", None)),
        (v6, "50", "", "", ("50 2001:db8::1", None)),
    ] {
        let (service, port) = case(protocol, vip, backend, ports, backend_port);
        assert_eq!((service.as_str(), port), expected);
    }
}

#[test]
fn each_kind_of_check_is_read() {
    let from = EXAMPLE.find("  healthCheck").unwrap();
    let read = |check: &str| {
        mapping(&format!("{}  healthCheck: {check}\n", &EXAMPLE[..from])).spec.health_check
    };
    assert_eq!(read("{type: DISABLED}"), HealthCheck::Disabled);
    assert_eq!(check(&read("{type: TCP}")).probe, Probe::Tcp);
    assert_eq!(check(&read("{type: ICMP, failOpen: true}")).probe, Probe::Icmp);
    assert!(check(&read("{type: ICMP, failOpen: true}")).fail_open);
    let https = read("{type: HTTPS, httpHost: web.example, httpExpectedStatus: 404}");
    let Probe::Https(request) = &check(&https).probe else { panic!("{https:?}") };
    assert_eq!(request.host.as_ref().unwrap().as_str(), "web.example");
    assert_eq!(request.expected_status.get(), 404);
}

#[test]
fn a_mapping_without_backends_keeps_its_vip() {
    let text = "type: NATLBMappings.lb.siha\nmetadata: {namespace: lb, id: web}\nspec: {vipAddress: \
                203.0.113.10, vipPort: 0, protocol: udp, healthCheck: {type: TCP}, backends: []}\n";
    assert_eq!(mapping(text).spec.backends, []);
}

#[test]
fn empty_documents_and_files_say_nothing() {
    let text = format!("---\n---\n# only a comment\n---\n{EXAMPLE}---\n");
    mapping(&text);
    assert_eq!(read(&[("a.yaml", ""), ("b.yaml", "# nothing\n")]).unwrap().mappings().len(), 0);
    assert_eq!(read(&[]).unwrap().mappings().len(), 0);
}

#[test]
fn json_is_read_too() {
    let json = serde_json::to_string(&mapping(EXAMPLE)).unwrap();
    assert_eq!(mapping(&json), mapping(EXAMPLE));
}

#[test]
fn json_has_the_names_of_the_resource() {
    let shown = serde_json::to_value(mapping(EXAMPLE)).unwrap();
    let expected = serde_json::json!({
        "type": "NATLBMappings.lb.siha",
        "metadata": {"namespace": "lb", "id": "web"},
        "spec": {
            "vipAddress": "203.0.113.10", "vipPort": 443, "protocol": "tcp", "twiceNat": true,
            "affinityTimeoutSec": 0,
            "backends": [
                {"name": "backend-1", "address": "10.0.1.11", "port": 8443, "weight": 10},
                {"name": "backend-2", "address": "10.0.1.12", "port": 8443, "weight": 10},
            ],
            "healthCheck": {
                "type": "HTTP", "port": 8443, "httpPath": "/healthz", "httpExpectedStatus": 200,
                "intervalMs": 5000, "timeoutMs": 2000, "healthyThreshold": 2,
                "unhealthyThreshold": 3, "failOpen": false,
            },
            "selection": "maglev", "tableSize": 65537, "onDown": "keep", "icmpPerSequence": false,
        },
    });
    assert_eq!(shown, expected);
}
