//! Raw sockets, batches, netlink and namespaces: the userspace `unsafe`.

pub mod batch;
pub mod mtu;
pub mod socket;
