//! Is a backend fit for traffic? One sans-IO machine per backend, its schedule included.
//!
//! The shell sends the probes that the machine asks for, reports what came back, and calls again
//! when `poll_timeout` says so. This crate opens no socket, reads no clock and knows no protocol:
//! what a probe is (an echo, a connection, a request) is the shell's business.

#![forbid(unsafe_code)]

mod machine;
mod policy;

pub use machine::{Action, Cause, Machine, ProbeId, State, Transition};
pub use policy::{Error, MAX_INTERVAL, MIN_INTERVAL, Policy};
