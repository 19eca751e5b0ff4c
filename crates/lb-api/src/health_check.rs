//! How a mapping's backends are checked. Never defaulted: whether backends are checked at all is
//! for the operator to say.

use crate::decode::{Fields, Value};
use crate::error::Error;
use crate::limits::{MAX_HTTP_HOST_BYTES, MAX_HTTP_PATH_BYTES};
use crate::natlb::Backend;
use crate::problem::Read;
use health::Policy;
use serde::{Serialize, Serializer};
use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};
use std::str::FromStr;
use std::time::Duration;

/// Whether and how backends are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthCheck {
    /// No probe: all backends count as alive.
    Disabled,
    /// Probes decide.
    Enabled(Check),
}

/// The probes of a mapping's backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is asked of a backend.
    pub probe: Probe,
    /// The port that is probed instead of each backend's own; never set for ICMP.
    pub port: Option<NonZeroU16>,
    /// When, and how many results in a row decide.
    pub policy: Policy,
    /// Whether backends count as alive when none of them gives an answer of any kind.
    pub fail_open: bool,
}

/// What is asked of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A full handshake.
    Tcp,
    /// A request whose status is compared.
    Http(Request),
    /// The same over TLS.
    Https(Request),
    /// An echo.
    Icmp,
}

/// The request of an HTTP check, and the answer that counts as success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The path with its query.
    pub path: HttpPath,
    /// The Host header, if it is not the backend's address.
    pub host: Option<HttpHost>,
    /// The status that counts as success.
    pub expected_status: HttpStatus,
}

/// The path of a request (RFC 9112 3.2.1): begins with `/`, visible ASCII, no fragment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct HttpPath(String);

impl fmt::Display for HttpPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of a Host header (RFC 9110 7.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct HttpHost(String);

impl fmt::Display for HttpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A status of HTTP, 100..=599 (RFC 9110 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct HttpStatus(u16);

/// The default of each optional field.
pub mod default {
    /// `httpPath`.
    pub const HTTP_PATH: &str = "/";
    /// `httpExpectedStatus`.
    pub const HTTP_EXPECTED_STATUS: u16 = 200;
    /// `intervalMs`.
    pub const INTERVAL_MS: u32 = 5_000;
    /// `timeoutMs`; a shorter interval shortens it.
    pub const TIMEOUT_MS: u32 = 2_000;
    /// `healthyThreshold`.
    pub const HEALTHY_THRESHOLD: u32 = 2;
    /// `unhealthyThreshold`.
    pub const UNHEALTHY_THRESHOLD: u32 = 3;
}

/// The longest `intervalMs`, as [`health::MAX_INTERVAL`].
const MAX_INTERVAL_MS: u32 = 3_600_000;
/// The shortest `intervalMs`, as [`health::MIN_INTERVAL`].
const MIN_INTERVAL_MS: u32 = 10;
/// The largest threshold.
const MAX_THRESHOLD: u32 = 100;

const TYPES: &str = "DISABLED, TCP, HTTP, HTTPS or ICMP";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Disabled,
    Tcp,
    Http,
    Https,
    Icmp,
}

// === impl HealthCheck ===

impl HealthCheck {
    pub(crate) fn read(spec: &Fields<'_>) -> Read<Self> {
        let remedy = format!("there is no default: add healthCheck with type {TYPES}");
        let value = spec.required("healthCheck", &remedy)?;
        let known = [
            "type",
            "port",
            "httpPath",
            "httpExpectedStatus",
            "httpHost",
            "intervalMs",
            "timeoutMs",
            "healthyThreshold",
            "unhealthyThreshold",
            "failOpen",
        ];
        let fields = value.fields(&known, &[])?;
        let remedy = format!("there is no default: add type: {TYPES}");
        let kind = fields.required("type", &remedy).and_then(Type::read);
        if let Ok(kind) = kind {
            kind.refuse_useless(&fields);
        }
        let port = fields.optional("port", |value| value.whole(NonZeroU16::MIN.get()..=u16::MAX));
        let request = Request::read(&fields);
        let policy = policy(&fields);
        let fail_open = fields.or("failOpen", false, Value::truth);
        let (kind, port, request) = (kind?, port?.and_then(NonZeroU16::new), request?);
        let (policy, fail_open) = (policy?, fail_open?);
        let probe = match kind {
            Type::Disabled => return Ok(Self::Disabled),
            Type::Tcp => Probe::Tcp,
            Type::Http => Probe::Http(request),
            Type::Https => Probe::Https(request),
            Type::Icmp => Probe::Icmp,
        };
        Ok(Self::Enabled(Check { probe, port, policy, fail_open }))
    }
}

impl Check {
    /// The port to probe on `backend`: `None` for ICMP, which has none.
    #[must_use]
    pub fn port_of(&self, backend: &Backend) -> Option<NonZeroU16> {
        match self.probe {
            Probe::Tcp | Probe::Http(_) | Probe::Https(_) => self.port.or(backend.port),
            Probe::Icmp => None,
        }
    }
}

fn policy(fields: &Fields<'_>) -> Read<Policy> {
    let interval = fields.or("intervalMs", default::INTERVAL_MS, |value| {
        value.whole(MIN_INTERVAL_MS..=MAX_INTERVAL_MS)
    });
    let longest = interval.unwrap_or(MAX_INTERVAL_MS);
    let timeout = fields.or("timeoutMs", default::TIMEOUT_MS.min(longest), |value| {
        let timeout = value.whole(1..=MAX_INTERVAL_MS)?;
        if timeout > longest {
            return Err(value.refuse(format!(
                "{timeout} is longer than intervalMs, {longest}: shorten it, or check less often"
            )));
        }
        Ok(timeout)
    });
    let threshold = |name, default| {
        let number = fields.or(name, default, |value| value.whole(1..=MAX_THRESHOLD))?;
        Ok(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
    };
    let rise = threshold("healthyThreshold", default::HEALTHY_THRESHOLD);
    let fall = threshold("unhealthyThreshold", default::UNHEALTHY_THRESHOLD);
    let ms = |ms: u32| Duration::from_millis(ms.into());
    Ok(Policy { interval: ms(interval?), timeout: ms(timeout?), rise: rise?, fall: fall? })
}

// === impl Type ===

impl Type {
    fn read(value: &Value<'_>) -> Read<Self> {
        let types = [
            ("DISABLED", Self::Disabled),
            ("TCP", Self::Tcp),
            ("HTTP", Self::Http),
            ("HTTPS", Self::Https),
            ("ICMP", Self::Icmp),
        ];
        // What generated clients send for a field that nobody set.
        let unset = value.is_nothing()
            || value.word(TYPES)? == "0"
            || value.word(TYPES)?.to_ascii_uppercase().ends_with("UNSPECIFIED");
        if unset {
            return Err(value.refuse(format!("says nothing: there is no default, must be {TYPES}")));
        }
        value.choice(&types, TYPES)
    }

    fn refuse_useless(self, fields: &Fields<'_>) {
        let http = ["httpPath", "httpExpectedStatus", "httpHost"];
        let schedule =
            ["intervalMs", "timeoutMs", "healthyThreshold", "unhealthyThreshold", "failOpen"];
        let useless = match self {
            Self::Disabled => [&["port"], &http[..], &schedule].concat(),
            Self::Icmp => [&["port"], &http[..]].concat(),
            Self::Tcp => http.to_vec(),
            Self::Http | Self::Https => vec![],
        };
        for value in useless.into_iter().filter_map(|name| fields.get(name)) {
            value.refuse(format!("has no effect with type {}: remove it", self.name()));
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Disabled => "DISABLED",
            Self::Tcp => "TCP",
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::Icmp => "ICMP",
        }
    }
}

// === impl Request ===

impl Request {
    fn read(fields: &Fields<'_>) -> Read<Self> {
        let path = fields.or("httpPath", HttpPath::root(), Value::parsed_text);
        let host = fields.optional("httpHost", Value::parsed_text);
        let status = fields.or("httpExpectedStatus", default::HTTP_EXPECTED_STATUS, |value| {
            value.whole(HttpStatus::MIN..=HttpStatus::MAX)
        });
        Ok(Self { path: path?, host: host?, expected_status: HttpStatus(status?) })
    }
}

impl HttpPath {
    fn root() -> Self {
        Self(default::HTTP_PATH.to_owned())
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HttpPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let visible = |octet: u8| octet.is_ascii_graphic() && octet != b'#';
        let good =
            text.len() <= MAX_HTTP_PATH_BYTES && text.starts_with('/') && text.bytes().all(visible);
        if good { Ok(Self(text.to_owned())) } else { Err(Error::HttpPath) }
    }
}

impl HttpHost {
    /// The value as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HttpHost {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (text, "80"),
        };
        let host_is_good = match host.strip_prefix('[') {
            Some(rest) => {
                rest.strip_suffix(']').is_some_and(|v6| v6.parse::<std::net::Ipv6Addr>().is_ok())
            }
            None => {
                let inner = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
                !host.is_empty() && host.bytes().all(inner)
            }
        };
        let port_is_good =
            port.bytes().all(|octet| octet.is_ascii_digit()) && port.parse::<NonZeroU16>().is_ok();
        let good = text.len() <= MAX_HTTP_HOST_BYTES && host_is_good && port_is_good;
        if good { Ok(Self(text.to_owned())) } else { Err(Error::HttpHost) }
    }
}

impl HttpStatus {
    const MIN: u16 = 100;
    const MAX: u16 = 599;

    /// `None` outside of 100..=599.
    #[must_use]
    pub fn new(status: u16) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&status).then_some(Self(status))
    }

    /// The status as a number.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0
    }
}

// === impl Serialize ===

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<NonZeroU16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_path: Option<&'a HttpPath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_host: Option<&'a HttpHost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_expected_status: Option<HttpStatus>,
    #[serde(flatten)]
    schedule: Option<Schedule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Schedule {
    interval_ms: u128,
    timeout_ms: u128,
    healthy_threshold: NonZeroU32,
    unhealthy_threshold: NonZeroU32,
    fail_open: bool,
}

impl Serialize for HealthCheck {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self::Enabled(check) = self else {
            let disabled = Written { r#type: Type::Disabled.name(), ..Written::default() };
            return disabled.serialize(serializer);
        };
        let (kind, request) = match &check.probe {
            Probe::Tcp => (Type::Tcp, None),
            Probe::Http(request) => (Type::Http, Some(request)),
            Probe::Https(request) => (Type::Https, Some(request)),
            Probe::Icmp => (Type::Icmp, None),
        };
        let policy = &check.policy;
        let written = Written {
            r#type: kind.name(),
            port: check.port,
            http_path: request.map(|request| &request.path),
            http_host: request.and_then(|request| request.host.as_ref()),
            http_expected_status: request.map(|request| request.expected_status),
            schedule: Some(Schedule {
                interval_ms: policy.interval.as_millis(),
                timeout_ms: policy.timeout.as_millis(),
                healthy_threshold: policy.rise,
                unhealthy_threshold: policy.fall,
                fail_open: check.fail_open,
            }),
        };
        written.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_stays_within_what_the_machine_accepts() {
        assert_eq!(u128::from(MIN_INTERVAL_MS), health::MIN_INTERVAL.as_millis());
        assert_eq!(u128::from(MAX_INTERVAL_MS), health::MAX_INTERVAL.as_millis());
    }

    #[test]
    fn paths_and_hosts_are_what_a_request_can_carry() {
        let longest = format!("/{}", "a".repeat(MAX_HTTP_PATH_BYTES - 1));
        for path in ["/", "/healthz", "/a?b=c&d=%20", &longest] {
            assert_eq!(path.parse::<HttpPath>().unwrap().as_str(), path);
        }
        let too_long = format!("{longest}a");
        for path in ["", "healthz", "/a b", "/a#b", "/ä", "/a\r\nX: y", &too_long] {
            assert_eq!(path.parse::<HttpPath>(), Err(Error::HttpPath), "{path}");
        }
        let longest = "a".repeat(MAX_HTTP_HOST_BYTES);
        for host in ["web", "web.example:8443", "192.0.2.1", "[2001:db8::1]", "[::1]:80", &longest]
        {
            assert_eq!(host.parse::<HttpHost>().unwrap().as_str(), host);
        }
        let too_long = format!("{longest}a");
        for host in [
            "",
            ":80",
            "web:",
            "web:0",
            "web:65536",
            "web:+1",
            "a b",
            "a/b",
            "[web]",
            "[::1",
            "2001:db8::1",
            "web\r\nX: y",
            &too_long,
        ] {
            assert_eq!(host.parse::<HttpHost>(), Err(Error::HttpHost), "{host}");
        }
        assert_eq!([99, 600].map(HttpStatus::new), [None, None]);
        assert_eq!([100, 599].map(|s| HttpStatus::new(s).unwrap().get()), [100, 599]);
    }
}
