//! The manual page says what the program is: every option, key, default and drop reason is in it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

use clap::CommandFactory;
use datapath::lb::DropReason;
use lb_node::args::Args;
use lb_node::config::{Config, KEYS, POOL_KEYS, TIMEOUT_KEYS, Timeouts};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man/lb-node.8");
    std::fs::read_to_string(path).unwrap()
}

/// The lines of one section.
fn section(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!(".Sh {name}\n")).unwrap();
    rest.split("\n.Sh ").next().unwrap().to_owned()
}

#[test]
fn every_option_is_explained() {
    let (page, command) = (page(), Args::command());
    for argument in command.get_arguments() {
        let Some(long) = argument.get_long() else { continue };
        assert!(page.contains(&format!("Fl -{long}")), "--{long} is not explained");
    }
}

#[test]
fn every_command_is_explained_with_its_options() {
    let (section, command) = (section(&page(), "COMMANDS"), Args::command());
    for command in command.get_subcommands() {
        let name = command.get_name();
        assert!(section.contains(&format!(".It Cm {name}")), "{name} is not explained");
        for long in command.get_arguments().filter_map(|argument| argument.get_long()) {
            let is_explained = long == "config" || section.contains(&format!("Fl -{long}"));
            assert!(is_explained, "{name} --{long} is not explained");
        }
    }
}

#[test]
fn every_key_is_explained_and_no_other() {
    let section = section(&page(), "CONFIGURATION");
    let explained: BTreeSet<&str> =
        section.lines().filter_map(|line| line.strip_prefix(".It Ic ")).collect();
    assert_eq!(explained, KEYS.iter().copied().collect());
    for key in POOL_KEYS.iter().chain(TIMEOUT_KEYS) {
        assert!(section.contains(&format!(".Ic {key}")), "{key} is not explained");
    }
}

#[test]
fn every_default_of_the_page_is_the_default() {
    let section = section(&page(), "CONFIGURATION");
    let shortest = "interfaces = [\"eth0\"]\nresources = \"r\"\n";
    let config = Config::parse("manual", shortest).unwrap();
    let seconds = |time: Duration| time.as_secs().to_string();
    let Timeouts { udp, tcp_established, tcp_transitory, icmp, other } = config.timeouts;
    for default in [
        config.sessions.to_string(),
        format!("{}-{}", config.snat_ports.start(), config.snat_ports.end()),
        seconds(config.transition),
        format!("({})", seconds(udp)),
        format!("({})", seconds(tcp_established)),
        format!("({}", seconds(tcp_transitory)),
        format!("({})", seconds(icmp)),
        format!("({})", seconds(other)),
    ] {
        assert!(section.contains(&default), "{default}");
    }
    assert_eq!(config.half_open_sessions, config.sessions / 4);
}

#[test]
fn every_drop_reason_is_explained_as_the_commands_explain_it() {
    let text = section(&page(), "DROPS").replace('\n', " ");
    for reason in DropReason::ALL {
        let said = format!(".It Li {} {}", reason.name(), reason.explanation());
        assert!(text.contains(&said), "{said}");
    }
}

#[test]
fn every_drop_reason_is_explained_and_no_other() {
    let section = section(&page(), "DROPS");
    let explained: Vec<&str> =
        section.lines().filter_map(|line| line.strip_prefix(".It Li ")).collect();
    let reasons: Vec<&str> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(explained, reasons);
}

#[test]
fn every_field_of_a_mapping_is_explained() {
    let section = section(&page(), "RESOURCES");
    for field in [
        "vipAddress",
        "vipPort",
        "protocol",
        "twiceNat",
        "affinityTimeoutSec",
        "backends",
        "name",
        "address",
        "port",
        "weight",
        "healthCheck",
        "type",
        "httpPath",
        "httpExpectedStatus",
        "intervalMs",
        "timeoutMs",
        "healthyThreshold",
        "unhealthyThreshold",
        "failOpen",
        "selection",
        "snatPool",
        "mssClamp",
        "onDown",
        "icmpPerSequence",
        "tableSize",
        "httpHost",
    ] {
        assert!(section.contains(field), "{field} is not explained");
    }
}
