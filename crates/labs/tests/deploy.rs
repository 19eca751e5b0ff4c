//! What stands beside the programs: the systemd unit as systemd itself reads it, its start as a
//! shell runs it, and the scripts.
//!
//! Starts no service: that takes a booted systemd.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use labs::peers::have;
use tempfile::TempDir;

const UNIT: &str = include_str!("../../../deploy/gredist@.service");
/// Every unit, by its name.
const UNITS: [(&str, &str); 2] = [
    ("gredist@.service", UNIT),
    ("lb-node.service", include_str!("../../../deploy/lb-node.service")),
];
const SCRIPTS: [&str; 2] = [".ci/run", "run-tests.sh"];
/// Highest exposure, in tenths, that `systemd-analyze security` may find; 30 is its "OK".
const THRESHOLD: &str = "--threshold=30";

#[test]
fn systemd_finds_nothing_to_say_about_the_units() {
    if !have("systemd-analyze", "systemd") {
        return;
    }
    let folder = TempDir::new().unwrap();
    for (name, unit) in UNITS {
        let output = verify(&folder, name, &installed(unit));
        assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
    }
}

#[test]
fn systemd_would_say_if_a_unit_had_a_key_it_does_not_know() {
    if !have("systemd-analyze", "systemd") {
        return;
    }
    let folder = TempDir::new().unwrap();
    for (name, unit) in UNITS {
        let unit = installed(unit).replace("[Service]\n", "[Service]\nProtectEverything=yes\n");
        let output = verify(&folder, name, &unit);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("ProtectEverything"), "{name}: {output:?}");
    }
}

#[test]
fn the_units_expose_little() {
    if !have("systemd-analyze", "systemd") {
        return;
    }
    let folder = TempDir::new().unwrap();
    for (name, unit) in UNITS {
        let file = write(&folder, name, &installed(unit));
        let mut security = Command::new("systemd-analyze");
        security.args(["security", "--offline=true", THRESHOLD, "--no-pager"]).arg(file);
        let output = output(&mut security);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn the_guard_is_loaded_before_the_start() {
    let loaded = start_pre("echo \"table of $2\"\n", "cat >\"$0.got\"\n");
    assert_eq!((loaded.code, loaded.got.as_deref()), (Some(0), Some("table of edge-1\n")));
}

#[test]
fn without_a_guard_the_service_does_not_start() {
    let refused = start_pre("exit 78\n", "cat >\"$0.got\"\n");
    assert_eq!((refused.code, refused.got), (Some(78), None), "a wrong configuration");
    let refused = start_pre("echo table\n", "exit 1\n");
    assert_eq!(refused.code, Some(1), "a table that nft refuses");
}

#[test]
fn shellcheck_finds_nothing_to_say_about_the_scripts() {
    if !have("shellcheck", "shellcheck") {
        return;
    }
    let mut check = Command::new("shellcheck");
    check.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).args(SCRIPTS);
    let output = output(&mut check);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The exit code of the unit's `ExecStartPre`, and what its nft was given.
struct StartPre {
    code: Option<i32>,
    got: Option<String>,
}

/// Runs the unit's `ExecStartPre` for the instance edge-1 with programs of the test in place of
/// gredist and nft.
fn start_pre(gredist: &str, nft: &str) -> StartPre {
    let folder = TempDir::new().unwrap();
    let (gredist, nft) = (write(&folder, "gredist", gredist), write(&folder, "nft", nft));
    // Run by sh, not by their names: a file just written may not be executed while another thread
    // forks (ETXTBSY).
    let by_sh = |program: &Path| format!("/bin/sh {}", program.display());
    let line =
        UNIT.lines().find_map(|line| line.strip_prefix("ExecStartPre=+/bin/sh -c ")).unwrap();
    // As systemd reads it: quotes off, then specifiers, then dollars (systemd.service(5)).
    let script = line.strip_prefix('\'').and_then(|line| line.strip_suffix('\'')).unwrap();
    let script = script
        .replace("%i", "edge-1")
        .replace("$$", "$")
        .replace("/usr/bin/gredist", &by_sh(&gredist))
        .replace("/usr/sbin/nft", &by_sh(&nft));
    let code = output(Command::new("/bin/sh").args(["-c", &script])).status.code();
    StartPre { code, got: fs::read_to_string(nft.with_extension("got")).ok() }
}

/// The unit as on a machine where its programs are installed; `verify` asks for them.
fn installed(unit: &str) -> String {
    let programs = ["/usr/bin/gredist", "/usr/bin/lb-node", "/usr/sbin/nft"];
    programs.iter().fold(unit.to_owned(), |unit, program| unit.replace(program, "/bin/true"))
}

fn verify(folder: &TempDir, name: &str, unit: &str) -> Output {
    let file = write(folder, name, unit);
    output(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(file))
}

fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    file
}
