//! YAML text to documents of nodes that know their lines (YAML 1.2.2).
//!
//! The tree is what was written: no scalar is given a type here. Aliases, tags and merge keys are
//! refused, so that a document is never larger than its text; depth and nodes are bounded. After
//! an error of syntax reading goes on with the next document.

use crate::limits::{MAX_DEPTH, MAX_NODES, MAX_TEXT_BYTES};
use crate::problem::{Place, Problem, Read, Report, Reported, quoted};
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use std::borrow::Cow;
use std::sync::Arc;

/// A value with the line in which it begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Node<'t> {
    pub(crate) line: usize,
    pub(crate) content: Content<'t>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<'t> {
    Scalar {
        text: Cow<'t, str>,
        /// Without quotes, so that the text may be a number, a truth value or nothing.
        plain: bool,
    },
    List(Vec<Node<'t>>),
    /// In the order of the text, with what stands twice.
    Map(Vec<(Node<'t>, Node<'t>)>),
    /// An alias or what has a tag: already reported.
    Refused(Reported),
}

/// Hands each document of `text` to `take`, and reports what is no YAML or out of bounds.
pub(crate) fn read<'t>(
    file: &Arc<str>,
    text: &'t [u8],
    report: &Report,
    mut take: impl FnMut(&Node<'t>),
) {
    let at = |line, message| Problem::new(Place { file: file.clone(), line }, "", message);
    if text.len() > MAX_TEXT_BYTES {
        let megabytes = MAX_TEXT_BYTES >> 20;
        report.add(at(1, format!("larger than {megabytes} MiB: use several files")));
        return;
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let good = text.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + good.iter().filter(|octet| **octet == b'\n').count();
            report.add(at(line, "not UTF-8: save the file in that encoding".to_owned()));
            return;
        }
    };
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        // The scanner runs ahead: with room left it is `Reader::node` that finds the limit.
        flow_nesting_limit: 4 * MAX_DEPTH,
        block_nesting_limit: 4 * MAX_DEPTH,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    let mut reader = Reader { file, report, parser, nodes: 0 };
    loop {
        match reader.document() {
            Ok(Some(node)) => take(&node),
            Ok(None) => return,
            Err(_) if reader.parser.proceed_next_document() == Ok(true) => {}
            Err(_) => return,
        }
    }
}

struct Reader<'a, 't> {
    file: &'a Arc<str>,
    report: &'a Report,
    parser: Parser<'t, StrInput<'t>>,
    nodes: usize,
}

impl<'t> Reader<'_, 't> {
    /// The next document, or `None` behind the last one.
    fn document(&mut self) -> Read<Option<Node<'t>>> {
        self.nodes = 0;
        loop {
            match self.next()? {
                None | Some((Event::StreamEnd, _)) => return Ok(None),
                Some((Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _)) => {}
                Some((event, span)) => return self.node(event, &span, 0).map(Some),
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Read<Node<'t>> {
        let line = span.start.line();
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self.report(line, format!("a document of more than {MAX_NODES} values")));
        }
        if depth == MAX_DEPTH && !matches!(event, Event::Scalar(..)) {
            return Err(self.report(line, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let (content, tag) = match event {
            Event::Scalar(text, style, _, tag) => {
                (Content::Scalar { text, plain: style == ScalarStyle::Plain }, tag)
            }
            Event::SequenceStart(_, _, tag) => (Content::List(self.list(depth)?), tag),
            Event::MappingStart(_, _, tag) => (Content::Map(self.map(depth)?), tag),
            _ => {
                let message = "aliases are not supported: write the value out".to_owned();
                (Content::Refused(self.report(line, message)), None)
            }
        };
        let content = match tag {
            Some(tag) => Content::Refused(self.report(line, no_tag(&tag))),
            None => content,
        };
        Ok(Node { line, content })
    }

    fn list(&mut self, depth: usize) -> Read<Vec<Node<'t>>> {
        let mut list = Vec::new();
        loop {
            match self.next()? {
                None | Some((Event::SequenceEnd, _)) => return Ok(list),
                Some((event, span)) => list.push(self.node(event, &span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Read<Vec<(Node<'t>, Node<'t>)>> {
        let mut map = Vec::new();
        loop {
            let key = match self.next()? {
                None | Some((Event::MappingEnd, _)) => return Ok(map),
                Some((event, span)) => self.node(event, &span, depth + 1)?,
            };
            let Some((event, span)) = self.next()? else { return Ok(map) };
            map.push((key, self.node(event, &span, depth + 1)?));
        }
    }

    fn next(&mut self) -> Read<Option<(Event<'t>, Span)>> {
        self.parser.next().transpose().map_err(|error| self.syntax(&error))
    }

    fn syntax(&self, error: &ScanError) -> Reported {
        let marker = error.marker();
        let message = format!("not YAML: {}", error.info());
        let place = Place { file: self.file.clone(), line: marker.line() };
        let problem = Problem::new(place, "", message);
        self.report.add(Problem { column: Some(marker.col() + 1), ..problem })
    }

    fn report(&self, line: usize, message: String) -> Reported {
        self.report.add(Problem::new(Place { file: self.file.clone(), line }, "", message))
    }
}

fn no_tag(tag: &Tag) -> String {
    let tag = quoted(&tag.to_string());
    format!("tags are not supported: remove {tag}, and put text in quotes")
}

#[cfg(test)]
mod tests;
