//! ICMP errors in the form of the other family (RFC 7915 4.2 and 5.2).

use super::translate::GROWTH;
use wire::{Family, icmp, ipv4, ipv6};

/// Where a parameter problem points for an unknown protocol: the next header field.
const NEXT_HEADER_POINTER: u32 = 6;
/// Likely path MTUs (RFC 1191 7.1), as far as they are above the least MTU of IPv6.
const PLATEAUS: [u32; 6] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492];

/// ICMP to ICMPv6 (RFC 7915 4.2); `None` for what is not translated. The MTU grows by the
/// difference of the headers; a router that names none is taken to mean the next plateau below
/// the quoted packet's `length`.
#[inline(always)]
pub(super) fn to_v6_form(message: icmp::Header, length: usize) -> Option<icmp::Header> {
    use icmp::v4::{self, unreachable as code};
    use icmp::v6::{self, unreachable as code6};
    let (kind, code, rest) = match (message.kind, message.code) {
        (v4::UNREACHABLE, code::FRAGMENTATION_NEEDED) => {
            let mtu = match message.rest & 0xffff {
                0 => plateau_below(length),
                mtu => mtu,
            };
            (v6::PACKET_TOO_BIG, 0, (mtu + GROWTH).max(ipv6::MIN_MTU))
        }
        (v4::UNREACHABLE, code::PROTOCOL) => {
            (v6::PARAMETER_PROBLEM, v6::parameter::NEXT_HEADER, NEXT_HEADER_POINTER)
        }
        (v4::UNREACHABLE, code::PORT) => (v6::UNREACHABLE, code6::PORT, 0),
        (v4::UNREACHABLE, 9 | code::HOST_PROHIBITED | code::PROHIBITED | 15) => {
            (v6::UNREACHABLE, code6::PROHIBITED, 0)
        }
        (v4::UNREACHABLE, 0 | code::HOST | 5..=8 | 11 | 12) => {
            (v6::UNREACHABLE, code6::NO_ROUTE, 0)
        }
        (v4::TIME_EXCEEDED, code) => (v6::TIME_EXCEEDED, code, 0),
        // The pointer names the error; a bad length is one too.
        (v4::PARAMETER_PROBLEM, 0 | 2) => {
            (v6::PARAMETER_PROBLEM, 0, pointer_in_v6(message.rest >> 24)?)
        }
        _ => return None,
    };
    Some(icmp::Header { kind, code, checksum: 0, rest })
}

/// ICMPv6 to ICMP (RFC 7915 5.2); `None` for what is not translated. The MTU shrinks by the
/// difference of the headers.
#[inline(always)]
pub(super) fn to_v4_form(message: icmp::Header) -> Option<icmp::Header> {
    use icmp::v4::{self, unreachable as code4};
    use icmp::v6::{self, unreachable as code};
    let (kind, code, rest) = match (message.kind, message.code) {
        (v6::PACKET_TOO_BIG, _) => {
            let mtu = message.rest.saturating_sub(GROWTH).clamp(ipv4::MIN_MTU, 0xffff);
            (v4::UNREACHABLE, code4::FRAGMENTATION_NEEDED, mtu)
        }
        (v6::UNREACHABLE, code::PROHIBITED) => (v4::UNREACHABLE, code4::HOST_PROHIBITED, 0),
        (v6::UNREACHABLE, code::PORT) => (v4::UNREACHABLE, code4::PORT, 0),
        (v6::UNREACHABLE, code::NO_ROUTE | 2 | code::ADDRESS) => (v4::UNREACHABLE, code4::HOST, 0),
        (v6::PARAMETER_PROBLEM, 0) => {
            (v4::PARAMETER_PROBLEM, 0, pointer_in_v4(message.rest)? << 24)
        }
        (v6::PARAMETER_PROBLEM, v6::parameter::NEXT_HEADER) => {
            (v4::UNREACHABLE, code4::PROTOCOL, 0)
        }
        (v6::TIME_EXCEEDED, code) => (v4::TIME_EXCEEDED, code, 0),
        _ => return None,
    };
    Some(icmp::Header { kind, code, checksum: 0, rest })
}

/// How many octets the message quotes, if it says so because extensions follow (RFC 4884 4).
#[inline(always)]
pub(super) fn quoted_bytes(family: Family, message: icmp::Header) -> Option<usize> {
    let [first, second, _, _] = message.rest.to_be_bytes();
    let length = match (family, message.kind) {
        (Family::V4, _) => usize::from(second) * 4,
        (Family::V6, icmp::v6::UNREACHABLE | icmp::v6::TIME_EXCEEDED) => usize::from(first) * 8,
        (Family::V6, _) => 0,
    };
    (length > 0).then_some(length)
}

#[inline(always)]
fn plateau_below(length: usize) -> u32 {
    PLATEAUS.into_iter().find(|plateau| (*plateau as usize) < length).unwrap_or(0)
}

/// The field of an IPv6 header that does what the IPv4 header's at `pointer` does (RFC 7915 4.2,
/// figure 3).
#[inline(always)]
const fn pointer_in_v6(pointer: u32) -> Option<u32> {
    Some(match pointer {
        // Version and header length; type of service.
        0 | 1 => pointer,
        // Total length: payload length.
        2 | 3 => 4,
        // Time to live: hop limit.
        8 => 7,
        // Protocol: next header.
        9 => NEXT_HEADER_POINTER,
        // Source and destination address.
        12..=15 => 8,
        16..=19 => 24,
        _ => return None,
    })
}

/// The field of an IPv4 header that does what the IPv6 header's at `pointer` does (RFC 7915 5.2,
/// figure 6).
#[inline(always)]
const fn pointer_in_v4(pointer: u32) -> Option<u32> {
    Some(match pointer {
        0 | 1 => pointer,
        4 | 5 => 2,
        NEXT_HEADER_POINTER => 9,
        7 => 8,
        8..=23 => 12,
        24..=39 => 16,
        _ => return None,
    })
}
