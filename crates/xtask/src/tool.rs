//! Programs of others at one version: found in `target/tools` or `PATH`, or built there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::Missing;
use crate::command::{cargo, run, target_directory};

/// A program that `cargo install` brings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    /// The crate and its program.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// How long it takes to build on two processors.
    pub(crate) minutes: &'static str,
}

impl Tool {
    /// Our own build, else one of the same version in `PATH`, else a new build.
    pub(crate) fn find(&self, missing: Missing) -> anyhow::Result<Option<PathBuf>> {
        let tools = target_directory()?.join("tools");
        let ours = tools.join("bin").join(self.name);
        for candidate in [ours.clone(), PathBuf::from(self.name)] {
            if self.version_of(&candidate).as_deref() == Some(self.version) {
                return Ok(Some(candidate));
            }
        }
        match missing {
            Missing::Tell => Ok(None),
            Missing::Install => {
                self.install(&tools)?;
                match self.version_of(&ours) {
                    Some(found) if found == self.version => Ok(Some(ours)),
                    found => bail!("built {} {} and found {found:?}", self.name, self.version),
                }
            }
        }
    }

    /// Why it is not there, where `task` with `--install` builds it.
    pub(crate) fn how_to_install(&self, task: &str) -> String {
        let Self { name, version, minutes } = self;
        format!(
            "{name} {version} is not there; `cargo xtask {task} --install` builds it ({minutes})"
        )
    }

    fn version_of(&self, program: &Path) -> Option<String> {
        let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.trim().strip_prefix(self.name)?.strip_prefix(' ').map(str::to_owned)
    }

    /// Builds it without its own release profile: fat LTO may take longer than all its runs will.
    fn install(&self, tools: &Path) -> anyhow::Result<()> {
        let scratch = tools.join("build");
        let exactly = format!("{}@{}", self.name, self.version);
        let mut command = cargo(["install", &exactly, "--locked", "--root"]);
        command
            .arg(tools)
            .env("CARGO_TARGET_DIR", &scratch)
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        run(&mut command)?;
        fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: Tool = Tool { name: "cargo-deny", version: "0.20.2", minutes: "2 minutes" };

    #[test]
    fn another_program_is_not_the_tool() {
        for program in ["/bin/true", "/no/such/cargo-deny", "/bin/sh"] {
            assert_eq!(TOOL.version_of(Path::new(program)), None);
        }
    }

    #[test]
    fn a_missing_tool_says_what_builds_it() {
        assert_eq!(
            TOOL.how_to_install("check"),
            "cargo-deny 0.20.2 is not there; `cargo xtask check --install` builds it (2 minutes)"
        );
    }
}
