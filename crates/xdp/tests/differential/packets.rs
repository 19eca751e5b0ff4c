//! A packet of either family, and the random numbers that choose it.

use crate::world::RAW;
use testkit::packet::{Ethernet, Fragments, Ipv4, Ipv6, icmp, ipv4, ipv6, tcp};
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

/// Random numbers of a seed: splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.next() % u64::from(limit)).unwrap()
    }

    pub(crate) fn word(&mut self) -> u16 {
        u16::try_from(self.next() & 0xffff).unwrap()
    }

    pub(crate) fn octet(&mut self) -> u8 {
        u8::try_from(self.next() & 0xff).unwrap()
    }

    /// An index of something that has so many.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(u32::try_from(length).unwrap())).unwrap()
    }

    pub(crate) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.index(among.len())]
    }
}

/// What a packet's flow is, as the sender sees it.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) protocol: u8,
    pub(crate) source: String,
    pub(crate) destination: String,
    /// Ports; the first is an echo's identifier.
    pub(crate) from: u16,
    pub(crate) to: u16,
}

/// A packet under construction.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    Four(Ipv4),
    Six(Ipv6),
}

/// Whether the packet asks or answers, where the protocol tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Request,
    Reply,
}

impl Flow {
    /// A packet of the flow, with these TCP flags and so many octets of data.
    pub(crate) fn packet(&self, role: Role, flags: u8, data: usize) -> Packet {
        let body = vec![0x61; data];
        let segment = tcp(self.from, self.to).flags(flags).numbers(7, 9);
        let is_v4 = !self.source.contains(':');
        let echo = match (role, is_v4) {
            (Role::Request, true) => icmp(8, 0),
            (Role::Reply, true) => icmp(0, 0),
            (Role::Request, false) => icmp(128, 0),
            (Role::Reply, false) => icmp(129, 0),
        };
        let echo = echo.echo(self.from, 3).body(&body);
        if is_v4 {
            let packet = ipv4(&self.source, &self.destination);
            Packet::Four(match self.protocol {
                TCP => packet.tcp(segment),
                UDP if data % 5 == 4 => packet.udp_without_checksum(self.from, self.to, body),
                UDP => packet.udp(self.from, self.to, body),
                ICMP => packet.icmp(echo),
                _ => packet.payload(RAW, body),
            })
        } else {
            let packet = ipv6(&self.source, &self.destination);
            Packet::Six(match self.protocol {
                TCP => packet.tcp(segment),
                UDP => packet.udp(self.from, self.to, body),
                ICMPV6 => packet.icmp(echo),
                _ => packet.payload(RAW, body),
            })
        }
    }
}

impl Packet {
    pub(crate) fn hops(self, hops: u8) -> Self {
        match self {
            Self::Four(packet) => Self::Four(packet.ttl(hops)),
            Self::Six(packet) => Self::Six(packet.hop_limit(hops)),
        }
    }

    /// IPv4 options, or IPv6 extension headers that one may have.
    pub(crate) fn with_extras(self, random: &mut Random) -> Self {
        match self {
            Self::Four(packet) => {
                let octets = 4 * (1 + random.index(10));
                Self::Four(packet.options(vec![1; octets]))
            }
            Self::Six(mut packet) => {
                for _ in 0..=random.below(5) {
                    packet = match random.below(4) {
                        0 => packet.hop_by_hop([]),
                        1 => packet.destination_options([0; 14]),
                        2 => packet.routing(4, 0, [0; 4]),
                        _ => packet.fragment(1, 0, Fragments::Last),
                    };
                }
                Self::Six(packet)
            }
        }
    }

    /// A fragment, the first or a later one.
    pub(crate) fn fragment(self, random: &mut Random) -> Self {
        let offset = random.pick(&[0, 1, 185]);
        match self {
            Self::Four(packet) if offset == 0 => Self::Four(packet.more_fragments()),
            Self::Four(packet) => Self::Four(packet.fragment_offset(offset)),
            Self::Six(packet) => Self::Six(packet.fragment(5, offset, Fragments::More)),
        }
    }

    /// Headers that cannot be read or followed.
    pub(crate) fn malformed(self, random: &mut Random) -> Self {
        match self {
            Self::Four(packet) if random.below(2) == 0 => {
                Self::Four(packet.false_header_words(random.pick(&[0, 1, 4])))
            }
            Self::Four(packet) => Self::Four(packet.false_version(random.pick(&[0, 5, 6, 15]))),
            Self::Six(packet) => Self::Six(packet.false_version(random.pick(&[0, 4, 5, 7]))),
        }
    }

    pub(crate) fn carried_by(self, frame: Ethernet) -> Vec<u8> {
        match self {
            Self::Four(packet) => frame.ipv4(packet).build(),
            Self::Six(packet) => frame.ipv6(packet).build(),
        }
    }
}
