//! Copies of packets for people: the records in which the kernel's shell hands them over.
//!
//! ```text
//! stage ──Outcome──> capture ──Captured──> userspace
//! ```
//! The packet core itself neither copies nor knows of it.

use super::verdict::{DropReason, Verdict};

/// Octets of a frame that are copied at most.
pub const SNAP: usize = 255;
/// Ticks for which a deadline holds at most; see [`deadline`].
pub const MAX_TICKS: u32 = 64;
/// The place of the program in the table of stages: behind them.
pub const PLACE: u32 = 7;

/// Octets of [`Captured`] before the frame.
const HEADER: usize = 24;
/// Ticks wrap here: userspace knows no more bits of them.
const TICK_MASK: u32 = (1 << 26) - 1;
const ON: u32 = 1 << 31;

/// What became of a packet, for the program that copies it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Outcome {
    /// Packets that were to be copied, and for which there was no room.
    pub lost: u64,
    /// The kernel's action.
    pub action: u32,
    /// The interface that it is redirected to.
    pub egress: u32,
    /// [`code`] of the verdict.
    pub verdict: u32,
    /// The place of the reason.
    pub reason: u32,
}

/// A copied packet: the frame as it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Captured {
    /// The boot clock, in nanoseconds.
    pub boot_ns: u64,
    /// The interface that it came in by.
    pub ingress: u32,
    /// The interface that it is redirected to.
    pub egress: u32,
    /// Octets of the frame.
    pub length: u32,
    /// How many of them are here.
    pub octets: u16,
    /// [`code`] of the verdict.
    pub verdict: u8,
    /// The place of the reason.
    pub reason: u8,
    /// The frame's first octets.
    pub frame: [u8; SNAP + 1],
}

const _: () = assert!(core::mem::offset_of!(Captured, frame) == HEADER);

/// A verdict as a number, and the place of its reason.
#[inline(always)]
#[must_use]
pub const fn code(verdict: Verdict) -> (u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 64 reasons")]
    match verdict {
        Verdict::Pass => (0, 0),
        Verdict::Transmit => (1, 0),
        Verdict::Redirect(_) => (2, 0),
        Verdict::Drop(reason) => (3, reason.index() as u32),
        Verdict::Answer(reason) => (4, reason.index() as u32),
    }
}

/// Until when packets are to be captured: so many ticks from `tick` on, [`MAX_TICKS`] at most. It
/// ends by itself unless it is set anew.
#[must_use]
pub const fn deadline(tick: u32, ticks: u32) -> u32 {
    ON | tick.wrapping_add(ticks) & TICK_MASK
}

/// Whether the deadline is not over at this tick.
#[inline(always)]
#[must_use]
pub const fn is_before(tick: u32, deadline: u32) -> bool {
    let left = deadline.wrapping_sub(tick) & TICK_MASK;
    deadline & ON != 0 && left != 0 && left <= MAX_TICKS
}

impl Captured {
    /// Reads a record as it comes from the kernel.
    #[must_use]
    pub fn read(record: &[u8]) -> Option<Self> {
        let (header, frame) = record.split_first_chunk::<HEADER>()?;
        let [words @ .., o0, o1, verdict, reason] = *header;
        let (boot, rest) = words.split_first_chunk::<8>()?;
        let ([ingress, egress, length], []) = rest.as_chunks::<4>() else { return None };
        Some(Self {
            boot_ns: u64::from_ne_bytes(*boot),
            ingress: u32::from_ne_bytes(*ingress),
            egress: u32::from_ne_bytes(*egress),
            length: u32::from_ne_bytes(*length),
            octets: u16::from_ne_bytes([o0, o1]),
            verdict,
            reason,
            frame: *frame.first_chunk()?,
        })
    }

    /// The frame, as far as it was copied.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        self.frame.get(..usize::from(self.octets)).unwrap_or_default()
    }

    /// What became of it.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let reason = || DropReason::ALL.get(usize::from(self.reason)).copied();
        match self.verdict {
            0 => Some(Verdict::Pass),
            1 => Some(Verdict::Transmit),
            2 => Some(Verdict::Redirect(self.egress)),
            3 => reason().map(Verdict::Drop),
            4 => reason().map(Verdict::Answer),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_over_in_time_and_across_the_wrap_of_ticks() {
        for tick in [0, 1, 77, TICK_MASK - 3, TICK_MASK, u32::MAX] {
            let until = deadline(tick, 16);
            assert!(is_before(tick, until) && is_before(tick.wrapping_add(15), until), "{tick}");
            assert!(!is_before(tick.wrapping_add(16), until), "{tick}");
            assert!(!is_before(tick.wrapping_add(1 << 20), until), "{tick}");
            assert!(!is_before(tick.wrapping_sub(MAX_TICKS), until), "{tick}");
        }
        assert!(!is_before(TICK_MASK, 0), "off");
    }

    #[test]
    fn every_verdict_is_told_by_its_code() {
        let mut record = [0; HEADER + SNAP + 1];
        let reasons = DropReason::ALL.iter();
        let told = reasons.flat_map(|reason| [Verdict::Drop(*reason), Verdict::Answer(*reason)]);
        for verdict in
            [Verdict::Pass, Verdict::Transmit, Verdict::Redirect(0)].into_iter().chain(told)
        {
            let (code, reason) = code(verdict);
            record[22..24].copy_from_slice(&[code, reason].map(|word| u8::try_from(word).unwrap()));
            assert_eq!(Captured::read(&record).unwrap().verdict(), Some(verdict));
        }
        assert_eq!(Captured::read(&record[1..]), None);
    }
}
