//! The maps of the packet core as userspace sees them, whoever has loaded it.
//!
//! ```text
//! Core::load: the maps that it has just made ───────────────┐
//! of_program: an interface's program ─> all programs with   ├─> View
//!             its SETTINGS ─> all of their maps, by name ───┘
//! ```

use crate::memory::{Memory, Pairs};
use crate::{Error, Octets, Plain};
use aya::maps::{Array, HashMap, Map, MapData, MapError, MapInfo, PerCpuArray, RingBuf};
use aya::programs::{ProgramInfo, loaded_programs};
use datapath::lb::DropReason;
use datapath::lb::capture::Outcome;
use datapath::lb::layout::{
    Backend, Hop, Interface, Levels, Owned, Service, ServiceKey, Session, Settings, Source, Traffic,
};
use std::collections;
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::Address;

/// The map that every stage uses, and that no two packet cores share.
const COMMON: &str = "SETTINGS";

/// The arrays that both sides see.
#[derive(Debug)]
pub struct Shared {
    /// What holds for every packet.
    pub settings: Memory<Settings>,
    /// Levels of free and half-open sessions.
    pub levels: Memory<Levels>,
    /// The session index, eight words a record.
    pub index: Memory<[u64; 8]>,
    /// The sessions.
    pub sessions: Memory<Session>,
    /// The ring of free sessions.
    pub free: Pairs,
    /// The arena of rows.
    pub rows: Pairs,
    /// The arena of members.
    pub members: Pairs,
    /// The backends.
    pub backends: Memory<Backend>,
    /// What each backend's record is for: a hash of its name, or 0.
    pub names: Memory<u64>,
    /// The translation addresses.
    pub sources: Memory<Source>,
}

/// The maps of a packet core.
pub struct View {
    /// The arrays that both sides see.
    pub shared: Arc<Shared>,
    /// The interfaces.
    pub interfaces: Array<MapData, Octets<Interface>>,
    /// The addresses that are ours.
    pub owned: HashMap<MapData, Octets<Address>, Octets<Owned>>,
    /// The services.
    pub services: HashMap<MapData, Octets<ServiceKey>, Octets<Service>>,
    /// The only service behind which a backend's address and port stand.
    pub origins: HashMap<MapData, Octets<ServiceKey>, Octets<ServiceKey>>,
    /// The way to each backend, as it was last looked up.
    pub ways: Array<MapData, Octets<Hop>>,
    /// Traffic by backend.
    pub traffic: PerCpuArray<MapData, Octets<Traffic>>,
    drops: PerCpuArray<MapData, u64>,
    verdicts: PerCpuArray<MapData, u64>,
    /// Copies of packets, and what was lost of them: for whoever takes them.
    pub(crate) capture: Option<Copies>,
}

/// Copies of packets, and what became of the packet that is being copied.
pub(crate) type Copies = (RingBuf<MapData>, PerCpuArray<MapData, Octets<Outcome>>);

/// Where maps come from: by name, each once.
pub(crate) type Maps<'a> = dyn FnMut(&'static str) -> Result<Map, Error> + 'a;

impl View {
    /// The maps of the packet core that the program of this id is part of: what an interface says
    /// that it runs.
    ///
    /// # Errors
    /// No privileges, no such program, one that is not ours, or one of another build.
    pub fn of_program(id: u32) -> Result<Self, Error> {
        let running = Running::find(id)?;
        Self::new(&mut |name| running.open(name))
    }

    /// The view on these maps.
    pub(crate) fn new(maps: &mut Maps<'_>) -> Result<Self, Error> {
        let shared = Shared {
            settings: memory(maps, "SETTINGS")?,
            levels: memory(maps, "LEVELS")?,
            index: memory(maps, "INDEX")?,
            sessions: memory(maps, "SESSIONS")?,
            free: Pairs::new(memory(maps, "FREE")?),
            rows: Pairs::new(memory(maps, "ROWS")?),
            members: Pairs::new(memory(maps, "MEMBERS")?),
            backends: memory(maps, "BACKENDS")?,
            names: memory(maps, "NAMES")?,
            sources: memory(maps, "SOURCES")?,
        };
        Ok(Self {
            shared: Arc::new(shared),
            interfaces: table(maps, "LINKS")?,
            owned: table(maps, "OWNED")?,
            services: table(maps, "SERVICES")?,
            origins: table(maps, "ORIGINS")?,
            ways: table(maps, "WAYS")?,
            traffic: table(maps, "TRAFFIC")?,
            drops: table(maps, "DROPS")?,
            verdicts: table(maps, "VERDICTS")?,
            capture: Some((table(maps, "CAPTURE")?, table(maps, "OUTCOME")?)),
        })
    }

    /// Processors that the kernel counts on apart.
    #[must_use]
    pub fn processors(&self) -> usize {
        aya::util::nr_cpus().unwrap_or(1)
    }

    /// A backend's counters, over all processors; zeroes past the end.
    #[must_use]
    pub fn traffic(&self, backend: u16) -> Traffic {
        let Ok(parts) = self.traffic.get(&u32::from(backend), 0) else {
            return Traffic::default();
        };
        parts.iter().fold(Traffic::default(), |sum, Octets(part)| Traffic {
            packets_in: sum.packets_in.wrapping_add(part.packets_in),
            octets_in: sum.octets_in.wrapping_add(part.octets_in),
            packets_out: sum.packets_out.wrapping_add(part.packets_out),
            octets_out: sum.octets_out.wrapping_add(part.octets_out),
            sessions: sum.sessions.wrapping_add(part.sessions),
        })
    }

    /// Packets dropped for this reason since the start, on all processors.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn drops(&self, reason: DropReason) -> Result<u64, Error> {
        let place = u32::try_from(reason.index()).unwrap_or(u32::MAX);
        let counts = self.drops.get(&place, 0).map_err(|source| unread("DROPS", source))?;
        Ok(counts.iter().sum())
    }

    /// Packets passed, transmitted, redirected and dropped since the start.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn verdicts(&self) -> Result<[u64; 4], Error> {
        let mut sums = [0; 4];
        for (place, sum) in (0..).zip(&mut sums) {
            let counts =
                self.verdicts.get(&place, 0).map_err(|source| unread("VERDICTS", source))?;
            *sum = counts.iter().sum();
        }
        Ok(sums)
    }
}

/// The maps of a running packet core: their ids, by name.
pub(crate) struct Running {
    program: u32,
    maps: collections::HashMap<String, u32>,
}

impl Running {
    /// A stage uses some of the maps: all that share one have all of them.
    pub(crate) fn find(program: u32) -> Result<Self, Error> {
        let foreign = || Error::NotOurs { program };
        let infos: Vec<ProgramInfo> = loaded_programs()
            .collect::<Result<_, _>>()
            .map_err(|source| Error::Program { program: format!("id {program}"), source })?;
        let asked = infos.iter().find(|info| info.id() == program).ok_or_else(foreign)?;
        let mut maps = named(asked)?;
        let common = *maps.get(COMMON).ok_or_else(foreign)?;
        // The newest ones first: where one process takes over from another, both hold pinned maps.
        for info in infos.iter().rev() {
            if ids(info)?.contains(&common) {
                for (name, id) in named(info)? {
                    maps.entry(name).or_insert(id);
                }
            }
        }
        Ok(Self { program, maps })
    }

    /// The map of this name.
    pub(crate) fn open(&self, name: &'static str) -> Result<Map, Error> {
        let (program, map) = (self.program, name);
        let id = self.maps.get(name).ok_or(Error::OtherBuild { program, map })?;
        let data = MapData::from_id(*id).map_err(|source| unread(name, source))?;
        Map::from_map_data(data).map_err(|source| unread(name, source))
    }
}

/// The ids of a program's maps.
fn ids(info: &ProgramInfo) -> Result<Vec<u32>, Error> {
    let ids = info
        .map_ids()
        .map_err(|source| Error::Program { program: format!("id {}", info.id()), source })?;
    Ok(ids.unwrap_or_default())
}

/// The ids of a program's maps, by name. A map that goes meanwhile is none.
fn named(info: &ProgramInfo) -> Result<collections::HashMap<String, u32>, Error> {
    let infos = ids(info)?.into_iter().filter_map(|id| MapInfo::from_id(id).ok());
    Ok(infos.filter_map(|info| Some((info.name_as_str()?.to_owned(), info.id()))).collect())
}

/// A map as its own type.
pub(crate) fn table<M: TryFrom<Map, Error = MapError>>(
    maps: &mut Maps<'_>,
    name: &'static str,
) -> Result<M, Error> {
    maps(name)?.try_into().map_err(|source| match source {
        MapError::InvalidKeySize { .. } | MapError::InvalidValueSize { .. } => {
            Error::OtherLayout { map: name }
        }
        source => unread(name, source),
    })
}

/// An array in this process's memory, which keeps the map alive.
fn memory<T: Plain>(maps: &mut Maps<'_>, name: &'static str) -> Result<Memory<T>, Error> {
    let Map::Array(data) = maps(name)? else { return Err(Error::OtherLayout { map: name }) };
    let info = data.info().map_err(|source| unread(name, source))?;
    if usize::try_from(info.value_size()) != Ok(size_of::<T>()) {
        return Err(Error::OtherLayout { map: name });
    }
    Memory::map(name, data.fd().as_fd(), info.max_entries())
}

pub(crate) fn unread(map: &'static str, source: MapError) -> Error {
    Error::Map { map, source }
}
