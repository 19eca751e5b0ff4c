//! Packets and their headers.

use super::world::{FRONTEND4, FRONTEND6, check, check_icmp, in_frame, sum, world};
use datapath::gre::{error_to, process};
use datapath::ip::{Packet, Part, readdress};
use datapath::{SliceFrame, Verdict};
use wire::checksum::{Sum, update};
use wire::{Address, Family, gre, icmp, ipv4, ipv6};

/// The packet's parts lie in the packet, and one that is readdressed parses to the same but for
/// destination and TTL.
pub fn ip_parse(octets: &[u8]) {
    let mut octets = octets.to_vec();
    let end = octets.len();
    let Some(mut frame) = SliceFrame::new(&mut octets, 0, end) else { return };
    let Ok(packet) = Packet::parse(&frame) else { return };
    assert!(packet.payload >= 20 && packet.payload <= packet.length && packet.length <= end);
    let destination = match packet.family {
        Family::V4 => Address::v4([10, 0, 0, 1]),
        Family::V6 => Address::v6([0x20; 16]),
    };
    match readdress(&mut frame, &packet, destination) {
        Some(()) => {
            let expected = Packet { destination, ttl: packet.ttl - 1, ..packet };
            assert_eq!(Packet::parse(&frame), Ok(expected));
        }
        None => assert_eq!(packet.ttl, 0),
    }
}

/// A packet in a world that the first octet chooses: the verdict's promise holds, and the GRE
/// header and payload leave as they came.
pub fn gre_process(octets: &[u8]) {
    let Some((choice, packet)) = octets.split_first() else { return };
    let (mut tables, headroom) = world(*choice);
    let (verdict, after) = in_frame(packet, headroom, |frame| process(frame, &mut tables));
    check(packet, verdict, &after, &tables);
    if let Verdict::ToBackend(_) | Verdict::ToClient(_) = verdict
        && let Some((length, payload)) = whole_gre(packet)
    {
        assert!(after.ends_with(&packet[payload..length]), "GRE was changed");
    }
    if verdict == Verdict::Everyone {
        copies(packet, headroom, *choice);
    }
}

/// Length and start of the GRE header of a whole packet.
fn whole_gre(packet: &[u8]) -> Option<(usize, usize)> {
    let mut octets = packet.to_vec();
    let end = octets.len();
    let packet = Packet::parse(&SliceFrame::new(&mut octets, 0, end)?).ok()?;
    (packet.protocol == 47 && packet.part == Part::Whole).then_some((packet.length, packet.payload))
}

/// An ICMP error that quotes the octets: a frontend's message with a right checksum, so that the
/// fuzzer need not find one. The octets begin with the world, four for the message (a flag, TTL,
/// type, code), its word, and the quote, whose source is the frontend unless the flag says no.
pub fn icmp_error(octets: &[u8]) {
    let Some(([choice, flags, ttl, kind, code, rest @ ..], quote)) =
        octets.split_first_chunk::<9>()
    else {
        return;
    };
    let (mut tables, headroom) = world(*choice);
    let is_v4 = tables.service.frontend.family() == Family::V4;
    let mut quote = quote.to_vec();
    quote.truncate(2_000);
    if flags & 1 == 0 {
        let (at, frontend) = match is_v4 {
            true => (12, &FRONTEND4.octets()[..]),
            false => (8, &FRONTEND6.octets()[..]),
        };
        if let Some(source) = quote.get_mut(at..at + frontend.len()) {
            source.copy_from_slice(frontend);
        }
    }
    let packet = error(is_v4, *ttl, [*kind, *code], *rest, &quote);
    let (verdict, after) = in_frame(&packet, headroom, |frame| process(frame, &mut tables));
    check(&packet, verdict, &after, &tables);
    match verdict {
        Verdict::ToBackend(_) => check_icmp(&after),
        Verdict::Everyone => copies(&packet, headroom, *choice),
        Verdict::Answer(_) => unreachable!("an error was answered with an error"),
        Verdict::ToClient(_) | Verdict::Pass | Verdict::Drop(_) => {}
    }
}

/// Every copy of an error for everyone keeps the verdict's promise too.
fn copies(packet: &[u8], headroom: usize, choice: u8) {
    for index in 0..3 {
        let (mut tables, _) = world(choice);
        let run = |frame: &mut SliceFrame| error_to(frame, index, &mut tables);
        let (verdict, after) = in_frame(packet, headroom, run);
        let sent = matches!(verdict, Verdict::ToBackend(to) if to == index);
        assert!(sent || matches!(verdict, Verdict::Drop(_)), "{verdict:?}");
        check(packet, verdict, &after, &tables);
    }
}

/// An ICMP error of a router, octet by octet.
fn error(is_v4: bool, ttl: u8, kind: [u8; 2], rest: [u8; 4], quote: &[u8]) -> Vec<u8> {
    let mut message = [&kind[..], &[0, 0], &rest, quote].concat();
    let length = u16::try_from(message.len()).unwrap_or(0).to_be_bytes();
    let mut header = if is_v4 {
        let total = u16::try_from(20 + message.len()).unwrap_or(0).to_be_bytes();
        let mut header = [&[0x45, 0xc0][..], &total, &[0, 0, 0, 0, ttl, 1, 0, 0]].concat();
        header.extend([203, 0, 113, 77]);
        header.extend(FRONTEND4.octets());
        let checksum = !sum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    } else {
        let mut header = [&[0x6c, 0, 0, 0][..], &length, &[58, ttl]].concat();
        header.extend([0x20, 1, 0xd, 0xb8, 0xf, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77]);
        header.extend(FRONTEND6.octets());
        header
    };
    let pseudo = if is_v4 { Vec::new() } else { [&header[8..40], &length, &[0, 58]].concat() };
    let checksum = !sum(&[&pseudo[..], &message].concat());
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    header.extend(message);
    header
}

/// What a header parses to is emitted as it came, and checksums agree with the obvious sum.
pub fn wire_headers(octets: &[u8]) {
    if let Some(first) = octets.first_chunk::<{ ipv4::HEADER_BYTES }>()
        && let Some(header) = ipv4::Header::parse(*first)
    {
        let emitted = header.emit();
        assert_eq!(sum(&emitted), 0xffff);
        // The header length, the reserved flag and the checksum are the emitter's own.
        assert_eq!((emitted[0], emitted[6]), (0x45, first[6] & 0x7f));
        for at in (1..20).filter(|at| ![6, 10, 11].contains(at)) {
            assert_eq!(emitted[at], first[at], "octet {at}");
        }
    }
    if let Some(first) = octets.first_chunk::<{ ipv6::HEADER_BYTES }>()
        && let Some(header) = ipv6::Header::parse(*first)
    {
        assert_eq!(header.emit(), *first);
    }
    if let Some(first) = octets.first_chunk::<{ gre::BASE_BYTES }>()
        && let Ok(header) = gre::Header::parse(*first)
    {
        assert_eq!(header.emit(), *first);
        let offsets = [header.key_offset(), header.sequence_offset()];
        assert!(offsets.into_iter().flatten().all(|at| at + 4 <= header.length()));
        assert!(header.length() <= gre::MAX_HEADER_BYTES);
    }
    if let Some(first) = octets.first_chunk::<{ icmp::HEADER_BYTES }>() {
        assert_eq!(icmp::Header::parse(*first).emit(), *first);
    }
    assert_eq!(Sum::new().octets(octets).checksum(), !sum(octets));
    if let Some((replacement, words)) = octets.split_first_chunk::<2>()
        && words.len() >= 4
    {
        let mut words = words[..words.len() & !1].to_vec();
        let checksum = Sum::new().octets(&words).checksum();
        let (old, new) = (Sum::new().octets(&words[2..4]), Sum::new().octets(replacement));
        words[2..4].copy_from_slice(replacement);
        let updated = update(checksum, old, new);
        let anew = Sum::new().octets(&words).checksum();
        assert!(
            updated == anew || (updated, anew) == (0, 0xffff) || (updated, anew) == (0xffff, 0)
        );
    }
}
