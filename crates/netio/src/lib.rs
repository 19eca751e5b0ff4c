//! Raw sockets, batches, netlink and namespaces: the userspace `unsafe`.

mod context;
pub mod netlink;
pub mod netns;
pub mod process;
