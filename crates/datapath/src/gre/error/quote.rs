//! The packet that an ICMP error quotes, as far as it is quoted.

use crate::ip::{self, Packet, Part};
use crate::{DropReason, Frame};
use wire::{Address, Family, gre, icmp, ipv4, ipv6, protocol};

/// A quoted GRE packet that passed us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quote {
    /// Who sent it, as the reporter saw it.
    pub(super) source: Address,
    /// Whom it was for.
    pub(super) destination: Address,
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
    /// Reads the quote. `Ok(None)` if it is none of a GRE packet: another protocol, or a later
    /// fragment.
    #[inline(always)]
    pub(super) fn read<F: Frame>(frame: &F, packet: &Packet) -> Result<Option<Self>, DropReason> {
        let at = packet.payload + icmp::HEADER_BYTES;
        let quote = match packet.family {
            Family::V4 => Self::read_v4(frame, at),
            Family::V6 => Self::read_v6(frame, at),
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
    fn read_v4<F: Frame>(frame: &F, at: usize) -> Result<Option<Self>, DropReason> {
        let octets = frame.read(at).ok_or(DropReason::ErrorTruncated)?;
        let Some(header) = ipv4::Header::parse(octets) else { return Ok(None) };
        if header.protocol != protocol::GRE || header.fragment_offset != 0 {
            return Ok(None);
        }
        let header_length = usize::from(header.header_length);
        let length = usize::from(header.total_length);
        Ok(Some(Self {
            source: Address::v4(header.source),
            destination: Address::v4(header.destination),
            key: None,
            gre: at + header_length,
            length,
            payload_length: length.saturating_sub(header_length),
            tos: header.tos,
            ttl: header.ttl,
        }))
    }

    #[inline(always)]
    fn read_v6<F: Frame>(frame: &F, at: usize) -> Result<Option<Self>, DropReason> {
        let octets = frame.read(at).ok_or(DropReason::ErrorTruncated)?;
        let Some(header) = ipv6::Header::parse(octets) else { return Ok(None) };
        let (source, destination) = (Address::v6(header.source), Address::v6(header.destination));
        if source.family() != Family::V6 || destination.family() != Family::V6 {
            return Ok(None);
        }
        let start = at + ipv6::HEADER_BYTES;
        let upper = match ip::walk_extensions(frame, header.next_header, start, frame.len()) {
            Ok(upper) => upper,
            Err(ip::Damage::Truncated) => return Err(DropReason::ErrorTruncated),
            Err(_) => return Ok(None),
        };
        if upper.protocol != protocol::GRE || upper.part == Part::Later {
            return Ok(None);
        }
        let payload_length = usize::from(header.payload_length);
        Ok(Some(Self {
            source,
            destination,
            key: None,
            gre: upper.at,
            length: ipv6::HEADER_BYTES + payload_length,
            payload_length: payload_length.saturating_sub(upper.at - start),
            tos: header.traffic_class,
            ttl: header.hop_limit,
        }))
    }
}
