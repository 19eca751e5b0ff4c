//! Copies of packets, from the moment that they are asked for until that ends.
//!
//! What switches the copying on is a deadline, set anew again and again: where the asker is killed,
//! it ends by itself.

use crate::view::Shared;
use crate::{Clock, Error, Octets, View};
use aya::maps::{MapData, PerCpuArray, RingBuf};
use datapath::lb::capture::{Captured, Outcome, deadline, is_before};
use datapath::lb::layout::{Settings, TICK_SHIFT};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ticks from one deadline to the next at most: a second or more, whatever the kernel's clock.
const TICKS: u32 = 16;

/// The copies, until it is dropped. Readable when there is one.
pub struct Capture {
    ring: RingBuf<MapData>,
    outcomes: PerCpuArray<MapData, Octets<Outcome>>,
    shared: Arc<Shared>,
    clock: Clock,
    lost_before: u64,
}

impl Capture {
    /// Has packets copied from now on: those that are dropped, and every so many of the others, or
    /// none if that is 0.
    ///
    /// # Errors
    /// Somebody else captures, or did a second ago; or the kernel does not tell its clock.
    pub fn start(view: &mut View, every: u32) -> Result<Self, Error> {
        let (ring, outcomes) = view.capture.take().ok_or(Error::Capturing)?;
        let shared = Arc::clone(&view.shared);
        let clock = Clock::load()?;
        let tick = clock.jiffies()? >> TICK_SHIFT;
        let until = word(&shared, offset_of!(Settings, capture_until))?;
        if is_before(tick, until.load(Ordering::Relaxed)) {
            return Err(Error::Capturing);
        }
        let mut capture = Self { ring, outcomes, shared, clock, lost_before: 0 };
        while capture.ring.next().is_some() {}
        capture.lost_before = capture.all_lost();
        let settings = offset_of!(Settings, capture_every);
        word(&capture.shared, settings)?.store(every, Ordering::Relaxed);
        capture.refresh()?;
        Ok(capture)
    }

    /// Goes on: to be called several times a second.
    ///
    /// # Errors
    /// The kernel does not tell its clock.
    pub fn refresh(&self) -> Result<(), Error> {
        let tick = self.clock.jiffies()? >> TICK_SHIFT;
        let until = word(&self.shared, offset_of!(Settings, capture_until))?;
        until.store(deadline(tick, TICKS), Ordering::Release);
        Ok(())
    }

    /// The next copy, or `None` for now.
    pub fn next_packet(&mut self) -> Option<Captured> {
        loop {
            let item = self.ring.next()?;
            if let Some(captured) = Captured::read(&item) {
                return Some(captured);
            }
        }
    }

    /// Packets that were not copied because there was no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.all_lost().saturating_sub(self.lost_before)
    }

    fn all_lost(&self) -> u64 {
        let outcomes = self.outcomes.get(&0, 0);
        outcomes.map_or(0, |all| all.iter().map(|Octets(outcome)| outcome.lost).sum())
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        end(&self.shared);
    }
}

impl AsRawFd for Capture {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl Shared {
    /// Switches the copying of packets off where nobody has renewed it.
    pub fn end_capture(&self, tick: u32) {
        let Ok(until) = word(self, offset_of!(Settings, capture_until)) else { return };
        let set = until.load(Ordering::Relaxed);
        if set != 0 && !is_before(tick, set) {
            let _renewed = until.compare_exchange(set, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

fn end(shared: &Shared) {
    if let Ok(until) = word(shared, offset_of!(Settings, capture_until)) {
        until.store(0, Ordering::Release);
    }
}

fn word(shared: &Shared, octet: usize) -> Result<&AtomicU32, Error> {
    shared.settings.half_word(0, octet).ok_or(Error::OtherLayout { map: "SETTINGS" })
}
