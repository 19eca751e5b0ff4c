//! The distributor's decisions, packet by packet. Packets are built, and expected ones spelled
//! out, by `testkit::packet`, which shares nothing with the parsers under test.

mod cross;
mod error;
mod error_checks;
mod error_client;
mod error_cross;
mod forward;
mod header;
mod outer;
mod properties;
mod refuse;
mod reply;

use super::{error_to, process};
use crate::fixed::FixedTables;
use crate::{DropReason, SliceFrame, Verdict};
use std::net::IpAddr;
use std::vec;
use std::vec::Vec;
use wire::Address;

pub(crate) const FRONTEND4: &str = "192.0.2.1";
pub(crate) const CLIENT4: &str = "198.51.100.7";
pub(crate) const BACKEND4: &str = "10.0.0.1";
pub(crate) const ROUTER4: &str = "203.0.113.77";
pub(crate) const POOL4: &str = "10.9.0.1";

pub(crate) const FRONTEND6: &str = "2001:db8::1";
pub(crate) const CLIENT6: &str = "2001:db8:c::7";
pub(crate) const BACKEND6: &str = "2001:db8:b::1";
pub(crate) const ROUTER6: &str = "2001:db8:fff::77";
pub(crate) const PREFIX: &str = "2001:db8:64::";

/// The distributor's own addresses: `FixedTables::source`.
pub(crate) const EDGE4: &str = "10.255.0.9";
pub(crate) const EDGE6: &str = "2001:db8:ed::9";

/// Who sends an error to this address: a router to the frontend, the distributor to a backend.
pub(crate) fn sender4(to: &str) -> &'static str {
    if to == FRONTEND4 { ROUTER4 } else { EDGE4 }
}

/// The same for IPv6.
pub(crate) fn sender6(to: &str) -> &'static str {
    if to == FRONTEND6 { ROUTER6 } else { EDGE6 }
}

/// CLIENT4 and ROUTER4 as the /96 embeds them.
pub(crate) const EMBEDDED_CLIENT4: &str = "2001:db8:64::198.51.100.7";
pub(crate) const EMBEDDED_ROUTER4: &str = "2001:db8:64::203.0.113.77";

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn address(text: &str) -> Address {
    Address::from(ip(text))
}

/// An IPv4 frontend with one IPv4 backend.
pub(crate) fn v4_to_v4() -> FixedTables {
    FixedTables::new(ip(FRONTEND4), &[ip(BACKEND4)])
}

/// An IPv6 frontend with one IPv6 backend.
pub(crate) fn v6_to_v6() -> FixedTables {
    FixedTables::new(ip(FRONTEND6), &[ip(BACKEND6)])
}

/// An IPv4 frontend with one IPv6 backend, which answers through the /96.
pub(crate) fn v4_to_v6() -> FixedTables {
    FixedTables::new(ip(FRONTEND4), &[ip(BACKEND6)]).with_prefix(ip(PREFIX))
}

/// An IPv6 frontend with one IPv4 backend, which answers through a pool of one address.
pub(crate) fn v6_to_v4() -> FixedTables {
    FixedTables::new(ip(FRONTEND6), &[ip(BACKEND4)]).with_pool(&[ip(POOL4)])
}

/// The room before a packet in these tests.
const HEADROOM: usize = 64;

/// The verdict, and the frame as it is then.
pub(crate) fn decide(packet: &[u8], tables: &mut FixedTables) -> (Verdict, Vec<u8>) {
    in_frame(packet, |frame| process(frame, tables))
}

/// What [`error_to`] makes of the packet.
pub(crate) fn copy_to(index: u16, packet: &[u8], tables: &mut FixedTables) -> (Verdict, Vec<u8>) {
    in_frame(packet, |frame| error_to(frame, index, tables))
}

fn in_frame(packet: &[u8], run: impl FnOnce(&mut SliceFrame) -> Verdict) -> (Verdict, Vec<u8>) {
    let mut buffer = vec![0xa5; HEADROOM];
    buffer.extend(packet);
    let end = buffer.len();
    let mut frame = SliceFrame::new(&mut buffer, HEADROOM, end).unwrap();
    let verdict = run(&mut frame);
    (verdict, frame.octets().to_vec())
}

/// The verdict alone.
pub(crate) fn verdict(packet: &[u8], tables: &mut FixedTables) -> Verdict {
    decide(packet, tables).0
}

/// The row that the packet's flow fell into.
pub(crate) fn row(packet: &[u8], tables: &mut FixedTables) -> u16 {
    tables.asked.set(None);
    let verdict = verdict(packet, tables);
    assert!(matches!(verdict, Verdict::ToBackend(_)), "{verdict:?}");
    tables.asked.get().unwrap()
}

/// Asserts that the packet is sent to backend 0 as `expected`.
#[track_caller]
pub(crate) fn becomes(packet: &[u8], expected: &[u8], tables: &mut FixedTables) {
    let (verdict, octets) = decide(packet, tables);
    assert_eq!(verdict, Verdict::ToBackend(0));
    assert_eq!(octets, expected);
}

/// Asserts that the packet is dropped without an answer.
#[track_caller]
pub(crate) fn is_dropped(packet: &[u8], reason: DropReason, tables: &mut FixedTables) {
    assert_eq!(verdict(packet, tables), Verdict::Drop(reason));
}
