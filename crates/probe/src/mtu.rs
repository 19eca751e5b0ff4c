//! How large a packet may be on the way to each backend.
//!
//! A router that finds a packet too big tells its source, which for a forwarded packet is the
//! client: it hears of a backend that it does not know, and nothing changes. So the distributor
//! finds the path MTU out by itself, with a full-sized echo request now and then, and can tell its
//! clients in terms that they understand.

use netio::icmp::MtuProbe;
use netio::path;
use std::collections::HashMap;
use std::net::IpAddr;
use wire::Family;

/// One of so many checks of a backend is accompanied by a full-sized probe: at the default
/// interval every half minute.
const EVERY: u32 = 15;

/// Sends full-sized probes. What they find out lies in the kernel's routing table.
#[derive(Debug)]
pub(crate) struct MtuProbes {
    v4: Option<MtuProbe>,
    v6: Option<MtuProbe>,
    backends: HashMap<IpAddr, Probed>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Probed {
    checks: u32,
    /// The largest MTU that the path was ever said to have: asking for less would never show that
    /// a bottleneck is still there.
    largest: u32,
}

impl MtuProbes {
    /// Opens what is there to be opened; without it nothing is probed.
    pub(crate) fn open(families: &[Family]) -> Self {
        let open =
            |family| families.contains(&family).then(|| MtuProbe::new(family).ok()).flatten();
        Self { v4: open(Family::V4), v6: open(Family::V6), backends: HashMap::new() }
    }

    /// Forgets backends that are not checked any more.
    pub(crate) fn retain(&mut self, is_checked: impl Fn(IpAddr) -> bool) {
        self.backends.retain(|backend, _| is_checked(*backend));
    }

    /// A backend is being checked: its path is probed the first time and every so often.
    pub(crate) fn handle_check(&mut self, backend: IpAddr) {
        let probed = self.backends.entry(backend).or_default();
        let due = probed.checks.is_multiple_of(EVERY);
        probed.checks = probed.checks.wrapping_add(1);
        let socket = if backend.is_ipv4() { &self.v4 } else { &self.v6 };
        let (true, Some(socket)) = (due, socket) else { return };
        let Ok(path) = path::lookup(backend) else { return };
        probed.largest = probed.largest.max(path.mtu);
        if socket.send(backend, probed.largest).is_err() {
            // The device takes less than it did.
            probed.largest = path.mtu;
        }
    }
}
