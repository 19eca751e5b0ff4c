//! Replays the fuzz corpus as an ordinary test, and keeps its seeds.
//!
//! `fuzz/corpus/<target>/seed-*` are written by this test's own list of packets and texts:
//! `UPDATE_CORPUS=1 cargo test -p labs --test corpus` writes what is missing. Files of other names
//! were found by the fuzzer.

mod seeds;

use labs::fuzz::TARGETS;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The corpus is replayed with every test run and kept in the repository: it stays small.
const MAX_FILES: usize = 300;
const MAX_BYTES: usize = 1 << 20;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn files(target: &str) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let entries = fs::read_dir(corpus().join(target))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.into_iter().map(|path| Ok((path.clone(), fs::read(&path)?))).collect()
}

#[test]
fn every_target_holds_on_its_corpus() {
    for (target, body) in TARGETS {
        for (path, octets) in files(target).unwrap() {
            println!("{}", path.display()); // shown with a failure
            body(&octets);
        }
    }
}

#[test]
fn every_target_holds_on_every_corpus() {
    // What one decoder found interesting is a good input for the others.
    for (target, _) in TARGETS {
        for (path, octets) in files(target).unwrap() {
            println!("{}", path.display());
            for (_, body) in TARGETS {
                body(&octets);
            }
        }
    }
}

#[test]
fn the_seeds_are_in_the_corpus() {
    for (target, name, octets) in seeds::all() {
        let path = corpus().join(target).join(format!("seed-{name}"));
        if std::env::var_os("UPDATE_CORPUS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &octets).unwrap();
        }
        assert_eq!(fs::read(&path).ok(), Some(octets), "{}", path.display());
    }
}

#[test]
fn the_corpus_is_small_and_of_known_targets() {
    let known: BTreeSet<_> = TARGETS.iter().map(|(target, _)| (*target).to_owned()).collect();
    let entries = fs::read_dir(corpus()).unwrap();
    let found = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(known, found);
    let all: Vec<_> = TARGETS.iter().flat_map(|(target, _)| files(target).unwrap()).collect();
    assert!(all.len() < MAX_FILES, "{} files", all.len());
    let bytes: usize = all.iter().map(|(_, octets)| octets.len()).sum();
    assert!(bytes < MAX_BYTES, "{bytes} bytes");
}
