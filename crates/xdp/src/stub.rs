//! A program that passes every frame: what the far end of a veth needs.
//!
//! A veth takes frames that the packet core transmits or redirects only while its peer runs an XDP
//! program (or has NAPI by generic receive offload, which lets frames lie until the next interrupt).

use crate::Error;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Commands and constants of bpf(2).
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// `XDP_FLAGS_DRV_MODE`.
const IN_DRIVER: u32 = 1 << 2;

/// `r0 = XDP_PASS; exit`.
const PASS: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];

/// The start of `union bpf_attr` for a program.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log: [u32; 4],
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

/// The start of `union bpf_attr` for a link.
#[repr(C)]
#[derive(Default)]
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
        let license = c"Dual MIT/GPL";
        let mut load = Load {
            kind: PROG_TYPE_XDP,
            instructions: 2,
            code: PASS.as_ptr() as u64,
            license: license.as_ptr() as u64,
            attach: ATTACH_XDP,
            ..Load::default()
        };
        let program = bpf(PROG_LOAD, &mut load).map_err(refused)?;
        let descriptor = u32::try_from(program.as_raw_fd()).unwrap_or(u32::MAX);
        let mut create =
            Create { program: descriptor, interface: index, attach: ATTACH_XDP, flags: IN_DRIVER };
        bpf(LINK_CREATE, &mut create).map(Self).map_err(refused)
    }
}

/// One call that makes a descriptor.
fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<OwnedFd> {
    let attributes: *mut T = attributes;
    // SAFETY: the attributes live through the call, are as long as is said, and what they point to
    // outlives it too.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    match i32::try_from(result) {
        // SAFETY: the kernel has just made the descriptor for us.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
