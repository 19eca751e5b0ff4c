//! Backend of the other family to client, through a return address.

use super::{Flow, Returns, Service, Tables, forward, translate};
use crate::ip::Packet;
use crate::{DropReason, Frame, Verdict};
use wire::Address;

/// Puts a reply back into the frontend's envelope. Only a backend may reply: a return address is
/// no open relay.
#[inline(always)]
pub(super) fn reply<F: Frame, T: Tables>(
    frame: &mut F,
    packet: &Packet,
    service: &Service,
    tables: &mut T,
) -> Result<Verdict, DropReason> {
    if !packet.has_routable_source() {
        return Err(DropReason::SourceInvalid);
    }
    let index = tables.backend_of(packet.source).ok_or(DropReason::BackendUnknown)?;
    let returned = Flow::parse(frame, packet, packet.destination)?;
    let client = client(&returned, service, tables).ok_or(DropReason::ClientUnknown)?;
    let fib = tables.fib(client).ok_or(DropReason::NoRoute)?;
    if let Some(verdict) = forward::refuse(frame, packet, client.family(), fib, tables) {
        return Ok(verdict);
    }
    let hash = Flow { client, key: returned.key }.hash(service.key_mask);
    translate::envelope(frame, packet, service.frontend, client, hash, tables)?;
    if let (Returns::Pool, Some(key)) = (service.returns, returned.key) {
        tables.refresh(packet.destination, key);
    }
    Ok(Verdict::ToClient(index))
}

/// Whom the return address stands for.
#[inline(always)]
pub(super) fn client<T: Tables>(returned: &Flow, service: &Service, tables: &T) -> Option<Address> {
    let client = match service.returns {
        Returns::None => None,
        Returns::Prefix(_) => Some(Address::v4(returned.client.low4())),
        Returns::Pool => tables.client(returned.client, returned.key?),
    }?;
    client.is_routable().then_some(client)
}
