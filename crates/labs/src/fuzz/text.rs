//! Configuration text.

use config::diagnostics::Diagnostics;
use config::keyvalue::{self, MAX_FILE_BYTES};

/// Any file is read as entries and problems, each line at most one of them, in order, and no
/// problem can write to a terminal what the file says verbatim.
pub fn keyvalue(octets: &[u8]) {
    let mut diagnostics = Diagnostics::new("f.conf");
    let entries = keyvalue::parse(octets, &mut diagnostics);
    let lines = 1 + octets.iter().filter(|octet| **octet == b'\n').count();
    let mut last = 0;
    for entry in &entries {
        assert!(entry.line > last && entry.line <= lines, "line {} of {lines}", entry.line);
        last = entry.line;
        for part in [&entry.key, &entry.value] {
            assert!(!part.is_empty() && part.trim() == part, "{part:?}");
            assert!(!part.contains(['\n', '\0']), "{part:?}");
        }
        assert!(!entry.key.contains('='), "{:?}", entry.key);
    }
    assert!(entries.is_empty() || octets.len() <= MAX_FILE_BYTES);
    let shown = diagnostics.to_string();
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert!(entries.len() + diagnostics.iter().count() <= lines, "{shown}");
}
