//! The clock by which sessions age: the kernel's jiffies, asked by running a program once.

use crate::Error;
use aya::programs::ProgramFd;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `BPF_PROG_TEST_RUN` of bpf(2).
const TEST_RUN: libc::c_long = 10;

/// Tells the kernel's jiffies.
#[derive(Debug)]
pub struct Clock(ProgramFd);

/// The part of `union bpf_attr` that a test run needs.
#[repr(C)]
#[derive(Default)]
struct Run {
    program: u32,
    verdict: u32,
    octets_in: u32,
    octets_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_octets_in: u32,
    context_octets_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    processor: u32,
    batch: u32,
    zero: u32,
}

impl Clock {
    pub(crate) fn new(program: ProgramFd) -> Self {
        Self(program)
    }

    /// The lower half of the kernel's jiffies.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn jiffies(&self) -> Result<u32, Error> {
        let frame = [0u8; 64];
        let program = u32::try_from(self.0.as_fd().as_raw_fd()).unwrap_or(u32::MAX);
        let mut run = Run {
            program,
            octets_in: 64,
            data_in: frame.as_ptr() as u64,
            repeat: 1,
            ..Run::default()
        };
        // SAFETY: the structure and the frame live through the call, and are as long as is said.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, TEST_RUN, &raw mut run, size_of::<Run>()) };
        if result == 0 {
            Ok(run.verdict)
        } else {
            let source = io::Error::last_os_error();
            Err(Error::Clock { source })
        }
    }
}
