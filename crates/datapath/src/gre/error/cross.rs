//! ICMP errors to backends of the other family: the message in that family's form, quoting the
//! reply as the backend knows it (RFC 7915 4.2, 4.3, 5.2, 5.3).

use super::super::message::{quoted_bytes, to_v4_form, to_v6_form};
use super::super::translate::MAX_FRAGMENTABLE_BYTES;
use super::super::{Returns, Service, Tables};
use super::quote::Quote;
use crate::answer::{MAX_V4_BYTES, prepend_icmp};
use crate::frame::{prepend, sum_from};
use crate::ip::Packet;
use crate::{DropReason, Frame};
use wire::checksum::{Sum, pseudo_v6};
use wire::{Address, Family, icmp, ipv4, ipv6, protocol};

/// An ICMP error in its IPv6 form. Its source is embedded in the /96, like a client.
#[inline(always)]
pub(super) fn to_v6<F: Frame>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    backend: Address,
    service: &Service,
) -> Result<(), DropReason> {
    let Returns::Prefix(high) = service.returns else { return Err(DropReason::NoRoute) };
    let came = verified(frame, packet)?;
    let message = to_v6_form(came, quote.length).ok_or(DropReason::ErrorUntranslatable)?;
    let room = ipv6::MIN_MTU as usize - 2 * ipv6::HEADER_BYTES - icmp::HEADER_BYTES;
    keep_quoted_payload(frame, packet, quote, came, room)?;
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
        hop_limit: packet.ttl.saturating_sub(1),
        source,
        destination: backend.octets(),
    };
    prepend(frame, outer.emit()).ok_or(DropReason::NoHeadroom)
}

/// An ICMPv6 error in its IPv4 form. Its source cannot be embedded: the pool address that the
/// backend knows as the client stands for it.
#[inline(always)]
pub(super) fn to_v4<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    backend: Address,
    tables: &mut T,
) -> Result<(), DropReason> {
    let key = quote.key.ok_or(DropReason::ErrorTruncated)?.ok_or(DropReason::KeyRequired)?;
    let pool = tables.pool_address(quote.client, key).ok_or(DropReason::ClientUnknown)?;
    let came = verified(frame, packet)?;
    let message = to_v4_form(came).ok_or(DropReason::ErrorUntranslatable)?;
    let room = MAX_V4_BYTES - 2 * ipv4::HEADER_BYTES - icmp::HEADER_BYTES;
    keep_quoted_payload(frame, packet, quote, came, room)?;
    let inner_length = quote.payload_length + ipv4::HEADER_BYTES;
    let total_length = u16::try_from(inner_length).unwrap_or(u16::MAX);
    let inner = ipv4::Header {
        header_length: 20,
        tos: quote.tos,
        total_length,
        identification: 0,
        dont_fragment: total_length > MAX_FRAGMENTABLE_BYTES,
        more_fragments: false,
        fragment_offset: 0,
        ttl: quote.ttl,
        protocol: protocol::GRE,
        source: backend.low4(),
        destination: pool.low4(),
    };
    prepend(frame, inner.emit()).ok_or(DropReason::NoHeadroom)?;
    prepend_icmp(frame, message, Sum::new()).ok_or(DropReason::NoHeadroom)?;
    let outer = ipv4::Header {
        tos: packet.tos,
        total_length: u16::try_from(frame.len() + ipv4::HEADER_BYTES).unwrap_or(u16::MAX),
        identification: tables.identification(backend),
        dont_fragment: false,
        ttl: packet.ttl.saturating_sub(1),
        protocol: protocol::ICMP,
        source: pool.low4(),
        destination: backend.low4(),
        ..inner
    };
    prepend(frame, outer.emit()).ok_or(DropReason::NoHeadroom)
}

/// The message's header, if its checksum is right: the translated message gets a new one, which
/// would make a corrupt message look sound.
#[inline(always)]
fn verified<F: Frame>(frame: &F, packet: &Packet) -> Result<icmp::Header, DropReason> {
    let octets = frame.read(packet.payload).ok_or(DropReason::ErrorTruncated)?;
    let pseudo = match packet.family {
        Family::V4 => Sum::new(),
        Family::V6 => {
            let (source, destination) = (packet.source.octets(), packet.destination.octets());
            let length = u32::try_from(packet.length - packet.payload).unwrap_or(u32::MAX);
            pseudo_v6(source, destination, length, protocol::ICMPV6)
        }
    };
    let sum = sum_from(frame, packet.payload).ok_or(DropReason::ErrorTruncated)?;
    match sum.plus(pseudo).is_valid() {
        true => Ok(icmp::Header::parse(octets)),
        false => Err(DropReason::ErrorChecksum),
    }
}

/// Leaves of the frame the quoted packet's GRE header and payload, at most `room` octets. What
/// follows the quoted packet is cut: padding, and the extensions of RFC 4884, because the
/// translated message says nothing of its quote's length.
#[inline(always)]
fn keep_quoted_payload<F: Frame>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    message: icmp::Header,
    room: usize,
) -> Result<(), DropReason> {
    let mut end = frame.len().min(quote.gre + quote.payload_length.min(room));
    if let Some(quoted) = quoted_bytes(packet.family, message) {
        end = end.min(packet.payload + icmp::HEADER_BYTES + quoted);
    }
    frame.truncate(end).ok_or(DropReason::ErrorTruncated)?;
    frame.pull(quote.gre).ok_or(DropReason::ErrorTruncated)
}
