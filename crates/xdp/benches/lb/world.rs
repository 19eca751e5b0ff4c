//! A node whose services and sessions are written straight into the maps.

use crate::bpf;
use crate::packets::Step;
use balance::hash::hash;
use datapath::lb::DropReason;
use datapath::lb::layout::{
    Backend, Direction, FlowKey, INTERFACES, Interface, Levels, Owned, Row, Service, ServiceKey,
    Session, Settings, Source, owned_kind, service_flag, session_state,
};
use std::os::fd::OwnedFd;
use wire::{Address, Family, protocol};
use xdp::{Core, Link, Mode, Octets, Sizes};

const SEED: u64 = 0x5eed;
const VIP_PORT: u16 = 443;
const BACKEND_PORT: u16 = 8443;
const FIRST_PORT: u16 = 16_384;
/// Addresses that twice-NAT translates to.
const SOURCES: u32 = 16;
/// Connections of one client.
const A_CLIENT: u32 = 4;
/// No address: nothing is answered here.
const NONE: Address = Address::v6([0; 16]);
/// Rows of one service at most: a whole table.
const ROWS: u32 = 65_536;

/// What a case is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) family: Family,
    pub(crate) protocol: u8,
    pub(crate) twice: bool,
    pub(crate) vips: u32,
    pub(crate) backends: u32,
    pub(crate) flows: u32,
}

/// The packet core and what it was told.
pub(crate) struct World {
    pub(crate) core: Core,
    shape: Shape,
    /// Ends with the world.
    link: Option<Link>,
}

impl Shape {
    /// What clients send.
    pub(crate) fn keys(&self) -> Vec<FlowKey> {
        (0..self.flows).map(|flow| self.key(flow)).collect()
    }

    fn key(&self, flow: u32) -> FlowKey {
        let client = flow / A_CLIENT;
        let [_, start] = halves(hash(SEED, [u64::from(client)]));
        let spread = (start + flow % A_CLIENT * 1_000) % u32::from(u16::MAX - FIRST_PORT);
        let port = FIRST_PORT + u16::try_from(spread).unwrap_or(0);
        let vip_port = if self.protocol == protocol::ICMP { 0 } else { VIP_PORT };
        FlowKey {
            source: self.address(Role::Client, client),
            destination: self.address(Role::Vip, flow % self.vips),
            source_port: port.to_be_bytes(),
            destination_port: vip_port.to_be_bytes(),
            protocol: self.protocol,
            zero: [0; 3],
        }
    }

    fn address(&self, role: Role, number: u32) -> Address {
        let [_, b, c, d] = (number + 1).to_be_bytes();
        match (self.family, role) {
            (Family::V4, Role::Client) => Address::v4([10, 64 + b, c, d]),
            (Family::V4, Role::Vip) => Address::v4([10, 90, c, d]),
            (Family::V4, Role::Backend) => Address::v4([10, 80, c, d]),
            (Family::V4, Role::Source) => Address::v4([10, 91, c, d]),
            (Family::V6, role) => {
                Address::v6([0xfd, 0x79, role as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b, c, d])
            }
        }
    }

    fn port(&self) -> [u8; 2] {
        if self.protocol == protocol::ICMP { [0; 2] } else { BACKEND_PORT.to_be_bytes() }
    }
}

#[derive(Clone, Copy)]
enum Role {
    Client = 0x64,
    Vip = 0x90,
    Backend = 0x80,
    Source = 0x91,
}

impl World {
    /// A node behind this interface.
    pub(crate) fn new(shape: Shape, interface: u32, mac: [u8; 6]) -> anyhow::Result<Self> {
        let mut sizes = Sizes::default();
        // All flows, and session 0, which is never used.
        sizes.sessions = sizes.sessions.max(shape.flows.saturating_mul(2));
        let mut world = Self { core: Core::load(&sizes, None)?, shape, link: None };
        let served = Interface { index: interface, mac, v4: NONE, v6: NONE, zero: [0; 6] };
        world.core.interfaces.set(interface % INTERFACES, Octets(served), 0)?;
        let settings = Settings {
            seed: SEED,
            generation: 1,
            half_open_limit: u32::MAX,
            capture_until: 0,
            capture_every: 0,
        };
        world.core.shared.settings.store(0, settings);
        world.add_backends();
        for vip in 0..shape.vips {
            world.add_service(vip, sizes.rows)?;
        }
        world.forget();
        Ok(world)
    }

    fn add_backends(&self) {
        let shared = &self.core.shared;
        for at in 0..SOURCES {
            let address = self.shape.address(Role::Source, at);
            let source = Source { address, first_port: FIRST_PORT, last_port: u16::MAX, zero: 0 };
            shared.sources.store(at, source);
        }
        for id in 0..self.shape.backends {
            let backend = Backend {
                address: self.shape.address(Role::Backend, id),
                port: self.shape.port(),
                segment: 0,
                flags: 0,
                sources_at: 0,
                sources: SOURCES,
            };
            shared.backends.store(id, backend);
            shared.members.store(id, id);
        }
    }

    fn add_service(&mut self, vip: u32, arena: u32) -> anyhow::Result<()> {
        let Shape { vips, backends, protocol, twice, .. } = self.shape;
        let (rows, members) = (ROWS.min(arena / vips), backends / vips);
        for row in 0..rows {
            let [_, local] = halves(hash(SEED, [u64::from(row), u64::from(vip)]));
            let local = u16::try_from(local % members)?;
            self.core.shared.rows.store(vip * rows + row, Row::new(local, local, false).0);
        }
        let address = self.shape.address(Role::Vip, vip);
        let port = if protocol == wire::protocol::ICMP { 0 } else { VIP_PORT };
        let port = port.to_be_bytes();
        let key = ServiceKey { address, port, protocol, zero: 0, zero_too: 0 };
        let flags = if twice { service_flag::TWICE_NAT } else { 0 };
        let (rows_at, members_at) = (vip * rows, vip * members);
        let service = Service { rows_at, rows, members_at, affinity_s: 0, flags };
        self.core.services.insert(Octets(key), Octets(service), 0)?;
        let owned = Owned { until_ns: u64::MAX, kind: owned_kind::VIRTUAL, zero: 0 };
        self.core.owned.insert(Octets(address), Octets(owned), 0)?;
        Ok(())
    }

    /// Lets an interface run the packet core.
    pub(crate) fn attach(&mut self, name: &str, interface: u32) -> anyhow::Result<()> {
        self.link = Some(self.core.attach(name, interface, Mode::Native)?);
        Ok(())
    }

    /// Ends that.
    pub(crate) fn detach(&mut self) {
        self.link = None;
    }

    /// A table with the packet core in its first place.
    pub(crate) fn table(&self) -> anyhow::Result<OwnedFd> {
        Ok(bpf::table_of(&self.core.entrance()?)?)
    }

    /// Why packets were dropped.
    pub(crate) fn drops(&self) -> Vec<(&'static str, u64)> {
        let all = DropReason::ALL.iter();
        let counts = all.map(|reason| (reason.name(), self.core.drops(*reason).unwrap_or(0)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Gives every session back, as the sweeper does when all are too old.
    pub(crate) fn forget(&self) {
        let shared = &self.core.shared;
        (0..shared.index.len()).for_each(|at| shared.index.store(at, [0; 8]));
        (0..shared.sessions.len()).for_each(|at| shared.sessions.store(at, Session::EMPTY));
        (1..shared.sessions.len()).for_each(|session| shared.free.store(session - 1, session));
        let freed = u64::from(shared.sessions.len() - 1);
        shared.levels.store(0, Levels { freed, ..Levels::default() });
    }

    /// What backends send, session by session.
    pub(crate) fn replies(&self) -> Vec<FlowKey> {
        let sessions = &self.core.shared.sessions;
        let all = (1..sessions.len()).filter_map(|at| sessions.load(at));
        all.filter(|session| session.state & session_state::LIVE != 0)
            .map(|session| session.key(Direction::Reply))
            .collect()
    }

    /// Packets of this step that the backends' counters have seen.
    pub(crate) fn hits(&self, step: Step) -> anyhow::Result<u64> {
        let mut hits = 0;
        for id in 0..self.shape.backends {
            for Octets(traffic) in self.core.traffic.get(&id, 0)?.iter() {
                hits += match step {
                    Step::Open => traffic.sessions,
                    Step::Forward => traffic.packets_in,
                    Step::Reply => traffic.packets_out,
                };
            }
        }
        Ok(hits)
    }
}

/// The two halves of a word.
fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}
