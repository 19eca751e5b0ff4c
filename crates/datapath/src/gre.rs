//! Distribution of GRE tunnels: which backend a packet belongs to, and what it looks like on the
//! way there and back.
//!
//! ```text
//! client -> frontend   forward    the flow's row names a backend; same family: readdress;
//!                                 other family: terminate the envelope and build a new one
//! backend -> return    reply      other family only: back into the frontend's envelope
//! router -> frontend   error      an ICMP error about a reply: to the backend of the quoted flow
//! router -> return     error      an ICMP error about a packet to a backend: to the client
//! ```
//! The GRE header and payload are never written. A flow is the outer source and, where present,
//! the GRE key. Version 1 (PPTP) and RFC 1701 routing are dropped.

pub mod error;
mod flow;
mod forward;
mod message;
mod reply;
mod translate;

pub use error::error_to;
pub use flow::{FLOW_SEED, Flow};

use crate::ip::{self, Packet, Part};
use crate::{DropReason, Frame, Verdict};
use wire::{Address, Family, protocol};

/// A distributor's frontend and how it reaches backends of the other family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The address that clients send to.
    pub frontend: Address,
    /// The bits of the key that count for the choice of a backend; all of them by default.
    pub key_mask: u32,
    /// Where replies of backends of the other family return to.
    pub returns: Returns,
}

/// Return addresses for backends of the other family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// All backends are of the frontend's family and answer the client themselves.
    None,
    /// IPv4 clients to IPv6 backends: this /96 embeds the client (RFC 6052 2.2).
    Prefix([u8; 12]),
    /// IPv6 clients to IPv4 backends: a pool address and the key name the client.
    Pool,
}

/// What the distributor asks of its tables, beside the route.
pub trait Tables: crate::Tables {
    /// The frontend's parameters.
    fn service(&self) -> Service;
    /// The backend that has won the row; `None` if no backend is healthy.
    fn row(&self, row: u16) -> Option<u16>;
    /// A backend's address.
    fn backend(&self, index: u16) -> Option<Address>;
    /// The backend of this address, healthy or not.
    fn backend_of(&self, address: Address) -> Option<u16>;
    /// Whether the IPv4 address is one of the pool.
    fn in_pool(&self, address: Address) -> bool;
    /// The pool address that stands for this client and key: the recorded one, or a new one,
    /// recorded, searched from `hash` on. `None` if none is free.
    fn claim(&mut self, client: Address, key: u32, hash: u64) -> Option<Address>;
    /// The pool address recorded for this client and key.
    fn pool_address(&self, client: Address, key: u32) -> Option<Address>;
    /// The client for which this pool address and key stand.
    fn client(&self, pool: Address, key: u32) -> Option<Address>;
    /// The client for which this pool address and key stand was answered: its record stays.
    fn refresh(&mut self, pool: Address, key: u32);
}

/// Decides about one packet and makes it ready for what the verdict says.
#[inline(always)]
pub fn process<F: Frame, T: Tables>(frame: &mut F, tables: &mut T) -> Verdict {
    decide(frame, tables).unwrap_or_else(Verdict::Drop)
}

#[inline(always)]
fn decide<F: Frame, T: Tables>(frame: &mut F, tables: &mut T) -> Result<Verdict, DropReason> {
    let header = ip::Header::parse(frame)?;
    let service = tables.service();
    let Some(role) = role(&header, &service, tables) else { return Ok(Verdict::Pass) };
    let packet = Packet::behind(&header, frame)?;
    match (role, packet.protocol, packet.family) {
        (Role::Frontend, protocol::GRE, _) => {
            whole(frame, &packet)?;
            forward::forward(frame, &packet, &service, tables)
        }
        (Role::Return, protocol::GRE, _) => {
            whole(frame, &packet)?;
            reply::reply(frame, &packet, &service, tables)
        }
        (Role::Frontend, protocol::ICMP, Family::V4)
        | (Role::Frontend, protocol::ICMPV6, Family::V6) => {
            error::to_backend(frame, &packet, &service, tables)
        }
        (Role::Return, protocol::ICMP, Family::V4)
        | (Role::Return, protocol::ICMPV6, Family::V6) => {
            error::to_client(frame, &packet, &service, tables)
        }
        _ => Ok(Verdict::Pass),
    }
}

/// What the destination of a packet is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The frontend.
    Frontend,
    /// A return address, for replies of backends of the other family.
    Return,
}

/// `None` if the packet is not for us, whatever else is wrong with it.
#[inline(always)]
fn role<T: Tables>(header: &ip::Header, service: &Service, tables: &T) -> Option<Role> {
    let destination = header.destination()?;
    if destination == service.frontend {
        return Some(Role::Frontend);
    }
    let returned = match service.returns {
        Returns::None => false,
        Returns::Prefix(high) => destination.family() == Family::V6 && destination.high12() == high,
        Returns::Pool => destination.family() == Family::V4 && tables.in_pool(destination),
    };
    returned.then_some(Role::Return)
}

/// Cuts what lies behind the packet, and refuses a fragment: only the first has a GRE header.
#[inline(always)]
fn whole<F: Frame>(frame: &mut F, packet: &Packet) -> Result<(), DropReason> {
    match packet.part {
        Part::Whole => frame.truncate(packet.length).ok_or(DropReason::OuterTruncated),
        Part::First | Part::Later => Err(DropReason::OuterFragment),
    }
}

#[cfg(test)]
mod tests;
