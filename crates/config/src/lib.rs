//! From the text of a configuration file to checked values, and the snapshot made of them.
//!
//! Every problem of a file is reported at once, each with its line and the offending text. What the
//! keys mean is the daemon's business; this crate knows lines, values and the atomic swap.

#![forbid(unsafe_code)]

pub mod diagnostics;
pub mod keyvalue;
pub mod live;
pub mod value;
pub mod watch;
