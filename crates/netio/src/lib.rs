//! Raw sockets, batches, netlink and namespaces: beside `xdp` the only userspace crate that may
//! hold `unsafe`.

pub mod batch;
mod context;
pub mod icmp;
pub mod links;
pub mod monitor;
pub mod netlink;
pub mod netns;
pub mod offload;
pub mod path;
pub mod process;
pub mod socket;
