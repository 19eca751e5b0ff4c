//! The session index: from a flow's key to its session, without a helper call.
//!
//! A key's hash names two buckets of eight words, the second one for when the first is full. A
//! word is a hint: a hit counts only after the record's key compares equal. No two entries of a
//! pair of buckets have the same tag, so one comparison decides; keys with equal tags have the
//! same pair. Words appear by compare-exchange and disappear only through the sweeper in
//! userspace, so a record that was found stays what it is for as long as a packet takes.

use super::layout::{BUCKET, Direction, Entry, FlowKey};
use super::tables::{Bucket, PLACES, Tables};
use super::verdict::DropReason;
use core::ops::Range;

const M0: u64 = 0x9e37_79b9_7f4a_7c15;
const M1: u64 = 0xd6e8_feb8_6659_fd93;
const M2: u64 = 0xa076_1d64_78bd_642f;
const M3: u64 = 0xe703_7ed1_a0b4_28db;
const M4: u64 = 0x8ebc_6af0_9c88_c6e3;

/// Places of a first bucket that are taken only when the second one is full.
const RESERVE: usize = 2;

/// A key's hash: lower half the bucket, upper half the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u64);

impl Hash {
    /// The hash of a key. Five independent multiplications and one avalanche: it is computed for
    /// every packet, and needs no other quality than to spread over buckets and tags.
    #[inline(always)]
    pub fn of(key: &FlowKey, seed: u64) -> Self {
        let [s0, s1] = key.source.words();
        let [d0, d1] = key.destination.words();
        let [a, b] = key.source_port;
        let [c, d] = key.destination_port;
        let rest = u64::from_ne_bytes([a, b, c, d, key.protocol, 0, 0, 0]);
        let mut hash = (s1 ^ seed).wrapping_mul(M0)
            ^ (d1 ^ seed.rotate_left(32)).wrapping_mul(M1).rotate_left(21)
            ^ (rest ^ seed.rotate_left(16)).wrapping_mul(M2).rotate_left(42)
            ^ s0.wrapping_mul(M3).rotate_left(11)
            ^ d0.wrapping_mul(M4).rotate_left(53);
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(M0);
        hash ^= hash >> 29;
        hash = hash.wrapping_mul(M1);
        Self(hash ^ hash >> 32)
    }

    /// The upper half: what tells keys of one bucket apart.
    #[inline(always)]
    #[must_use]
    pub const fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The two buckets' numbers.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    #[must_use]
    pub const fn buckets(self) -> [u32; 2] {
        let first = self.0 as u32;
        // Odd, so that the second is never the first.
        [first, first ^ (self.tag().wrapping_mul(0x5bd1_e995) | 1)]
    }
}

/// A session and which of its keys was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The session.
    pub session: u32,
    /// The key's direction.
    pub direction: Direction,
}

/// The session of this key.
#[inline(always)]
pub(super) fn find(tables: &impl Tables, key: &FlowKey, hash: Hash) -> Option<Found> {
    let entry = tagged(tables, hash, Entry::EMPTY);
    if entry == Entry::EMPTY {
        return None;
    }
    let record = tables.record(entry.session())?;
    let found = Found { session: entry.session(), direction: entry.direction() };
    record.has(found.direction, key).then_some(found)
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    bucket: u32,
    place: usize,
}

/// Enters a key of a session. Two processors that enter one key at the same moment both see the
/// other's entry, and both take theirs back.
///
/// # Errors
/// No place is free, or the key's tag is there already.
#[inline(always)]
pub(super) fn claim(tables: &impl Tables, hash: Hash, found: Found) -> Result<Place, DropReason> {
    let entry = entry(hash, found);
    let place = insert(tables, hash, entry)?;
    if tagged(tables, hash, entry) != Entry::EMPTY {
        release(tables, place, entry);
        return Err(DropReason::SessionRace);
    }
    Ok(place)
}

/// Whether a session has this key, or one that cannot be told from it by its tag.
#[inline(always)]
pub(super) fn is_taken(tables: &impl Tables, hash: Hash) -> bool {
    holder(tables, hash).is_some()
}

/// The session that [`is_taken`] tells of.
#[inline(always)]
pub(super) fn holder(tables: &impl Tables, hash: Hash) -> Option<Found> {
    let entry = tagged(tables, hash, Entry::EMPTY);
    let found = Found { session: entry.session(), direction: entry.direction() };
    (entry != Entry::EMPTY).then_some(found)
}

/// The entry with the hash's tag, other than this one: there is one at most in its two buckets,
/// see [`claim`].
#[inline(always)]
fn tagged(tables: &impl Tables, hash: Hash, other_than: Entry) -> Entry {
    for number in hash.buckets() {
        let Some(bucket) = tables.bucket(number) else { return Entry::EMPTY };
        for place in PLACES {
            let entry = bucket.get(place);
            if entry.tag() == hash.tag() && entry != other_than && entry != Entry::EMPTY {
                return entry;
            }
        }
    }
    Entry::EMPTY
}

/// Puts another session in the place of this one under the key that both have. `None` if it is
/// there no longer.
#[inline(always)]
pub(super) fn replace(tables: &impl Tables, hash: Hash, old: Found, new: Found) -> Option<Place> {
    let (old, new) = (entry(hash, old), entry(hash, new));
    for number in hash.buckets() {
        let bucket = tables.bucket(number)?;
        for place in PLACES {
            if bucket.get(place) == old {
                let place = Place { bucket: number, place };
                return bucket.exchange(place.place, old, new).then_some(place);
            }
        }
    }
    None
}

/// Puts an entry in a free place: in its first bucket while that has more than [`RESERVE`], or else
/// in its second one. So few buckets fill up, and few packets look into a second one.
#[inline(always)]
fn insert(tables: &impl Tables, hash: Hash, entry: Entry) -> Result<Place, DropReason> {
    let [first, second] = hash.buckets();
    insert_in(tables, first, 0..BUCKET - RESERVE, entry)
        .or_else(|| insert_in(tables, second, PLACES, entry))
        .or_else(|| insert_in(tables, first, BUCKET - RESERVE..BUCKET, entry))
        .ok_or(DropReason::IndexFull)
}

#[inline(always)]
fn insert_in(
    tables: &impl Tables,
    number: u32,
    places: Range<usize>,
    entry: Entry,
) -> Option<Place> {
    let bucket = tables.bucket(number)?;
    for place in places {
        if bucket.get(place) == Entry::EMPTY && bucket.exchange(place, Entry::EMPTY, entry) {
            return Some(Place { bucket: number, place });
        }
    }
    None
}

/// Takes an entry back that was entered a moment ago.
#[inline(always)]
pub(super) fn release(tables: &impl Tables, at: Place, entry: Entry) {
    if let Some(bucket) = tables.bucket(at.bucket) {
        bucket.exchange(at.place, entry, Entry::EMPTY);
    }
}

/// The entry of a key in this direction.
#[inline(always)]
pub(super) fn entry(hash: Hash, found: Found) -> Entry {
    Entry::new(hash.tag(), found.session, found.direction)
}
