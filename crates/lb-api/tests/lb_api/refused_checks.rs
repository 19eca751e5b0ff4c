//! One wrong health check for each rule, with what it says.

use crate::support::{EXAMPLE, check, problems};

const HTTP: &str = "type: HTTP,";

#[test]
fn health_checks_are_never_defaulted() {
    let all = "DISABLED, TCP, HTTP, HTTPS or ICMP";
    let from = EXAMPLE.find("  healthCheck").unwrap();
    assert_eq!(
        problems(&EXAMPLE[..from]),
        format!(
            "web.yaml:3: spec.healthCheck: missing: there is no default: add healthCheck with type {all}"
        )
    );
    check(&[(
        HTTP,
        "",
        &format!(
            "12: spec.healthCheck.type: missing: there is no default: add type: \
        {all}"
        ),
    )]);
    for unset in [
        "0",
        "~",
        "",
        "_UNSPECIFIED",
        "UNSPECIFIED",
        "HEALTH_CHECK_TYPE_UNSPECIFIED",
        "TYPE_UNSPECIFIED",
    ] {
        check(&[(
            HTTP,
            &format!("type: {unset},"),
            &format!(
                "12: spec.healthCheck.type: says nothing: \
            there is no default, must be {all}"
            ),
        )]);
    }
    check(&[
        (
            HTTP,
            "type: http,",
            &format!(
                "12: spec.healthCheck.type: `http` is unknown: must be {all}; \
            did you mean HTTP?"
            ),
        ),
        (
            HTTP,
            "type: GRPC,",
            &format!("12: spec.healthCheck.type: `GRPC` is unknown: must be {all}"),
        ),
        (HTTP, "type: 1,", &format!("12: spec.healthCheck.type: `1` is unknown: must be {all}")),
        (HTTP, "type: {},", &format!("12: spec.healthCheck.type: is a mapping, must be {all}")),
    ]);
}

#[test]
fn the_request_of_health_checks_is_checked() {
    check(&[
        (
            "HTTP, port: 8443",
            "HTTP, port: 0",
            "12: spec.healthCheck.port: `0` is out of range: must be \
            1 to 65535",
        ),
        (
            "/healthz",
            "healthz",
            "12: spec.healthCheck.httpPath: `healthz`: must begin with / and be at \
            most 1024 visible ASCII characters without #: write others as %20 and the like",
        ),
        (
            "/healthz",
            "/healthz, httpHost: 'a b'",
            "12: spec.healthCheck.httpHost: `a b`: must be a host \
            name or address with or without a port, at most 259 characters",
        ),
        (
            "httpExpectedStatus: 200",
            "httpExpectedStatus: 99",
            "12: spec.healthCheck.httpExpectedStatus: \
            `99` is out of range: must be 100 to 599",
        ),
    ]);
}

#[test]
fn the_schedule_of_health_checks_is_checked() {
    check(&[
        (
            "intervalMs: 5000",
            "intervalMs: 9",
            "13: spec.healthCheck.intervalMs: `9` is out of range: \
            must be 10 to 3600000",
        ),
        (
            "timeoutMs: 2000",
            "timeoutMs: 0",
            "13: spec.healthCheck.timeoutMs: `0` is out of range: must \
            be 1 to 3600000",
        ),
        (
            "timeoutMs: 2000",
            "timeoutMs: 5001",
            "13: spec.healthCheck.timeoutMs: 5001 is longer than \
            intervalMs, 5000: shorten it, or check less often",
        ),
        (
            " healthyThreshold: 2",
            " healthyThreshold: 0",
            "13: spec.healthCheck.healthyThreshold: `0` is \
            out of range: must be 1 to 100",
        ),
        (
            "unhealthyThreshold: 3",
            "unhealthyThreshold: 101",
            "13: spec.healthCheck.unhealthyThreshold: \
            `101` is out of range: must be 1 to 100",
        ),
        (
            "failOpen: false",
            "failOpen: maybe",
            "13: spec.healthCheck.failOpen: is text (`maybe`), must \
            be true or false",
        ),
        (
            "httpPath",
            "path",
            "12: spec.healthCheck.path: unknown field: known are type, port, httpPath, \
            httpExpectedStatus, httpHost, intervalMs, timeoutMs, healthyThreshold, \
            unhealthyThreshold, failOpen",
        ),
        (
            HTTP,
            "type: TCP,",
            "12: spec.healthCheck.httpPath: has no effect with type TCP: remove it\n\
            12: spec.healthCheck.httpExpectedStatus: has no effect with type TCP: remove it",
        ),
    ]);
    let from = EXAMPLE.find("  healthCheck").unwrap();
    for (check, expected) in [
        ("{type: ICMP, port: 7}", "port: has no effect with type ICMP: remove it"),
        (
            "{type: DISABLED, failOpen: true}",
            "failOpen: has no effect with type DISABLED: remove it",
        ),
    ] {
        let text = format!("{}  healthCheck: {check}\n", &EXAMPLE[..from]);
        assert_eq!(problems(&text), format!("web.yaml:12: spec.healthCheck.{expected}"));
    }
}

#[test]
fn a_probe_of_a_port_needs_one() {
    for kind in ["TCP", "HTTP", "HTTPS"] {
        let text = format!(
            "type: NATLBMappings.lb.siha\nmetadata: {{namespace: lb, id: web}}\nspec:\n  vipAddress: \
             203.0.113.10\n  protocol: 47\n  healthCheck: {{type: {kind}}}\n  backends: [{{name: a, \
             address: 10.0.0.1}}]\n"
        );
        assert_eq!(
            problems(&text),
            "web.yaml:6: spec.healthCheck.port: missing: backend a has no port \
            to probe: add port: NUMBER"
        );
    }
}
