//! IPv6 and its extension headers (RFC 8200), and AH (RFC 4302).

use std::net::Ipv6Addr;

use super::{
    Gre, Icmp, PROTOCOL_GRE, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP, PseudoHeader, Tcp,
    length_u16, udp, udp_without_checksum, words_u8,
};

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const NO_NEXT_HEADER: u8 = 59;
const DESTINATION_OPTIONS: u8 = 60;
const DEFAULT_HOP_LIMIT: u8 = 64;

/// An IPv6 packet under construction.
#[derive(Debug, Clone)]
pub struct Ipv6 {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    traffic_class: u8,
    flow_label: u32,
    hop_limit: u8,
    /// Each with its own number; the first byte, the next header's number, is filled in last.
    extensions: Vec<(u8, Vec<u8>)>,
    upper: u8,
    payload: Vec<u8>,
    false_version: Option<u8>,
    false_payload_length: Option<u16>,
}

/// Whether fragments follow a fragment: its M flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragments {
    /// It is the last.
    Last,
    /// More follow.
    More,
}

/// An empty packet from `source` to `destination` with hop limit 64.
///
/// # Panics
/// Not an IPv6 address.
#[expect(clippy::expect_used, reason = "a test packet that cannot exist is a mistake in the test")]
#[must_use]
pub fn ipv6(source: &str, destination: &str) -> Ipv6 {
    Ipv6 {
        source: source.parse().expect("the source is an IPv6 address"),
        destination: destination.parse().expect("the destination is an IPv6 address"),
        traffic_class: 0,
        flow_label: 0,
        hop_limit: DEFAULT_HOP_LIMIT,
        extensions: Vec::new(),
        upper: NO_NEXT_HEADER,
        payload: Vec::new(),
        false_version: None,
        false_payload_length: None,
    }
}

impl Ipv6 {
    /// Hop limit.
    #[must_use]
    pub fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = hop_limit;
        self
    }

    /// Traffic class: DSCP in the upper six bits, ECN in the lower two.
    #[must_use]
    pub fn traffic_class(mut self, traffic_class: u8) -> Self {
        self.traffic_class = traffic_class;
        self
    }

    /// Flow label, 20 bits.
    #[must_use]
    pub fn flow_label(mut self, flow_label: u32) -> Self {
        self.flow_label = flow_label & 0xf_ffff;
        self
    }

    /// Appends a hop-by-hop options header; `options` are padded to the unit of eight bytes.
    #[must_use]
    pub fn hop_by_hop(self, options: impl AsRef<[u8]>) -> Self {
        self.options_header(HOP_BY_HOP, options.as_ref())
    }

    /// Appends a destination options header; `options` are padded to the unit of eight bytes.
    #[must_use]
    pub fn destination_options(self, options: impl AsRef<[u8]>) -> Self {
        self.options_header(DESTINATION_OPTIONS, options.as_ref())
    }

    /// Appends a routing header of type `kind`: `specific` is what follows the segments left, four
    /// bytes and a multiple of eight.
    #[must_use]
    pub fn routing(self, kind: u8, segments_left: u8, specific: impl AsRef<[u8]>) -> Self {
        let specific = specific.as_ref();
        let units = words_u8(4 + specific.len(), 8);
        let header = [&[0, units - 1, kind, segments_left], specific].concat();
        self.extension(ROUTING, header)
    }

    /// Appends a fragment header: `offset` in units of eight bytes, 0..=8191.
    #[must_use]
    pub fn fragment(self, identification: u32, offset: u16, fragments: Fragments) -> Self {
        let mut header = vec![0, 0];
        let more = match fragments {
            Fragments::Last => 0,
            Fragments::More => 1,
        };
        header.extend((offset << 3 | more).to_be_bytes());
        header.extend(identification.to_be_bytes());
        self.extension(FRAGMENT, header)
    }

    /// Appends an authentication header with `icv`, 4 bytes and a multiple of eight. Its length
    /// counts units of four bytes less two, unlike that of its neighbours (RFC 4302 2.2).
    #[must_use]
    pub fn ah(self, spi: u32, sequence: u32, icv: impl AsRef<[u8]>) -> Self {
        let icv = icv.as_ref();
        let units = words_u8(12 + icv.len(), 8) * 2;
        let mut header = vec![0, units - 2, 0, 0];
        header.extend(spi.to_be_bytes());
        header.extend(sequence.to_be_bytes());
        header.extend(icv);
        self.extension(AUTHENTICATION, header)
    }

    /// Appends any extension header; its first byte is overwritten with the next header's number.
    #[must_use]
    pub fn extension(mut self, number: u8, header: impl Into<Vec<u8>>) -> Self {
        self.extensions.push((number, header.into()));
        self
    }

    /// Any payload, of IP protocol `protocol`.
    #[must_use]
    pub fn payload(mut self, protocol: u8, payload: impl AsRef<[u8]>) -> Self {
        self.upper = protocol;
        self.payload = payload.as_ref().to_vec();
        self
    }

    /// Carries GRE.
    #[must_use]
    pub fn gre(self, gre: Gre) -> Self {
        self.payload(PROTOCOL_GRE, gre.build())
    }

    /// Carries an ICMPv6 message. Its checksum covers the destination of the fixed header: set a
    /// routing header's final one there if segments are left.
    #[must_use]
    pub fn icmp(self, icmp: Icmp) -> Self {
        let message = icmp.build_v6(&self.pseudo_header());
        self.payload(PROTOCOL_ICMPV6, message)
    }

    /// Carries a UDP datagram; its checksum is that of [`Ipv6::icmp`]'s note.
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
        self.false_version = Some(version);
        self
    }

    /// The payload length field says `length` bytes.
    #[must_use]
    pub fn false_payload_length(mut self, length: u16) -> Self {
        self.false_payload_length = Some(length);
        self
    }

    /// The bytes of the packet.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        let numbers = self.extensions.iter().map(|(number, _)| *number).chain([self.upper]);
        for ((_, header), next) in self.extensions.iter().zip(numbers.clone().skip(1)) {
            let start = rest.len();
            rest.extend(header);
            rest[start] = next;
        }
        rest.extend(&self.payload);

        let version = u32::from(self.false_version.unwrap_or(6));
        let first = version << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        let length = self.false_payload_length.unwrap_or_else(|| length_u16(rest.len()));
        let next = numbers.clone().next().unwrap_or(NO_NEXT_HEADER);
        let mut packet = Vec::new();
        packet.extend(first.to_be_bytes());
        packet.extend(length.to_be_bytes());
        packet.extend([next, self.hop_limit]);
        packet.extend(self.source.octets());
        packet.extend(self.destination.octets());
        packet.extend(rest);
        packet
    }

    fn options_header(self, number: u8, options: &[u8]) -> Self {
        let mut header = vec![0, 0];
        header.extend(options);
        match header.len().next_multiple_of(8) - header.len() {
            0 => {}
            1 => header.push(0), // Pad1
            padding => {
                header.extend([1, words_u8(padding - 2, 1)]); // PadN
                header.resize(header.len() + padding - 2, 0);
            }
        }
        header[1] = words_u8(header.len(), 8) - 1;
        self.extension(number, header)
    }

    fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader { addresses: [self.source.octets(), self.destination.octets()].concat() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PROTOCOL_TCP, gre, icmp};
    use super::*;

    fn base() -> Ipv6 {
        ipv6("fd77::1", "fd77::2")
    }

    #[test]
    fn every_field_lands_in_its_place() {
        let packet = base()
            .traffic_class(0xb8)
            .flow_label(0x12345)
            .hop_limit(9)
            .payload(PROTOCOL_TCP, b"xyz")
            .build();
        assert_eq!(packet[..8], [0x6b, 0x81, 0x23, 0x45, 0, 3, 6, 9]);
        assert_eq!(packet[8..24], "fd77::1".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(packet[24..40], "fd77::2".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(packet[40..], *b"xyz");
    }

    #[test]
    fn extension_headers_are_laid_out_as_in_the_rfcs() {
        let cases: [(&str, Ipv6, u8, &[u8]); 7] = [
            ("hop by hop", base().hop_by_hop([5, 2, 0, 0]), 0, &[59, 0, 5, 2, 0, 0, 1, 0]),
            ("padded by one", base().hop_by_hop([1, 3, 0, 0, 0]), 0, &[59, 0, 1, 3, 0, 0, 0, 0]),
            ("empty", base().destination_options([]), 60, &[59, 0, 1, 4, 0, 0, 0, 0]),
            ("routing", base().routing(0, 1, [7; 4]), 43, &[59, 0, 0, 1, 7, 7, 7, 7]),
            (
                "first fragment",
                base().fragment(0xabcd, 0, Fragments::More),
                44,
                &[59, 0, 0, 1, 0, 0, 0xab, 0xcd],
            ),
            (
                "last fragment",
                base().fragment(1, 3, Fragments::Last),
                44,
                &[59, 0, 0, 0x18, 0, 0, 0, 1],
            ),
            (
                "authentication",
                base().ah(1, 2, [9; 4]),
                51,
                &[59, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 9, 9, 9, 9],
            ),
        ];
        for (name, packet, number, expected) in cases {
            let packet = packet.build();
            assert_eq!(packet[6], number, "{name}");
            assert_eq!(packet[40..], *expected, "{name}");
            assert_eq!(packet[4..6], length_u16(expected.len()).to_be_bytes(), "{name}");
        }
    }

    #[test]
    fn headers_are_chained_in_the_order_of_the_calls() {
        let packet = base()
            .hop_by_hop([])
            .destination_options([])
            .fragment(1, 0, Fragments::More)
            .gre(gre().key(42))
            .build();
        assert_eq!([packet[6], packet[40], packet[48], packet[56]], [0, 60, 44, 47]);
        assert_eq!(packet[64..], [0x20, 0, 8, 0, 0, 0, 0, 42]);
    }

    #[test]
    fn icmp_and_udp_checksums_cover_the_pseudo_header() {
        // By hand: 2 * fd77 + 1 + 2 = 1faf1 -> faf2; echo 8000 + 1 + 2, length 8, protocol 3a:
        // faf2 + 8003 + 8 + 3a = 17b37 -> 7b38, complement 84c7.
        let echo = base().icmp(icmp(128, 0).echo(1, 2)).build();
        assert_eq!(echo[40..], [128, 0, 0x84, 0xc7, 0, 1, 0, 2]);
        // faf2 + ports 3 + length 9 twice + protocol 11 + 6100 = 15c18 -> 5c19, complement a3e6.
        let datagram = base().udp(1, 2, b"a").build();
        assert_eq!(datagram[40..], [0, 1, 0, 2, 0, 9, 0xa3, 0xe6, b'a']);
    }

    #[test]
    fn packet_too_big_quotes_as_much_as_it_is_told() {
        let sent = base().gre(gre().payload([0; 100])).build();
        let packet = base().icmp(icmp(2, 0).mtu(1280).quoting(&sent, 48)).build();
        assert_eq!(packet[44..48], [0, 0, 5, 0]);
        assert_eq!(packet[48..], sent[..48]);
    }

    #[test]
    fn a_lie_changes_only_its_field() {
        let plain = base().payload(PROTOCOL_TCP, b"xyz");
        let version = plain.clone().false_version(4).build();
        let length = plain.clone().false_payload_length(9).build();
        let plain = plain.build();
        assert_eq!((version[0], &version[1..]), (0x40, &plain[1..]));
        assert_eq!((length[5], &length[6..]), (9, &plain[6..]));
    }
}
