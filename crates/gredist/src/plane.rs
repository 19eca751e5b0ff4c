//! The packet thread: waits for packets and commands, and turns.

use crate::forwarder::Forwarder;
use crate::ports::Ports;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wire::Address;

/// How long the thread sleeps without packets before it looks after its records.
const IDLE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What the control side wants of the packet thread. Of each kind only the newest counts, so that
/// none waits for room and none is lost.
#[derive(Debug, Default)]
struct Orders {
    ports: Option<Ports>,
    limits: Option<Limits>,
    stop: bool,
}

/// Limits that a reload can change.
#[derive(Debug)]
pub struct Limits {
    /// Silence after which a client is forgotten.
    pub client_timeout: Duration,
    /// Clients recorded at once.
    pub client_limit: usize,
    /// The pool's addresses.
    pub pool: Arc<[Address]>,
    /// Our own ICMP messages a second, of each kind.
    pub error_rate: u32,
}

/// The running packet thread.
#[derive(Debug)]
pub struct Plane {
    orders: Arc<Mutex<Orders>>,
    wake: Arc<OwnedFd>,
    thread: JoinHandle<io::Result<()>>,
}

impl Plane {
    /// Starts the thread. The second value resolves when the thread ends, for whatever reason.
    ///
    /// # Errors
    /// If the thread or its event counter cannot be made.
    pub fn start(forwarder: Forwarder) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let orders = Arc::<Mutex<Orders>>::default();
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (inbox, woken) = (Arc::clone(&orders), Arc::clone(&wake));
        let (alive, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("packets".into()).spawn(move || {
            let _alive: oneshot::Sender<()> = alive;
            run(forwarder, &inbox, &woken)
        })?;
        Ok((Self { orders, wake, thread }, ended))
    }

    /// Uses these sockets and limits from the next packets on.
    pub fn reconfigure(&self, ports: Ports, limits: Limits) {
        self.order(|orders| {
            orders.ports = Some(ports);
            orders.limits = Some(limits);
        });
    }

    /// Ends the thread after what waits in its sockets.
    ///
    /// # Errors
    /// What ended the thread before, if anything did.
    pub fn stop(self) -> io::Result<()> {
        self.order(|orders| orders.stop = true);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the packet thread panicked")))
    }

    fn order(&self, order: impl FnOnce(&mut Orders)) {
        order(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner));
        // The counter cannot overflow: the thread empties it, or is about to.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

fn run(mut forwarder: Forwarder, inbox: &Mutex<Orders>, wake: &OwnedFd) -> io::Result<()> {
    loop {
        let (ready, woken) = wait(&forwarder, wake)?;
        for receiver in ready {
            forwarder.turn(receiver, now())?;
        }
        if !woken {
            continue;
        }
        let orders = std::mem::take(&mut *inbox.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(ports) = orders.ports {
            forwarder.replace_ports(ports, now())?;
        }
        if let Some(Limits { client_timeout, client_limit, pool, error_rate }) = orders.limits {
            forwarder.host.clients.reconfigure(client_timeout, client_limit, &pool);
            forwarder.host.set_error_rate(error_rate);
        }
        if orders.stop {
            let receivers = forwarder.ports.receivers.len();
            return (0..receivers).try_for_each(|number| forwarder.drain(number, now()));
        }
    }
}

/// Waits for packets or orders: the numbers of the receivers that have packets, and whether there
/// are orders.
fn wait(forwarder: &Forwarder, wake: &OwnedFd) -> io::Result<(Vec<usize>, bool)> {
    let receivers = &forwarder.ports.receivers;
    let mut watched: Vec<PollFd<'_>> = Vec::with_capacity(receivers.len() + 1);
    let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    watched.extend(receivers.iter().map(|receiver| readable(receiver.socket.as_fd())));
    watched.push(readable(wake.as_fd()));
    match poll(&mut watched, Some(&IDLE)) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok((Vec::new(), false)),
        Err(error) => return Err(error.into()),
    }
    let woken = watched.pop().is_some_and(|wake| !wake.revents().is_empty());
    if woken {
        // Empties the counter before the orders are taken: a later one counts anew.
        let _ = rustix::io::read(wake, &mut [0; 8]);
    }
    let ready = watched.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
    Ok((ready.map(|(number, _)| number).collect(), woken))
}

#[expect(clippy::disallowed_methods, reason = "the packet thread is a shell: it reads the clock")]
fn now() -> Instant {
    Instant::now()
}
