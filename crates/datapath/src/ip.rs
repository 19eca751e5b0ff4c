//! The outer IP header: what the packet core needs of it, and how it is rewritten in place.

use crate::Frame;
use wire::checksum::{self, Sum};
use wire::{Address, Family, ipv4, ipv6, protocol};

/// IPv6 extension headers that are walked before the packet is dropped.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// The fixed header at the start of a frame, not yet held against what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// IPv4.
    V4(ipv4::Header),
    /// IPv6.
    V6(ipv6::Header),
}

/// Why the IP headers of a packet cannot be read or followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The packet is shorter than its headers say.
    Truncated,
    /// Neither IPv4 nor IPv6, or an IPv4 header length below 20.
    Malformed,
    /// The IPv4 header's checksum is wrong.
    Checksum,
    /// A later fragment that names an extension header, so that its protocol is not known.
    Fragment,
    /// More than [`MAX_EXTENSION_HEADERS`], or a route of the sender's that does not end here.
    Extensions,
}

/// Whether a packet is whole; the less of it is here, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// It is; an atomic fragment too (RFC 6946).
    Whole,
    /// Its first fragment, which has the header of its protocol.
    First,
    /// A later fragment, in which no such header can be read.
    Later,
}

/// What the IP headers of a packet say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// IP version.
    pub family: Family,
    /// The protocol after all extension headers.
    pub protocol: u8,
    /// Where that protocol's header starts; in a later fragment, its share of the payload.
    pub payload: usize,
    /// Octets of the packet by its own word; the frame has at least as many.
    pub length: usize,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// No router may fragment it: IPv4's DF, always so in IPv6.
    pub dont_fragment: bool,
    /// Whether it is a fragment.
    pub part: Part,
}

impl Header {
    /// Reads the fixed header at the start of the frame.
    #[inline(always)]
    pub fn parse(frame: &impl Frame) -> Result<Self, Damage> {
        let [first] = frame.read::<1>(0).ok_or(Damage::Truncated)?;
        match first >> 4 {
            4 => {
                let octets = frame.read(0).ok_or(Damage::Truncated)?;
                ipv4::Header::parse(octets).map(Self::V4).ok_or(Damage::Malformed)
            }
            6 => {
                let octets = frame.read(0).ok_or(Damage::Truncated)?;
                ipv6::Header::parse(octets).map(Self::V6).ok_or(Damage::Malformed)
            }
            _ => Err(Damage::Malformed),
        }
    }

    /// The destination address; `None` for an IPv4 address in IPv6 notation, which means nothing
    /// on the wire (RFC 6890 2.2.3).
    #[inline(always)]
    pub fn destination(&self) -> Option<Address> {
        match self {
            Self::V4(header) => Some(Address::v4(header.destination)),
            Self::V6(header) => {
                let destination = Address::v6(header.destination);
                (destination.family() == Family::V6).then_some(destination)
            }
        }
    }
}

impl Packet {
    /// Reads the headers at the start of the frame.
    #[inline(always)]
    pub fn parse(frame: &impl Frame) -> Result<Self, Damage> {
        Self::behind(&Header::parse(frame)?, frame)
    }

    /// Reads what follows the fixed header.
    #[inline(always)]
    pub fn behind(header: &Header, frame: &impl Frame) -> Result<Self, Damage> {
        match header {
            Header::V4(header) => Self::behind_v4(header, frame),
            Header::V6(header) => Self::behind_v6(header, frame),
        }
    }

    #[inline(always)]
    fn behind_v4(header: &ipv4::Header, frame: &impl Frame) -> Result<Self, Damage> {
        let (payload, length) =
            (usize::from(header.header_length), usize::from(header.total_length));
        if length > frame.len() || payload > length {
            return Err(Damage::Truncated);
        }
        if !sum_of_header(frame, payload).ok_or(Damage::Truncated)?.is_valid() {
            return Err(Damage::Checksum);
        }
        if has_source_route(frame, payload) {
            return Err(Damage::Extensions);
        }
        Ok(Self {
            source: Address::v4(header.source),
            destination: Address::v4(header.destination),
            family: Family::V4,
            protocol: header.protocol,
            payload,
            length,
            ttl: header.ttl,
            tos: header.tos,
            dont_fragment: header.dont_fragment,
            part: Part::of(header.fragment_offset, header.more_fragments),
        })
    }

    #[inline(always)]
    fn behind_v6(header: &ipv6::Header, frame: &impl Frame) -> Result<Self, Damage> {
        let length = ipv6::HEADER_BYTES + usize::from(header.payload_length);
        if length > frame.len() {
            return Err(Damage::Truncated);
        }
        let upper = walk_extensions(frame, header.next_header, ipv6::HEADER_BYTES, length)?;
        Ok(Self {
            source: Address::v6(header.source),
            destination: Address::v6(header.destination),
            family: Family::V6,
            protocol: upper.protocol,
            payload: upper.at,
            length,
            ttl: header.hop_limit,
            tos: header.traffic_class,
            dont_fragment: true,
            part: upper.part,
        })
    }

    /// Whether a router may forward what comes from the source: it must be a routable address of
    /// the packet's own family.
    #[inline(always)]
    pub fn has_routable_source(&self) -> bool {
        self.source.family() == self.family && self.source.is_routable()
    }
}

impl Part {
    /// The part that a fragment's offset and M flag tell of.
    #[inline(always)]
    pub(crate) const fn of(offset: u16, more: bool) -> Self {
        match (offset, more) {
            (0, false) => Self::Whole,
            (0, true) => Self::First,
            _ => Self::Later,
        }
    }
}

/// The sum of an IPv4 header, its options and its checksum included.
#[inline(always)]
fn sum_of_header(frame: &impl Frame, length: usize) -> Option<Sum> {
    let mut sum = Sum::new().octets(&frame.read::<{ ipv4::HEADER_BYTES }>(0)?);
    let mut at = ipv4::HEADER_BYTES;
    while at < length {
        sum = sum.octets(&frame.read::<4>(at)?);
        at += 4;
    }
    Some(sum)
}

/// Whether the IPv4 options hold a source route that does not end here: its pointer is not beyond
/// its length (RFC 791 3.1). Options that make no sense end the search.
#[inline(always)]
fn has_source_route(frame: &impl Frame, end: usize) -> bool {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let mut at = ipv4::HEADER_BYTES;
    while at < end {
        let Some([kind]) = frame.read(at) else { return false };
        match kind {
            END => return false,
            NO_OPERATION => {
                at += 1;
                continue;
            }
            _ => {}
        }
        let Some([length]) = frame.read(at + 1) else { return false };
        if length < 2 || at + usize::from(length) > end {
            return false;
        }
        if kind == LOOSE || kind == STRICT {
            return frame.read(at + 2).is_none_or(|[pointer]: [u8; 1]| pointer <= length);
        }
        at += usize::from(length);
    }
    false
}

/// What follows the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upper {
    pub(crate) protocol: u8,
    pub(crate) at: usize,
    pub(crate) part: Part,
}

/// Follows the extension headers (RFC 8200 4) from the one at `at` to the first other protocol;
/// no octet from `end` on is read. In a later fragment none can be followed: if the
/// fragment header names one, the protocol is not known.
#[inline(always)]
pub(crate) fn walk_extensions(
    frame: &impl Frame,
    first: u8,
    mut at: usize,
    end: usize,
) -> Result<Upper, Damage> {
    let mut protocol = first;
    let mut part = Part::Whole;
    for _ in 0..=MAX_EXTENSION_HEADERS {
        let unit = match protocol {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => 8,
            protocol::FRAGMENT => 0,
            protocol::AUTHENTICATION => 4,
            _ => return Ok(Upper { protocol, at, part }),
        };
        if part == Part::Later {
            return Err(Damage::Fragment);
        }
        let octets = frame.read(at).filter(|_| at + 8 <= end);
        let [next, extent, high, low] = octets.ok_or(Damage::Truncated)?;
        match protocol {
            // Offset and the M flag; the two reserved bits between them say nothing.
            protocol::FRAGMENT => {
                part = part.max(Part::of(u16::from_be_bytes([high, low]) >> 3, low & 1 != 0));
            }
            // Segments left: this is not the final destination.
            protocol::ROUTING if low != 0 => return Err(Damage::Extensions),
            _ => {}
        }
        at += 8 + usize::from(extent) * unit;
        if at > end {
            return Err(Damage::Truncated);
        }
        protocol = next;
    }
    Err(Damage::Extensions)
}

/// Sends the packet on its way as a router does, to another destination of its own family: one
/// hop less to live, and the IPv4 header checksum follows (RFC 1812 5.3.1, RFC 1624). The
/// packet's own checksum, if it covers the addresses, is the caller's.
#[inline(always)]
pub fn readdress(frame: &mut impl Frame, packet: &Packet, destination: Address) -> Option<()> {
    let ttl = packet.ttl.checked_sub(1)?;
    match packet.family {
        Family::V4 => {
            let new = destination.low4();
            let old_sum = Sum::new().octets(&[packet.ttl, 0]).octets(&packet.destination.low4());
            update_v4(frame, old_sum, Sum::new().octets(&[ttl, 0]).octets(&new))?;
            frame.write(ipv4::field::TTL, [ttl])?;
            frame.write(ipv4::field::DESTINATION, new)
        }
        Family::V6 => {
            frame.write(ipv6::field::HOP_LIMIT, [ttl])?;
            frame.write(ipv6::field::DESTINATION, destination.octets())
        }
    }
}

/// Gives the packet another source of its own family; the IPv4 header checksum follows.
#[inline(always)]
pub fn set_source(frame: &mut impl Frame, packet: &Packet, source: Address) -> Option<()> {
    match packet.family {
        Family::V4 => {
            let new = source.low4();
            let old_sum = Sum::new().octets(&packet.source.low4());
            update_v4(frame, old_sum, Sum::new().octets(&new))?;
            frame.write(ipv4::field::SOURCE, new)
        }
        Family::V6 => frame.write(ipv6::field::SOURCE, source.octets()),
    }
}

#[inline(always)]
fn update_v4(frame: &mut impl Frame, old: Sum, new: Sum) -> Option<()> {
    let checksum = u16::from_be_bytes(frame.read(ipv4::field::CHECKSUM)?);
    let updated = checksum::update(checksum, old, new);
    frame.write(ipv4::field::CHECKSUM, updated.to_be_bytes())
}

#[cfg(test)]
mod tests;
