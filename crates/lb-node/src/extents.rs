//! Runs of records in an array that the packet core reads: equal runs share one place.
//!
//! A place that nobody refers to any more is used again only after [`REST`]: a packet that found
//! the old reference has long been decided by then.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a place rests between two uses.
pub const REST: Duration = Duration::from_secs(1);

/// A run's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first record.
    pub at: u32,
    /// How many.
    pub length: u32,
}

/// The places of an array, and what is in them.
#[derive(Debug)]
pub struct Extents<T> {
    /// Free places by their first record; neighbours are merged.
    free: BTreeMap<u32, u32>,
    /// Places that rest, oldest first.
    resting: VecDeque<(Instant, Extent)>,
    shared: HashMap<Arc<[T]>, (Extent, u32)>,
}

/// No run of free records is long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<T: Hash + Eq> Extents<T> {
    /// An array of so many records, all free.
    pub fn new(records: u32) -> Self {
        let free = if records == 0 { BTreeMap::new() } else { BTreeMap::from([(0, records)]) };
        Self { free, resting: VecDeque::new(), shared: HashMap::new() }
    }

    /// The place for this run: that of an equal run, or a new one, which `write` fills before
    /// anybody refers to it. It is held once more, until [`Extents::release`].
    ///
    /// # Errors
    /// The array is full.
    pub fn hold(
        &mut self,
        run: Arc<[T]>,
        now: Instant,
        write: impl FnOnce(Extent, &[T]),
    ) -> Result<Extent, Full> {
        if let Some((extent, holders)) = self.shared.get_mut(&run) {
            *holders += 1;
            return Ok(*extent);
        }
        let length = u32::try_from(run.len()).map_err(|_| Full)?;
        self.wake(now);
        let extent = self.place(length).ok_or(Full)?;
        write(extent, &run);
        self.shared.insert(run, (extent, 1));
        Ok(extent)
    }

    /// Holds a run that is in its place already, written by an earlier process.
    pub fn adopt(&mut self, run: Arc<[T]>, extent: Extent) {
        if let Some((_, holders)) = self.shared.get_mut(&run) {
            *holders += 1;
            return;
        }
        self.occupy(extent);
        self.shared.insert(run, (extent, 1));
    }

    /// Takes a place out of the free ones, as far as it is among them.
    fn occupy(&mut self, Extent { at, length }: Extent) {
        let Some((start, free)) = self.free.range(..=at).next_back().map(|(a, l)| (*a, *l)) else {
            return;
        };
        let (end, free_end) = (at.saturating_add(length), start + free);
        if length == 0 || end > free_end {
            return;
        }
        self.free.remove(&start);
        if start < at {
            self.free.insert(start, at - start);
        }
        if end < free_end {
            self.free.insert(end, free_end - end);
        }
    }

    /// Lets a run go that was held.
    pub fn release(&mut self, run: &[T], now: Instant) {
        let Some((extent, holders)) = self.shared.get_mut(run) else { return };
        *holders -= 1;
        if *holders == 0 {
            let extent = *extent;
            self.shared.remove(run);
            if extent.length > 0 {
                self.resting.push_back((now, extent));
            }
        }
    }

    /// Records that are not in use; some of them may still rest.
    pub fn unused(&self) -> u32 {
        let resting: u32 = self.resting.iter().map(|(_, extent)| extent.length).sum();
        self.free.values().sum::<u32>() + resting
    }

    fn place(&mut self, length: u32) -> Option<Extent> {
        if length == 0 {
            return Some(Extent { at: 0, length: 0 });
        }
        // The shortest that is long enough, so that long runs stay long.
        let fitting = self.free.iter().filter(|(_, free)| **free >= length);
        let (at, free) = fitting.min_by_key(|(_, free)| **free).map(|(at, free)| (*at, *free))?;
        self.free.remove(&at);
        if free > length {
            self.free.insert(at + length, free - length);
        }
        Some(Extent { at, length })
    }

    /// Makes places free that have rested.
    fn wake(&mut self, now: Instant) {
        while let Some((since, extent)) = self.resting.front().copied() {
            if now.saturating_duration_since(since) < REST {
                break;
            }
            self.resting.pop_front();
            self.insert_free(extent);
        }
    }

    fn insert_free(&mut self, Extent { mut at, mut length }: Extent) {
        if let Some((before, free)) = self.free.range(..at).next_back().map(|(a, l)| (*a, *l))
            && before + free == at
        {
            self.free.remove(&before);
            (at, length) = (before, free + length);
        }
        if let Some(free) = self.free.remove(&(at + length)) {
            length += free;
        }
        self.free.insert(at, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(records: &[u32]) -> Arc<[u32]> {
        records.into()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
    fn equal_runs_share_a_place_and_a_place_rests_before_it_is_used_again() {
        let start = Instant::now();
        let mut extents = Extents::new(6);
        let mut hold = |records: &[u32], now| {
            let mut written = None;
            let held = extents.hold(run(records), now, |extent, _| written = Some(extent));
            (held, written.is_some())
        };
        let (first, wrote) = hold(&[1, 2, 3], start);
        assert!(wrote);
        let (second, wrote) = hold(&[1, 2, 3], start);
        assert!(!wrote && first == second);
        let (third, _) = hold(&[4, 5, 6], start);
        assert_ne!(first, third);
        assert_eq!(hold(&[7], start).0, Err(Full));
        extents.release(&[1, 2, 3], start);
        assert_eq!(extents.hold(run(&[7]), start + REST, |_, _| {}), Err(Full), "held twice");
        extents.release(&[1, 2, 3], start);
        assert_eq!(extents.hold(run(&[7]), start, |_, _| {}), Err(Full), "still resting");
        let again = extents.hold(run(&[7]), start + REST, |_, _| {}).unwrap();
        assert_eq!(again, Extent { at: 0, length: 1 });
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
    fn an_adopted_run_is_not_overwritten_and_is_shared() {
        let (start, mut extents) = (Instant::now(), Extents::new(8));
        extents.adopt(run(&[5, 5]), Extent { at: 3, length: 2 });
        let low = extents.hold(run(&[1, 1, 1]), start, |_, _| {}).unwrap();
        let high = extents.hold(run(&[2, 2, 2]), start, |_, _| {}).unwrap();
        assert_eq!((low.at, high.at), (0, 5));
        let shared = extents.hold(run(&[5, 5]), start, |_, _| panic!("it is there")).unwrap();
        assert_eq!(shared, Extent { at: 3, length: 2 });
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
    fn free_neighbours_grow_together() {
        let (start, mut extents) = (Instant::now(), Extents::new(9));
        for value in 0..3u32 {
            extents.hold(run(&[value; 3]), start, |_, _| {}).unwrap();
        }
        for value in [0, 2, 1u32] {
            extents.release(&[value; 3], start);
        }
        assert_eq!(extents.unused(), 9);
        let whole = extents.hold(run(&[9; 9]), start + REST, |_, _| {});
        assert_eq!(whole, Ok(Extent { at: 0, length: 9 }));
    }
}
