//! Ethernet II frames with VLAN tags (IEEE 802.3, 802.1Q), and ARP (RFC 826).

use std::net::Ipv4Addr;

use super::{Ipv4, Ipv6};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The Ethernet address of all stations.
pub const BROADCAST: Mac = [0xff; 6];

const TYPE_IPV4: u16 = 0x0800;
const TYPE_ARP: u16 = 0x0806;
const TYPE_VLAN: u16 = 0x8100;
const TYPE_IPV6: u16 = 0x86dd;
/// Bytes of the shortest frame without its check sequence.
const MIN_FRAME: usize = 60;

/// A frame under construction.
#[derive(Debug, Clone)]
pub struct Ethernet {
    source: Mac,
    destination: Mac,
    /// Tag protocol identifier and control information, outermost first.
    tags: Vec<(u16, u16)>,
    kind: u16,
    payload: Vec<u8>,
}

/// An empty frame from `source` to `destination`.
#[must_use]
pub fn ethernet(source: Mac, destination: Mac) -> Ethernet {
    Ethernet { source, destination, tags: Vec::new(), kind: 0, payload: Vec::new() }
}

impl Ethernet {
    /// Appends a VLAN tag (0x8100) of this identifier, 0..=4095.
    #[must_use]
    pub fn vlan(self, id: u16) -> Self {
        self.tag(TYPE_VLAN, id)
    }

    /// Appends a tag: 0x8100 or 0x88a8, and priority (3 bits), drop eligibility, identifier (12).
    #[must_use]
    pub fn tag(mut self, protocol: u16, control: u16) -> Self {
        self.tags.push((protocol, control));
        self
    }

    /// Carries an IPv4 packet.
    #[must_use]
    pub fn ipv4(self, packet: Ipv4) -> Self {
        self.payload(TYPE_IPV4, packet.build())
    }

    /// Carries an IPv6 packet.
    #[must_use]
    pub fn ipv6(self, packet: Ipv6) -> Self {
        self.payload(TYPE_IPV6, packet.build())
    }

    /// Carries an ARP message.
    #[must_use]
    pub fn arp(self, message: Arp) -> Self {
        self.payload(TYPE_ARP, message.build())
    }

    /// Any payload, of EtherType `kind`.
    #[must_use]
    pub fn payload(mut self, kind: u16, payload: impl Into<Vec<u8>>) -> Self {
        self.kind = kind;
        self.payload = payload.into();
        self
    }

    /// Pads the payload with zeros, as a driver does with a frame below 60 bytes.
    #[must_use]
    pub fn padded(mut self) -> Self {
        let head = 14 + 4 * self.tags.len();
        self.payload.resize(self.payload.len().max(MIN_FRAME - head), 0);
        self
    }

    /// The bytes of the frame, without its check sequence.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut frame = [self.destination, self.source].concat();
        for (protocol, control) in &self.tags {
            frame.extend(protocol.to_be_bytes());
            frame.extend(control.to_be_bytes());
        }
        frame.extend(self.kind.to_be_bytes());
        frame.extend(&self.payload);
        frame
    }
}

/// An ARP message under construction.
#[derive(Debug, Clone)]
pub struct Arp {
    operation: u16,
    sender_mac: Mac,
    sender: Ipv4Addr,
    target_mac: Mac,
    target: Ipv4Addr,
}

/// The question who has `target`, for `sender` at `mac`; 0.0.0.0 makes it a probe (RFC 5227).
///
/// # Panics
/// Not an IPv4 address.
#[must_use]
pub fn arp_request(mac: Mac, sender: &str, target: &str) -> Arp {
    arp(1, (mac, sender), ([0; 6], target))
}

/// The answer that `sender` is at `mac`, for the asker `target` at `target_mac`.
///
/// # Panics
/// Not an IPv4 address.
#[must_use]
pub fn arp_reply(mac: Mac, sender: &str, target_mac: Mac, target: &str) -> Arp {
    arp(2, (mac, sender), (target_mac, target))
}

#[expect(clippy::expect_used, reason = "a test packet that cannot exist is a mistake in the test")]
fn arp(operation: u16, sender: (Mac, &str), target: (Mac, &str)) -> Arp {
    Arp {
        operation,
        sender_mac: sender.0,
        sender: sender.1.parse().expect("the sender is an IPv4 address"),
        target_mac: target.0,
        target: target.1.parse().expect("the target is an IPv4 address"),
    }
}

impl Arp {
    /// The operation: 1 request, 2 reply.
    #[must_use]
    pub fn operation(mut self, operation: u16) -> Self {
        self.operation = operation;
        self
    }

    /// The bytes of the message.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let mut message = vec![0, 1, 8, 0, 6, 4];
        message.extend(self.operation.to_be_bytes());
        message.extend(self.sender_mac);
        message.extend(self.sender.octets());
        message.extend(self.target_mac);
        message.extend(self.target.octets());
        message
    }
}

#[cfg(test)]
mod tests {
    use super::super::ipv4;
    use super::*;

    const HERE: Mac = [2, 0, 0, 0, 0, 1];
    const THERE: Mac = [2, 0, 0, 0, 0, 2];

    #[test]
    fn tags_stand_between_the_addresses_and_the_type() {
        let packet = ipv4("10.0.0.1", "10.0.0.2");
        let frame = ethernet(HERE, THERE).tag(0x88a8, 0xe007).vlan(42).ipv4(packet.clone()).build();
        let head = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xa8, 0xe0, 7, 0x81, 0, 0, 42, 8, 0];
        assert_eq!(frame[..22], head);
        assert_eq!(frame[22..], packet.build());
    }

    #[test]
    fn an_arp_request_is_laid_out_as_in_the_rfc() {
        let frame = ethernet(HERE, BROADCAST).arp(arp_request(HERE, "10.0.0.1", "10.0.0.2"));
        let expected = [
            &[0xff; 6][..],
            &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
            &[2, 0, 0, 0, 0, 1, 10, 0, 0, 1],
            &[0, 0, 0, 0, 0, 0, 10, 0, 0, 2],
        ];
        assert_eq!(frame.build(), expected.concat());
        assert_eq!(frame.padded().build().len(), 60);
    }
}
