//! From TOML to [`Config`]: every value with its rule, every error with its line.

use super::{Config, DataPlane, MAX_INTERFACES, MAX_POOL_ADDRESSES, MAX_POOLS, Pool, Timeouts};
use config::diagnostics::Diagnostics;
use lb_api::{Name, SnatPool};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use toml_edit::{Document, Item, Table, Value};

/// Every key of the file's top, in the order of the manual.
pub const KEYS: &[&str] = &[
    "interfaces",
    "dataplane",
    "resources",
    "state",
    "pins",
    "ops",
    "snat_ports",
    "snat_pools",
    "sessions",
    "half_open_sessions",
    "transition_sec",
    "timeouts",
];
/// Every key of a pool.
pub const POOL_KEYS: &[&str] = &["name", "addresses", "ports"];
/// Every timeout.
pub const TIMEOUT_KEYS: &[&str] =
    &["udp_sec", "tcp_established_sec", "tcp_transitory_sec", "icmp_sec", "other_sec"];

const DEFAULT_SESSIONS: u32 = 524_288;
const SESSIONS: RangeInclusive<u32> = 1024..=16_777_216;
/// Ports that no program of the host is likely to have opened.
const DEFAULT_PORTS: RangeInclusive<u16> = 16_384..=65_535;

pub(super) fn config(file: &str, text: &str) -> Result<Config, Diagnostics> {
    let mut diagnostics = Diagnostics::new(file);
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            diagnostics.at(line, "", error.message().to_owned());
            return Err(diagnostics);
        }
    };
    let mut reader = Reader { text, diagnostics };
    let config = reader.config(document.as_table());
    reader.diagnostics.into_result(config)
}

struct Reader<'t> {
    text: &'t str,
    diagnostics: Diagnostics,
}

impl Reader<'_> {
    fn config(&mut self, table: &Table) -> Config {
        self.unknown(table, KEYS);
        let interfaces = self.interfaces(table);
        let data_plane = match self.text(table, "dataplane").as_deref() {
            None | Some("xdp") => DataPlane::Native,
            Some("xdp-generic") => DataPlane::Generic,
            Some(other) => {
                let message = format!("\"{other}\" is none; write \"xdp\" or \"xdp-generic\"");
                self.wrong(table, "dataplane", message);
                DataPlane::Native
            }
        };
        let resources = self.text(table, "resources").map(PathBuf::from);
        if resources.is_none() && !table.contains_key("resources") {
            self.missing("resources", "name the directory of resources");
        }
        let sessions = self.number(table, "sessions", SESSIONS).unwrap_or(DEFAULT_SESSIONS);
        let half_open = self.number(table, "half_open_sessions", 1..=sessions);
        let transition = self.number(table, "transition_sec", 1..=86_400).unwrap_or(300);
        Config {
            interfaces,
            data_plane,
            resources: resources.unwrap_or_default(),
            state: self.text(table, "state").map(PathBuf::from),
            pins: self.text(table, "pins").map(PathBuf::from),
            ops: self.ops(table),
            snat_ports: self.ports(table, "snat_ports").unwrap_or(DEFAULT_PORTS),
            pools: self.pools(table),
            sessions,
            half_open_sessions: half_open.unwrap_or((sessions / 4).max(1)),
            timeouts: self.timeouts(table),
            transition: Duration::from_secs(u64::from(transition)),
        }
    }

    fn interfaces(&mut self, table: &Table) -> Vec<String> {
        if !table.contains_key("interfaces") {
            self.missing("interfaces", "name the interfaces that packets come in by");
            return Vec::new();
        }
        let names = self.texts(table, "interfaces");
        if names.is_empty() {
            self.wrong(table, "interfaces", "name at least one".into());
        }
        if names.len() > MAX_INTERFACES {
            self.wrong(table, "interfaces", format!("more than {MAX_INTERFACES}"));
        }
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                self.wrong(table, "interfaces", format!("\"{name}\" stands there twice"));
            }
            if name.is_empty() || name.len() > 15 {
                self.wrong(table, "interfaces", format!("\"{name}\" cannot be an interface"));
            }
        }
        names
    }

    fn ops(&mut self, table: &Table) -> Option<SocketAddr> {
        let text = self.text(table, "ops")?;
        let parsed = config::value::socket_address(&text);
        parsed.inspect_err(|error| self.wrong(table, "ops", format!("\"{text}\": {error}"))).ok()
    }

    fn timeouts(&mut self, table: &Table) -> Timeouts {
        let default = Timeouts::default();
        let Some(item) = table.get("timeouts") else { return default };
        let Some(inner) = item.as_table() else {
            self.wrong(table, "timeouts", "is a table: write [timeouts]".into());
            return default;
        };
        self.unknown(inner, TIMEOUT_KEYS);
        let mut seconds = |key: &str, default: Duration| {
            let number = self.number(inner, key, 1..=604_800);
            number.map_or(default, |number| Duration::from_secs(u64::from(number)))
        };
        Timeouts {
            udp: seconds("udp_sec", default.udp),
            tcp_established: seconds("tcp_established_sec", default.tcp_established),
            tcp_transitory: seconds("tcp_transitory_sec", default.tcp_transitory),
            icmp: seconds("icmp_sec", default.icmp),
            other: seconds("other_sec", default.other),
        }
    }

    fn pools(&mut self, table: &Table) -> Vec<Pool> {
        let Some(item) = table.get("snat_pools") else { return Vec::new() };
        let Some(list) = item.as_array_of_tables() else {
            self.wrong(table, "snat_pools", "is a list of tables: write [[snat_pools]]".into());
            return Vec::new();
        };
        if list.len() > MAX_POOLS {
            self.wrong(table, "snat_pools", format!("more than {MAX_POOLS}"));
        }
        let mut pools: Vec<Pool> = Vec::new();
        for entry in list.iter().take(MAX_POOLS) {
            let Some(pool) = self.pool(entry) else { continue };
            if pools.iter().any(|other| other.addresses.name == pool.addresses.name) {
                let message = format!("a pool \"{}\" stands there already", pool.addresses.name);
                self.wrong(entry, "name", message);
            }
            let mine = pool.addresses.addresses.iter();
            for other in pools.iter().filter(|other| {
                let theirs = &other.addresses.addresses;
                mine.clone().any(|range| theirs.iter().any(|their| overlap(range, their)))
            }) {
                let message = format!("shares an address with pool \"{}\"", other.addresses.name);
                self.wrong(entry, "addresses", message);
            }
            pools.push(pool);
        }
        pools
    }

    fn pool(&mut self, table: &Table) -> Option<Pool> {
        self.unknown(table, POOL_KEYS);
        for key in ["name", "addresses"] {
            if !table.contains_key(key) {
                let line = table.span().map_or(1, |span| line_of(self.text, span.start));
                self.diagnostics.at(line, "[[snat_pools]]", format!("{key} is missing"));
            }
        }
        let name = self.text(table, "name").and_then(|text| {
            let parsed: Result<Name, _> = text.parse();
            parsed.inspect_err(|e| self.wrong(table, "name", format!("\"{text}\": {e}"))).ok()
        });
        let mut addresses = Vec::new();
        for text in self.texts(table, "addresses") {
            match range(&text) {
                Ok(range) => addresses.push(range),
                Err(message) => self.wrong(table, "addresses", format!("\"{text}\": {message}")),
            }
        }
        let count: u128 = addresses.iter().map(count).sum();
        if count > MAX_POOL_ADDRESSES as u128 {
            self.wrong(table, "addresses", format!("more than {MAX_POOL_ADDRESSES} addresses"));
        }
        if addresses.iter().any(|range| range.start().is_ipv4() != addresses[0].start().is_ipv4()) {
            self.wrong(table, "addresses", "are of both families: make two pools".into());
        }
        let ports = self.ports(table, "ports").unwrap_or(1024..=65_535);
        let name = name.filter(|_| !addresses.is_empty() && count <= MAX_POOL_ADDRESSES as u128)?;
        Some(Pool { addresses: SnatPool { name, addresses }, ports })
    }

    fn ports(&mut self, table: &Table, key: &str) -> Option<RangeInclusive<u16>> {
        let text = self.text(table, key)?;
        let parsed = text.split_once('-').and_then(|(first, last)| {
            let range = first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?;
            (*range.start() > 0 && range.start() <= range.end()).then_some(range)
        });
        if parsed.is_none() {
            let message = format!("\"{text}\": write two ports, as in \"16384-65535\"");
            self.wrong(table, key, message);
        }
        parsed
    }

    fn text(&mut self, table: &Table, key: &str) -> Option<String> {
        let item = table.get(key)?;
        let text = item.as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong(table, key, format!("is {}: write a text in quotes", item.type_name()));
        }
        text
    }

    fn texts(&mut self, table: &Table, key: &str) -> Vec<String> {
        let Some(item) = table.get(key) else { return Vec::new() };
        let Some(array) = item.as_array() else {
            let message = format!("is {}: write a list, as in [\"a\", \"b\"]", item.type_name());
            self.wrong(table, key, message);
            return Vec::new();
        };
        let mut texts = Vec::new();
        for value in array {
            match value.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.wrong(table, key, format!("holds {}, not a text", value.type_name())),
            }
        }
        texts
    }

    fn number(&mut self, table: &Table, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let item = table.get(key)?;
        let number = item.as_value().and_then(Value::as_integer);
        let number = number.and_then(|number| u32::try_from(number).ok());
        let inside = number.filter(|number| range.contains(number));
        if inside.is_none() {
            let message = format!("write a number from {} to {}", range.start(), range.end());
            self.wrong(table, key, message);
        }
        inside
    }

    fn unknown(&mut self, table: &Table, known: &[&str]) {
        for (key, item) in table {
            if !known.contains(&key) {
                let line = self.line(table, key, item);
                let message = format!("is no key; the keys are {}", known.join(", "));
                self.diagnostics.at(line, key, message);
            }
        }
    }

    fn wrong(&mut self, table: &Table, key: &str, message: String) {
        let line = table.get(key).map_or(1, |item| self.line(table, key, item));
        self.diagnostics.at(line, key, message);
    }

    fn missing(&mut self, key: &str, message: &str) {
        self.diagnostics.overall(key, format!("is missing: {message}"));
    }

    fn line(&self, table: &Table, key: &str, item: &Item) -> usize {
        let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
        span.map_or(1, |span| line_of(self.text, span.start))
    }
}

/// The line, from 1, of an octet of the text.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|octet| *octet == b'\n').count() + 1
}

/// One address, or two with a minus between them.
fn range(text: &str) -> Result<RangeInclusive<IpAddr>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let parse = |text: &str| config::value::address(text.trim()).map_err(|error| error.to_string());
    let (first, last) = (parse(first)?, parse(last)?);
    if first.is_ipv4() != last.is_ipv4() || first > last {
        return Err("the last address must follow the first, in one family".into());
    }
    for address in [first, last] {
        if !wire::Address::from(address).is_routable() {
            return Err(format!("{address} cannot be the source of a packet"));
        }
    }
    Ok(first..=last)
}

/// How many addresses the range has.
fn count(range: &RangeInclusive<IpAddr>) -> u128 {
    let number = |address: &IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(*address)),
        IpAddr::V6(address) => u128::from(*address),
    };
    (number(range.end()) - number(range.start())).saturating_add(1)
}

fn overlap(a: &RangeInclusive<IpAddr>, b: &RangeInclusive<IpAddr>) -> bool {
    a.start().is_ipv4() == b.start().is_ipv4() && a.start() <= b.end() && b.start() <= a.end()
}
