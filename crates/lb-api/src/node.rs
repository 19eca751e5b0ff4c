//! What mappings must not say on a certain node: its SNAT pools decide.

use crate::name::Name;
use crate::natlb::Mode;
use crate::problem::{Problems, Report};
use crate::resources::{Placed, Resources};
use crate::suggest;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// What a node's configuration says that mappings depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeView<'a> {
    /// The SNAT pools, each name once.
    pub pools: &'a [SnatPool],
}

/// Addresses that stand for clients on their way to backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnatPool {
    /// What `snatPool` names.
    pub name: Name,
    /// Ranges, each of one family.
    pub addresses: Vec<RangeInclusive<IpAddr>>,
}

impl Resources {
    /// Whether the resources can be served by a node.
    ///
    /// # Errors
    /// Every mapping that names a pool the node does not have or that has no address of the VIP's
    /// family, and every VIP and backend that is an address of a pool: replies to it and packets
    /// for it could not be told apart.
    pub fn check_against(&self, node: &NodeView<'_>) -> Result<(), Problems> {
        let report = Report::default();
        for placed in self.placed() {
            check_pool(placed, node, &report);
            check_addresses(placed, node, &report);
        }
        report.into_result(Ok(()))
    }
}

fn check_pool(placed: &Placed, node: &NodeView<'_>, report: &Report) {
    let spec = &placed.mapping.spec;
    let Mode::TwiceNat { pool: Some(name) } = &spec.mode else { return };
    let vip = spec.service.vip;
    let message = match node.pools.iter().find(|pool| pool.name == *name) {
        None => unknown(name, node),
        Some(pool) if !pool.has_family_of(vip.get()) => {
            let family = vip.family();
            format!("pool {name} has no {family} address for VIP {vip}: name a pool that has")
        }
        Some(_) => return,
    };
    report.add(placed.problem("snatPool", message));
}

fn check_addresses(placed: &Placed, node: &NodeView<'_>, report: &Report) {
    let spec = &placed.mapping.spec;
    let vip = spec.service.vip;
    for pool in node.pools.iter().filter(|pool| pool.contains(vip.get())) {
        let message = format!(
            "VIP {vip} of mapping {} is also in SNAT pool {}: take it out of one of the two",
            placed.mapping.name(),
            pool.name
        );
        report.add(placed.problem("vipAddress", message));
    }
    for (index, backend) in spec.backends.iter().enumerate() {
        for pool in node.pools.iter().filter(|pool| pool.contains(backend.address.get())) {
            let message = format!(
                "backend {} is also in SNAT pool {}: take it out of one of the two",
                backend.address, pool.name
            );
            report.add(placed.backend_problem(index, "address", message));
        }
    }
}

fn unknown(name: &Name, node: &NodeView<'_>) -> String {
    let known: Vec<&str> = node.pools.iter().map(|pool| pool.name.as_str()).collect();
    let what = match suggest::nearest(name.as_str(), known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None if known.is_empty() => "the node has none".to_owned(),
        None => format!("the node has {}", known.join(", ")),
    };
    format!("no SNAT pool {name}: {what}")
}

impl SnatPool {
    fn contains(&self, address: IpAddr) -> bool {
        // A range of one family holds no address of the other: all of IPv4 sort before IPv6.
        self.addresses.iter().any(|range| range.contains(&address))
    }

    fn has_family_of(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|range| range.start().is_ipv4() == address.is_ipv4())
    }
}
