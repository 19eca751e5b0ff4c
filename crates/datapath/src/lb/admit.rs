//! Packets without a session: which service they are for, which backend takes them, and the
//! record of the session to be.

use super::layout::{
    Backend, Direction, Hop, Service, ServiceKey, Session, backend_flag, owned_kind, service_flag,
    session_state,
};
use super::parse::{Kind, Packet};
use super::tables::Tables;
use super::verdict::DropReason;
use super::{Next, Refusal, Scratch, Stage, affinity, send, stateless};
use crate::Frame;
use balance::hash::{hash, row_in};
use wire::ethernet;
use wire::tcp::flag;

/// Seed of the hash that names a flow's row. The same on every node.
pub const SELECTION_SEED: u64 = 0x6c62;

#[inline(always)]
pub(super) fn admit<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Result<Next, DropReason> {
    let Some(service) = service(tables, &scratch.packet) else {
        return stray(frame, tables, scratch);
    };
    let Scratch { packet, key, .. } = &mut *scratch;
    if !packet.key.source.is_routable() || packet.key.source.family() != packet.family {
        return Err(DropReason::SourceInvalid);
    }
    if service.flags & service_flag::ICMP_PER_SEQUENCE != 0 {
        packet.name_sequence();
    }
    let sticky = service.affinity_s != 0;
    let recalled = if sticky { affinity::recall(tables, packet, key) } else { None };
    let id = match recalled {
        Some(id) => id,
        None => choose(tables, packet, service)?,
    };
    let backend = tables.backend(id).ok_or(DropReason::Internal)?;
    let twice =
        service.flags & service_flag::TWICE_NAT != 0 || backend.address == packet.key.source;
    let starts = packet.is_tcp_with(flag::SYN, flag::SYN | flag::ACK | flag::RST);
    if packet.kind == Kind::Tcp && !starts && (twice || packet.flags & flag::RST != 0) {
        return Err(DropReason::NoSession);
    }
    {
        let mut way = tables.way(id).ok_or(DropReason::Internal)?;
        send::way(tables, packet, &mut way, &packet.key.source, &backend.address)?;
        if let Some(refusal) = send::refuse(packet, &way) {
            scratch.refusal = refusal;
            return Ok(Next::Stage(Stage::Refuse));
        }
    }
    if sticky && recalled.is_none() {
        affinity::remember(tables, scratch, service, id)?;
    }
    match open(frame, tables, scratch, backend, id) {
        Ok(session) if session == scratch.replaces => Ok(Next::Stage(Stage::Enter)),
        Ok(session) => {
            (scratch.session, scratch.tries) = (session, 0);
            scratch.twice = u32::from(twice);
            Ok(Next::Stage(Stage::Claim))
        }
        Err(reason) if twice => Err(reason),
        Err(reason) => stateless::forward(frame, tables, scratch, backend, id, reason),
    }
}

/// A session for the flow: the one that it had, if that was with the same backend, or a new one.
#[inline(always)]
fn open<F: Frame, T: Tables>(
    frame: &F,
    tables: &T,
    scratch: &Scratch,
    backend: &Backend,
    id: u32,
) -> Result<u32, DropReason> {
    let half = scratch.packet.kind == Kind::Tcp;
    if half && !tables.open_half() {
        return Err(DropReason::HalfOpenExhausted);
    }
    if reopen(tables, scratch, id) {
        return Ok(scratch.replaces);
    }
    let created = create(frame, tables, scratch, backend, id);
    if created.is_err() && half {
        tables.close_half();
    }
    created
}

/// The service that the packet asks for: of exactly its port, else of every port.
#[inline(always)]
fn service<'t, T: Tables>(tables: &'t T, packet: &Packet) -> Option<&'t Service> {
    if !packet.may_go(Direction::Forward) {
        return None;
    }
    let mut key = ServiceKey {
        address: packet.key.destination,
        port: packet.key.destination_port,
        protocol: packet.key.protocol,
        zero: 0,
        zero_too: 0,
    };
    if let Some(service) = tables.service(&key) {
        return Some(service);
    }
    key.port = [0; 2];
    tables.service(&key)
}

/// A packet for no service: the host's, unless it is for an address of ours alone, or a backend's
/// answer that no session knows.
#[inline(always)]
fn stray<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Result<Next, DropReason> {
    let packet = &scratch.packet;
    let kind = tables.owned(&packet.key.destination).map(|owned| owned.kind);
    match kind {
        None => stateless::reply(frame, tables, scratch),
        Some(owned_kind::SOURCE) => Err(DropReason::NoSession),
        Some(_) if packet.kind == Kind::EchoRequest => Ok(Next::Stage(Stage::Answer)),
        Some(_) => {
            scratch.refusal = Refusal { reason: DropReason::NoService, mtu: 0 };
            Ok(Next::Stage(Stage::Refuse))
        }
    }
}

/// The backend that takes the flow: the row's choice, or its other one where that is gone. What may
/// be the middle of a connection stays with a backend that is gone.
#[inline(always)]
fn choose<T: Tables>(tables: &T, packet: &Packet, service: &Service) -> Result<u32, DropReason> {
    if service.rows == 0 {
        return Err(DropReason::NoBackend);
    }
    let row = row_in(selection(packet, service), service.rows);
    let row = tables.row(service.rows_at.wrapping_add(row)).ok_or(DropReason::NoBackend)?;
    let starts = packet.is_tcp_with(flag::SYN, flag::SYN | flag::ACK);
    let (choice, other) = if row.is_moving() && !starts {
        (row.second(), row.first())
    } else {
        (row.first(), row.second())
    };
    let id = tables.member(service.members_at.wrapping_add(choice)).ok_or(DropReason::Internal)?;
    if packet.kind == Kind::Tcp && !starts || !is_gone(tables, id) {
        return Ok(id);
    }
    let id = tables.member(service.members_at.wrapping_add(other)).ok_or(DropReason::Internal)?;
    if is_gone(tables, id) { Err(DropReason::NoBackend) } else { Ok(id) }
}

/// Whether the backend takes new flows no longer.
#[inline(always)]
fn is_gone<T: Tables>(tables: &T, id: u32) -> bool {
    tables.backend(id).is_none_or(|backend| backend.flags & backend_flag::GONE != 0)
}

/// The hash that names the flow's row: of the client, and of its port unless it is to stay with
/// its backend.
#[inline(always)]
fn selection(packet: &Packet, service: &Service) -> u64 {
    let [s0, s1] = packet.key.source.words();
    let [d0, d1] = packet.key.destination.words();
    let [a, b] = if service.affinity_s == 0 { packet.key.source_port } else { [0; 2] };
    let [c, d] = packet.key.destination_port;
    let rest = u64::from_le_bytes([a, b, c, d, packet.key.protocol, 0, 0, 0]);
    hash(SELECTION_SEED, [s0, s1, d0, d1, rest])
}

/// Begins the connection's last session anew, if it was with the same backend.
#[inline(always)]
fn reopen<T: Tables>(tables: &T, scratch: &Scratch, id: u32) -> bool {
    if scratch.replaces == 0 {
        return false;
    }
    let Some(mut record) = tables.record(scratch.replaces) else { return false };
    if u32::from(record.backend_id) != id {
        return false;
    }
    // It counts as half-open again, and once.
    if scratch.packet.kind == Kind::Tcp && record.state & session_state::ESTABLISHED == 0 {
        tables.close_half();
    }
    record.state = session_state::LIVE;
    record.last = tables.tick();
    tables.count_session(id);
    true
}

/// Takes a record and fills it. It is abandoned until its keys are entered.
#[inline(always)]
fn create<F: Frame, T: Tables>(
    frame: &F,
    tables: &T,
    scratch: &Scratch,
    backend: &Backend,
    id: u32,
) -> Result<u32, DropReason> {
    let session = tables.take().ok_or(DropReason::SessionsExhausted)?;
    let mut record = tables.record(session).ok_or(DropReason::Internal)?;
    let fresh: &mut Session = &mut record;
    let key = &scratch.packet.key;
    fresh.client = key.source;
    fresh.vip = key.destination;
    fresh.backend = backend.address;
    fresh.source = key.source;
    fresh.client_port = key.source_port;
    fresh.vip_port = key.destination_port;
    fresh.source_port = key.source_port;
    fresh.backend_port = match scratch.packet.kind {
        Kind::Tcp | Kind::Udp if backend.port != [0; 2] => backend.port,
        _ => key.destination_port,
    };
    fresh.protocol = key.protocol;
    fresh.flags = 0;
    #[expect(clippy::cast_possible_truncation, reason = "there are 65,536 backends at most")]
    let id = id as u16;
    fresh.backend_id = id;
    fresh.last = tables.tick();
    fresh.state = session_state::LIVE | session_state::ABANDONED;
    way_back(frame, tables, &scratch.packet, &mut fresh.to_client)?;
    Ok(session)
}

/// The way that the packet came, for as long as the routing tables know no neighbour there: on
/// its own subnet a client is a neighbour that nobody has asked for yet.
#[inline(always)]
fn way_back<F: Frame, T: Tables>(
    frame: &F,
    tables: &T,
    packet: &Packet,
    hop: &mut Hop,
) -> Result<(), DropReason> {
    let octets: [u8; 12] = frame.read(0).ok_or(DropReason::Internal)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = octets;
    hop.addresses = [g, h, i, j, k, l, a, b, c, d, e, f];
    hop.interface = tables.interface().ok_or(DropReason::Internal)?.index.to_ne_bytes();
    hop.mtu = u16::MAX.to_ne_bytes();
    hop.vlan = (packet.vlan & ethernet::VLAN_ID).to_ne_bytes();
    hop.generation = [0; 2];
    Ok(())
}
