//! ICMP errors for the other family: the message in that family's form, quoting the packet as its
//! sender knows it (RFC 7915 4.2, 4.3, 5.2, 5.3).

use super::super::Tables;
use super::super::message::{quoted_bytes, to_v4_form, to_v6_form};
use super::super::translate::MAX_FRAGMENTABLE_BYTES;
use super::quote::Quote;
use crate::answer::{MAX_V4_BYTES, prepend_icmp};
use crate::frame::{prepend, sum_from};
use crate::ip::Packet;
use crate::{DropReason, Frame};
use wire::checksum::{Sum, pseudo_v6};
use wire::{Address, Family, icmp, ipv4, ipv6, protocol};

/// The addresses of a translated message, all of the other family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// Who is said to report.
    pub(super) reporter: Address,
    /// Who hears of it: the sender of the quoted packet.
    pub(super) sender: Address,
    /// Whom the quoted packet was for, as its sender knows it.
    pub(super) receiver: Address,
}

/// Translates the message in the frame to the family of `ends`.
#[inline(always)]
pub(super) fn translate<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    ends: &Ends,
    tables: &mut T,
) -> Result<(), DropReason> {
    match ends.sender.family() {
        Family::V4 => to_v4(frame, packet, quote, ends, tables),
        Family::V6 => to_v6(frame, packet, quote, ends),
    }
}

#[inline(always)]
fn to_v6<F: Frame>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    ends: &Ends,
) -> Result<(), DropReason> {
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
        source: ends.sender.octets(),
        destination: ends.receiver.octets(),
    };
    prepend(frame, inner.emit()).ok_or(DropReason::NoHeadroom)?;
    let (source, destination) = (ends.reporter.octets(), ends.sender.octets());
    let length = u16::try_from(frame.len() + icmp::HEADER_BYTES).unwrap_or(u16::MAX);
    let pseudo = pseudo_v6(source, destination, u32::from(length), protocol::ICMPV6);
    prepend_icmp(frame, message, pseudo).ok_or(DropReason::NoHeadroom)?;
    let outer = ipv6::Header {
        traffic_class: packet.tos,
        flow_label: 0,
        payload_length: length,
        next_header: protocol::ICMPV6,
        hop_limit: packet.ttl.saturating_sub(1),
        source,
        destination,
    };
    prepend(frame, outer.emit()).ok_or(DropReason::NoHeadroom)
}

#[inline(always)]
fn to_v4<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    quote: &Quote,
    ends: &Ends,
    tables: &mut T,
) -> Result<(), DropReason> {
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
        source: ends.sender.low4(),
        destination: ends.receiver.low4(),
    };
    prepend(frame, inner.emit()).ok_or(DropReason::NoHeadroom)?;
    prepend_icmp(frame, message, Sum::new()).ok_or(DropReason::NoHeadroom)?;
    let outer = ipv4::Header {
        tos: packet.tos,
        total_length: u16::try_from(frame.len() + ipv4::HEADER_BYTES).unwrap_or(u16::MAX),
        identification: tables.identification(ends.sender),
        dont_fragment: false,
        ttl: packet.ttl.saturating_sub(1),
        protocol: protocol::ICMP,
        source: ends.reporter.low4(),
        destination: ends.sender.low4(),
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
