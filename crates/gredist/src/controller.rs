//! The control side: one loop over health changes, signals and the packet thread's end.
//!
//! ```text
//! Prober -> Controller::handle_change -> rows -> Snapshot -> one swap -> packet thread
//! SIGHUP -> Controller::reload        -> all of it anew, or nothing
//! ```

use crate::claim::{self, Claim};
use crate::config::Config;
use crate::locality;
use crate::plane::{Limits, Plane};
use crate::ports::{self, Ports};
use crate::snapshot::{Compiled, Snapshot, candidates, rows};
use crate::statistics::Statistics;
use crate::status::Status;
use balance::rendezvous::Rows;
use config::diagnostics::Diagnostics;
use config::live::Live;
use daemon::ops::Ops;
use health::State;
use probe::{Change, Check, Prober};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tracing::{error, info, warn};

/// What the control loop owns.
pub struct Controller {
    file: PathBuf,
    config: Config,
    compiled: Compiled,
    rows: Rows,
    prober: Prober,
    plane: Plane,
    /// The addresses that are this process's alone.
    claims: Vec<Claim>,
    /// The packet thread's sockets, so that a reload can keep them.
    ports: Ports,
    live: Arc<Live<Snapshot>>,
    status: Arc<Status>,
    ops: Option<tokio::task::JoinHandle<()>>,
}

/// What is made before privileges are dropped and handed to [`Controller::new`].
pub struct Parts {
    /// Where the configuration came from, for reloads.
    pub file: PathBuf,
    /// The configuration that runs.
    pub config: Config,
    /// Its compiled form.
    pub compiled: Compiled,
    /// Checks the backends.
    pub prober: Prober,
    /// Forwards the packets.
    pub plane: Plane,
    /// The addresses that are this process's alone.
    pub claims: Vec<Claim>,
    /// The sockets that it has.
    pub ports: Ports,
    /// Where snapshots are published.
    pub live: Arc<Live<Snapshot>>,
    /// Counters of the packet thread.
    pub statistics: Arc<Statistics>,
    /// The ops listener, if the configuration has one.
    pub ops: Option<Ops>,
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum Refused {
    #[error("the file has errors")]
    Config(Diagnostics),
    #[error("{0}")]
    Claim(#[from] claim::Error),
    #[error("{0}")]
    Ports(#[from] ports::Error),
    #[error("{0}")]
    Locality(#[from] locality::Error),
    #[error("ops={0}: {1}")]
    Ops(std::net::SocketAddr, std::io::Error),
}

impl Controller {
    /// Starts checking backends; none takes traffic yet.
    pub fn new(parts: Parts) -> Self {
        let Parts { file, config, compiled, mut prober, plane, claims, ports, .. } = parts;
        let (live, statistics, ops) = (parts.live, parts.statistics, parts.ops);
        prober.replace(&checks(&config), now());
        let status = Arc::new(Status::new(statistics));
        let controller = Self {
            rows: rows(&config),
            ops: ops.map(|ops| serve(ops, &status)),
            file,
            config,
            compiled,
            prober,
            plane,
            claims,
            ports,
            live,
            status,
        };
        controller.publish();
        controller
    }

    /// The next change of a backend's state. Cancel-safe.
    pub async fn next_change(&mut self) -> Change {
        self.prober.next().await
    }

    /// Lets a backend take part or takes it away, and logs the transition once.
    pub fn handle_change(&mut self, change: &Change) {
        let Change { backend, transition } = change;
        let place = self.config.backends.iter().position(|known| known.address == *backend);
        let Some(index) = place.and_then(|place| u16::try_from(place).ok()) else { return };
        match transition.to {
            State::Up => self.rows.add(index),
            State::Down | State::Unproven => self.rows.remove(index),
        }
        self.publish();
        let up = self.live.load().up.len();
        let cause = transition.cause.as_ref().map(ToString::to_string);
        match transition.to {
            State::Up => info!(%backend, state = %transition.to, healthy = up, "backend came up"),
            State::Down | State::Unproven => warn!(
                %backend, state = %transition.to, cause, healthy = up, "backend went down"
            ),
        }
        if up == 0 {
            error!("no backend is healthy: every packet is dropped until one comes up");
        }
    }

    /// Reads the file again. All of it takes effect, or nothing does and the log says why.
    pub fn reload(&mut self) {
        let file = self.file.clone();
        match self.try_reload() {
            Ok(()) => {
                let backends = self.config.backends.len();
                info!(file = %file.display(), backends, "configuration reloaded");
            }
            Err(refused) => {
                if let Refused::Config(diagnostics) = &refused {
                    diagnostics.iter().for_each(|diagnostic| error!("{diagnostic}"));
                }
                error!(
                    file = %file.display(), cause = refused.to_string(),
                    "reload refused: the running configuration stays"
                );
            }
        }
    }

    fn try_reload(&mut self) -> Result<(), Refused> {
        let config = Config::load(&self.file).map_err(Refused::Config)?;
        locality::check(&config)?;
        let ops = match config.ops.filter(|_| config.ops != self.config.ops) {
            Some(address) => {
                let bound = Ops::bind(address).map_err(|error| Refused::Ops(address, error))?;
                Some(bound)
            }
            None => None,
        };
        let claims = claim::take_all(&config, &self.claims)?;
        // Sockets that stay are changed in place, so this comes last of what can fail.
        let ports = Ports::open(&config, Some(&self.ports))?;
        if config.ops != self.config.ops {
            if let Some(old) = self.ops.take() {
                old.abort();
            }
            self.ops = ops.map(|ops| serve(ops, &self.status));
        }
        warn_of_local_backends(&config);
        self.compiled = Compiled::new(&config, Some(&self.compiled));
        self.rows = self.rows.clone().with_candidates(&candidates(&config));
        self.config = config;
        self.prober.replace(&checks(&self.config), now());
        for (index, backend) in (0..).zip(&self.config.backends) {
            let machine = self.prober.machine(backend.address);
            if machine.is_some_and(|machine| machine.state() == State::Up) {
                self.rows.add(index);
            }
        }
        self.publish();
        warn_of_short_queues(&ports);
        (self.claims, self.ports) = (claims, ports.clone());
        self.plane.reconfigure(ports, limits(&self.config, &self.compiled));
        Ok(())
    }

    /// Publishes what the rows say now.
    fn publish(&self) {
        let snapshot = Arc::new(self.compiled.snapshot(&self.rows));
        self.live.publish(Arc::clone(&snapshot));
        let states = self.config.backends.iter().map(|backend| {
            let machine = self.prober.machine(backend.address);
            let cause = machine.and_then(|machine| machine.last_cause());
            crate::status::BackendState {
                state: machine.map_or(State::Unproven, |machine| machine.state()),
                weight: backend.weight.get(),
                cause: cause.map(ToString::to_string),
            }
        });
        self.status.publish(snapshot, states.collect(), &self.rows);
    }

    /// Writes the statistics to the log.
    pub fn log_statistics(&self) {
        self.status.log();
    }

    /// Ends the packet thread after what waits in its sockets, and logs the statistics.
    ///
    /// # Errors
    /// What ended it before, if anything did.
    pub fn stop(self) -> std::io::Result<()> {
        let result = self.plane.stop();
        self.status.log();
        result
    }
}

/// The limits of a configuration.
fn limits(config: &Config, compiled: &Compiled) -> Limits {
    Limits {
        client_timeout: config.client_timeout,
        client_limit: config.client_limit,
        pool: compiled.pool(),
        error_rate: config.error_rate,
    }
}

fn checks(config: &Config) -> Vec<Check> {
    let policy = config.policy;
    config.backends.iter().map(|backend| Check { backend: backend.address, policy }).collect()
}

/// Says which queues the kernel made smaller than asked for, and how to allow them.
pub fn warn_of_short_queues(ports: &Ports) {
    for short in &ports.short_queues {
        let (wanted, granted) = (short.size.wanted, short.size.granted);
        warn!(
            wanted,
            granted,
            "a socket queue is smaller than configured; allow it with: sysctl -w {}={wanted}",
            short.sysctl
        );
    }
}

/// Says which backends are this host itself.
pub fn warn_of_local_backends(config: &Config) {
    for backend in locality::local_backends(config) {
        warn!(%backend, "the backend is an address of this host: its packets go to the local stack");
    }
}

fn serve(ops: Ops, status: &Arc<Status>) -> tokio::task::JoinHandle<()> {
    let status: Arc<Status> = Arc::clone(status);
    tokio::spawn(async move {
        let Err(error) = ops.serve(status).await;
        error!(cause = %error, "the ops listener ended");
    })
}

#[expect(clippy::disallowed_methods, reason = "the control loop is a shell: it reads the clock")]
fn now() -> Instant {
    Instant::now()
}
