//! Pure crates use no operating system: not in a dependency, not in `unsafe`, not by a detour.

use super::Finding;
use super::files::File;
use super::layers::{Graph, Member};

/// What nothing pure may reach, at any distance.
const IMPURE: [&str; 5] = ["tokio", "libc", "socket2", "rustix", "mio"];
/// What a pure crate may name beside the workspace's own crates.
const ALLOWED: [&str; 3] = ["thiserror", "serde", "granit-parser"];
const FORBID: &str = "#![forbid(unsafe_code)]";

pub(super) fn check(graph: &Graph, files: &[File], rows: &[Member]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in rows.iter().filter(|row| row.layer.is_pure()).map(|row| row.name) {
        if !graph.members.iter().any(|member| member == name) {
            continue;
        }
        for used in graph.used_by(name) {
            if !graph.members.iter().any(|member| member == used) && !ALLOWED.contains(&used) {
                let wrong = format!("is pure and uses {used}; allowed: {}", ALLOWED.join(", "));
                findings.push(Finding::new(format!("crate {name}"), wrong));
            }
        }
        for way in ways_to_impurity(graph, name) {
            let wrong = format!("is pure and reaches the system: {}", way.join(" -> "));
            findings.push(Finding::new(format!("crate {name}"), wrong));
        }
        let lib = format!("crates/{name}/src/lib.rs");
        let forbids =
            |file: &File| file.path == lib && file.text.lines().any(|line| line == FORBID);
        if !files.iter().any(forbids) {
            findings.push(Finding::new(lib, format!("is pure and does not say `{FORBID}`")));
        }
    }
    findings
}

/// For each impure crate that `name` reaches, one way there.
fn ways_to_impurity<'a>(graph: &'a Graph, name: &'a str) -> Vec<Vec<&'a str>> {
    let mut ways = vec![vec![name]];
    let mut seen = vec![name];
    let mut found = Vec::new();
    while let Some(way) = ways.pop() {
        let Some(last) = way.last() else { continue };
        for used in graph.used_by(last) {
            if seen.contains(&used) {
                continue;
            }
            seen.push(used);
            let mut longer = way.clone();
            longer.push(used);
            if IMPURE.contains(&used) {
                found.push(longer);
            } else {
                ways.push(longer);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::layers::{MEMBERS, tests::graph};
    use super::*;

    fn wrong(uses: &[&str], lib: &str) -> Vec<String> {
        let mut graph = graph(uses);
        graph.members.retain(|name| MEMBERS.iter().any(|row| row.name == name));
        let files = ["wire", "health", "datapath"]
            .map(|name| File::of(&format!("crates/{name}/src/lib.rs"), lib));
        check(&graph, &files, MEMBERS)
            .into_iter()
            .map(|finding| format!("{} {}", finding.place, finding.wrong))
            .collect()
    }

    const LIB: &str = "//! Purpose.\n#![forbid(unsafe_code)]\n";

    #[test]
    fn thiserror_and_crates_of_ours_are_pure() {
        let uses = ["health -> thiserror", "thiserror -> syn", "datapath -> wire", "netio -> libc"];
        assert_eq!(wrong(&uses, LIB), [""; 0]);
    }

    #[test]
    fn the_system_is_found_directly_and_by_a_detour() {
        for impure in IMPURE {
            let found = wrong(&[&format!("wire -> {impure}")], LIB);
            assert!(
                found.contains(&format!(
                    "crate wire is pure and reaches the system: wire -> {impure}"
                ))
            );
        }
        let found = wrong(&["datapath -> wire", "health -> thiserror", "thiserror -> libc"], LIB);
        let way = "crate health is pure and reaches the system: health -> thiserror -> libc";
        assert_eq!(found, [way]);
    }

    #[test]
    fn a_dependency_that_is_not_allowed_is_found() {
        let found = wrong(&["wire -> bitvec"], LIB);
        assert_eq!(
            found,
            ["crate wire is pure and uses bitvec; allowed: thiserror, serde, granit-parser"]
        );
    }

    #[test]
    fn a_pure_crate_forbids_unsafe() {
        let found = wrong(&["datapath -> wire"], "//! Purpose.\n// #![forbid(unsafe_code)]\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("does not say `#![forbid(unsafe_code)]`"));
    }
}
