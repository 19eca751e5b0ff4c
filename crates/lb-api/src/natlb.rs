//! `NATLBMappings.lb.siha`: one service, and the backends that its flows are translated to.
//!
//! ```yaml
//! type: NATLBMappings.lb.siha
//! metadata: { namespace: lb, id: web }
//! spec:
//!   vipAddress: 203.0.113.10
//!   vipPort: 443
//!   protocol: tcp            # tcp, udp, icmp, or a raw protocol number
//!   twiceNat: true           # the backend sees the balancer as the client
//!   backends:
//!     - { name: backend-1, address: 10.0.1.11, port: 8443, weight: 10 }
//!     - { name: backend-2, address: 10.0.1.12, port: 8443, weight: 10 }
//!   healthCheck: { type: HTTP, httpPath: /healthz }
//! ```
//!
//! The types hold what was validated: what no field may say has no place in them. Rules that take
//! more than one mapping are in `checks`.

mod read;

use crate::address::RoutableAddr;
use crate::health_check::HealthCheck;
use crate::metadata::Metadata;
use crate::name::Name;
use crate::protocol::Protocol;
use balance::rendezvous::Weight;
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

/// A service and its backends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "NATLBMappings.lb.siha")]
pub struct NatLbMapping {
    /// Its name and notes.
    pub metadata: Metadata,
    /// What it does.
    pub spec: NatLbSpec,
}

impl NatLbMapping {
    /// The type's name in resources.
    pub const TYPE: &str = "NATLBMappings.lb.siha";

    /// `lb/web`: namespace and id, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.id)
    }

    pub(crate) fn identity(&self) -> (&Name, &Name) {
        (&self.metadata.namespace, &self.metadata.id)
    }
}

/// What a mapping does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NatLbSpec {
    /// What clients send to.
    #[serde(flatten)]
    pub service: Service,
    /// What is translated.
    #[serde(flatten)]
    pub mode: Mode,
    /// How long a client keeps its backend after its last flow; none if every flow is chosen for.
    #[serde(rename = "affinityTimeoutSec", serialize_with = "affinity_sec")]
    pub affinity: Option<AffinityTimeout>,
    /// The backends, as listed. None at all is allowed: the VIP stays owned and drops.
    pub backends: Vec<Backend>,
    /// Whether and how they are checked.
    pub health_check: HealthCheck,
    /// How a new flow gets its backend.
    #[serde(flatten)]
    pub selection: Selection,
    /// The largest TCP segment that either side is told it may send; only for TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss_clamp: Option<MssClamp>,
    /// What becomes of open TCP sessions of a backend that is gone; `Keep` for other protocols.
    pub on_down: OnDown,
    /// Whether each echo request is chosen for anew; only for ICMP.
    pub icmp_per_sequence: bool,
}

/// VIP, port and protocol: what clients send to, and what no two mappings may share.
///
/// A service of every port yields to one of an exact port of the same VIP and protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    /// The virtual address.
    pub vip: RoutableAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port; `None` is every port, and all of a protocol without ports.
    pub port: Option<NonZeroU16>,
}

/// What is translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The destination; the backend sees the client's address.
    Nat,
    /// The source too: the backend sees the balancer as the client.
    TwiceNat {
        /// The pool of source addresses; `None` is the egress interface's own address.
        pool: Option<Name>,
    },
}

/// Seconds for which a client keeps its backend, 1..=86400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct AffinityTimeout(NonZeroU32);

/// A server behind the VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Backend {
    /// Its name, unique in the mapping; selection depends on it, not on the address.
    pub name: Name,
    /// Its address, of the VIP's family.
    pub address: RoutableAddr,
    /// Its port; `None` is the port that the client asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
    /// Its share of new flows, relative to the others'.
    #[serde(serialize_with = "weight")]
    pub weight: Weight,
}

/// How a new flow gets its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// A Maglev table.
    Maglev(TableSize),
    /// A table of weighted rendezvous rows.
    Rendezvous(TableSize),
    /// The flow's hash over the cumulative weights, without a table.
    WeightedRandom,
}

/// Rows of a selection table: at least 128 for each backend, unless the full table is smaller.
///
/// The full table has 65,537 rows for Maglev and 65,536 for rendezvous; smaller ones are for nodes
/// with many mappings and have coarser shares. Maglev needs a prime: its builder takes the next one
/// from this number on, which is never beyond the full table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableSize(NonZeroU32);

/// The largest segment in octets, 88..=65495: what IPv4's least MTU and largest packet carry
/// (RFC 9293 3.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct MssClamp(NonZeroU16);

/// What becomes of open TCP sessions of a backend that is drained, removed or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum OnDown {
    /// They stay with the backend.
    Keep,
    /// They are reset.
    Reset,
}

impl AffinityTimeout {
    /// The longest.
    pub const MAX_SEC: u32 = 86_400;

    /// `None` for zero and beyond a day.
    #[must_use]
    pub fn new(sec: u32) -> Option<Self> {
        NonZeroU32::new(sec).filter(|sec| sec.get() <= Self::MAX_SEC).map(Self)
    }

    /// The seconds.
    #[must_use]
    pub fn sec(self) -> u32 {
        self.0.get()
    }
}

impl TableSize {
    /// Rows that each backend has at least.
    pub const ROWS_PER_BACKEND: u32 = 128;
    /// The full Maglev table, a prime.
    pub const FULL_MAGLEV: Self = Self(NonZeroU32::MIN.saturating_add(65_536));
    /// The full rendezvous table.
    pub const FULL_RENDEZVOUS: Self = Self(NonZeroU32::MIN.saturating_add(65_535));

    /// The rows, 128..=65537.
    #[must_use]
    pub fn rows(self) -> u32 {
        self.0.get()
    }

    /// The fewest rows for so many backends in a table that has `full` rows at most.
    fn least(backends: usize, full: Self) -> u32 {
        let backends = u32::try_from(backends).unwrap_or(u32::MAX).max(1);
        backends.saturating_mul(Self::ROWS_PER_BACKEND).min(full.rows())
    }
}

impl MssClamp {
    /// The smallest.
    pub const MIN: u16 = 88;
    /// The largest.
    pub const MAX: u16 = 65_495;

    /// `None` outside of 88..=65495.
    #[must_use]
    pub fn new(octets: u16) -> Option<Self> {
        let octets = Some(octets).filter(|octets| (Self::MIN..=Self::MAX).contains(octets));
        octets.and_then(NonZeroU16::new).map(Self)
    }

    /// The octets.
    #[must_use]
    pub fn octets(self) -> u16 {
        self.0.get()
    }
}

/// `tcp 203.0.113.10 port 443`.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vip, protocol, port } = self;
        match port {
            Some(port) => write!(f, "{protocol} {vip} port {port}"),
            None if protocol.has_ports() => write!(f, "{protocol} {vip} every port"),
            None => write!(f, "{protocol} {vip}"),
        }
    }
}

// === impl Serialize ===

impl Serialize for Service {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("vipAddress", &self.vip)?;
        if self.protocol.has_ports() {
            map.serialize_entry("vipPort", &self.port.map_or(0, NonZeroU16::get))?;
        }
        map.serialize_entry("protocol", &self.protocol)?;
        map.end()
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Nat => map.serialize_entry("twiceNat", &false)?,
            Self::TwiceNat { pool } => {
                map.serialize_entry("twiceNat", &true)?;
                if let Some(pool) = pool {
                    map.serialize_entry("snatPool", pool)?;
                }
            }
        }
        map.end()
    }
}

impl Serialize for Selection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, size) = match self {
            Self::Maglev(size) => ("maglev", Some(size)),
            Self::Rendezvous(size) => ("rendezvous", Some(size)),
            Self::WeightedRandom => ("weightedRandom", None),
        };
        let mut object = serializer.serialize_struct("Selection", 2)?;
        object.serialize_field("selection", name)?;
        if let Some(size) = size {
            object.serialize_field("tableSize", &size.rows())?;
        }
        object.end()
    }
}

#[expect(clippy::ref_option, reason = "the signature that serialize_with calls")]
fn affinity_sec<S: Serializer>(
    affinity: &Option<AffinityTimeout>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(affinity.map_or(0, AffinityTimeout::sec))
}

fn weight<S: Serializer>(weight: &Weight, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(weight.get())
}
