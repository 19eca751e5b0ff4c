//! Rows in transition, and how they are packed.

use datapath::lb::layout::Row;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A row's owners after a change: in transition if the first choice is another than before, or
/// still in the transition of an earlier change.
pub(super) fn moved((first, before): (&u16, &(u16, Option<u16>))) -> (u16, Option<u16>) {
    match before {
        (old, previous) if old == first => (*first, *previous),
        (old, _) => (*first, Some(*old)),
    }
}

/// The rows as words, and the members that they name by place.
pub(super) fn packed(owners: &[(u16, Option<u16>)]) -> (Arc<[u32]>, Arc<[u32]>) {
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
