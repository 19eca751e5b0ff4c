//! Resource types of the L4 tier: YAML documents in, validated values or every error at once out.
//!
//! ```text
//!  texts --yaml--> nodes with lines --decode--> NatLbMapping --checks--> Resources
//!                                                                          |  check_against(node)
//! ```
//! This crate reads no file and knows no node: texts come with the names that problems call them
//! by, and what depends on a node is checked against a [`NodeView`]. It writes no YAML either:
//! the types serialise to JSON with the same names, which reads back as the same value.

#![forbid(unsafe_code)]

mod address;
mod checks;
mod decode;
mod error;
mod health_check;
pub mod limits;
mod metadata;
mod name;
mod natlb;
mod node;
mod problem;
mod protocol;
mod resources;
mod scalar;
mod suggest;
mod yaml;

pub use address::RoutableAddr;
pub use error::Error;
pub use health_check::{
    Check, HealthCheck, HttpHost, HttpPath, HttpStatus, Probe, Request, default,
};
pub use metadata::Metadata;
pub use name::Name;
pub use natlb::{
    AffinityTimeout, Backend, Mode, MssClamp, NatLbMapping, NatLbSpec, OnDown, Selection, Service,
    TableSize,
};
pub use node::{NodeView, SnatPool};
pub use problem::{Place, Problem, Problems};
pub use protocol::{Protocol, RawProtocol};
pub use resources::{Placed, Resources, Source};
