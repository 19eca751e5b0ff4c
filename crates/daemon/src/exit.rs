//! Exit codes, the same for every daemon.

use std::fmt::Display;
use std::io::Write as _;
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

impl Exit {
    /// Says on standard error, line by line, why the program ends in this way.
    #[must_use]
    pub fn complain(self, program: &str, message: &dyn Display) -> Self {
        for line in message.to_string().lines() {
            eprintln!("{program}: {line}");
        }
        self
    }

    /// Prints the answer to a question on standard output. A closed pipe is the reader's choice.
    #[must_use]
    pub fn answer(text: &str) -> Self {
        let _ = std::io::stdout().write_all(text.as_bytes());
        Self::Ok
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
