//! The maps: everything that userspace and the programs share, by name.
//!
//! Sizes here are the least; the loader sets the real ones before the maps are made. Words of 32
//! bits go in pairs: the kernel rounds a value up to 64.

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, PerCpuArray, ProgramArray, RingBuf};
use datapath::lb::Scratch;
use datapath::lb::capture::Outcome;
use datapath::lb::layout::{
    BUCKET, Backend, Hop, INTERFACES, Interface, Levels, Owned, Service, ServiceKey, Session,
    Settings, Source, Traffic,
};
use wire::Address;

/// Buckets of [`INDEX`], less one: a power of two less one.
#[unsafe(no_mangle)]
pub(crate) static INDEX_MASK: u32 = 0;
/// Places of [`FREE`], less one: a power of two less one.
#[unsafe(no_mangle)]
pub(crate) static FREE_MASK: u32 = 0;

/// Answers of our own that one processor sends in one tick.
#[unsafe(no_mangle)]
pub(crate) static ANSWERS_A_TICK: u32 = 0;

/// Answers of our own that this processor may still send.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Budget {
    /// When it was last filled.
    pub(crate) tick: u32,
    /// What is left.
    pub(crate) left: u32,
}

#[map]
pub(crate) static SETTINGS: Array<Settings> = Array::with_max_entries(1, BPF_F_MMAPABLE);
#[map]
pub(crate) static LEVELS: Array<Levels> = Array::with_max_entries(1, BPF_F_MMAPABLE);
#[map]
pub(crate) static LINKS: Array<Interface> = Array::with_max_entries(INTERFACES, 0);
#[map]
pub(crate) static OWNED: HashMap<Address, Owned> = HashMap::with_max_entries(1, 0);
#[map]
pub(crate) static SERVICES: HashMap<ServiceKey, Service> = HashMap::with_max_entries(1, 0);
#[map]
pub(crate) static ORIGINS: HashMap<ServiceKey, ServiceKey> = HashMap::with_max_entries(1, 0);
#[map]
pub(crate) static ROWS: Array<[u32; 2]> = Array::with_max_entries(1, BPF_F_MMAPABLE);
#[map]
pub(crate) static MEMBERS: Array<[u32; 2]> = Array::with_max_entries(1, BPF_F_MMAPABLE);
#[map]
pub(crate) static BACKENDS: Array<Backend> = Array::with_max_entries(1, BPF_F_MMAPABLE);
/// Not read by the programs: userspace remembers here what a backend's record is for.
#[map]
pub(crate) static NAMES: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);
#[map]
pub(crate) static WAYS: Array<Hop> = Array::with_max_entries(1, 0);
#[map]
pub(crate) static SOURCES: Array<Source> = Array::with_max_entries(1, BPF_F_MMAPABLE);
#[map]
pub(crate) static INDEX: Array<[u64; BUCKET]> = Array::with_max_entries(1, BPF_F_MMAPABLE);
#[map]
pub(crate) static SESSIONS: Array<Session> = Array::with_max_entries(1, BPF_F_MMAPABLE);
#[map]
pub(crate) static FREE: Array<[u32; 2]> = Array::with_max_entries(1, BPF_F_MMAPABLE);
#[map]
pub(crate) static TRAFFIC: PerCpuArray<Traffic> = PerCpuArray::with_max_entries(1, 0);
#[map]
pub(crate) static DROPS: PerCpuArray<u64> = PerCpuArray::with_max_entries(64, 0);
#[map]
pub(crate) static VERDICTS: PerCpuArray<u64> = PerCpuArray::with_max_entries(4, 0);
#[map]
pub(crate) static BUDGET: PerCpuArray<Budget> = PerCpuArray::with_max_entries(1, 0);
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 16, 0);
/// Copies of packets, while they are captured.
#[map]
pub(crate) static CAPTURE: RingBuf = RingBuf::with_byte_size(1 << 18, 0);
#[map]
pub(crate) static OUTCOME: PerCpuArray<Outcome> = PerCpuArray::with_max_entries(1, 0);
#[map]
pub(crate) static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);
#[map]
pub(crate) static STAGES: ProgramArray = ProgramArray::with_max_entries(8, 0);
