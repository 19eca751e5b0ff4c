//! Selection algorithms of all tiers: key and weighted candidates in, candidate out.
//!
//! One question, one hash: every node of a fleet that runs the same [`hash::HASH_VERSION`] builds
//! the same table from the same candidates, in whatever order they are configured. All
//! arithmetic is integer or fixed point, so no two machines can disagree in the last bit.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(feature = "alloc")]
pub mod bounded;
#[cfg(test)]
#[cfg(feature = "alloc")]
mod figures;
pub mod hash;
#[cfg(feature = "alloc")]
pub mod logarithm;
#[cfg(feature = "alloc")]
pub mod maglev;
#[cfg(feature = "alloc")]
pub mod proportional;
#[cfg(feature = "alloc")]
pub mod rendezvous;
#[cfg(feature = "alloc")]
pub mod size;
#[cfg(feature = "alloc")]
pub mod table;
