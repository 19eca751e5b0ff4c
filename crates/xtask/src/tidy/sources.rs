//! Rules for each Rust file: its head, its size, where `unsafe` may stand, and what must not.

use super::Finding;
use super::files::File;
use super::lexer::{code_only, has_word};

/// Longer files hold more than one concept.
const MAX_LINES: usize = 500;
/// The only places of `unsafe`.
const UNSAFE_IN: [&str; 3] = ["crates/netio/", "crates/xdp/", "crates/ebpf/"];
/// Crates whose every line is a test.
const TEST_CRATES: [&str; 2] = ["crates/labs/", "crates/testkit/"];

/// What no source may say, and what to do instead.
const NOWHERE: [(&str, &str); 5] = [
    ("#[ignore", "a test runs, or skips itself with a reason"),
    ("todo!", "finish it, or leave it out"),
    ("unimplemented!", "finish it, or leave it out"),
    ("dbg!", "a debugging aid"),
    ("thread::sleep", "wait for a condition with a deadline"),
];
/// What no test may say: time is an argument there, or a condition with a deadline.
const NOT_IN_TESTS: [(&str, &str); 1] = [("sleep(", "wait for a condition with a deadline")];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    files.iter().filter(|file| file.is_rust()).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.text.starts_with("//!") {
        findings.push(Finding::new(&file.path, "does not begin with `//!` and its purpose"));
    }
    let lines = file.text.lines().count();
    if lines > MAX_LINES {
        let wrong = format!("{lines} lines, at most {MAX_LINES}: split it at a concept");
        findings.push(Finding::new(&file.path, wrong));
    }
    let code = code_only(&file.text);
    let mut in_tests = is_test(&file.path);
    for (number, line) in (1..).zip(code.lines()) {
        let place = || format!("{}:{number}", file.path);
        in_tests |= line.contains("#[cfg(test)]");
        if has_word(line, "unsafe") && !UNSAFE_IN.iter().any(|room| file.path.starts_with(room)) {
            findings.push(Finding::new(place(), "`unsafe` outside netio, xdp and ebpf"));
        }
        let not_here: &[_] = if in_tests { &NOT_IN_TESTS } else { &[] };
        for (word, instead) in NOWHERE.iter().chain(not_here) {
            if word.starts_with('#') && line.contains(word) || has_word(line, word) {
                findings.push(Finding::new(place(), format!("`{word}`: {instead}")));
                break;
            }
        }
    }
    findings
}

/// Whether the file is tests from its first line on; unit tests stand last in others.
fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || TEST_CRATES.iter().any(|room| path.starts_with(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&[File::of(path, text)])
            .into_iter()
            .map(|finding| format!("{}: {}", finding.place, finding.wrong))
            .collect()
    }

    #[test]
    fn a_file_that_keeps_the_rules_has_no_finding() {
        let text = "//! Purpose.\n// unsafe todo!\nconst X: &str = \"dbg!(sleep(1))\";\n";
        assert!(findings("crates/wire/src/lib.rs", text).is_empty());
    }

    #[test]
    fn a_file_without_a_head_is_found() {
        let found = findings("crates/wire/src/lib.rs", "mod x;\n");
        assert!(found[0].contains("does not begin with"), "{found:?}");
    }

    #[test]
    fn the_line_after_the_last_allowed_is_found() {
        let longest = format!("//! Purpose.\n{}", "\n".repeat(MAX_LINES - 1));
        assert!(findings("crates/wire/src/lib.rs", &longest).is_empty());
        let found = findings("crates/wire/src/lib.rs", &format!("{longest}\n"));
        assert!(found[0].contains("501 lines, at most 500"), "{found:?}");
    }

    #[test]
    fn unsafe_is_for_the_shells_of_the_kernel_alone() {
        let text = "//! Purpose.\nfn f() { unsafe { g() } }\n";
        for path in ["crates/netio/src/batch.rs", "crates/xdp/src/a.rs", "crates/ebpf/src/b.rs"] {
            assert!(findings(path, text).is_empty(), "{path}");
        }
        for path in ["crates/wire/src/gre.rs", "crates/lb-node/src/main.rs"] {
            let wrong = format!("{path}:2: `unsafe` outside netio, xdp and ebpf");
            assert_eq!(findings(path, text), [wrong]);
        }
    }

    #[test]
    fn each_forbidden_word_is_found_in_code() {
        for (line, word) in [
            ("#[ignore]", "#[ignore"),
            ("#[ignore = \"slow\"]", "#[ignore"),
            ("todo!()", "todo!"),
            ("unimplemented!(\"x\")", "unimplemented!"),
            ("let x = dbg!(y);", "dbg!"),
            ("std::thread::sleep(d)", "thread::sleep"),
        ] {
            let found = findings("crates/wire/src/gre.rs", &format!("//! Purpose.\n{line}\n"));
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(found[0].starts_with(&format!("crates/wire/src/gre.rs:2: `{word}`")));
        }
    }

    #[test]
    fn a_timer_may_sleep_in_a_daemon_and_not_in_a_test() {
        let line = "tokio::time::sleep(RETRY).await;\n";
        assert!(findings("crates/daemon/src/ops.rs", &format!("//! P.\n{line}")).is_empty());
        let unit = format!("//! P.\n{line}#[cfg(test)]\nmod tests {{\n{line}}}\n");
        assert_eq!(findings("crates/daemon/src/ops.rs", &unit).len(), 1);
        for path in ["crates/x/tests/a.rs", "crates/x/src/y/tests.rs", "crates/labs/src/lib.rs"] {
            assert_eq!(findings(path, &format!("//! P.\n{line}")).len(), 1, "{path}");
        }
    }
}
