//! The command-line flags that all daemons have, to be flattened into each one's clap parser.
//!
//! `--version` and `--help` come from clap, which also exits with 2 on wrong usage.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::logging::Output;

/// Flags that all daemons have.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Check the configuration, print every error, and exit (0 if good, 78 if not)
    #[arg(long)]
    pub check_config: bool,

    /// How log lines look
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: LogFormat,

    /// Log to syslog instead of stderr
    #[arg(long)]
    pub syslog: bool,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Level, message and `key=value` fields
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Ends a program whose arguments clap did not take: prints help, version or the usage error, and
/// gives the exit code for it.
#[must_use]
pub fn refuse(error: &clap::Error) -> ExitCode {
    // Help and version go to stdout, usage errors to stderr; a closed pipe is no failure.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8))
}

impl Common {
    /// Where the log goes; `program` is its name in syslog.
    #[must_use]
    pub fn log_output(&self, program: &'static str) -> Output {
        if self.syslog { Output::Syslog(program) } else { Output::Stderr }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    #[command(name = "gredist", version)]
    struct Program {
        #[command(flatten)]
        common: Common,
    }

    #[test]
    fn flags_are_consistent() {
        Program::command().debug_assert();
    }

    #[test]
    fn flags_are_understood() {
        let parsed = |args: &[&str]| Program::try_parse_from(args).unwrap().common;
        assert_eq!(parsed(&["gredist"]), Common::default());
        let config = Some(PathBuf::from("a.conf"));
        assert_eq!(
            parsed(&["gredist", "-c", "a.conf"]),
            Common { config: config.clone(), ..Common::default() }
        );
        let all = ["gredist", "--config=a.conf", "--check-config", "--log-format=json", "--syslog"];
        assert_eq!(
            parsed(&all),
            Common { config, check_config: true, log_format: LogFormat::Json, syslog: true }
        );
        assert_eq!(parsed(&all).log_output("gredist"), Output::Syslog("gredist"));
    }

    #[test]
    fn wrong_usage_exits_with_two_and_version_with_zero() {
        for (args, code) in [
            (["gredist", "--frobnicate"], 2),
            (["gredist", "--log-format=xml"], 2),
            (["gredist", "--version"], 0),
        ] {
            let Err(error) = Program::try_parse_from(args) else { panic!("{args:?} was accepted") };
            assert_eq!(error.exit_code(), code, "{args:?}");
        }
    }
}
