//! Open connections to an echo, whose every octet is checked.

use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// One connection to [`crate::lb::servers::echo`].
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// The name that the server gave.
    pub server: String,
    round: u32,
}

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(10);

impl Connection {
    /// Opens it, in the calling thread's namespace, and reads the server's name.
    ///
    /// # Errors
    /// What the connection said.
    pub fn open(to: SocketAddr) -> Result<Self, String> {
        Self::open_from(0, to, LIMIT)
    }

    /// The same, from this port and with this much patience for the handshake.
    ///
    /// # Errors
    /// What the connection said.
    pub fn open_from(port: u16, to: SocketAddr, limit: Duration) -> Result<Self, String> {
        let text = |error: std::io::Error| format!("open: {error}");
        let mut stream = connect(port, to, limit).map_err(text)?;
        stream.set_read_timeout(Some(LIMIT)).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        let (mut server, mut octet) = (String::new(), [0]);
        loop {
            stream.read_exact(&mut octet).map_err(text)?;
            if octet == *b"\n" {
                return Ok(Self { stream, server, round: 0 });
            }
            server.push(char::from(octet[0]));
        }
    }

    /// Sends a few octets that no other round has, and expects them back.
    ///
    /// # Errors
    /// What the connection said, or that something else came back.
    pub fn round(&mut self) -> Result<(), String> {
        self.round += 1;
        let sent = format!("{:?} {:08}", self.stream.local_addr(), self.round);
        let mut answer = vec![0; sent.len()];
        let failed = |error: std::io::Error| format!("{}: round {sent}: {error}", self.server);
        let mut stream = &self.stream;
        stream.write_all(sent.as_bytes()).map_err(failed)?;
        stream.read_exact(&mut answer).map_err(failed)?;
        if answer == sent.as_bytes() { Ok(()) } else { Err(format!("{sent}: other octets")) }
    }

    /// The stream, for what this type does not offer.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

fn connect(port: u16, to: SocketAddr, limit: Duration) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    let own = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
    };
    socket.bind(&SockAddr::from(own))?;
    socket.connect_timeout(&SockAddr::from(to), limit)?;
    Ok(socket.into())
}

/// Opens so many.
///
/// # Errors
/// What the first one said that failed.
pub fn open(to: SocketAddr, count: usize) -> Result<Vec<Connection>, String> {
    (0..count).map(|_| Connection::open(to)).collect()
}

/// One round of each; what those said that failed.
#[must_use]
pub fn rounds(connections: &mut [Connection]) -> Vec<String> {
    connections.iter_mut().filter_map(|connection| connection.round().err()).collect()
}
