//! Values: text in, a checked value or a message that helps out.
//!
//! Parsers are strict (no signs, no spaces, no fractions) so that a value has one reading.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;

/// Why a value is refused; its text is the message for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A duration that is a bare number.
    #[error("add a unit (ms, s, m or h)")]
    UnitMissing,
    /// Not a duration at all.
    #[error("not a duration: write a whole number and a unit (ms, s, m or h)")]
    Duration,
    /// Not a size.
    #[error("not a size: write bytes, or a whole number and a unit (KiB, MiB or GiB)")]
    Size,
    /// Not an unsigned number.
    #[error("not a whole number")]
    Number,
    /// Not an unsigned number in either notation.
    #[error("not a 32-bit number: write it in decimal, or in hexadecimal as 0xffffff00")]
    HexOrDecimal,
    /// A duration or size beyond 64 bits.
    #[error("too large")]
    TooLarge,
    /// A number outside of what its key allows.
    #[error("must be {min} to {max}")]
    OutOfRange {
        /// The smallest allowed number.
        min: String,
        /// The largest allowed number.
        max: String,
    },
    /// Not an IP address.
    #[error("not an IPv4 or IPv6 address")]
    Address,
    /// Not an address with a port.
    #[error("not an address with a port: write it as 127.0.0.1:9147 or [::1]:9147")]
    SocketAddress,
    /// Not a prefix.
    #[error("not an IPv4 or IPv6 prefix: write it as 10.0.0.0/8 or 2001:db8::/32")]
    Prefix,
    /// An address where a prefix is wanted.
    #[error("add a prefix length (/{longest} for this address alone)")]
    PrefixLengthMissing {
        /// 32 or 128.
        longest: u8,
    },
    /// A prefix with address bits behind its length.
    #[error("has bits set behind the prefix length: write {0}")]
    HostBits(IpNet),
}

/// A duration such as `500ms`, `2s`, `5m` or `1h`.
///
/// # Errors
/// On anything else; a bare number lacks its unit.
pub fn duration(text: &str) -> Result<Duration, Error> {
    let (number, unit) = split_unit(text);
    let factor_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" if !number.is_empty() => return Err(Error::UnitMissing),
        _ => return Err(Error::Duration),
    };
    scaled(number, factor_ms, Error::Duration).map(Duration::from_millis)
}

/// A size in bytes such as `1500`, `64KiB`, `4MiB` or `1GiB`.
///
/// # Errors
/// On anything else, units of 1,000 included.
pub fn size(text: &str) -> Result<u64, Error> {
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(Error::Size),
    };
    scaled(number, factor, Error::Size)
}

/// A decimal number within `range`.
///
/// # Errors
/// On anything but digits, and outside the range.
pub fn unsigned<T>(text: &str, range: RangeInclusive<T>) -> Result<T, Error>
where
    T: TryFrom<u64> + PartialOrd + Display,
{
    if !is_digits(text) {
        return Err(Error::Number);
    }
    // Digits that do not fit 64 bits are outside any range.
    let number = text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.filter(|number| range.contains(number)).ok_or_else(|| Error::OutOfRange {
        min: range.start().to_string(),
        max: range.end().to_string(),
    })
}

/// A 32-bit number in decimal or, behind `0x`, in hexadecimal.
///
/// # Errors
/// On anything else.
pub fn hex_or_decimal(text: &str) -> Result<u32, Error> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u32::from_str_radix(digits, 16).ok()
        }
        None if is_digits(text) => text.parse().ok(),
        Some(_) | None => None,
    };
    parsed.ok_or(Error::HexOrDecimal)
}

/// An IPv4 or IPv6 address, without port, brackets or zone.
///
/// # Errors
/// On anything else.
pub fn address(text: &str) -> Result<IpAddr, Error> {
    text.parse().map_err(|_| Error::Address)
}

/// An IPv4 or IPv6 address with a port, such as `127.0.0.1:9147` or `[::1]:9147`.
///
/// # Errors
/// On anything else.
pub fn socket_address(text: &str) -> Result<SocketAddr, Error> {
    text.parse().map_err(|_| Error::SocketAddress)
}

/// An IPv4 or IPv6 prefix whose bits behind the length are zero.
///
/// # Errors
/// On anything else; says so if only the length is missing or bits are set behind it.
pub fn prefix(text: &str) -> Result<IpNet, Error> {
    if let Ok(address) = text.parse::<IpAddr>() {
        let longest = IpNet::from(address).max_prefix_len();
        return Err(Error::PrefixLengthMissing { longest });
    }
    let prefix: IpNet = text.parse().map_err(|_| Error::Prefix)?;
    if prefix.trunc() == prefix { Ok(prefix) } else { Err(Error::HostBits(prefix.trunc())) }
}

fn split_unit(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(digits).unwrap_or((text, ""))
}

fn scaled(digits: &str, factor: u64, malformed: Error) -> Result<u64, Error> {
    if !is_digits(digits) {
        return Err(malformed);
    }
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or(Error::TooLarge)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_need_a_whole_number_and_a_unit() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("500ms", Ok(ms(500))),
            ("2s", Ok(ms(2000))),
            ("5m", Ok(ms(300_000))),
            ("1h", Ok(ms(3_600_000))),
            ("0s", Ok(ms(0))),
            ("18446744073709551615ms", Ok(ms(u64::MAX))),
            ("18446744073709551616ms", Err(Error::TooLarge)),
            ("18446744073709551615s", Err(Error::TooLarge)),
            ("5", Err(Error::UnitMissing)),
            ("", Err(Error::Duration)),
            ("s", Err(Error::Duration)),
            ("2 s", Err(Error::Duration)),
            ("1.5s", Err(Error::Duration)),
            ("-1s", Err(Error::Duration)),
            ("2S", Err(Error::Duration)),
            ("2sec", Err(Error::Duration)),
            ("2µs", Err(Error::Duration)),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
        assert_eq!(Error::UnitMissing.to_string(), "add a unit (ms, s, m or h)");
    }

    #[test]
    fn sizes_are_bytes_or_binary_units() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("1500", Ok(1500)),
            ("64KiB", Ok(65_536)),
            ("4MiB", Ok(4_194_304)),
            ("1GiB", Ok(1_073_741_824)),
            ("17179869184GiB", Err(Error::TooLarge)),
            ("64KB", Err(Error::Size)),
            ("64k", Err(Error::Size)),
            ("KiB", Err(Error::Size)),
            ("", Err(Error::Size)),
            ("+1", Err(Error::Size)),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_digits_within_their_range() {
        let out = Error::OutOfRange { min: "1".into(), max: "255".into() };
        assert_eq!(out.to_string(), "must be 1 to 255");
        for (text, expected) in [
            ("1", Ok(1)),
            ("255", Ok(255)),
            ("007", Ok(7)),
            ("0", Err(out.clone())),
            ("256", Err(out.clone())),
            ("99999999999999999999", Err(out)),
            ("+1", Err(Error::Number)),
            ("-1", Err(Error::Number)),
            ("1_0", Err(Error::Number)),
            ("1 ", Err(Error::Number)),
            ("", Err(Error::Number)),
            ("\u{0661}", Err(Error::Number)),
        ] {
            assert_eq!(unsigned(text, 1..=255_u8), expected, "{text}");
        }
    }

    #[test]
    fn masks_are_hexadecimal_or_decimal() {
        for (text, expected) in [
            ("0xffffff00", Some(0xffff_ff00)),
            ("0xFF", Some(255)),
            ("4294967295", Some(u32::MAX)),
            ("0", Some(0)),
            ("4294967296", None),
            ("0x100000000", None),
            ("0x", None),
            ("0x+1", None),
            ("ff", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(hex_or_decimal(text), expected.ok_or(Error::HexOrDecimal), "{text}");
        }
    }

    #[test]
    fn addresses_are_ipv4_or_ipv6_alone() {
        for (text, good) in [
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("::ffff:10.0.0.1", true),
            ("10.0.0.300", false),
            ("10.0.0.01", false),
            ("10.0.0", false),
            ("10.0.0.1:80", false),
            ("[2001:db8::1]", false),
            ("fe80::1%eth0", false),
            ("localhost", false),
        ] {
            assert_eq!(address(text).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn prefixes_have_a_length_and_no_bits_behind_it() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        for (text, expected) in [
            ("10.0.0.0/8", Ok(net("10.0.0.0/8"))),
            ("0.0.0.0/0", Ok(net("0.0.0.0/0"))),
            ("2001:db8::/32", Ok(net("2001:db8::/32"))),
            ("10.0.0.1/8", Err(Error::HostBits(net("10.0.0.0/8")))),
            ("10.0.0.1", Err(Error::PrefixLengthMissing { longest: 32 })),
            ("2001:db8::1", Err(Error::PrefixLengthMissing { longest: 128 })),
            ("10.0.0.0/33", Err(Error::Prefix)),
            ("10.0.0.0/", Err(Error::Prefix)),
            ("10.0.0.0/255.0.0.0", Err(Error::Prefix)),
        ] {
            assert_eq!(prefix(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_parser_panics(text in any::<String>()) {
            let _ = (duration(&text), size(&text), unsigned(&text, 0..=9_u8));
            let _ = (hex_or_decimal(&text), address(&text), prefix(&text));
        }
    }
}
