//! The programs around the one that is measured.
//!
//! A test run uses one frame over and over. So before each run the harness puts back every octet
//! that the packet core changes, those of the flow from a list; then it goes on with the program
//! under test, or with one that only sends the frame back, or hands it to an interface.
//!
//! It writes in the pieces in which the core reads: a load that spans two stores which are still
//! under way waits for both, as no load of a frame that a network card wrote ever does.

use crate::assembly::{
    EXIT, Instruction, R0, R1, R2, R3, R4, R5, R6, REDIRECT, TAIL_CALL, Width, add, and, call,
    copy, load, map, set, skip_if_greater, store, sum, times, value, wide,
};
use crate::bpf::{self, Value};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// `xdp_action`.
const DROP: i32 = 1;
pub(crate) const TRANSMIT: i32 = 3;
pub(crate) const REDIRECTED: i32 = 4;

/// The count of runs stands before the flows, on a cache line of its own.
const FLOWS_AT: i32 = 64;

/// Frames that differ in a few octets.
#[derive(Clone, Debug)]
pub(crate) struct Frames {
    /// One of them.
    pub(crate) frame: Vec<u8>,
    /// Octets that the core changes and that are the same in all.
    pub(crate) fixed: &'static [Part],
    /// Which octets differ, in the order in which each flow has them.
    pub(crate) parts: &'static [Part],
    /// Octets of the parts, flow by flow; the number of flows is a power of two.
    pub(crate) flows: Vec<u8>,
    /// Octets of a flow, with padding.
    pub(crate) stride: u16,
}

/// Some octets of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) at: i16,
    pub(crate) width: Width,
}

/// How a harness goes on.
#[derive(Debug)]
pub(crate) enum Then {
    /// With the program in the first place of this table.
    Program(OwnedFd),
    /// Out of the interface with this index.
    Redirect(u32),
}

/// A harness in the kernel, and its count of runs.
pub(crate) struct Harness {
    pub(crate) program: OwnedFd,
    value: Value,
    flows: Vec<u8>,
    /// The kernel empties a table when nobody in userspace holds it any more.
    _then: Then,
}

impl Frames {
    pub(crate) fn count(&self) -> usize {
        self.flows.len() / usize::from(self.stride)
    }
}

impl Harness {
    pub(crate) fn new(frames: &Frames, then: Then) -> io::Result<Self> {
        let mut flows = vec![0; FLOWS_AT.unsigned_abs() as usize];
        flows.extend(&frames.flows);
        let value = Value::new(flows.len())?;
        let program = bpf::load(&instructions(frames, &value, &then)?)?;
        let harness = Self { program, value, flows, _then: then };
        harness.restart()?;
        Ok(harness)
    }

    /// Begins with the first flow.
    pub(crate) fn restart(&self) -> io::Result<()> {
        self.value.store(&self.flows)
    }
}

fn instructions(frames: &Frames, value_map: &Value, then: &Then) -> io::Result<Vec<Instruction>> {
    let count = i32::try_from(frames.count()).map_err(io::Error::other)?;
    let length = i32::try_from(frames.frame.len()).map_err(io::Error::other)?;
    let mut body = Vec::new();
    body.extend(value(R5, bpf::number(&value_map.fd)));
    body.push(load(Width::Eight, R0, R5, 0));
    body.extend([copy(R4, R0), add(R4, 1), store(Width::Eight, R5, 0, R4)]);
    body.extend([and(R0, count - 1), times(R0, i32::from(frames.stride)), sum(R5, R0)]);
    body.push(add(R5, FLOWS_AT));
    for part in frames.fixed {
        let octets = frames.frame.iter().skip(part.at.unsigned_abs().into());
        let mut word = [0; 8];
        word.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
        body.extend(wide(R4, u64::from_ne_bytes(word)));
        body.push(store(part.width, R2, part.at, R4));
    }
    let mut from = 0;
    for part in frames.parts {
        body.push(load(part.width, R4, R5, from));
        body.push(store(part.width, R2, part.at, R4));
        from += part.width.octets();
    }
    body.push(copy(R1, R6));
    match then {
        Then::Program(table) => {
            body.extend(map(R2, bpf::number(table)));
            body.extend([set(R3, 0), call(TAIL_CALL)]);
        }
        Then::Redirect(interface) => {
            body.extend([set(R1, interface.cast_signed()), set(R2, 0), call(REDIRECT), EXIT]);
        }
    }
    let skipped = i16::try_from(body.len()).map_err(io::Error::other)?;
    let mut program = vec![
        copy(R6, R1),
        load(Width::Four, R2, R1, 0),
        load(Width::Four, R3, R1, 4),
        copy(R4, R2),
        add(R4, length),
        skip_if_greater(R4, R3, skipped),
    ];
    program.extend(body);
    program.extend([set(R0, 0), EXIT]);
    Ok(program)
}

/// A program that does nothing but say so.
pub(crate) fn bare(action: i32) -> io::Result<OwnedFd> {
    bpf::load(&[set(R0, action), EXIT])
}

/// A program that hands every frame to an interface.
pub(crate) fn redirect(interface: u32) -> io::Result<OwnedFd> {
    bpf::load(&[set(R1, interface.cast_signed()), set(R2, 0), call(REDIRECT), EXIT])
}

/// A program that goes on with the first one of a table.
pub(crate) fn door(table: &OwnedFd) -> io::Result<OwnedFd> {
    let [first, second] = map(R2, bpf::number(table));
    bpf::load(&[first, second, set(R3, 0), call(TAIL_CALL), set(R0, 0), EXIT])
}

/// A program that counts frames and drops them, and its count.
pub(crate) fn sink() -> io::Result<(OwnedFd, Value)> {
    let count = Value::new(8)?;
    let [first, second] = value(R5, bpf::number(&count.fd));
    let program = [
        first,
        second,
        load(Width::Eight, R4, R5, 0),
        add(R4, 1),
        store(Width::Eight, R5, 0, R4),
        set(R0, DROP),
        EXIT,
    ];
    Ok((bpf::load(&program)?, count))
}

/// The threads that poll this interface's receiving side.
pub(crate) fn pollers(interface: &str) -> io::Result<Vec<i32>> {
    let start = format!("napi/{interface}-");
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc")? {
        let path = process?.path();
        let Some(id) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        if name(&path).is_some_and(|name| name.starts_with(&start)) {
            found.push(id);
        }
    }
    Ok(found)
}

fn name(process: &Path) -> Option<String> {
    std::fs::read_to_string(process.join("comm")).ok()
}
