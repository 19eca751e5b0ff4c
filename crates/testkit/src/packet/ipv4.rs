//! IPv4 (RFC 791).

use std::net::Ipv4Addr;

use super::{
    Gre, Icmp, PROTOCOL_GRE, PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP, PseudoHeader, Tcp,
    checksum, length_u16, udp, udp_without_checksum, words_u8,
};

const RESERVED: u16 = 0x8000;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;
const DEFAULT_TTL: u8 = 64;
/// "For experimentation and testing" (RFC 3692): what a packet without a payload carries.
const PROTOCOL_TESTING: u8 = 253;

/// An IPv4 packet under construction.
#[derive(Debug, Clone)]
pub struct Ipv4 {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    tos: u8,
    id: u16,
    flags_and_offset: u16,
    ttl: u8,
    protocol: u8,
    options: Vec<u8>,
    payload: Vec<u8>,
    lies: Lies,
}

/// Header fields that are to differ from the truth.
#[derive(Debug, Clone, Default)]
struct Lies {
    version: Option<u8>,
    header_words: Option<u8>,
    total_length: Option<u16>,
    checksum_error: u16,
}

/// An empty packet from `source` to `destination` with TTL 64 and identification 0.
///
/// # Panics
/// Not an IPv4 address.
#[expect(clippy::expect_used, reason = "a test packet that cannot exist is a mistake in the test")]
#[must_use]
pub fn ipv4(source: &str, destination: &str) -> Ipv4 {
    Ipv4 {
        source: source.parse().expect("the source is an IPv4 address"),
        destination: destination.parse().expect("the destination is an IPv4 address"),
        tos: 0,
        id: 0,
        flags_and_offset: 0,
        ttl: DEFAULT_TTL,
        protocol: PROTOCOL_TESTING,
        options: Vec::new(),
        payload: Vec::new(),
        lies: Lies::default(),
    }
}

impl Ipv4 {
    /// Time to live.
    #[must_use]
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Type of service: DSCP in the upper six bits, ECN in the lower two.
    #[must_use]
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// Identification.
    #[must_use]
    pub fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    /// Sets DF.
    #[must_use]
    pub fn dont_fragment(mut self) -> Self {
        self.flags_and_offset |= DONT_FRAGMENT;
        self
    }

    /// Sets MF.
    #[must_use]
    pub fn more_fragments(mut self) -> Self {
        self.flags_and_offset |= MORE_FRAGMENTS;
        self
    }

    /// Sets the reserved flag.
    #[must_use]
    pub fn reserved_flag(mut self) -> Self {
        self.flags_and_offset |= RESERVED;
        self
    }

    /// Fragment offset in units of eight bytes, 0..=8191.
    #[must_use]
    pub fn fragment_offset(mut self, units: u16) -> Self {
        self.flags_and_offset = self.flags_and_offset & !OFFSET_MASK | units & OFFSET_MASK;
        self
    }

    /// Options, at most 40 bytes; padded with zeros (end of options) to a multiple of four.
    #[must_use]
    pub fn options(mut self, options: impl AsRef<[u8]>) -> Self {
        self.options = options.as_ref().to_vec();
        self.options.resize(self.options.len().next_multiple_of(4), 0);
        assert!(self.options.len() <= 40, "IPv4 has room for 40 bytes of options");
        self
    }

    /// Any payload, of IP protocol `protocol`.
    #[must_use]
    pub fn payload(mut self, protocol: u8, payload: impl AsRef<[u8]>) -> Self {
        self.protocol = protocol;
        self.payload = payload.as_ref().to_vec();
        self
    }

    /// Carries GRE.
    #[must_use]
    pub fn gre(self, gre: Gre) -> Self {
        self.payload(PROTOCOL_GRE, gre.build())
    }

    /// Carries an ICMP message.
    #[must_use]
    pub fn icmp(self, icmp: Icmp) -> Self {
        self.payload(PROTOCOL_ICMP, icmp.build_v4())
    }

    /// Carries a UDP datagram.
    #[must_use]
    pub fn udp(self, source_port: u16, destination_port: u16, payload: impl AsRef<[u8]>) -> Self {
        let pseudo = self.pseudo_header();
        let datagram = udp(source_port, destination_port, payload.as_ref(), &pseudo);
        self.payload(PROTOCOL_UDP, datagram)
    }

    /// Carries a UDP datagram without a checksum.
    #[must_use]
    pub fn udp_without_checksum(
        self,
        source_port: u16,
        destination_port: u16,
        payload: impl AsRef<[u8]>,
    ) -> Self {
        let datagram = udp_without_checksum(source_port, destination_port, payload.as_ref());
        self.payload(PROTOCOL_UDP, datagram)
    }

    /// Carries a TCP segment.
    #[must_use]
    pub fn tcp(self, segment: Tcp) -> Self {
        let segment = segment.build(&self.pseudo_header());
        self.payload(PROTOCOL_TCP, segment)
    }

    /// The version field says `version`.
    #[must_use]
    pub fn false_version(mut self, version: u8) -> Self {
        self.lies.version = Some(version);
        self
    }

    /// The header length field says `words` of four bytes.
    #[must_use]
    pub fn false_header_words(mut self, words: u8) -> Self {
        self.lies.header_words = Some(words);
        self
    }

    /// The total length field says `length` bytes.
    #[must_use]
    pub fn false_total_length(mut self, length: u16) -> Self {
        self.lies.total_length = Some(length);
        self
    }

    /// The header checksum is wrong.
    #[must_use]
    pub fn bad_checksum(mut self) -> Self {
        self.lies.checksum_error = 0x0100;
        self
    }

    fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader { addresses: [self.source.octets(), self.destination.octets()].concat() }
    }

    /// The bytes of the packet.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let header_length = 20 + self.options.len();
        let version = self.lies.version.unwrap_or(4);
        let words = self.lies.header_words.unwrap_or(words_u8(header_length, 4));
        let total = self.lies.total_length;
        let total = total.unwrap_or_else(|| length_u16(header_length + self.payload.len()));
        let mut packet = vec![version << 4 | words & 0xf, self.tos];
        packet.extend(total.to_be_bytes());
        packet.extend(self.id.to_be_bytes());
        packet.extend(self.flags_and_offset.to_be_bytes());
        packet.extend([self.ttl, self.protocol, 0, 0]);
        packet.extend(self.source.octets());
        packet.extend(self.destination.octets());
        packet.extend(&self.options);
        let sum = checksum(&packet) ^ self.lies.checksum_error;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(&self.payload);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PROTOCOL_TCP, gre, icmp};
    use super::*;

    #[test]
    fn a_captured_header_comes_out_byte_for_byte() {
        // A DNS answer as captured, the example of many textbooks: checksum b861.
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        let packet = ipv4("192.168.0.1", "192.168.0.199")
            .dont_fragment()
            .payload(PROTOCOL_UDP, [0; 0x73 - 20])
            .build();
        assert_eq!(packet[..20], header);
        assert_eq!(packet.len(), 0x73);
    }

    #[test]
    fn every_field_lands_in_its_place() {
        let packet = ipv4("1.2.3.4", "5.6.7.8")
            .tos(0xb8)
            .id(0x1234)
            .reserved_flag()
            .more_fragments()
            .fragment_offset(5)
            .ttl(9)
            .options([0x94, 4, 0, 0, 1])
            .payload(PROTOCOL_TCP, b"xyz")
            .build();
        assert_eq!(packet[..2], [0x47, 0xb8]);
        assert_eq!(packet[2..10], [0, 31, 0x12, 0x34, 0xa0, 5, 9, 6]);
        assert_eq!(packet[12..20], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(packet[20..], [0x94, 4, 0, 0, 1, 0, 0, 0, b'x', b'y', b'z']);
        assert_eq!(checksum(&packet[..28]), 0);
    }

    #[test]
    fn a_lie_changes_only_its_field() {
        let packet = ipv4("1.2.3.4", "5.6.7.8").payload(PROTOCOL_TCP, b"xyz");
        let [version, words, total, sum] = [
            packet.clone().false_version(6),
            packet.clone().false_header_words(4),
            packet.clone().false_total_length(9999),
            packet.bad_checksum(),
        ]
        .map(|packet| packet.build());
        assert_eq!((version[0], checksum(&version[..20])), (0x65, 0));
        assert_eq!((words[0], checksum(&words[..20])), (0x44, 0));
        assert_eq!((&total[2..4], checksum(&total[..20])), (&[0x27, 0x0f][..], 0));
        assert_ne!(checksum(&sum[..20]), 0);
    }

    #[test]
    fn an_error_quotes_as_much_as_it_is_told() {
        let sent = ipv4("10.0.0.1", "10.0.0.47").gre(gre().key(42).payload([0; 100])).build();
        let error = |length| {
            ipv4("10.0.0.9", "10.0.0.1").icmp(icmp(3, 4).mtu(1400).quoting(&sent, length)).build()
        };
        let packet = error(28);
        assert_eq!(packet.len(), 20 + 8 + 28);
        assert_eq!(packet[9], PROTOCOL_ICMP);
        assert_eq!((&packet[20..22], &packet[24..28]), (&[3, 4][..], &[0, 0, 0x05, 0x78][..]));
        assert_eq!(packet[28..], sent[..28]);
        assert_eq!(checksum(&packet[20..]), 0);
        assert_eq!(error(9999).len(), 20 + 8 + sent.len());
    }

    #[test]
    fn an_echo_and_a_corrupt_echo_differ_in_the_checksum() {
        // ping(8): type 8, code 0, identifier 1, sequence 2; by hand 0800 + 1 + 2, complement f7fc.
        let echo = ipv4("10.0.0.1", "10.0.0.2").icmp(icmp(8, 0).echo(1, 2)).build();
        assert_eq!(echo[20..], [8, 0, 0xf7, 0xfc, 0, 1, 0, 2]);
        let bad = ipv4("10.0.0.1", "10.0.0.2").icmp(icmp(8, 0).echo(1, 2).bad_checksum()).build();
        assert_eq!(bad[20..24], [8, 0, 0xf6, 0xfc]);
    }

    #[test]
    fn the_udp_checksum_covers_the_pseudo_header() {
        let packet = ipv4("10.0.0.1", "10.0.0.2").udp(1, 2, b"a").build();
        // By hand: 0a00+0001+0a00+0002 + 0011+0009 + 0001+0002+0009 + 6100 = 7529, complement.
        assert_eq!(packet[20..], [0, 1, 0, 2, 0, 9, 0x8a, 0xd6, b'a']);
    }
}
