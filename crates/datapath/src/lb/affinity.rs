//! Clients that stay with their backend: which one, for as long as they come back in time.
//!
//! A record in the session table under a key that no packet has: protocol 0, and the flow's
//! protocol in place of a port.

use super::Scratch;
use super::index::{self, Found, Hash};
use super::layout::{
    Direction, FlowKey, Service, Session, backend_flag, session_flag, session_state,
};
use super::parse::Packet;
use super::tables::Tables;
use super::verdict::DropReason;

/// The backend that the client had last, if it may still take flows.
#[inline(always)]
pub(super) fn recall<T: Tables>(tables: &T, packet: &Packet, key: &mut FlowKey) -> Option<u32> {
    name(packet, key);
    let seed = tables.settings()?.seed;
    let found = index::find(tables, key, Hash::of(key, seed))?;
    let mut record = tables.record(found.session)?;
    let id = u32::from(record.backend_id);
    let backend = tables.backend(id)?;
    if backend.flags & backend_flag::GONE != 0 {
        return None;
    }
    record.last = tables.tick();
    Some(id)
}

/// Remembers the client's backend. Where the table is full it is not remembered, and the client
/// goes where its address is hashed to.
#[inline(always)]
pub(super) fn remember<T: Tables>(
    tables: &T,
    scratch: &mut Scratch,
    service: &Service,
    id: u32,
) -> Result<(), DropReason> {
    let Scratch { packet, key, .. } = scratch;
    name(packet, key);
    let seed = tables.settings().ok_or(DropReason::Internal)?.seed;
    let hash = Hash::of(key, seed);
    #[expect(clippy::cast_possible_truncation, reason = "there are 65,536 backends at most")]
    let backend_id = id as u16;
    if let Some(found) = index::find(tables, key, hash) {
        let mut record = tables.record(found.session).ok_or(DropReason::Internal)?;
        record.backend_id = backend_id;
        record.last = tables.tick();
        return Ok(());
    }
    let Some(session) = tables.take() else { return Ok(()) };
    let mut record = tables.record(session).ok_or(DropReason::Internal)?;
    let fresh: &mut Session = &mut record;
    fresh.client = key.source;
    fresh.vip = key.destination;
    fresh.client_port = key.source_port;
    fresh.vip_port = key.destination_port;
    fresh.protocol = key.protocol;
    fresh.fold();
    let [a, b, c, d] = service.affinity_s.to_ne_bytes();
    (fresh.backend_port, fresh.source_port) = ([a, b], [c, d]);
    fresh.flags = session_flag::AFFINITY;
    fresh.backend_id = backend_id;
    fresh.last = tables.tick();
    fresh.state = session_state::LIVE;
    let found = Found { session, direction: Direction::Forward };
    if index::claim(tables, hash, found).is_err() {
        fresh.state = session_state::LIVE | session_state::ABANDONED;
    }
    Ok(())
}

/// The key of the client's record.
#[inline(always)]
fn name(packet: &Packet, key: &mut FlowKey) {
    key.source = packet.key.source;
    key.destination = packet.key.destination;
    key.source_port = [packet.key.protocol, 0];
    key.destination_port = packet.key.destination_port;
    key.protocol = 0;
}
