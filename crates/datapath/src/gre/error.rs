//! ICMP errors to the frontend: each belongs to the backend whose reply it quotes.
//!
//! A backend of the frontend's family answers its client directly, with the frontend as source;
//! so a router on that way reports to the frontend. The quoted packet's destination is the client,
//! and its GRE header names the key: 28 quoted octets suffice unless a checksum precedes the key
//! (RFC 792 guarantees eight octets of payload). Then the message goes to every backend.
//! Backends of the other family get the message in theirs (RFC 7915 4.2, 4.3, 5.2, 5.3).

use super::message::{to_v4_form, to_v6_form};
use super::{Flow, Returns, Service, Tables};
use crate::answer::{MAX_V4_BYTES, prepend_icmp};
use crate::frame::prepend;
use crate::ip::{self, Packet};
use crate::{Budget, DropReason, Frame, Verdict};
use balance::hash::row_of;
use wire::checksum::{self, Sum, pseudo_v6};
use wire::{Address, Family, gre, icmp, ipv4, ipv6, protocol};

/// The packet that an error quotes.
#[derive(Clone, Copy, Debug)]
struct Quote {
    /// Whom the quoted reply was for.
    client: Address,
    /// Its key; the outer `None` if the quote ends before it.
    key: Option<Option<u32>>,
    /// Where the quoted GRE header starts in the frame.
    gre: usize,
    /// Octets of the quoted packet behind its IP headers, by its own word.
    payload_length: usize,
    tos: u8,
    ttl: u8,
}

/// Sends an ICMP error on to the backend that it is for.
#[inline(always)]
pub(super) fn relay<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    service: &Service,
    tables: &mut T,
) -> Result<Verdict, DropReason> {
    let octets = frame.read(packet.payload).ok_or(DropReason::ErrorTruncated)?;
    if !is_error(packet.family, icmp::Header::parse(octets).kind) {
        return Ok(Verdict::Pass);
    }
    let Some(quote) = read_quote(frame, packet, service)? else { return Ok(Verdict::Pass) };
    let Some(key) = quote.key else {
        return match tables.admit(Budget::Everyone) {
            true => Ok(Verdict::Everyone),
            false => Err(DropReason::ErrorRateLimited),
        };
    };
    let flow = Flow { client: quote.client, key };
    let row = row_of(flow.hash(service.key_mask));
    let index = tables.row(row).ok_or(DropReason::NoHealthyBackend)?;
    send_to(frame, packet, &quote, index, service, tables)
}

/// Makes a frame for which the verdict was [`Verdict::Everyone`] ready for one backend.
pub fn error_to<F: Frame, T: Tables>(frame: &mut F, index: u16, tables: &mut T) -> Verdict {
    let decide = |frame: &mut F, tables: &mut T| {
        let packet = Packet::parse(frame)?;
        frame.truncate(packet.length).ok_or(DropReason::OuterTruncated)?;
        let service = tables.service();
        match read_quote(frame, &packet, &service)? {
            Some(quote) => send_to(frame, &packet, &quote, index, &service, tables),
            None => Ok(Verdict::Pass),
        }
    };
    decide(frame, tables).unwrap_or_else(Verdict::Drop)
}

#[inline(always)]
fn is_error(family: Family, kind: u8) -> bool {
    match family {
        Family::V4 => matches!(
            kind,
            icmp::v4::UNREACHABLE | icmp::v4::TIME_EXCEEDED | icmp::v4::PARAMETER_PROBLEM
        ),
        Family::V6 => matches!(
            kind,
            icmp::v6::UNREACHABLE
                | icmp::v6::PACKET_TOO_BIG
                | icmp::v6::TIME_EXCEEDED
                | icmp::v6::PARAMETER_PROBLEM
        ),
    }
}

/// Reads the quoted packet. `Ok(None)` if it is not a reply of ours: other source, other protocol.
#[inline(always)]
fn read_quote<F: Frame>(
    frame: &F,
    packet: &Packet,
    service: &Service,
) -> Result<Option<Quote>, DropReason> {
    let at = packet.payload + icmp::HEADER_BYTES;
    let (source, protocol, mut quote) = match packet.family {
        Family::V4 => {
            let octets = frame.read(at).ok_or(DropReason::ErrorTruncated)?;
            let Some(header) = ipv4::Header::parse(octets) else { return Ok(None) };
            if header.fragment_offset != 0 {
                return Ok(None);
            }
            let header_length = usize::from(header.header_length);
            let quote = Quote {
                client: Address::v4(header.destination),
                key: None,
                gre: at + header_length,
                payload_length: usize::from(header.total_length).saturating_sub(header_length),
                tos: header.tos,
                ttl: header.ttl,
            };
            (Address::v4(header.source), header.protocol, quote)
        }
        Family::V6 => {
            let octets = frame.read(at).ok_or(DropReason::ErrorTruncated)?;
            let Some(header) = ipv6::Header::parse(octets) else { return Ok(None) };
            let start = at + ipv6::HEADER_BYTES;
            let end = frame.len();
            let Ok(upper) = ip::walk_extensions(frame, header.next_header, start, end) else {
                return Ok(None);
            };
            let (protocol, gre) = (upper.protocol, upper.at);
            let quote = Quote {
                client: Address::v6(header.destination),
                key: None,
                gre,
                payload_length: usize::from(header.payload_length).saturating_sub(gre - start),
                tos: header.traffic_class,
                ttl: header.hop_limit,
            };
            (Address::v6(header.source), protocol, quote)
        }
    };
    if source != service.frontend || protocol != protocol::GRE {
        return Ok(None);
    }
    let octets = frame.read(quote.gre).ok_or(DropReason::ErrorTruncated)?;
    let Ok(header) = gre::Header::parse(octets) else { return Ok(None) };
    quote.key = match header.key_offset() {
        None => Some(None),
        Some(offset) => frame.read(quote.gre + offset).map(|key| Some(u32::from_be_bytes(key))),
    };
    Ok(Some(quote))
}

#[inline(always)]
fn send_to<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    index: u16,
    service: &Service,
    tables: &mut T,
) -> Result<Verdict, DropReason> {
    let backend = tables.backend(index).ok_or(DropReason::NoHealthyBackend)?;
    if packet.ttl <= 1 {
        // No error is ever answered with an error (RFC 1812 4.3.2.7).
        return Err(DropReason::TtlExpired);
    }
    match (packet.family, backend.family()) {
        (Family::V4, Family::V6) => to_v6(frame, packet, quote, backend, service)?,
        (Family::V6, Family::V4) => to_v4(frame, packet, quote, backend, tables)?,
        _ => same_family(frame, packet, backend).ok_or(DropReason::ErrorTruncated)?,
    }
    Ok(Verdict::ToBackend(index))
}

/// Readdresses the message. ICMPv6's checksum covers the destination, ICMP's does not.
#[inline(always)]
fn same_family<F: Frame>(frame: &mut F, packet: &Packet, backend: Address) -> Option<()> {
    if packet.family == Family::V6 {
        let at = packet.payload + icmp::CHECKSUM;
        let old = Sum::new().octets(&packet.destination.octets());
        let new = Sum::new().octets(&backend.octets());
        let updated = checksum::update(u16::from_be_bytes(frame.read(at)?), old, new);
        frame.write(at, updated.to_be_bytes())?;
    }
    ip::readdress(frame, packet, backend)
}

/// An ICMP error in its IPv6 form. Its source is embedded in the /96, like a client.
#[inline(always)]
fn to_v6<F: Frame>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    backend: Address,
    service: &Service,
) -> Result<(), DropReason> {
    let Returns::Prefix(high) = service.returns else { return Err(DropReason::NoRoute) };
    let octets = frame.read(packet.payload).ok_or(DropReason::ErrorTruncated)?;
    let message = to_v6_form(icmp::Header::parse(octets)).ok_or(DropReason::ErrorUntranslatable)?;
    frame.pull(quote.gre).ok_or(DropReason::ErrorTruncated)?;
    let room = ipv6::MIN_MTU as usize - 2 * ipv6::HEADER_BYTES - icmp::HEADER_BYTES;
    if frame.len() > room {
        frame.truncate(room).ok_or(DropReason::ErrorTruncated)?;
    }
    let inner = ipv6::Header {
        traffic_class: quote.tos,
        flow_label: 0,
        payload_length: u16::try_from(quote.payload_length).unwrap_or(u16::MAX),
        next_header: protocol::GRE,
        hop_limit: quote.ttl,
        source: backend.octets(),
        destination: Address::embed(high, quote.client.low4()).octets(),
    };
    prepend(frame, inner.emit()).ok_or(DropReason::NoHeadroom)?;
    let source = Address::embed(high, packet.source.low4()).octets();
    let length = u16::try_from(frame.len() + icmp::HEADER_BYTES).unwrap_or(u16::MAX);
    let pseudo = pseudo_v6(source, backend.octets(), u32::from(length), protocol::ICMPV6);
    prepend_icmp(frame, message, pseudo).ok_or(DropReason::NoHeadroom)?;
    let outer = ipv6::Header {
        traffic_class: packet.tos,
        flow_label: 0,
        payload_length: length,
        next_header: protocol::ICMPV6,
        hop_limit: packet.ttl - 1,
        source,
        destination: backend.octets(),
    };
    prepend(frame, outer.emit()).ok_or(DropReason::NoHeadroom)
}

/// An ICMPv6 error in its IPv4 form. Its source cannot be embedded: the pool address that the
/// backend knows as the client stands for it.
#[inline(always)]
fn to_v4<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    backend: Address,
    tables: &mut T,
) -> Result<(), DropReason> {
    let key = quote.key.flatten().ok_or(DropReason::KeyRequired)?;
    let pool = tables.pool_address(quote.client, key).ok_or(DropReason::ClientUnknown)?;
    let octets = frame.read(packet.payload).ok_or(DropReason::ErrorTruncated)?;
    let message = to_v4_form(icmp::Header::parse(octets)).ok_or(DropReason::ErrorUntranslatable)?;
    frame.pull(quote.gre).ok_or(DropReason::ErrorTruncated)?;
    let room = MAX_V4_BYTES - 2 * ipv4::HEADER_BYTES - icmp::HEADER_BYTES;
    if frame.len() > room {
        frame.truncate(room).ok_or(DropReason::ErrorTruncated)?;
    }
    let inner_length = quote.payload_length + ipv4::HEADER_BYTES;
    let envelope = ipv4::Header {
        header_length: 20,
        tos: quote.tos,
        total_length: u16::try_from(inner_length).unwrap_or(u16::MAX),
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: quote.ttl,
        protocol: protocol::GRE,
        source: backend.low4(),
        destination: pool.low4(),
    };
    prepend(frame, envelope.emit()).ok_or(DropReason::NoHeadroom)?;
    prepend_icmp(frame, message, Sum::new()).ok_or(DropReason::NoHeadroom)?;
    let outer = ipv4::Header {
        tos: packet.tos,
        total_length: u16::try_from(frame.len() + ipv4::HEADER_BYTES).unwrap_or(u16::MAX),
        identification: tables.identification(backend),
        dont_fragment: false,
        ttl: packet.ttl - 1,
        protocol: protocol::ICMP,
        source: pool.low4(),
        destination: backend.low4(),
        ..envelope
    };
    prepend(frame, outer.emit()).ok_or(DropReason::NoHeadroom)
}
