//! ICMP errors about packets of sessions: to the client, or to the backend, as if no translation
//! were between them (RFC 5508 4.2, RFC 792, RFC 4443 2.4).
//!
//! The quote names the session: its header is translated back, with the quoted checksums as far as
//! they are quoted, so that the receiver knows its own packet again. To the client the error comes
//! from the virtual address: it knows no other.

use super::index::{self, Hash};
use super::layout::{Direction, Session, session_flag};
use super::parse::{self, Packet};
use super::rewrite::{self, To};
use super::tables::Tables;
use super::verdict::DropReason;
use super::{Next, Scratch, Verdict, send};
use crate::Frame;
use wire::Address;

#[inline(always)]
pub(super) fn error<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Result<Next, DropReason> {
    let Scratch { packet, quoted, key, .. } = scratch;
    if parse::quote(frame, packet, quoted).is_none() {
        return unknown(tables, packet, DropReason::ErrorTruncated);
    }
    // The packet went out; the session knows it from its answer.
    key.source = quoted.key.destination;
    key.destination = quoted.key.source;
    key.source_port = quoted.key.destination_port;
    key.destination_port = quoted.key.source_port;
    key.protocol = quoted.key.protocol;
    let seed = tables.settings().ok_or(DropReason::Internal)?.seed;
    let Some(found) = index::find(tables, key, Hash::of(key, seed)) else {
        return unknown(tables, packet, DropReason::ErrorUnknown);
    };
    let mut record = tables.record(found.session).ok_or(DropReason::Internal)?;
    let ingress = tables.interface().ok_or(DropReason::Internal)?.index;
    let id = u32::from(record.backend_id);
    match found.direction {
        // About a packet to the backend: the client has sent it to the virtual address.
        Direction::Reply => {
            let Session { vip, client, to_client, .. } = &mut *record;
            send::way(tables, packet, to_client, vip, client)?;
            send::fits(packet, to_client)?;
            let session: &Session = &record;
            let was = To {
                source_port: session.client_port,
                destination_port: session.vip_port,
                ..To::addresses(&session.client, &session.vip)
            };
            translate(frame, packet, quoted, was, &session.vip, &session.client)?;
            tables.count(id, Direction::Reply, packet.length);
            send::transmit(frame, packet, &session.to_client, ingress).map(Next::Done)
        }
        // About a packet to the client: the backend has sent it to what it sees as the client.
        Direction::Forward => {
            let mut way = tables.way(id).ok_or(DropReason::Internal)?;
            let session: &Session = &record;
            send::way(tables, packet, &mut way, &session.source, &session.backend)?;
            send::fits(packet, &way)?;
            let was = To {
                source_port: session.backend_port,
                destination_port: session.source_port,
                ..To::addresses(&session.backend, &session.source)
            };
            let hides = session.flags & session_flag::TWICE_NAT != 0;
            let reporter = if hides { session.source } else { packet.key.source };
            translate(frame, packet, quoted, was, &reporter, &session.backend)?;
            tables.count(id, Direction::Forward, packet.length);
            send::transmit(frame, packet, &way, ingress).map(Next::Done)
        }
    }
}

/// An error about a packet of no session: dropped if it is for an address of ours alone.
#[inline(always)]
fn unknown<T: Tables>(tables: &T, packet: &Packet, reason: DropReason) -> Result<Next, DropReason> {
    match tables.owned(&packet.key.destination) {
        Some(_) => Err(reason),
        None => Ok(Next::Done(Verdict::Pass)),
    }
}

/// Translates the quote to what `was` sent, and readdresses the error.
#[inline(always)]
fn translate<F: Frame>(
    frame: &mut F,
    packet: &Packet,
    quoted: &Packet,
    was: To<'_>,
    source: &Address,
    destination: &Address,
) -> Result<(), DropReason> {
    let readdressed = To::addresses(source, destination);
    rewrite::error(frame, packet, quoted, was, readdressed).ok_or(DropReason::Internal)
}
