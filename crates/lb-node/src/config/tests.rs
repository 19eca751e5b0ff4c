//! What a node's configuration may say.

use super::*;

const SMALLEST: &str = "interfaces = [\"eth0\"]\nresources = \"/etc/castellum/lb\"\n";

fn errors(text: &str) -> String {
    Config::parse("lb-node.toml", text).unwrap_err().to_string()
}

#[test]
fn the_smallest_file_has_every_default() {
    let config = Config::parse("lb-node.toml", SMALLEST).unwrap();
    assert_eq!(config.interfaces, ["eth0"]);
    assert_eq!(config.data_plane, DataPlane::Native);
    assert_eq!(config.snat_ports, 16_384..=65_535);
    assert_eq!((config.sessions, config.half_open_sessions), (524_288, 131_072));
    assert_eq!(config.timeouts, Timeouts::default());
    assert_eq!(config.transition, Duration::from_secs(300));
    assert!(config.ops.is_none() && config.pools.is_empty() && config.state.is_none());
}

#[test]
fn every_key_is_read() {
    let text = "interfaces = [\"eth0\", \"eth1\"]\ndataplane = \"xdp-generic\"\n\
        resources = \"r\"\nstate = \"s\"\nops = \"127.0.0.1:9465\"\n\
        snat_ports = \"20000-30000\"\nsessions = 4096\nhalf_open_sessions = 64\n\
        transition_sec = 10\n[timeouts]\nudp_sec = 30\n\
        [[snat_pools]]\nname = \"edge\"\naddresses = [\"203.0.113.4-203.0.113.7\", \"203.0.113.9\"]\n\
        ports = \"1024-2047\"\n";
    let config = Config::parse("lb-node.toml", text).unwrap();
    assert_eq!(config.interfaces, ["eth0", "eth1"]);
    assert_eq!(config.data_plane, DataPlane::Generic);
    assert_eq!(config.ops, Some("127.0.0.1:9465".parse().unwrap()));
    assert_eq!(config.snat_ports, 20_000..=30_000);
    assert_eq!((config.sessions, config.half_open_sessions), (4096, 64));
    assert_eq!(config.timeouts.udp, Duration::from_secs(30));
    let pool = config.pool(&"edge".parse().unwrap()).unwrap();
    assert_eq!((pool.addresses.addresses.len(), pool.ports.clone()), (2, 1024..=2047));
}

#[test]
fn all_errors_come_at_once_with_their_lines() {
    let text = "interfaces = []\ndataplane = \"dpdk\"\nops = \"here\"\nsesions = 5\n\
        snat_ports = \"9-1\"\nsessions = 7\n[timeouts]\nudp_sec = \"long\"\n\
        [[snat_pools]]\naddresses = [\"127.0.0.1\", \"10.0.0.9-10.0.0.1\"]\n";
    let shown = errors(text);
    for expected in [
        "lb-node.toml:1: interfaces: name at least one",
        "lb-node.toml:2: dataplane: \"dpdk\" is none; write \"xdp\" or \"xdp-generic\"",
        "lb-node.toml:3: ops:",
        "lb-node.toml:4: sesions: is no key",
        "lb-node.toml:5: snat_ports: \"9-1\": write two ports",
        "lb-node.toml:6: sessions: write a number from 1024 to 16777216",
        "lb-node.toml:8: udp_sec: write a number from 1 to 604800",
        "lb-node.toml:9: [[snat_pools]]: name is missing",
        "lb-node.toml:10: addresses: \"127.0.0.1\": 127.0.0.1 cannot be the source of a packet",
        "lb-node.toml:10: addresses: \"10.0.0.9-10.0.0.1\": the last address must follow",
        "lb-node.toml: resources: is missing",
    ] {
        assert!(shown.contains(expected), "{expected}\n--\n{shown}");
    }
}

#[test]
fn pools_share_neither_name_nor_address() {
    let pool = |name, addresses| {
        format!("[[snat_pools]]\nname = \"{name}\"\naddresses = [\"{addresses}\"]\n")
    };
    let same_name = [SMALLEST, &pool("a", "192.0.2.1"), &pool("a", "192.0.2.2")].concat();
    assert!(errors(&same_name).contains("lb-node.toml:7: name: a pool \"a\" stands there already"));
    let same_address =
        [SMALLEST, &pool("a", "192.0.2.1-192.0.2.9"), &pool("b", "192.0.2.9")].concat();
    assert!(errors(&same_address).contains("addresses: shares an address with pool \"a\""));
    let large = [SMALLEST, &pool("a", "10.0.0.0-10.0.16.0")].concat();
    assert!(errors(&large).contains("more than 4096 addresses"));
}

#[test]
fn a_syntax_error_has_its_line() {
    assert!(errors("interfaces = [\"eth0\"]\nops == 1\n").starts_with("lb-node.toml:2:"));
}
