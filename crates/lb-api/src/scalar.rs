//! What a scalar without quotes means: only what all readers of YAML agree on.
//!
//! YAML 1.1 reads `no` as a truth value, `012` as ten and `1e3` as a number; YAML 1.2 reads `no`
//! as text, `012` as twelve. Where the readers disagree we take neither side: the text must be
//! quoted and the number written plainly.

/// What a plain scalar may be taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing, `~` or `null`.
    Nothing,
    /// `true` and `yes` and the like.
    Truth,
    /// Any notation of a number, octal and exponents included.
    Number,
    /// Anything else.
    Text,
}

impl Kind {
    pub(crate) fn of(plain: &str) -> Self {
        let lower = plain.to_ascii_lowercase();
        match lower.as_str() {
            "" | "~" | "null" => Self::Nothing,
            "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" => Self::Truth,
            _ if is_number(&lower) => Self::Number,
            _ => Self::Text,
        }
    }

    /// With its article, for `is {}, must be ..`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "empty",
            Self::Truth => "a truth value",
            Self::Number => "a number",
            Self::Text => "text",
        }
    }
}

/// YAML 1.1 and 1.2 numbers but for base 60, in lower case.
fn is_number(lower: &str) -> bool {
    let digits = lower.strip_prefix(['-', '+']).unwrap_or(lower);
    if matches!(digits, ".inf" | ".nan") {
        return true;
    }
    let all = |digits: &str, radix| {
        digits.bytes().any(|octet| octet != b'_')
            && digits.chars().all(|c| c == '_' || c.is_digit(radix))
    };
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = digits.strip_prefix(prefix) {
            return all(digits, radix);
        }
    }
    let (mantissa, exponent) = match digits.split_once('e') {
        Some((mantissa, exponent)) => {
            (mantissa, exponent.strip_prefix(['-', '+']).unwrap_or(exponent))
        }
        None => (digits, "0"),
    };
    let mantissa_is_good = match mantissa.split_once('.') {
        None => all(mantissa, 10),
        Some((whole, "")) => all(whole, 10),
        Some(("", fraction)) => all(fraction, 10),
        Some((whole, fraction)) => all(whole, 10) && all(fraction, 10),
    };
    mantissa_is_good && all(exponent, 10)
}

/// A number in plain decimal notation, or what is wrong with it.
pub(crate) fn decimal(plain: &str) -> Result<i128, &'static str> {
    let digits = plain.strip_prefix('-').unwrap_or(plain);
    if digits.is_empty() || !digits.bytes().all(|octet| octet.is_ascii_digit()) {
        return Err("write a whole number in decimal digits");
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err("write it without leading zeros, which some readers take for octal");
    }
    // Beyond 128 bits it is out of any range just the same.
    Ok(plain.parse().unwrap_or(i128::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_that_readers_of_yaml_take_for_something_else_are_known() {
        for (kind, words) in [
            (Kind::Nothing, &["", "~", "null", "NULL"][..]),
            (Kind::Truth, &["true", "False", "yes", "NO", "on", "Off", "y", "N"]),
            (
                Kind::Number,
                &[
                    "0", "7", "-7", "+7", "012", "0o14", "0x1F", "0b11", "1_000", "1e3", "1.5",
                    ".5", "1.", "1.5e-3", "-.inf", ".NaN",
                ],
            ),
            (
                Kind::Text,
                &[
                    "web",
                    "e3",
                    "1a",
                    "10.0.1.11",
                    "::1",
                    "0x",
                    "-",
                    "+",
                    ".",
                    "1e",
                    "_",
                    "tcp",
                    "2001:db8::1",
                    "backend-1",
                    "nope",
                    "1-2",
                ],
            ),
        ] {
            for word in words {
                assert_eq!(Kind::of(word), kind, "{word}");
            }
        }
    }

    #[test]
    fn numbers_have_one_notation() {
        for (text, expected) in [
            ("0", Some(0)),
            ("443", Some(443)),
            ("-1", Some(-1)),
            ("9999999999999999999999999999999999999999999", Some(i128::MAX)),
            ("012", None),
            ("00", None),
            ("1e3", None),
            ("0x1f", None),
            ("1_000", None),
            ("+1", None),
            ("1.0", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(decimal(text).ok(), expected, "{text}");
        }
    }
}
