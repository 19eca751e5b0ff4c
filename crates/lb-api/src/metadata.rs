//! What every resource has: who it is, and notes on it.
//!
//! COSI's other fields (version, owner, phase, created, updated, finalizers) are the store's to
//! set: they are refused here by name.

use crate::decode::Value;
use crate::limits::{MAX_ANNOTATION_BYTES, MAX_LABEL_KEY_BYTES, MAX_LABEL_VALUE_BYTES, MAX_LABELS};
use crate::name::Name;
use crate::problem::Read;
use serde::Serialize;
use std::collections::BTreeMap;

/// A resource's name and notes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Metadata {
    /// Where the id is unique for its type.
    pub namespace: Name,
    /// The resource's name.
    pub id: Name,
    /// Words to select resources by.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Notes for people and tools.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

const BY_THE_NODE: &str = "set by the node, not by its operator: remove it";
const REFUSED: [(&str, &str); 7] = [
    ("type", "the type stands at the top of the document: move it there"),
    ("version", BY_THE_NODE),
    ("owner", BY_THE_NODE),
    ("phase", BY_THE_NODE),
    ("created", BY_THE_NODE),
    ("updated", BY_THE_NODE),
    ("finalizers", BY_THE_NODE),
];

impl Metadata {
    /// Without labels and annotations.
    #[must_use]
    pub fn new(namespace: Name, id: Name) -> Self {
        Self { namespace, id, labels: BTreeMap::new(), annotations: BTreeMap::new() }
    }

    pub(crate) fn read(value: &Value<'_>) -> Read<Self> {
        let fields = value.fields(&["namespace", "id", "labels", "annotations"], &REFUSED)?;
        let namespace = fields.required("namespace", "add namespace: NAME, such as lb");
        let id = fields.required("id", "add id: NAME, the name of this resource");
        let namespace = namespace.and_then(Value::parsed_text);
        let id = id.and_then(Value::parsed_text);
        let labels = fields.or("labels", BTreeMap::new(), |value| notes(value, label));
        let annotations =
            fields.or("annotations", BTreeMap::new(), |value| notes(value, annotation));
        Ok(Self { namespace: namespace?, id: id?, labels: labels?, annotations: annotations? })
    }
}

fn notes(value: &Value<'_>, refusal: fn(&str) -> Option<String>) -> Read<BTreeMap<String, String>> {
    let entries = value.entries()?;
    if entries.len() > MAX_LABELS {
        return Err(value.refuse(format!("{} entries: at most {MAX_LABELS}", entries.len())));
    }
    let read = |(key, value): (&str, Value<'_>)| {
        let text = value.text()?;
        if !is_key(key) {
            return Err(value.refuse(format!(
                "a key must be 1 to {MAX_LABEL_KEY_BYTES} of A-Z, a-z, 0-9, `-`, `_`, `.` and \
                 `/`, with a letter or digit at each end"
            )));
        }
        match refusal(text) {
            Some(message) => Err(value.refuse(message)),
            None => Ok((key.to_owned(), text.to_owned())),
        }
    };
    let read: Vec<Read<_>> = entries.into_iter().map(read).collect();
    read.into_iter().collect()
}

fn is_key(key: &str) -> bool {
    key.len() <= MAX_LABEL_KEY_BYTES && is_word(key, b"-_./")
}

fn label(value: &str) -> Option<String> {
    let good = value.is_empty() || value.len() <= MAX_LABEL_VALUE_BYTES && is_word(value, b"-_.");
    (!good).then(|| {
        format!(
            "must be at most {MAX_LABEL_VALUE_BYTES} of A-Z, a-z, 0-9, `-`, `_` and `.`, with a \
             letter or digit at each end; annotations may hold other text"
        )
    })
}

fn annotation(value: &str) -> Option<String> {
    let shown = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    let good = value.len() <= MAX_ANNOTATION_BYTES && value.chars().all(shown);
    (!good).then(|| {
        format!("must be at most {MAX_ANNOTATION_BYTES} octets without control characters")
    })
}

/// Letters and digits, `others` between them.
fn is_word(text: &str, others: &[u8]) -> bool {
    let outer = |octet: Option<u8>| octet.is_some_and(|octet| octet.is_ascii_alphanumeric());
    outer(text.bytes().next())
        && outer(text.bytes().last())
        && text.bytes().all(|octet| octet.is_ascii_alphanumeric() || others.contains(&octet))
}
