//! The payload of lab packets: who sent it, which one it is, and octets that can be checked.
//!
//! ```text
//!  0        8       12      16        24
//! | magic  | flow  | run   | sequence | pattern ...
//! ```

/// Octets before the pattern: the least payload.
pub const BYTES: usize = 24;

const REQUEST: [u8; 8] = *b"GRELAB-Q";
const ANSWER: [u8; 8] = *b"GRELAB-A";

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From gre-send.
    Request,
    /// Back from gre-sink.
    Answer,
}

/// What a payload says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Request or answer.
    pub direction: Direction,
    /// The flow's number in its run, from 0.
    pub flow: u32,
    /// The sender's run, so that an old packet is not taken for a new one.
    pub run: u32,
    /// The packet's number in its flow, from 0.
    pub sequence: u64,
}

impl Stamp {
    /// Fills a payload; `false` if it is shorter than [`BYTES`].
    pub fn write(&self, payload: &mut [u8]) -> bool {
        let Some((head, pattern)) = payload.split_first_chunk_mut::<BYTES>() else { return false };
        let magic = match self.direction {
            Direction::Request => REQUEST,
            Direction::Answer => ANSWER,
        };
        let [f0, f1, f2, f3] = self.flow.to_be_bytes();
        let [r0, r1, r2, r3] = self.run.to_be_bytes();
        let fields = [[f0, f1, f2, f3, r0, r1, r2, r3], self.sequence.to_be_bytes()];
        for (to, from) in head.iter_mut().zip(magic.iter().chain(fields.iter().flatten())) {
            *to = *from;
        }
        for (octet, expected) in pattern.iter_mut().zip(self.pattern()) {
            *octet = expected;
        }
        true
    }

    /// Reads a payload. `None` if it is no stamped one; the flag tells whether the pattern is
    /// what it must be.
    pub fn read(payload: &[u8]) -> Option<(Self, bool)> {
        let (head, pattern) = payload.split_first_chunk::<BYTES>()?;
        let (fields, _) = head.as_chunks::<8>();
        let [magic, names, sequence] = fields else { return None };
        let direction = match *magic {
            REQUEST => Direction::Request,
            ANSWER => Direction::Answer,
            _ => return None,
        };
        let [f0, f1, f2, f3, r0, r1, r2, r3] = *names;
        let stamp = Self {
            direction,
            flow: u32::from_be_bytes([f0, f1, f2, f3]),
            run: u32::from_be_bytes([r0, r1, r2, r3]),
            sequence: u64::from_be_bytes(*sequence),
        };
        let intact = pattern.iter().copied().zip(stamp.pattern()).all(|(is, must)| is == must);
        Some((stamp, intact))
    }

    /// Octets that differ from packet to packet and from place to place.
    fn pattern(&self) -> impl Iterator<Item = u8> {
        let [.., low] = self.sequence.to_be_bytes();
        (0..=u8::MAX).cycle().map(move |place| place.wrapping_mul(31) ^ low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { direction: Direction::Answer, flow: 7, run: 9, sequence: 1 << 40 };
        let mut payload = [0xa5; 300];
        assert!(stamp.write(&mut payload));
        assert_eq!(Stamp::read(&payload), Some((stamp, true)));
        payload[299] ^= 1;
        assert_eq!(Stamp::read(&payload), Some((stamp, false)));
        assert_eq!(Stamp::read(&payload[..23]), None);
        assert!(!stamp.write(&mut payload[..23]));
        payload[0] = 0;
        assert_eq!(Stamp::read(&payload), None);
    }
}
