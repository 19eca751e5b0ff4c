//! The manual pages and ARCHITECTURE.md say what the programs are: every option, key, default,
//! statistic and drop reason is in its page, and every test that is named exists.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

use balance::rendezvous::Rows;
use clap::{Command, CommandFactory};
use daemon::metrics::Exposition;
use daemon::ops::Source;
use datapath::DropReason;
use gredist::args::Args;
use gredist::config::{Config, KEYS};
use gredist::lab::{send, sink};
use gredist::snapshot::{Compiled, rows};
use gredist::statistics::Statistics;
use gredist::status::{BackendState, Status};
use health::State;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SHORTEST: &str = "frontend=192.0.2.1\nbackend=10.0.0.1\n";
const PAGES: [&str; 3] = ["gredist.8", "gre-send.1", "gre-sink.1"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn page() -> String {
    read("man/gredist.8")
}

/// The lines of one section of a page.
fn section<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!(".Sh {name}\n")).unwrap();
    rest.split("\n.Sh ").next().unwrap()
}

/// The cells of the table of keys: key, type, range, default.
fn table(page: &str) -> Vec<Vec<String>> {
    let rows = section(page, "CONFIGURATION").lines();
    let rows =
        rows.filter_map(|line| line.strip_prefix(".It Ic ")).filter(|row| row.contains(" Ta "));
    rows.map(|row| row.split(" Ta ").map(str::to_owned).collect()).collect()
}

fn with(key: &str, value: &str) -> Config {
    let text = format!("{SHORTEST}{key}={value}\n");
    Config::parse("manual", &text).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_key_has_its_row_and_its_paragraph_in_order() {
    let page = page();
    let keys: Vec<String> = table(&page).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(keys, KEYS);
    for key in KEYS {
        assert!(page.contains(&format!("\n.It Ic {key}\n")), "{key} is not explained");
    }
}

#[test]
fn every_default_of_the_page_is_the_default() {
    let shortest = Config::parse("manual", SHORTEST).unwrap();
    for row in table(&page()) {
        let [key, _, _, default] = row.as_slice() else { panic!("{row:?}") };
        match default.as_str() {
            "required" => assert!(["frontend", "backend"].contains(&key.as_str()), "{key}"),
            "none" => {}
            value => assert_eq!(with(key, value), shortest, "{key}={value}"),
        }
    }
    assert_eq!((shortest.prefix, shortest.pool, shortest.ops), (None, vec![], None));
}

#[test]
fn both_ends_of_every_range_are_accepted() {
    let mut tried = 0;
    for row in table(&page()) {
        let [key, _, range, _] = row.as_slice() else { panic!("{row:?}") };
        let Some((least, greatest)) = range.split_once(" to ") else { continue };
        if key == "backend" || key == "check_timeout" {
            continue;
        }
        with(key, least);
        with(key, greatest);
        tried += 1;
    }
    assert_eq!(tried, 9);
}

#[test]
fn every_drop_reason_is_explained_and_no_other() {
    let page = page();
    let lines = section(&page, "DROP REASONS").lines();
    let explained: Vec<&str> = lines.filter_map(|line| line.strip_prefix(".It Cm ")).collect();
    let reasons: Vec<&str> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(explained, reasons);
}

#[test]
fn every_long_option_is_in_its_page_and_no_other() {
    let commands: [Command; 3] = [Args::command(), send::Args::command(), sink::Args::command()];
    for (name, mut command) in PAGES.into_iter().zip(commands) {
        command.build();
        let options: BTreeSet<String> =
            command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect();
        let page = read(&format!("man/{name}"));
        // `.Fl -check-config`, or `| -help` behind another one.
        let words = page.split([' ', '\n']).filter_map(|word| word.strip_prefix('-'));
        let is_option = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
        let written: BTreeSet<String> = page
            .lines()
            .filter(|line| line.starts_with(".It Fl ") || line.starts_with(".Op Fl "))
            .flat_map(|line| line.split(' '))
            .filter_map(|word| word.strip_prefix('-'))
            .filter(is_option)
            .map(str::to_owned)
            .chain(words.filter(|word| ["help", "version"].contains(word)).map(str::to_owned))
            .collect();
        assert_eq!(written, options, "{name}");
    }
}

#[test]
fn every_statistic_is_in_the_page() {
    let config = Config::parse("manual", SHORTEST).unwrap();
    let rows: Rows = rows(&config);
    let status = Status::new(Arc::new(Statistics::default()));
    let state = BackendState { state: State::Up, weight: 1, cause: None };
    let snapshot = Arc::new(Compiled::new(&config, None).snapshot(&rows));
    status.publish(snapshot, vec![state], &rows);

    let page = page();
    let mut metrics = Exposition::new();
    status.metrics(&mut metrics);
    let text = metrics.to_string();
    let names: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(names.len() > 10, "{text}");
    for name in names {
        assert!(page.contains(&format!("\n.It Li {name} ")), "{name}");
    }
    let json = status.status();
    let backend = json["backends"][0].as_object().unwrap().keys();
    let statistics = section(&page, "STATISTICS");
    let words: BTreeSet<&str> = statistics.split([' ', '\n', ',', '.']).collect();
    for member in json.as_object().unwrap().keys().chain(backend) {
        assert!(words.contains(member.as_str()), "{member}");
    }
}

#[test]
fn mandoc_finds_nothing_to_say_about_the_pages() {
    let pages = std::fs::read_dir(root().join("man")).unwrap();
    let pages: Vec<PathBuf> = pages.map(|entry| entry.unwrap().path()).collect();
    let mut mandoc = std::process::Command::new("mandoc");
    match mandoc.args(["-Tlint", "-Wwarning"]).args(&pages).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.is_empty(), "{said}");
        }
        Err(error) => {
            let required = std::env::var_os("LABS").is_some_and(|labs| labs == "required");
            assert!(!required, "LABS=required, but: mandoc: {error}");
            println!("skipped: mandoc: {error}");
        }
    }
}

/// The tests that ARCHITECTURE.md names are in the tree: `test_name` in the last column of the
/// table of invariants.
#[test]
fn every_test_that_the_architecture_names_exists() {
    let text = read("ARCHITECTURE.md");
    let (_, invariants) = text.split_once("\n## Invariants\n").unwrap();
    let invariants = invariants.split("\n## ").next().unwrap();
    let rows = invariants.lines().filter(|line| line.starts_with("| ")).skip(1);
    let sources = sources(&root().join("crates"));
    let mut checked = 0;
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            let function = format!("fn {name}(");
            assert!(sources.contains(&function), "there is no test {name}");
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} tests are named");
    assert!(text.lines().count() <= 200, "ARCHITECTURE.md has more than 200 lines");
}

/// All Rust sources below a folder, as one text.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    text
}
