//! What an earlier process has left in pinned maps: services go on as they are, until the plan says
//! otherwise.

use super::keys::octets;
use super::{Installed, Kernel, identity};
use crate::extents::Extent;
use datapath::lb::layout::{self, Row, ServiceKey, Source, backend_flag};
use std::sync::Arc;
use std::time::Instant;
use wire::Address;
use xdp::Octets;

impl Kernel {
    /// Whether an earlier process has left sessions.
    pub fn is_adopted(&self) -> bool {
        self.core.shared.settings.load(0).is_some_and(|settings| settings.generation != 0)
    }

    /// Whether an earlier process sent new flows to this backend: until it is proven otherwise, it
    /// is well.
    pub fn served(&self, mapping: &str, backend: &lb_api::Backend) -> bool {
        let port = backend.port.map_or(0, std::num::NonZero::get);
        let address = Address::from(backend.address.get());
        self.served.contains(&identity(mapping, &backend.name.to_string(), address, port))
    }

    /// Learns what an earlier process has put into the maps.
    pub(super) fn adopt(&mut self) {
        self.owned = self.core.owned.keys().flatten().map(|Octets(address)| address).collect();
        let origins = self.core.origins.iter().flatten();
        self.origins = origins.map(|(Octets(key), Octets(to))| (octets(&key), to)).collect();
        let shared = Arc::clone(&self.core.shared);
        for id in 0..=u16::MAX {
            let Some(name) = shared.names.load(u32::from(id)).filter(|name| *name != 0) else {
                continue;
            };
            self.ids.adopt(name, id);
            if let Some(record) = shared.backends.load(u32::from(id)) {
                if record.flags & backend_flag::GONE == 0 {
                    self.served.insert(name);
                }
                let extent = Extent { at: record.sources_at, length: record.sources };
                let places = extent.at..extent.at + extent.length;
                let run: Arc<[Source]> = places.filter_map(|at| shared.sources.load(at)).collect();
                self.sources.adopt(Arc::clone(&run), extent);
                self.ids.set_sources(id, run);
            }
        }
        let services: Vec<_> = self.core.services.iter().flatten().collect();
        for (Octets(key), Octets(record)) in services {
            let installed = self.read_service(key, record);
            self.installed.insert(octets(&key), installed);
        }
    }

    /// A service as an earlier process has written it. Its members are known from the rows.
    fn read_service(&mut self, key: ServiceKey, record: layout::Service) -> Installed {
        let shared = Arc::clone(&self.core.shared);
        let extent = Extent { at: record.rows_at, length: record.rows };
        let places = extent.at..extent.at + extent.length;
        let rows: Arc<[u32]> = places.filter_map(|at| shared.rows.load(at)).collect();
        let last = rows.iter().map(|row| Row(*row)).map(|row| row.first().max(row.second()));
        let length = last.max().map_or(0, |last| last + 1);
        let extent_of_members = Extent { at: record.members_at, length };
        let places = record.members_at..record.members_at + length;
        let members: Arc<[u32]> = places.filter_map(|at| shared.members.load(at)).collect();
        let member = |local: u32| {
            let id = usize::try_from(local).ok().and_then(|local| members.get(local));
            id.and_then(|id| u16::try_from(*id).ok()).unwrap_or_default()
        };
        let owners = rows
            .iter()
            .map(|row| Row(*row))
            .map(|row| (member(row.first()), row.is_moving().then(|| member(row.second()))));
        let owners = owners.collect();
        if !rows.is_empty() {
            self.rows.adopt(Arc::clone(&rows), extent);
            self.members.adopt(Arc::clone(&members), extent_of_members);
        }
        Installed { key, record, rows, members, owners, changed: now() }
    }
}

#[expect(clippy::disallowed_methods, reason = "the moment of adoption: this is a shell")]
pub(super) fn now() -> Instant {
    Instant::now()
}
