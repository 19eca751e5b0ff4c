//! The few calls of bpf(2) that a bench needs beside the loader's, for programs that are written
//! as instructions here.

use crate::assembly::Instruction;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const TEST_RUN: libc::c_long = 10;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;

const ARRAY: u32 = 2;
const PROGRAM_ARRAY: u32 = 3;
const XDP_PROGRAM: u32 = 6;
const XDP_ATTACH: u32 = 37;
const DRIVER_MODE: u32 = 1 << 2;
const LIVE_FRAMES: u32 = 1 << 1;
/// Frames that live test runs hand to the driver at a time.
const BATCH: u32 = 64;

/// `union bpf_attr`, zero where nothing is said.
#[repr(C, align(8))]
struct Attributes([u8; 152]);

impl Attributes {
    fn new() -> Self {
        Self([0; 152])
    }

    fn half(mut self, at: usize, word: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        self
    }

    fn word(mut self, at: usize, word: u64) -> Self {
        self.0[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        self
    }

    /// Makes the call. Every address in the attributes must be good for as long as it takes.
    fn call(&mut self, command: libc::c_long) -> io::Result<i64> {
        let (at, length) = (self.0.as_mut_ptr(), self.0.len());
        // SAFETY: the attributes live through the call, and so does what they point to.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, at, length) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    fn create(&mut self, command: libc::c_long) -> io::Result<OwnedFd> {
        let fd = i32::try_from(self.call(command)?).map_err(io::Error::other)?;
        // SAFETY: the call returned a new descriptor that nobody else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn half_at(&self, at: usize) -> u32 {
        self.0[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word))
    }
}

/// A descriptor as bpf(2) takes it.
pub(crate) fn number(fd: &impl AsRawFd) -> u32 {
    u32::try_from(fd.as_raw_fd()).unwrap_or(u32::MAX)
}

fn address<T>(of: &[T]) -> u64 {
    of.as_ptr() as u64
}

/// One record of any length, in an array map.
pub(crate) struct Value {
    pub(crate) fd: OwnedFd,
    octets: usize,
}

impl Value {
    pub(crate) fn new(octets: usize) -> io::Result<Self> {
        let length = u32::try_from(octets).map_err(io::Error::other)?;
        let attributes = Attributes::new().half(0, ARRAY).half(4, 4).half(8, length).half(12, 1);
        Ok(Self { fd: { attributes }.create(MAP_CREATE)?, octets })
    }

    pub(crate) fn store(&self, octets: &[u8]) -> io::Result<()> {
        assert_eq!(octets.len(), self.octets, "the kernel reads the whole record");
        self.access(MAP_UPDATE, address(octets))
    }

    pub(crate) fn load(&self) -> io::Result<Vec<u8>> {
        let mut octets = vec![0; self.octets];
        self.access(MAP_LOOKUP, octets.as_mut_ptr() as u64)?;
        Ok(octets)
    }

    fn access(&self, command: libc::c_long, value: u64) -> io::Result<()> {
        let key = [0u32];
        let attributes = Attributes::new().half(0, number(&self.fd));
        attributes.word(8, address(&key)).word(16, value).call(command).map(|_| ())
    }
}

/// A table of one program, for tail calls.
pub(crate) fn table_of(program: &impl AsRawFd) -> io::Result<OwnedFd> {
    let attributes = Attributes::new().half(0, PROGRAM_ARRAY).half(4, 4).half(8, 4).half(12, 1);
    let table = { attributes }.create(MAP_CREATE)?;
    let (key, value) = ([0u32], [number(program)]);
    let attributes = Attributes::new().half(0, number(&table));
    attributes.word(8, address(&key)).word(16, address(&value)).call(MAP_UPDATE)?;
    Ok(table)
}

/// Loads an XDP program.
pub(crate) fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let license = b"GPL\0";
    let mut log = vec![0u8; 1 << 16];
    let count = u32::try_from(instructions.len()).map_err(io::Error::other)?;
    let attributes = Attributes::new().half(0, XDP_PROGRAM).half(4, count);
    let attributes = attributes.word(8, address(instructions)).word(16, address(license));
    let attributes = attributes.half(24, 1).half(28, 1 << 16).word(32, log.as_mut_ptr() as u64);
    let loaded = { attributes }.half(68, XDP_ATTACH).create(PROGRAM_LOAD);
    loaded.map_err(|error| {
        let log = String::from_utf8_lossy(&log);
        io::Error::new(error.kind(), format!("{error}: {}", log.trim_end_matches('\0')))
    })
}

/// What a test run is about.
pub(crate) struct Run<'a> {
    pub(crate) program: &'a OwnedFd,
    pub(crate) frame: &'a [u8],
    /// Index of the interface that the frames seem to come from.
    pub(crate) interface: u32,
    pub(crate) repeat: u32,
}

impl Run<'_> {
    fn attributes(&self, context: &mut [u8; 24]) -> io::Result<Attributes> {
        let length = u32::try_from(self.frame.len()).map_err(io::Error::other)?;
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress.
        context[4..8].copy_from_slice(&length.to_ne_bytes());
        context[12..16].copy_from_slice(&self.interface.to_ne_bytes());
        let attributes = Attributes::new().half(0, number(self.program)).half(8, length);
        let attributes = attributes.word(16, address(self.frame)).half(32, self.repeat);
        Ok(attributes.half(40, 24).word(48, address(context)))
    }

    /// Nanoseconds a run, and the last verdict.
    pub(crate) fn time(&self) -> io::Result<(u32, u32)> {
        let mut context = [0; 24];
        let mut attributes = self.attributes(&mut context)?;
        attributes.call(TEST_RUN)?;
        Ok((attributes.half_at(36), attributes.half_at(4)))
    }

    /// Lets the program's verdicts be carried out.
    pub(crate) fn live(&self) -> io::Result<()> {
        let mut context = [0; 24];
        let attributes = self.attributes(&mut context)?.half(64, LIVE_FRAMES).half(72, BATCH);
        { attributes }.call(TEST_RUN).map(|_| ())
    }
}

/// Lets an interface of this thread's namespace run the program, in the driver.
pub(crate) fn attach(program: &OwnedFd, interface: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes::new().half(0, number(program)).half(4, interface);
    { attributes }.half(8, XDP_ATTACH).half(12, DRIVER_MODE).create(LINK_CREATE)
}

/// Puts another program in the place of the one that an interface runs.
pub(crate) fn exchange(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    let attributes = Attributes::new().half(0, number(link)).half(4, number(program));
    { attributes }.call(LINK_UPDATE).map(|_| ())
}

/// Binds a thread to a processor, and takes it before all that is not pressing; 0 is this thread.
pub(crate) fn pin(thread: i32, processor: usize) -> io::Result<()> {
    // SAFETY: all zeroes is a set of processors.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a set, and the processor's number below its size.
    unsafe { libc::CPU_SET(processor, &mut set) };
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: both structures live through their calls.
    let results = unsafe {
        [
            libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set),
            libc::sched_setscheduler(thread, libc::SCHED_RR, &raw const priority),
        ]
    };
    if results == [0, 0] { Ok(()) } else { Err(io::Error::last_os_error()) }
}
