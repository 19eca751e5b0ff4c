//! cargo-deny: licences, sources and known vulnerabilities of the dependencies.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use netio::process::wait_until;

use crate::Missing;
use crate::command::{cargo, run};
use crate::report::Outcome;
use crate::tool::Tool;

/// At the version whose configuration and findings `deny.toml` was written for.
const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", minutes: "about 2 minutes" };
/// How long the database of advisories may take to answer.
const DATABASE_LIMIT: Duration = Duration::from_secs(30);

/// Licences, sources and duplicates of the dependencies.
pub(crate) fn check(missing: Missing) -> anyhow::Result<Outcome> {
    let Some(program) = DENY.find(missing)? else {
        return Ok(Outcome::Skipped(DENY.how_to_install("check")));
    };
    let check = ["check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    run(in_workspace(&program)?.args(check))?;
    Ok(Outcome::Passed)
}

/// Known vulnerabilities of the dependencies, where the database can be reached.
pub(crate) fn advisories(missing: Missing) -> anyhow::Result<Outcome> {
    let Some(program) = DENY.find(missing)? else {
        return Ok(Outcome::Skipped(DENY.how_to_install("check")));
    };
    let mut fetch = in_workspace(&program)?;
    let mut fetch = fetch
        .args(["fetch", "db"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start cargo-deny")?;
    match wait_until(&mut fetch, DATABASE_LIMIT)? {
        Some(status) if status.success() => {}
        late_or_failed => {
            if late_or_failed.is_none() {
                fetch.kill()?;
                fetch.wait()?;
            }
            let why = "their database is a git repository that cannot be reached from here";
            return Ok(Outcome::Skipped(why.to_owned()));
        }
    }
    let check = ["--offline", "check", "--hide-inclusion-graph", "advisories"];
    run(in_workspace(&program)?.args(check))?;
    Ok(Outcome::Passed)
}

fn in_workspace(program: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(program);
    command.current_dir(crate::command::root()).stdin(Stdio::null());
    // cargo-deny asks cargo; the one that runs now, not another in PATH.
    command.env("CARGO", cargo([""]).get_program());
    Ok(command)
}
