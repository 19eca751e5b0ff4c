//! A program that passes every frame: what the far end of a veth needs.
//!
//! A veth takes frames that the packet core transmits or redirects only while its peer runs an XDP
//! program (or has NAPI by generic receive offload, which lets frames lie until the next interrupt).

use crate::{Error, sys};
use std::os::fd::{AsFd, OwnedFd};

const LINK_CREATE: libc::c_long = 28;
/// `XDP_FLAGS_DRV_MODE`.
const IN_DRIVER: u32 = 1 << 2;

/// `r0 = XDP_PASS; exit`.
const PASS: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];

/// The start of `union bpf_attr` for a link.
#[repr(C)]
struct Create {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// The attachment; dropping it ends it.
#[derive(Debug)]
pub struct Stub(#[expect(dead_code, reason = "held open")] OwnedFd);

impl Stub {
    /// Has the interface of this index, in the calling thread's namespace, pass every frame.
    ///
    /// # Errors
    /// No privileges, no such interface, or another program on it.
    pub fn attach(index: u32) -> Result<Self, Error> {
        let refused = |source| Error::Attach { interface: format!("index {index}"), source };
        let program = sys::load(&PASS).map_err(refused)?;
        let mut create = Create {
            program: sys::number(program.as_fd()),
            interface: index,
            attach: sys::ATTACH_XDP,
            flags: IN_DRIVER,
        };
        sys::descriptor(LINK_CREATE, &mut create).map(Self).map_err(refused)
    }
}
