//! What lines must not say together: addresses with two meanings, families without a way between.

use super::{Draft, MAX_POOL, MAX_POOL_PREFIXES};
use config::diagnostics::Diagnostics;
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;
use wire::{Address, Family};

impl Draft<'_> {
    /// No address may have two meanings: a packet would loop or go astray.
    pub(super) fn check_addresses(&self, diagnostics: &mut Diagnostics) {
        let mut seen = HashMap::new();
        for (entry, backend) in &self.backends {
            if let Some(first) = seen.insert(backend.address, entry.line) {
                let message = format!("the same backend as in line {first}: remove one of the two");
                entry.report(message, diagnostics);
                seen.insert(backend.address, first);
            }
            if self.frontend.is_some_and(|(_, frontend)| frontend == backend.address) {
                entry.report("the frontend itself: packets would loop", diagnostics);
            }
        }
        let returns = self.prefix.iter().chain(&self.pool);
        for (entry, net) in returns {
            let inside = |address: &IpAddr| net.contains(address);
            if let Some((_, frontend)) = self.frontend.filter(|(_, f)| inside(f)) {
                entry.report(format!("contains the frontend {frontend}"), diagnostics);
            }
            for (_, backend) in self.backends.iter().filter(|(_, b)| inside(&b.address)) {
                entry.report(format!("contains the backend {}", backend.address), diagnostics);
            }
        }
    }

    /// Each pair of families has exactly one way back.
    pub(super) fn check_families(&self, diagnostics: &mut Diagnostics) {
        let Some((_, frontend)) = self.frontend else { return };
        if let Some((entry, prefix)) = self.prefix {
            if frontend.is_ipv6() {
                entry.report(
                    "of no use with an IPv6 frontend: IPv4 backends need pool=PREFIX",
                    diagnostics,
                );
            } else if !prefix.addr().is_ipv6() || prefix.prefix_len() != 96 {
                entry.report("must be an IPv6 prefix of length 96", diagnostics);
            } else if !is_routable(&prefix) {
                entry.report("not a prefix that can be routed on a network", diagnostics);
            }
        }
        for (entry, pool) in &self.pool {
            if frontend.is_ipv4() {
                entry.report(
                    "of no use with an IPv4 frontend: IPv6 backends need prefix=PREFIX/96",
                    diagnostics,
                );
            } else if pool.addr().is_ipv6() {
                entry.report("must be an IPv4 prefix", diagnostics);
            } else if !is_routable(pool) {
                entry.report("not a prefix that can be routed on a network", diagnostics);
            }
        }
        self.check_pool_size(diagnostics);
        for (entry, backend) in &self.backends {
            match (frontend.is_ipv4(), backend.address.is_ipv4()) {
                (true, false) if self.prefix.is_none() && !self.returns_refused => entry.report(
                    "an IPv6 backend of an IPv4 frontend needs prefix=PREFIX/96, an IPv6 prefix \
                     that is routed to this host and embeds the clients' addresses",
                    diagnostics,
                ),
                (false, true) if self.pool.is_empty() && !self.returns_refused => entry.report(
                    "an IPv4 backend of an IPv6 frontend needs pool=PREFIX, IPv4 addresses that \
                     are routed to this host and stand for clients",
                    diagnostics,
                ),
                _ => {}
            }
        }
    }

    fn check_pool_size(&self, diagnostics: &mut Diagnostics) {
        if let Some((entry, _)) = self.pool.get(MAX_POOL_PREFIXES) {
            let message = format!("more than {MAX_POOL_PREFIXES} pool lines: use larger prefixes");
            entry.report(message, diagnostics);
        }
        let mut size = 0usize;
        let pools = self.pool.iter().filter(|(_, pool)| pool.addr().is_ipv4());
        for (number, (entry, pool)) in pools.enumerate() {
            let bits = u32::from(pool.max_prefix_len() - pool.prefix_len());
            size = size.saturating_add(1usize.checked_shl(bits).unwrap_or(usize::MAX));
            if size > MAX_POOL {
                entry.report(format!("the pool has more than {MAX_POOL} addresses"), diagnostics);
                return;
            }
            let earlier = self.pool.iter().take(number);
            for (other, _) in earlier.filter(|(_, o)| o.contains(pool) || pool.contains(o)) {
                entry.report(format!("overlaps the pool in line {}", other.line), diagnostics);
            }
        }
    }
}

/// Whether addresses of a prefix can be sent to and from: they must not be of this host or one
/// link, nor of groups, nor IPv4 addresses in IPv6 notation (RFC 4291 2.5.5).
fn is_routable(prefix: &IpNet) -> bool {
    let first = Address::from(prefix.network());
    let last = Address::from(prefix.broadcast());
    let family = match prefix {
        IpNet::V4(_) => Family::V4,
        IpNet::V6(_) => Family::V6,
    };
    first.family() == family && first.is_routable() && last.is_routable()
}
