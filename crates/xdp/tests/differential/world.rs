//! One configuration in two places: plain memory for the host's build, maps for the kernel's.

use crate::lab::{ARM, BAD, NEAR4, NEAR6, Node, UNKNOWN, address};
use datapath::lb::host::HostTables;
use datapath::lb::layout::{
    Backend, Interface, Levels, Owned, Row, Service, ServiceKey, Session, Source, owned_kind,
    service_flag,
};
use wire::Family;
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};
use xdp::{Core, Octets, Sizes};

pub(crate) const RAW: u8 = 253;
pub(crate) const VIPS: [&str; 2] = ["203.0.113.10", "2001:db8::10"];
pub(crate) const OTHER_VIPS: [&str; 2] = ["203.0.113.20", "2001:db8::20"];
/// Another node's now.
pub(crate) const LOST_VIPS: [&str; 2] = ["203.0.113.66", "2001:db8::66"];
/// Addresses that clients are translated to, and that nobody else uses.
pub(crate) const POOL: [&str; 2] = ["203.0.113.99", "2001:db8::99"];

/// Ports of services, by what is special about them.
pub(crate) mod port {
    pub(crate) const NAT: u16 = 80;
    pub(crate) const TWICE: u16 = 81;
    pub(crate) const ARM: u16 = 82;
    pub(crate) const ARM_TWICE: u16 = 83;
    pub(crate) const MOVING: u16 = 84;
    pub(crate) const MOVING_TWICE: u16 = 85;
    pub(crate) const EMPTY: u16 = 90;
    pub(crate) const NARROW: u16 = 91;
    pub(crate) const DIM: u16 = 92;
    pub(crate) const UNKNOWN: u16 = 93;
    /// Of a backend that stands behind it alone.
    pub(crate) const STATELESS: u16 = 94;
    /// Clients stay with their backend.
    pub(crate) const STICKY: u16 = 95;
    /// The first of those whose backend has no route, in the order of [`crate::lab::BAD`].
    pub(crate) const BAD: u16 = 100;
}

const ROWS: u32 = 8;
pub(crate) const BACKEND_PORT: u16 = 8080;
/// The largest segment of the backends behind most services.
const SEGMENT: u16 = 1200;

/// Sizes of the kernel's maps; the host's index has as many buckets.
pub(crate) const SIZES: Sizes = Sizes {
    sessions: 16_384,
    services: 256,
    addresses: 64,
    rows: 1024,
    members: 1024,
    backends: 64,
    sources: 8,
    answers: u32::MAX,
};

/// What one round of the comparison is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) number: u32,
    /// Sessions that may be opened.
    pub(crate) free: u32,
    /// Places of each bucket of the index that are taken before.
    pub(crate) taken: usize,
    pub(crate) half_open_limit: u32,
}

/// The tables of a round.
pub(crate) fn tables(node: &Node, round: Round) -> HostTables {
    let mut tables = HostTables::with_buckets(round.free + 1, SIZES.buckets(), 64);
    tables.settings.seed = 0x5eed_5eed + u64::from(round.number);
    // Past those of the round before: the kernel's ways are kept from round to round.
    tables.settings.generation = 1 + round.number * 32;
    tables.settings.half_open_limit = round.half_open_limit;
    tables.boot_ns = 1 << 40;
    for port in [&node.front, &node.back, &node.dim] {
        tables.interfaces.push(Interface {
            index: port.index,
            mac: port.mac,
            zero: [0; 6],
            v4: address(port.own[0]),
            v6: address(port.own[1]),
        });
    }
    let source = |text: &str, first_port, last_port| Source {
        address: address(text),
        first_port,
        last_port,
        zero: 0,
    };
    // By family, then the narrow ones.
    tables.sources = vec![
        source("10.0.1.1", 16_384, 65_535),
        source("2001:db8:b::1", 16_384, 65_535),
        source(POOL[0], 20_000, 20_003),
        source(POOL[1], 20_000, 20_003),
    ];
    tables.routes = node.routes();
    for (addresses, kind, until_ns) in [
        (VIPS, owned_kind::VIRTUAL, u64::MAX),
        (OTHER_VIPS, owned_kind::VIRTUAL, u64::MAX),
        (LOST_VIPS, owned_kind::VIRTUAL, 1),
        (POOL, owned_kind::SOURCE, u64::MAX),
    ] {
        for owned in addresses {
            tables.owned.insert(address(owned), Owned { until_ns, kind, zero: 0 });
        }
    }
    serve_all(&mut tables);
    let taken = (0..8).map(|place| if place < round.taken { 0xdead_0000_0000_0002 } else { 0 });
    let bucket: [u64; 8] = taken.collect::<Vec<_>>().try_into().unwrap();
    tables.set_index(&vec![bucket; usize::try_from(SIZES.buckets()).unwrap()]);
    tables
}

fn serve_all(tables: &mut HostTables) {
    let first: Vec<u32> = NEAR4[..2].iter().map(|at| backend(tables, at, 0)).collect();
    let second: Vec<u32> = NEAR6[..2].iter().map(|at| backend(tables, at, 0)).collect();
    let arm = ARM.map(|at| backend(tables, at, 0));
    let dim = backend(tables, NEAR4[2], 0);
    let alone = [backend(tables, NEAR4[4], 0), backend(tables, NEAR6[2], 0)];
    for id in first.iter().chain(&second) {
        tables.backends[usize::try_from(*id).unwrap()].segment = SEGMENT;
    }
    let narrow = [backend(tables, NEAR4[3], 2), backend(tables, NEAR6[0], 2)];
    let unknown = [backend(tables, UNKNOWN[0], 0), backend(tables, UNKNOWN[1], 0)];
    let bad: Vec<u32> = BAD.iter().map(|(at, _)| backend(tables, at, 0)).collect();
    for (family, near) in [&first, &second].into_iter().enumerate() {
        let icmp = if family == 0 { ICMP } else { ICMPV6 };
        serve(tables, VIPS[family], 0, icmp, service_flag::TWICE_NAT, near);
        serve(tables, VIPS[family], 0, RAW, 0, near);
        let each = service_flag::TWICE_NAT | service_flag::ICMP_PER_SEQUENCE;
        serve(tables, OTHER_VIPS[family], 0, icmp, each, near);
        for protocol in [TCP, UDP] {
            let mut to = |port, flags, backends: &[u32]| {
                serve(tables, VIPS[family], port, protocol, flags, backends);
            };
            to(port::NAT, 0, near);
            to(port::TWICE, service_flag::TWICE_NAT, near);
            to(port::ARM, 0, &[arm[family]]);
            to(port::ARM_TWICE, service_flag::TWICE_NAT, &[arm[family]]);
            to(port::MOVING, 0, near);
            to(port::MOVING_TWICE, service_flag::TWICE_NAT, near);
            to(port::EMPTY, 0, &[]);
            to(port::NARROW, service_flag::TWICE_NAT, &[narrow[family]]);
            if family == 0 {
                to(port::DIM, 0, &[dim]);
            }
            to(port::UNKNOWN, 0, &[unknown[family]]);
            to(port::STATELESS, 0, &[alone[family]]);
            to(port::STICKY, 0, near);
            let sticky = key(VIPS[family], port::STICKY, protocol);
            tables.services.get_mut(&sticky).unwrap().affinity_s = 60;
            for (at, port) in [([NEAR4[4], NEAR6[2]], port::STATELESS), (ARM, port::ARM)] {
                let origin = key(at[family], BACKEND_PORT, protocol);
                tables.origins.insert(origin, key(VIPS[family], port, protocol));
            }
            serve(tables, OTHER_VIPS[family], port::NAT, protocol, 0, near);
        }
    }
    for ((bad, id), port) in BAD.iter().zip(bad).zip(port::BAD..) {
        let family = family(bad.0);
        for protocol in [TCP, UDP] {
            serve(tables, VIPS[family], port, protocol, 0, &[id]);
        }
    }
}

/// 0 for IPv4, 1 for IPv6: the place in the arrays of addresses.
pub(crate) fn family(text: &str) -> usize {
    match address(text).family() {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

/// A backend, whose clients are translated to the source of its family, past `sources`.
fn backend(tables: &mut HostTables, at: &str, sources: u32) -> u32 {
    let id = u32::try_from(tables.backends.len()).unwrap();
    tables.backends.push(Backend {
        address: address(at),
        port: BACKEND_PORT.to_be_bytes(),
        segment: 0,
        flags: 0,
        sources_at: sources + u32::try_from(family(at)).unwrap(),
        sources: 1,
    });
    id
}

fn serve(tables: &mut HostTables, vip: &str, port: u16, protocol: u8, flags: u32, ids: &[u32]) {
    let count = u16::try_from(ids.len()).unwrap();
    let key = key(vip, port, protocol);
    let service = Service {
        rows_at: u32::try_from(tables.rows.len()).unwrap(),
        rows: if ids.is_empty() { 0 } else { ROWS },
        members_at: u32::try_from(tables.members.len()).unwrap(),
        affinity_s: 0,
        flags,
    };
    for row in 0..u16::try_from(service.rows).unwrap() {
        tables.rows.push(Row::new(row % count, (row + 1) % count, false));
    }
    tables.members.extend(ids);
    tables.services.insert(key, service);
}

pub(crate) fn key(vip: &str, port: u16, protocol: u8) -> ServiceKey {
    let port = port.to_be_bytes();
    ServiceKey { address: address(vip), port, protocol, zero: 0, zero_too: 0 }
}

/// Enters the host's tables into the kernel's maps, in place of whatever is there.
pub(crate) fn copy(tables: &HostTables, core: &mut Core) {
    core.shared.settings.store(0, tables.settings);
    for interface in &tables.interfaces {
        core.interfaces.set(interface.index & 1023, Octets(*interface), 0).unwrap();
    }
    for (address, owned) in &tables.owned {
        core.owned.insert(Octets(*address), Octets(*owned), 0).unwrap();
    }
    for (key, service) in &tables.services {
        core.services.insert(Octets(*key), Octets(*service), 0).unwrap();
    }
    for (key, service) in &tables.origins {
        core.origins.insert(Octets(*key), Octets(*service), 0).unwrap();
    }
    for (row, at) in tables.rows.iter().zip(0..) {
        core.shared.rows.store(at, row.0);
    }
    for (member, at) in tables.members.iter().zip(0..) {
        core.shared.members.store(at, *member);
    }
    for (backend, at) in tables.backends.iter().zip(0..) {
        core.shared.backends.store(at, *backend);
    }
    for (source, at) in tables.sources.iter().zip(0..) {
        core.shared.sources.store(at, *source);
    }
    for (bucket, at) in tables.index().into_iter().zip(0..) {
        core.shared.index.store(at, bucket);
    }
    for at in 0..SIZES.sessions {
        core.shared.sessions.store(at, Session::EMPTY);
    }
    let free = u32::try_from(tables.free()).unwrap();
    for at in 0..free {
        core.shared.free.store(at, at + 1);
    }
    core.shared.levels.store(0, Levels { freed: u64::from(free), ..Levels::default() });
}

/// Changes in both places at once.
pub(crate) struct Both<'a> {
    pub(crate) tables: &'a mut HostTables,
    pub(crate) core: &'a mut Core,
}

impl Both<'_> {
    /// What the backend is to its flows.
    pub(crate) fn set_flags(&mut self, id: u32, flags: u32) {
        let backend = &mut self.tables.backends[usize::try_from(id).unwrap()];
        backend.flags = flags;
        self.core.shared.backends.store(id, *backend);
    }

    /// All rows of the service.
    pub(crate) fn set_rows(&mut self, key: &ServiceKey, row: Row) {
        let service = self.tables.services[key];
        for at in service.rows_at..service.rows_at + service.rows {
            self.tables.rows[usize::try_from(at).unwrap()] = row;
            self.core.shared.rows.store(at, row.0);
        }
    }

    /// Something changed in the routing tables.
    pub(crate) fn routes_changed(&mut self) {
        self.tables.settings.generation += 1;
        self.core.shared.settings.store(0, self.tables.settings);
    }
}
