//! The worlds in which packets are decided about, and what holds for every decision.

use datapath::fixed::FixedTables;
use datapath::{SliceFrame, Verdict};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Address;

pub(super) const FRONTEND4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(super) const FRONTEND6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const BACKEND4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const BACKEND6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xb, 0, 0, 0, 0, 1);
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x64, 0, 0, 0, 0, 0);
const POOL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const CLIENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xc, 0, 0, 0, 0, 7);

/// The room before a packet; less than the headers to be written needs, in some worlds.
const HEADROOMS: [usize; 4] = [64, 64, 20, 0];

/// A world and the room before the packet, chosen by one octet: families in the lower two bits,
/// then the MTU, then the room. Both frontends have backends of both families.
pub(super) fn world(choice: u8) -> (FixedTables, usize) {
    let backends = [IpAddr::V4(BACKEND4), IpAddr::V6(BACKEND6)];
    let (frontend, winner) = match choice & 3 {
        0 => (IpAddr::V4(FRONTEND4), 0),
        1 => (IpAddr::V6(FRONTEND6), 1),
        2 => (IpAddr::V4(FRONTEND4), 1),
        _ => (IpAddr::V6(FRONTEND6), 0),
    };
    let mut tables = FixedTables::new(frontend, &backends);
    tables.winners = vec![winner];
    tables = match frontend {
        IpAddr::V4(_) => tables.with_prefix(IpAddr::V6(PREFIX)),
        IpAddr::V6(_) => tables.with_pool(&[IpAddr::V4(POOL)]),
    };
    tables.clients.insert((IpAddr::V4(POOL).into(), 1), IpAddr::V6(CLIENT6).into());
    tables.mtu = [Some(1500), Some(1280), Some(100), None][usize::from(choice >> 2 & 3)];
    (tables, HEADROOMS[usize::from(choice >> 4 & 3)])
}

/// Runs `decide` on the packet; the verdict and the frame as it is then.
pub(super) fn in_frame(
    packet: &[u8],
    headroom: usize,
    decide: impl FnOnce(&mut SliceFrame) -> Verdict,
) -> (Verdict, Vec<u8>) {
    let mut buffer = vec![0xa5; headroom];
    buffer.extend(packet);
    let end = buffer.len();
    match SliceFrame::new(&mut buffer, headroom, end) {
        Some(mut frame) => {
            let verdict = decide(&mut frame);
            (verdict, frame.octets().to_vec())
        }
        None => unreachable!("the packet is the buffer's tail"),
    }
}

/// What a verdict promises about the frame that goes with it.
pub(super) fn check(sent: &[u8], verdict: Verdict, octets: &[u8], tables: &FixedTables) {
    match verdict {
        Verdict::ToBackend(index) => {
            check_whole(octets);
            let backend = tables.backends[usize::from(index)];
            assert_eq!(destination(octets), backend, "another destination than the backend");
        }
        Verdict::ToClient(_) => {
            check_whole(octets);
            assert_eq!(source(octets), tables.service.frontend, "another source");
            assert!(destination(octets).is_routable(), "{}", destination(octets));
        }
        Verdict::Answer(_) => {
            check_whole(octets);
            assert_eq!(destination(octets), source(sent), "an answer to another");
            assert_eq!(source(octets), destination(sent), "an answer by another");
            assert!(destination(octets).is_routable(), "{}", destination(octets));
            check_icmp(octets);
            let (overhead, most) = if octets[0] >> 4 == 4 { (28, 576) } else { (48, 1280) };
            assert!(octets.len() <= most && sent.starts_with(&octets[overhead..]), "quote");
        }
        Verdict::Pass | Verdict::Everyone => assert!(sent.starts_with(octets), "was changed"),
        Verdict::Drop(_) => {}
    }
}

/// The packet is as long as it says, has a hop left, and its IPv4 header sums up.
fn check_whole(octets: &[u8]) {
    if octets[0] >> 4 == 4 {
        assert_eq!(word(octets, 2), octets.len());
        assert_eq!(sum(&octets[..header_bytes(octets)]), 0xffff, "header checksum");
        assert!(octets[8] > 0, "no hop left");
    } else {
        assert_eq!((octets[0] >> 4, 40 + word(octets, 4)), (6, octets.len()));
        assert!(octets[7] > 0, "no hop left");
    }
}

/// The packet is an ICMP message without options or extension headers, whose checksum is right.
pub(super) fn check_icmp(octets: &[u8]) {
    let message = &octets[header_bytes(octets)..];
    if octets[0] >> 4 == 4 {
        assert_eq!((octets[9], sum(message)), (1, 0xffff));
    } else {
        let length = u32::try_from(message.len()).unwrap_or(0).to_be_bytes();
        let pseudo = [&octets[8..40], &length, &[0, 0, 0, 58], message].concat();
        assert_eq!((octets[6], sum(&pseudo)), (58, 0xffff));
    }
}

/// Octets of the fixed header, IPv4 options included.
fn header_bytes(packet: &[u8]) -> usize {
    if packet[0] >> 4 == 4 { usize::from(packet[0] & 15) * 4 } else { 40 }
}

fn source(packet: &[u8]) -> Address {
    if packet[0] >> 4 == 4 { v4(&packet[12..16]) } else { v6(&packet[8..24]) }
}

fn destination(packet: &[u8]) -> Address {
    if packet[0] >> 4 == 4 { v4(&packet[16..20]) } else { v6(&packet[24..40]) }
}

fn v4(octets: &[u8]) -> Address {
    Address::v4(octets.try_into().unwrap_or_default())
}

fn v6(octets: &[u8]) -> Address {
    Address::v6(octets.try_into().unwrap_or_default())
}

fn word(octets: &[u8], at: usize) -> usize {
    usize::from(octets[at]) << 8 | usize::from(octets[at + 1])
}

/// The ones' complement sum in the most obvious way (RFC 1071); ffff over data that carries its
/// right checksum.
pub(super) fn sum(octets: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(0)
}
