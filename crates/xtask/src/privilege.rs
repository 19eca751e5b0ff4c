//! How tests get network namespaces: directly as root, else in a user namespace of their own.
//!
//! ```text
//!  xtask ──starts──> xtask in-namespace ──unshare, lo up, exec──> cargo test
//! ```
//! A process with threads cannot enter a user namespace, hence the second start: the child enters
//! before it does anything else.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use netio::netlink::Netlink;
use netio::netns::{Namespace, enter_user_namespace};

/// What this user may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// Network namespaces as they are: root.
    Direct,
    /// Network namespaces inside a user namespace.
    UserNamespace,
    /// Neither, for this reason.
    Refused(String),
}

impl Privilege {
    /// Tries what works, without leaving a trace.
    pub(crate) fn find() -> Self {
        if Namespace::new("trial").is_ok() {
            return Self::Direct;
        }
        match trial() {
            Ok(()) => Self::UserNamespace,
            Err(error) => Self::Refused(format!("{error:#}")),
        }
    }

    /// `command` with the privileges that tests need; unchanged where they are refused.
    pub(crate) fn grant(&self, command: Command) -> anyhow::Result<Command> {
        match self {
            Self::Direct | Self::Refused(_) => Ok(command),
            Self::UserNamespace => inside(&command),
        }
    }
}

fn trial() -> anyhow::Result<()> {
    let output = inside(&Command::new("true"))?.output().context("start xtask again")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: "));
    }
    Ok(())
}

fn inside(command: &Command) -> anyhow::Result<Command> {
    let myself = std::env::current_exe().context("find xtask's own program")?;
    let mut entering = Command::new(myself);
    entering.args(["in-namespace", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => entering.env(name, value),
            None => entering.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        entering.current_dir(directory);
    }
    entering.stdin(std::process::Stdio::null());
    Ok(entering)
}

/// Makes this process root of new user and network namespaces with loopback up, and becomes
/// `command`.
pub(crate) fn enter_and_become(command: &[OsString]) -> anyhow::Result<ExitCode> {
    match become_inside(command)? {}
}

fn become_inside(command: &[OsString]) -> anyhow::Result<Infallible> {
    enter_user_namespace()?;
    Netlink::open()?.set_up("lo")?;
    let (program, arguments) = command.split_first().context("no command")?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("start {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_and_the_folder_follow_the_command_inside() {
        let mut command = Command::new("cargo");
        command
            .arg("test")
            .env("LABS", "required")
            .env_remove("CARGO_PKG_NAME")
            .current_dir("/tmp");
        let entering = Privilege::UserNamespace.grant(command).unwrap();
        let arguments: Vec<_> = entering.get_args().collect();
        assert_eq!(arguments, ["in-namespace", "--", "cargo", "test"]);
        assert_eq!(entering.get_envs().count(), 2);
        assert_eq!(entering.get_current_dir(), Some("/tmp".as_ref()));
    }

    #[test]
    fn root_runs_the_command_as_it_is() {
        let granted = Privilege::Direct.grant(Command::new("cargo")).unwrap();
        assert_eq!(granted.get_program(), "cargo");
    }
}
