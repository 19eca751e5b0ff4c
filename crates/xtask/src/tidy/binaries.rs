//! The BPF object is the one file that is built and checked in; the rest of the tree is written.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context;

use super::{Finding, files};
use crate::ebpf::CHECKED_IN;

/// Inputs of fuzzers are octets by nature.
const SEEDS: &str = "fuzz/corpus/";
/// How far git looks for a zero, by which it tells binary files.
const HEAD: u64 = 8_000;

pub(super) fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    files::walk(root, &mut |path, place| {
        if path != CHECKED_IN && !path.starts_with(SEEDS) && is_binary(place)? {
            let wrong =
                format!("is a binary file; the only one that is checked in is {CHECKED_IN}");
            findings.push(Finding::new(path, wrong));
        }
        Ok(())
    })?;
    Ok(findings)
}

fn is_binary(file: &Path) -> anyhow::Result<bool> {
    let mut head = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(HEAD).read_to_end(&mut head))
        .with_context(|| format!("read {}", file.display()))?;
    Ok(head.contains(&0))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_binary_is_found_but_for_the_object_and_seeds() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for folder in ["crates/ebpf/src", "fuzz/corpus/gre", "target", "docs"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let binaries =
            [CHECKED_IN, "crates/ebpf/src/other.o", "fuzz/corpus/gre/1", "target/a", "docs/b.png"];
        for path in binaries {
            fs::write(root.join(path), b"\x7fELF\0").unwrap();
        }
        fs::write(root.join("docs/text"), "text").unwrap();
        let mut places: Vec<_> =
            check(root).unwrap().into_iter().map(|finding| finding.place).collect();
        places.sort();
        assert_eq!(places, ["crates/ebpf/src/other.o", "docs/b.png"]);
    }
}
