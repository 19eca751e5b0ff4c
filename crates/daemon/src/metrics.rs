//! Writes metrics in the Prometheus text exposition format, version 0.0.4.
//!
//! There is no registry. Counters live where they are counted, in the data plane; a registry would
//! be a second copy of them. A scrape walks the originals and writes them down.
//!
//! ```text
//! # HELP gredist_received_packets_total Packets received for the frontend.
//! # TYPE gredist_received_packets_total counter
//! gredist_received_packets_total{backend="10.0.0.1"} 42
//! ```

use std::fmt;

/// The `Content-Type` of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// The metrics of one scrape.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    families: Vec<FamilyText>,
}

/// One metric name; takes the samples.
#[derive(Debug)]
pub struct Family<'a>(&'a mut FamilyText);

/// The value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Counts and bytes, exact to the last digit.
    Integer(u64),
    /// Ratios and seconds.
    Float(f64),
}

impl Exposition {
    /// No metrics yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A value that only grows; `name` ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str) -> Family<'_> {
        debug_assert!(name.ends_with("_total"), "{name} is no name for a counter");
        self.family(name, help, "counter")
    }

    /// A value that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str) -> Family<'_> {
        self.family(name, help, "gauge")
    }

    /// Names opened twice are one family, as the format wants each family's lines together.
    fn family(&mut self, name: &str, help: &str, kind: &str) -> Family<'_> {
        debug_assert!(is_name(name, ":"), "{name:?} is no metric name");
        let known = self.families.iter().position(|family| family.name == name);
        let at = known.unwrap_or_else(|| {
            let mut text = format!("# HELP {name} ");
            escape(&mut text, help, &['\\', '\n']);
            text.push_str(&format!("\n# TYPE {name} {kind}\n"));
            self.families.push(FamilyText { name: name.to_owned(), text });
            self.families.len() - 1
        });
        Family(&mut self.families[at])
    }
}

impl Family<'_> {
    /// Adds one sample; label values may be any text, label names are `[a-zA-Z_][a-zA-Z0-9_]*`.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) -> &mut Self {
        let FamilyText { name, text } = &mut *self.0;
        text.push_str(name);
        for (i, (label, value)) in labels.iter().enumerate() {
            debug_assert!(is_name(label, ""), "{label:?} is no label name");
            text.push(if i == 0 { '{' } else { ',' });
            text.push_str(label);
            text.push_str("=\"");
            escape(text, value, &['\\', '\n', '"']);
            text.push('"');
        }
        let close = if labels.is_empty() { "" } else { "}" };
        text.push_str(&format!("{close} {}\n", value.into()));
        self
    }
}

/// The whole exposition.
impl fmt::Display for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.families.iter().try_for_each(|family| f.write_str(&family.text))
    }
}

/// As Go's `ParseFloat` reads it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) if number == f64::INFINITY => f.write_str("+Inf"),
            Self::Float(number) if number == f64::NEG_INFINITY => f.write_str("-Inf"),
            Self::Float(number) => number.fmt(f),
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

#[derive(Clone, Debug)]
struct FamilyText {
    name: String,
    /// Help, type and samples so far.
    text: String,
}

fn escape(out: &mut String, text: &str, special: &[char]) {
    for character in text.chars() {
        if special.contains(&character) {
            out.push('\\');
            out.push(if character == '\n' { 'n' } else { character });
        } else {
            out.push(character);
        }
    }
}

fn is_name(name: &str, also: &str) -> bool {
    let mut bytes = name.bytes();
    let extra = |byte: u8| byte == b'_' || also.as_bytes().contains(&byte);
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || extra(first))
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || extra(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_the_format_prescribes() {
        let mut out = Exposition::new();
        out.counter("gredist_received_packets_total", "Packets received.")
            .sample(&[("frontend", "10.0.0.1"), ("family", "ipv4")], 42)
            .sample(&[("frontend", "10.0.0.1"), ("family", "ipv6")], u64::MAX);
        out.gauge("gredist_backends_ratio", "Share of backends that are up.").sample(&[], 0.5);
        assert_eq!(
            out.to_string(),
            "# HELP gredist_received_packets_total Packets received.\n\
             # TYPE gredist_received_packets_total counter\n\
             gredist_received_packets_total{frontend=\"10.0.0.1\",family=\"ipv4\"} 42\n\
             gredist_received_packets_total{frontend=\"10.0.0.1\",family=\"ipv6\"} \
             18446744073709551615\n\
             # HELP gredist_backends_ratio Share of backends that are up.\n\
             # TYPE gredist_backends_ratio gauge\n\
             gredist_backends_ratio 0.5\n"
        );
    }

    #[test]
    fn family_opened_twice_stays_together() {
        let mut out = Exposition::new();
        out.gauge("a", "A.").sample(&[("x", "1")], 1);
        out.gauge("b", "B.").sample(&[], 2);
        out.gauge("a", "A.").sample(&[("x", "2")], 3);
        assert_eq!(
            out.to_string(),
            "# HELP a A.\n# TYPE a gauge\na{x=\"1\"} 1\na{x=\"2\"} 3\n\
             # HELP b B.\n# TYPE b gauge\nb 2\n"
        );
    }

    #[test]
    fn help_and_label_values_are_escaped() {
        let mut out = Exposition::new();
        out.gauge("a", "C:\\ \"x\"\ny").sample(&[("l", "C:\\ \"x\"\ny")], 1);
        assert_eq!(
            out.to_string(),
            "# HELP a C:\\\\ \"x\"\\ny\n# TYPE a gauge\na{l=\"C:\\\\ \\\"x\\\"\\ny\"} 1\n"
        );
    }

    #[test]
    fn floats_have_the_spelling_of_the_format() {
        for (value, expected) in [
            (0.25, "0.25"),
            (-1.0, "-1"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(Value::from(value).to_string(), expected);
        }
    }

    #[test]
    fn names_are_checked() {
        for (name, good) in
            [("a", true), ("_a1", true), ("a:b", true), ("", false), ("1a", false), ("a-b", false)]
        {
            assert_eq!(is_name(name, ":"), good, "{name:?}");
        }
        assert!(!is_name("a:b", ""), "labels have no colons");
    }
}
