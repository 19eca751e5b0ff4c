//! Whole lab packets: outer IP header, GRE header, stamped payload; built and taken apart.

use super::PROTOCOL_TYPE;
use super::stamp::Stamp;
use std::net::IpAddr;
use wire::checksum::Sum;
use wire::{gre, ipv4, ipv6, protocol};

/// The outer header and GRE options of packets to build.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Outer source.
    pub source: IpAddr,
    /// Outer destination, of the same family.
    pub destination: IpAddr,
    /// GRE key, if any.
    pub key: Option<u32>,
    /// Whether a GRE checksum is written.
    pub checksum: bool,
    /// GRE sequence number, if any.
    pub sequence: Option<u32>,
    /// Octets of the payload behind the GRE header.
    pub size: usize,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// IPv4's DF.
    pub dont_fragment: bool,
    /// A fault to build in.
    pub fault: Option<Fault>,
}

/// What can be wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// These flag bits are set on top, version bits included.
    Flags(u16),
    /// The GRE checksum is wrong.
    Checksum,
    /// The packet ends after this many octets of GRE.
    Truncated(usize),
}

impl Shape {
    /// The plainest packet: no key, checksum or sequence number, TTL 64, DF.
    pub const fn between(source: IpAddr, destination: IpAddr) -> Self {
        Self {
            source,
            destination,
            key: None,
            checksum: false,
            sequence: None,
            size: super::stamp::BYTES,
            ttl: 64,
            tos: 0,
            dont_fragment: true,
            fault: None,
        }
    }

    /// The packet's octets, from the IP header on.
    pub fn build(&self, stamp: &Stamp) -> Vec<u8> {
        let mut gre = self.gre(stamp);
        if let Some(Fault::Truncated(length)) = self.fault {
            gre.truncate(length);
        }
        self.enclose(&gre)
    }

    /// The octets behind an outer IP header of this shape.
    pub fn enclose(&self, gre: &[u8]) -> Vec<u8> {
        let mut packet = self.outer(gre.len());
        packet.extend(gre);
        packet
    }

    fn gre(&self, stamp: &Stamp) -> Vec<u8> {
        let mut flags = match self.fault {
            Some(Fault::Flags(bits)) => bits,
            _ => 0,
        };
        if self.checksum {
            flags |= gre::CHECKSUM_PRESENT;
        }
        if self.key.is_some() {
            flags |= gre::KEY_PRESENT;
        }
        if self.sequence.is_some() {
            flags |= gre::SEQUENCE_PRESENT;
        }
        let mut octets = gre::Header { flags, protocol: PROTOCOL_TYPE }.emit().to_vec();
        if self.checksum {
            octets.extend([0; 4]);
        }
        octets.extend(self.key.iter().chain(&self.sequence).flat_map(|word| word.to_be_bytes()));
        let mut payload = vec![0; self.size];
        stamp.write(&mut payload);
        octets.extend(payload);
        if self.checksum {
            let mut checksum = Sum::new().octets(&octets).checksum();
            if self.fault == Some(Fault::Checksum) {
                checksum ^= 0x5555;
            }
            let place = octets.iter_mut().skip(gre::BASE_BYTES);
            place.zip(checksum.to_be_bytes()).for_each(|(to, from)| *to = from);
        }
        octets
    }

    fn outer(&self, payload: usize) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Header {
                header_length: 20,
                tos: self.tos,
                total_length: u16::try_from(ipv4::HEADER_BYTES + payload).unwrap_or(u16::MAX),
                identification: 0,
                dont_fragment: self.dont_fragment,
                more_fragments: false,
                fragment_offset: 0,
                ttl: self.ttl,
                protocol: protocol::GRE,
                source: source.octets(),
                destination: destination.octets(),
            }
            .emit()
            .to_vec(),
            (source, destination) => ipv6::Header {
                traffic_class: self.tos,
                flow_label: 0,
                payload_length: u16::try_from(payload).unwrap_or(u16::MAX),
                next_header: protocol::GRE,
                hop_limit: self.ttl,
                source: sixteen(source),
                destination: sixteen(destination),
            }
            .emit()
            .to_vec(),
        }
    }
}

fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// A received GRE packet, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    /// The key, if any.
    pub key: Option<u32>,
    /// The sequence number, if any.
    pub sequence: Option<u32>,
    /// Whether there is a checksum, and whether it is right.
    pub checksum: Option<bool>,
    /// What lies behind the GRE header.
    pub payload: &'a [u8],
}

/// Takes a GRE packet apart, from the GRE header on. `None` if it is malformed.
pub fn parse(octets: &[u8]) -> Option<Parsed<'_>> {
    let header = gre::Header::parse(*octets.first_chunk()?).ok()?;
    let word = |offset: usize| octets.get(offset..)?.first_chunk().copied().map(u32::from_be_bytes);
    let payload = octets.get(header.length()..)?;
    Some(Parsed {
        key: header.key_offset().and_then(word),
        sequence: header.sequence_offset().and_then(word),
        checksum: header.has_checksum().then(|| Sum::new().octets(octets).is_valid()),
        payload,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::stamp::Direction;

    fn shape() -> Shape {
        Shape {
            key: Some(7),
            checksum: true,
            sequence: Some(9),
            size: 101,
            ..Shape::between("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap())
        }
    }

    const STAMP: Stamp = Stamp { direction: Direction::Request, flow: 1, run: 2, sequence: 9 };

    #[test]
    fn what_is_built_is_parsed() {
        let packet = shape().build(&STAMP);
        assert_eq!(packet.len(), 20 + 16 + 101);
        let parsed = parse(&packet[20..]).unwrap();
        assert_eq!((parsed.key, parsed.sequence, parsed.checksum), (Some(7), Some(9), Some(true)));
        assert_eq!(Stamp::read(parsed.payload), Some((STAMP, true)));
    }

    #[test]
    fn faults_are_built_in() {
        let with = |fault| Shape { fault: Some(fault), ..shape() }.build(&STAMP);
        assert_eq!(parse(&with(Fault::Checksum)[20..]).unwrap().checksum, Some(false));
        assert!(parse(&with(Fault::Flags(0x4000))[20..]).is_none());
        assert!(parse(&with(Fault::Truncated(15))[20..]).is_none());
    }
}
