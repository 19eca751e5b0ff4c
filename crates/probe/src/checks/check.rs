//! What a check is: whom it asks, what it asks, and which answer it wants.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use health::Policy;
use rustls::pki_types::ServerName;

use crate::Error;

/// The longest path of an HTTP check. nginx and Apache refuse request lines over 8 KiB; a health
/// check needs far less.
pub const MAX_PATH_BYTES: usize = 2048;

/// The longest host: a name of 253 characters (RFC 1035 2.3.4), a colon and a port.
pub const MAX_HOST_BYTES: usize = 259;

/// The caller's name for one check, stable from one set of checks to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckId(pub u64);

/// One check of one backend.
///
/// Checks that are equal share their probes and their state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Check {
    /// The backend.
    pub address: IpAddr,
    /// The port to connect to; without meaning for [`Kind::Icmp`].
    pub port: u16,
    /// What is asked.
    pub kind: Kind,
    /// How often, and what decides.
    pub policy: Policy,
}

/// What a probe does and when it succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A TCP handshake, at once reset.
    Tcp,
    /// An HTTP/1.1 request; the response's status decides. Redirects are not followed.
    Http(Http),
    /// The same over TLS 1.2 or 1.3. The certificate is not judged.
    Https(Http),
    /// An ICMP echo request and its reply.
    Icmp,
}

/// The request of an HTTP check and the status it wants. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Http {
    path: Arc<str>,
    host: Option<Arc<str>>,
    status: u16,
}

impl Check {
    /// Where connections go.
    pub(super) fn socket_address(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// Whether the other check asks the same backend the same, on whatever schedule.
    pub(super) fn asks_the_same(&self, other: &Self) -> bool {
        (self.address, self.port, &self.kind) == (other.address, other.port, &other.kind)
    }
}

impl Http {
    /// A `GET` of `path`, sent with `Host: host` (address:port if `None`), that succeeds with
    /// exactly this status.
    ///
    /// # Errors
    /// A path that is not `/` and printable ASCII, a host that is neither a DNS name nor an address
    /// (IPv6 in brackets), with or without a port, a status outside 200..=599 (a 1xx is never the
    /// last response, RFC 9110 15.2).
    pub fn new(path: &str, host: Option<&str>, status: u16) -> Result<Self, Error> {
        let printable = path.bytes().all(|byte| byte.is_ascii_graphic());
        if !path.starts_with('/') || !printable || path.len() > MAX_PATH_BYTES {
            return Err(Error::Path(path.to_owned()));
        }
        if let Some(host) = host
            && (host.len() > MAX_HOST_BYTES || name_of(host).is_none())
        {
            return Err(Error::Host(host.to_owned()));
        }
        if !(200..=599).contains(&status) {
            return Err(Error::Status(status));
        }
        Ok(Self { path: path.into(), host: host.map(Into::into), status })
    }

    /// The status that means success.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The whole request (RFC 9112 3, RFC 9110 7.2).
    pub(super) fn request(&self, to: SocketAddr) -> Vec<u8> {
        let host: &dyn fmt::Display = match &self.host {
            Some(host) => host,
            None => &to,
        };
        let (path, version) = (&self.path, env!("CARGO_PKG_VERSION"));
        format!(
            "GET {path} HTTP/1.1\r\n\
             Host: {host}\r\n\
             User-Agent: castellum/{version}\r\n\
             Accept: */*\r\n\
             Connection: close\r\n\
             \r\n"
        )
        .into_bytes()
    }

    /// Whom a TLS handshake asks for: the host. SNI is sent for names only (RFC 6066 3).
    pub(super) fn server_name(&self, to: SocketAddr) -> ServerName<'static> {
        let named = self.host.as_deref().and_then(name_of);
        named.map_or_else(|| to.ip().into(), |name| name.to_owned())
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name or address of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn name_of(host: &str) -> Option<ServerName<'_>> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = rest.strip_prefix(':').map_or(rest.is_empty(), is_port);
    let name = ServerName::try_from(name).ok()?;
    let in_brackets = host.starts_with('[');
    let is_v6 = matches!(name, ServerName::IpAddress(rustls::pki_types::IpAddr::V6(_)));
    (port && in_brackets == is_v6).then_some(name)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_host_or_status_that_would_break_the_request_is_refused() {
        let long_path = format!("/{}", "x".repeat(MAX_PATH_BYTES));
        for path in ["", "healthz", "/a b", "/a\r\nX: y", "/\u{e9}", "/\0", &long_path] {
            assert!(matches!(Http::new(path, None, 200), Err(Error::Path(_))), "{path:?}");
        }
        let long_host = format!("{}:443", ["a".repeat(63).as_str(); 5].join("."));
        for host in [
            "",
            " ",
            "a b",
            "a\r\nX: y",
            "user@a",
            "a/b",
            "a:",
            "a:x",
            "a:65536",
            "a:+1",
            "::1",
            "[::1",
            "[a]",
            "[10.0.0.1]",
            "[::1]x",
            "[::1]:",
            &long_host,
        ] {
            assert!(matches!(Http::new("/", Some(host), 200), Err(Error::Host(_))), "{host:?}");
        }
        for status in [0, 99, 100, 199, 600, u16::MAX] {
            assert!(matches!(Http::new("/", None, status), Err(Error::Status(_))), "{status}");
        }
        assert!(Http::new(&long_path[..MAX_PATH_BYTES], None, 200).is_ok(), "the longest path");
    }

    #[test]
    fn request_names_the_host_or_the_address_and_port() {
        let v4 = SocketAddr::from(([10, 0, 0, 1], 8443));
        let v6 = "[fd00::1]:80".parse().unwrap();
        for (host, to, expected) in [
            (None, v4, "10.0.0.1:8443"),
            (None, v6, "[fd00::1]:80"),
            (Some("www.example.com"), v4, "www.example.com"),
            (Some("www.example.com:8443"), v4, "www.example.com:8443"),
            (Some("[fd00::2]:8443"), v6, "[fd00::2]:8443"),
        ] {
            let request = Http::new("/healthz?full=1", host, 204).unwrap().request(to);
            let version = env!("CARGO_PKG_VERSION");
            let expected = format!(
                "GET /healthz?full=1 HTTP/1.1\r\nHost: {expected}\r\nUser-Agent: \
                 castellum/{version}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
            );
            assert_eq!(String::from_utf8(request).unwrap(), expected);
        }
    }

    #[test]
    fn tls_asks_for_the_host_and_else_for_the_address() {
        let to = SocketAddr::from(([10, 0, 0, 1], 443));
        for (host, expected) in [
            (None, "10.0.0.1"),
            (Some("10.0.0.9:443"), "10.0.0.9"),
            (Some("[fd00::2]:443"), "fd00::2"),
            (Some("www.example.com:443"), "www.example.com"),
        ] {
            let name = Http::new("/", host, 200).unwrap().server_name(to);
            assert_eq!(name.to_str(), expected);
        }
    }
}
