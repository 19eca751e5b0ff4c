//! ICMP errors in the form of the other family (RFC 7915 4.2 and 5.2).

use super::translate::GROWTH;
use wire::{icmp, ipv4, ipv6};

/// Where a parameter problem points for an unknown protocol: the next header field.
const NEXT_HEADER_POINTER: u32 = 6;

/// ICMP to ICMPv6 (RFC 7915 4.2); `None` for what is not translated. The MTU grows by the
/// difference of the headers.
#[inline(always)]
pub(super) fn to_v6_form(message: icmp::Header) -> Option<icmp::Header> {
    use icmp::v4::{self, unreachable as code};
    use icmp::v6::{self, unreachable as code6};
    let (kind, code, rest) = match (message.kind, message.code) {
        (v4::UNREACHABLE, code::FRAGMENTATION_NEEDED) => {
            let mtu = message.rest & 0xffff;
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
        (v6::PARAMETER_PROBLEM, v6::parameter::NEXT_HEADER) => {
            (v4::UNREACHABLE, code4::PROTOCOL, 0)
        }
        (v6::TIME_EXCEEDED, code) => (v4::TIME_EXCEEDED, code, 0),
        _ => return None,
    };
    Some(icmp::Header { kind, code, checksum: 0, rest })
}
