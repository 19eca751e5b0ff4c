//! The few commands of bpf(2) that the loader does not have: programs of two or three
//! instructions, and maps that a program holds without using them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const PROG_LOAD: libc::c_long = 5;
const PROG_BIND_MAP: libc::c_long = 35;
const PROG_TYPE_XDP: u32 = 6;
pub(crate) const ATTACH_XDP: u32 = 37;

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

/// The start of `union bpf_attr` for a map that a program is to hold.
#[repr(C)]
struct Bind {
    program: u32,
    map: u32,
    flags: u32,
}

/// Loads an XDP program of these instructions.
pub(crate) fn load(code: &[u64]) -> io::Result<OwnedFd> {
    let license = c"Dual MIT/GPL";
    let mut load = Load {
        kind: PROG_TYPE_XDP,
        instructions: u32::try_from(code.len()).unwrap_or(u32::MAX),
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        attach: ATTACH_XDP,
        ..Load::default()
    };
    descriptor(PROG_LOAD, &mut load)
}

/// Has a program hold a map that it does not use: whoever finds the program finds the map, and the
/// map lives as long.
pub(crate) fn bind(program: BorrowedFd<'_>, map: BorrowedFd<'_>) -> io::Result<()> {
    call(PROG_BIND_MAP, &mut Bind { program: number(program), map: number(map), flags: 0 })?;
    Ok(())
}

/// A descriptor as bpf(2) takes it.
pub(crate) fn number(fd: BorrowedFd<'_>) -> u32 {
    u32::try_from(fd.as_raw_fd()).unwrap_or(u32::MAX)
}

/// A command that makes a descriptor.
pub(crate) fn descriptor<T>(command: libc::c_long, attributes: &mut T) -> io::Result<OwnedFd> {
    let made = call(command, attributes)?;
    let made = i32::try_from(made).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// One call. Pointers in the attributes must outlive it; every caller's point to its own memory.
pub(crate) fn call<T>(command: libc::c_long, attributes: &mut T) -> io::Result<libc::c_long> {
    let attributes: *mut T = attributes;
    // SAFETY: the attributes live through the call, are as long as is said, and what they point to
    // outlives it too.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
