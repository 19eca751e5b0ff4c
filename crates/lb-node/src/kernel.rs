//! The plan in the kernel's maps: what is new is written before anything refers to it, and one
//! replaced record makes a service's change whole.

mod adopt;
mod keys;
mod rows;

use self::keys::{from_octets, octets};
use self::rows::{moved, packed};
use crate::extents::{Extent, Extents, Full};
use crate::ids::Ids;
use crate::look::names::place;
use crate::plan::{Plan, PlannedBackend, Service};
use crate::sweeper::Census;
use datapath::lb::layout::{
    self, Interface, Owned, ServiceKey, Source, Traffic, backend_flag, owned_kind, service_flag,
};
use netio::links::Link;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Address;
use xdp::{Core, Octets, PerCpuValues, Pins, Sizes};

/// The maps, and what was put into them.
pub struct Kernel {
    core: Core,
    rows: Extents<u32>,
    members: Extents<u32>,
    sources: Extents<Source>,
    ids: Ids,
    installed: BTreeMap<[u8; 24], Installed>,
    owned: BTreeSet<Address>,
    origins: BTreeMap<[u8; 24], ServiceKey>,
    /// The backends to which an earlier process sent new flows.
    served: BTreeSet<u64>,
}

/// A service as it is in the maps.
struct Installed {
    key: ServiceKey,
    record: layout::Service,
    rows: Arc<[u32]>,
    members: Arc<[u32]>,
    /// By row: the first choice and, in transition, the previous owner.
    owners: Vec<(u16, Option<u16>)>,
    changed: Instant,
}

/// Why a plan cannot be put into the maps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refuses.
    #[error(transparent)]
    Kernel(#[from] xdp::Error),
    /// An array is too small.
    #[error("{mapping}: no room for its {what}: lower tableSize, or take mappings away")]
    Full {
        /// The mapping.
        mapping: String,
        /// What does not fit.
        what: &'static str,
    },
    /// A map does not take a record.
    #[error("map {map}: {source}")]
    Map {
        /// The map.
        map: &'static str,
        /// The kernel's words.
        source: xdp::MapError,
    },
}

impl Kernel {
    /// The packet core with these maps: those that are pinned, with all that is in them, or new
    /// ones.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub fn load(sizes: &Sizes, pins: Option<&Pins>) -> Result<Self, Error> {
        let core = Core::load(sizes, pins)?;
        let mut kernel = Self {
            rows: Extents::new(sizes.rows),
            members: Extents::new(sizes.members),
            sources: Extents::new(sizes.sources),
            ids: Ids::new(sizes.backends),
            core,
            installed: BTreeMap::new(),
            owned: BTreeSet::new(),
            origins: BTreeMap::new(),
            served: BTreeSet::new(),
        };
        kernel.adopt();
        Ok(kernel)
    }

    /// The programs and maps.
    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Serves an interface.
    ///
    /// # Errors
    /// The map does not take it.
    pub fn add_interface(&mut self, link: &Link) -> Result<(), Error> {
        let index = link.index;
        let own = |v4: bool| {
            let found = link.addresses.iter().find(|address| address.is_ipv4() == v4);
            found.map_or(Address::v6([0; 16]), |address| Address::from(*address))
        };
        let mac = link.mac.unwrap_or_default();
        let record = Interface { index, mac, zero: [0; 6], v4: own(true), v6: own(false) };
        let place = index & (layout::INTERFACES - 1);
        let set = self.core.interfaces.set(place, Octets(record), 0);
        set.map_err(|source| Error::Map { map: "LINKS", source })
    }

    /// Puts a plan into the maps, service by service, each change whole.
    ///
    /// # Errors
    /// What does not fit; services before it are changed.
    pub fn apply(&mut self, plan: &Plan, now: Instant) -> Result<(), Error> {
        self.check_room(plan)?;
        self.own(plan)?;
        let mut held = BTreeSet::new();
        for (name, service) in &plan.services {
            held.extend(self.install(name, service, now)?);
        }
        let keys: BTreeSet<_> =
            plan.services.values().map(|service| octets(&service.key)).collect();
        let gone: Vec<_> =
            self.installed.keys().filter(|key| !keys.contains(*key)).copied().collect();
        for key in gone {
            self.remove(&key, now)?;
        }
        for id in self.ids.retire(&held) {
            self.mark_gone(id);
        }
        self.disown(plan)?;
        self.set_origins(plan)
    }

    /// Whether the rows of a plan fit beside those that are in force, before anything is written.
    fn check_room(&self, plan: &Plan) -> Result<(), Error> {
        let mut left = self.rows.unused();
        // Equal tables have one place.
        let mut counted: HashSet<&[u16]> = HashSet::new();
        for (name, service) in &plan.services {
            let rows = u32::try_from(service.rows.len()).unwrap_or(u32::MAX);
            let installed = self.installed.get(&octets(&service.key));
            let stays = installed.is_some_and(|installed| installed.record.rows == rows);
            if stays || !counted.insert(&service.rows) {
                continue;
            }
            let full = || Error::Full { mapping: name.clone(), what: "rows" };
            left = left.checked_sub(rows).ok_or_else(full)?;
        }
        Ok(())
    }

    /// Ends transitions that have lasted this long.
    ///
    /// # Errors
    /// No room to write the rows anew.
    pub fn end_transitions(&mut self, transition: Duration, now: Instant) -> Result<(), Error> {
        let due = |installed: &Installed| {
            now.saturating_duration_since(installed.changed) >= transition
                && installed.owners.iter().any(|(_, previous)| previous.is_some())
        };
        let keys: Vec<_> =
            self.installed.iter().filter(|(_, i)| due(i)).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(installed) = self.installed.get(&key) else { continue };
            let owners = installed.owners.iter().map(|(first, _)| (*first, None)).collect();
            let (key, record, changed) = (installed.key, installed.record, installed.changed);
            let name = place(key.address, key.port);
            self.replace(&name, key, record, owners, changed, now)?;
        }
        Ok(())
    }

    /// Frees the records of backends that are gone and that neither a session nor a row names.
    pub fn reap(&mut self, census: &Census, now: Instant) {
        let named: BTreeSet<u16> = self
            .installed
            .values()
            .flat_map(|installed| installed.owners.iter())
            .flat_map(|(first, previous)| [Some(*first), *previous])
            .flatten()
            .collect();
        let counted = |id: &u16| census.active.contains_key(id) || census.sticky.contains_key(id);
        let used = |id: &u16| named.contains(id) || counted(id);
        for id in self.ids.reap(used) {
            if let Some(sources) = self.ids.take_sources(id) {
                self.sources.release(&sources, now);
            }
            self.core.shared.names.store(u32::from(id), 0);
            let none = vec![Octets(Traffic::default()); self.core.processors()];
            if let Ok(none) = PerCpuValues::try_from(none) {
                let _unwritable = self.core.traffic.set(u32::from(id), none, 0);
            }
        }
    }

    /// The id of a mapping's backend.
    pub fn backend_id(&self, mapping: &str, backend: &PlannedBackend) -> Option<u16> {
        self.ids.get(identity(mapping, &backend.name, backend.address, backend.port))
    }

    /// The backend's counters, over all processors.
    pub fn traffic(&self, id: u16) -> Traffic {
        self.core.traffic(id)
    }

    fn install(&mut self, name: &str, service: &Service, now: Instant) -> Result<Vec<u16>, Error> {
        let ids = self.write_backends(name, service, now)?;
        let firsts: Vec<u16> =
            service.rows.iter().filter_map(|place| ids.get(usize::from(*place)).copied()).collect();
        let before = self.installed.get(&octets(&service.key));
        let owners: Vec<_> = match before.filter(|before| before.owners.len() == firsts.len()) {
            Some(before) => firsts.iter().zip(&before.owners).map(moved).collect(),
            None => firsts.iter().map(|first| (*first, None)).collect(),
        };
        let record = layout::Service {
            rows_at: 0,
            rows: 0,
            members_at: 0,
            affinity_s: service.affinity_s,
            flags: service.flags,
        };
        // A service whose last backend has gone keeps its owners, for the one that comes back.
        if owners.is_empty() {
            self.close(service.key, record, now)?;
            return Ok(ids);
        }
        let changed = match before {
            Some(before) if before.owners == owners => before.changed,
            _ => now,
        };
        self.replace(name, service.key, record, owners, changed, now)?;
        Ok(ids)
    }

    /// Writes rows and members, then the record that refers to them.
    fn replace(
        &mut self,
        name: &str,
        key: ServiceKey,
        mut record: layout::Service,
        owners: Vec<(u16, Option<u16>)>,
        changed: Instant,
        now: Instant,
    ) -> Result<(), Error> {
        let (rows, members) = packed(&owners);
        let full = |what| move |Full| Error::Full { mapping: name.to_owned(), what };
        let shared = Arc::clone(&self.core.shared);
        let at = self.rows.hold(Arc::clone(&rows), now, |extent, words| {
            write(&shared.rows, extent, words);
        });
        let rows_at = at.map_err(full("rows"))?;
        let at = self.members.hold(Arc::clone(&members), now, |extent, words| {
            write(&shared.members, extent, words);
        });
        let members_at = at.map_err(full("members")).inspect_err(|_| {
            self.rows.release(&rows, now);
        })?;
        record.rows_at = rows_at.at;
        record.rows = rows_at.length;
        record.members_at = members_at.at;
        if let Err(refused) = self.put_service(key, record) {
            self.rows.release(&rows, now);
            self.members.release(&members, now);
            return Err(refused);
        }
        let new = Installed { key, record, rows, members, owners, changed };
        if let Some(old) = self.installed.insert(octets(&key), new) {
            self.rows.release(&old.rows, now);
            self.members.release(&old.members, now);
        }
        Ok(())
    }

    /// A service without a backend: it drops new flows.
    fn close(
        &mut self,
        key: ServiceKey,
        record: layout::Service,
        now: Instant,
    ) -> Result<(), Error> {
        self.put_service(key, record)?;
        let none = || Installed {
            key,
            record,
            rows: Arc::from([]),
            members: Arc::from([]),
            owners: Vec::new(),
            changed: now,
        };
        self.installed.entry(octets(&key)).or_insert_with(none).record = record;
        Ok(())
    }

    fn remove(&mut self, key: &[u8; 24], now: Instant) -> Result<(), Error> {
        if let Some(old) = self.installed.remove(key) {
            let taken = self.core.services.remove(&Octets(old.key));
            taken.map_err(|source| Error::Map { map: "SERVICES", source })?;
            self.rows.release(&old.rows, now);
            self.members.release(&old.members, now);
        }
        Ok(())
    }

    /// Writes the backends' records; those that the mapping no longer has are gone, and their
    /// open sessions go on or are reset as the mapping says.
    fn write_backends(
        &mut self,
        name: &str,
        service: &Service,
        now: Instant,
    ) -> Result<Vec<u16>, Error> {
        let reset = service.flags & service_flag::RESET != 0;
        let mut ids = Vec::new();
        for backend in &service.backends {
            let full = |what| Error::Full { mapping: name.to_owned(), what };
            let identity = identity(name, &backend.name, backend.address, backend.port);
            let id = self.ids.hold(identity).ok_or_else(|| full("backends"))?;
            let shared = Arc::clone(&self.core.shared);
            shared.names.store(u32::from(id), identity);
            let sources = Arc::clone(&backend.sources);
            let held = self.sources.hold(sources, now, |extent, records| {
                for (at, record) in (extent.at..).zip(records) {
                    shared.sources.store(at, *record);
                }
            });
            let extent = held.map_err(|Full| full("translation addresses"))?;
            let mut flags = if reset { WANTS_RESET } else { 0 };
            if !backend.alive {
                flags |= gone(flags);
            }
            let record = layout::Backend {
                address: backend.address,
                port: backend.port.to_be_bytes(),
                segment: backend.segment,
                flags,
                sources_at: extent.at,
                sources: extent.length,
            };
            self.core.shared.backends.store(u32::from(id), record);
            if let Some(old) = self.ids.set_sources(id, Arc::clone(&backend.sources)) {
                self.sources.release(&old, now);
            }
            ids.push(id);
        }
        Ok(ids)
    }

    fn mark_gone(&self, id: u16) {
        let backends = &self.core.shared.backends;
        if let Some(mut record) = backends.load(u32::from(id)) {
            record.flags |= gone(record.flags);
            backends.store(u32::from(id), record);
        }
    }

    fn own(&mut self, plan: &Plan) -> Result<(), Error> {
        let virtuals = plan.virtuals.iter().map(|address| (*address, owned_kind::VIRTUAL));
        let sources = plan.sources.iter().map(|address| (*address, owned_kind::SOURCE));
        for (address, kind) in virtuals.chain(sources) {
            if self.owned.contains(&address) {
                continue;
            }
            let record = Owned { until_ns: u64::MAX, kind, zero: 0 };
            let put = self.core.owned.insert(Octets(address), Octets(record), 0);
            put.map_err(|source| Error::Map { map: "OWNED", source })?;
            self.owned.insert(address);
        }
        Ok(())
    }

    fn disown(&mut self, plan: &Plan) -> Result<(), Error> {
        let ours: BTreeSet<_> = plan.virtuals.iter().chain(&plan.sources).copied().collect();
        for address in self.owned.difference(&ours) {
            let taken = self.core.owned.remove(&Octets(*address));
            taken.map_err(|source| Error::Map { map: "OWNED", source })?;
        }
        self.owned = ours;
        Ok(())
    }

    /// Which service a backend's packet belongs to that no session knows: the one service that
    /// has it, if there is one.
    fn set_origins(&mut self, plan: &Plan) -> Result<(), Error> {
        let mut found: HashMap<ServiceKey, Option<ServiceKey>> = HashMap::new();
        for service in plan.services.values().filter(|s| s.flags & service_flag::TWICE_NAT == 0) {
            for backend in &service.backends {
                let port = backend.port.to_be_bytes();
                let key = ServiceKey { address: backend.address, port, ..service.key };
                found.entry(key).and_modify(|other| *other = None).or_insert(Some(service.key));
            }
        }
        let wanted: BTreeMap<[u8; 24], ServiceKey> =
            found.into_iter().filter_map(|(key, service)| Some((octets(&key), service?))).collect();
        let failed = |source| Error::Map { map: "ORIGINS", source };
        for key in self.origins.keys().filter(|key| !wanted.contains_key(*key)) {
            self.core.origins.remove(&Octets(from_octets(key))).map_err(failed)?;
        }
        for (key, service) in &wanted {
            if self.origins.get(key) != Some(service) {
                let put = self.core.origins.insert(Octets(from_octets(key)), Octets(*service), 0);
                put.map_err(failed)?;
            }
        }
        self.origins = wanted;
        Ok(())
    }

    fn put_service(&mut self, key: ServiceKey, record: layout::Service) -> Result<(), Error> {
        let put = self.core.services.insert(Octets(key), Octets(record), 0);
        put.map_err(|source| Error::Map { map: "SERVICES", source })
    }
}

/// Of userspace alone: what is to become of the backend's open sessions once it is gone.
const WANTS_RESET: u32 = 1 << 31;

/// The flags of a backend that is gone.
fn gone(flags: u32) -> u32 {
    if flags & WANTS_RESET == 0 {
        backend_flag::GONE
    } else {
        backend_flag::GONE | backend_flag::RESET
    }
}

/// A backend's name, the same in every process. With another address or port it is another
/// backend.
pub(crate) fn identity(mapping: &str, backend: &str, address: Address, port: u16) -> u64 {
    let mut digest = Sha256::new();
    digest.update(mapping);
    digest.update([0]);
    digest.update(backend);
    digest.update([0]);
    digest.update(address.octets());
    digest.update(port.to_be_bytes());
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(digest.finalize());
    // Zero says that a record is nobody's.
    u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1)
}

fn write(to: &xdp::Pairs, extent: Extent, words: &[u32]) {
    for (at, word) in (extent.at..).zip(words) {
        to.store(at, *word);
    }
}

#[cfg(test)]
mod tests;
