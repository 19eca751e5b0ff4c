//! The resources of many files, read and validated as a whole.

use crate::checks;
use crate::decode::{Fields, Value};
use crate::limits::{MAX_BACKENDS, MAX_MAPPINGS};
use crate::natlb::NatLbMapping;
use crate::problem::{Place, Problem, Problems, Read, Report};
use crate::yaml;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file with resources: any number of YAML documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'t> {
    /// How problems name it.
    pub file: &'t str,
    /// Its content.
    pub text: &'t [u8],
}

/// Valid resources that go together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    mappings: Vec<Placed>,
}

/// A mapping and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The mapping.
    pub mapping: NatLbMapping,
    place: Place,
    lines: Lines,
}

/// The lines of a mapping's fields, for rules that are checked later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    fields: BTreeMap<String, usize>,
    backends: Vec<usize>,
}

impl Resources {
    /// Reads and validates all files together. Empty documents say nothing and are passed over;
    /// whether having no resource at all is plausible is for the caller to judge.
    ///
    /// # Errors
    /// Everything that is wrong with any of them. What resources must not say together is looked
    /// for among those that are right by themselves.
    pub fn read(sources: &[Source<'_>]) -> Result<Self, Problems> {
        let report = Report::default();
        let mut found = Vec::new();
        for source in sources {
            let file = Arc::from(source.file);
            yaml::read(&file, source.text, &report, |node| {
                let document = Value::document(node, &file, &report);
                if !document.is_nothing() {
                    found.extend(Placed::read(&document));
                }
            });
        }
        found.sort_by(|a, b| a.place.cmp(&b.place));
        check_limits(&found, &report);
        checks::check(&found, &report);
        found.sort_by(|a, b| a.mapping.identity().cmp(&b.mapping.identity()));
        report.into_result(Ok(Self { mappings: found }))
    }

    /// The mappings, by namespace and id.
    pub fn mappings(&self) -> impl ExactSizeIterator<Item = &NatLbMapping> {
        self.mappings.iter().map(|placed| &placed.mapping)
    }

    /// The same with their places.
    #[must_use]
    pub fn placed(&self) -> &[Placed] {
        &self.mappings
    }
}

impl Placed {
    fn read(document: &Value<'_>) -> Read<Self> {
        let status = ("status", "set by the node, not by its operator: remove it");
        let fields = document.fields(&["type", "metadata", "spec"], &[status])?;
        let (mapping, lines) = Self::read_type(&fields)?;
        Ok(Self { mapping, place: document.place().clone(), lines })
    }

    fn read_type(fields: &Fields<'_>) -> Read<(NatLbMapping, Lines)> {
        let name = NatLbMapping::TYPE;
        let value = fields.required("type", &format!("add type: {name}"))?;
        let read = value.choice(&[(name, NatLbMapping::read as fn(&Fields<'_>) -> _)], name)?;
        read(fields)
    }

    /// Where the document begins.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// A problem of a field of the spec, such as `snatPool`, at its line.
    pub fn problem(&self, field: &str, message: impl Into<String>) -> Problem {
        let line = self.lines.fields.get(field).copied().unwrap_or(self.place.line);
        let place = Place { line, ..self.place.clone() };
        Problem::new(place, format!("spec.{field}"), message)
    }

    /// A problem of a field of the backend with this index, at its line.
    pub fn backend_problem(
        &self,
        index: usize,
        field: &str,
        message: impl Into<String>,
    ) -> Problem {
        let line = self.lines.backends.get(index).copied().unwrap_or(self.place.line);
        let place = Place { line, ..self.place.clone() };
        Problem::new(place, format!("spec.backends[{index}].{field}"), message)
    }
}

impl Lines {
    pub(crate) fn of(spec: &Fields<'_>, backends: Vec<usize>) -> Self {
        let fields = spec.lines().map(|(name, line)| (name.to_owned(), line)).collect();
        Self { fields, backends }
    }
}

fn check_limits(mappings: &[Placed], report: &Report) {
    if let Some(first) = mappings.get(MAX_MAPPINGS) {
        let message = format!("{} mappings: at most {MAX_MAPPINGS}", mappings.len());
        report.add(Problem::new(first.place.clone(), "", message));
    }
    let mut sum = 0;
    for placed in mappings {
        sum += placed.mapping.spec.backends.len();
        if sum > MAX_BACKENDS {
            let message = format!("more than {MAX_BACKENDS} backends in all mappings together");
            report.add(placed.problem("backends", message));
            return;
        }
    }
}
