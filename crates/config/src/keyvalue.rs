//! Files of `key=value` lines.
//!
//! ```text
//! # a comment, as are blank lines
//! backend = 10.0.0.1   # whitespace around key and value is dropped, and so is this
//! ```
//!
//! A `#` begins a comment at the start of a line or after whitespace; elsewhere it is part of the
//! value. Line ends may be LF or CRLF and a byte order mark may lead. There is no quoting, no
//! section and no continuation line. A line that cannot be read is reported and the rest goes on;
//! which keys exist and how often is for the caller to judge.

use rustix::fs::{Mode, OFlags};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::diagnostics::Diagnostics;

/// The size of the largest file that is read, 1 MiB: tens of thousands of lines.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// One `key=value` line, neither part empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The line, from 1.
    pub line: usize,
    /// What stands before the first `=`.
    pub key: String,
    /// What stands behind it.
    pub value: String,
}

impl Entry {
    /// The value as `parse` understands it; otherwise reports the entry and returns `None`.
    pub fn parse<T, E: Display>(
        &self,
        parse: impl FnOnce(&str) -> Result<T, E>,
        diagnostics: &mut Diagnostics,
    ) -> Option<T> {
        parse(&self.value).map_err(|error| self.report(error.to_string(), diagnostics)).ok()
    }

    /// Reports a problem of this entry.
    pub fn report(&self, message: impl Into<String>, diagnostics: &mut Diagnostics) {
        diagnostics.at(self.line, format!("{}={}", self.key, self.value), message);
    }
}

/// Reads and parses a file; what cannot be read at all is a problem like any other.
pub fn read(path: &Path, diagnostics: &mut Diagnostics) -> Vec<Entry> {
    match read_limited(path) {
        Ok(bytes) => parse(&bytes, diagnostics),
        Err(error) => {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => "; let the program's user read it: chmod 644",
                _ => "",
            };
            diagnostics.overall("", format!("cannot be read: {error}{hint}"));
            Vec::new()
        }
    }
}

/// Parses the bytes of a file. Every line is an entry, a comment, blank, or reported.
pub fn parse(bytes: &[u8], diagnostics: &mut Diagnostics) -> Vec<Entry> {
    if bytes.len() > MAX_FILE_BYTES {
        diagnostics.overall("", format!("larger than {MAX_FILE_BYTES} bytes"));
        return Vec::new();
    }
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let mut entries = Vec::new();
    for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        match parse_line(bytes) {
            Ok(Some((key, value))) => {
                entries.push(Entry { line, key: key.into(), value: value.into() });
            }
            Ok(None) => {}
            Err(message) => diagnostics.at(line, String::from_utf8_lossy(bytes).trim(), message),
        }
    }
    entries
}

fn parse_line(line: &[u8]) -> Result<Option<(&str, &str)>, &'static str> {
    let line = str::from_utf8(line).map_err(|_| "not UTF-8")?;
    if line.contains('\0') {
        return Err("contains a NUL character");
    }
    // Trimming takes the CR of a CRLF with it.
    let line = without_comment(line).trim();
    if line.is_empty() {
        return Ok(None);
    }
    let (key, value) = line.split_once('=').ok_or("expected key=value")?;
    match (key.trim(), value.trim()) {
        ("", _) => Err("the key is missing"),
        (_, "") => Err("the value is missing"),
        (key, value) => Ok(Some((key, value))),
    }
}

fn without_comment(line: &str) -> &str {
    let begins_comment = |(at, _): &(usize, &str)| {
        line.get(..*at)
            .is_some_and(|before| before.is_empty() || before.ends_with(char::is_whitespace))
    };
    let comment = line.match_indices('#').find(begins_comment);
    comment.and_then(|(at, _)| line.get(..at)).unwrap_or(line)
}

fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to see that it is too much.
    let limit = MAX_FILE_BYTES as u64 + 1;
    // Opening a pipe would wait for its writer, and with it everything else that we do.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value;

    fn parsed(bytes: &[u8]) -> (Vec<(usize, String, String)>, Vec<String>) {
        let mut diagnostics = Diagnostics::new("f");
        let entries = parse(bytes, &mut diagnostics);
        let entries = entries.into_iter().map(|entry| (entry.line, entry.key, entry.value));
        (entries.collect(), diagnostics.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let directory = std::env::temp_dir().join(format!("keyvalue-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let pipe = directory.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe, directory.clone(), "/dev/zero".into()] {
            let mut diagnostics = Diagnostics::new("f");
            assert_eq!(read(&path, &mut diagnostics), []);
            let shown = diagnostics.to_string();
            assert!(shown.contains("cannot be read: not a regular file"), "{shown}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn good_lines_are_understood() {
        type Row = (&'static str, &'static [u8], Option<(&'static str, &'static str)>);
        let table: [Row; 15] = [
            ("plain", b"vip=10.0.0.1", Some(("vip", "10.0.0.1"))),
            ("whitespace around everything", b" \tvip\t = 10.0.0.1 \t", Some(("vip", "10.0.0.1"))),
            ("whitespace within the value", b"name=a b", Some(("name", "a b"))),
            ("equals sign in the value", b"name=a=b", Some(("name", "a=b"))),
            ("trailing comment", b"vip=10.0.0.1 # old", Some(("vip", "10.0.0.1"))),
            ("trailing comment after a tab", b"vip=10.0.0.1\t#old", Some(("vip", "10.0.0.1"))),
            ("two trailing comments", b"vip=1 # a # b", Some(("vip", "1"))),
            ("number sign within the value", b"name=a#b", Some(("name", "a#b"))),
            ("number sign within the value and a comment", b"n=a#b #c", Some(("n", "a#b"))),
            ("carriage return", b"vip=10.0.0.1\r", Some(("vip", "10.0.0.1"))),
            ("byte order mark", b"\xef\xbb\xbfvip=10.0.0.1", Some(("vip", "10.0.0.1"))),
            ("other scripts", "name=Zürich".as_bytes(), Some(("name", "Zürich"))),
            ("blank", b"", None),
            ("whitespace only", b" \t\r", None),
            ("comment", b"  # vip=10.0.0.1", None),
        ];
        for (name, line, expected) in table {
            let expected = expected.map(|(key, value)| (1, key.into(), value.into()));
            assert_eq!(parsed(line), (Vec::from_iter(expected), vec![]), "{name}");
        }
    }

    #[test]
    fn bad_lines_are_reported() {
        let table: [(&[u8], &str); 8] = [
            (b"vip", "f:1: vip: expected key=value"),
            (b"vip # = 1", "f:1: vip # = 1: expected key=value"),
            (b"=1", "f:1: =1: the key is missing"),
            (b"=", "f:1: =: the key is missing"),
            (b"vip = ", "f:1: vip =: the value is missing"),
            (b"vip = # none", "f:1: vip = # none: the value is missing"),
            (b"vip=\xff\r", "f:1: vip=\u{fffd}: not UTF-8"),
            (b"vip=1\0", "f:1: vip=1\\u{0}: contains a NUL character"),
        ];
        for (line, expected) in table {
            assert_eq!(parsed(line), (vec![], vec![expected.to_owned()]));
        }
    }

    #[test]
    fn parsing_goes_on_behind_bad_lines_and_counts_all_lines() {
        let (entries, problems) = parsed(b"a=1\r\n\r\n# c\r\nb\r\nc=3\r\n\xfe\r\nd=4");
        assert_eq!(entries.iter().map(|(line, ..)| *line).collect::<Vec<_>>(), [1, 5, 7]);
        assert_eq!(problems, ["f:4: b: expected key=value", "f:6: \u{fffd}: not UTF-8"]);
    }

    #[test]
    fn file_of_the_largest_size_is_read_and_a_larger_one_is_refused() {
        let mut bytes = vec![b'#'; MAX_FILE_BYTES];
        assert_eq!(parsed(&bytes), (vec![], vec![]));
        bytes.push(b'#');
        assert_eq!(parsed(&bytes), (vec![], vec!["f: larger than 1048576 bytes".to_owned()]));
    }

    #[test]
    fn endless_and_missing_files_are_reported() {
        for (path, expected) in [
            ("/dev/zero", "/dev/zero: cannot be read: not a regular file"),
            (
                "/nonexistent",
                "/nonexistent: cannot be read: No such file or directory (os error 2)",
            ),
            ("/", "/: cannot be read: not a regular file"),
        ] {
            let mut diagnostics = Diagnostics::new(path);
            assert_eq!(read(Path::new(path), &mut diagnostics), []);
            assert_eq!(diagnostics.to_string(), expected);
        }
    }

    #[test]
    fn entry_reports_its_value_with_its_line() {
        let mut diagnostics = Diagnostics::new("edge1.conf");
        let entries = parse(b"\n\nbackend = 10.0.0.300\nvip=10.0.0.1", &mut diagnostics);
        let parsed: Vec<_> =
            entries.iter().map(|entry| entry.parse(value::address, &mut diagnostics)).collect();
        assert_eq!(parsed, [None, Some([10, 0, 0, 1].into())]);
        assert_eq!(
            diagnostics.to_string(),
            "edge1.conf:3: backend=10.0.0.300: not an IPv4 or IPv6 address"
        );
    }

    /// Bytes that look like a configuration more often than chance would have it.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"=".to_vec()),
            Just(b"#".to_vec()),
            Just(b" ".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"key=value".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_line_is_an_entry_or_a_comment_or_blank_or_reported(bytes in text()) {
            let mut diagnostics = Diagnostics::new("f");
            let entries = parse(&bytes, &mut diagnostics);
            for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
                let entered = entries.iter().filter(|entry| entry.line == line).count();
                let reported = diagnostics.iter().filter(|d| d.line == Some(line)).count();
                let text = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| line == 1).unwrap_or(text);
                let text = String::from_utf8(text.to_vec()).ok().filter(|text| !text.contains('\0'));
                let silent = text.is_some_and(|text| {
                    text.trim().is_empty() || text.trim().starts_with('#')
                });
                prop_assert_eq!(entered + reported, usize::from(!silent), "line {}", line);
            }
        }

        #[test]
        fn written_entries_are_read_back(
            pairs in proptest::collection::vec(("[a-z.]{1,9}", "[!-~&&[^#]]{1,9}"), 0..20)
        ) {
            let text: String = pairs.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
            let (entries, problems) = parsed(text.as_bytes());
            prop_assert_eq!(problems, Vec::<String>::new());
            let entries: Vec<_> = entries.into_iter().map(|(_, key, value)| (key, value)).collect();
            prop_assert_eq!(entries, pairs);
        }
    }
}
