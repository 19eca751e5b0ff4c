//! A new session's keys: what the backend sees as the client, and that both sides are found again.
//!
//! The backend sees the client itself, or an address and port of ours. These are taken towards one
//! backend address and port only: claiming the key of its replies is the allocation. A client
//! keeps its own port where it is free, so that another node would choose the same.
//!
//! A packet comes here as often as the search needs: the kernel's verifier follows a few tries.

use super::index::{self, Found, Hash};
use super::layout::{Backend, Direction, FlowKey, Session, Source, session_flag, session_state};
use super::parse::{Kind, Packet};
use super::tables::{Record, Tables};
use super::verdict::DropReason;
use super::{Next, Scratch, Stage, enter};
use crate::Frame;

use balance::hash::{hash, row_in};
use core::num::NonZeroU32;
use wire::Address;

/// Pairs of address and port that are tried for one new session.
pub(super) const MAX_TRIES: u32 = 128;
/// How many of them in one run of the stage.
const TRIES_A_RUN: u32 = 8;

const SOURCE_SEED: u64 = 0x0073_7263;

#[inline(always)]
pub(super) fn claim<F: Frame, T: Tables>(
    frame: &mut F,
    tables: &T,
    scratch: &mut Scratch,
) -> Result<Next, DropReason> {
    match claim_both(tables, scratch) {
        // The packet goes on as any other of its session.
        Ok(Some(found)) => enter::follow(frame, tables, scratch, found),
        Ok(None) => Ok(Next::Stage(Stage::Claim)),
        Err(reason) => {
            if scratch.packet.kind == Kind::Tcp {
                tables.close_half();
            }
            Err(reason)
        }
    }
}

/// The session's forward key, or `None` where the search must go on.
#[inline(always)]
fn claim_both<T: Tables>(tables: &T, scratch: &mut Scratch) -> Result<Option<Found>, DropReason> {
    let seed = tables.settings().ok_or(DropReason::Internal)?.seed;
    let session = scratch.session;
    let mut record = tables.record(session).ok_or(DropReason::Internal)?;
    let id = u32::from(record.backend_id);
    let backend = tables.backend(id).ok_or(DropReason::Internal)?;
    let Some(Free { hash, left }) = free(tables, scratch, &mut record, backend, seed)? else {
        return Ok(None);
    };
    record.fold();
    let reply = Found { session, direction: Direction::Reply };
    let place = match left {
        None => index::claim(tables, hash, reply)?,
        Some(left) => index::replace(tables, hash, left, reply).ok_or(DropReason::SessionRace)?,
    };
    // From here on replies find the session: it must be whole.
    record.state = session_state::LIVE;
    if let Err(reason) = claim_forward(tables, scratch, seed) {
        index::release(tables, place, index::entry(hash, reply));
        record.set_state(session_state::ABANDONED);
        return Err(reason);
    }
    tables.count_session(id);
    scratch.replaces = 0;
    Ok(Some(Found { session, direction: Direction::Forward }))
}

/// A key of replies that a new session can have.
struct Free {
    hash: Hash,
    /// Who has it until then: a session that the same flow has left.
    left: Option<Found>,
}

/// Looks for a free key of the session's replies: the client's own address first unless the
/// service hides it. `None` where the search must go on.
///
/// # Errors
/// Every try was in vain.
#[inline(always)]
fn free<T: Tables>(
    tables: &T,
    scratch: &mut Scratch,
    session: &mut Session,
    backend: &Backend,
    seed: u64,
) -> Result<Option<Free>, DropReason> {
    let Scratch { packet, key, tries, twice, .. } = scratch;
    key.source = session.backend;
    key.source_port = session.backend_port;
    key.protocol = session.protocol;
    if *twice == 0 {
        key.destination = session.client;
        key.destination_port = session.client_port;
        let hash = Hash::of(key, seed);
        let holder = index::holder(tables, hash);
        if holder.is_none_or(|holder| is_left(tables, packet, key, holder)) {
            return Ok(Some(Free { hash, left: holder }));
        }
        // Another service of the same backend has this client and port: tell them apart.
        *twice = 1;
    }
    session.flags |= session_flag::TWICE_NAT;
    let start = Start::of(packet);
    if backend.sources == 0 {
        return Err(DropReason::SnatExhausted);
    }
    for _ in 0..TRIES_A_RUN {
        if *tries >= MAX_TRIES {
            return Err(DropReason::SnatExhausted);
        }
        let candidate = candidate(tables, packet, backend, start, *tries);
        *tries += 1;
        let Some((address, port)) = candidate else { continue };
        key.destination = *address;
        key.destination_port = port;
        let hash = Hash::of(key, seed);
        if !index::is_taken(tables, hash) {
            session.source = key.destination;
            session.source_port = key.destination_port;
            return Ok(Some(Free { hash, left: None }));
        }
    }
    Ok(None)
}

/// Whether the session that has this key of replies is one that the packet's flow has left for
/// another backend: the flow may have the key again when it comes back.
#[inline(always)]
fn is_left<T: Tables>(tables: &T, packet: &Packet, key: &FlowKey, holder: Found) -> bool {
    let Some(record) = tables.record(holder.session) else { return false };
    let is_same_service =
        record.vip == packet.key.destination && record.vip_port == packet.key.destination_port;
    holder.direction == Direction::Reply
        && record.state & session_state::REPLACED != 0
        && is_same_service
        && record.has(Direction::Reply, key)
}

/// Enters the client's key, in place of the session that the flow leaves.
#[inline(always)]
fn claim_forward<T: Tables>(tables: &T, scratch: &Scratch, seed: u64) -> Result<(), DropReason> {
    let hash = Hash::of(&scratch.packet.key, seed);
    let new = Found { session: scratch.session, direction: Direction::Forward };
    if scratch.replaces == 0 {
        return index::claim(tables, hash, new).map(|_| ());
    }
    let old = Found { session: scratch.replaces, direction: Direction::Forward };
    index::replace(tables, hash, old, new).ok_or(DropReason::SessionRace)?;
    if let Some(mut record) = tables.record(scratch.replaces) {
        record.set_state(session_state::REPLACED);
    }
    Ok(())
}

/// Where the search for an address and port starts: the same on every node.
#[derive(Clone, Copy)]
struct Start {
    address: u64,
    port: u64,
}

impl Start {
    #[inline(always)]
    fn of(packet: &Packet) -> Self {
        let [s0, s1] = packet.key.source.words();
        let address = hash(SOURCE_SEED, [s0, s1]);
        let own = u16::from_be_bytes(packet.key.source_port);
        Self { address, port: hash(SOURCE_SEED, [address, u64::from(own)]) }
    }
}

/// The address and port of one try: the client's own port first, then every port from a scattered
/// start on, over all addresses. `None` for an address whose ports have all had their turn.
#[inline(always)]
fn candidate<'t, T: Tables>(
    tables: &'t T,
    packet: &Packet,
    backend: &Backend,
    start: Start,
    try_number: u32,
) -> Option<(&'t Address, [u8; 2])> {
    let sources = NonZeroU32::new(backend.sources)?;
    let first = row_in(start.address, sources.get());
    let at = first.wrapping_add(try_number) % sources;
    let source = tables.source(backend.sources_at.wrapping_add(at))?;
    let step = try_number.saturating_sub(1) / sources;
    if packet.kind == Kind::Other {
        return (step == 0).then_some((&source.address, [0; 2]));
    }
    let own = u16::from_be_bytes(packet.key.source_port);
    if try_number == 0 && (source.first_port..=source.last_port).contains(&own) {
        return Some((&source.address, packet.key.source_port));
    }
    let span = span(source);
    let offset = row_in(start.port, span.get()).wrapping_add(step) % span;
    #[expect(clippy::cast_possible_truncation, reason = "first_port + span <= 65,536")]
    let port = (u32::from(source.first_port) + offset) as u16;
    (step < span.get()).then_some((&source.address, port.to_be_bytes()))
}

/// How many ports the source has.
#[inline(always)]
fn span(source: &Source) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(u32::from(source.last_port.saturating_sub(source.first_port)))
}
