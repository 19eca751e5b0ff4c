//! From resources and health to what the packet core is to do: a snapshot, compiled.
//!
//! Pure: the same resources, health and way to the backends give the same plan on every node.

use crate::config::Config;
use balance::hash::hash;
use balance::rendezvous::Candidate;
use balance::size::TableSize;
use balance::table::{self, Selection, Table};
use datapath::lb::layout::{ServiceKey, Source, service_flag};
use lb_api::{Backend, Mode, NatLbMapping, OnDown};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use wire::Address;

const NAME_SEED: u64 = 0x6e61_6d65;

/// What a plan asks of the world.
pub trait World {
    /// Whether a mapping's backend may take new flows.
    fn is_alive(&self, mapping: &NatLbMapping, backend: &Backend) -> bool;
    /// The node's own address towards a backend.
    fn source_towards(&self, backend: IpAddr) -> Option<IpAddr>;
}

/// What the packet core is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The services, by name of their mapping.
    pub services: BTreeMap<String, Service>,
    /// The virtual addresses.
    pub virtuals: Vec<Address>,
    /// The addresses of SNAT pools.
    pub sources: Vec<Address>,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// What clients ask for.
    pub key: ServiceKey,
    /// [`service_flag`] bits.
    pub flags: u32,
    /// Seconds that a client stays with its backend, or 0.
    pub affinity_s: u32,
    /// Its backends, sorted by name.
    pub backends: Vec<PlannedBackend>,
    /// For every row the place of its backend; empty while none is alive.
    pub rows: Arc<[u16]>,
    /// SHA-256 of the selection table.
    pub digest: [u8; 32],
}

/// One backend of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedBackend {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// Its port; 0: the port that the client asked for.
    pub port: u16,
    /// The largest TCP segment to agree on; 0: as both ends say.
    pub segment: u16,
    /// Whether it takes new flows.
    pub alive: bool,
    /// Where its clients are translated to.
    pub sources: Arc<[Source]>,
}

/// Compiles the mappings.
pub fn plan<'a>(
    mappings: impl Iterator<Item = &'a NatLbMapping>,
    config: &Config,
    world: &impl World,
) -> Plan {
    let mut plan = Plan::default();
    for mapping in mappings {
        let service = service(mapping, config, world);
        plan.virtuals.push(service.key.address);
        plan.services.insert(mapping.name(), service);
    }
    let pools = config.pools.iter().flat_map(|pool| &pool.addresses.addresses);
    plan.sources = pools.flat_map(|range| addresses(*range.start(), *range.end())).collect();
    for list in [&mut plan.virtuals, &mut plan.sources] {
        list.sort_unstable();
        list.dedup();
    }
    plan
}

fn service(mapping: &NatLbMapping, config: &Config, world: &impl World) -> Service {
    let spec = &mapping.spec;
    let vip = spec.service.vip.get();
    let mut backends: Vec<_> = spec
        .backends
        .iter()
        .map(|backend| (planned(mapping, backend, config, world), backend.weight))
        .collect();
    backends.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let living = (0u16..).zip(&backends).filter(|(_, (backend, _))| backend.alive);
    let (places, candidates): (Vec<u16>, Vec<Candidate>) = living
        .map(|(place, (backend, weight))| {
            (place, Candidate { id: id(&backend.name), weight: *weight })
        })
        .unzip();
    let table = build(spec.selection, &candidates);
    let rows = if candidates.is_empty() { &[] } else { table.rows() };
    let place = |row: &u16| places.get(usize::from(*row)).copied().unwrap_or_default();
    let mut flags = 0;
    if matches!(spec.mode, Mode::TwiceNat { .. }) {
        flags |= service_flag::TWICE_NAT;
    }
    if spec.icmp_per_sequence {
        flags |= service_flag::ICMP_PER_SEQUENCE;
    }
    if spec.on_down == OnDown::Reset {
        flags |= service_flag::RESET;
    }
    Service {
        key: ServiceKey {
            address: Address::from(vip),
            port: spec.service.port.map_or(0, std::num::NonZero::get).to_be_bytes(),
            protocol: spec.service.protocol.number(vip),
            zero: 0,
            zero_too: 0,
        },
        flags,
        affinity_s: spec.affinity.map_or(0, lb_api::AffinityTimeout::sec),
        backends: backends.into_iter().map(|(backend, _)| backend).collect(),
        rows: rows.iter().map(place).collect(),
        digest: Sha256::digest(table.serialise()).into(),
    }
}

fn planned(
    mapping: &NatLbMapping,
    backend: &Backend,
    config: &Config,
    world: &impl World,
) -> PlannedBackend {
    PlannedBackend {
        name: backend.name.to_string(),
        address: Address::from(backend.address.get()),
        port: backend.port.map_or(0, std::num::NonZero::get),
        segment: mapping.spec.mss_clamp.map_or(0, lb_api::MssClamp::octets),
        alive: world.is_alive(mapping, backend),
        sources: sources(mapping, backend, config, world),
    }
}

/// The pool that the mapping names, else the node's own address towards the backend. A mapping
/// that keeps its clients' addresses has one too: a backend that is its own client needs it, and
/// so does a client that reaches one backend through two services by one port.
fn sources(
    mapping: &NatLbMapping,
    backend: &Backend,
    config: &Config,
    world: &impl World,
) -> Arc<[Source]> {
    let source = |address: Address, ports: &std::ops::RangeInclusive<u16>| Source {
        address,
        first_port: *ports.start(),
        last_port: *ports.end(),
        zero: 0,
    };
    let pool = match &mapping.spec.mode {
        Mode::TwiceNat { pool: Some(name) } => config.pool(name),
        _ => None,
    };
    match pool {
        Some(pool) => {
            let ranges = pool.addresses.addresses.iter();
            let all = ranges.flat_map(|range| addresses(*range.start(), *range.end()));
            all.map(|address| source(address, &pool.ports)).collect()
        }
        None => {
            let own = world.source_towards(backend.address.get());
            own.map(|own| source(Address::from(own), &config.snat_ports)).into_iter().collect()
        }
    }
}

fn build(selection: lb_api::Selection, candidates: &[Candidate]) -> Table {
    let size = |rows: u32| TableSize::new(rows).unwrap_or_default();
    match selection {
        lb_api::Selection::Maglev(rows) => {
            table::build(Selection::Maglev, size(rows.rows()), candidates)
        }
        lb_api::Selection::Rendezvous(rows) => {
            let selection = Selection::Rendezvous { slack_permille: SLACK_PERMILLE };
            table::build(selection, size(rows.rows()), candidates)
        }
        lb_api::Selection::WeightedRandom => {
            table::build(Selection::WeightedRandom, TableSize::DEFAULT, candidates)
        }
    }
}

/// What a backend may have above its share with `selection: rendezvous`: with it, hardly any flow
/// moves that need not.
const SLACK_PERMILLE: u16 = 50;

/// A hash of a backend's name: the same on every node. Names are 63 octets at most.
fn id(name: &str) -> u64 {
    let mut octets = [0u8; 64];
    for (to, from) in octets.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    let (words, _) = octets.as_chunks::<8>();
    let words: [u64; 8] =
        std::array::from_fn(|at| words.get(at).map_or(0, |word| u64::from_le_bytes(*word)));
    hash(NAME_SEED, words)
}

/// Every address of a range.
fn addresses(first: IpAddr, last: IpAddr) -> Box<dyn Iterator<Item = Address>> {
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            Box::new((u32::from(first)..=u32::from(last)).map(|n| Address::v4(n.to_be_bytes())))
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            Box::new((u128::from(first)..=u128::from(last)).map(|n| Address::v6(n.to_be_bytes())))
        }
        _ => Box::new(std::iter::empty()),
    }
}
