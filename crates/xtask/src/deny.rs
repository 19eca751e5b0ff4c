//! cargo-deny at one version: found, or built into `target/tools`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use netio::process::wait_until;

use crate::Missing;
use crate::command::{cargo, run, target_directory};
use crate::report::Outcome;

/// The version whose configuration and findings `deny.toml` was written for.
const VERSION: &str = "0.20.2";
/// How long the database of advisories may take to answer.
const DATABASE_LIMIT: Duration = Duration::from_secs(30);

/// Licences, sources and duplicates of the dependencies.
pub(crate) fn check(missing: Missing) -> anyhow::Result<Outcome> {
    let Some(program) = find(missing)? else { return Ok(Outcome::Skipped(how_to_install())) };
    let check = ["check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    run(in_workspace(&program)?.args(check))?;
    Ok(Outcome::Passed)
}

/// Known vulnerabilities of the dependencies, where the database can be reached.
pub(crate) fn advisories(missing: Missing) -> anyhow::Result<Outcome> {
    let Some(program) = find(missing)? else { return Ok(Outcome::Skipped(how_to_install())) };
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
    let check = ["check", "--hide-inclusion-graph", "--disable-fetch", "advisories"];
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

fn how_to_install() -> String {
    format!(
        "cargo-deny {VERSION} is not there; `cargo xtask check --install` builds it (about 2 minutes)"
    )
}

/// Our own build, else one of the same version in `PATH`, else a new build.
fn find(missing: Missing) -> anyhow::Result<Option<PathBuf>> {
    let tools = target_directory()?.join("tools");
    let ours = tools.join("bin/cargo-deny");
    for candidate in [ours.clone(), PathBuf::from("cargo-deny")] {
        if version(&candidate).as_deref() == Some(VERSION) {
            return Ok(Some(candidate));
        }
    }
    match missing {
        Missing::Tell => Ok(None),
        Missing::Install => {
            install(&tools)?;
            match version(&ours) {
                Some(found) if found == VERSION => Ok(Some(ours)),
                found => bail!("built cargo-deny {VERSION} and found {found:?}"),
            }
        }
    }
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix("cargo-deny ").map(str::to_owned)
}

/// Builds it without its own release profile, whose fat LTO takes longer than every check will.
fn install(tools: &Path) -> anyhow::Result<()> {
    let scratch = tools.join("build");
    let mut command = cargo(["install", &format!("cargo-deny@{VERSION}"), "--locked", "--root"]);
    command
        .arg(tools)
        .env("CARGO_TARGET_DIR", &scratch)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    run(&mut command)?;
    fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_program_is_no_cargo_deny() {
        assert_eq!(version(Path::new("/bin/true")), None);
        assert_eq!(version(Path::new("/no/such/cargo-deny")), None);
    }
}
