//! Sockets and kernel interfaces that need more than the standard library; beside `xdp` the only
//! userspace crate that may hold `unsafe`.

pub mod icmp;
