//! A packet that can be read, written, grown and cut at both ends, every access bound-checked.

use wire::checksum::Sum;

/// One packet, starting at its outer IP header. `None` and nothing changed where an access would
/// leave the packet or the room around it.
pub trait Frame {
    /// Octets of the packet.
    fn len(&self) -> usize;

    /// Whether nothing is left.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `N` octets at `offset`.
    fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]>;

    /// Replaces `N` octets at `offset`.
    #[must_use]
    fn write<const N: usize>(&mut self, offset: usize, octets: [u8; N]) -> Option<()>;

    /// The same offset, about which the kernel's verifier no longer knows anything: it then follows
    /// what comes once, and not once for every value.
    #[inline(always)]
    fn unknown(&self, offset: usize) -> usize {
        offset
    }

    /// Grows at the head by `count` octets of unspecified content.
    #[must_use]
    fn push(&mut self, count: usize) -> Option<()>;

    /// Cuts `count` octets from the head.
    #[must_use]
    fn pull(&mut self, count: usize) -> Option<()>;

    /// Cuts the tail so that `length` octets stay; `None` if there are fewer.
    #[must_use]
    fn truncate(&mut self, length: usize) -> Option<()>;
}

/// The one's-complement sum of the octets from `from` to the end of the frame.
#[inline]
pub fn sum_from(frame: &impl Frame, from: usize) -> Option<Sum> {
    let (mut sum, mut at) = (Sum::new(), from);
    while at + 8 <= frame.len() {
        sum = sum.octets(&frame.read::<8>(at)?);
        at += 8;
    }
    while at + 2 <= frame.len() {
        sum = sum.octets(&frame.read::<2>(at)?);
        at += 2;
    }
    if at < frame.len() {
        sum = sum.octets(&frame.read::<1>(at)?);
    }
    Some(sum)
}

/// Grows the frame at the head by these octets.
#[inline(always)]
pub(crate) fn prepend<const N: usize>(frame: &mut impl Frame, octets: [u8; N]) -> Option<()> {
    frame.push(N)?;
    frame.write(0, octets)
}

/// A packet inside a buffer with room before it: the host's frame.
#[derive(Debug)]
pub struct SliceFrame<'a> {
    buffer: &'a mut [u8],
    start: usize,
    end: usize,
}

impl<'a> SliceFrame<'a> {
    /// The packet `buffer[start..end]`. `None` if that does not lie in the buffer.
    pub fn new(buffer: &'a mut [u8], start: usize, end: usize) -> Option<Self> {
        (start <= end && end <= buffer.len()).then_some(Self { buffer, start, end })
    }

    /// The packet's octets.
    pub fn octets(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Where the packet lies in the buffer.
    pub fn range(&self) -> core::ops::Range<usize> {
        self.start..self.end
    }
}

impl Frame for SliceFrame<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline(always)]
    fn read<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.octets().get(offset..)?.first_chunk::<N>().copied()
    }

    #[inline(always)]
    fn write<const N: usize>(&mut self, offset: usize, octets: [u8; N]) -> Option<()> {
        let packet = self.buffer.get_mut(self.start..self.end)?;
        *packet.get_mut(offset..)?.first_chunk_mut::<N>()? = octets;
        Some(())
    }

    #[inline(always)]
    fn push(&mut self, count: usize) -> Option<()> {
        self.start = self.start.checked_sub(count)?;
        Some(())
    }

    #[inline(always)]
    fn pull(&mut self, count: usize) -> Option<()> {
        if count > self.len() {
            return None;
        }
        self.start += count;
        Some(())
    }

    #[inline(always)]
    fn truncate(&mut self, length: usize) -> Option<()> {
        if length > self.len() {
            return None;
        }
        self.end = self.start + length;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_access_leaves_the_packet() {
        let mut buffer = [7u8; 10];
        let mut frame = SliceFrame::new(&mut buffer, 4, 8).unwrap();
        assert_eq!(frame.read::<4>(0), Some([7; 4]));
        assert_eq!(frame.read::<4>(1), None);
        assert_eq!(frame.read::<1>(usize::MAX), None);
        assert_eq!(frame.write(3, [1, 2]), None);
        assert_eq!(frame.push(5), None);
        assert_eq!(frame.pull(5), None);
        assert_eq!(frame.truncate(5), None);
        assert_eq!(frame.range(), 4..8);
        frame.push(4).unwrap();
        frame.truncate(6).unwrap();
        frame.pull(1).unwrap();
        assert_eq!(frame.range(), 1..6);
    }

    #[test]
    fn a_frame_outside_its_buffer_cannot_be_made() {
        let mut buffer = [0u8; 4];
        assert!(SliceFrame::new(&mut buffer, 0, 5).is_none());
        assert!(SliceFrame::new(&mut buffer, 3, 2).is_none());
    }

    #[test]
    fn sums_any_length_as_one_slice() {
        for length in 0..40 {
            let mut buffer = [0u8; 40];
            for (octet, value) in buffer.iter_mut().zip(1..) {
                *octet = value;
            }
            let whole = Sum::new().octets(&buffer[..length]).checksum();
            let frame = SliceFrame::new(&mut buffer, 0, length).unwrap();
            assert_eq!(sum_from(&frame, 0).unwrap().checksum(), whole, "{length}");
        }
    }
}
