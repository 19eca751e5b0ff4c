//! What mappings must not say together: one name or service twice, a VIP that is a backend.

use crate::problem::{Problem, Report};
use crate::resources::Placed;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// Reports each mapping that another one before it in `mappings` contradicts.
pub(crate) fn check(mappings: &[Placed], report: &Report) {
    let mut names = HashMap::new();
    let mut services = HashMap::new();
    let mut vips = HashMap::new();
    for placed in mappings {
        let service = placed.mapping.spec.service;
        if let Some(first) = earlier(&mut names, placed.mapping.identity(), placed) {
            let message = format!(
                "{} is already in {}: rename or remove one of the two",
                placed.mapping.name(),
                first.place()
            );
            report.add(Problem::new(placed.place().clone(), "metadata.id", message));
        }
        if let Some(first) = earlier(&mut services, service, placed) {
            let message = format!(
                "{service} is already mapping {} in {}: remove one of the two, or merge them",
                first.mapping.name(),
                first.place()
            );
            report.add(placed.problem("vipAddress", message));
        }
        vips.entry(service.vip).or_insert(placed);
    }
    // A VIP is never a kernel address and packets to it are never forwarded: a backend behind it
    // would loop through the data plane, or be lost.
    for placed in mappings {
        for (index, backend) in placed.mapping.spec.backends.iter().enumerate() {
            if let Some(owner) = vips.get(&backend.address) {
                let message = format!(
                    "{} is the VIP of mapping {} in {}: name the backends behind it instead",
                    backend.address,
                    owner.mapping.name(),
                    owner.place()
                );
                report.add(placed.backend_problem(index, "address", message));
            }
        }
    }
}

/// What stands at the key already, or nothing, and then `placed` is put there.
fn earlier<'p, K: Hash + Eq>(
    seen: &mut HashMap<K, &'p Placed>,
    key: K,
    placed: &'p Placed,
) -> Option<&'p Placed> {
    match seen.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(placed);
            None
        }
        Entry::Occupied(first) => Some(first.get()),
    }
}
