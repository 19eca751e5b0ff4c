//! The packet core as XDP programs: one program a stage, `datapath` bound to BPF maps.
//!
//! Nothing is decided here. `frame` binds the frame to the packet's memory, `maps` declares what
//! userspace sees, `tables` binds the core's tables to the maps. On the host this crate is an
//! empty program: `cargo xtask ebpf` builds the object that is checked in beside it.
#![cfg_attr(target_arch = "bpf", no_std)]
#![cfg_attr(target_arch = "bpf", no_main)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]
#![cfg_attr(target_arch = "bpf", allow(unsafe_code, reason = "this is the kernel's shell"))]

#[cfg(target_arch = "bpf")]
mod atomic;
#[cfg(target_arch = "bpf")]
mod capture;
#[cfg(target_arch = "bpf")]
mod frame;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod programs;
#[cfg(target_arch = "bpf")]
mod tables;

#[cfg(not(target_arch = "bpf"))]
fn main() {}
