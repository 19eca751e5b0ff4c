//! A mapping from its document.

use super::{
    AffinityTimeout, Backend, Mode, MssClamp, NatLbMapping, NatLbSpec, OnDown, Selection, Service,
    TableSize,
};
use crate::address::RoutableAddr;
use crate::decode::{Fields, Value};
use crate::health_check::{HealthCheck, Probe};
use crate::limits::MAX_BACKENDS_PER_MAPPING;
use crate::metadata::Metadata;
use crate::name::Name;
use crate::problem::{Read, quoted};
use crate::protocol::Protocol;
use crate::resources::Lines;
use balance::rendezvous::Weight;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroU16;

const SPEC: [&str; 13] = [
    "vipAddress",
    "vipPort",
    "protocol",
    "twiceNat",
    "snatPool",
    "affinityTimeoutSec",
    "backends",
    "healthCheck",
    "selection",
    "tableSize",
    "mssClamp",
    "onDown",
    "icmpPerSequence",
];

impl NatLbMapping {
    /// The mapping that `document` describes, and where its fields are.
    pub(crate) fn read(document: &Fields<'_>) -> Read<(Self, Lines)> {
        let metadata = document.required("metadata", "add metadata with namespace and id");
        let metadata = metadata.and_then(Metadata::read);
        let spec = document.required("spec", "add spec with vipAddress, backends and the others");
        let spec = spec.and_then(|value| value.fields(&SPEC, &[]));
        let (spec, lines) = spec.and_then(|fields| NatLbSpec::read(&fields))?;
        Ok((Self { metadata: metadata?, spec }, lines))
    }
}

impl NatLbSpec {
    fn read(fields: &Fields<'_>) -> Read<(Self, Lines)> {
        let service = Draft::read(fields);
        let mode = Mode::read(fields);
        let affinity =
            fields.or("affinityTimeoutSec", 0, |value| value.whole(0..=AffinityTimeout::MAX_SEC));
        let backends = backends(fields, service);
        let health_check = HealthCheck::read(fields);
        if let (Ok(backends), Ok(check)) = (&backends, &health_check) {
            let good = backends.iter().flatten().map(|(_, backend)| backend);
            check_probe_port(fields, good, check);
        }
        let selection = Selection::read(fields, backends.as_ref().map_or(0, Vec::len));
        let only_for = |wanted: Protocol, value: &Value<'_>| match service.protocol {
            Ok(protocol) if protocol != wanted => {
                Err(value.refuse(format!("only for protocol {wanted}, not {protocol}: remove it")))
            }
            _ => Ok(()),
        };
        let mss_clamp = fields.optional("mssClamp", |value| {
            only_for(Protocol::Tcp, value)?;
            value.whole(MssClamp::MIN..=MssClamp::MAX)
        });
        let on_down = fields.or("onDown", OnDown::Keep, |value| {
            let choices = [("keep", OnDown::Keep), ("reset", OnDown::Reset)];
            let on_down = value.choice(&choices, "keep or reset")?;
            if on_down == OnDown::Reset {
                only_for(Protocol::Tcp, value)?;
            }
            Ok(on_down)
        });
        let icmp_per_sequence = fields.or("icmpPerSequence", false, |value| {
            let anew = value.truth()?;
            if anew {
                only_for(Protocol::Icmp, value)?;
            }
            if anew && affinity.is_ok_and(|sec| sec > 0) {
                let message = "contradicts affinityTimeoutSec: remove one of the two";
                return Err(value.refuse(message));
            }
            Ok(anew)
        });
        let backends: Read<Vec<_>> = backends?.into_iter().collect();
        let (backend_lines, backends) = backends?.into_iter().unzip();
        let lines = Lines::of(fields, backend_lines);
        let spec = Self {
            service: service.finish()?,
            mode: mode?,
            affinity: AffinityTimeout::new(affinity?),
            backends,
            health_check: health_check?,
            selection: selection?,
            mss_clamp: mss_clamp?.and_then(MssClamp::new),
            on_down: on_down?,
            icmp_per_sequence: icmp_per_sequence?,
        };
        Ok((spec, lines))
    }
}

/// What was read of the service, each part by itself, so that one wrong part hides no other error.
#[derive(Clone, Copy)]
struct Draft {
    vip: Read<RoutableAddr>,
    protocol: Read<Protocol>,
    port: Read<Option<NonZeroU16>>,
}

impl Draft {
    fn read(fields: &Fields<'_>) -> Self {
        let vip = fields.required("vipAddress", "add vipAddress: ADDRESS, where clients send to");
        let vip = vip.and_then(address);
        let protocol = fields.required("protocol", "add protocol: tcp, udp, icmp or a number");
        let protocol =
            protocol.and_then(|value| Protocol::read(value, vip.ok().map(RoutableAddr::get)));
        let port = match (fields.get("vipPort"), protocol) {
            (Some(value), _) => port(value, protocol),
            (None, Ok(protocol)) if protocol.has_ports() => {
                Err(fields.missing("vipPort", "add vipPort: NUMBER, or 0 for every port"))
            }
            (None, _) => Ok(None),
        };
        Self { vip, protocol, port }
    }

    fn finish(self) -> Read<Service> {
        Ok(Service { vip: self.vip?, protocol: self.protocol?, port: self.port? })
    }
}

/// A port; 0 is `None`, and all that a protocol without ports may say.
fn port(value: &Value<'_>, protocol: Read<Protocol>) -> Read<Option<NonZeroU16>> {
    let port = value.whole(0..=u16::MAX)?;
    match protocol {
        Ok(protocol) if port != 0 && !protocol.has_ports() => {
            Err(value.refuse(format!("protocol {protocol} has no ports: remove it, or write 0")))
        }
        _ => Ok(NonZeroU16::new(port)),
    }
}

fn address(value: &Value<'_>) -> Read<RoutableAddr> {
    let text = value.word("an IPv4 or IPv6 address")?;
    text.parse().map_err(|error| value.refuse(format!("{}: {error}", quoted(text))))
}

impl Mode {
    fn read(fields: &Fields<'_>) -> Read<Self> {
        let twice = fields.or("twiceNat", false, Value::truth);
        let pool: Read<Option<Name>> = fields.optional("snatPool", |value| {
            if twice == Ok(false) {
                return Err(value.refuse("only with twiceNat: true; add that or remove this"));
            }
            value.parsed_text()
        });
        let (twice, pool) = (twice?, pool?);
        Ok(if twice { Self::TwiceNat { pool } } else { Self::Nat })
    }
}

impl Selection {
    fn read(fields: &Fields<'_>, backends: usize) -> Read<Self> {
        let maglev = (Self::Maglev as fn(TableSize) -> Self, TableSize::FULL_MAGLEV);
        let rendezvous = (Self::Rendezvous as fn(TableSize) -> Self, TableSize::FULL_RENDEZVOUS);
        let choices =
            [("maglev", Some(maglev)), ("rendezvous", Some(rendezvous)), ("weightedRandom", None)];
        let all = "maglev, rendezvous or weightedRandom";
        let chosen = fields.or("selection", Some(maglev), |value| value.choice(&choices, all))?;
        let Some((build, full)) = chosen else {
            return match fields.get("tableSize") {
                Some(value) => Err(value.refuse("weightedRandom has no table: remove it")),
                None => Ok(Self::WeightedRandom),
            };
        };
        let size = fields.or("tableSize", full.rows(), |value| {
            let least = TableSize::least(backends, full);
            let rows = value.whole(1..=full.rows())?;
            if rows < least {
                let each = TableSize::ROWS_PER_BACKEND;
                let message = format!(
                    "{rows} rows are too few for {backends} backends: write {least} or more, \
                     {each} for each backend up to the full table"
                );
                return Err(value.refuse(message));
            }
            Ok(rows)
        })?;
        Ok(build(TableSize(size.try_into().unwrap_or(full.0))))
    }
}

/// The backends with their lines, as far as they are right.
fn backends(fields: &Fields<'_>, service: Draft) -> Read<Vec<Read<(usize, Backend)>>> {
    let remedy = "add backends, a list; an empty one, [], keeps the VIP and drops its packets";
    let value = fields.required("backends", remedy)?;
    let items = value.items()?;
    if items.len() > MAX_BACKENDS_PER_MAPPING {
        let message = format!("{} backends: at most {MAX_BACKENDS_PER_MAPPING}", items.len());
        return Err(value.refuse(message));
    }
    let mut seen = Seen::default();
    let read = |item| {
        let backend = Backend::read(item, service)?;
        seen.check(item, &backend)?;
        Ok((item.place().line, backend))
    };
    Ok(items.iter().map(read).collect())
}

impl Backend {
    fn read(value: &Value<'_>, service: Draft) -> Read<Self> {
        let fields = value.fields(&["name", "address", "port", "weight"], &[])?;
        let name = fields.required("name", "add name: NAME, unique in this mapping");
        let name = name.and_then(Value::parsed_text);
        let address = fields.required("address", "add address: ADDRESS");
        let address = address.and_then(|value| same_family(value, service));
        let port = Self::port(&fields, service);
        let weight = fields.or("weight", 1, |value| value.whole(1..=u8::MAX));
        let weight = weight.map(|weight| Weight::new(weight).unwrap_or(Weight::ONE));
        Ok(Self { name: name?, address: address?, port: port?, weight: weight? })
    }

    fn port(fields: &Fields<'_>, service: Draft) -> Read<Option<NonZeroU16>> {
        let exact = service.port.is_ok_and(|port| port.is_some());
        let Some(value) = fields.get("port") else {
            return if exact { Err(fields.missing("port", "add port: NUMBER")) } else { Ok(None) };
        };
        let port = port(value, service.protocol)?;
        if exact && port.is_none() {
            let message = "0, the port that was asked for, goes only with vipPort: 0: write a port";
            return Err(value.refuse(message));
        }
        Ok(port)
    }
}

fn same_family(value: &Value<'_>, service: Draft) -> Read<RoutableAddr> {
    let address = address(value)?;
    match service.vip {
        Ok(vip) if vip.family() != address.family() => Err(value.refuse(format!(
            "{address} is {}, the VIP {vip} is {}: use a backend address of the VIP's family",
            address.family(),
            vip.family()
        ))),
        _ => Ok(address),
    }
}

/// The backends of one mapping that were read before.
#[derive(Default)]
struct Seen {
    names: HashMap<Name, String>,
    addresses: HashMap<(RoutableAddr, Option<NonZeroU16>), Name>,
}

impl Seen {
    fn check(&mut self, value: &Value<'_>, backend: &Backend) -> Read<()> {
        let Backend { name, address, port, .. } = backend;
        let name_is_new = match self.names.entry(name.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(value.path().to_owned());
                Ok(())
            }
            Entry::Occupied(first) => Err(value.refuse(format!(
                "{name} is already the name of {}: names are unique in a mapping",
                first.get()
            ))),
        };
        match self.addresses.entry((*address, *port)) {
            Entry::Vacant(entry) => {
                entry.insert(name.clone());
            }
            Entry::Occupied(first) => {
                let port = port.map(|port| format!(" port {port}")).unwrap_or_default();
                return Err(value.refuse(format!(
                    "{address}{port} is already backend {}: remove one of the two; a weight gives \
                     a larger share",
                    first.get()
                )));
            }
        }
        name_is_new
    }
}

/// A probe of a port needs one: the check's, or each backend's own.
fn check_probe_port<'b>(
    fields: &Fields<'_>,
    mut backends: impl Iterator<Item = &'b Backend>,
    check: &HealthCheck,
) {
    let HealthCheck::Enabled(check) = check else { return };
    let without = match check.probe {
        Probe::Icmp => None,
        Probe::Tcp | Probe::Http(_) | Probe::Https(_) => {
            backends.find(|backend| check.port_of(backend).is_none())
        }
    };
    if let Some(backend) = without
        && let Some(value) = fields.get("healthCheck")
    {
        let remedy = format!("backend {} has no port to probe: add port: NUMBER", backend.name);
        value.missing("port", remedy);
    }
}
