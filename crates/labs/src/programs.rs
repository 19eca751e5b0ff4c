//! Where the binaries under test are.

use std::path::PathBuf;
use std::process::Command;

/// The command for a program of the stack: from `CASTELLUM_BIN_DIR`, else the release build.
#[must_use]
pub fn program(name: &str) -> Command {
    Command::new(directory().join(name))
}

/// The directory of the binaries.
#[must_use]
pub fn directory() -> PathBuf {
    std::env::var_os("CASTELLUM_BIN_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release")),
        PathBuf::from,
    )
}

/// Whether skipping is forbidden.
#[must_use]
pub fn required() -> bool {
    std::env::var_os("LABS").is_some_and(|labs| labs == "required")
}

/// Says why a test does not run.
///
/// # Panics
/// With `LABS=required` in the environment.
#[expect(clippy::panic, reason = "a required lab that cannot run is a failed test")]
pub fn skip(reason: &str) {
    assert!(!required(), "LABS=required, but: {reason}");
    eprintln!("skipped: {reason}");
}
