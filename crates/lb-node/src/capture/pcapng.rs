//! Writes pcapng: a section header, one description an interface, one block a packet with a
//! comment (draft-ietf-opsawg-pcapng, 4.1, 4.2, 4.3).
//!
//! Not done here: reading, other link types, other blocks.

use std::io::{self, Write};
use std::time::Duration;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// What tells the byte order of the section.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Major and minor version.
const VERSION: [u16; 2] = [1, 0];
/// `LINKTYPE_ETHERNET`.
const ETHERNET: u16 = 1;

/// Options of blocks.
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    /// Of a section: the program that wrote it.
    pub(super) const PROGRAM: u16 = 4;
    /// Of an interface: its name.
    pub(super) const NAME: u16 = 2;
    /// Of an interface: the power of ten of its timestamps.
    pub(super) const RESOLUTION: u16 = 9;
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The place of its interface among those that were named.
    pub interface: u32,
    /// Since 1970.
    pub time: Duration,
    /// Octets of the whole frame.
    pub length: u32,
    /// Those that are kept.
    pub frame: &'a [u8],
    /// What is to be said of it.
    pub comment: &'a str,
}

/// A file that is being written.
#[derive(Debug)]
pub struct Writer<W>(W);

impl<W: Write> Writer<W> {
    /// Begins a file of packets of these interfaces, none longer than `snap` octets.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(to: W, program: &str, interfaces: &[&str], snap: u32) -> io::Result<Self> {
        let mut writer = Self(to);
        let mut body = BYTE_ORDER.to_le_bytes().to_vec();
        body.extend(VERSION.map(u16::to_le_bytes).concat());
        // Of unknown length.
        body.extend([0xff; 8]);
        put(&mut body, option::PROGRAM, program.as_bytes());
        put(&mut body, option::END, &[]);
        writer.block(SECTION, &body)?;
        for name in interfaces {
            let mut body = [ETHERNET.to_le_bytes(), [0; 2]].concat();
            body.extend(snap.to_le_bytes());
            put(&mut body, option::NAME, name.as_bytes());
            put(&mut body, option::RESOLUTION, &[9]);
            put(&mut body, option::END, &[]);
            writer.block(INTERFACE, &body)?;
        }
        Ok(writer)
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let nanoseconds = u64::try_from(packet.time.as_nanos()).unwrap_or(u64::MAX);
        let [a, b, c, d, low @ ..] = nanoseconds.to_be_bytes();
        let high = u32::from_be_bytes([a, b, c, d]);
        let kept = u32::try_from(packet.frame.len()).unwrap_or(u32::MAX);
        let words = [packet.interface, high, u32::from_be_bytes(low), kept, packet.length];
        let mut body = words.map(u32::to_le_bytes).concat();
        body.extend(packet.frame);
        pad(&mut body);
        put(&mut body, option::COMMENT, packet.comment.as_bytes());
        put(&mut body, option::END, &[]);
        self.block(PACKET, &body)
    }

    /// Has everything that was written reach the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    /// A block: its type and length before its body, its length again behind it.
    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        const AROUND: usize = 12;
        let length = u32::try_from(body.len() + AROUND).map_err(io::Error::other)?.to_le_bytes();
        self.0.write_all(&[&kind.to_le_bytes()[..], &length, body, &length].concat())
    }
}

/// An option: its code, its length, its value, padded.
fn put(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    body.extend([code, length].map(u16::to_le_bytes).concat());
    body.extend(value.iter().take(length.into()));
    pad(body);
}

/// Fills up to 32 bits.
fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::flow::{Flags, Flow};
    use crate::explain::packet::{Shape, frame};
    use std::process::Command;

    fn written() -> Vec<u8> {
        let flow = Flow::parse("udp", "192.0.2.1:9", "203.0.113.10:53", &[]).unwrap();
        let frame = frame(&flow, &Shape { ethernet: [2; 12], flags: Flags(0), octets: 29 });
        let mut file = Vec::new();
        let mut writer = Writer::begin(&mut file, "lb-node", &["d0", "d1x"], 255).unwrap();
        let time = Duration::new(1_700_000_000, 123_456_789);
        let length = 1514;
        let comment = "dropped: no_service";
        let packet = Packet { interface: 1, time, length, frame: &frame, comment };
        writer.packet(&packet).unwrap();
        writer.packet(&Packet { interface: 0, comment: "passed", ..packet }).unwrap();
        writer.flush().unwrap();
        file
    }

    /// Types and bodies of a file's blocks.
    fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
        let word = |octets: &[u8]| u32::from_le_bytes(octets[..4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let length = usize::try_from(word(&file[4..])).unwrap();
            assert_eq!(length % 4, 0);
            assert_eq!(word(&file[length - 4..]), word(&file[4..]), "the length behind the body");
            blocks.push((word(file), &file[8..length - 4]));
            file = &file[length..];
        }
        blocks
    }

    #[test]
    fn blocks_are_framed_and_padded_as_the_draft_says() {
        let file = written();
        let blocks = blocks(&file);
        let kinds: Vec<_> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [SECTION, INTERFACE, INTERFACE, PACKET, PACKET]);
        assert_eq!(blocks[2].1[8..16], [2, 0, 3, 0, b'd', b'1', b'x', 0], "the name, padded");
        let packet = blocks[3].1;
        assert_eq!(packet[..4], [1, 0, 0, 0], "the interface");
        let nanoseconds = 1_700_000_000_123_456_789u64;
        let [high, low] = [nanoseconds >> 32, nanoseconds & 0xffff_ffff];
        assert_eq!(packet[4..8], u32::try_from(high).unwrap().to_le_bytes());
        assert_eq!(packet[8..12], u32::try_from(low).unwrap().to_le_bytes());
        assert_eq!(packet[12..16], 43u32.to_le_bytes(), "octets here");
        assert_eq!(packet[16..20], 1514u32.to_le_bytes(), "octets of the frame");
        assert_eq!(packet[64..68], [1, 0, 19, 0], "a comment of 19 octets after 43 and padding");
    }

    #[test]
    fn tcpdump_reads_what_is_written() {
        let path = std::env::temp_dir().join(format!("lb-node-{}.pcapng", std::process::id()));
        std::fs::write(&path, written()).unwrap();
        let read = Command::new("tcpdump").args(["-n", "-tt", "-r"]).arg(&path).output();
        std::fs::remove_file(&path).unwrap();
        let Ok(read) = read else {
            let required = std::env::var_os("LABS").is_some_and(|labs| labs == "required");
            assert!(!required, "LABS=required, but there is no tcpdump");
            println!("skipped: there is no tcpdump");
            return;
        };
        let text = String::from_utf8(read.stdout).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        for line in lines {
            assert!(line.starts_with("1700000000.123456"), "{line}");
            assert!(line.contains("192.0.2.1.9 > 203.0.113.10.53"), "{line}");
        }
    }
}
