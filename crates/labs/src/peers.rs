//! Other people's programs that the labs measure ours against.

use crate::programs::skip;
use std::process::{Command, Stdio};
use testkit::lab::Host;
use testkit::process::Process;

/// Whether a program can be started; if not, the test is skipped with what to install.
#[must_use]
pub fn have(program: &str, package: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        skip(&format!("{program} is missing: apt-get install {package}"));
    }
    found
}

/// Debian's Python, which has Debian's scapy.
pub const PYTHON: &str = "/usr/bin/python3";

/// Whether scapy can be imported.
#[must_use]
pub fn have_scapy() -> bool {
    let imported = Command::new(PYTHON)
        .args(["-c", "import scapy.all"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !imported {
        skip("scapy is missing: apt-get install python3-scapy");
    }
    imported
}

/// Starts a scapy script on a host, with everything imported.
///
/// # Errors
/// Python cannot be started.
pub fn scapy(host: &Host, script: &str) -> std::io::Result<Process> {
    let whole = format!(
        "import logging, sys\nlogging.getLogger('scapy').setLevel(logging.ERROR)\n\
         from scapy.all import *\nconf.verb = 0\n{script}"
    );
    host.spawn(PYTHON, ["-u", "-c", &whole])
}
