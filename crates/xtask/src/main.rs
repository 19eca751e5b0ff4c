//! The developer's one door: `cargo xtask check`, `test`, `tidy`, `ebpf`, `lab`, `bench` and
//! `fuzz`.
//!
//! CI runs nothing else, so what passes here passes there.

mod apt;
mod bench;
mod check;
mod command;
mod count;
mod deny;
mod ebpf;
mod fuzz;
mod lab;
mod peers;
mod privilege;
mod report;
mod test;
mod tidy;
mod tool;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ebpf::Purpose;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The developer's one door")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lints, the project's own rules, licences and sources of dependencies
    Check(Tools),
    /// Build the programs, then run every test; the last line is the total
    Test(Tools),
    /// The project's own rules alone: layers, purity, file sizes, links, traps
    Tidy,
    /// Build the BPF object and put it beside its source
    Ebpf {
        /// Compare it with the one that is checked in instead
        #[arg(long)]
        check: bool,
        /// Run clippy on what is built only for BPF instead
        #[arg(long, conflicts_with = "check")]
        clippy: bool,
        #[command(flatten)]
        tools: Tools,
    },
    /// Run the labs whose test names contain FILTER, with their output
    Lab {
        /// Part of a test's name; all labs without it
        filter: Option<String>,
    },
    /// Measure against peers and limits, side by side in one run; needs root and nft
    Bench {
        /// What to measure
        #[arg(value_enum)]
        subject: Subject,
        /// Write the records to this file
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Interleaved rounds of each case
        #[arg(long, value_name = "N", default_value_t = 7)]
        rounds: usize,
        /// Of lb's cases those whose names contain this
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// Fuzz one target, or list the targets
    Fuzz {
        /// A file name of fuzz/fuzz_targets without its ending
        target: Option<String>,
        /// How long, in seconds
        #[arg(default_value_t = 60)]
        seconds: u32,
    },
    /// Run a command as root of new user and network namespaces (`test` and `lab` use it)
    #[command(hide = true)]
    InNamespace {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    /// The GRE distributor against a bare loop of the same system calls
    Gredist,
    /// The packet core of lb-node against a program that only sends frames back
    Lb,
}

#[derive(Args)]
struct Tools {
    /// Install the tools that are missing; CI=true in the environment says the same
    #[arg(long)]
    install: bool,
}

/// What to do about a tool that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// Say how to install it and go on.
    Tell,
    Install,
}

impl Tools {
    fn missing(&self) -> Missing {
        let ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        if self.install || ci { Missing::Install } else { Missing::Tell }
    }
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Check(tools) => check::run_task(tools.missing()),
        Task::Test(tools) => test::run_task(tools.missing()),
        Task::Tidy => tidy::run_task(),
        Task::Ebpf { check, clippy, tools } => {
            let purpose = match (check, clippy) {
                (true, _) => Purpose::Check,
                (_, true) => Purpose::Clippy,
                _ => Purpose::Replace,
            };
            ebpf::run_task(purpose, tools.missing())
        }
        Task::Lab { filter } => lab::run_task(filter.as_deref()),
        Task::Bench { subject: Subject::Gredist, json, rounds, .. } => {
            bench::gredist(json.as_deref(), rounds)
        }
        Task::Bench { subject: Subject::Lb, json, rounds, only } => {
            bench::lb(json.as_deref(), rounds, only.as_deref())
        }
        Task::Fuzz { target: Some(target), seconds } => fuzz::run_task(&target, seconds),
        Task::Fuzz { target: None, .. } => fuzz::list(),
        Task::InNamespace { command } => privilege::enter_and_become(&command),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
