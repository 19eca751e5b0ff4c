//! The packet core in the kernel: loading, attaching, and the maps as userspace sees them.
//!
//! ```text
//! object  ──load──> Core: programs and maps ──attach──> Link (one an interface)
//!                     │
//!                     ├─ memory: arrays that both sides see (sessions, index, rows, ...)
//!                     ├─ tables: hash maps, replaced record by record (services, addresses)
//!                     └─ test_run: one frame through a program, without an interface
//! ```
//! An interface that runs the packet core leads another process to the same maps: `View`.
//! `unsafe` is for memory that is shared with the kernel; the layouts are `datapath`'s.
#![allow(unsafe_code, reason = "maps the kernel's memory")]

mod capture;
mod clock;
mod core;
mod error;
mod events;
mod link;
mod memory;
mod pins;
mod plain;
mod stub;
mod sys;
mod view;

pub use crate::core::{Core, Sizes, Verified};
pub use capture::Capture;
pub use clock::{Clock, boot_ns};
pub use error::Error;
pub use events::Events;
pub use link::{Link, Mode};
pub use memory::{Memory, Pairs};
pub use pins::Pins;
pub use plain::{Octets, Plain};
pub use stub::Stub;
pub use view::{Shared, View};

/// What the kernel says of a map, and a record of each processor.
pub use aya::maps::{MapError, PerCpuValues};
