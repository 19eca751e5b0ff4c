//! The plan in the kernel's maps: what is new is written before anything refers to it, and one
//! replaced record makes a service's change whole.

use crate::extents::{Extent, Extents, Full};
use crate::plan::{Plan, PlannedBackend, Service};
use datapath::lb::layout::{
    self, Interface, Owned, Row, ServiceKey, Source, Traffic, backend_flag, owned_kind,
    service_flag,
};
use netio::links::Link;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Address;
use xdp::{Core, Octets, Sizes};

/// The maps, and what was put into them.
pub struct Kernel {
    core: Core,
    rows: Extents<u32>,
    members: Extents<u32>,
    sources: Extents<Source>,
    ids: Ids,
    installed: BTreeMap<String, Installed>,
    owned: BTreeSet<Address>,
    origins: BTreeMap<[u8; 24], ServiceKey>,
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
    /// Maps of these sizes, still empty.
    ///
    /// # Errors
    /// The kernel refuses them.
    pub fn load(sizes: &Sizes) -> Result<Self, Error> {
        let core = Core::load(sizes)?;
        Ok(Self {
            core,
            rows: Extents::new(sizes.rows),
            members: Extents::new(sizes.members),
            sources: Extents::new(sizes.sources),
            ids: Ids::new(sizes.backends),
            installed: BTreeMap::new(),
            owned: BTreeSet::new(),
            origins: BTreeMap::new(),
        })
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
        self.own(plan)?;
        for (name, service) in &plan.services {
            self.install(name, service, now)?;
        }
        let gone: Vec<_> = self
            .installed
            .keys()
            .filter(|name| !plan.services.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            self.remove(&name, now)?;
        }
        self.disown(plan)?;
        self.set_origins(plan)
    }

    /// Ends transitions that have lasted this long.
    ///
    /// # Errors
    /// No room to write the rows anew.
    pub fn settle(&mut self, transition: Duration, now: Instant) -> Result<(), Error> {
        let due = |installed: &Installed| {
            now.saturating_duration_since(installed.changed) >= transition
                && installed.owners.iter().any(|(_, previous)| previous.is_some())
        };
        let names: Vec<_> =
            self.installed.iter().filter(|(_, i)| due(i)).map(|(n, _)| n.clone()).collect();
        for name in names {
            let Some(installed) = self.installed.get(&name) else { continue };
            let owners = installed.owners.iter().map(|(first, _)| (*first, None)).collect();
            let (key, record, changed) = (installed.key, installed.record, installed.changed);
            self.replace(&name, key, record, owners, changed, now)?;
        }
        Ok(())
    }

    /// The id of a mapping's backend.
    pub fn backend_id(&self, mapping: &str, backend: &PlannedBackend) -> Option<u16> {
        self.ids.get(mapping, backend)
    }

    /// The backend's counters, over all processors.
    pub fn traffic(&self, id: u16) -> Traffic {
        let Ok(parts) = self.core.traffic.get(&u32::from(id), 0) else { return Traffic::default() };
        parts.iter().fold(Traffic::default(), |sum, Octets(part)| Traffic {
            packets_in: sum.packets_in.wrapping_add(part.packets_in),
            octets_in: sum.octets_in.wrapping_add(part.octets_in),
            packets_out: sum.packets_out.wrapping_add(part.packets_out),
            octets_out: sum.octets_out.wrapping_add(part.octets_out),
            sessions: sum.sessions.wrapping_add(part.sessions),
        })
    }

    fn install(&mut self, name: &str, service: &Service, now: Instant) -> Result<(), Error> {
        let ids = self.write_backends(name, service, now)?;
        let firsts: Vec<u16> =
            service.rows.iter().filter_map(|place| ids.get(usize::from(*place)).copied()).collect();
        let before = self.installed.get(name);
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
        let owners = if owners.is_empty() {
            return self.close(name, service.key, record, now);
        } else {
            owners
        };
        let changed = match before {
            Some(before) if before.owners == owners => before.changed,
            _ => now,
        };
        self.replace(name, service.key, record, owners, changed, now)
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
        let members_at = at.map_err(full("members"))?;
        record.rows_at = rows_at.at;
        record.rows = rows_at.length;
        record.members_at = members_at.at;
        self.put_service(key, record)?;
        let new = Installed { key, record, rows, members, owners, changed };
        if let Some(old) = self.installed.insert(name.to_owned(), new) {
            self.rows.release(&old.rows, now);
            self.members.release(&old.members, now);
            if old.key != key {
                self.take_service(old.key)?;
            }
        }
        Ok(())
    }

    /// A service without a backend: it drops new flows.
    fn close(
        &mut self,
        name: &str,
        key: ServiceKey,
        record: layout::Service,
        now: Instant,
    ) -> Result<(), Error> {
        self.put_service(key, record)?;
        match self.installed.get_mut(name) {
            Some(installed) => {
                let old = std::mem::replace(&mut installed.key, key);
                installed.record = record;
                if old != key {
                    self.take_service(old)?;
                }
            }
            None => {
                let none: Arc<[u32]> = Arc::from([]);
                let installed = Installed {
                    key,
                    record,
                    rows: Arc::clone(&none),
                    members: none,
                    owners: Vec::new(),
                    changed: now,
                };
                self.installed.insert(name.to_owned(), installed);
            }
        }
        Ok(())
    }

    fn remove(&mut self, name: &str, now: Instant) -> Result<(), Error> {
        let mut reset = false;
        if let Some(old) = self.installed.remove(name) {
            reset = old.record.flags & service_flag::RESET != 0;
            self.take_service(old.key)?;
            self.rows.release(&old.rows, now);
            self.members.release(&old.members, now);
        }
        for id in self.ids.retire(name, &[]) {
            self.mark_gone(id, reset);
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
            let id = self.ids.hold(name, backend).ok_or_else(|| full("backends"))?;
            let shared = Arc::clone(&self.core.shared);
            let sources = Arc::clone(&backend.sources);
            let held = self.sources.hold(sources, now, |extent, records| {
                for (at, record) in (extent.at..).zip(records) {
                    shared.sources.store(at, *record);
                }
            });
            let extent = held.map_err(|Full| full("translation addresses"))?;
            let mut flags = if backend.alive { 0 } else { backend_flag::GONE };
            if !backend.alive && reset {
                flags |= backend_flag::RESET;
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
        for id in self.ids.retire(name, &ids) {
            self.mark_gone(id, reset);
        }
        Ok(ids)
    }

    fn mark_gone(&self, id: u16, reset: bool) {
        let backends = &self.core.shared.backends;
        if let Some(mut record) = backends.load(u32::from(id)) {
            record.flags |= backend_flag::GONE;
            if reset {
                record.flags |= backend_flag::RESET;
            }
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

    fn take_service(&mut self, key: ServiceKey) -> Result<(), Error> {
        // Another mapping may have taken the key over in the same plan.
        if self.installed.values().any(|installed| installed.key == key) {
            return Ok(());
        }
        let taken = self.core.services.remove(&Octets(key));
        taken.map_err(|source| Error::Map { map: "SERVICES", source })
    }
}

/// A row's owners after a change: in transition if the first choice is another than before, or
/// still in the transition of an earlier change.
fn moved((first, before): (&u16, &(u16, Option<u16>))) -> (u16, Option<u16>) {
    match before {
        (old, previous) if old == first => (*first, *previous),
        (old, _) => (*first, Some(*old)),
    }
}

/// The rows as words, and the members that they name by place.
fn packed(owners: &[(u16, Option<u16>)]) -> (Arc<[u32]>, Arc<[u32]>) {
    let all: BTreeSet<u16> =
        owners.iter().flat_map(|(first, previous)| [Some(*first), *previous]).flatten().collect();
    let places: HashMap<u16, u16> = all.iter().copied().zip(0..).collect();
    let place = |id: &u16| places.get(id).copied().unwrap_or_default();
    let row = |(first, previous): &(u16, Option<u16>)| {
        let first = place(first);
        Row::new(first, previous.as_ref().map_or(first, place), previous.is_some()).0
    };
    (owners.iter().map(row).collect(), all.iter().map(|id| u32::from(*id)).collect())
}

fn write(to: &xdp::Pairs, extent: Extent, words: &[u32]) {
    for (at, word) in (extent.at..).zip(words) {
        to.store(at, *word);
    }
}

fn octets(key: &ServiceKey) -> [u8; 24] {
    let mut octets = [0; 24];
    octets[..16].copy_from_slice(&key.address.octets());
    octets[16..18].copy_from_slice(&key.port);
    octets[18] = key.protocol;
    octets
}

fn from_octets(octets: &[u8; 24]) -> ServiceKey {
    let mut address = [0; 16];
    address.copy_from_slice(&octets[..16]);
    ServiceKey {
        address: Address::v6(address),
        port: [octets[16], octets[17]],
        protocol: octets[18],
        zero: 0,
        zero_too: 0,
    }
}

/// Which record each backend of each mapping has. A record stays its backend's until no session
/// names it any more.
struct Ids {
    by_name: HashMap<Identity, u16>,
    sources: HashMap<u16, Arc<[Source]>>,
    retired: BTreeSet<u16>,
    free: Vec<u16>,
}

/// A backend with another address or port is another backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    mapping: String,
    backend: String,
    address: Address,
    port: u16,
}

impl Ids {
    fn new(records: u32) -> Self {
        let last = u16::try_from(records.saturating_sub(1)).unwrap_or(u16::MAX);
        Self {
            by_name: HashMap::new(),
            sources: HashMap::new(),
            retired: BTreeSet::new(),
            free: (0..=last).rev().collect(),
        }
    }

    fn identity(mapping: &str, backend: &PlannedBackend) -> Identity {
        Identity {
            mapping: mapping.to_owned(),
            backend: backend.name.clone(),
            address: backend.address,
            port: backend.port,
        }
    }

    fn get(&self, mapping: &str, backend: &PlannedBackend) -> Option<u16> {
        self.by_name.get(&Self::identity(mapping, backend)).copied()
    }

    fn hold(&mut self, mapping: &str, backend: &PlannedBackend) -> Option<u16> {
        let identity = Self::identity(mapping, backend);
        if let Some(id) = self.by_name.get(&identity) {
            self.retired.remove(id);
            return Some(*id);
        }
        let id = self.free.pop()?;
        self.by_name.insert(identity, id);
        Some(id)
    }

    /// The backends of a mapping that are not among these from now on.
    fn retire(&mut self, mapping: &str, kept: &[u16]) -> Vec<u16> {
        let mine = self.by_name.iter().filter(|(identity, _)| identity.mapping == mapping);
        let gone: Vec<u16> = mine.map(|(_, id)| *id).filter(|id| !kept.contains(id)).collect();
        self.retired.extend(&gone);
        gone
    }

    fn set_sources(&mut self, id: u16, sources: Arc<[Source]>) -> Option<Arc<[Source]>> {
        self.sources.insert(id, sources)
    }
}
