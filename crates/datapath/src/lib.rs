//! The packet core: pure, total functions from a frame and tables to a verdict.
//!
//! The same source compiles to BPF and to the host. It sees packets through [`Frame`] and the
//! world through [`Tables`]; it has no clock, no socket and no allocation, and it never panics
//! on any input. What the verdict asks for (sending, counting) is the shell's work.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]

#[cfg(any(test, feature = "fixed"))]
extern crate std;

pub mod answer;
#[cfg(any(test, feature = "fixed"))]
pub mod fixed;
pub mod frame;
pub mod gre;
pub mod ip;
pub mod lb;
pub mod tables;
pub mod verdict;

pub use frame::{Frame, SliceFrame};
pub use tables::{Budget, Fib, Tables};
pub use verdict::{DropReason, Verdict};
