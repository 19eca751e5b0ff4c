//! TCP segments that fit a narrower way: the largest segment that the two ends agree on is lowered
//! on their first segments (RFC 9293 3.7.1, RFC 6691), never raised and never added.

use super::index::Found;
use super::layout::backend_flag;
use super::parse::Packet;
use super::tables::Tables;
use super::verdict::DropReason;
use super::{Next, Scratch, enter};
use crate::Frame;
use wire::checksum::{Sum, update};
use wire::tcp::{self, option};

/// Options that are walked; a header has room for forty octets of them.
const MAX_OPTIONS: usize = 12;

#[inline(always)]
pub(super) fn clamp<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Result<Next, DropReason> {
    let found = Found { session: scratch.session, direction: scratch.direction };
    let record = tables.record(found.session).ok_or(DropReason::Internal)?;
    let id = u32::from(record.backend_id);
    drop(record);
    let backend = tables.backend(id).ok_or(DropReason::Internal)?;
    if backend.segment > 0 && backend.flags & backend_flag::RESET == 0 {
        lower(frame, &scratch.packet, backend.segment);
    }
    enter::send(frame, tables, scratch, found)
}

/// Lowers the option if it is there. Options that make no sense end the search: the segment goes
/// on as it is, and its receiver judges it.
#[inline(always)]
fn lower<F: Frame>(frame: &mut F, packet: &Packet, segment: u16) -> Option<()> {
    let start = usize::from(packet.transport);
    let [offset] = frame.read(start + tcp::field::DATA_OFFSET)?;
    let end = start + usize::from(offset >> 4) * 4;
    if end > usize::from(packet.ip) + usize::from(packet.length) {
        return None;
    }
    let mut at = start + tcp::HEADER_BYTES;
    for _ in 0..MAX_OPTIONS {
        if at + 4 > end {
            return None;
        }
        let [kind, length, m0, m1] = frame.read(at)?;
        match kind {
            option::END => return None,
            option::NO_OPERATION => at += 1,
            option::MAXIMUM_SEGMENT_SIZE if length == 4 => {
                let said = u16::from_be_bytes([m0, m1]);
                if said <= segment {
                    return None;
                }
                return replace(frame, start, at, said, segment);
            }
            _ if length < 2 => return None,
            _ => at += usize::from(length),
        }
        at = frame.unknown(at);
    }
    None
}

/// Writes the option's value. It may stand at an odd offset, and so across two words of the sum.
#[inline(always)]
fn replace<F: Frame>(
    frame: &mut F,
    start: usize,
    at: usize,
    said: u16,
    segment: u16,
) -> Option<()> {
    let place = start + tcp::field::CHECKSUM;
    let checksum = u16::from_be_bytes(frame.read(place)?);
    let aligned = |value: u16| if (at - start) & 1 == 0 { value } else { value.swap_bytes() };
    let (old, new) = (Sum::new().word(aligned(said)), Sum::new().word(aligned(segment)));
    frame.write(at + 2, segment.to_be_bytes())?;
    frame.write(place, update(checksum, old, new).to_be_bytes())
}
