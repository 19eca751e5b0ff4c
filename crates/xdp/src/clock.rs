//! The clocks of the packet core: jiffies, by which sessions age, and the time since the start.

use crate::{Error, sys};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// `BPF_PROG_TEST_RUN` of bpf(2).
const TEST_RUN: libc::c_long = 10;
/// `call bpf_jiffies64; exit`: the verdict is the lower half of the kernel's jiffies.
const JIFFIES: [u64; 2] = [0x0000_0076_0000_0085, 0x95];

/// Tells the kernel's jiffies, by running a program once.
#[derive(Debug)]
pub struct Clock(OwnedFd);

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
    /// Loads the program.
    ///
    /// # Errors
    /// No privileges.
    pub fn load() -> Result<Self, Error> {
        sys::load(&JIFFIES).map(Self).map_err(refused)
    }

    /// The lower half of the kernel's jiffies.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn jiffies(&self) -> Result<u32, Error> {
        let frame = [0u8; 64];
        let mut run = Run {
            program: sys::number(self.0.as_fd()),
            octets_in: 64,
            data_in: frame.as_ptr() as u64,
            repeat: 1,
            ..Run::default()
        };
        sys::call(TEST_RUN, &mut run).map_err(refused)?;
        Ok(run.verdict)
    }
}

/// Nanoseconds since the machine started, sleep included: the clock of [`Owned::until_ns`].
///
/// [`Owned::until_ns`]: datapath::lb::layout::Owned::until_ns
#[must_use]
pub fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, rest) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(rest.unwrap_or(0))
}

fn refused(source: io::Error) -> Error {
    Error::Clock { source }
}
