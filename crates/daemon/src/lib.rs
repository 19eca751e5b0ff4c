//! What every daemon shares, so that all of them start, log, obey signals, show themselves and exit
//! in the same way: arguments, exit codes, logging, signals, privileges, metrics, ops listener.
//!
//! The daemon's own loop stays its own; nothing in here starts a thread or a runtime.

#![forbid(unsafe_code)]

pub mod args;
pub mod exit;
pub mod logging;
pub mod metrics;
pub mod ops;
pub mod privileges;
pub mod signals;
