//! The commands beside the daemon: what each prints, and with which exit code it ends.

use crate::args::{Capture, Command, Explain, Of, Sessions, Stats};
use crate::capture;
use crate::explain::{self, story};
use crate::look::stats::{Figures, Reasons};
use crate::look::{Error, Node, print, sessions, stats};
use daemon::exit::Exit;
use serde_json::Value;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Runs a command; `config`: the file that was named before it.
pub fn run(command: &Command, config: Option<PathBuf>) -> Exit {
    let done = match command {
        Command::Sessions(args) => list_sessions(args, config),
        Command::Stats(args) => show_stats(args, config),
        Command::Explain(args) => explain(args, config),
        Command::Capture(args) => capture_packets(args, config),
    };
    match done {
        Ok(()) => Exit::Ok,
        // The reader has gone: that is its choice.
        Err(Error::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
        Err(error) => Exit::from(&error).complain("lb-node", &error),
    }
}

/// The node that a command looks at. Resources that cannot be read cost names, and no more.
fn open(named: Option<&PathBuf>, config: Option<PathBuf>) -> Result<Node, Error> {
    let file = named.cloned().or(config).ok_or(Error::NoConfig)?;
    let node = Node::open(&file)?;
    for line in node.names.problem.iter().flat_map(|problem| problem.lines()) {
        eprintln!("lb-node: {line}");
    }
    Ok(node)
}

fn list_sessions(args: &Sessions, config: Option<PathBuf>) -> Result<(), Error> {
    let node = open(args.of.config.as_ref(), config)?;
    let list = sessions::list(&node, args)?;
    show(&args.of, &sessions::to_json(&list), || sessions::render(&list))
}

fn show_stats(args: &Stats, config: Option<PathBuf>) -> Result<(), Error> {
    let node = open(args.of.config.as_ref(), config)?;
    let reasons = if args.all { Reasons::All } else { Reasons::Nonzero };
    let mut figures = Figures::read(&node)?;
    let Some(seconds) = args.watch else {
        return show(&args.of, &stats::to_json(&figures), || stats::render(&figures, reasons, ""));
    };
    loop {
        std::thread::park_timeout(Duration::from_secs(seconds));
        let now = Figures::read(&node)?;
        let rates = now.rate_since(&figures, seconds);
        figures = now;
        show(&args.of, &stats::to_json(&rates), || {
            stats::render(&rates, reasons, "/s") + "\n---\n\n"
        })?;
    }
}

fn explain(args: &Explain, config: Option<PathBuf>) -> Result<(), Error> {
    let mut node = open(args.of.config.as_ref(), config)?;
    let told = explain::explain(&mut node, args)?;
    show(&args.of, &told.facts, || story::render(&told.steps))
}

fn capture_packets(args: &Capture, config: Option<PathBuf>) -> Result<(), Error> {
    let mut node = open(args.config.as_ref(), config)?;
    capture::capture(&mut node, args)
}

fn show(of: &Of, json: &Value, text: impl FnOnce() -> String) -> Result<(), Error> {
    if of.json {
        print(&format!("{json:#}\n"))?
    } else {
        print(&text())?
    }
    Ok(())
}
