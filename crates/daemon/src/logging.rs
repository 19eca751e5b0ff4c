//! Log lines: text or JSON, on stderr or through syslog(3).
//!
//! ```text
//! 2026-01-31T12:00:00.000000Z  WARN backend changed backend=10.0.0.2 state=down cause="timeout"
//! ```
//!
//! Lines are never coloured. Those for syslog carry neither time nor, as text, level: syslogd adds
//! the one and has the other as severity (error, warning, info as notice, debug as info, trace as
//! debug). `CASTELLUM_LOG` sets the level, such as `debug` or `info,probe=debug`.

use std::ffi::CString;
use std::io;

use syslog_tracing::{Facility, Options, Syslog};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::args::LogFormat;

/// The environment variable with the level.
pub const LEVEL_VARIABLE: &str = "CASTELLUM_LOG";

/// Where log lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard error.
    Stderr,
    /// syslog(3), facility daemon, under this name and the process id.
    Syslog(&'static str),
}

/// Why the log cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The level variable makes no sense.
    #[error("{LEVEL_VARIABLE}={text} is no log level: write error, warn, info, debug or trace")]
    Level {
        /// What the variable says.
        text: String,
    },
    /// The name for syslog contains a NUL character.
    #[error("{0:?} is no name for syslog")]
    Name(&'static str),
    /// The log was set up before.
    #[error("logging is already set up")]
    Twice,
}

/// Sets up the log of the whole process.
///
/// # Errors
/// If the level makes no sense or the log is set up already.
pub fn init(format: LogFormat, output: Output) -> Result<(), Error> {
    let levels = match std::env::var(LEVEL_VARIABLE) {
        Ok(text) if !text.is_empty() => levels(&text)?,
        _ => Targets::new().with_default(LevelFilter::INFO),
    };
    let lines = fmt().with_max_level(LevelFilter::TRACE).with_ansi(false).with_target(false);
    let install = |lines: Box<dyn Subscriber + Send + Sync>| {
        set_global_default(lines).map_err(|_| Error::Twice)
    };
    match (output, format) {
        (Output::Stderr, LogFormat::Text) => {
            install(Box::new(lines.with_writer(io::stderr).finish().with(levels)))
        }
        (Output::Stderr, LogFormat::Json) => {
            let lines = lines.json().flatten_event(true).with_current_span(false);
            let lines = lines.with_span_list(false).with_writer(io::stderr);
            install(Box::new(lines.finish().with(levels)))
        }
        (Output::Syslog(name), LogFormat::Text) => {
            let lines = lines.without_time().with_level(false);
            install(Box::new(lines.with_writer(open_syslog(name)?).finish().with(levels)))
        }
        (Output::Syslog(name), LogFormat::Json) => {
            let lines = lines.json().flatten_event(true).with_current_span(false);
            let lines = lines.with_span_list(false).without_time();
            install(Box::new(lines.with_writer(open_syslog(name)?).finish().with(levels)))
        }
    }
}

/// Reads levels such as `debug` or `info,probe=debug`. A word alone must be a level: taken for a
/// module, as the library would, it would silence all others.
fn levels(text: &str) -> Result<Targets, Error> {
    let refused = || Error::Level { text: text.to_owned() };
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let good = |part: &str| match part.split_once('=') {
        Some((module, level)) => !module.is_empty() && is_level(level),
        None => is_level(part),
    };
    match text.split(',').all(good) {
        true => text.parse().map_err(|_| refused()),
        false => Err(refused()),
    }
}

fn open_syslog(name: &'static str) -> Result<Syslog, Error> {
    let name = CString::new(name).map_err(|_| Error::Name(name))?;
    // Connect now: a later chroot or a dropped privilege must not silence the log.
    let options = Options::LOG_PID | Options::LOG_NDELAY;
    Syslog::new(name, options, Facility::Daemon).ok_or(Error::Twice)
}
