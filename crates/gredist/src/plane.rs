//! The packet thread: waits for packets and commands, and turns.

use crate::forwarder::Forwarder;
use crate::ports::Ports;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wire::Address;

/// How long the thread sleeps without packets before it looks after its records.
const IDLE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Commands that may wait: more than one reload can bring.
const COMMANDS: usize = 8;

/// What the control side tells the packet thread.
#[derive(Debug)]
pub enum Command {
    /// Use these sockets from now on. What waits in the old ones is handled first.
    Replace(Ports),
    /// Limits of the client record, the pool that holds now, and the rate of our own messages.
    Limits {
        /// Silence after which a client is forgotten.
        client_timeout: Duration,
        /// Clients recorded at once.
        client_limit: usize,
        /// The pool's addresses.
        pool: Arc<[Address]>,
        /// Our own ICMP messages a second, of each kind.
        error_rate: u32,
    },
    /// Handle what waits in the sockets, and end.
    Stop,
}

/// The running packet thread.
#[derive(Debug)]
pub struct Plane {
    commands: SyncSender<Command>,
    wake: Arc<OwnedFd>,
    thread: JoinHandle<io::Result<()>>,
}

impl Plane {
    /// Starts the thread. The second value resolves when the thread ends, for whatever reason.
    ///
    /// # Errors
    /// If the thread or its event counter cannot be made.
    pub fn start(forwarder: Forwarder) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let (commands, inbox) = sync_channel(COMMANDS);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let woken = Arc::clone(&wake);
        let (alive, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("packets".into()).spawn(move || {
            let _alive: oneshot::Sender<()> = alive;
            run(forwarder, &inbox, &woken)
        })?;
        Ok((Self { commands, wake, thread }, ended))
    }

    /// Hands a command over.
    ///
    /// # Errors
    /// If the thread has ended or does not take commands any more.
    pub fn command(&self, command: Command) -> io::Result<()> {
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => io::Error::other("the packet thread is stuck"),
            TrySendError::Disconnected(_) => io::Error::other("the packet thread has ended"),
        })?;
        rustix::io::write(&*self.wake, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// Ends the thread after what waits in its sockets.
    ///
    /// # Errors
    /// What ended the thread before, if anything did.
    pub fn stop(self) -> io::Result<()> {
        // If it has ended already, its result says why.
        let _ = self.command(Command::Stop);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the packet thread panicked")))
    }
}

fn run(mut forwarder: Forwarder, inbox: &Receiver<Command>, wake: &OwnedFd) -> io::Result<()> {
    loop {
        for receiver in wait(&forwarder, wake)? {
            forwarder.turn(receiver, now())?;
        }
        while let Ok(command) = inbox.try_recv() {
            match command {
                Command::Replace(ports) => {
                    drain(&mut forwarder)?;
                    forwarder.ports = ports;
                }
                Command::Limits { client_timeout, client_limit, pool, error_rate } => {
                    forwarder.host.clients.reconfigure(client_timeout, client_limit, &pool);
                    forwarder.host.set_error_rate(error_rate);
                }
                Command::Stop => return drain(&mut forwarder),
            }
        }
    }
}

/// Waits for packets or a command; the numbers of the receivers that have packets.
fn wait(forwarder: &Forwarder, wake: &OwnedFd) -> io::Result<Vec<usize>> {
    let receivers = &forwarder.ports.receivers;
    let mut watched: Vec<PollFd<'_>> = Vec::with_capacity(receivers.len() + 1);
    watched.extend(
        receivers.iter().map(|r| PollFd::from_borrowed_fd(r.socket.as_fd(), PollFlags::IN)),
    );
    watched.push(PollFd::new(wake, PollFlags::IN));
    match poll(&mut watched, Some(&IDLE)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    if watched.pop().is_some_and(|wake| !wake.revents().is_empty()) {
        // Empties the counter; whatever was meant lies in the inbox.
        let _ = rustix::io::read(wake, &mut [0; 8]);
    }
    let ready = watched.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
    Ok(ready.map(|(number, _)| number).collect())
}

/// Handles what waits in the sockets, a queue's worth at most.
fn drain(forwarder: &mut Forwarder) -> io::Result<()> {
    const MAX_TURNS: usize = 4_096;
    for receiver in 0..forwarder.ports.receivers.len() {
        for _ in 0..MAX_TURNS {
            if forwarder.turn(receiver, now())? == 0 {
                break;
            }
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the packet thread is a shell: it reads the clock")]
fn now() -> Instant {
    Instant::now()
}
