//! The signals that all daemons obey, as a stream for the control loop's `select!`.

use std::io;

use tokio::select;
use tokio::signal::unix::{self, SignalKind};

/// What the operator asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGHUP`: read the configuration again.
    Reload,
    /// `SIGUSR1`: log statistics.
    Statistics,
    /// `SIGTERM` or `SIGINT`: drain and exit.
    Terminate,
}

/// Catches the signals from its construction on.
#[derive(Debug)]
pub struct Signals {
    hangup: unix::Signal,
    user1: unix::Signal,
    terminate: unix::Signal,
    interrupt: unix::Signal,
}

impl Signals {
    /// Takes over the signals, to be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the kernel refuses a handler.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: unix::signal(SignalKind::hangup())?,
            user1: unix::signal(SignalKind::user_defined1())?,
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal; termination goes before all others. Several of one kind that
    /// arrive before the call count once.
    ///
    /// Cancel-safe: dropping the future loses no signal.
    pub async fn next(&mut self) -> Signal {
        select! {
            biased;
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Terminate,
            _ = self.hangup.recv() => Signal::Reload,
            _ = self.user1.recv() => Signal::Statistics,
        }
    }
}
