//! Installs the peers that are missing, from Debian's packages, without starting a service.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::Missing;
use crate::command::run;
use crate::peers::{self, Peer};
use crate::report::Outcome;

/// What invoke-rc.d asks before it starts a service; 101 forbids it (Debian policy 9.3.3).
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs what is missing of `peers`, or says how, and what it means to be without; asks no
/// mirror when everything is there.
pub(crate) fn provide(
    action: Missing,
    peers: &[Peer],
    consequence: &str,
) -> anyhow::Result<Outcome> {
    let missing = peers::missing(peers);
    if missing.is_empty() {
        println!("    all {} are there", peers.len());
        return Ok(Outcome::Passed);
    }
    for peer in &missing {
        println!("    missing: {} (for {})", peer.name, peer.used_by);
    }
    let is_root = rustix::process::geteuid().is_root();
    match action {
        Missing::Install if is_root => install(&missing),
        Missing::Install | Missing::Tell => {
            let packages = packages(&missing);
            Ok(Outcome::Skipped(format!(
                "{consequence} without {}; install by \
                 `apt-get update && apt-get install -y --no-install-recommends {}` as root",
                names(&missing),
                packages.join(" ")
            )))
        }
    }
}

fn install(missing: &[Peer]) -> anyhow::Result<Outcome> {
    let _quiet = NoServices::ensure(Path::new(POLICY))?;
    run(apt_get().arg("update"))?;
    run(apt_get().args(["install", "-y", "--no-install-recommends"]).args(packages(missing)))?;
    let still = peers::missing(missing);
    if !still.is_empty() {
        bail!("installed, and still not there: {}", names(&still));
    }
    Ok(Outcome::Passed)
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(["-q", "-o", "Acquire::Retries=5", "-o", "DPkg::Lock::Timeout=120"])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null());
    command
}

fn packages(peers: &[Peer]) -> Vec<&'static str> {
    let mut packages: Vec<_> = peers.iter().map(|peer| peer.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn names(peers: &[Peer]) -> String {
    peers.iter().map(|peer| peer.name).collect::<Vec<_>>().join(", ")
}

/// While it lives no package starts its service. A policy that was there before stays.
struct NoServices {
    ours: Option<PathBuf>,
}

impl NoServices {
    fn ensure(policy: &Path) -> anyhow::Result<Self> {
        let context = || format!("write {}", policy.display());
        match OpenOptions::new().write(true).create_new(true).mode(0o755).open(policy) {
            Ok(mut file) => {
                let guard = Self { ours: Some(policy.to_owned()) };
                file.write_all(b"#!/bin/sh\nexit 101\n").with_context(context)?;
                Ok(guard)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self { ours: None }),
            Err(error) => Err(error).with_context(context),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = &self.ours
            && let Err(error) = fs::remove_file(policy)
        {
            eprintln!("remove {} by hand: {error}", policy.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_policy_of_ours_forbids_services_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        let guard = NoServices::ensure(&policy).unwrap();
        assert_eq!(fs::metadata(&policy).unwrap().permissions().mode() & 0o111, 0o111);
        // Run by sh: a file just written may not be executed while another thread forks.
        assert_eq!(Command::new("sh").arg(&policy).status().unwrap().code(), Some(101));
        drop(guard);
        assert!(!policy.exists());
    }

    #[test]
    fn a_policy_of_others_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        fs::write(&policy, "theirs").unwrap();
        drop(NoServices::ensure(&policy).unwrap());
        assert_eq!(fs::read_to_string(&policy).unwrap(), "theirs");
    }

    #[test]
    fn a_package_is_asked_for_once() {
        let twice = [peers::PEERS[0], peers::PEERS[0]];
        assert_eq!(packages(&twice), ["iproute2"]);
    }
}
