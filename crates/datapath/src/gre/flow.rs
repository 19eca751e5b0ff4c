//! What a GRE packet belongs to: its outer source and, where present, its key.

use crate::ip::Packet;
use crate::{DropReason, Frame};
use balance::hash::hash;
use wire::{Address, gre};

/// Seed of the flow hash. It is part of the selection: see `balance::hash::HASH_VERSION`.
pub const FLOW_SEED: u64 = 0x67_7265;

/// A flow: all packets that must reach one backend, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The client: the outer source.
    pub client: Address,
    /// The whole key, unmasked.
    pub key: Option<u32>,
}

impl Flow {
    /// Reads the GRE header of `packet`, whose payload it is. Refuses what RFC 2784 2.2 says to
    /// discard and what is cut short of its own header.
    #[inline(always)]
    pub fn parse(frame: &impl Frame, packet: &Packet, client: Address) -> Result<Self, DropReason> {
        let octets = frame.read(packet.payload).ok_or(DropReason::GreTruncated)?;
        let header = gre::Header::parse(octets)?;
        if packet.payload + header.length() > packet.length {
            return Err(DropReason::GreTruncated);
        }
        let key = match header.key_offset() {
            None => None,
            Some(offset) => {
                let octets = frame.read(packet.payload + offset);
                Some(u32::from_be_bytes(octets.ok_or(DropReason::GreTruncated)?))
            }
        };
        Ok(Self { client, key })
    }

    /// The flow's hash; only the key's bits under the mask count. A flow without a key differs
    /// from one with key 0.
    #[inline(always)]
    pub fn hash(&self, key_mask: u32) -> u64 {
        let [low, high] = self.client.words();
        let key = match self.key {
            None => 0,
            Some(key) => 1 << 32 | u64::from(key & key_mask),
        };
        hash(FLOW_SEED, [low, high, key])
    }
}
