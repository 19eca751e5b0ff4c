//! Which record each backend has. A record stays its backend's until nothing names it any more:
//! neither a row nor a session.

use datapath::lb::layout::Source;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The records of backends, by a hash of the backend's name.
#[derive(Debug)]
pub struct Ids {
    by_name: HashMap<u64, u16>,
    sources: HashMap<u16, Arc<[Source]>>,
    /// Gone from the plan, and how many times since nothing was seen to name them.
    retired: BTreeMap<u16, u32>,
    free: BTreeSet<u16>,
}

/// How often nothing must name a record before it is used again: a session may be opened between
/// the look at it and the look at its backend.
const LOOKS: u32 = 2;

impl Ids {
    /// So many records, all free.
    pub fn new(records: u32) -> Self {
        let last = u16::try_from(records.saturating_sub(1)).unwrap_or(u16::MAX);
        Self {
            by_name: HashMap::new(),
            sources: HashMap::new(),
            retired: BTreeMap::new(),
            free: (0..=last).collect(),
        }
    }

    /// The record that an earlier process gave to this name.
    pub fn adopt(&mut self, name: u64, id: u16) {
        self.free.remove(&id);
        self.by_name.insert(name, id);
    }

    /// The record of this name.
    pub fn get(&self, name: u64) -> Option<u16> {
        self.by_name.get(&name).copied()
    }

    /// The record of this name, which is in the plan: the one that it has, or a free one.
    pub fn hold(&mut self, name: u64) -> Option<u16> {
        if let Some(id) = self.by_name.get(&name) {
            self.retired.remove(id);
            return Some(*id);
        }
        let id = self.free.pop_first()?;
        self.by_name.insert(name, id);
        Some(id)
    }

    /// The records that are not among these, and were before.
    pub fn retire(&mut self, held: &BTreeSet<u16>) -> Vec<u16> {
        let all = self.by_name.values().copied();
        let gone: Vec<u16> =
            all.filter(|id| !held.contains(id) && !self.retired.contains_key(id)).collect();
        self.retired.extend(gone.iter().map(|id| (*id, 0)));
        gone
    }

    /// Frees retired records that nothing names, and returns them.
    pub fn reap(&mut self, used: impl Fn(&u16) -> bool) -> Vec<u16> {
        for (id, looks) in &mut self.retired {
            *looks = if used(id) { 0 } else { *looks + 1 };
        }
        let free: Vec<u16> =
            self.retired.iter().filter(|(_, looks)| **looks >= LOOKS).map(|(id, _)| *id).collect();
        for id in &free {
            self.retired.remove(id);
            self.by_name.retain(|_, other| other != id);
            self.free.insert(*id);
        }
        free
    }

    /// Remembers the translation addresses of a record, and returns those before.
    pub fn set_sources(&mut self, id: u16, sources: Arc<[Source]>) -> Option<Arc<[Source]>> {
        self.sources.insert(id, sources)
    }

    /// Forgets the translation addresses of a record that is free again, and returns them.
    pub fn take_sources(&mut self, id: u16) -> Option<Arc<[Source]>> {
        self.sources.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_used_again_once_nothing_names_it_and_not_before() {
        let mut ids = Ids::new(2);
        let (a, b) = (ids.hold(10).unwrap(), ids.hold(20).unwrap());
        assert_ne!(a, b);
        assert_eq!(ids.hold(10), Some(a));
        assert_eq!(ids.hold(30), None);
        assert_eq!(ids.retire(&BTreeSet::from([b])), [a]);
        assert_eq!(ids.retire(&BTreeSet::from([b])), [] as [u16; 0], "once");
        assert_eq!(ids.reap(|id| *id == a), [] as [u16; 0], "a session names it");
        assert_eq!(ids.reap(|_| false), [] as [u16; 0], "one look is not enough");
        assert_eq!(ids.hold(30), None);
        assert_eq!(ids.reap(|_| false), [a]);
        assert_eq!(ids.hold(30), Some(a));
    }

    #[test]
    fn a_backend_that_comes_back_in_time_keeps_its_record() {
        let mut ids = Ids::new(1);
        let a = ids.hold(10).unwrap();
        ids.retire(&BTreeSet::new());
        ids.reap(|_| false);
        assert_eq!(ids.hold(10), Some(a));
        assert_eq!(ids.reap(|_| false), [] as [u16; 0]);
    }
}
