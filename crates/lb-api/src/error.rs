//! Why a value is refused.

use crate::limits::{MAX_HTTP_HOST_BYTES, MAX_HTTP_PATH_BYTES, MAX_NAME_CHARS};
use std::net::Ipv4Addr;

/// Why a value is refused; its text is the message for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a DNS label.
    #[error(
        "must be 1 to {MAX_NAME_CHARS} of a-z, 0-9 and hyphens, with a letter or digit at each end"
    )]
    Name,
    /// Not an IP address.
    #[error("not an IPv4 or IPv6 address: write it without port, brackets and prefix length")]
    Address,
    /// An IPv4 address in IPv6 notation.
    #[error("an IPv4 address in IPv6 notation: write {0}")]
    MappedAddress(Ipv4Addr),
    /// An address that no router may forward to.
    #[error("{0}: must be a unicast address that routers forward to")]
    NotRoutable(&'static str),
    /// Not the path of a URL.
    #[error(
        "must begin with / and be at most {MAX_HTTP_PATH_BYTES} visible ASCII characters without \
         #: write others as %20 and the like"
    )]
    HttpPath,
    /// Not the value of a Host header.
    #[error(
        "must be a host name or address with or without a port, at most {MAX_HTTP_HOST_BYTES} \
         characters"
    )]
    HttpHost,
}
