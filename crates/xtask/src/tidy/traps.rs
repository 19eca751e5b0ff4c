//! Traps and the tests that step into them.
//!
//! A trap is a way in which others went wrong, listed with its number in `docs/traps.md`; a test of
//! it carries the number in its name: `l3_46_each_flag_bit_has_its_verdict`. A trap without a test
//! says there why.

use super::Finding;
use super::files::File;

const LIST: &str = "docs/traps.md";
/// How the names of tests begin, per tier; the number of the trap follows.
const PREFIXES: [&str; 4] = ["l3_", "l4_", "l7_t", "ha_t"];

/// All traps listed, and the tests found.
#[derive(Debug, Default)]
pub(super) struct Table {
    traps: Vec<Trap>,
    /// Tests whose trap nobody listed.
    strays: Vec<Test>,
    /// Lines of the list that look like a trap's row and cannot be read as one.
    unread: Vec<usize>,
}

#[derive(Debug)]
struct Trap {
    /// As a test's name begins: `l3_44`.
    id: String,
    line: usize,
    what: String,
    /// Why no test steps into it.
    gap: String,
    tests: Vec<Test>,
}

#[derive(Clone, Debug)]
struct Test {
    id: String,
    name: String,
    place: String,
}

impl Table {
    pub(super) fn read(files: &[File]) -> Self {
        let list = files.iter().find(|file| file.path == LIST);
        let mut table = Self {
            traps: list.map_or_else(Vec::new, |list| listed(&list.text)),
            strays: Vec::new(),
            unread: list.map_or_else(Vec::new, |list| unread(&list.text)),
        };
        for test in files.iter().filter(|file| file.is_rust()).flat_map(tests_in) {
            match table.traps.iter_mut().find(|trap| trap.id == test.id) {
                Some(trap) => trap.tests.push(test),
                None => table.strays.push(test),
            }
        }
        table
    }

    /// One line per trap: its tests, or why there is none.
    pub(super) fn render(&self) -> String {
        let tested = self.traps.iter().filter(|trap| !trap.tests.is_empty()).count();
        let mut text = format!("    traps with a test: {tested} of {}\n", self.traps.len());
        for Trap { id, what, gap, tests, .. } in &self.traps {
            let names: Vec<_> = tests.iter().map(|test| test.name.as_str()).collect();
            let seen = if names.is_empty() { format!("NO TEST: {gap}") } else { names.join(", ") };
            text += &format!("    {id:7} {what}: {seen}\n");
        }
        text
    }

    /// A trap has a test or a reason, not both; a test with a number has a listed trap.
    pub(super) fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.traps.is_empty() {
            findings.push(Finding::new(LIST, "lists no trap"));
        }
        for Trap { id, line, gap, tests, .. } in &self.traps {
            let place = format!("{LIST}:{line}");
            match tests.first() {
                None if gap.is_empty() => {
                    findings.push(Finding::new(place, format!("{id} has neither test nor reason")));
                }
                Some(test) if !gap.is_empty() => {
                    let wrong = format!("{id} has a test, {}: remove the reason", test.name);
                    findings.push(Finding::new(place, wrong));
                }
                None | Some(_) => {}
            }
        }
        for line in &self.unread {
            let wrong = "no trap's row: `| l3_44 | what | why no test |`, two digits at least";
            findings.push(Finding::new(format!("{LIST}:{line}"), wrong));
        }
        for Test { id, name, place } in &self.strays {
            findings.push(Finding::new(place, format!("{name}: {LIST} lists no trap {id}")));
        }
        findings
    }
}

/// The rows `| l3_44 | what | gap |`.
fn listed(text: &str) -> Vec<Trap> {
    (1..)
        .zip(text.lines())
        .filter_map(|(line, row)| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let ["", id, what, gap, ""] = cells[..] else { return None };
            let (id, rest) = numbered(id)?;
            rest.is_empty().then(|| Trap {
                id: id.to_owned(),
                line,
                what: what.to_owned(),
                gap: gap.to_owned(),
                tests: Vec::new(),
            })
        })
        .collect()
}

/// Rows of a table, but for heads and rules, that are not a trap's.
fn unread(text: &str) -> Vec<usize> {
    let traps: Vec<_> = listed(text).into_iter().map(|trap| trap.line).collect();
    let is_tier = |row: &str| PREFIXES.iter().any(|prefix| row.contains(&format!("| {prefix}")));
    let rows = (1..).zip(text.lines()).filter(|(_, row)| row.starts_with('|') && is_tier(row));
    rows.map(|(line, _)| line).filter(|line| !traps.contains(line)).collect()
}

/// The functions of `file` whose names carry the number of a trap, or of several one after the
/// other, each of which they test; helpers do not begin so.
fn tests_in(file: &File) -> Vec<Test> {
    let mut tests = Vec::new();
    for (line, text) in (1..).zip(file.text.lines()) {
        let declaration = text.trim_start().trim_start_matches("async ");
        let Some(declared) = declaration.strip_prefix("fn ") else { continue };
        let name = declared.split(['(', '<']).next().unwrap_or(declared);
        let mut left = name;
        while let Some((id, rest)) = numbered(left)
            && let Some(rest) = rest.strip_prefix('_')
        {
            let place = format!("{}:{line}", file.path);
            tests.push(Test { id: id.to_owned(), name: name.to_owned(), place });
            left = rest;
        }
    }
    tests
}

/// `l3_44_rest` as `l3_44` and `_rest`.
fn numbered(name: &str) -> Option<(&str, &str)> {
    let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix))?;
    let digits = name.get(prefix.len()..)?.bytes().take_while(u8::is_ascii_digit).count();
    (digits >= 2).then(|| name.split_at(prefix.len() + digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(list: &str, tests: &str) -> Table {
        Table::read(&[File::of(LIST, list), File::of("crates/labs/tests/gre.rs", tests)])
    }

    fn wrong(table: &Table) -> Vec<String> {
        table.check().into_iter().map(|found| format!("{}: {}", found.place, found.wrong)).collect()
    }

    #[test]
    fn a_trap_has_a_test_or_a_reason() {
        let list = "| trap | what | gap |\n|-|-|-|\n| l3_44 | Key offset | |\n| l3_61 | IPsec | needs a kernel |\n";
        let table = table(list, "#[test]\nfn l3_44_finds_the_key() {}\n");
        assert_eq!(wrong(&table), [""; 0]);
        let text = table.render();
        assert!(text.contains("traps with a test: 1 of 2"), "{text}");
        assert!(text.contains("l3_44   Key offset: l3_44_finds_the_key\n"), "{text}");
        assert!(text.contains("l3_61   IPsec: NO TEST: needs a kernel\n"), "{text}");
    }

    #[test]
    fn one_test_may_step_into_several_traps() {
        let list = "| l3_44 | Key offset | |\n| l3_47 | Checksum | |\n";
        let table = table(list, "fn l3_44_l3_47_all_flags() {}\nfn l3_44() {}\n");
        assert_eq!(wrong(&table), [""; 0]);
        assert!(table.render().contains("l3_47   Checksum: l3_44_l3_47_all_flags\n"));
    }

    #[test]
    fn neither_test_nor_reason_is_found_and_so_are_both() {
        let neither = table("| l3_44 | Key offset | |\n", "");
        assert_eq!(wrong(&neither), ["docs/traps.md:1: l3_44 has neither test nor reason"]);
        let both = table("| l3_44 | Key offset | later |\n", "async fn l3_44_x() {}\n");
        assert_eq!(wrong(&both), ["docs/traps.md:1: l3_44 has a test, l3_44_x: remove the reason"]);
    }

    #[test]
    fn a_number_that_is_not_listed_is_found() {
        let stray = table("| l3_44 | Key offset | later |\n", "fn l7_t12_smuggling() {}\n");
        assert_eq!(
            wrong(&stray),
            ["crates/labs/tests/gre.rs:1: l7_t12_smuggling: docs/traps.md lists no trap l7_t12"]
        );
    }

    #[test]
    fn a_missing_list_is_found() {
        assert_eq!(wrong(&Table::read(&[])), ["docs/traps.md: lists no trap"]);
    }

    #[test]
    fn a_row_that_cannot_be_read_is_found() {
        for row in
            ["| l3_8 | one digit | |", "| l3_44 | a cell too few |", "| l3_x | no number | |"]
        {
            let table = table(&format!("| l3_45 | fine | reason |\n{row}\n"), "");
            let found = wrong(&table);
            assert_eq!(found.len(), 1, "{row}: {found:?}");
            assert!(found[0].starts_with("docs/traps.md:2: no trap's row"), "{found:?}");
        }
    }

    #[test]
    fn names_are_split_after_the_number() {
        assert_eq!(numbered("l3_44_x"), Some(("l3_44", "_x")));
        assert_eq!(numbered("ha_t07_x"), Some(("ha_t07", "_x")));
        for other in ["l3_x", "l3_4_x", "l5_44_x", "l7_12_x", "fall3_44"] {
            assert_eq!(numbered(other), None, "{other}");
        }
    }
}
