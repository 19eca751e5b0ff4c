//! The packet that an ICMP error quotes, as far as it is quoted.

use super::super::Service;
use crate::ip::{self, Packet, Part};
use crate::{DropReason, Frame};
use wire::{Address, Family, gre, icmp, ipv4, ipv6, protocol};

/// A quoted reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quote {
    /// Whom the reply was for.
    pub(super) client: Address,
    /// Its key; the outer `None` if the quote ends before it.
    pub(super) key: Option<Option<u32>>,
    /// Where the quoted GRE header starts in the frame.
    pub(super) gre: usize,
    /// Octets of the quoted packet by its own word.
    pub(super) length: usize,
    /// Octets of it behind its IP headers.
    pub(super) payload_length: usize,
    pub(super) tos: u8,
    pub(super) ttl: u8,
}

impl Quote {
    /// Reads the quote. `Ok(None)` if it is none of a reply of ours: another source or protocol,
    /// or a later fragment.
    #[inline(always)]
    pub(super) fn read<F: Frame>(
        frame: &F,
        packet: &Packet,
        service: &Service,
    ) -> Result<Option<Self>, DropReason> {
        let at = packet.payload + icmp::HEADER_BYTES;
        let quote = match packet.family {
            Family::V4 => Self::read_v4(frame, at, service),
            Family::V6 => Self::read_v6(frame, at, service),
        }?;
        let Some(mut quote) = quote else { return Ok(None) };
        let octets = frame.read(quote.gre).ok_or(DropReason::ErrorTruncated)?;
        let Ok(header) = gre::Header::parse(octets) else { return Ok(None) };
        quote.key = match header.key_offset() {
            None => Some(None),
            Some(offset) => frame.read(quote.gre + offset).map(|key| Some(u32::from_be_bytes(key))),
        };
        Ok(Some(quote))
    }

    #[inline(always)]
    fn read_v4<F: Frame>(
        frame: &F,
        at: usize,
        service: &Service,
    ) -> Result<Option<Self>, DropReason> {
        let octets = frame.read(at).ok_or(DropReason::ErrorTruncated)?;
        let Some(header) = ipv4::Header::parse(octets) else { return Ok(None) };
        if Address::v4(header.source) != service.frontend
            || header.protocol != protocol::GRE
            || header.fragment_offset != 0
        {
            return Ok(None);
        }
        let header_length = usize::from(header.header_length);
        let length = usize::from(header.total_length);
        Ok(Some(Self {
            client: Address::v4(header.destination),
            key: None,
            gre: at + header_length,
            length,
            payload_length: length.saturating_sub(header_length),
            tos: header.tos,
            ttl: header.ttl,
        }))
    }

    #[inline(always)]
    fn read_v6<F: Frame>(
        frame: &F,
        at: usize,
        service: &Service,
    ) -> Result<Option<Self>, DropReason> {
        let octets = frame.read(at).ok_or(DropReason::ErrorTruncated)?;
        let Some(header) = ipv6::Header::parse(octets) else { return Ok(None) };
        let client = Address::v6(header.destination);
        if Address::v6(header.source) != service.frontend || client.family() != Family::V6 {
            return Ok(None);
        }
        let start = at + ipv6::HEADER_BYTES;
        let upper = match ip::walk_extensions(frame, header.next_header, start, frame.len()) {
            Ok(upper) => upper,
            Err(DropReason::OuterTruncated) => return Err(DropReason::ErrorTruncated),
            Err(_) => return Ok(None),
        };
        if upper.protocol != protocol::GRE || upper.part == Part::Later {
            return Ok(None);
        }
        let payload_length = usize::from(header.payload_length);
        Ok(Some(Self {
            client,
            key: None,
            gre: upper.at,
            length: ipv6::HEADER_BYTES + payload_length,
            payload_length: payload_length.saturating_sub(upper.at - start),
            tos: header.traffic_class,
            ttl: header.hop_limit,
        }))
    }
}
