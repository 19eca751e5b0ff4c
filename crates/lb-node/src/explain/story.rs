//! What became of a packet, step by step, each with its reason.

use super::flow::Flow;
use super::witness::{Note, Trace};
use crate::look::names::{Backend, Names, place};
use crate::look::sessions;
use crate::look::summary::Summary;
use crate::sweeper::{self, Rate};
use datapath::lb::host::HostTables;
use datapath::lb::layout::{
    Hop, Row, Service, ServiceKey, Session, backend_flag, owned_kind, service_flag, session_flag,
    session_state,
};
use datapath::lb::{Direction, DropReason, Stage, Tables as _, Verdict};
use std::collections::HashMap;
use std::time::Duration;
use wire::Address;
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is about, in a word.
    pub about: &'static str,
    /// What was found or done, and why.
    pub text: String,
}

/// Everything that the story is made of.
pub struct Scene<'a> {
    /// The packet's flow.
    pub flow: &'a Flow,
    /// The frame as it comes in.
    pub frame: &'a [u8],
    /// The tables; their sessions are those after the packet.
    pub tables: &'a HostTables,
    /// What the core did.
    pub trace: &'a Trace,
    /// The services' names.
    pub names: &'a Names,
    /// The backends' names, by id.
    pub backends: &'a HashMap<u16, Backend>,
    /// The interfaces' names, by index.
    pub interfaces: &'a HashMap<u32, String>,
    /// How the clock of session ages runs.
    pub rate: Rate,
}

impl Scene<'_> {
    /// The whole story, in order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut tell = |about: &'static str, text: Option<String>| {
            steps.extend(text.map(|text| Step { about, text }));
        };
        let by = self.interface(self.tables.ingress);
        tell("packet", Some(format!("{}, in by {by}", Summary::of(self.frame))));
        tell("destination", Some(self.destination()));
        tell("session", Some(self.session()));
        tell("service", self.service_text());
        tell("affinity", self.affinity());
        let [row, choices] = self.row();
        tell("row", row);
        tell("choices", choices);
        tell("backend", self.backend());
        tell("translation", self.translation());
        tell("new session", self.new_session());
        tell("next hop", self.next_hop());
        let sent = matches!(
            self.trace.verdict,
            Verdict::Transmit | Verdict::Redirect(_) | Verdict::Answer(_)
        );
        tell("leaves as", sent.then(|| Summary::of(&self.trace.frame).to_string()));
        tell("verdict", Some(self.verdict()));
        let stages = self.trace.stages.iter().map(|(stage, _)| stage.name());
        tell("stages", Some(stages.collect::<Vec<_>>().join(", ")));
        steps
    }

    /// The verdict in a word, and the reason of a drop.
    pub fn outcome(&self) -> (&'static str, Option<DropReason>) {
        match self.trace.verdict {
            Verdict::Pass => ("passed", None),
            Verdict::Transmit => ("transmitted", None),
            Verdict::Redirect(_) => ("redirected", None),
            Verdict::Answer(reason) => ("answered", Some(reason)),
            Verdict::Drop(reason) => ("dropped", Some(reason)),
        }
    }

    /// The session that the packet belongs to or opens, as it is after the packet.
    pub fn session_after(&self) -> Option<Session> {
        match self.opened() {
            Some((_, session)) => Some(session),
            None => self.found().and_then(|(number, _)| self.tables.session_at(number)),
        }
    }

    /// The names of the backend that takes the packet.
    pub fn backend_called(&self) -> Option<Backend> {
        self.chosen().map(|id| self.called(id))
    }

    /// The session that the packet was found to be of, as it was before.
    fn found(&self) -> Option<(u32, Session)> {
        let first = self.trace.notes(Stage::Enter).iter().find_map(|note| match note {
            Note::Session(number, session) => Some((*number, *session)),
            _ => None,
        });
        let is_of = |session: &Session| {
            [Direction::Forward, Direction::Reply].into_iter().any(|direction| {
                let (key, flow) = (session.key(direction), self.flow.key());
                key.source == flow.source && key.destination == flow.destination
            })
        };
        first.filter(|(_, session)| is_of(session))
    }

    /// The session that was opened, as it is now.
    fn opened(&self) -> Option<(u32, Session)> {
        let number = self.trace.scratch_after(Stage::Claim)?.session;
        self.tables.session_at(number).map(|session| (number, session))
    }

    /// The service that the packet asked for.
    fn service(&self) -> Option<(ServiceKey, Service)> {
        self.trace.notes(Stage::Admit).iter().find_map(|note| match note {
            Note::Service(key, Some(service)) => Some((*key, *service)),
            _ => None,
        })
    }

    /// The backend that was chosen, or that the session has.
    fn chosen(&self) -> Option<u16> {
        let admitted = self.trace.notes(Stage::Admit).iter().rev().find_map(|note| match note {
            Note::Backend(id) => u16::try_from(*id).ok(),
            _ => None,
        });
        let has_route = self.trace.all_notes().any(|note| matches!(note, Note::Way(_)));
        match self.service() {
            Some(_) => admitted.filter(|_| has_route || self.opened().is_some()),
            None => self.found().map(|(_, session)| session.backend_id),
        }
    }

    fn destination(&self) -> String {
        let destination = self.flow.destination;
        let address = Address::from(destination);
        let own = |interface: &&datapath::lb::layout::Interface| {
            interface.v4 == address || interface.v6 == address
        };
        match self.tables.owned.get(&address) {
            Some(owned) if owned.until_ns <= self.tables.boot_ns => {
                format!("{destination} was ours and is another node's now: nothing is answered")
            }
            Some(owned) if owned.kind == owned_kind::VIRTUAL => {
                format!(
                    "{destination} is a virtual address of this node: nothing for it is the host's"
                )
            }
            Some(_) => format!("{destination} is an address that clients are translated to"),
            None => match self.tables.interfaces.iter().find(own) {
                Some(interface) => format!(
                    "{destination} is the node's own, on {}: what is of no session is the host's",
                    self.interface(interface.index)
                ),
                None => format!("{destination} is not ours: what is of no session is the host's"),
            },
        }
    }

    fn session(&self) -> String {
        let Some((number, session)) = self.found() else {
            return "none has this flow".to_owned();
        };
        let idle = self.rate.time(sweeper::age(&session, self.tables.tick));
        let side = if session.key(Direction::Forward).source == self.flow.key().source {
            "the client's packet"
        } else {
            "the backend's packet"
        };
        let line = sessions::line(&session, Backend::nobody(), idle);
        let text = format!(
            "{} is {side}: {} to {}, {}, idle for {:.1} s",
            ordinal(number),
            line.client,
            line.vip,
            line.state,
            idle.as_secs_f64()
        );
        if !self.trace.stages.iter().any(|(stage, _)| *stage == Stage::Admit) {
            return text;
        }
        let why = if session.state & session_state::CLOSING != 0 {
            "that connection is over, and a SYN begins a new one"
        } else {
            "its backend takes new flows no longer, and this begins anew"
        };
        format!("{text}; {why}")
    }

    fn service_text(&self) -> Option<String> {
        if !self.trace.stages.iter().any(|(stage, _)| *stage == Stage::Admit) {
            return None;
        }
        let Some((key, service)) = self.service() else {
            let stands = self.trace.all_notes().find_map(|note| match note {
                Note::Origin(Some(key)) => Some(*key),
                _ => None,
            });
            return Some(match stands {
                Some(key) => format!(
                    "none of the destination; but the source stands behind {} alone, and answers as it",
                    self.service_called(&key)
                ),
                None => "none has this address, port and protocol".to_owned(),
            });
        };
        let mode = if service.flags & service_flag::TWICE_NAT != 0 { "twice-NAT" } else { "NAT" };
        let affinity = match service.affinity_s {
            0 => String::new(),
            seconds => format!(", a client stays with its backend for {seconds} s"),
        };
        let every =
            if key.port == [0; 2] && self.flow.protocol == TCP { ", every port" } else { "" };
        Some(format!("{}{every}, {mode}{affinity}", self.service_called(&key)))
    }

    fn affinity(&self) -> Option<String> {
        let (_, service) = self.service()?;
        if service.affinity_s == 0 {
            return None;
        }
        let kept = self.trace.notes(Stage::Admit).iter().find_map(|note| match note {
            Note::Session(_, session) if session.flags & session_flag::AFFINITY != 0 => {
                Some(session.backend_id)
            }
            _ => None,
        });
        let is_kept = !self.has_row();
        Some(match kept.filter(|_| service.rows != 0) {
            Some(id) if is_kept => {
                format!("the client was with {} last, and stays", self.called(id).full())
            }
            Some(id) => format!("the client was with {}, which is gone", self.called(id).full()),
            None => "nothing is remembered of the client".to_owned(),
        })
    }

    fn has_row(&self) -> bool {
        self.trace.notes(Stage::Admit).iter().any(|note| matches!(note, Note::Row(..)))
    }

    /// The row that the flow's hash names, and whom it chooses.
    fn row(&self) -> [Option<String>; 2] {
        let Some((_, service)) = self.service() else { return [None, None] };
        if service.rows == 0 {
            return [Some("none: no backend takes new flows".to_owned()), None];
        }
        let asked = self.trace.notes(Stage::Admit).iter().find_map(|note| match note {
            Note::Row(at, Some(row)) => Some((*at, *row)),
            _ => None,
        });
        let Some((at, row)) = asked else { return [None, None] };
        let hashed = match (service.affinity_s, self.flow.protocol) {
            (0, TCP | UDP) => "client address, client port and service",
            (0, ICMP | ICMPV6) => "client address, identifier and service",
            _ => "client address and service",
        };
        let number = at.wrapping_sub(service.rows_at);
        let named = format!("{number} of {}, by the hash of {hashed}", service.rows);
        [Some(named), Some(self.choices(service, row))]
    }

    fn choices(&self, service: Service, row: Row) -> String {
        let member = |local: u32| {
            let id = self.tables.member(service.members_at.wrapping_add(local));
            let id = id.and_then(|id| u16::try_from(id).ok());
            id.map_or_else(|| "nobody".to_owned(), |id| self.called(id).full())
        };
        let (first, second) = (member(row.first()), member(row.second()));
        if row.is_moving() {
            return format!(
                "first choice {first}; in transition from {second}, which keeps what did not begin \
                 with a SYN since"
            );
        }
        match first == second {
            true => format!("first choice {first}, no second one, not in transition"),
            false => format!("first choice {first}, second {second}, not in transition"),
        }
    }

    fn backend(&self) -> Option<String> {
        let id = self.chosen()?;
        let flags = self.tables.backends.get(usize::from(id)).map_or(0, |backend| backend.flags);
        let called = self.called(id);
        let life = match (flags & backend_flag::GONE != 0, flags & backend_flag::RESET != 0) {
            (false, _) => "takes new flows",
            (true, false) => "is down or removed; open connections go on",
            (true, true) => "is down or removed; open connections are reset",
        };
        Some(format!("{} at {}, {life}", called.full(), called.address))
    }

    fn translation(&self) -> Option<String> {
        if let Some((_, session)) = self.opened() {
            return Some(self.claimed(&session));
        }
        let (_, session) = self.found().filter(|_| self.service().is_none())?;
        let is_own = session.flags & session_flag::TWICE_NAT == 0;
        let seen = sessions::line(&session, Backend::nobody(), Duration::ZERO).source;
        Some(match is_own {
            true => format!("NAT: the backend sees the client itself, {seen}"),
            false => format!("twice-NAT: the backend sees {seen}, as the session has it"),
        })
    }

    /// How a new session got its address and port.
    fn claimed(&self, session: &Session) -> String {
        let sources: Vec<_> = self
            .trace
            .all_notes()
            .filter_map(|note| match note {
                Note::Source(source) => Some(*source),
                _ => None,
            })
            .collect();
        let Some(last) = sources.last() else {
            let seen = sessions::line(session, Backend::nobody(), Duration::ZERO).client;
            return format!("NAT: the backend sees the client itself, {seen}");
        };
        let (_, reason) = self.outcome();
        let range = format!("{}-{}", last.first_port, last.last_port);
        let tries = match sources.len() {
            1 => "1 try".to_owned(),
            count => format!("{count} tries"),
        };
        if reason == Some(DropReason::SnatExhausted) {
            return format!("no free port of {range} towards this backend after {tries}");
        }
        let (own, seen) =
            (u16::from_be_bytes(session.client_port), u16::from_be_bytes(session.source_port));
        let seen_at = sessions::line(session, Backend::nobody(), Duration::ZERO).source;
        let why = if own == seen {
            format!("the client's own port, free towards this backend (of {range})")
        } else if (last.first_port..=last.last_port).contains(&own) {
            format!("found after {tries} in {range}: the client's own port {own} is taken")
        } else {
            format!("found after {tries} in {range}, where the client's own port {own} is not")
        };
        format!("twice-NAT: the backend sees {seen_at}, {why}")
    }

    fn new_session(&self) -> Option<String> {
        let taken = self.trace.all_notes().find_map(|note| match note {
            Note::Taken(taken) => Some(*taken),
            _ => None,
        });
        let refused = self.trace.all_notes().any(|note| *note == Note::HalfOpen(false));
        if refused {
            let limit = self.tables.settings.half_open_limit;
            return Some(format!("none: {limit} half-open ones are as many as may be"));
        }
        let again = self.found().filter(|_| taken.is_none() && self.service().is_some());
        if let Some((number, _)) = again.filter(|_| self.opened().is_none()) {
            return Some(format!("none: {} begins anew with its backend", ordinal(number)));
        }
        match taken? {
            None => Some("none: every record is in use".to_owned()),
            Some(_) => {
                let (number, _) = self.opened()?;
                Some(format!(
                    "{}; {} more are free, {} of {} half-open",
                    ordinal(number),
                    self.tables.free(),
                    self.tables.half_open(),
                    self.tables.settings.half_open_limit
                ))
            }
        }
    }

    fn next_hop(&self) -> Option<String> {
        let routed = self.trace.all_notes().rev().find_map(|note| match note {
            Note::Route(destination, found) => Some((*destination, *found)),
            _ => None,
        });
        let known = self.trace.all_notes().rev().find_map(|note| match note {
            Note::Way(hop) => Some(*hop),
            _ => None,
        });
        match (routed, known) {
            (Some((destination, Err(reason))), _) => {
                Some(format!("to {destination} unknown ({})", reason.explanation()))
            }
            (Some((destination, Ok(hop))), _) => {
                Some(format!("to {destination} by {}, looked up now", self.hop(&hop)))
            }
            (None, Some(hop)) if hop.interface() != 0 => {
                Some(format!("{}, known since routes last changed", self.hop(&hop)))
            }
            (None, _) => {
                let (_, session) = self.found()?;
                let known = session.to_client;
                Some(format!("{}, known since routes last changed", self.hop(&known)))
            }
        }
    }

    fn hop(&self, hop: &Hop) -> String {
        let [d @ .., _, _, _, _, _, _] = hop.addresses;
        let [_, _, _, _, _, _, s @ ..] = hop.addresses;
        let vlan = match hop.vlan {
            [0, 0] | Hop::SAME_VLAN => String::new(),
            vlan => format!(" VLAN {}", u16::from_ne_bytes(vlan)),
        };
        let by = self.interface(hop.interface());
        format!("{by}{vlan}, {} to {}, MTU {}", mac(s), mac(d), hop.mtu())
    }

    fn verdict(&self) -> String {
        match self.trace.verdict {
            Verdict::Pass => "passed to the host, unchanged".to_owned(),
            Verdict::Transmit => {
                format!("sent out of {}, by which it came", self.interface(self.tables.ingress))
            }
            Verdict::Redirect(index) => format!("sent out of {}", self.interface(index)),
            Verdict::Answer(reason) => format!(
                "dropped and its source told, reason {}: {}",
                reason.name(),
                reason.explanation()
            ),
            Verdict::Drop(reason) => {
                format!("dropped, reason {}: {}", reason.name(), reason.explanation())
            }
        }
    }

    fn interface(&self, index: u32) -> String {
        self.interfaces.get(&index).cloned().unwrap_or_else(|| format!("interface {index}"))
    }

    fn called(&self, id: u16) -> Backend {
        let unknown = || Backend {
            mapping: String::new(),
            name: String::new(),
            address: format!("backend {id}"),
        };
        self.backends.get(&id).cloned().unwrap_or_else(unknown)
    }

    fn service_called(&self, key: &ServiceKey) -> String {
        match self.names.service(key) {
            Some(service) => format!("{} ({})", service.mapping, service.service),
            None => place(key.address, key.port),
        }
    }
}

fn ordinal(number: u32) -> String {
    format!("number {number}")
}

/// An Ethernet address as people write it.
pub fn mac(octets: [u8; 6]) -> String {
    octets.map(|octet| format!("{octet:02x}")).join(":")
}

/// The steps as lines.
pub fn render(steps: &[Step]) -> String {
    steps.iter().map(|Step { about, text }| format!("{about:<12} {text}\n")).collect()
}
