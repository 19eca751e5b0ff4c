//! The receiver's view of a frame: whether every checksum in it is right, summed from scratch.

use super::{PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP, PseudoHeader, checksum};

/// Checks the IPv4 header's checksum and that of TCP, UDP, ICMP or ICMPv6, behind VLAN tags,
/// options and extension headers. Frames that are not IP, and other protocols, have none.
///
/// # Errors
/// Which checksum is wrong, or which header is not there.
pub fn verify_sums(frame: &[u8]) -> Result<(), String> {
    let mut at = 12;
    while matches!(word(frame, at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let packet = frame.get(at + 2..).ok_or("no payload")?;
    match word(frame, at)? {
        0x0800 => verify_v4(packet),
        0x86dd => verify_v6(packet),
        _ => Ok(()),
    }
}

fn verify_v4(packet: &[u8]) -> Result<(), String> {
    let header = usize::from(packet.first().ok_or("no header")? & 15) * 4;
    let header_bytes = packet.get(..header).ok_or("header cut short")?;
    if checksum(header_bytes) != 0 {
        return Err("the IPv4 header's checksum is wrong".to_owned());
    }
    let length = usize::from(word(packet, 2)?);
    let datagram = packet.get(header..length).ok_or("packet cut short")?;
    if word(packet, 6)? & 0x3fff != 0 {
        return Ok(());
    }
    verify_transport(packet[9], &packet[12..20], datagram)
}

fn verify_v6(packet: &[u8]) -> Result<(), String> {
    let length = usize::from(word(packet, 4)?);
    let mut next = packet[6];
    let mut rest = packet.get(40..40 + length).ok_or("packet cut short")?;
    loop {
        let header = match next {
            0 | 43 | 60 => 8 + 8 * usize::from(*rest.get(1).ok_or("extension cut short")?),
            44 => 8,
            51 => 8 + 4 * usize::from(*rest.get(1).ok_or("extension cut short")?),
            _ => break,
        };
        if next == 44 && word(rest, 2)? & !6 != 0 {
            return Ok(());
        }
        next = rest[0];
        rest = rest.get(header..).ok_or("extension cut short")?;
    }
    verify_transport(next, &packet[8..40], rest)
}

fn verify_transport(protocol: u8, addresses: &[u8], datagram: &[u8]) -> Result<(), String> {
    let pseudo = PseudoHeader { addresses: addresses.to_vec() };
    let (name, sum) = match protocol {
        PROTOCOL_TCP => ("TCP", pseudo.checksum(PROTOCOL_TCP, datagram)),
        PROTOCOL_UDP if word(datagram, 6)? == 0 => return Ok(()),
        PROTOCOL_UDP => {
            let length = usize::from(word(datagram, 4)?);
            let datagram = datagram.get(..length).ok_or("datagram cut short")?;
            ("UDP", pseudo.checksum(PROTOCOL_UDP, datagram))
        }
        PROTOCOL_ICMP if addresses.len() == 8 => ("ICMP", checksum(datagram)),
        PROTOCOL_ICMPV6 if addresses.len() == 32 => {
            ("ICMPv6", pseudo.checksum(PROTOCOL_ICMPV6, datagram))
        }
        _ => return Ok(()),
    };
    if sum == 0 { Ok(()) } else { Err(format!("the {name} checksum is wrong")) }
}

fn word(bytes: &[u8], at: usize) -> Result<u16, String> {
    let word = bytes.get(at..at + 2).ok_or_else(|| format!("no word at {at}"))?;
    Ok(u16::from_be_bytes([word[0], word[1]]))
}

#[cfg(test)]
mod tests {
    use super::super::{ethernet, icmp, ipv4, ipv6, tcp};
    use super::*;

    fn frames() -> Vec<Vec<u8>> {
        let frame = || ethernet([2; 6], [4; 6]);
        let (v4, v6) = (ipv4("10.0.0.1", "10.0.0.2"), ipv6("fd77::1", "fd77::2"));
        vec![
            frame().ipv4(v4.clone().options([1]).tcp(tcp(1, 2).syn())).build(),
            frame().vlan(7).ipv4(v4.clone().udp(1, 2, b"abc")).build(),
            frame().ipv4(v4.icmp(icmp(8, 0).echo(1, 2))).build(),
            frame().ipv6(v6.clone().hop_by_hop([]).tcp(tcp(1, 2).data(b"x"))).build(),
            frame().vlan(1).vlan(2).ipv6(v6.clone().udp(1, 2, b"abc")).build(),
            frame().ipv6(v6.icmp(icmp(128, 0).echo(1, 2))).build(),
        ]
    }

    #[test]
    fn what_is_built_verifies_and_no_changed_byte_of_its_transport_does() {
        for (case, frame) in frames().into_iter().enumerate() {
            assert_eq!(verify_sums(&frame), Ok(()), "frame {case}");
            let at = frame.len() - 1;
            let broken = super::super::corrupt(frame, at, 0x10);
            assert!(verify_sums(&broken).is_err(), "frame {case}");
        }
    }

    #[test]
    fn a_udp_checksum_of_zero_says_that_there_is_none() {
        let packet = ipv4("10.0.0.1", "10.0.0.2").udp_without_checksum(1, 2, b"abc");
        let frame = ethernet([2; 6], [4; 6]).ipv4(packet).build();
        assert_eq!(frame[40..42], [0, 0]);
        assert_eq!(verify_sums(&frame), Ok(()));
    }
}
