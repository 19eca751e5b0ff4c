//! `cargo xtask tidy`: the project's own rules, each of which names the place it fails at.
//!
//! Reads the tree and `cargo metadata` once; a rule is a function from what was read to findings.

mod binaries;
mod files;
mod layers;
mod lexer;
mod links;
mod manifests;
mod purity;
mod sources;
mod traps;

use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::command::root;
use crate::report::Outcome;

/// One broken rule: where, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    place: String,
    wrong: String,
}

impl Finding {
    fn new(place: impl Into<String>, wrong: impl Into<String>) -> Self {
        Self { place: place.into(), wrong: wrong.into() }
    }
}

/// `cargo xtask tidy`.
pub(crate) fn run_task() -> anyhow::Result<ExitCode> {
    step().map(|_| ExitCode::SUCCESS)
}

/// All rules; the table of traps is printed on the way.
pub(crate) fn step() -> anyhow::Result<Outcome> {
    let root = root();
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(&root)
        .exec()
        .context("read cargo metadata")?;
    let files = files::read(&root)?;
    let graph = layers::Graph::from(&metadata);

    let mut findings = layers::check(&graph, layers::MEMBERS);
    findings.extend(purity::check(&graph, &files, layers::MEMBERS));
    findings.extend(sources::check(&files));
    findings.extend(manifests::check(&files));
    findings.extend(links::check(&files, &root));
    findings.extend(binaries::check(&root)?);
    let traps = traps::Table::read(&files);
    print!("{}", traps.render());
    findings.extend(traps.check());

    findings.sort();
    for Finding { place, wrong } in &findings {
        println!("    {place}: {wrong}");
    }
    if findings.is_empty() {
        println!("    tidy: {} files, {} crates, no finding", files.len(), graph.members.len());
        Ok(Outcome::Passed)
    } else {
        bail!("findings: {}", findings.len())
    }
}
