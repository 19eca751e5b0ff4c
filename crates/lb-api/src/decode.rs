//! Walks a document: each value knows its path, and what is wrong with it is reported at once.
//!
//! A reader reads all its fields before it gives up on one (`let a = ..; let b = ..; Ok((a?,
//! b?))`), so that all problems of a document come together; [`Reported`] is the proof that
//! whoever gives up has said why.

use crate::problem::{Place, Problem, Read, Report, Reported, quoted};
use crate::scalar::{self, Kind};
use crate::suggest;
use crate::yaml::{Content, Node};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

/// A value of a document, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Value<'n> {
    node: &'n Node<'n>,
    path: String,
    /// The line of its key or, in a list, its own.
    place: Place,
    report: &'n Report,
}

/// The fields of a mapping that may have certain ones only.
#[derive(Debug)]
pub(crate) struct Fields<'n> {
    parent: Value<'n>,
    entries: BTreeMap<&'n str, Value<'n>>,
}

// === impl Value ===

impl<'n> Value<'n> {
    pub(crate) fn document(node: &'n Node<'n>, file: &Arc<str>, report: &'n Report) -> Self {
        let place = Place { file: file.clone(), line: node.line };
        Self { node, path: String::new(), place, report }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn refuse(&self, message: impl Display) -> Reported {
        self.report.add(Problem::new(self.place.clone(), &*self.path, message.to_string()))
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether nothing is written here.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(&self.node.content, Content::Scalar { text, plain: true }
            if Kind::of(text) == Kind::Nothing)
    }

    /// Reports that one of its fields is missing.
    pub(crate) fn missing(&self, name: &str, remedy: impl Display) -> Reported {
        let separator = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{separator}{name}", self.path);
        let message = format!("missing: {remedy}");
        self.report.add(Problem::new(self.place.clone(), path, message))
    }

    /// A mapping with no other fields than `known`; those in `refused` have a message of their own.
    pub(crate) fn fields(&self, known: &[&str], refused: &[(&str, &str)]) -> Read<Fields<'n>> {
        let mut entries = BTreeMap::new();
        for (key, value) in self.entries()? {
            if known.contains(&key) {
                entries.insert(key, value);
            } else if let Some((_, message)) = refused.iter().find(|(name, _)| *name == key) {
                value.refuse(message);
            } else if key == "<<" {
                value.refuse("merge keys are not supported: write the fields out");
            } else if let Some(near) = suggest::nearest(key, known.iter().copied()) {
                value.refuse(format!("unknown field: did you mean {near}?"));
            } else {
                value.refuse(format!("unknown field: known are {}", known.join(", ")));
            }
        }
        Ok(Fields { parent: self.clone(), entries })
    }

    /// A mapping with any keys, each once.
    pub(crate) fn entries(&self) -> Read<Vec<(&'n str, Self)>> {
        let Content::Map(map) = &self.node.content else {
            return Err(self.wrong_type("a mapping"));
        };
        let mut entries = Vec::new();
        let mut lines = BTreeMap::new();
        for (key, node) in map {
            let text = match &key.content {
                Content::Scalar { text, .. } => &**text,
                Content::Refused(_) => continue,
                Content::List(_) | Content::Map(_) => {
                    self.child(node, key.line, "?").refuse("a key must be a word");
                    continue;
                }
            };
            let value = self.child(node, key.line, text);
            match lines.insert(text, key.line) {
                None => entries.push((text, value)),
                Some(first) => {
                    lines.insert(text, first);
                    value.refuse(format!("already set in line {first}: remove one of the two"));
                }
            }
        }
        Ok(entries)
    }

    pub(crate) fn items(&self) -> Read<Vec<Self>> {
        let Content::List(list) = &self.node.content else {
            return Err(self.wrong_type("a list"));
        };
        let item = |(i, node): (usize, &'n Node<'n>)| Self {
            node,
            path: format!("{}[{i}]", self.path),
            place: Place { file: self.place.file.clone(), line: node.line },
            report: self.report,
        };
        Ok(list.iter().enumerate().map(item).collect())
    }

    /// A scalar as it is written, for values that no reader can take for something else.
    pub(crate) fn word(&self, wanted: &str) -> Read<&'n str> {
        match &self.node.content {
            Content::Scalar { text, plain } if !plain || Kind::of(text) != Kind::Nothing => {
                Ok(text)
            }
            _ => Err(self.wrong_type(wanted)),
        }
    }

    /// Text that is quoted wherever it could be read as something else.
    pub(crate) fn text(&self) -> Read<&'n str> {
        let text = self.word("text")?;
        match self.plain_kind() {
            None | Some(Kind::Text) => Ok(text),
            Some(kind) => Err(self.refuse(format!(
                "{} is {} to some readers of YAML, must be text: put it in quotes",
                quoted(text),
                kind.name()
            ))),
        }
    }

    /// Text that parses.
    pub(crate) fn parsed_text<T>(&self) -> Read<T>
    where
        T: FromStr<Err: Display>,
    {
        let text = self.text()?;
        text.parse().map_err(|error| self.refuse(format!("{}: {error}", quoted(text))))
    }

    /// One of these words, with what it means; `all` lists them for the user.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)], all: &str) -> Read<T> {
        let word = self.word(all)?;
        if let Some((_, meaning)) = choices.iter().find(|(known, _)| *known == word) {
            return Ok(*meaning);
        }
        let known = choices.iter().map(|(known, _)| *known);
        let hint = match suggest::nearest(word, known) {
            Some(near) if choices.len() > 1 => format!("; did you mean {near}?"),
            _ => String::new(),
        };
        Err(self.refuse(format!("{} is unknown: must be {all}{hint}", quoted(word))))
    }

    pub(crate) fn truth(&self) -> Read<bool> {
        let wanted = "true or false";
        match self.word(wanted)? {
            "true" if self.plain_kind().is_some() => Ok(true),
            "false" if self.plain_kind().is_some() => Ok(false),
            _ => Err(self.wrong_type(wanted)),
        }
    }

    pub(crate) fn whole<T>(&self, range: RangeInclusive<T>) -> Read<T>
    where
        T: TryFrom<i128> + PartialOrd + Display,
    {
        let text = self.word("a whole number")?;
        if self.plain_kind() != Some(Kind::Number) {
            return Err(self.wrong_type("a whole number"));
        }
        let number = scalar::decimal(text)
            .map_err(|wrong| self.refuse(format!("{}: {wrong}", quoted(text))))?;
        let fits = T::try_from(number).ok().filter(|number| range.contains(number));
        fits.ok_or_else(|| {
            let (least, greatest) = (range.start(), range.end());
            self.refuse(format!("{} is out of range: must be {least} to {greatest}", quoted(text)))
        })
    }

    /// What the text may be taken for, or `None` if it is quoted or no scalar.
    pub(crate) fn plain_kind(&self) -> Option<Kind> {
        match &self.node.content {
            Content::Scalar { text, plain: true } => Some(Kind::of(text)),
            _ => None,
        }
    }

    fn wrong_type(&self, wanted: &str) -> Reported {
        let found = match &self.node.content {
            Content::Refused(reported) => return *reported,
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a mapping".to_owned(),
            Content::Scalar { text, plain: true } => match Kind::of(text) {
                Kind::Nothing => "empty".to_owned(),
                kind => format!("{} ({})", kind.name(), quoted(text)),
            },
            Content::Scalar { text, plain: false } => format!("text (\"{text}\")"),
        };
        let is_quoted = matches!(&self.node.content, Content::Scalar { plain: false, .. });
        let remedy = match wanted {
            "a whole number" | "true or false" if is_quoted => ": remove the quotes",
            _ => "",
        };
        self.refuse(format!("is {found}, must be {wanted}{remedy}"))
    }

    fn child(&self, node: &'n Node<'n>, line: usize, key: &str) -> Self {
        let separator = if self.path.is_empty() { "" } else { "." };
        Self {
            node,
            path: format!("{}{separator}{key}", self.path),
            place: Place { file: self.place.file.clone(), line },
            report: self.report,
        }
    }
}

// === impl Fields ===

impl<'n> Fields<'n> {
    pub(crate) fn get(&self, name: &str) -> Option<&Value<'n>> {
        self.entries.get(name)
    }

    /// The field, or a report that says what to write.
    pub(crate) fn required(&self, name: &str, remedy: &str) -> Read<&Value<'n>> {
        self.get(name).ok_or_else(|| self.missing(name, remedy))
    }

    /// The field's value if it is there, else `default`.
    pub(crate) fn or<T>(
        &self,
        name: &str,
        default: T,
        read: impl FnOnce(&Value<'n>) -> Read<T>,
    ) -> Read<T> {
        self.get(name).map_or(Ok(default), read)
    }

    /// The field's value if it is there.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Value<'n>) -> Read<T>,
    ) -> Read<Option<T>> {
        self.get(name).map(read).transpose()
    }

    pub(crate) fn missing(&self, name: &str, remedy: &str) -> Reported {
        self.parent.missing(name, remedy)
    }

    /// The lines of the fields that are there.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&'n str, usize)> {
        self.entries.iter().map(|(name, value)| (*name, value.place.line))
    }
}
