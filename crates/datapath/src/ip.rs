//! The outer IP header: what the packet core needs of it, and how it is rewritten in place.

use crate::{DropReason, Frame};
use wire::checksum::{self, Sum};
use wire::{Address, Family, ipv4, ipv6, protocol};

/// IPv6 extension headers that are walked before the packet is dropped.
pub const MAX_EXTENSION_HEADERS: usize = 8;

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
    /// Where that protocol's header starts.
    pub payload: usize,
    /// Octets of the packet by its own word; the frame has at least as many.
    pub length: usize,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// No router may fragment it: IPv4's DF, always so in IPv6.
    pub dont_fragment: bool,
}

impl Packet {
    /// Reads the headers at the start of the frame. A packet that is a fragment is none that can
    /// be read further.
    #[inline(always)]
    pub fn parse(frame: &impl Frame) -> Result<Self, DropReason> {
        let [first] = frame.read::<1>(0).ok_or(DropReason::OuterTruncated)?;
        match first >> 4 {
            4 => Self::parse_v4(frame),
            6 => Self::parse_v6(frame),
            _ => Err(DropReason::OuterMalformed),
        }
    }

    #[inline(always)]
    fn parse_v4(frame: &impl Frame) -> Result<Self, DropReason> {
        let octets = frame.read(0).ok_or(DropReason::OuterTruncated)?;
        let header = ipv4::Header::parse(octets).ok_or(DropReason::OuterMalformed)?;
        let (payload, length) =
            (usize::from(header.header_length), usize::from(header.total_length));
        if length > frame.len() || payload > length {
            return Err(DropReason::OuterTruncated);
        }
        if header.is_fragment() {
            return Err(DropReason::OuterFragment);
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
        })
    }

    #[inline(always)]
    fn parse_v6(frame: &impl Frame) -> Result<Self, DropReason> {
        let octets = frame.read(0).ok_or(DropReason::OuterTruncated)?;
        let header = ipv6::Header::parse(octets).ok_or(DropReason::OuterMalformed)?;
        let length = ipv6::HEADER_BYTES + usize::from(header.payload_length);
        if length > frame.len() {
            return Err(DropReason::OuterTruncated);
        }
        let (protocol, payload) = walk_extensions(frame, header.next_header, ipv6::HEADER_BYTES)?;
        if payload > length {
            return Err(DropReason::OuterTruncated);
        }
        Ok(Self {
            source: Address::v6(header.source),
            destination: Address::v6(header.destination),
            family: Family::V6,
            protocol,
            payload,
            length,
            ttl: header.hop_limit,
            tos: header.traffic_class,
            dont_fragment: true,
        })
    }
}

/// Follows the extension headers (RFC 8200 4) from the one at `at` to the first other protocol
/// and its offset.
#[inline(always)]
pub(crate) fn walk_extensions(
    frame: &impl Frame,
    first: u8,
    mut at: usize,
) -> Result<(u8, usize), DropReason> {
    let mut protocol = first;
    for _ in 0..=MAX_EXTENSION_HEADERS {
        let unit = match protocol {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => 8,
            protocol::FRAGMENT => 0,
            protocol::AUTHENTICATION => 4,
            _ => return Ok((protocol, at)),
        };
        let [next, extent, high, low] = frame.read(at).ok_or(DropReason::OuterTruncated)?;
        match protocol {
            // Offset and the M flag; the two reserved bits between them say nothing. Both zero
            // is an atomic fragment: a whole packet (RFC 6946).
            protocol::FRAGMENT if u16::from_be_bytes([high, low]) & 0xfff9 != 0 => {
                return Err(DropReason::OuterFragment);
            }
            // Segments left: this is not the final destination.
            protocol::ROUTING if low != 0 => return Err(DropReason::OuterExtensions),
            _ => at += 8 + usize::from(extent) * unit,
        }
        protocol = next;
    }
    Err(DropReason::OuterExtensions)
}

/// Sends the packet on its way as a router does, to another destination of its own family: one
/// hop less to live, and the IPv4 header checksum follows (RFC 1812 5.3.1, RFC 1624). The
/// packet's own checksum, if it covers the destination, is the caller's.
#[inline(always)]
pub fn readdress(frame: &mut impl Frame, packet: &Packet, destination: Address) -> Option<()> {
    let ttl = packet.ttl.checked_sub(1)?;
    match packet.family {
        Family::V4 => {
            let new = destination.low4();
            let old_sum = Sum::new().octets(&[packet.ttl, 0]).octets(&packet.destination.low4());
            let new_sum = Sum::new().octets(&[ttl, 0]).octets(&new);
            let checksum = u16::from_be_bytes(frame.read(ipv4::field::CHECKSUM)?);
            let updated = checksum::update(checksum, old_sum, new_sum);
            frame.write(ipv4::field::TTL, [ttl])?;
            frame.write(ipv4::field::CHECKSUM, updated.to_be_bytes())?;
            frame.write(ipv4::field::DESTINATION, new)
        }
        Family::V6 => {
            frame.write(ipv6::field::HOP_LIMIT, [ttl])?;
            frame.write(ipv6::field::DESTINATION, destination.octets())
        }
    }
}

#[cfg(test)]
mod tests;
