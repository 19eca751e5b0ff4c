//! Distributes GRE tunnels (IP protocol 47) over healthy backends by rendezvous hashing.
//!
//! One thread forwards packets ([`plane`], [`forwarder`]); one loop controls it ([`controller`]).
//! They share a snapshot, which only the loop publishes, and counters, which only the thread
//! writes.

#![forbid(unsafe_code)]

pub mod args;
pub mod claim;
pub mod clients;
pub mod config;
pub mod controller;
pub mod forwarder;
pub mod guard;
pub mod host;
pub mod lab;
pub mod locality;
pub mod outbox;
pub mod paths;
pub mod plane;
pub mod ports;
pub mod snapshot;
pub mod statistics;
pub mod status;
pub mod trace;

use crate::args::{Args, Located};
use crate::clients::Clients;
use crate::config::Config;
use crate::controller::{Controller, Parts, warn_of_local_backends, warn_of_short_queues};
use crate::forwarder::Forwarder;
use crate::host::Host;
use crate::plane::Plane;
use crate::ports::Ports;
use crate::snapshot::Compiled;
use crate::statistics::Statistics;
use ::config::live::Live;
use clap::Parser;
use daemon::args::Common;
use daemon::exit::Exit;
use daemon::ops::Ops;
use daemon::privileges::{self, Capability};
use daemon::signals::{Signal, Signals};
use probe::Prober;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use tracing::{error, info, warn};
use wire::{Address, Family};

/// The program: arguments, configuration, build, run until a signal, drain.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return daemon::args::refuse(&error),
    };
    run(&args).into()
}

fn run(args: &Args) -> Exit {
    let located = match args.locate() {
        Ok(located) => located,
        Err(message) => return fail(Exit::Usage, &message),
    };
    if args.is_offline() { answer(args, &located) } else { run_daemon(args, located) }
}

/// Answers a question about the configuration on standard output.
fn answer(args: &Args, located: &Located) -> Exit {
    let config = match Config::load(&located.file) {
        Ok(config) => config,
        Err(diagnostics) => return fail(Exit::Config, &diagnostics),
    };
    if let Some(warning) = located.warning() {
        eprintln!("gredist: warning: {warning}");
    }
    if let Some(name) = &args.print_guard {
        return print(guard::table(name, &config), Exit::Usage);
    }
    if let Some(traced) = &args.trace {
        return print(trace::report(&config, traced, &args.down), Exit::Usage);
    }
    let (file, backends) = (located.file.display(), config.backends.len());
    let plural = if backends == 1 { "" } else { "s" };
    print::<String>(Ok(format!("{file}: good, {backends} backend{plural}\n")), Exit::Ok)
}

/// The daemon: from here on everything is said in the log.
fn run_daemon(args: &Args, located: Located) -> Exit {
    let Common { log_format, .. } = args.common;
    if let Err(error) = daemon::logging::init(log_format, args.common.log_output("gredist")) {
        return fail(Exit::Runtime, &error);
    }
    let config = match Config::load(&located.file) {
        Ok(config) => config,
        Err(diagnostics) => {
            diagnostics.iter().for_each(|diagnostic| error!("{diagnostic}"));
            return Exit::Config;
        }
    };
    if let Some(warning) = located.warning() {
        warn!("{warning}");
    }
    match serve(located.file, config) {
        Ok(()) => Exit::Ok,
        Err(message) => {
            error!("{message}");
            Exit::Runtime
        }
    }
}

/// Takes the signals over, so that none that comes early kills the process, and runs.
fn serve(file: PathBuf, config: Config) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(text)?.block_on(async {
        let signals = Signals::new().map_err(text)?;
        build_and_run(file, config, signals).await
    })
}

/// Builds everything, drops privileges, runs until a signal ends it, drains.
async fn build_and_run(file: PathBuf, config: Config, signals: Signals) -> Result<(), String> {
    privileges::ensure(Capability::NetRaw, "gredist").map_err(text)?;
    locality::check(&config).map_err(text)?;
    let claims = claim::take_all(&config, &[]).map_err(text)?;
    let ports = Ports::open(&config, None).map_err(text)?;
    warn_of_short_queues(&ports);
    warn_of_merging_devices();
    warn_of_local_backends(&config);
    let sockets = probe::Sockets::open(&probed_families(&config)).map_err(text)?;
    let bind = |address| Ops::bind(address).map_err(|error| format!("ops={address}: {error}"));
    let ops = config.ops.map(bind).transpose()?;
    // Capabilities are a thread's own: the packet thread, started below, inherits what is left.
    privileges::keep_only(&[Capability::NetRaw])
        .map_err(|error| format!("cannot drop capabilities: {error}"))?;

    let compiled = Compiled::new(&config, None);
    let live = Arc::new(Live::new(Arc::new(compiled.snapshot(&snapshot::rows(&config)))));
    let statistics = Arc::new(Statistics::default());
    let clients = Clients::new(config.client_timeout, config.client_limit);
    let host = Host::new(clients, config.error_rate, now());
    let forwarder = Forwarder::new(ports.clone(), host, Arc::clone(&live), Arc::clone(&statistics));
    let prober = Prober::new(sockets).map_err(text)?;
    let (plane, ended) = Plane::start(forwarder).map_err(text)?;
    info!(frontend = %config.frontend, backends = config.backends.len(), "started");
    let parts =
        Parts { file, config, compiled, prober, plane, claims, ports, live, statistics, ops };
    control(Controller::new(parts), signals, ended).await
}

/// The control loop.
async fn control(
    mut controller: Controller,
    mut signals: Signals,
    mut ended: tokio::sync::oneshot::Receiver<()>,
) -> Result<(), String> {
    loop {
        tokio::select! {
            change = controller.next_change() => controller.handle_change(&change),
            signal = signals.next() => match signal {
                Signal::Reload => controller.reload(),
                Signal::Statistics => controller.log_statistics(),
                Signal::Terminate => {
                    let result = controller.stop().map_err(text);
                    info!("ended");
                    return result;
                }
            },
            _ = &mut ended => {
                let cause = controller.stop().err().map_or_else(String::new, |error| error.to_string());
                return Err(format!("the packet thread ended: {cause}"));
            }
        }
    }
}

/// Says which devices may merge GRE packets into ones that are too large to forward.
fn warn_of_merging_devices() {
    for device in netio::offload::merging_devices().unwrap_or_default() {
        warn!(
            device,
            "generic receive offload is on: merged GRE packets are too large to forward; \
             turn it off with: ethtool -K {device} gro off"
        );
    }
}

/// The families to be probed: those of the backends, and the other one too if the host has it, so
/// that a reload can bring its first backend.
fn probed_families(config: &Config) -> Vec<Family> {
    let needed = |family| {
        config.backends.iter().any(|backend| Address::from(backend.address).family() == family)
    };
    let possible = |family| netio::icmp::EchoSocket::new(family).is_ok();
    let families = [Family::V4, Family::V6].into_iter();
    families.filter(|family| needed(*family) || possible(*family)).collect()
}

fn print<E: std::fmt::Display>(result: Result<String, E>, failure: Exit) -> Exit {
    match result {
        Ok(text) => Exit::answer(&text),
        Err(message) => fail(failure, &message),
    }
}

fn fail(exit: Exit, message: &dyn std::fmt::Display) -> Exit {
    exit.complain("gredist", message)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the main of a daemon is a shell: it reads the clock"
)]
fn now() -> Instant {
    Instant::now()
}
