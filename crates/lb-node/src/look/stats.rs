//! `lb-node stats`: traffic by service and backend, verdicts, drops and their reasons, room.

use super::names::Backend;
use super::table::{self, Side, octets};
use super::{Error, Node};
use crate::sweeper;
use datapath::lb::DropReason;
use datapath::lb::layout::{Traffic, backend_flag, session_flag};
use serde_json::{Value, json};
use std::collections::HashMap;

/// All counters at one moment, or what has come about between two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// By service.
    pub services: Vec<ServiceFigures>,
    /// Packets passed, transmitted, redirected, dropped.
    pub verdicts: [u64; 4],
    /// Packets dropped, in the order of the reasons.
    pub drops: Vec<(DropReason, u64)>,
    /// Room for sessions.
    pub room: Room,
}

/// One service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceFigures {
    /// The mapping's name; empty for backends that no mapping names any more.
    pub mapping: String,
    /// Protocol, address and port.
    pub service: String,
    /// Its backends.
    pub backends: Vec<BackendFigures>,
}

/// One backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendFigures {
    /// Its names.
    pub backend: Backend,
    /// Whether it takes new flows; `None` if the packet core does not know it.
    pub up: Option<bool>,
    /// Its sessions in use.
    pub active: u64,
    /// Its counters.
    pub traffic: Traffic,
}

/// Room for sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// In use, records of clients' affinity included.
    pub used: u64,
    /// How many there can be.
    pub limit: u64,
    /// Free ones; those that have just ended are neither used nor free.
    pub free: u64,
    /// Half-open TCP sessions.
    pub half_open: u64,
    /// How many of them there can be.
    pub half_open_limit: u64,
}

impl Figures {
    /// The counters now.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn read(node: &Node) -> Result<Self, Error> {
        let view = &node.view;
        let mut active: HashMap<u16, u64> = HashMap::new();
        let mut room = Room::default();
        let sessions = &view.shared.sessions;
        for session in (1..sessions.len()).filter_map(|at| sessions.load(at)) {
            if sweeper::is_in_use(&session) {
                room.used += 1;
                if session.flags & session_flag::AFFINITY == 0 {
                    *active.entry(session.backend_id).or_default() += 1;
                }
            }
        }
        room.limit = u64::from(sessions.len().saturating_sub(1));
        let levels = view.shared.levels.load(0).unwrap_or_default();
        room.free = levels.freed.wrapping_sub(levels.taken);
        room.half_open = levels.half_open;
        let settings = view.shared.settings.load(0);
        room.half_open_limit = settings.map_or(0, |settings| settings.half_open_limit.into());
        let drops = DropReason::ALL.iter().map(|reason| Ok((*reason, view.drops(*reason)?)));
        Ok(Self {
            services: services(node, &active),
            verdicts: view.verdicts()?,
            drops: drops.collect::<Result<_, xdp::Error>>()?,
            room,
        })
    }

    /// What has come about since, for a while of so many seconds, a second. Levels stay as they are.
    #[must_use]
    pub fn rate_since(&self, before: &Self, seconds: u64) -> Self {
        let rate = |now: u64, before: u64| now.saturating_sub(before) / seconds.max(1);
        let mut rates = self.clone();
        for (now, before) in rates.verdicts.iter_mut().zip(before.verdicts) {
            *now = rate(*now, before);
        }
        for ((_, now), (_, before)) in rates.drops.iter_mut().zip(&before.drops) {
            *now = rate(*now, *before);
        }
        let known: HashMap<_, _> = before
            .services
            .iter()
            .flat_map(|service| &service.backends)
            .map(|figures| ((&figures.backend.mapping, &figures.backend.name), figures.traffic))
            .collect();
        let backends = rates.services.iter_mut().flat_map(|service| &mut service.backends);
        for BackendFigures { backend, traffic, .. } in backends {
            let before = known.get(&(&backend.mapping, &backend.name)).copied().unwrap_or_default();
            *traffic = Traffic {
                packets_in: rate(traffic.packets_in, before.packets_in),
                octets_in: rate(traffic.octets_in, before.octets_in),
                packets_out: rate(traffic.packets_out, before.packets_out),
                octets_out: rate(traffic.octets_out, before.octets_out),
                sessions: rate(traffic.sessions, before.sessions),
            };
        }
        rates
    }
}

/// The services' figures; backends that still have a record and no name come last.
fn services(node: &Node, active: &HashMap<u16, u64>) -> Vec<ServiceFigures> {
    let names = &node.view.shared.names;
    let mut ids: HashMap<u64, u16> = HashMap::new();
    for id in 0..=u16::MAX {
        if let Some(name) = names.load(id.into()).filter(|name| *name != 0) {
            ids.insert(name, id);
        }
    }
    let figures = |backend: &Backend, id: Option<u16>| {
        let record = id.and_then(|id| node.view.shared.backends.load(id.into()));
        BackendFigures {
            backend: backend.clone(),
            up: record.map(|record| record.flags & backend_flag::GONE == 0),
            active: id.and_then(|id| active.get(&id).copied()).unwrap_or(0),
            traffic: id.map(|id| node.view.traffic(id)).unwrap_or_default(),
        }
    };
    let mut services = Vec::new();
    for service in node.names.services() {
        let backends = service.backends.iter();
        let backends = backends.map(|(name, backend)| figures(backend, ids.remove(name))).collect();
        let (mapping, service) = (service.mapping.clone(), service.service.clone());
        services.push(ServiceFigures { mapping, service, backends });
    }
    let mut gone: Vec<u16> = ids.into_values().collect();
    gone.sort_unstable();
    let backends: Vec<_> =
        gone.iter().map(|id| figures(&node.names.backend(&node.view, *id), Some(*id))).collect();
    if !backends.is_empty() {
        services.push(ServiceFigures { backends, ..ServiceFigures::default() });
    }
    services
}

/// The figures as text; `all`: with reasons that have dropped nothing.
pub fn render(figures: &Figures, all: Reasons, unit: &str) -> String {
    let [passed, transmitted, redirected, dropped] = figures.verdicts;
    let Room { used, limit, free, half_open, half_open_limit } = figures.room;
    let percent = |part: u64, whole: u64| part.saturating_mul(100).checked_div(whole).unwrap_or(0);
    let mut text = format!(
        "packets{unit}  {passed} passed to the host, {transmitted} sent back by their interface \
         (answers to dropped ones among them), {redirected} by another, {dropped} dropped\n\
         sessions  {used} of {limit} in use ({} %), {free} free; {half_open} of {half_open_limit} \
         half-open\n\n",
        percent(used, limit),
    );
    for service in &figures.services {
        match service.mapping.as_str() {
            "" => text.push_str("backends that the resources no longer name\n"),
            mapping => text.push_str(&format!("{mapping}  {}\n", service.service)),
        }
        text.push_str(&backends(&service.backends));
        text.push('\n');
    }
    let counted = |(_, count): &&(DropReason, u64)| *count > 0 || all == Reasons::All;
    let rows: Vec<_> = figures
        .drops
        .iter()
        .filter(counted)
        .map(|(reason, count)| {
            [reason.name().to_owned(), count.to_string(), reason.explanation().to_owned()]
        })
        .collect();
    if rows.is_empty() {
        return text + "nothing dropped\n";
    }
    let heading = format!("PACKETS{unit}");
    let columns =
        [("DROPPED FOR", Side::Left), (heading.as_str(), Side::Right), ("WHICH IS", Side::Left)];
    text + &table::render(columns, &rows)
}

/// Which reasons for drops are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reasons {
    /// Those that have dropped something.
    Nonzero,
    /// Every one.
    All,
}

/// A table of backends, and their sum where there is more than one.
fn backends(backends: &[BackendFigures]) -> String {
    if backends.is_empty() {
        return "  no backends\n".to_owned();
    }
    let sum = backends.iter().fold(BackendFigures::sum(), |sum, one| BackendFigures {
        active: sum.active.saturating_add(one.active),
        traffic: Traffic {
            packets_in: sum.traffic.packets_in.saturating_add(one.traffic.packets_in),
            octets_in: sum.traffic.octets_in.saturating_add(one.traffic.octets_in),
            packets_out: sum.traffic.packets_out.saturating_add(one.traffic.packets_out),
            octets_out: sum.traffic.octets_out.saturating_add(one.traffic.octets_out),
            sessions: sum.traffic.sessions.saturating_add(one.traffic.sessions),
        },
        ..sum
    });
    let total = (backends.len() > 1).then_some(&sum);
    let rows: Vec<_> = backends.iter().chain(total).map(BackendFigures::cells).collect();
    let columns = [
        ("", Side::Left),
        ("BACKEND", Side::Left),
        ("ADDRESS", Side::Left),
        ("STATE", Side::Left),
        ("ACTIVE", Side::Right),
        ("NEW", Side::Right),
        ("PACKETS IN", Side::Right),
        ("BYTES IN", Side::Right),
        ("PACKETS OUT", Side::Right),
        ("BYTES OUT", Side::Right),
    ];
    table::render(columns, &rows)
}

impl BackendFigures {
    /// Of no backend.
    fn sum() -> Self {
        let [mapping, name, address] = ["", "total", ""].map(str::to_owned);
        let backend = Backend { mapping, name, address };
        Self { backend, up: None, active: 0, traffic: Traffic::default() }
    }

    fn cells(&self) -> [String; 10] {
        let Self { backend, up, active, traffic } = self;
        let state = match up {
            Some(true) => "up",
            Some(false) => "down",
            None if backend.address.is_empty() => "",
            None => "unknown",
        };
        [
            String::new(),
            backend.name.clone(),
            backend.address.clone(),
            state.to_owned(),
            active.to_string(),
            traffic.sessions.to_string(),
            traffic.packets_in.to_string(),
            octets(traffic.octets_in),
            traffic.packets_out.to_string(),
            octets(traffic.octets_out),
        ]
    }
}

/// The figures as JSON; the names are those of the node's `/status`.
pub fn to_json(figures: &Figures) -> Value {
    let [passed, transmitted, redirected, dropped] = figures.verdicts;
    let Room { used, limit, free, half_open, half_open_limit } = figures.room;
    let drops: Vec<Value> = figures
        .drops
        .iter()
        .map(|(reason, count)| {
            json!({ "reason": reason.name(), "packets": count, "meaning": reason.explanation() })
        })
        .collect();
    let backend = |one: &BackendFigures| {
        json!({
            "name": one.backend.name,
            "address": one.backend.address,
            "up": one.up,
            "sessions": one.active,
            "newSessions": one.traffic.sessions,
            "packetsIn": one.traffic.packets_in,
            "bytesIn": one.traffic.octets_in,
            "packetsOut": one.traffic.packets_out,
            "bytesOut": one.traffic.octets_out,
        })
    };
    let services: Vec<Value> = figures
        .services
        .iter()
        .map(|service| {
            let backends: Vec<Value> = service.backends.iter().map(backend).collect();
            json!({
                "mapping": service.mapping,
                "service": service.service,
                "backends": backends,
            })
        })
        .collect();
    json!({
        "packets": {
            "passed": passed,
            "transmitted": transmitted,
            "redirected": redirected,
            "dropped": dropped,
        },
        "sessions": {
            "inUse": used,
            "limit": limit,
            "free": free,
            "halfOpen": half_open,
            "halfOpenLimit": half_open_limit,
        },
        "mappings": services,
        "drops": drops,
    })
}

#[cfg(test)]
mod tests;
