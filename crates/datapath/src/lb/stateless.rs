//! NAT that keeps the client's address, without a session: where a backend's address and port stand
//! behind one service alone, its answers name that service, and the table names the backend of
//! every packet. It bridges what no session remembers: a full table, a flood, a new node.

use super::layout::{Backend, Direction, ServiceKey};
use super::parse::{Kind, Packet};
use super::rewrite::{self, Change, To};
use super::tables::Tables;
use super::verdict::{DropReason, Verdict};
use super::{Next, Scratch, Stage, send};
use crate::Frame;

/// Sends a client's packet on to the backend that the table names.
///
/// # Errors
/// `reason`, where the backend's answers would not name the service.
#[inline(always)]
pub(super) fn forward<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &Scratch,
    backend: &Backend,
    id: u32,
    reason: DropReason,
) -> Result<Next, DropReason> {
    let packet = &scratch.packet;
    let key = &packet.key;
    let port = if backend.port == [0; 2] { key.destination_port } else { backend.port };
    let origin =
        ServiceKey { address: backend.address, port, protocol: key.protocol, zero: 0, zero_too: 0 };
    let named = tables.origin(&origin).is_some_and(|service| {
        service.address == key.destination && service.port == key.destination_port
    });
    if !named || !matches!(packet.kind, Kind::Tcp | Kind::Udp) {
        return Err(reason);
    }
    let to = To {
        source_port: key.source_port,
        destination_port: port,
        ..To::addresses(&key.source, &backend.address)
    };
    rewrite::translate(frame, packet, to, Change::of(packet, to)).ok_or(DropReason::Internal)?;
    tables.count(id, Direction::Forward, packet.length);
    let way = tables.way(id).ok_or(DropReason::Internal)?;
    let ingress = tables.interface().ok_or(DropReason::Internal)?.index;
    send::transmit(frame, packet, &way, ingress).map(Next::Done)
}

/// Sends a backend's answer on to the client as the service that it stands behind. Other packets
/// are the host's.
///
/// # Errors
/// It cannot be sent.
#[inline(always)]
pub(super) fn reply<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Result<Next, DropReason> {
    const PASS: Next = Next::Done(Verdict::Pass);
    let Scratch { packet, refusal, way, .. } = scratch;
    if !matches!(packet.kind, Kind::Tcp | Kind::Udp) {
        return Ok(PASS);
    }
    let Some(service) = origin(tables, packet) else { return Ok(PASS) };
    // Of no generation: looked up anew.
    (way.generation, way.interface) = ([0; 2], [0; 4]);
    match send::way(tables, packet, way, &service.address, &packet.key.destination) {
        // To the host itself: the answer to a check, or to a connection that it has masqueraded.
        Err(DropReason::RouteNotForwarded) => return Ok(PASS),
        found => found?,
    }
    if let Some(refused) = send::refuse(packet, way) {
        *refusal = refused;
        return Ok(Next::Stage(Stage::Refuse));
    }
    let to = To {
        source_port: service.port,
        destination_port: packet.key.destination_port,
        ..To::addresses(&service.address, &packet.key.destination)
    };
    rewrite::translate(frame, packet, to, Change::of(packet, to)).ok_or(DropReason::Internal)?;
    let ingress = tables.interface().ok_or(DropReason::Internal)?.index;
    send::transmit(frame, packet, way, ingress).map(Next::Done)
}

/// The service that the packet's source stands behind.
#[inline(always)]
fn origin<'t, T: Tables>(tables: &'t T, packet: &Packet) -> Option<&'t ServiceKey> {
    let key = ServiceKey {
        address: packet.key.source,
        port: packet.key.source_port,
        protocol: packet.key.protocol,
        zero: 0,
        zero_too: 0,
    };
    tables.origin(&key)
}
