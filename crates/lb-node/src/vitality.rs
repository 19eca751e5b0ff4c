//! Which backends take new flows: what the checks say, and what a mapping makes of it.

use lb_api::{Backend, HealthCheck, NatLbMapping, Probe};
use probe::checks::{Check, CheckId, Checks, Http, Kind};
use std::collections::BTreeMap;

/// The check of every backend that has one.
#[derive(Debug, Default)]
pub struct Vitality {
    ids: BTreeMap<(String, String), CheckId>,
    next: u64,
}

impl Vitality {
    /// Has these mappings' backends checked from now on. Checks that stay keep what they know.
    ///
    /// # Errors
    /// More checks than can be run.
    pub fn check<'a>(
        &mut self,
        mappings: impl Iterator<Item = &'a NatLbMapping>,
        checks: &mut Checks,
    ) -> Result<(), probe::Error> {
        let mut ids = BTreeMap::new();
        let mut wanted = Vec::new();
        for mapping in mappings {
            for backend in &mapping.spec.backends {
                let Some(check) = check(mapping, backend)? else { continue };
                let name = (mapping.name(), backend.name.to_string());
                let id = self.ids.get(&name).copied().unwrap_or(CheckId(self.next));
                if id == CheckId(self.next) {
                    self.next += 1;
                }
                wanted.push((id, check));
                ids.insert(name, id);
            }
        }
        checks.set(wanted)?;
        self.ids = ids;
        Ok(())
    }

    /// The name of a check's mapping and backend.
    pub fn name(&self, id: CheckId) -> Option<(&str, &str)> {
        let found = self.ids.iter().find(|(_, known)| **known == id);
        found.map(|((mapping, backend), _)| (mapping.as_str(), backend.as_str()))
    }

    /// The check of a mapping's backend.
    pub fn id(&self, mapping: &NatLbMapping, backend: &Backend) -> Option<CheckId> {
        self.ids.get(&(mapping.name(), backend.name.to_string())).copied()
    }

    /// Whether a backend takes new flows: it is not checked, or the checks have found it well, or
    /// no backend of a mapping that fails open answers at all. Of one that is not proven yet,
    /// `served` tells whether it took flows before this process.
    pub fn is_alive(
        &self,
        mapping: &NatLbMapping,
        backend: &Backend,
        checks: &Checks,
        served: impl Fn() -> bool,
    ) -> bool {
        let HealthCheck::Enabled(check) = &mapping.spec.health_check else { return true };
        let status = |backend| self.id(mapping, backend).and_then(|id| checks.status(id));
        let up = status(backend).is_some_and(|status| match status.state {
            health::State::Up => true,
            health::State::Down => false,
            health::State::Unproven => served(),
        });
        let unheard = |backend| {
            status(backend)
                .is_some_and(|status| status.state == health::State::Down && status.silent)
        };
        up || check.fail_open && mapping.spec.backends.iter().all(unheard)
    }
}

fn check(mapping: &NatLbMapping, backend: &Backend) -> Result<Option<Check>, probe::Error> {
    let HealthCheck::Enabled(check) = &mapping.spec.health_check else { return Ok(None) };
    let http = |request: &lb_api::Request| {
        let host = request.host.as_ref().map(ToString::to_string);
        let path = request.path.to_string();
        Http::new(&path, host.as_deref(), request.expected_status.get())
    };
    let kind = match &check.probe {
        Probe::Tcp => Kind::Tcp,
        Probe::Http(request) => Kind::Http(http(request)?),
        Probe::Https(request) => Kind::Https(http(request)?),
        Probe::Icmp => Kind::Icmp,
    };
    let port = check.port_of(backend).map_or(0, std::num::NonZero::get);
    Ok(Some(Check { address: backend.address.get(), port, kind, policy: check.policy }))
}
