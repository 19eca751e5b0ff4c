//! The packet core's answers: what to do with the frame, and why it was dropped.

use crate::ip::Damage;

/// What to do with the frame as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it to its destination address: it belongs to this backend's flow.
    ToBackend(u16),
    /// Send it to its destination address: a reply of this backend on its way to the client.
    ToClient(u16),
    /// Send it to its destination address: the packet was dropped for this reason, and the frame
    /// has become the ICMP error that tells the packet's source.
    Answer(DropReason),
    /// Hand a copy to every backend with [`crate::gre::error_to`]: an ICMP error whose quote ends
    /// before the key.
    Everyone,
    /// Not for us: leave it to the host.
    Pass,
    /// Drop it.
    Drop(DropReason),
}

/// The reasons of one tier, each with its name in logs and metrics.
macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why a packet was dropped. Each reason has a counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// Every reason, in the order of the counters.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The reason's name in logs and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// What the reason means, in a sentence for operators.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii()),+ }
            }

            /// The place of the reason's counter.
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

pub(crate) use drop_reasons;

drop_reasons! {
    /// The packet is shorter than its IP headers say.
    OuterTruncated = "outer_truncated",
    /// Neither IPv4 nor IPv6, or an IPv4 header length below 20.
    OuterMalformed = "outer_malformed",
    /// The IPv4 header's checksum is wrong.
    OuterChecksum = "outer_checksum",
    /// A fragment of a larger packet, or reassembled from fragments before it came here.
    OuterFragment = "outer_fragment",
    /// More than eight IPv6 extension headers, or a route of the sender's that does not end here
    /// (IPv6 routing header, IPv4 source route).
    OuterExtensions = "outer_extensions",
    /// No router may forward from this source: unspecified, loopback, link-local, multicast,
    /// broadcast, class E, IPv4-mapped, or the frontend itself.
    SourceInvalid = "source_invalid",
    /// The TTL or hop limit ends here.
    TtlExpired = "ttl_expired",
    /// The GRE header is cut short.
    GreTruncated = "gre_truncated",
    /// GRE version other than 0.
    GreVersion = "gre_version",
    /// GRE routing bit (bit 1, RFC 1701).
    GreRouting = "gre_routing",
    /// GRE strict source route bit (bit 4, RFC 1701).
    GreStrictSourceRoute = "gre_strict_source_route",
    /// GRE recursion control (bit 5, RFC 1701).
    GreRecursion = "gre_recursion",
    /// No backend is healthy.
    NoHealthyBackend = "no_healthy_backend",
    /// No route to the destination.
    NoRoute = "no_route",
    /// Larger than the path to the destination allows, and not to be fragmented.
    TooBig = "too_big",
    /// An IPv6 client's flow without a key cannot go to an IPv4 backend.
    KeyRequired = "key_required",
    /// Every pool address is taken for this key, or the table of clients is full.
    PoolExhausted = "pool_exhausted",
    /// A packet to a return address from one that is not a backend.
    BackendUnknown = "backend_unknown",
    /// A reply to a return address that names no client.
    ClientUnknown = "client_unknown",
    /// An ICMP error whose quote is too short to name a flow.
    ErrorTruncated = "error_truncated",
    /// An ICMP error whose checksum is wrong, which translation would hide.
    ErrorChecksum = "error_checksum",
    /// An ICMP error of a kind that the other family does not have.
    ErrorUntranslatable = "error_untranslatable",
    /// An ICMP error for every backend, beyond the rate limit.
    ErrorRateLimited = "error_rate_limited",
    /// No room to grow the packet's header.
    NoHeadroom = "no_headroom",
    /// The receive queue of the socket was full.
    ReceiveQueueFull = "receive_queue_full",
    /// Larger than the receive buffer.
    ReceiveOversize = "receive_oversize",
    /// The send queue of the socket or device was full.
    SendQueueFull = "send_queue_full",
    /// The host's packet filter refused it.
    SendRefused = "send_refused",
    /// The host could not send it for another reason.
    SendFailed = "send_failed",
}

impl From<Damage> for DropReason {
    fn from(damage: Damage) -> Self {
        match damage {
            Damage::Truncated => Self::OuterTruncated,
            Damage::Malformed => Self::OuterMalformed,
            Damage::Checksum => Self::OuterChecksum,
            Damage::Fragment => Self::OuterFragment,
            Damage::Extensions => Self::OuterExtensions,
        }
    }
}

impl From<wire::gre::Malformed> for DropReason {
    fn from(malformed: wire::gre::Malformed) -> Self {
        use wire::gre::Malformed;
        match malformed {
            Malformed::Version => Self::GreVersion,
            Malformed::Routing => Self::GreRouting,
            Malformed::StrictSourceRoute => Self::GreStrictSourceRoute,
            Malformed::Recursion => Self::GreRecursion,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_name() {
        for (place, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), place);
            let same = DropReason::ALL.iter().filter(|other| other.name() == reason.name());
            assert_eq!(same.count(), 1, "{}", reason.name());
            let explanation = reason.explanation();
            assert!(explanation.ends_with('.') && !explanation.contains("[`"), "{explanation}");
            assert_eq!(explanation, explanation.trim());
        }
    }
}
