//! One probe over TCP: connect, ask, tell the result, close.
//!
//! Every socket is closed with a reset (`SO_LINGER` 0), save where the backend has closed its side
//! first, as it does after an HTTP response. Whoever closes first in the orderly way keeps the port
//! in TIME_WAIT for a minute: at 13,000 probes a second that is 780,000 sockets.

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;

use health::Cause;
use rustix::io::Errno;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;

use super::check::Http;
use super::head::Head;
use super::schedule::{FlightId, Outcome, Report};
use super::tls;

/// How much of a response's body is read so that the backend can finish it. A longer one is reset.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// Where a probe tells how it goes.
#[derive(Debug)]
pub(super) struct Log {
    flight: FlightId,
    reports: mpsc::Sender<(FlightId, Report)>,
}

impl Log {
    pub(super) fn new(flight: FlightId, reports: mpsc::Sender<(FlightId, Report)>) -> Self {
        Self { flight, reports }
    }

    /// Waits for room. Nobody reads it any more once the driver is gone, and this task with it.
    async fn tell(&self, report: Report) {
        let _ = self.reports.send((self.flight, report)).await;
    }
}

/// A handshake, at once reset.
pub(super) async fn tcp(to: SocketAddr, log: Log) {
    if let Some(stream) = connect(to, &log).await {
        drop(stream);
        log.tell(Report::Settled(Outcome::Success)).await;
    }
    log.tell(Report::Closed).await;
}

/// A request in clear.
pub(super) async fn http(to: SocketAddr, http: Http, log: Log) {
    if let Some(mut stream) = connect(to, &log).await {
        if exchange(&mut stream, &http, to, &log).await == Closed::ByBackend {
            close_in_order(&stream);
        }
        drop(stream);
    }
    log.tell(Report::Closed).await;
}

/// A request over TLS.
pub(super) async fn https(to: SocketAddr, http: Http, client: tls::Client, log: Log) {
    if let Some(stream) = connect(to, &log).await {
        match client.connect(http.server_name(to), stream).await {
            Ok(mut stream) => {
                if exchange(&mut stream, &http, to, &log).await == Closed::ByBackend {
                    close_in_order(stream.get_ref().0);
                }
            }
            Err(error) => log.tell(Report::Settled(Outcome::Failure(refusal(&error)))).await,
        }
    }
    log.tell(Report::Closed).await;
}

/// What an attempt that reached no backend says about it.
pub(super) fn outcome_of(error: &io::Error) -> Outcome {
    match Errno::from_io_error(error) {
        // Ours alone: the backend was never asked.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN) => {
            Outcome::Void
        }
        Some(Errno::CONNREFUSED | Errno::CONNRESET) => Outcome::Failure(refusal(error)),
        // No route, unreachable, forbidden by this host's firewall: nobody answered.
        Some(_) | None => Outcome::Failure(Cause::Error(text(error))),
    }
}

/// Connects, or tells why not.
async fn connect(to: SocketAddr, log: &Log) -> Option<TcpStream> {
    match try_connect(to).await {
        Ok(stream) => {
            log.tell(Report::Connected).await;
            Some(stream)
        }
        Err(error) => {
            log.tell(Report::Settled(outcome_of(&error))).await;
            None
        }
    }
}

async fn try_connect(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_zero_linger()?;
    // The last message of a TLS handshake and the request follow each other at once.
    socket.set_nodelay(true)?;
    socket.connect(to).await
}

/// The orderly end, once the backend's FIN is here: no TIME_WAIT on this side.
fn close_in_order(stream: &TcpStream) {
    // Should it fail, the backend gets a reset for a connection that it has closed.
    let _ = SockRef::from(stream).set_linger(None);
}

/// Who closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    ByBackend,
    ByUs,
}

/// Asks, tells the result as soon as it is known, and lets the backend finish its response.
async fn exchange<S>(stream: &mut S, http: &Http, to: SocketAddr, log: &Log) -> Closed
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let status = ask(stream, &http.request(to)).await;
    let wanted = http.status();
    let outcome = match &status {
        Ok(status) if *status == wanted => Outcome::Success,
        Ok(status) => {
            Outcome::Failure(Cause::Answer(format!("status {status}, expected {wanted}")))
        }
        Err(cause) => Outcome::Failure(cause.clone()),
    };
    log.tell(Report::Settled(outcome)).await;
    if status.is_ok() { read_to_end(stream).await } else { Closed::ByUs }
}

/// The status of the response.
async fn ask<S>(stream: &mut S, request: &[u8]) -> Result<u16, Cause>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let sent = async {
        stream.write_all(request).await?;
        stream.flush().await
    };
    sent.await.map_err(|error| refusal(&error))?;
    let mut head = Head::default();
    let mut buffer = [0; READ_BYTES];
    loop {
        let len = match stream.read(&mut buffer).await {
            Ok(len) => len,
            // TLS without a closing alert.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(refusal(&error)),
        };
        if len == 0 {
            let text = if head.is_empty() {
                "connection closed without a response"
            } else {
                "connection closed within the response head"
            };
            return Err(Cause::Answer(text.to_owned()));
        }
        match head.handle(buffer.get(..len).unwrap_or_default()) {
            Ok(ControlFlow::Break(status)) => return Ok(status),
            Ok(ControlFlow::Continue(())) => {}
            Err(malformed) => return Err(Cause::Answer(malformed.to_string())),
        }
    }
}

/// Reads what is left, up to [`MAX_BODY_BYTES`]; the flight's deadline ends it too, and a probe
/// that needs the socket.
async fn read_to_end<S: AsyncRead + Unpin>(stream: &mut S) -> Closed {
    let mut buffer = [0; READ_BYTES];
    let mut left = MAX_BODY_BYTES;
    while left > 0 {
        match stream.read(&mut buffer).await {
            Ok(0) => return Closed::ByBackend,
            Ok(len) => left = left.saturating_sub(len),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Closed::ByBackend;
            }
            Err(_) => return Closed::ByUs,
        }
    }
    Closed::ByUs
}

/// An error of a connection that stood, or of one that was refused: the backend did answer.
fn refusal(error: &io::Error) -> Cause {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    Cause::Answer(tls.map_or_else(|| text(error), |tls| format!("TLS: {tls}")))
}

fn text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "connection reset".to_owned(),
        io::ErrorKind::UnexpectedEof => "connection closed within the TLS handshake".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        _ => error.to_string(),
    }
}

/// Read at once; most responses to a health check fit.
const READ_BYTES: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_attempt_is_an_answer_silence_or_our_own_fault() {
        let answer = |text: &str| Outcome::Failure(Cause::Answer(text.to_owned()));
        let silence = |text: &str| Outcome::Failure(Cause::Error(text.to_owned()));
        for (errno, outcome) in [
            (Errno::CONNREFUSED, answer("connection refused")),
            (Errno::CONNRESET, answer("connection reset")),
            (Errno::HOSTUNREACH, silence("no route to host")),
            (Errno::NETUNREACH, silence("network is unreachable")),
            (Errno::TIMEDOUT, silence("Connection timed out (os error 110)")),
            (Errno::PERM, silence("Operation not permitted (os error 1)")),
            (Errno::MFILE, Outcome::Void),
            (Errno::NFILE, Outcome::Void),
            (Errno::NOBUFS, Outcome::Void),
            (Errno::NOMEM, Outcome::Void),
            (Errno::AGAIN, Outcome::Void),
        ] {
            assert_eq!(outcome_of(&errno.into()), outcome, "{errno:?}");
        }
    }
}
