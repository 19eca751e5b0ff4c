//! TCP (RFC 9293).

use super::{PROTOCOL_TCP, PseudoHeader, words_u8};

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const WINDOW: u16 = 64_240;

/// A TCP segment under construction.
#[derive(Debug, Clone)]
pub struct Tcp {
    source_port: u16,
    destination_port: u16,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    options: Vec<u8>,
    payload: Vec<u8>,
    checksum_error: u16,
}

/// A segment without a flag, an option or data; sequence and acknowledgement numbers are 0.
#[must_use]
pub fn tcp(source_port: u16, destination_port: u16) -> Tcp {
    Tcp {
        source_port,
        destination_port,
        sequence: 0,
        acknowledgement: 0,
        flags: 0,
        options: Vec::new(),
        payload: Vec::new(),
        checksum_error: 0,
    }
}

impl Tcp {
    /// Sets SYN.
    #[must_use]
    pub fn syn(self) -> Self {
        self.flag(SYN)
    }

    /// Sets ACK.
    #[must_use]
    pub fn ack(self) -> Self {
        self.flag(ACK)
    }

    /// Sets FIN.
    #[must_use]
    pub fn fin(self) -> Self {
        self.flag(FIN)
    }

    /// Sets RST.
    #[must_use]
    pub fn rst(self) -> Self {
        self.flag(RST)
    }

    /// Sets PSH and ACK, and carries data.
    #[must_use]
    pub fn data(mut self, payload: impl AsRef<[u8]>) -> Self {
        self.payload = payload.as_ref().to_vec();
        self.flag(PSH | ACK)
    }

    /// Sets all control bits at once.
    #[must_use]
    pub fn flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    /// Sequence and acknowledgement number.
    #[must_use]
    pub fn numbers(mut self, sequence: u32, acknowledgement: u32) -> Self {
        (self.sequence, self.acknowledgement) = (sequence, acknowledgement);
        self
    }

    /// The option that tells the largest segment to send here.
    #[must_use]
    pub fn maximum_segment_size(self, bytes: u16) -> Self {
        let [high, low] = bytes.to_be_bytes();
        self.options([2, 4, high, low])
    }

    /// Appends options, at most 40 bytes in all; padded with zeros (end of options) to a multiple
    /// of four.
    #[must_use]
    pub fn options(mut self, options: impl AsRef<[u8]>) -> Self {
        self.options.extend(options.as_ref());
        self.options.resize(self.options.len().next_multiple_of(4), 0);
        assert!(self.options.len() <= 40, "TCP has room for 40 bytes of options");
        self
    }

    /// The checksum is wrong.
    #[must_use]
    pub fn bad_checksum(mut self) -> Self {
        self.checksum_error = 0x0100;
        self
    }

    fn flag(mut self, flag: u8) -> Self {
        self.flags |= flag;
        self
    }

    /// The segment; its checksum covers the pseudo header.
    pub(super) fn build(&self, pseudo: &PseudoHeader) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend(self.source_port.to_be_bytes());
        segment.extend(self.destination_port.to_be_bytes());
        segment.extend(self.sequence.to_be_bytes());
        segment.extend(self.acknowledgement.to_be_bytes());
        segment.extend([words_u8(20 + self.options.len(), 4) << 4, self.flags]);
        segment.extend(WINDOW.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend(&self.options);
        segment.extend(&self.payload);
        let sum = pseudo.checksum(PROTOCOL_TCP, &segment) ^ self.checksum_error;
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        segment
    }
}

#[cfg(test)]
mod tests {
    use super::super::ipv4;
    use super::*;

    #[test]
    fn a_segment_is_that_of_another_implementation() {
        // scapy 2.5.0: TCP(sport=4660, dport=443, flags="S", seq=1, ack=2, window=64240,
        // options=[("MSS", 1460)]) between these addresses.
        let segment = tcp(0x1234, 443).syn().numbers(1, 2).maximum_segment_size(1460);
        let packet = ipv4("10.0.0.1", "10.0.0.2").tcp(segment).build();
        let expected = [
            0x12, 0x34, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x60, 0x02, 0xfa, 0xf0, 0x75, 0x41, 0,
            0, 2, 4, 0x05, 0xb4,
        ];
        assert_eq!(packet[20..], expected);
    }

    #[test]
    fn flags_are_the_bits_of_the_rfc() {
        let pseudo = PseudoHeader { addresses: vec![0; 8] };
        for (segment, flags) in [
            (tcp(1, 2).fin(), 0x01),
            (tcp(1, 2).syn().ack(), 0x12),
            (tcp(1, 2).rst(), 0x04),
            (tcp(1, 2).data(b"x"), 0x18),
            (tcp(1, 2).flags(0xc2), 0xc2),
        ] {
            assert_eq!(segment.build(&pseudo)[13], flags);
        }
    }
}
