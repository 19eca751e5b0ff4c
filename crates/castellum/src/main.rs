//! `castellum demo`: the stack on one machine, real traffic, real failures, measured.
//!
//! The binary holds every program of the stack and becomes one of them when it is called by that
//! program's name, so that one build serves a whole demonstration.

#![forbid(unsafe_code)]

mod demo;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The Castellum load-balancing stack.
#[derive(Debug, Parser)]
#[command(name = "castellum", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the stack at work in network namespaces of this machine, and measure it
    Demo(demo::Options),
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().peekable();
    match args.peek().and_then(name_of).as_deref() {
        Some("gredist") => return gredist::main(args),
        Some("gre-send") => return gredist::lab::send::main(args),
        Some("lb-node") => return lb_node::main(args),
        Some("gre-sink") => return gredist::lab::sink::main(args),
        _ => {}
    }
    let Args { command } = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return daemon::args::refuse(&error),
    };
    match command {
        Command::Demo(options) => demo::main(&options),
    }
}

/// The file name of a program's path.
fn name_of(path: &OsString) -> Option<String> {
    Some(Path::new(path).file_name()?.to_str()?.to_owned())
}
