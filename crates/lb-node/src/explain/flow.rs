//! The packet that is asked about, as words of the command line say it.

use datapath::lb::Direction;
use datapath::lb::layout::FlowKey;
use std::net::{IpAddr, SocketAddr};
use wire::Address;
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};
use wire::tcp::flag;

/// The source port of a flow that names none.
pub const SOURCE_PORT: u16 = 49_152;

/// A packet's flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// IP protocol.
    pub protocol: u8,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port, or an echo's identifier.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// An echo's sequence number.
    pub sequence: u16,
    /// Whether an echo asks or answers.
    pub direction: Direction,
}

/// TCP control bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u8);

/// The names of TCP control bits, as RFC 9293 3.1 orders them.
pub const FLAGS: [(&str, u8); 6] = [
    ("fin", flag::FIN),
    ("syn", flag::SYN),
    ("rst", flag::RST),
    ("psh", 0x08),
    ("ack", flag::ACK),
    ("urg", 0x20),
];

impl std::str::FromStr for Flags {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bits = 0;
        for word in text.split([',', '|', '+']) {
            let known = FLAGS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word.trim()));
            let (_, bit) = known.ok_or_else(|| {
                format!("{word:?} is none of fin, syn, rst, psh, ack, urg; join them with a comma")
            })?;
            bits |= bit;
        }
        Ok(Self(bits))
    }
}

impl Flow {
    /// The flow of these words: protocol, source and destination, and `id=N` and `seq=N` of an
    /// echo.
    ///
    /// # Errors
    /// What cannot be.
    pub fn parse(
        protocol: &str,
        source: &str,
        destination: &str,
        echo: &[String],
    ) -> Result<Self, String> {
        let (source, source_port) = place(source)?;
        let (destination, destination_port) = place(destination)?;
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(format!("{source} and {destination} are of different families"));
        }
        let protocol = self::protocol(protocol, source)?;
        let mut flow = Self {
            protocol,
            source,
            destination,
            source_port: source_port.unwrap_or(0),
            destination_port: destination_port.unwrap_or(0),
            sequence: 1,
            direction: Direction::Forward,
        };
        match protocol {
            TCP | UDP if destination_port.is_none() => {
                return Err(format!("the destination has no port: write {}", example(destination)));
            }
            TCP | UDP => flow.source_port = source_port.unwrap_or(SOURCE_PORT),
            _ if source_port.or(destination_port).is_some() => {
                return Err("only tcp and udp have ports".to_owned());
            }
            ICMP | ICMPV6 => flow.source_port = 1,
            _ => {}
        }
        for word in echo {
            let number = |text: &str| text.parse().map_err(|_| format!("{word:?}: not 0 to 65535"));
            match word.split_once('=') {
                _ if !flow.is_echo() => return Err(format!("{word:?}: only icmp has that")),
                Some(("id", id)) => flow.source_port = number(id)?,
                Some(("seq", sequence)) => flow.sequence = number(sequence)?,
                _ => return Err(format!("{word:?}: write id=N or seq=N")),
            }
        }
        Ok(flow)
    }

    /// Whether it is an ICMP or ICMPv6 echo.
    pub fn is_echo(&self) -> bool {
        matches!(self.protocol, ICMP | ICMPV6)
    }

    /// The key under which a session has it.
    pub fn key(&self) -> FlowKey {
        FlowKey {
            source: Address::from(self.source),
            destination: Address::from(self.destination),
            source_port: self.source_port.to_be_bytes(),
            destination_port: self.destination_port.to_be_bytes(),
            protocol: self.protocol,
            zero: [0; 3],
        }
    }

    /// The flow of a backend's packets that have this key.
    pub fn of_reply(key: &FlowKey, sequence: u16) -> Self {
        Self {
            protocol: key.protocol,
            source: key.source.into(),
            destination: key.destination.into(),
            source_port: u16::from_be_bytes(key.source_port),
            destination_port: u16::from_be_bytes(key.destination_port),
            sequence,
            direction: Direction::Reply,
        }
    }
}

/// An address, and a port if there is one: `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]:80`.
fn place(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    if let Ok(place) = text.parse::<SocketAddr>() {
        return Ok((place.ip(), Some(place.port())));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().map_err(|_| {
        format!(
            "{text:?} is not ADDRESS or ADDRESS:PORT; an IPv6 address with a port is [ADDRESS]:PORT"
        )
    });
    address.map(|address| (address, None))
}

fn protocol(text: &str, address: IpAddr) -> Result<u8, String> {
    let number = match text.to_ascii_lowercase().as_str() {
        "tcp" => Ok(TCP),
        "udp" => Ok(UDP),
        "icmp" if address.is_ipv4() => Ok(ICMP),
        "icmp" | "icmpv6" | "icmp6" if address.is_ipv6() => Ok(ICMPV6),
        other => other.parse(),
    };
    number.map_err(|_| format!("protocol {text:?}: write tcp, udp, icmp or a number below 256"))
}

fn example(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, 443)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Flow, String> {
        let [protocol, source, destination, echo @ ..] = words else { panic!("{words:?}") };
        let echo: Vec<_> = echo.iter().map(|word| (*word).to_owned()).collect();
        Flow::parse(protocol, source, destination, &echo)
    }

    #[test]
    fn flows_are_written_as_people_write_them() {
        for (words, protocol, source_port, destination_port) in [
            (&["tcp", "192.0.2.1:1234", "203.0.113.10:443"][..], TCP, 1234, 443),
            (&["TCP", "192.0.2.1", "203.0.113.10:443"], TCP, SOURCE_PORT, 443),
            (&["udp", "[2001:db8::1]:9", "[2001:db8::10]:53"], UDP, 9, 53),
            (&["17", "2001:db8::1", "[2001:db8::10]:53"], UDP, SOURCE_PORT, 53),
            (&["icmp", "192.0.2.1", "203.0.113.10"], ICMP, 1, 0),
            (&["icmp", "192.0.2.1", "203.0.113.10", "id=77", "seq=3"], ICMP, 77, 0),
            (&["icmp", "2001:db8::1", "[2001:db8::10]"], ICMPV6, 1, 0),
            (&["47", "192.0.2.1", "203.0.113.10"], 47, 0, 0),
        ] {
            let flow = parse(words).unwrap();
            let said = (flow.protocol, flow.source_port, flow.destination_port);
            assert_eq!(said, (protocol, source_port, destination_port), "{words:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        for (words, reason) in [
            (&["tcp", "192.0.2.1", "203.0.113.10"][..], "write 203.0.113.10:443"),
            (&["tcp", "192.0.2.1", "[2001:db8::1]:443"], "different families"),
            (&["icmp", "192.0.2.1:1", "203.0.113.10"], "only tcp and udp"),
            (&["udp", "192.0.2.1", "203.0.113.10:53", "id=1"], "only icmp"),
            (&["icmp", "192.0.2.1", "203.0.113.10", "id=65536"], "not 0 to 65535"),
            (&["icmp", "192.0.2.1", "203.0.113.10", "7"], "write id=N"),
            (&["icmpv6", "192.0.2.1", "203.0.113.10"], "write tcp"),
            (&["sctp", "192.0.2.1", "203.0.113.10"], "write tcp"),
            (&["256", "192.0.2.1", "203.0.113.10"], "below 256"),
            (&["tcp", "host", "203.0.113.10:1"], "is not ADDRESS"),
            (&["tcp", "2001:db8::1:x", "[2001:db8::1]:443"], "[ADDRESS]:PORT"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(reason), "{words:?}: {error}");
        }
    }

    #[test]
    fn flags_are_joined_by_comma_or_bar() {
        assert_eq!("syn".parse(), Ok(Flags(flag::SYN)));
        assert_eq!("SYN,ack".parse(), Ok(Flags(flag::SYN | flag::ACK)));
        assert_eq!("fin|ack".parse(), Ok(Flags(flag::FIN | flag::ACK)));
        assert!("syn ack".parse::<Flags>().is_err());
    }
}
