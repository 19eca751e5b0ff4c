//! What is accepted, what is refused, and in which words.

use super::*;

fn errors(text: &str) -> Vec<String> {
    match Config::parse("edge.conf", text) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(diagnostics) => diagnostics.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_shortest_configuration_has_the_documented_defaults() {
    let config = Config::parse("e", "frontend=192.0.2.1\nbackend=10.0.0.1\n").unwrap();
    assert_eq!(config.policy, Policy::default());
    assert_eq!(config.key_mask, 0xffff_ffff);
    assert_eq!(config.client_timeout, Duration::from_secs(300));
    assert_eq!((config.client_limit, config.error_rate), (65_536, 100));
    assert_eq!((config.receive_queue, config.send_queue), (4 << 20, 4 << 20));
    assert_eq!((config.prefix, config.pool, config.ops), (None, vec![], None));
    assert!(config.backends.iter().all(|backend| backend.weight == Weight::ONE));
}

#[test]
fn every_key_is_read() {
    let config = Config::parse(
        "e",
        "frontend=2001:db8::47\nbackend=10.0.0.1 weight=3\nbackend=2001:db8:1::1\n\
         check_interval=500ms\ncheck_timeout=200ms\ncheck_fall=3\ncheck_rise=4\n\
         key_mask=0xffffff00\npool=192.0.2.0/28\npool=198.51.100.1/32\nclient_timeout=1m\n\
         client_limit=10\nreceive_queue=1MiB\nsend_queue=64KiB\nerror_rate=5\nops=[::1]:9147\n",
    )
    .unwrap();
    assert_eq!(config.policy.interval, Duration::from_millis(500));
    assert_eq!((config.policy.fall.get(), config.policy.rise.get()), (3, 4));
    assert_eq!(config.key_mask, 0xffff_ff00);
    assert_eq!(config.pool.len(), 2);
    assert_eq!(config.backends[0].weight.get(), 3);
    assert_eq!(config.ops, Some("[::1]:9147".parse().unwrap()));
    assert!(config.is_mixed());
}

#[test]
fn every_error_of_a_file_is_reported_at_once_with_its_line() {
    let found = errors(
        "frontend=192.0.2.1\nfrontend=192.0.2.2\nbackend=10.0.0.300\nbackends=10.0.0.1\n\
         check_interval=2\nkey_mask=0xfffffffff\nnonsense\n",
    );
    assert_eq!(
        found,
        [
            "edge.conf:2: frontend=192.0.2.2: frontend is already set in line 1: remove one of the two",
            "edge.conf:3: backend=10.0.0.300: not an IPv4 or IPv6 address",
            "edge.conf:4: backends=10.0.0.1: unknown key: did you mean backend?",
            "edge.conf:5: check_interval=2: add a unit (ms, s, m or h)",
            "edge.conf:6: key_mask=0xfffffffff: not a 32-bit number: write it in decimal, or in \
             hexadecimal as 0xffffff00",
            "edge.conf:7: nonsense: expected key=value",
        ]
    );
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(
        errors("# nothing\n"),
        [
            "edge.conf: frontend: missing: add frontend=ADDRESS, where clients send to",
            "edge.conf: backend: missing: add at least one backend=ADDRESS",
        ]
    );
}

#[test]
fn contradictions_are_refused() {
    let v4 = "frontend=192.0.2.1\nbackend=10.0.0.1\n";
    let v6 = "frontend=2001:db8::47\nbackend=2001:db8::1\n";
    for (text, expected) in [
        (format!("{v4}backend=10.0.0.1\n"), "the same backend as in line 2"),
        (format!("{v4}backend=192.0.2.1\n"), "the frontend itself"),
        (format!("{v4}backend=2001:db8::1\n"), "needs prefix=PREFIX/96"),
        (format!("{v6}backend=10.0.0.1\n"), "needs pool=PREFIX"),
        (format!("{v4}pool=192.0.2.128/28\n"), "of no use with an IPv4 frontend"),
        (format!("{v6}prefix=2001:db8:64::/96\n"), "of no use with an IPv6 frontend"),
        (format!("{v4}prefix=2001:db8:64::/64\n"), "must be an IPv6 prefix of length 96"),
        (format!("{v4}prefix=192.0.2.128/28\n"), "must be an IPv6 prefix of length 96"),
        (format!("{v6}pool=2001:db8:64::/96\n"), "must be an IPv4 prefix"),
        (format!("{v6}backend=10.0.0.1\npool=10.0.0.0/24\n"), "contains the backend 10.0.0.1"),
        (format!("{v6}pool=10.0.0.0/8\n"), "more than 4096 addresses"),
        (format!("{v6}pool=10.0.0.0/24\npool=10.0.0.8/32\n"), "overlaps the pool in line 3"),
        (format!("{v4}backend=2001:db8::1\nprefix=2001:db8::/96\n"), "contains the backend"),
        (format!("{v4}prefix=::ffff:0:0/96\n"), "not a prefix that can be routed"),
        (format!("{v4}prefix=fe80::/96\n"), "not a prefix that can be routed"),
        (format!("{v4}prefix=ff05::/96\n"), "not a prefix that can be routed"),
        (format!("{v4}backend=::ffff:10.0.0.2\n"), "write 10.0.0.2"),
        (format!("{v4}backend=fe80::1\n"), "link-local"),
        (format!("{v4}backend=224.0.0.1\n"), "not the unicast address"),
        (format!("{v4}backend=10.0.0.2 weight=0\n"), "weight must be 1 to 255"),
        (format!("{v4}backend=10.0.0.2 wieght=1\n"), "only weight=N may follow"),
        (format!("{v4}check_timeout=3s\n"), "longer than the interval"),
        (format!("{v4}check_timeout=1s\ncheck_interval=5ms\n"), "check_interval=5ms: an interval"),
        (format!("{v6}backend=10.0.0.1\npool=10.9.0.1/24\n"), "write 10.9.0.0/24"),
        (format!("{v6}pool=127.0.0.0/28\n"), "not a prefix that can be routed"),
        (format!("{v6}pool=224.0.0.0/28\n"), "not a prefix that can be routed"),
        (format!("{v4}prefix=::/96\n"), "not a prefix that can be routed"),
        (format!("{v4}backend=169.254.1.1\n"), "not the unicast address"),
        (format!("{v4}check_fall=0\n"), "must be 1 to 100"),
        (format!("{v4}receive_queue=1\n"), "must be 4KiB to 1GiB"),
        (format!("{v4}client_timeout=1ms\n"), "must be 1s to 24h"),
        (format!("{v4}client_timeout=86400001ms\n"), "must be 1s to 24h"),
        (format!("{v4}ops=9147\n"), "not an address with a port"),
        (format!("{v4}Check-Fall=1\n"), "did you mean check_fall?"),
    ] {
        let found = errors(&text);
        assert_eq!(found.len(), 1, "{text}{found:?}");
        assert!(found[0].contains(expected), "{text}{found:?}");
    }
}

#[test]
fn a_short_interval_shortens_the_default_timeout() {
    let text = "frontend=192.0.2.1\nbackend=10.0.0.1\ncheck_interval=100ms\n";
    let config = Config::parse("e", text).unwrap();
    assert_eq!(config.policy.timeout, Duration::from_millis(100));
}
