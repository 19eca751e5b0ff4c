//! The examples that are shipped are good ones.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use lb_api::NodeView;
use lb_node::config::Config;
use lb_node::resources::Files;
use std::path::{Path, PathBuf};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples")
}

#[test]
fn the_example_node_says_what_is_the_default_anyway_and_more() {
    let config = Config::load(&examples().join("lb-node.toml")).unwrap();
    let text = "interfaces = [\"eth0\", \"eth1\"]\nresources = \"/etc/castellum/lb-node.d\"\n";
    let shortest = Config::parse("shortest", text).unwrap();
    let same = Config { state: None, pins: None, ops: None, ..config.clone() };
    assert_eq!(same, shortest);
    assert!(config.state.is_some() && config.pins.is_some() && config.ops.is_some());
}

#[test]
fn the_commented_pool_of_the_example_is_good_too() {
    let text = std::fs::read_to_string(examples().join("lb-node.toml")).unwrap();
    let pool: String = text
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .skip_while(|line| !line.starts_with("[["))
        .take_while(|line| line.starts_with("[[") || line.contains(" = "))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = Config::parse("with a pool", &format!("{text}{pool}")).unwrap();
    assert_eq!(config.pools.len(), 1);
}

#[test]
fn the_example_resources_are_read_without_a_problem() {
    let files = Files::read(&examples().join("lb-node.d")).unwrap();
    let resources = files.resources(&NodeView { pools: &[] }).unwrap();
    let names: Vec<_> = resources.mappings().map(lb_api::NatLbMapping::name).collect();
    assert_eq!(names, ["lb/web", "lb/web-ping"]);
}

#[test]
fn what_is_kept_reads_back_as_the_same_resources() {
    let state = std::env::temp_dir().join(format!("lb-node-kept-{}", std::process::id()));
    let files = Files::read(&examples().join("lb-node.d")).unwrap();
    files.keep(&state).unwrap();
    let view = NodeView { pools: &[] };
    let (kept, read) = (Files::kept(&state).unwrap(), files);
    let names =
        |files: &Files| -> Vec<_> { files.resources(&view).unwrap().mappings().cloned().collect() };
    assert_eq!(names(&kept), names(&read));
    std::fs::remove_dir_all(&state).unwrap();
}
