//! The configuration file: `key=value` lines to a validated [`Config`], every error at once.
//!
//! The manual page gredist(8) lists the keys; `tests/manual.rs` holds the two together.

mod checks;
mod parse;

use balance::rendezvous::Weight;
use config::diagnostics::Diagnostics;
use config::keyvalue::{self, Entry};
use config::value;
use health::Policy;
use ipnet::IpNet;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// Backends of one frontend.
pub const MAX_BACKENDS: usize = 4_096;
/// Addresses of the pool.
pub const MAX_POOL: usize = 4_096;
/// Prefixes of the pool: each is a part of the filter of a socket.
pub const MAX_POOL_PREFIXES: usize = 256;
/// Checks a second, of all backends together: more is a flood.
pub const MAX_CHECKS_PER_SECOND: usize = 20_000;
/// Clients that can be recorded behind the pool.
pub const MAX_CLIENTS: usize = 1 << 20;
/// How long a recorded client may be silent.
pub const CLIENT_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(86_400);
/// The largest queue that can be asked for, in octets.
pub const MAX_QUEUE_BYTES: u64 = 1 << 30;

/// A validated configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The address that clients send to.
    pub frontend: IpAddr,
    /// The backends, sorted by address.
    pub backends: Vec<BackendConfig>,
    /// How backends are checked.
    pub policy: Policy,
    /// The bits of the key that choose the backend.
    pub key_mask: u32,
    /// For IPv6 backends behind an IPv4 frontend: the /96 that embeds clients.
    pub prefix: Option<IpNet>,
    /// For IPv4 backends behind an IPv6 frontend: addresses that stand for clients.
    pub pool: Vec<IpNet>,
    /// How long a recorded client may be silent.
    pub client_timeout: Duration,
    /// Clients recorded at once.
    pub client_limit: usize,
    /// Octets of each receiving socket's queue.
    pub receive_queue: usize,
    /// Octets of each sending socket's queue.
    pub send_queue: usize,
    /// ICMP errors per second: answers, and separately those sent to every backend.
    pub error_rate: u32,
    /// Where `/metrics` and the like are served.
    pub ops: Option<SocketAddr>,
}

/// One backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackendConfig {
    /// Its address, which is also its name.
    pub address: IpAddr,
    /// Its share of the flows.
    pub weight: Weight,
}

/// The default of each optional key.
pub mod default {
    use std::time::Duration;
    /// `client_timeout`.
    pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(300);
    /// `client_limit`.
    pub const CLIENT_LIMIT: usize = 65_536;
    /// `receive_queue`.
    pub const RECEIVE_QUEUE_BYTES: usize = 4 << 20;
    /// `send_queue`.
    pub const SEND_QUEUE_BYTES: usize = 4 << 20;
    /// `error_rate`.
    pub const ERROR_RATE: u32 = 100;
}

impl Config {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, Diagnostics> {
        let mut diagnostics = Diagnostics::new(path.display().to_string());
        let entries = keyvalue::read(path, &mut diagnostics);
        if entries.is_empty() && !diagnostics.is_empty() {
            // Of a file that cannot be read nothing is known to be missing.
            return Err(diagnostics);
        }
        Self::from_entries(&entries, diagnostics)
    }

    /// Validates a text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Self, Diagnostics> {
        let mut diagnostics = Diagnostics::new(name);
        let entries = keyvalue::parse(text.as_bytes(), &mut diagnostics);
        Self::from_entries(&entries, diagnostics)
    }

    /// Whether some backend is of the other family than the frontend.
    pub fn is_mixed(&self) -> bool {
        self.backends.iter().any(|backend| backend.address.is_ipv4() != self.frontend.is_ipv4())
    }

    fn from_entries(entries: &[Entry], mut diagnostics: Diagnostics) -> Result<Self, Diagnostics> {
        let mut draft = Draft::default();
        for entry in entries {
            draft.take(entry, &mut diagnostics);
        }
        match draft.finish(&mut diagnostics) {
            Some(config) => diagnostics.into_result(config),
            None => Err(diagnostics),
        }
    }
}

/// A value with the entry that set it.
type Set<'a, T> = Option<(&'a Entry, T)>;

/// What the lines said so far.
#[derive(Default)]
struct Draft<'a> {
    frontend: Set<'a, IpAddr>,
    backends: Vec<(&'a Entry, BackendConfig)>,
    check_interval: Set<'a, Duration>,
    check_timeout: Set<'a, Duration>,
    check_fall: Set<'a, u32>,
    check_rise: Set<'a, u32>,
    key_mask: Set<'a, u32>,
    prefix: Set<'a, IpNet>,
    pool: Vec<(&'a Entry, IpNet)>,
    client_timeout: Set<'a, Duration>,
    client_limit: Set<'a, usize>,
    receive_queue: Set<'a, u64>,
    send_queue: Set<'a, u64>,
    error_rate: Set<'a, u32>,
    ops: Set<'a, SocketAddr>,
    /// A line was refused for its value, so that its key is not missing.
    frontend_refused: bool,
    backend_refused: bool,
    returns_refused: bool,
}

/// Every key, for the message about an unknown one.
pub const KEYS: &[&str] = &[
    "frontend",
    "backend",
    "check_interval",
    "check_timeout",
    "check_fall",
    "check_rise",
    "key_mask",
    "prefix",
    "pool",
    "client_timeout",
    "client_limit",
    "receive_queue",
    "send_queue",
    "error_rate",
    "ops",
];

impl<'a> Draft<'a> {
    fn take(&mut self, entry: &'a Entry, diagnostics: &mut Diagnostics) {
        let d = diagnostics;
        match entry.key.as_str() {
            "frontend" => {
                let set = once(&mut self.frontend, entry, d, parse::address);
                self.frontend_refused |= !set;
            }
            "backend" => match entry.parse(parse::backend, d) {
                Some(backend) => self.backends.push((entry, backend)),
                None => self.backend_refused = true,
            },
            "check_interval" => drop(once(&mut self.check_interval, entry, d, value::duration)),
            "check_timeout" => drop(once(&mut self.check_timeout, entry, d, value::duration)),
            "check_fall" => drop(once(&mut self.check_fall, entry, d, parse::threshold)),
            "check_rise" => drop(once(&mut self.check_rise, entry, d, parse::threshold)),
            "key_mask" => drop(once(&mut self.key_mask, entry, d, value::hex_or_decimal)),
            "prefix" => {
                let set = once(&mut self.prefix, entry, d, value::prefix);
                self.returns_refused |= !set;
            }
            "pool" => match entry.parse(value::prefix, d) {
                Some(pool) => self.pool.push((entry, pool)),
                None => self.returns_refused = true,
            },
            "client_timeout" => drop(once(&mut self.client_timeout, entry, d, value::duration)),
            "client_limit" => drop(once(&mut self.client_limit, entry, d, |text| {
                value::unsigned(text, 1..=MAX_CLIENTS)
            })),
            "receive_queue" => drop(once(&mut self.receive_queue, entry, d, value::size)),
            "send_queue" => drop(once(&mut self.send_queue, entry, d, value::size)),
            "error_rate" => drop(once(&mut self.error_rate, entry, d, |text| {
                value::unsigned(text, 0..=1_000_000)
            })),
            "ops" => drop(once(&mut self.ops, entry, d, value::socket_address)),
            unknown => entry.report(parse::unknown_key(unknown), d),
        }
    }

    fn finish(self, diagnostics: &mut Diagnostics) -> Option<Config> {
        self.check_presence(diagnostics);
        self.check_addresses(diagnostics);
        self.check_families(diagnostics);
        self.check_queues(diagnostics);
        let policy = self.policy(diagnostics);
        let mut backends: Vec<_> = self.backends.iter().map(|(_, backend)| *backend).collect();
        backends.sort_unstable();
        Some(Config {
            frontend: self.frontend?.1,
            backends,
            policy,
            key_mask: or(self.key_mask, u32::MAX),
            prefix: self.prefix.map(|(_, prefix)| prefix),
            pool: self.pool.iter().map(|(_, pool)| *pool).collect(),
            client_timeout: or(self.client_timeout, default::CLIENT_TIMEOUT),
            client_limit: or(self.client_limit, default::CLIENT_LIMIT),
            receive_queue: bytes(self.receive_queue, default::RECEIVE_QUEUE_BYTES),
            send_queue: bytes(self.send_queue, default::SEND_QUEUE_BYTES),
            error_rate: or(self.error_rate, default::ERROR_RATE),
            ops: self.ops.map(|(_, ops)| ops),
        })
    }

    fn check_presence(&self, diagnostics: &mut Diagnostics) {
        if self.frontend.is_none() && !self.frontend_refused {
            diagnostics.overall("frontend", "missing: add frontend=ADDRESS, where clients send to");
        }
        if self.backends.is_empty() && !self.backend_refused {
            diagnostics.overall("backend", "missing: add at least one backend=ADDRESS");
        }
        if let Some((entry, _)) = self.backends.get(MAX_BACKENDS) {
            entry.report(format!("more than {MAX_BACKENDS} backends"), diagnostics);
        }
    }

    fn check_queues(&self, diagnostics: &mut Diagnostics) {
        for (entry, size) in [self.receive_queue, self.send_queue].into_iter().flatten() {
            if !(4_096..=MAX_QUEUE_BYTES).contains(&size) {
                entry.report("must be 4KiB to 1GiB", diagnostics);
            }
        }
        if let Some((entry, timeout)) = self.client_timeout
            && !CLIENT_TIMEOUT.contains(&timeout)
        {
            entry.report("must be 1s to 24h", diagnostics);
        }
    }

    fn policy(&self, diagnostics: &mut Diagnostics) -> Policy {
        let standard = Policy::default();
        let count = |set: Set<'_, u32>, standard| {
            set.and_then(|(_, n)| NonZeroU32::new(n)).unwrap_or(standard)
        };
        let interval = or(self.check_interval, standard.interval);
        let policy = Policy {
            interval,
            // A shorter interval alone shortens the default timeout with it.
            timeout: or(self.check_timeout, standard.timeout.min(interval)),
            fall: count(self.check_fall, standard.fall),
            rise: count(self.check_rise, standard.rise),
        };
        if let Err(error) = policy.validate() {
            let about_interval = matches!(
                error,
                health::Error::IntervalTooShort(_) | health::Error::IntervalTooLong(_)
            );
            let set = if about_interval { self.check_interval } else { self.check_timeout };
            match set.or(self.check_interval) {
                Some((entry, _)) => entry.report(error.to_string(), diagnostics),
                None => diagnostics.overall("check", error.to_string()),
            }
        }
        let checks = self.backends.len() as f64 / interval.as_secs_f64();
        if checks > MAX_CHECKS_PER_SECOND as f64
            && let Some((entry, _)) = self.check_interval
        {
            let message = format!(
                "{} backends make {checks:.0} checks a second, more than {MAX_CHECKS_PER_SECOND}: \
                 use a longer interval",
                self.backends.len()
            );
            entry.report(message, diagnostics);
        }
        policy
    }
}

/// Sets a key that may stand once. Returns whether it is set.
fn once<'a, T, E: Display>(
    set: &mut Set<'a, T>,
    entry: &'a Entry,
    diagnostics: &mut Diagnostics,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> bool {
    if let Some((first, _)) = set {
        let message =
            format!("{} is already set in line {}: remove one of the two", entry.key, first.line);
        entry.report(message, diagnostics);
        return true;
    }
    if let Some(value) = entry.parse(parse, diagnostics) {
        *set = Some((entry, value));
    }
    set.is_some()
}

fn or<T>(set: Set<'_, T>, default: T) -> T {
    set.map_or(default, |(_, value)| value)
}

fn bytes(set: Set<'_, u64>, default: usize) -> usize {
    set.and_then(|(_, bytes)| usize::try_from(bytes).ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests;
