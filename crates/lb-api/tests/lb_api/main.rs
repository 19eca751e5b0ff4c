//! The public door: texts in, resources or rendered problems out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod accepted;
mod limits;
mod properties;
mod refused;
mod refused_checks;
mod refused_specs;
mod sets;
mod support;
