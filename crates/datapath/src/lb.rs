//! Layer-4 balancing: from a virtual address and port to a backend and back, by NAT or twice-NAT.
//!
//! ```text
//!   ┌──────── reopened ──────┐
//!   v                         │
//! enter ──┬─> session ─────> translate, send ───> verdict
//!         ├─> first segment> clamp ──────────────> verdict
//!         ├─> no session ──> admit ──> claim ────> verdict
//!         ├─> ICMP error ──> error ──────────────> verdict
//!         ├─> ARP, ND, echo> answer ─────────────> verdict
//!         └─> not further ─> refuse ─────────────> verdict
//! ```
//! The kernel takes a program's stack of 512 octets and no more, so the core is stages: each
//! returns what it decided, or the stage that goes on with the same [`Scratch`]. The kernel's
//! shell calls the next program, the host's shell loops ([`process`]).
//!
//! Not done here: direct server return and decapsulation, fragments (counted drops), SYN cookies.

mod admit;
mod affinity;
mod answer;
pub mod capture;
mod clamp;
mod enter;
mod error;
#[cfg(any(test, feature = "fixed"))]
pub mod host;
pub mod index;
pub mod layout;
mod parse;
mod ports;
mod refuse;
mod rewrite;
mod send;
mod session;
mod stateless;
pub mod tables;
pub mod verdict;

pub use admit::SELECTION_SEED;
pub use layout::Direction;
pub use parse::{Kind, Packet};
pub use tables::{Bucket, Record, Tables};
pub use verdict::{DropReason, Verdict};

use crate::Frame;
use layout::{FlowKey, Hop};

/// What a stage hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The verdict.
    Done(Verdict),
    /// Another stage goes on.
    Stage(Stage),
}

/// The stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Stage {
    /// Every frame: what it is, and packets of known sessions.
    Enter = 0,
    /// A packet without a session: service and backend.
    Admit = 1,
    /// A new session: address and port towards the backend, and both keys.
    Claim = 2,
    /// ARP, neighbour discovery, and echo requests for virtual addresses.
    Answer = 3,
    /// An ICMP error about a packet of a session.
    Error = 4,
    /// The first segments of a TCP connection whose segments are to be smaller.
    Clamp = 5,
    /// A packet that goes no further, and whose source is told.
    Refuse = 6,
}

impl Stage {
    /// Every stage, in the order of the kernel's program table.
    pub const ALL: &[Self] = &[
        Self::Enter,
        Self::Admit,
        Self::Claim,
        Self::Answer,
        Self::Error,
        Self::Clamp,
        Self::Refuse,
    ];

    /// The stage's name: that of its program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enter => "enter",
            Self::Admit => "admit",
            Self::Claim => "claim",
            Self::Answer => "answer",
            Self::Error => "error",
            Self::Clamp => "clamp",
            Self::Refuse => "refuse",
        }
    }
}

/// Stages that one packet goes through at most; the kernel has the same limit.
pub const MAX_STAGES: u32 = 33;

/// What the stages of one packet share; too large for the kernel's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Scratch {
    /// What the headers say.
    pub packet: Packet,
    /// What the headers of a quoted packet say.
    pub quoted: Packet,
    /// The key that is looked for or claimed.
    pub key: FlowKey,
    /// The session that the packet's flow leaves; 0 for none.
    pub replaces: u32,
    /// The session that is being opened, or that a first segment is of.
    pub session: u32,
    /// The direction of that first segment.
    pub direction: Direction,
    /// Addresses and ports that were tried for it.
    pub tries: u32,
    /// Whether the backend is not to see the client: 0 or 1.
    pub twice: u32,
    /// Why the packet goes no further.
    pub refusal: Refusal,
    /// The way of a packet without a session.
    pub way: Hop,
}

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Refusal {
    /// The reason.
    pub reason: DropReason,
    /// With [`DropReason::TooBig`]: octets of the largest packet that passes.
    pub mtu: u16,
}

impl Scratch {
    /// Nothing yet.
    pub const EMPTY: Self = Self {
        packet: Packet::EMPTY,
        quoted: Packet::EMPTY,
        key: Packet::EMPTY.key,
        replaces: 0,
        session: 0,
        direction: Direction::Forward,
        tries: 0,
        twice: 0,
        refusal: Refusal { reason: DropReason::Internal, mtu: 0 },
        way: Hop::NONE,
    };
}

/// Runs one stage.
#[inline(always)]
pub fn run<F: Frame, T: Tables>(
    stage: Stage,
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Next {
    match stage {
        Stage::Enter => enter::enter(frame, tables, scratch),
        Stage::Admit => admit::admit(frame, tables, scratch),
        Stage::Claim => ports::claim(frame, tables, scratch),
        Stage::Answer => answer::answer(frame, tables, scratch).map(Next::Done),
        Stage::Error => error::error(frame, tables, scratch),
        Stage::Clamp => clamp::clamp(frame, tables, scratch),
        Stage::Refuse => refuse::refuse(frame, tables, scratch).map(Next::Done),
    }
    .unwrap_or_else(|reason| Next::Done(Verdict::Drop(reason)))
}

/// Decides about one frame, stage after stage: the host's shell.
pub fn process<F: Frame, T: Tables>(frame: &mut F, tables: &T, scratch: &mut Scratch) -> Verdict {
    let mut stage = Stage::Enter;
    for _ in 0..=MAX_STAGES {
        match run(stage, frame, tables, scratch) {
            Next::Done(verdict) => return verdict,
            Next::Stage(next) => stage = next,
        }
    }
    Verdict::Drop(DropReason::Internal)
}

#[cfg(test)]
mod tests;
