//! End-to-end tests in network namespaces, with the real binaries and real peers.
//!
//! The tests lie in `tests/`: one binary, one module per topology or concern. Here is what they
//! share, and the bodies of the fuzz targets. A test that cannot run prints why and passes; with
//! `LABS=required` it fails instead.

#![forbid(unsafe_code)]

pub mod distributor;
pub mod fuzz;
pub mod lb;
pub mod ovs;
pub mod peers;
pub mod programs;
pub mod strongswan;
