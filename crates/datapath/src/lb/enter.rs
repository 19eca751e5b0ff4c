//! The first stage: what the frame is, and packets of known sessions on their way.

use super::index::{self, Found, Hash};
use super::layout::{Direction, Session, backend_flag, session_state};
use super::parse::{self, Kind, Packet};
use super::rewrite::{self, Change, To};
use super::tables::{Record, Tables};
use super::verdict::{DropReason, Verdict};
use super::{Next, Refusal, Scratch, Stage, send};
use crate::Frame;
use crate::ip::Damage;
use wire::tcp::flag;
use wire::{ethernet, ethernet::Mac};

const PASS: Next = Next::Done(Verdict::Pass);

#[inline(always)]
pub(super) fn enter<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Result<Next, DropReason> {
    let Some(payload) = parse::ethernet(frame) else { return Ok(PASS) };
    let Some(interface) = tables.interface() else { return Ok(PASS) };
    match payload.kind {
        ethernet::kind::IPV4 | ethernet::kind::IPV6 => {}
        ethernet::kind::ARP => {
            (scratch.packet.ip, scratch.packet.vlan) = (payload.at, payload.vlan);
            scratch.packet.kind = Kind::Other;
            return Ok(Next::Stage(Stage::Answer));
        }
        _ => return Ok(PASS),
    }
    let packet = &mut scratch.packet;
    let read = match parse::addresses(frame, payload, packet) {
        Ok(()) => parse::flow(frame, packet),
        // Its addresses are not there: it is nobody's.
        Err(Damage::Truncated) => return Ok(PASS),
        Err(damage) => Err(damage.into()),
    };
    if read.is_ok() && packet.kind == Kind::Solicitation {
        return Ok(Next::Stage(Stage::Answer));
    }
    // A frame for another machine, which the network flooded, is that machine's.
    let destination: Option<Mac> = frame.read(ethernet::field::DESTINATION);
    if destination != Some(interface.mac) {
        return Ok(PASS);
    }
    if let Err(reason) = read {
        return refuse(tables, packet, reason);
    }
    if packet.kind == Kind::Error {
        return Ok(Next::Stage(Stage::Error));
    }
    let seed = tables.settings().ok_or(DropReason::Internal)?.seed;
    let Some(found) = find(tables, packet, seed) else {
        scratch.replaces = 0;
        return Ok(Next::Stage(Stage::Admit));
    };
    follow(frame, tables, scratch, found)
}

/// The packet's session. An echo may have one of its own sequence number's.
#[inline(always)]
fn find<T: Tables>(tables: &T, packet: &mut Packet, seed: u64) -> Option<Found> {
    let found = look(tables, packet, seed);
    if found.is_some() || !matches!(packet.kind, Kind::EchoRequest | Kind::EchoReply) {
        return found;
    }
    packet.name_sequence();
    let found = look(tables, packet, seed);
    if found.is_none() {
        packet.forget_sequence();
    }
    found
}

/// The session of the packet's key, if a packet of its kind can be of one in that direction.
#[inline(always)]
fn look<T: Tables>(tables: &T, packet: &Packet, seed: u64) -> Option<Found> {
    let found = index::find(tables, &packet.key, Hash::of(&packet.key, seed))?;
    packet.may_go(found.direction).then_some(found)
}

/// Drops a packet for one of our addresses; any other is the host's.
#[inline(always)]
fn refuse<T: Tables>(tables: &T, packet: &Packet, reason: DropReason) -> Result<Next, DropReason> {
    match tables.owned(&packet.key.destination) {
        Some(_) => Err(reason),
        None => Ok(PASS),
    }
}

/// A packet of a session: is it to go on, to begin anew, to be reset?
#[inline(always)]
pub(super) fn follow<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
    found: Found,
) -> Result<Next, DropReason> {
    let packet = &scratch.packet;
    let record = tables.record(found.session).ok_or(DropReason::Internal)?;
    let backend = tables.backend(u32::from(record.backend_id)).ok_or(DropReason::Internal)?;
    if found.direction == Direction::Forward {
        let gone = backend.flags & backend_flag::GONE != 0;
        if is_new_start(packet, record.state, gone) {
            scratch.replaces = found.session;
            return Ok(Next::Stage(Stage::Admit));
        }
        if backend.flags & backend_flag::RESET != 0 && packet.kind == Kind::Tcp {
            scratch.refusal = Refusal { reason: DropReason::SessionReset, mtu: 0 };
            return Ok(Next::Stage(Stage::Refuse));
        }
    }
    if packet.flags & flag::SYN != 0 && backend.segment != 0 {
        (scratch.session, scratch.direction) = (found.session, found.direction);
        return Ok(Next::Stage(Stage::Clamp));
    }
    drop(record);
    send(frame, tables, scratch, found)
}

/// Translates a packet of a session and sends it on.
#[inline(always)]
pub(super) fn send<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
    found: Found,
) -> Result<Next, DropReason> {
    let Scratch { packet, refusal, .. } = scratch;
    let ingress = tables.interface().ok_or(DropReason::Internal)?.index;
    let mut record = tables.record(found.session).ok_or(DropReason::Internal)?;
    let id = u32::from(record.backend_id);
    let verdict = match found.direction {
        Direction::Forward => {
            let mut way = tables.way(id).ok_or(DropReason::Internal)?;
            let session: &Session = &record;
            send::way(tables, packet, &mut way, &session.source, &session.backend)?;
            if let Some(refused) = send::refuse(packet, &way) {
                *refusal = refused;
                return Ok(Next::Stage(Stage::Refuse));
            }
            let by = Change { addresses: session.by_addresses, ports: session.by_ports };
            rewrite::translate(frame, packet, forward(session), by).ok_or(DropReason::Internal)?;
            send::transmit(frame, packet, &way, ingress)?
        }
        Direction::Reply => {
            let Session { vip, client, to_client, .. } = &mut *record;
            send::way(tables, packet, to_client, vip, client)?;
            if let Some(refused) = send::refuse(packet, to_client) {
                *refusal = refused;
                return Ok(Next::Stage(Stage::Refuse));
            }
            let session: &Session = &record;
            let by = Change { addresses: !session.by_addresses, ports: !session.by_ports };
            rewrite::translate(frame, packet, reply(session), by).ok_or(DropReason::Internal)?;
            send::transmit(frame, packet, &session.to_client, ingress)?
        }
    };
    touch(tables, packet, &mut record, found.direction);
    tables.count(id, found.direction, packet.length);
    Ok(Next::Done(verdict))
}

/// What the client's packets are translated to.
#[inline(always)]
fn forward(session: &Session) -> To<'_> {
    To {
        source: &session.source,
        destination: &session.backend,
        v4: session.inside,
        source_port: session.source_port,
        destination_port: session.backend_port,
    }
}

/// What the backend's packets are translated to.
#[inline(always)]
fn reply(session: &Session) -> To<'_> {
    To {
        source: &session.vip,
        destination: &session.client,
        v4: session.outside,
        source_port: session.vip_port,
        destination_port: session.client_port,
    }
}

/// Whether the client's packet begins something new: a connection where the last one is closing
/// or its backend is gone; anything but TCP whose backend is gone.
#[inline(always)]
fn is_new_start(packet: &Packet, state: u32, gone: bool) -> bool {
    match packet.kind {
        Kind::Tcp => {
            packet.is_tcp_with(flag::SYN, flag::SYN | flag::ACK)
                && (gone || state & session_state::CLOSING != 0)
        }
        _ => gone,
    }
}

/// Notes that the session is in use, and what the packet says of the connection.
#[inline(always)]
fn touch<T: Tables>(tables: &T, packet: &Packet, record: &mut impl Record, direction: Direction) {
    let now = tables.tick();
    if record.last != now {
        record.last = now;
    }
    let said = said(packet, direction, record.state);
    if record.state | said != record.state {
        let before = record.set_state(said);
        if said & !before & session_state::ESTABLISHED != 0 {
            tables.close_half();
        }
    }
}

/// The state bits that the packet sets.
#[inline(always)]
fn said(packet: &Packet, direction: Direction, state: u32) -> u32 {
    let mut said = match direction {
        Direction::Reply => session_state::ANSWERED,
        Direction::Forward => 0,
    };
    if packet.kind != Kind::Tcp {
        return said;
    }
    let opened = direction == Direction::Forward && state & session_state::ANSWERED != 0;
    if opened && packet.is_tcp_with(flag::ACK, flag::SYN | flag::ACK | flag::RST) {
        said |= session_state::ESTABLISHED;
    }
    if packet.flags & flag::FIN != 0 {
        said |= match direction {
            Direction::Forward => session_state::CLIENT_FIN,
            Direction::Reply => session_state::BACKEND_FIN,
        };
    }
    if packet.flags & flag::RST != 0 {
        said |= session_state::RESET;
    }
    said
}
