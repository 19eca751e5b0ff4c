//! Long-lived TCP connections, and backends that answer on them and say who they are.

use super::l4::ROUND;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use testkit::lab::Host;

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(3);

/// A host that answers every octet with its number. It ends with the process.
pub(super) struct Backend {
    _host: Host,
}

impl Backend {
    pub(super) fn start(host: Host, number: usize, port: u16) -> io::Result<Self> {
        let listener = host.run(|| TcpListener::bind(("0.0.0.0", port)))?;
        let name = u8::try_from(number).unwrap_or(u8::MAX);
        thread::Builder::new().name(format!("backend{number}")).spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || answer(stream, name));
            }
        })?;
        Ok(Self { _host: host })
    }
}

fn answer(mut stream: TcpStream, name: u8) {
    let _unsupported = stream.set_nodelay(true);
    let mut octet = [0];
    while stream.read_exact(&mut octet).is_ok() && stream.write_all(&[name]).is_ok() {}
}

/// Connections, each to the backend that answered first on it.
pub(super) struct Connections(Vec<Connection>);

struct Connection {
    stream: TcpStream,
    backend: u8,
    broken: bool,
    waiting: bool,
}

impl Connections {
    /// Opens so many connections, and asks on each who answers.
    pub(super) fn open(address: SocketAddr, count: usize) -> io::Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..count {
            let mut stream = TcpStream::connect_timeout(&address, CONNECT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(CONNECT))?;
            let mut octet = [0];
            stream.write_all(&octet)?;
            stream.read_exact(&mut octet)?;
            stream.set_nonblocking(true)?;
            let [backend] = octet;
            connections.push(Connection { stream, backend, broken: false, waiting: false });
        }
        Ok(Self(connections))
    }

    /// How many connections each backend has.
    pub(super) fn per_backend(&self, backends: usize) -> Vec<usize> {
        let of = |backend| {
            self.0.iter().filter(|connection| usize::from(connection.backend) == backend).count()
        };
        (0..backends).map(of).collect()
    }

    /// How many have broken so far: reset, closed, silent, or answered by another backend.
    pub(super) fn broken(&self) -> usize {
        self.0.iter().filter(|connection| connection.broken).count()
    }

    /// How many of this backend's connections have broken so far.
    pub(super) fn broken_of(&self, backend: usize) -> usize {
        let of = |connection: &&Connection| usize::from(connection.backend) == backend;
        self.0.iter().filter(of).filter(|connection| connection.broken).count()
    }

    /// Asks once on every connection that is not broken. Those that do not answer in time are.
    pub(super) fn exchange(&mut self) {
        for connection in self.0.iter_mut().filter(|connection| !connection.broken) {
            connection.ask();
        }
        let end = now() + ROUND;
        while self.0.iter().any(|connection| connection.waiting) && now() < end {
            for connection in self.0.iter_mut().filter(|connection| connection.waiting) {
                connection.hear();
            }
            thread::park_timeout(Duration::from_millis(1));
        }
        for connection in &mut self.0 {
            connection.broken |= std::mem::take(&mut connection.waiting);
        }
    }

    /// Asks again and again while `change` happens, and once more after it.
    pub(super) fn exchange_until<E: Send>(
        &mut self,
        change: impl FnOnce() -> Result<(), E> + Send,
    ) -> Result<(), E> {
        let changed = thread::scope(|scope| {
            let change = scope.spawn(change);
            while !change.is_finished() {
                self.exchange();
            }
            change.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        self.exchange();
        changed
    }
}

impl Connection {
    fn ask(&mut self) {
        self.waiting = self.stream.write_all(&[0]).is_ok();
        self.broken = !self.waiting;
    }

    fn hear(&mut self) {
        let mut octet = [0];
        match self.stream.read(&mut octet) {
            Ok(1) => {
                let [backend] = octet;
                self.broken = backend != self.backend;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            _ => self.broken = true,
        }
        self.waiting = false;
    }
}

#[expect(clippy::disallowed_methods, reason = "the demonstration is a shell: it reads the clock")]
fn now() -> Instant {
    Instant::now()
}
