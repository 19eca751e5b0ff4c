//! Everything that is wrong with a configuration, collected and shown in one go.

use std::fmt::{self, Write as _};

/// One problem: where, which text, and what is wrong with it.
///
/// Shown as `edge1.conf:3: backend=10.0.0.300: not an IPv4 or IPv6 address`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file as the user named it.
    pub file: String,
    /// The line, from 1; `None` if the problem is no line's, such as a key that is missing.
    pub line: Option<usize>,
    /// The offending text, or empty.
    pub text: String,
    /// What is wrong, in lower case and without a full stop.
    pub message: String,
}

/// The problems of one configuration, in the order of the file.
///
/// Problems without a line come last, as they are mostly about what the file lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    file: String,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// No problems yet in `file`.
    #[must_use]
    pub fn new(file: impl Into<String>) -> Self {
        Self { file: file.into(), list: Vec::new() }
    }

    /// Adds a problem of one line, named by the text that causes it.
    pub fn at(&mut self, line: usize, text: impl Into<String>, message: impl Into<String>) {
        self.add(Some(line), text.into(), message.into());
    }

    /// Adds a problem of the configuration as a whole.
    pub fn overall(&mut self, text: impl Into<String>, message: impl Into<String>) {
        self.add(None, text.into(), message.into());
    }

    /// The value if there are no problems, else the problems.
    ///
    /// # Errors
    /// Returns itself unless it is empty.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The problems, sorted by line; within a line in the order in which they were found.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Diagnostic> {
        self.list.iter()
    }

    fn add(&mut self, line: Option<usize>, text: String, message: String) {
        let order = |line: Option<usize>| line.unwrap_or(usize::MAX);
        let at = self.list.partition_point(|earlier| order(earlier.line) <= order(line));
        self.list.insert(at, Diagnostic { file: self.file.clone(), line, text, message });
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if !self.text.is_empty() {
            f.write_str(" ")?;
            write_printable(f, &self.text)?;
            f.write_str(":")?;
        }
        write!(f, " {}", self.message)
    }
}

/// One problem per line.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.list.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}
impl std::error::Error for Diagnostics {}

/// Control characters of a broken file must not reach a terminal or split a log line, and a file
/// without line breaks is not worth repeating.
fn write_printable(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for character in text.chars().take(MAX_SHOWN_CHARS) {
        if character.is_control() {
            write!(f, "{}", character.escape_default())?;
        } else {
            f.write_char(character)?;
        }
    }
    if text.chars().nth(MAX_SHOWN_CHARS).is_some() { f.write_str("...") } else { Ok(()) }
}

/// Longer texts are cut when shown.
const MAX_SHOWN_CHARS: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_shown_by_line_and_those_without_a_line_come_last() {
        let mut diagnostics = Diagnostics::new("edge1.conf");
        diagnostics.overall("vip", "is missing");
        diagnostics.at(12, "interval=5", "add a unit (ms, s, m or h)");
        diagnostics.at(3, "backend=10.0.0.300", "not an IPv4 or IPv6 address");
        diagnostics.at(12, "interval=5", "given twice");
        diagnostics.overall("", "no backend is named");
        assert_eq!(
            diagnostics.to_string(),
            "edge1.conf:3: backend=10.0.0.300: not an IPv4 or IPv6 address\n\
             edge1.conf:12: interval=5: add a unit (ms, s, m or h)\n\
             edge1.conf:12: interval=5: given twice\n\
             edge1.conf: vip: is missing\n\
             edge1.conf: no backend is named"
        );
        assert_eq!(diagnostics.iter().len(), 5);
    }

    #[test]
    fn control_characters_are_escaped_and_long_texts_are_cut() {
        let mut diagnostics = Diagnostics::new("a.conf");
        diagnostics.at(1, "a\x1b[31m\0", "bad");
        diagnostics.at(2, "ä".repeat(200), "bad");
        let shown = diagnostics.to_string();
        assert!(shown.starts_with("a.conf:1: a\\u{1b}[31m\\u{0}: bad\n"), "{shown}");
        assert!(shown.ends_with(&format!("a.conf:2: {}...: bad", "ä".repeat(120))), "{shown}");
    }

    #[test]
    fn value_comes_out_only_without_problems() {
        let mut diagnostics = Diagnostics::new("a.conf");
        assert_eq!(diagnostics.clone().into_result(7), Ok(7));
        diagnostics.at(1, "x", "bad");
        assert_eq!(diagnostics.clone().into_result(7), Err(diagnostics));
    }
}
