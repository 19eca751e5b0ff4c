//! Names that operators give: one rule for all, so that any of them fits a file, a label, a URL.

use crate::error::Error;
use crate::limits::MAX_NAME_CHARS;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A namespace, an id, the name of a backend or pool: a DNS label in lower case (RFC 1123 2.1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let inner = |octet: u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let good = (1..=MAX_NAME_CHARS).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if good { Ok(Self(text.to_owned())) } else { Err(Error::Name) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_dns_label() {
        let longest = "a".repeat(MAX_NAME_CHARS);
        for name in ["a", "web", "backend-1", "1", "9-a", &longest] {
            assert_eq!(name.parse::<Name>().unwrap().as_str(), name);
        }
        let too_long = "a".repeat(MAX_NAME_CHARS + 1);
        for name in ["", "-a", "a-", "A", "a.b", "a_b", "natlb:web", "ä", "a b", &too_long] {
            assert_eq!(name.parse::<Name>(), Err(Error::Name), "{name}");
        }
    }
}
