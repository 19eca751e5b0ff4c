//! `lb-node sessions`: who talks to which backend.

use super::names::{Backend, place, protocol};
use super::table::{self, Side};
use super::{Error, Node};
use crate::args;
use crate::sweeper::{self, Rate};
use datapath::lb::layout::{Session, TICK_SHIFT, session_flag, session_state};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wire::Address;
use wire::protocol::{ICMP, ICMPV6, TCP};
use xdp::Clock;

/// How long the kernel's clock is looked at to learn its rate.
const RATE_LOOK: Duration = Duration::from_millis(200);

/// A session, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its protocol.
    pub protocol: String,
    /// The client's address and port.
    pub client: String,
    /// What the client sends to.
    pub vip: String,
    /// What the backend sees as the client.
    pub source: String,
    /// The backend.
    pub backend: Backend,
    /// How far the connection is.
    pub state: &'static str,
    /// For how long nothing was sent.
    pub idle: Duration,
}

/// Sessions of all, by state, and how many of them are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Those that are listed.
    pub lines: Vec<Line>,
    /// Those that were asked for, listed or not.
    pub total: usize,
    /// How many are in each state.
    pub states: std::collections::BTreeMap<&'static str, usize>,
}

/// The sessions that were asked for.
///
/// # Errors
/// The kernel's clock cannot be read.
pub fn list(node: &Node, args: &args::Sessions) -> Result<List, Error> {
    let (tick, rate) = clock()?;
    let sessions = &node.view.shared.sessions;
    let mut found = Vec::new();
    for session in (1..sessions.len()).filter_map(|at| sessions.load(at)) {
        let is_client = |client: IpAddr| Address::from(client) == session.client;
        if !sweeper::is_in_use(&session) || !args.client.is_none_or(is_client) {
            continue;
        }
        let backend = node.names.backend(&node.view, session.backend_id);
        let is_mapping = args.mapping.as_ref().is_none_or(|mapping| *mapping == backend.mapping);
        if is_mapping && args.backend.as_ref().is_none_or(|asked| is_named(&backend, asked)) {
            found.push((sweeper::age(&session, tick), session, backend));
        }
    }
    found.sort_by_key(|(age, ..)| *age);
    let mut list = List { total: found.len(), ..List::default() };
    for (_, session, _) in &found {
        *list.states.entry(state(session)).or_default() += 1;
    }
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let shown = found.into_iter().take(limit);
    list.lines =
        shown.map(|(age, session, backend)| line(&session, backend, rate.time(age))).collect();
    Ok(list)
}

/// The kernel's clock of session ages, and how it runs.
///
/// # Errors
/// No privileges.
pub fn clock() -> Result<(u32, Rate), Error> {
    let clock = Clock::load()?;
    let (before, start) = (clock.jiffies()?, now());
    std::thread::park_timeout(RATE_LOOK);
    let after = clock.jiffies()?;
    Ok((after >> TICK_SHIFT, Rate::of(after.wrapping_sub(before), start.elapsed())))
}

fn is_named(backend: &Backend, asked: &str) -> bool {
    let address = backend.address.parse::<std::net::SocketAddr>().map(|place| place.ip());
    backend.name == asked
        || backend.address == asked
        || address.is_ok_and(|address| asked.parse() == Ok(address))
}

/// A session, in words.
pub fn line(session: &Session, backend: Backend, idle: Duration) -> Line {
    let is_affinity = session.flags & session_flag::AFFINITY != 0;
    let is_echo = matches!(session.protocol, ICMP | ICMPV6);
    let with = |address: Address, port: [u8; 2]| match u16::from_be_bytes(port) {
        id if is_echo => format!("{address} id={id}"),
        _ => place(address, port),
    };
    if is_affinity {
        let [protocol_number, _] = session.client_port;
        return Line {
            protocol: protocol(protocol_number),
            client: session.client.to_string(),
            vip: place(session.vip, session.vip_port),
            source: String::new(),
            backend,
            state: state(session),
            idle,
        };
    }
    let vip = if is_echo { session.vip.to_string() } else { place(session.vip, session.vip_port) };
    Line {
        protocol: protocol(session.protocol),
        client: with(session.client, session.client_port),
        vip,
        source: with(session.source, session.source_port),
        backend,
        state: state(session),
        idle,
    }
}

/// How far the connection is, in a word.
pub fn state(session: &Session) -> &'static str {
    const CLOSED: u32 = session_state::CLIENT_FIN | session_state::BACKEND_FIN;
    let has = |bits: u32| session.state & bits != 0;
    match session.protocol {
        _ if session.flags & session_flag::AFFINITY != 0 => "affinity",
        _ if has(session_state::ABANDONED) => "abandoned",
        _ if has(session_state::REPLACED) => "replaced",
        _ if has(session_state::RESET) => "reset",
        _ if session.state & CLOSED == CLOSED => "closed",
        _ if has(CLOSED) => "closing",
        TCP if has(session_state::ESTABLISHED) => "open",
        TCP if has(session_state::ANSWERED) => "opening",
        _ if has(session_state::ANSWERED) => "answered",
        _ => "new",
    }
}

/// The list as a table.
pub fn render(list: &List) -> String {
    let cells = |line: &Line| {
        let is_gone = line.backend.name.is_empty();
        let name = if is_gone { "(gone)".to_owned() } else { line.backend.full() };
        [
            line.protocol.clone(),
            line.client.clone(),
            line.vip.clone(),
            if line.source.is_empty() { "-".to_owned() } else { line.source.clone() },
            name,
            line.backend.address.clone(),
            line.state.to_owned(),
            idle(line.idle),
        ]
    };
    let rows: Vec<_> = list.lines.iter().map(cells).collect();
    let columns = [
        ("PROTO", Side::Left),
        ("CLIENT", Side::Left),
        ("VIP", Side::Left),
        ("SEEN AS", Side::Left),
        ("BACKEND", Side::Left),
        ("ADDRESS", Side::Left),
        ("STATE", Side::Left),
        ("IDLE", Side::Right),
    ];
    let mut text = if rows.is_empty() { String::new() } else { table::render(columns, &rows) };
    if !rows.is_empty() {
        text.push('\n');
    }
    text.push_str(&table::counted(u64::try_from(list.total).unwrap_or(u64::MAX), "session"));
    let states: Vec<_> =
        list.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    if !states.is_empty() {
        text.push_str(&format!(": {}", states.join(", ")));
    }
    if list.lines.len() < list.total {
        text.push_str(&format!(
            "\nthe {} in use last are listed: --limit 0 lists all",
            list.lines.len()
        ));
    }
    text + "\n"
}

/// The list as JSON.
pub fn to_json(list: &List) -> Value {
    let sessions = list.lines.iter().map(|line| {
        json!({
            "protocol": line.protocol,
            "client": line.client,
            "vip": line.vip,
            "source": line.source,
            "mapping": line.backend.mapping,
            "backend": line.backend.name,
            "address": line.backend.address,
            "state": line.state,
            "idleSec": line.idle.as_secs_f64(),
        })
    });
    let sessions: Vec<Value> = sessions.collect();
    json!({ "total": list.total, "states": list.states, "sessions": sessions })
}

fn idle(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 10 => format!("{:.1} s", time.as_secs_f64()),
        seconds if seconds < 600 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

#[expect(clippy::disallowed_methods, reason = "a command's shell: it reads the clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
