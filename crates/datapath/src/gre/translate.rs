//! The envelope of the other family: the outer header ends here and is built anew (RFC 7915 4.1
//! and 5.1, by analogy: the payload is opaque, so no checksum follows).

use super::Tables;
use crate::frame::prepend;
use crate::ip::Packet;
use crate::{DropReason, Frame};
use wire::{Address, Family, ipv4, ipv6, protocol};

/// Octets by which an IPv6 header is longer than an IPv4 one.
pub(super) const GROWTH: u32 = 20;
/// Up to this length an IPv4 packet made of an IPv6 one may be fragmented (RFC 7915 5.1).
pub(super) const MAX_FRAGMENTABLE_BYTES: u16 = 1260;

/// Octets of the family's header without options.
#[inline(always)]
pub(super) const fn header_bytes(family: Family) -> usize {
    match family {
        Family::V4 => ipv4::HEADER_BYTES,
        Family::V6 => ipv6::HEADER_BYTES,
    }
}

/// Replaces all headers before the GRE header by one of `destination`'s family. One hop less to
/// live; DSCP and ECN are kept; the IPv6 flow label is taken from the flow's hash (RFC 6438).
#[inline(always)]
pub(super) fn envelope<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    source: Address,
    destination: Address,
    hash: u64,
    tables: &mut T,
) -> Result<(), DropReason> {
    let payload = packet.length - packet.payload;
    let ttl = packet.ttl.saturating_sub(1);
    frame.pull(packet.payload).ok_or(DropReason::OuterTruncated)?;
    match destination.family() {
        Family::V6 => {
            let header = ipv6::Header {
                traffic_class: packet.tos,
                flow_label: flow_label(hash),
                payload_length: u16::try_from(payload).map_err(|_| DropReason::TooBig)?,
                next_header: protocol::GRE,
                hop_limit: ttl,
                source: source.octets(),
                destination: destination.octets(),
            };
            prepend(frame, header.emit()).ok_or(DropReason::NoHeadroom)
        }
        Family::V4 => {
            let length = u16::try_from(payload + ipv4::HEADER_BYTES);
            let total_length = length.map_err(|_| DropReason::TooBig)?;
            let dont_fragment = total_length > MAX_FRAGMENTABLE_BYTES;
            let header = ipv4::Header {
                header_length: 20,
                tos: packet.tos,
                total_length,
                identification: match dont_fragment {
                    true => 0,
                    false => tables.identification(destination),
                },
                dont_fragment,
                more_fragments: false,
                fragment_offset: 0,
                ttl,
                protocol: protocol::GRE,
                source: source.low4(),
                destination: destination.low4(),
            };
            prepend(frame, header.emit()).ok_or(DropReason::NoHeadroom)
        }
    }
}

/// 20 bits of the hash that the row does not use, and never 0, which says "no label".
#[inline(always)]
const fn flow_label(hash: u64) -> u32 {
    let label = (hash & 0xf_ffff) as u32;
    if label == 0 { 1 } else { label }
}
