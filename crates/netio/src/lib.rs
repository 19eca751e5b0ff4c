//! Raw sockets, batches, netlink and namespaces: beside `xdp` the only userspace crate that may
//! hold `unsafe`.

pub mod batch;
pub mod icmp;
pub mod mtu;
pub mod socket;
