//! `cargo xtask check`: everything that needs no test to run.

use std::process::ExitCode;

use crate::command::{cargo, run};
use crate::report::{Outcome, Report};
use crate::{Missing, deny, tidy};

/// Runs all of it, also after a failure: one run shows everything there is to mend.
pub(crate) fn run_task(missing: Missing) -> anyhow::Result<ExitCode> {
    let mut report = Report::default();
    report.step("format", "cargo fmt", || {
        run(&mut cargo(["fmt", "--all", "--check"]))?;
        Ok(Outcome::Passed)
    });
    report.step("clippy", "mend what it names; an exception needs a reason", || {
        run(&mut cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
        Ok(Outcome::Passed)
    });
    report.step("tidy", "mend what it names; the rules are in CONTRIBUTING.md", tidy::step);
    report.step("dependencies", "see deny.toml; `cargo tree -i CRATE` shows who uses it", || {
        deny::check(missing)
    });
    report.step("advisories", "update the crate: `cargo update -p CRATE`", || {
        deny::advisories(missing)
    });
    Ok(report.finish())
}
