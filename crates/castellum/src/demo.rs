//! The demonstration: builds a network, starts the real programs, breaks things, measures.

mod gre;
mod l4;
mod report;
mod traffic;

use clap::Args;
use netio::netns::enter_user_namespace;
use report::Report;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// What to show and how.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// GRE flows in each scenario
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(100..=10_000))]
    flows: u32,

    /// TCP connections over the second tier
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u16).range(30..=5_000))]
    connections: u16,
}

/// Runs the demonstration. Succeeds only if every claim held.
pub(crate) fn main(options: &Options) -> ExitCode {
    match run(options) {
        Ok(report) => {
            let text = if options.json { report.json() } else { report.text() };
            println!("{text}");
            ExitCode::from(u8::from(!report.holds()))
        }
        Err(error) => {
            eprintln!("castellum: the demo could not run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<Report> {
    let root = is_root();
    if !root {
        progress("not root: entering a user namespace");
        enter_user_namespace()?;
    }
    let mut report = Report::default();
    gre::run(options.flows, &mut report)?;
    if root {
        l4::run(usize::from(options.connections), &mut report)?;
    } else {
        let why = "TCP over lb-node: XDP programs need root, as with `sudo castellum demo`";
        report.skipped.push(why.into());
    }
    Ok(report)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// One line about what is going on, to stderr.
fn progress(line: &str) {
    eprintln!("  {line}");
}

/// This binary under a program's name.
fn program(name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name);
    command
}
