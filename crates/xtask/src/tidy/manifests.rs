//! Rules for the manifests: a reason for each dependency, and the same lints for every crate.
//!
//! Reads lines, not TOML: the manifests keep one entry on one line.

use super::Finding;
use super::files::File;

const ROOT: &str = "Cargo.toml";
/// The crate with `unsafe`, and the only lint it may weaken.
const UNSAFE_CRATE: &str = "crates/netio/Cargo.toml";
const UNSAFE_LINT: &str = "unsafe_code";
const LINT_TABLES: [&str; 2] = ["rust", "clippy"];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let Some(root) = files.iter().find(|file| file.path == ROOT) else {
        return vec![Finding::new(ROOT, "is not there")];
    };
    let mut findings = reasons(root);
    for file in files {
        if file.path == UNSAFE_CRATE {
            findings.extend(same_lints(root, file));
        } else if is_member(&file.path) && !inherits_lints(file) {
            let wrong = "does not inherit the workspace's lints: `[lints]`, `workspace = true`";
            findings.push(Finding::new(&file.path, wrong));
        }
    }
    findings
}

fn is_member(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "Cargo.toml"])
}

fn reasons(root: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in section(&root.text, "workspace.dependencies") {
        let ours = line.contains("path = ");
        let reason = line.rsplit_once('#').map_or("", |(_, reason)| reason.trim());
        if !ours && reason.is_empty() {
            let name = line.split([' ', '.', '=']).next().unwrap_or(line);
            let place = format!("{ROOT}:{number}");
            findings.push(Finding::new(place, format!("no reason for {name} behind a `#`")));
        }
    }
    findings
}

fn inherits_lints(manifest: &File) -> bool {
    section(&manifest.text, "lints").any(|(_, line)| line == "workspace = true")
}

fn same_lints(root: &File, manifest: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for table in LINT_TABLES {
        let entries = |text, name: String| {
            let mut entries: Vec<String> = section(text, &name)
                .map(|(_, line)| line.to_owned())
                .filter(|line| !line.starts_with(&format!("{UNSAFE_LINT} ")))
                .collect();
            entries.sort();
            entries
        };
        let all = entries(&root.text, format!("workspace.lints.{table}"));
        let own = entries(&manifest.text, format!("lints.{table}"));
        for line in all.iter().filter(|line| !own.contains(line)) {
            let wrong = format!("[lints.{table}] lacks the workspace's `{line}`");
            findings.push(Finding::new(&manifest.path, wrong));
        }
        for line in own.iter().filter(|line| !all.contains(line)) {
            let wrong = format!("[lints.{table}] has `{line}`, the workspace has not");
            findings.push(Finding::new(&manifest.path, wrong));
        }
    }
    findings
}

/// The entries of one table with their line numbers, without blank lines and comment lines.
fn section<'a>(text: &'a str, name: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let heading = format!("[{name}]");
    (1..)
        .zip(text.lines().map(str::trim))
        .skip_while(move |(_, line)| *line != heading)
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('['))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "[workspace.dependencies]\nwire = { path = \"crates/wire\" }\n\
        # A heading.\nlibc = \"0.2\" # system calls\n\n\
        [workspace.lints.rust]\nmissing_docs = \"warn\"\nunsafe_code = \"deny\"\n\n\
        [workspace.lints.clippy]\npanic = \"warn\"\n";
    const NETIO: &str = "[package]\nname = \"netio\"\n[lints.rust]\nmissing_docs = \"warn\"\n\
        unsafe_code = \"allow\"\n[lints.clippy]\npanic = \"warn\"\n";
    const MEMBER: &str = "[package]\nname = \"wire\"\n[lints]\nworkspace = true\n";

    fn wrong(root: &str, netio: &str, member: &str) -> Vec<String> {
        let files = [
            File::of(ROOT, root),
            File::of(UNSAFE_CRATE, netio),
            File::of("crates/wire/Cargo.toml", member),
            File::of("fuzz/Cargo.toml", ""),
        ];
        check(&files).into_iter().map(|found| format!("{}: {}", found.place, found.wrong)).collect()
    }

    #[test]
    fn manifests_that_keep_the_rules_have_no_finding() {
        assert_eq!(wrong(WORKSPACE, NETIO, MEMBER), [""; 0]);
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        for bare in ["libc = \"0.2\"", "libc = \"0.2\" #", "libc = { version = \"0.2\" }"] {
            let root = WORKSPACE.replace("libc = \"0.2\" # system calls", bare);
            assert_eq!(
                wrong(&root, NETIO, MEMBER),
                ["Cargo.toml:4: no reason for libc behind a `#`"]
            );
        }
    }

    #[test]
    fn a_member_with_lints_of_its_own_is_found() {
        let own =
            MEMBER.replace("[lints]\nworkspace = true", "[lints.rust]\nmissing_docs = \"allow\"");
        let found = wrong(WORKSPACE, NETIO, &own);
        assert!(found[0].starts_with("crates/wire/Cargo.toml: does not inherit"), "{found:?}");
    }

    #[test]
    fn the_unsafe_crate_weakens_no_other_lint() {
        let weaker = NETIO.replace("missing_docs = \"warn\"", "missing_docs = \"allow\"");
        assert_eq!(wrong(WORKSPACE, &weaker, MEMBER).len(), 2);
        let fewer = NETIO.replace("panic = \"warn\"\n", "");
        let found = wrong(WORKSPACE, &fewer, MEMBER);
        assert_eq!(
            found,
            ["crates/netio/Cargo.toml: [lints.clippy] lacks the workspace's `panic = \"warn\"`"]
        );
    }
}
