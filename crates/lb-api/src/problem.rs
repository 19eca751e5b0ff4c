//! Everything that is wrong with a set of resources, collected and shown in one go.

use crate::limits::MAX_PROBLEMS;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as the user named it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
}

/// One problem: where, which field, what is wrong with it and what to do.
///
/// Shown as `web.yaml:12: spec.backends[1].port: must be 0 to 65535`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where the field or, if it is missing, its parent begins.
    pub place: Place,
    /// The column from 1, for what is not YAML at all.
    pub column: Option<usize>,
    /// The field from the top of the document, or empty.
    pub path: String,
    /// What is wrong and what to do, in lower case and without a full stop.
    pub message: String,
}

/// The problems of a set of resources, by file and line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    more: usize,
}

/// Collects problems while resources are read.
#[derive(Debug, Default)]
pub(crate) struct Report {
    list: RefCell<Vec<Problem>>,
    more: Cell<usize>,
}

/// Says that a problem was reported: whoever has one need not report it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reported(());

/// A value, or nothing because a problem was reported.
pub(crate) type Read<T> = Result<T, Reported>;

// === impl Place ===

/// `web.yaml:12`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_printable(f, &self.file, usize::MAX)?;
        write!(f, ":{}", self.line)
    }
}

// === impl Problem ===

impl Problem {
    /// A problem of one field.
    pub fn new(place: Place, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place, column: None, path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.place)?;
        if let Some(column) = self.column {
            write!(f, "{column}:")?;
        }
        f.write_char(' ')?;
        if !self.path.is_empty() {
            write_printable(f, &self.path, MAX_SHOWN_CHARS)?;
            f.write_str(": ")?;
        }
        write_printable(f, &self.message, usize::MAX)
    }
}

impl std::error::Error for Problem {}

// === impl Problems ===

impl Problems {
    /// The problems, by file and line; within a line in the order in which they were found.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Problem> {
        self.list.iter()
    }

    /// Problems that are not listed, since there are more than [`MAX_PROBLEMS`].
    #[must_use]
    pub fn more(&self) -> usize {
        self.more
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// One problem per line.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more: correct these first", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

// === impl Report ===

impl Report {
    pub(crate) fn add(&self, problem: Problem) -> Reported {
        let mut list = self.list.borrow_mut();
        if list.len() < MAX_PROBLEMS {
            list.push(problem);
        } else {
            self.more.set(self.more.get().saturating_add(1));
        }
        Reported(())
    }

    /// The value if nothing was reported, else the problems.
    pub(crate) fn into_result<T>(self, value: Read<T>) -> Result<T, Problems> {
        let mut list = self.list.into_inner();
        match value {
            Ok(value) if list.is_empty() => Ok(value),
            Ok(_) | Err(Reported(())) => {
                list.sort_by(|a, b| a.place.cmp(&b.place));
                Err(Problems { list, more: self.more.get() })
            }
        }
    }
}

/// A user's text inside a message, in backquotes.
pub(crate) fn quoted(text: &str) -> String {
    let end = text.char_indices().nth(MAX_SHOWN_CHARS).map(|(at, _)| at);
    match end.and_then(|end| text.get(..end)) {
        Some(start) => format!("`{start}...`"),
        None => format!("`{text}`"),
    }
}

/// Control characters of a broken file must not reach a terminal or split a log line.
fn write_printable(f: &mut fmt::Formatter<'_>, text: &str, most: usize) -> fmt::Result {
    for (i, character) in text.chars().enumerate() {
        if i == most {
            return f.write_str("...");
        }
        if character.is_control() {
            write!(f, "{}", character.escape_default())?;
        } else {
            f.write_char(character)?;
        }
    }
    Ok(())
}

/// Longer texts of users are cut when shown.
const MAX_SHOWN_CHARS: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(file: &str, line: usize, path: &str, message: &str) -> Problem {
        Problem::new(Place { file: file.into(), line }, path, message)
    }

    #[test]
    fn problems_are_shown_by_file_and_line() {
        let report = Report::default();
        report.add(problem("b.yaml", 1, "spec", "missing"));
        report.add(problem("a.yaml", 12, "spec.vipPort", "first"));
        report.add(problem("a.yaml", 12, "spec.vipPort", "second"));
        let mut syntax = problem("a.yaml", 3, "", "not YAML");
        syntax.column = Some(7);
        report.add(syntax);
        let problems = report.into_result(Ok(())).unwrap_err();
        assert_eq!(
            problems.to_string(),
            "a.yaml:3:7: not YAML\n\
             a.yaml:12: spec.vipPort: first\n\
             a.yaml:12: spec.vipPort: second\n\
             b.yaml:1: spec: missing"
        );
        assert_eq!((problems.iter().len(), problems.more(), problems.is_empty()), (4, 0, false));
    }

    #[test]
    fn problems_past_the_limit_are_counted() {
        let report = Report::default();
        for line in 0..MAX_PROBLEMS + 7 {
            report.add(problem("a.yaml", line, "", "bad"));
        }
        let problems = report.into_result(Ok(())).unwrap_err();
        assert_eq!((problems.iter().len(), problems.more()), (MAX_PROBLEMS, 7));
        assert!(problems.to_string().ends_with("\nand 7 more: correct these first"));
    }

    #[test]
    fn control_characters_are_escaped_and_long_texts_are_cut() {
        let shown = problem("a\n.yaml", 1, &"ä".repeat(200), &quoted("\x1b[31m")).to_string();
        assert_eq!(shown, format!("a\\n.yaml:1: {}...: `\\u{{1b}}[31m`", "ä".repeat(120)));
        assert_eq!(quoted(&"ö".repeat(121)), format!("`{}...`", "ö".repeat(120)));
    }

    #[test]
    fn a_value_comes_out_only_without_problems() {
        assert_eq!(Report::default().into_result(Ok(7)), Ok(7));
        let report = Report::default();
        report.add(problem("a.yaml", 1, "", "bad"));
        assert!(report.into_result(Ok(7)).is_err());
    }
}
