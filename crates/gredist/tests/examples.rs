//! The configurations in `deploy/examples` are good, and say what their names promise.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

use gredist::config::Config;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples")
}

fn load(name: &str) -> Config {
    Config::load(&directory().join(name)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn backends(config: &Config) -> Vec<IpAddr> {
    config.backends.iter().map(|backend| backend.address).collect()
}

const V4: [&str; 2] = ["172.16.10.10", "172.16.10.11"];
const V6: [&str; 2] = ["2a02:8012:bc57:100::10", "2a02:8012:bc57:100::11"];

#[test]
fn each_example_has_the_frontend_and_backends_of_its_families() {
    let (v4, v6) = ("217.155.241.55", "2a02:8012:bc57::47");
    for (name, frontend, expected) in [
        ("gredist-v4.conf", v4, V4),
        ("gredist-v6.conf", v6, V6),
        ("gredist-mixed-v4.conf", v4, V6),
        ("gredist-mixed-v6.conf", v6, V4),
        ("gredist-nvgre.conf", v4, V4),
    ] {
        let config = load(name);
        assert_eq!(config.frontend, address(frontend), "{name}");
        assert_eq!(backends(&config), expected.map(address), "{name}");
        assert_eq!(config.is_mixed(), name.contains("mixed"), "{name}");
    }
}

#[test]
fn the_mixed_examples_have_a_way_back() {
    let prefix = load("gredist-mixed-v4.conf").prefix;
    assert_eq!(prefix, Some("2a02:8012:bc57:64::/96".parse().unwrap()));
    let pool = load("gredist-mixed-v6.conf").pool;
    assert_eq!(pool, ["172.16.64.0/24".parse().unwrap()]);
}

#[test]
fn the_nvgre_example_masks_the_flow_bits_and_no_other_does() {
    assert_eq!(load("gredist-nvgre.conf").key_mask, 0xffff_ff00);
    assert_eq!(load("gredist-v4.conf").key_mask, u32::MAX);
}

/// A new file must be good as well, and what its comments offer must be good too.
#[test]
fn every_file_is_good_with_and_without_what_its_comments_offer() {
    let mut seen = 0;
    for entry in std::fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "conf") {
            continue; // another tier's
        }
        if let Err(errors) = Config::load(&path) {
            panic!("{errors}");
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let is_offer = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
        let offers: Vec<&str> = text.lines().filter(is_offer).collect();
        let offered = offers.iter().map(|line| line.trim_start_matches('#'));
        let whole: Vec<&str> = text.lines().chain(offered).collect();
        if let Err(errors) = Config::parse(&path.display().to_string(), &whole.join("\n")) {
            panic!("{errors}");
        }
        seen += 1;
    }
    assert!(seen >= 5, "{seen} examples");
}
