//! Frames of many flows, whole and with right checksums.

use crate::assembly::Width::{Eight, Four, Two};
use crate::harness::{Frames, Part};
use datapath::lb::layout::FlowKey;
use wire::checksum::{Sum, pseudo_v6};
use wire::ethernet::kind::{IPV4, IPV6};
use wire::{Family, protocol, tcp::flag};

/// The shortest frame that Ethernet carries, without its check sequence.
const SHORTEST: usize = 60;
const TTL: u8 = 64;

const fn part(at: i16, width: crate::assembly::Width) -> Part {
    Part { at, width }
}

const ETHERNET: [Part; 2] = [part(0, Eight), part(8, Four)];
const ETHERNET_V6: [Part; 3] = [part(0, Eight), part(8, Four), part(14, Eight)];
/// TTL, protocol and checksum; addresses; ports; the transport's checksum.
const TCP_V4: [Part; 4] = [part(22, Four), part(26, Eight), part(34, Four), part(50, Two)];
/// The same; an echo's type, code and checksum; its identifier.
const ICMP_V4: [Part; 4] = [part(22, Four), part(26, Eight), part(34, Four), part(38, Two)];
const TCP_V6: [Part; 6] = [
    part(22, Eight),
    part(30, Eight),
    part(38, Eight),
    part(46, Eight),
    part(54, Four),
    part(70, Two),
];

/// Which way a packet goes, and what a TCP segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Open,
    Forward,
    Reply,
}

/// The flows' frames, in this order, to and from these Ethernet addresses.
pub(crate) fn frames(keys: &[FlowKey], ethernet: [u8; 12], step: Step) -> Frames {
    let first = &keys[0];
    let family = first.source.family();
    let (fixed, parts): (&[Part], &[Part]) = match (family, first.protocol) {
        (Family::V4, protocol::ICMP) => (&ETHERNET, &ICMP_V4),
        (Family::V4, _) => (&ETHERNET, &TCP_V4),
        (Family::V6, _) => (&ETHERNET_V6, &TCP_V6),
    };
    let used: i16 = parts.iter().map(|part| part.width.octets()).sum();
    let stride = used.unsigned_abs().next_multiple_of(8);
    let mut flows = Vec::with_capacity(keys.len() * usize::from(stride));
    for key in keys {
        let frame = frame(key, ethernet, step);
        let end = flows.len() + usize::from(stride);
        for part in parts {
            let at = usize::from(part.at.unsigned_abs());
            let octets = usize::from(part.width.octets().unsigned_abs());
            flows.extend_from_slice(&frame[at..at + octets]);
        }
        flows.resize(end, 0);
    }
    Frames { frame: frame(first, ethernet, step), fixed, parts, flows, stride }
}

fn frame(key: &FlowKey, ethernet: [u8; 12], step: Step) -> Vec<u8> {
    let mut frame = Vec::from(ethernet);
    let transport = match key.protocol {
        protocol::ICMP => echo(key, step),
        _ => segment(key, step),
    };
    let [length_high, length] = u16::try_from(transport.len()).unwrap_or(0).to_be_bytes();
    match key.source.family() {
        Family::V4 => {
            frame.extend(IPV4.to_be_bytes());
            let whole = length + 20;
            let mut header = vec![0x45, 0, 0, whole, 0, 1, 0x40, 0, TTL, key.protocol, 0, 0];
            header.extend(key.source.low4());
            header.extend(key.destination.low4());
            let checksum = Sum::new().octets(&header).checksum();
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            frame.extend(header);
        }
        Family::V6 => {
            frame.extend(IPV6.to_be_bytes());
            frame.extend([0x60, 0, 0, 0, length_high, length, key.protocol, TTL]);
            frame.extend(key.source.octets());
            frame.extend(key.destination.octets());
        }
    }
    frame.extend(transport);
    frame.resize(frame.len().max(SHORTEST), 0);
    frame
}

fn segment(key: &FlowKey, step: Step) -> Vec<u8> {
    let flags = if step == Step::Open { flag::SYN } else { flag::ACK };
    let mut segment = Vec::from(key.source_port);
    segment.extend(key.destination_port);
    segment.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    let pseudo = match key.source.family() {
        Family::V4 => {
            let addresses = Sum::new().octets(&key.source.low4());
            addresses.octets(&key.destination.low4()).word(u16::from(key.protocol)).word(20)
        }
        Family::V6 => pseudo_v6(key.source.octets(), key.destination.octets(), 20, key.protocol),
    };
    let checksum = pseudo.octets(&segment).checksum();
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    segment
}

fn echo(key: &FlowKey, step: Step) -> Vec<u8> {
    let (kind, [a, b]) = match step {
        Step::Open | Step::Forward => (8, key.source_port),
        Step::Reply => (0, key.destination_port),
    };
    let mut message = vec![kind, 0, 0, 0, a, b, 0, 1];
    let checksum = Sum::new().octets(&message).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    message
}
