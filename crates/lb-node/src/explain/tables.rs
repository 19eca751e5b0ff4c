//! The maps of a running node, copied.

use crate::look::names::{Backend, Names};
use datapath::lb::host::{Held, HostTables};
use datapath::lb::layout::{Hop, Row};
use std::collections::HashMap;
use xdp::{Octets, View};

/// A copy of everything that the packet core looks at.
pub(super) fn of(view: &View, tick: u32) -> HostTables {
    let shared = &view.shared;
    let mut tables = HostTables::new(2, 0);
    tables.tick = tick;
    tables.boot_ns = xdp::boot_ns();
    if let Some(settings) = shared.settings.load(0) {
        tables.settings = settings;
    }
    let records = view.interfaces.iter().filter_map(Result::ok).map(|Octets(record)| record);
    tables.interfaces = records.filter(|record| record.index != 0).collect();
    let owned = view.owned.iter().filter_map(Result::ok);
    tables.owned = owned.map(|(Octets(address), Octets(owned))| (address, owned)).collect();
    let services = view.services.iter().filter_map(Result::ok);
    tables.services = services.map(|(Octets(key), Octets(service))| (key, service)).collect();
    let origins = view.origins.iter().filter_map(Result::ok);
    tables.origins = origins.map(|(Octets(key), Octets(service))| (key, service)).collect();
    tables.rows = (0..shared.rows.len()).filter_map(|at| shared.rows.load(at)).map(Row).collect();
    tables.members = (0..shared.members.len()).filter_map(|at| shared.members.load(at)).collect();
    tables.backends =
        (0..shared.backends.len()).filter_map(|at| shared.backends.load(at)).collect();
    tables.sources = (0..shared.sources.len()).filter_map(|at| shared.sources.load(at)).collect();
    tables.adopt(held(view));
    tables
}

fn held(view: &View) -> Held {
    let shared = &view.shared;
    let levels = shared.levels.load(0).unwrap_or_default();
    let mask = u64::from(shared.free.len().saturating_sub(1));
    let count = levels.freed.wrapping_sub(levels.taken).min(u64::from(shared.free.len()));
    let places = (0..count).map(|at| levels.taken.wrapping_add(at) & mask);
    let free = places.filter_map(|at| shared.free.load(u32::try_from(at).ok()?)).collect();
    Held {
        index: (0..shared.index.len()).filter_map(|at| shared.index.load(at)).collect(),
        sessions: (0..shared.sessions.len()).filter_map(|at| shared.sessions.load(at)).collect(),
        free,
        half_open: levels.half_open,
        ways: (0..shared.names.len()).map(|id| way(view, id)).collect(),
    }
}

/// The way to a backend: looked at only where there is a backend.
fn way(view: &View, id: u32) -> Hop {
    match view.shared.names.load(id) {
        None | Some(0) => Hop::NONE,
        Some(_) => view.ways.get(&id, 0).map_or(Hop::NONE, |Octets(hop)| hop),
    }
}

/// The names of all backends that have a record.
pub(super) fn backends(names: &Names, view: &View) -> HashMap<u16, Backend> {
    let is_used = |id: &u16| view.shared.names.load(u32::from(*id)).is_some_and(|name| name != 0);
    (0..=u16::MAX).filter(is_used).map(|id| (id, names.backend(view, id))).collect()
}
