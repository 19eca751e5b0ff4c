//! `cargo xtask fuzz TARGET [SECONDS]`: libFuzzer with the stable compiler, without cargo-fuzz.
//!
//! What it finds is kept under `target/fuzz`: inputs that reach new code in `corpus/TARGET`, inputs
//! that crash in `crashes/TARGET`. `fuzz/corpus/TARGET` only seeds it, so that a run leaves the
//! source tree as it was.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

use crate::command::{cargo, root, run, target_directory};
use crate::report::{Outcome, Report};

/// Coverage as libFuzzer reads it; one codegen unit, so that counters are not merged away.
const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Ccodegen-units=1";

/// Builds `target` and runs it for `seconds`.
pub(crate) fn run_task(target: &str, seconds: u32) -> anyhow::Result<ExitCode> {
    let known = targets(&root().join("fuzz"))?;
    if !known.iter().any(|name| name == target) {
        bail!("no fuzz target {target:?}; there are: {}", known.join(", "));
    }
    let work = target_directory()?.join("fuzz");
    let mut report = Report::default();
    let built = report.step("build", "mend what rustc names", || build(&work));
    if built {
        let advice = format!("the input is in {}", work.join("crashes").join(target).display());
        report.step("fuzz", &advice, || hunt(&work, target, seconds));
    }
    Ok(report.finish())
}

/// Prints the targets.
pub(crate) fn list() -> anyhow::Result<ExitCode> {
    println!("cargo xtask fuzz TARGET [SECONDS]; targets:");
    for target in targets(&root().join("fuzz"))? {
        println!("  {target}");
    }
    Ok(ExitCode::SUCCESS)
}

fn targets(fuzz: &Path) -> anyhow::Result<Vec<String>> {
    let folder = fuzz.join("fuzz_targets");
    let mut targets = Vec::new();
    let entries = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "rs")
            && let Some(name) = path.file_stem()
        {
            targets.push(name.to_string_lossy().into_owned());
        }
    }
    targets.sort();
    Ok(targets)
}

fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn build(work: &Path) -> anyhow::Result<Outcome> {
    let mut command = cargo(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
    // With a target named, the flags do not reach build scripts, which have no fuzzer to report to.
    command.args(["--target", &triple(), "--target-dir"]).arg(work);
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS);
    run(&mut command)?;
    Ok(Outcome::Passed)
}

fn hunt(work: &Path, target: &str, seconds: u32) -> anyhow::Result<Outcome> {
    let (corpus, crashes) = (work.join("corpus").join(target), work.join("crashes").join(target));
    for folder in [&corpus, &crashes] {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let mut command = Command::new(work.join(triple()).join("release").join(target));
    // libFuzzer writes to the first folder and only reads the others.
    command.arg(&corpus);
    let seeds = root().join("fuzz/corpus").join(target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .stdin(Stdio::null());
    run(&mut command)?;
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_rust_files_in_order() {
        let fuzz = tempfile::tempdir().unwrap();
        let folder = fuzz.path().join("fuzz_targets");
        fs::create_dir_all(&folder).unwrap();
        for name in ["wire_gre.rs", "config.rs", "README.md"] {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(targets(fuzz.path()).unwrap(), ["config", "wire_gre"]);
    }

    #[test]
    fn a_workspace_without_fuzz_targets_says_where_they_would_be() {
        let error = targets(Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.to_string(), "read /nowhere/fuzz_targets");
    }
}
