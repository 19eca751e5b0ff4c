//! The balancer's answers: what to do with the frame, and why it was dropped.

use crate::ip::Damage;
use crate::verdict::drop_reasons;

/// What to do with the frame as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not for us: leave it to the host.
    Pass,
    /// Send it out of the interface that it came in by.
    Transmit,
    /// Send it out of the interface with this index.
    Redirect(u32),
    /// Send it out of the interface that it came in by: the packet was dropped for this reason, and
    /// the frame has become what tells its source.
    Answer(DropReason),
    /// Drop it.
    Drop(DropReason),
}

drop_reasons! {
    /// The packet is shorter than its IP headers say.
    IpTruncated = "ip_truncated",
    /// An IP version that its EtherType does not announce, or an IPv4 header length below 20.
    IpMalformed = "ip_malformed",
    /// The IPv4 header's checksum is wrong.
    IpChecksum = "ip_checksum",
    /// More than eight IPv6 extension headers, or a route of the sender's that does not end here.
    IpExtensions = "ip_extensions",
    /// A fragment of a larger packet.
    Fragment = "fragment",
    /// The TCP, UDP or ICMP header is cut short.
    TransportTruncated = "transport_truncated",
    /// No router may forward from this source: unspecified, loopback, link-local, multicast,
    /// broadcast, class E or IPv4-mapped.
    SourceInvalid = "source_invalid",
    /// The TTL or hop limit ends here.
    TtlExpired = "ttl_expired",
    /// Larger than the way ahead allows.
    TooBig = "too_big",
    /// To a virtual address, but no service has this port and protocol.
    NoService = "no_service",
    /// The service has no backend that may take a new flow.
    NoBackend = "no_backend",
    /// Of no session where only a session tells the way: to an address that we translate from, or
    /// in the middle of a TCP connection.
    NoSession = "no_session",
    /// Of a session whose backend is gone, and which is to be reset.
    SessionReset = "session_reset",
    /// Every record of the session table is in use.
    SessionsExhausted = "sessions_exhausted",
    /// As many half-open TCP sessions as are allowed.
    HalfOpenExhausted = "half_open_exhausted",
    /// Both places where the session could be indexed are full.
    IndexFull = "index_full",
    /// Every tried port of the translation addresses is in use towards this backend.
    SnatExhausted = "snat_exhausted",
    /// Two packets of one new flow met on two processors.
    SessionRace = "session_race",
    /// The routing table says to drop it (blackhole).
    RouteBlackhole = "route_blackhole",
    /// The routing table says that the destination is unreachable.
    RouteUnreachable = "route_unreachable",
    /// The routing table forbids it.
    RouteProhibited = "route_prohibited",
    /// No route, or one that ends on this host.
    RouteNotForwarded = "route_not_forwarded",
    /// Forwarding is switched off on the interface.
    ForwardingDisabled = "forwarding_disabled",
    /// The route needs an encapsulation that is not done here.
    RouteUnsupported = "route_unsupported",
    /// The Ethernet address of the next hop is not known yet.
    NoNeighbour = "no_neighbour",
    /// An ICMP error whose quote is too short to name a flow.
    ErrorTruncated = "error_truncated",
    /// An ICMP error about no session of ours.
    ErrorUnknown = "error_unknown",
    /// No room to grow the packet.
    NoHeadroom = "no_headroom",
    /// The program's own tables contradict each other.
    Internal = "internal",
}

impl From<Damage> for DropReason {
    fn from(damage: Damage) -> Self {
        match damage {
            Damage::Truncated => Self::IpTruncated,
            Damage::Malformed => Self::IpMalformed,
            Damage::Checksum => Self::IpChecksum,
            Damage::Fragment => Self::Fragment,
            Damage::Extensions => Self::IpExtensions,
        }
    }
}
