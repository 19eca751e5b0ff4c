//! One set of checks takes the place of another: what stays goes on, what changed is succeeded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use health::Machine;

use super::{Group, Key, Schedule};
use crate::Error;
use crate::checks::MAX_CHECKS;
use crate::checks::check::{Check, CheckId, Kind};

/// First probes of new checks are spread over this much per check, but over no more than one
/// interval: a few backends shall not wait long for their first verdict.
const SPREAD: Duration = Duration::from_millis(10);

/// Refuses the whole set for the first check that is wrong.
pub(super) fn validate(checks: &[(CheckId, Check)]) -> Result<(), Error> {
    if checks.len() > MAX_CHECKS {
        return Err(Error::TooManyChecks(checks.len()));
    }
    let mut seen = HashSet::with_capacity(checks.len());
    for (id, check) in checks {
        let id = *id;
        if !seen.insert(id) {
            return Err(Error::Repeated(id));
        }
        if check.port == 0 && check.kind != Kind::Icmp {
            return Err(Error::Port(id));
        }
        check.policy.validate().map_err(|source| Error::Policy { id, source })?;
    }
    Ok(())
}

impl Schedule {
    pub(super) fn apply(&mut self, checks: Vec<(CheckId, Check)>, now: Instant) {
        let mut wanted: HashMap<Check, Vec<CheckId>> = HashMap::with_capacity(checks.len());
        for (id, mut check) in checks {
            if check.kind == Kind::Icmp {
                check.port = 0;
            }
            wanted.entry(check).or_default().push(id);
        }
        let new = wanted.keys().filter(|check| !self.keys.contains_key(*check)).count();
        let mut ids = HashMap::new();
        let mut fresh = Vec::with_capacity(new);
        for (check, mut group_ids) in wanted {
            group_ids.sort_unstable();
            let known = self.keys.get(&check).copied();
            let key = known.unwrap_or(Key(self.next_key));
            ids.extend(group_ids.iter().map(|&id| (id, key)));
            match self.groups.get_mut(&key) {
                Some(group) => group.ids = group_ids,
                None => {
                    self.next_key += 1;
                    fresh.push((key, self.succeed(check, group_ids, new, now)));
                }
            }
        }
        // A change that waits to be taken is news only where its check is still the same.
        let old_ids = std::mem::replace(&mut self.ids, ids);
        let same = |id| self.ids.get(&id).is_some_and(|key| old_ids.get(&id) == Some(key));
        self.changes.retain(|change| same(change.id));
        self.remove_unnamed();
        for (key, group) in fresh {
            self.keys.insert(Arc::clone(&group.check), key);
            self.starts.extend(group.start.map(|start| (start, key)));
            self.groups.insert(key, group);
        }
    }

    /// A group for a check that was not there. If one of its names was on the same address before,
    /// it inherits that state, so that an edited check takes no backend out of service.
    fn succeed(&self, check: Check, ids: Vec<CheckId>, new: usize, now: Instant) -> Group {
        let spread = SPREAD.saturating_mul(u32::try_from(new).unwrap_or(u32::MAX));
        let first = ids.first().copied().unwrap_or(CheckId(0));
        let start = now + phase(first, spread.min(check.policy.interval));
        let mut before = ids.iter().filter_map(|id| self.groups.get(self.ids.get(id)?));
        let parent = before.find(|group| group.check.address == check.address);
        let (machine, last_probe) = match parent {
            Some(old) if old.check.asks_the_same(&check) => {
                (old.machine.rescheduled(check.policy, start), old.last_probe)
            }
            Some(old) => (old.machine.restarted(check.policy, start), None),
            None => (Machine::new(check.policy, start), None),
        };
        let silent = machine.answered() == Some(false);
        let check = Arc::new(check);
        Group { check, ids, machine, start: Some(start), probe: None, last_probe, silent }
    }

    /// Cancels and removes the groups that no check names any more.
    fn remove_unnamed(&mut self) {
        let named: HashSet<Key> = self.ids.values().copied().collect();
        let is_gone = |key: &Key| !named.contains(key);
        let flights = self.flights.iter().filter(|(_, flight)| is_gone(&flight.key));
        for id in flights.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.cancel(id);
        }
        self.groups.retain(|key, _| named.contains(key));
        self.keys.retain(|_, key| named.contains(key));
        self.starts.retain(|(_, key)| named.contains(key));
    }
}

/// Where in `window` a check begins: always the same for one name, evenly spread over many.
fn phase(id: CheckId, window: Duration) -> Duration {
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(balance::hash::hash(PHASE_SEED, [id.0]) % window_ns)
}

/// Any number that no other use of the hash has.
const PHASE_SEED: u64 = 0x7068_6173_6500_0001;
