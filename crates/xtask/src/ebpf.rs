//! `cargo xtask ebpf`: the packet core as a BPF object, checked in beside its source.
//!
//! ```text
//! crates/ebpf ──toolchain──> object with DWARF ──strip──> target/ebpf/castellum.bpf.o
//!                                              compare (--check) or copy │
//!                                                  crates/ebpf/castellum.bpf.o ──> crates/xdp
//! ```
//! The same sources give the same octets in any directory, so that a digest tells whether the
//! object that is checked in is the one that its sources say. `cargo xtask check` sees what is
//! left of the crate on the host, which is nothing; `--clippy` sees what is built for BPF.

mod strip;
mod toolchain;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use crate::Missing;
use crate::command::{root, run, target_directory};
use crate::report::{Outcome, Report, labs_required};
use toolchain::Toolchain;

/// The object's file name.
const OBJECT: &str = "castellum.bpf.o";
/// The object beside its source, from the root.
pub(crate) const CHECKED_IN: &str = "crates/ebpf/castellum.bpf.o";

/// What to do with the built object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Put it beside its source.
    Replace,
    /// Compare it with the one that is there.
    Check,
    /// Lint what is built only for BPF.
    Clippy,
}

/// `cargo xtask ebpf [--check]`.
pub(crate) fn run_task(purpose: Purpose, missing: Missing) -> anyhow::Result<ExitCode> {
    let mut report = Report::default();
    let advice = "mend what rustc or the comparison names";
    report.step("BPF object", advice, || match purpose {
        Purpose::Replace => replace(missing),
        Purpose::Check => check(missing),
        Purpose::Clippy => clippy(missing),
    });
    Ok(report.finish())
}

/// Compares what the sources give with what is checked in; `cargo xtask test` does so, too.
pub(crate) fn check(missing: Missing) -> anyhow::Result<Outcome> {
    match build(missing)? {
        Built::Object(object) => compare(&object),
        Built::Not(why) if labs_required() => bail!("LABS=required, but: {why}"),
        Built::Not(why) => Ok(Outcome::Skipped(why)),
    }
}

fn replace(missing: Missing) -> anyhow::Result<Outcome> {
    let object = match build(missing)? {
        Built::Object(object) => read(&object)?,
        Built::Not(why) => bail!(why),
    };
    let checked_in = root().join(CHECKED_IN);
    let news = match fs::read(&checked_in) {
        Ok(before) if before == object => "as it was",
        _ => "new: commit it with its sources",
    };
    println!("    {}  {CHECKED_IN} ({} octets, {news})", digest(&object), object.len());
    fs::write(&checked_in, object).with_context(|| format!("write {}", checked_in.display()))?;
    Ok(Outcome::Passed)
}

fn clippy(missing: Missing) -> anyhow::Result<Outcome> {
    let command = match Toolchain::find(missing)? {
        Ok(toolchain) => toolchain.clippy(&work()?, missing)?,
        Err(why) => Err(why),
    };
    match command {
        Ok(mut command) => run(&mut command).map(|()| Outcome::Passed),
        Err(why) => bail!(why),
    }
}

/// What came of an attempt to build.
enum Built {
    /// The object is in this file.
    Object(PathBuf),
    /// Something is missing.
    Not(String),
}

fn build(missing: Missing) -> anyhow::Result<Built> {
    let work = work()?;
    let toolchain = match Toolchain::find(missing)? {
        Ok(toolchain) => toolchain,
        Err(why) => return Ok(Built::Not(why)),
    };
    run(&mut toolchain.build(&work)?)?;
    let linked = work.join(toolchain::TARGET).join(toolchain::PROFILE).join("ebpf");
    let stripped = strip::without_dwarf(&read(&linked)?)?;
    let object = work.join(OBJECT);
    fs::write(&object, stripped).with_context(|| format!("write {}", object.display()))?;
    Ok(Built::Object(object))
}

/// Where it is built, apart from what is built for the host.
fn work() -> anyhow::Result<PathBuf> {
    Ok(target_directory()?.join("ebpf"))
}

fn compare(object: &Path) -> anyhow::Result<Outcome> {
    let (built, checked_in) = (read(object)?, read(&root().join(CHECKED_IN))?);
    println!("    {}  {CHECKED_IN} ({} octets)", digest(&checked_in), checked_in.len());
    println!("    {}  built from its sources ({} octets)", digest(&built), built.len());
    if built != checked_in {
        bail!(
            "{CHECKED_IN} is not what its sources give: run `cargo xtask ebpf` and commit the \
             object with them; a line moved in datapath is a change, for the object has line numbers"
        );
    }
    Ok(Outcome::Passed)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}

/// SHA-256 as `sha256sum` prints it.
fn digest(octets: &[u8]) -> String {
    let mut text = String::new();
    for octet in Sha256::digest(octets) {
        // Writing to a string does not fail.
        let _ = write!(text, "{octet:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    #[test]
    fn the_digest_is_printed_as_sha256sum_does() {
        assert_eq!(
            digest(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
