//! The program: arguments, configuration, build, run until a signal, drain.

use crate::args::Args;
use crate::commands;
use crate::config::{Config, DataPlane};
use crate::controller::Controller;
use crate::host::{self, Changed};
use crate::kernel::Kernel;
use crate::resources::Files;
use crate::status::Status;
use crate::sweeper::{Census, Rate, Sweeper};
use ::config::watch::{QUIET, Watch};
use clap::Parser;
use daemon::args::Common;
use daemon::exit::Exit;
use daemon::ops::Ops;
use daemon::privileges::{self, Capability};
use daemon::signals::{Signal, Signals};
use datapath::lb::layout::Settings;
use lb_api::NodeView;
use netio::links::Link;
use netio::monitor::Monitor;
use netio::netlink::Netlink;
use probe::checks::Checks;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tracing::{error, info, warn};
use xdp::{Clock, Events, Mode, Pins, Sizes};

/// From one sweep of the sessions to the next.
const SWEEP: Duration = Duration::from_secs(1);
/// How long the kernel's clock is looked at to learn its rate.
const RATE_LOOK: Duration = Duration::from_millis(300);

/// The program: arguments, configuration, build, run until a signal, drain.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => return daemon::args::refuse(&error),
    };
    run(&args).into()
}

fn run(args: &Args) -> Exit {
    if let Some(command) = &args.command {
        return commands::run(command, args.common.config.clone());
    }
    let Some(file) = args.common.config.clone() else {
        return fail(Exit::Usage, &"name the configuration with --config FILE; see --help");
    };
    if args.common.check_config {
        return check(&file);
    }
    if args.detach {
        return detach(&file);
    }
    let Common { log_format, .. } = args.common;
    if let Err(error) = daemon::logging::init(log_format, args.common.log_output("lb-node")) {
        return fail(Exit::Runtime, &error);
    }
    let config = match Config::load(&file) {
        Ok(config) => config,
        Err(diagnostics) => {
            diagnostics.iter().for_each(|diagnostic| error!("{diagnostic}"));
            return Exit::Config;
        }
    };
    match serve(config, args.fix_sysctls) {
        Ok(()) => Exit::Ok,
        Err(message) => {
            error!("{message}");
            Exit::Runtime
        }
    }
}

/// Checks the configuration and the resources that it names, and prints every error.
fn check(file: &Path) -> Exit {
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(diagnostics) => return fail(Exit::Config, &diagnostics),
    };
    let pools: Vec<_> = config.pools.iter().map(|pool| pool.addresses.clone()).collect();
    let directory = &config.resources;
    let read = Files::read(directory)
        .and_then(|files| Ok((files.resources(&NodeView { pools: &pools })?, files.len())));
    match read {
        Ok((resources, files)) => {
            let mappings = resources.placed().len();
            let (file, directory) = (file.display(), directory.display());
            Exit::answer(&format!(
                "{file}: good\n{directory}: good, {mappings} mappings in {files} files\n"
            ))
        }
        Err(error) => fail(Exit::Config, &error),
    }
}

/// Ends what an earlier process has left behind.
fn detach(file: &Path) -> Exit {
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(diagnostics) => return fail(Exit::Config, &diagnostics),
    };
    let Some(directory) = &config.pins else {
        return fail(Exit::Usage, &"the configuration has no pins: nothing outlives the process");
    };
    let removed = Pins::open(directory).and_then(|pins| {
        let interfaces = pins.interfaces()?;
        pins.remove().map(|()| interfaces)
    });
    match removed {
        Ok(interfaces) => Exit::answer(&format!("detached from {} interfaces\n", interfaces.len())),
        Err(error) => fail(Exit::Runtime, &error),
    }
}

/// Takes the signals over, so that none that comes early kills the process, and runs.
fn serve(config: Config, fix_sysctls: bool) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(text)?.block_on(async {
        let signals = Signals::new().map_err(text)?;
        for capability in [Capability::NetAdmin, Capability::NetRaw] {
            privileges::ensure(capability, "lb-node").map_err(text)?;
        }
        let mut netlink = Netlink::open().map_err(text)?;
        let pins = config.pins.as_deref().map(Pins::open).transpose().map_err(text)?;
        let links = host::interfaces(&config, &mut netlink, pins.as_ref()).map_err(text)?;
        let changed = host::settings(&config, &links, fix_sysctls).map_err(text)?;
        for Changed { path, before, after } in &changed {
            info!(sysctl = path, before, after, "sysctl set; it is put back at the end");
        }
        let result = build_and_run(config, pins, links, netlink, signals).await;
        host::restore(&changed);
        result
    })
}

/// What the control loop hears.
struct Ears {
    monitor: AsyncFd<Monitor>,
    events: AsyncFd<Events>,
    resources: AsyncFd<Watch>,
    census: watch::Receiver<Arc<Census>>,
}

/// Loads and attaches the packet core, runs until a signal ends it.
async fn build_and_run(
    config: Config,
    pins: Option<Pins>,
    links: Vec<Link>,
    netlink: Netlink,
    signals: Signals,
) -> Result<(), String> {
    let bind = |address| Ops::bind(address).map_err(|error| format!("ops={address}: {error}"));
    let ops = config.ops.map(bind).transpose()?;
    let sizes = Sizes { sessions: config.sessions, ..Sizes::default() };
    let mut kernel = Kernel::load(&sizes, pins.as_ref()).map_err(text)?;
    let adopted = kernel.is_adopted();
    set_up(&config, &mut kernel);
    let monitor = Monitor::open().map_err(text)?;
    let events = kernel.core().take_events().map_err(text)?;
    let watch = Watch::new(&config.resources)
        .map_err(|error| format!("resources={}: {error}", config.resources.display()))?;
    let clock = Clock::load().map_err(text)?;
    let census = start_sweeper(&config, &mut kernel, clock, adopted)?;
    let checks = Checks::new(sockets()?).map_err(text)?;
    let mut attached = Vec::new();
    for link in &links {
        kernel.add_interface(link).map_err(text)?;
        let mode = match config.data_plane {
            DataPlane::Native => Mode::Native,
            DataPlane::Generic => Mode::Generic,
        };
        attached.push(kernel.core().attach(&link.name, link.index, mode).map_err(text)?);
        let kept = attached.last().is_some_and(xdp::Link::was_kept);
        match mode {
            Mode::Native => info!(interface = link.name, mode = "native", kept, "attached"),
            Mode::Generic => warn!(interface = link.name, mode = "generic", kept, "attached: slow"),
        }
    }
    kernel.core().settle().map_err(text)?;
    let status = Arc::new(Status::new());
    if let Some(ops) = ops {
        let source = Arc::clone(&status);
        tokio::spawn(async move {
            let Err(error) = ops.serve(source).await;
            error!(cause = %error, "the ops listener ended");
        });
    }
    let interfaces = links.len();
    let mut controller = Controller::new(config, checks, kernel, netlink, links, status);
    controller.start();
    info!(interfaces, "started");
    let ears =
        Ears { monitor: heard(monitor)?, events: heard(events)?, resources: heard(watch)?, census };
    control(controller, signals, ears).await
}

/// Has the runtime tell when it can be read.
pub(crate) fn heard<T: AsRawFd>(source: T) -> Result<AsyncFd<T>, String> {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, against descriptors that change or close too early; each \
                  source owns one descriptor for all its life"
    )]
    AsyncFd::with_interest(source, Interest::READABLE).map_err(text)
}

/// Settings of the packet core. The index of an earlier process's sessions has its seed.
fn set_up(config: &Config, kernel: &mut Kernel) {
    let shared = &kernel.core().shared;
    let old = shared.settings.load(0).filter(|settings| settings.generation != 0);
    let seed = old.map(|old| old.seed);
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    // Another than before, so that every way is looked up anew; 0 is that of no process.
    let generation = old.map_or(1, |old| old.generation.checked_add(1).unwrap_or(1));
    let settings = Settings {
        seed,
        generation,
        half_open_limit: config.half_open_sessions,
        capture_until: 0,
        capture_every: 0,
    };
    shared.settings.store(0, settings);
}

/// The control loop.
async fn control(
    mut controller: Controller,
    mut signals: Signals,
    mut ears: Ears,
) -> Result<(), String> {
    loop {
        tokio::select! {
            change = controller.next_change() => controller.handle_change(&change),
            signal = signals.next() => match signal {
                Signal::Reload => controller.reload(),
                Signal::Statistics => controller.log_statistics(),
                Signal::Terminate => {
                    controller.log_statistics();
                    info!("ended");
                    return Ok(());
                }
            },
            ready = ears.monitor.readable_mut() => {
                let mut ready = ready.map_err(text)?;
                let changed = ready.get_inner_mut().changed().map_err(text)?;
                ready.clear_ready();
                if changed {
                    controller.routes_changed();
                }
            }
            ready = ears.events.readable_mut() => {
                let mut ready = ready.map_err(text)?;
                while let Some(destination) = ready.get_inner_mut().next_wanted() {
                    controller.want_neighbour(destination);
                }
                ready.clear_ready();
            }
            ready = ears.resources.readable() => {
                let mut ready = ready.map_err(text)?;
                while ready.get_inner().drain() {
                    tokio::time::sleep(QUIET).await;
                }
                ready.clear_ready();
                controller.reload();
            }
            changed = ears.census.changed() => {
                changed.map_err(|_| "the sweeper ended".to_owned())?;
                let census = Arc::clone(&ears.census.borrow_and_update());
                controller.swept(census);
            }
        }
    }
}

/// Starts the thread that ends old sessions.
fn start_sweeper(
    config: &Config,
    kernel: &mut Kernel,
    clock: Clock,
    adopted: bool,
) -> Result<watch::Receiver<Arc<Census>>, String> {
    let (before, start) = (clock.jiffies().map_err(text)?, now());
    let (sender, receiver) = watch::channel(Arc::default());
    let (shared, timeouts) = (Arc::clone(&kernel.core().shared), config.timeouts);
    let sweep = move || {
        std::thread::park_timeout(RATE_LOOK);
        let Ok(after) = clock.jiffies() else { return };
        let rate = Rate::of(after.wrapping_sub(before), start.elapsed());
        let mut sweeper = Sweeper::new(shared, &timeouts, rate);
        sweeper.resume(now());
        loop {
            let Ok(jiffies) = clock.jiffies() else { return };
            if sender.send(Arc::new(sweeper.sweep(jiffies, now()))).is_err() {
                return;
            }
            std::thread::park_timeout(SWEEP);
        }
    };
    if !adopted {
        let shared = Arc::clone(&kernel.core().shared);
        Sweeper::new(shared, &config.timeouts, Rate { hertz: 1000 }).fill();
    }
    std::thread::Builder::new().name("sweeper".into()).spawn(sweep).map_err(text)?;
    Ok(receiver)
}

/// Sockets for echo checks, in the families that the host has.
fn sockets() -> Result<probe::Sockets, String> {
    use wire::Family;
    let possible = |family: &Family| netio::icmp::EchoSocket::new(*family).is_ok();
    let families: Vec<_> = [Family::V4, Family::V6].into_iter().filter(possible).collect();
    probe::Sockets::open(&families).map_err(text)
}

fn fail(exit: Exit, message: &dyn std::fmt::Display) -> Exit {
    exit.complain("lb-node", message)
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
