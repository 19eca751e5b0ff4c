//! Exit codes, the same for every daemon.

use std::process::ExitCode;

/// How a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Did what it was asked to do.
    Ok = 0,
    /// Failed while starting or running.
    Runtime = 1,
    /// Was called wrongly; clap exits with this by itself.
    Usage = 2,
    /// The configuration is wrong (`EX_CONFIG` of sysexits.h).
    Config = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
