//! The second tier: connections to virtual addresses and ports, balanced over monitored backends.
//!
//! The packets are `datapath::lb`'s, in the kernel. Here is the control side: what the node is told
//! ([`config`], [`resources`]), what is alive ([`vitality`]), what follows ([`plan`]), how it gets
//! into the maps ([`kernel`]), and how sessions end ([`sweeper`]). [`look`] and [`commands`] look at
//! a running node from another process.

#![forbid(unsafe_code)]

pub mod args;
pub mod capture;
pub mod commands;
pub mod config;
pub mod controller;
pub mod explain;
pub mod extents;
pub mod host;
pub mod ids;
pub mod kernel;
pub mod look;
pub mod plan;
pub mod resources;
pub mod status;
pub mod sweeper;
pub mod vitality;

mod daemon_main;

pub use daemon_main::main;
