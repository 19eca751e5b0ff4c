//! The raw ICMP sockets that all echo requests share, and the nonces that prove a reply.

use std::collections::hash_map::RandomState;
use std::future::pending;
use std::hash::BuildHasher;
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use netio::icmp::{EchoReply, EchoSocket, REPLY_BUFFER};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::select;
use wire::Family;

use crate::Error;
use crate::mtu::MtuProbes;

/// Proof that the sender of a reply has seen the request.
pub(crate) type Nonce = [u8; 8];

/// One open echo socket per family, shared by all backends.
///
/// Opening takes `CAP_NET_RAW` and no runtime, so it can happen before privileges are dropped and
/// before the first thread starts.
#[derive(Debug)]
pub struct Sockets {
    v4: Option<EchoSocket>,
    v6: Option<EchoSocket>,
    pub(crate) mtu: MtuProbes,
}

impl Sockets {
    /// Opens a socket for each of `families`. Backends of another family fail every echo probe.
    ///
    /// # Errors
    /// Names the family that could not be opened.
    pub fn open(families: &[Family]) -> Result<Self, Error> {
        let open = |family| {
            let wanted = families.contains(&family);
            let socket = wanted.then(|| EchoSocket::new(family)).transpose();
            socket.map_err(|source| Error::Socket { family, source })
        };
        Ok(Self { v4: open(Family::V4)?, v6: open(Family::V6)?, mtu: MtuProbes::open(families) })
    }

    /// Hands the sockets to the runtime, and what else was opened back.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub(crate) fn watch(self) -> Result<(Watched, MtuProbes), Error> {
        let Self { v4, v6, mtu } = self;
        let (v4, v6) = (v4.map(watch).transpose()?, v6.map(watch).transpose()?);
        Ok((Watched { v4, v6 }, mtu))
    }
}

/// The sockets inside a runtime.
#[derive(Debug)]
pub(crate) struct Watched {
    v4: Option<AsyncFd<EchoSocket>>,
    v6: Option<AsyncFd<EchoSocket>>,
}

impl Watched {
    /// Waits until replies are there and takes a batch of them. Waits forever without sockets.
    ///
    /// Cancel-safe: dropping the future loses no reply.
    pub(crate) async fn replies(&self, handle: impl FnMut(&EchoReply<'_>)) {
        // An error of `try_io` means "empty now", and has cleared the readiness.
        select! {
            Ok(mut ready) = readable(self.v4.as_ref()) => {
                let _ = ready.try_io(|socket| read_replies(socket.get_ref(), handle));
            }
            Ok(mut ready) = readable(self.v6.as_ref()) => {
                let _ = ready.try_io(|socket| read_replies(socket.get_ref(), handle));
            }
            // The runtime is shutting down.
            else => pending().await,
        }
    }

    /// Takes the replies that are there already.
    pub(crate) fn replies_now(&self, mut handle: impl FnMut(&EchoReply<'_>)) {
        for socket in [&self.v4, &self.v6].into_iter().flatten() {
            // An error means "empty now".
            let _ = read_replies(socket.get_ref(), &mut handle);
        }
    }

    /// Sends one echo request.
    pub(crate) fn send(&self, to: IpAddr, id: u16, seq: u16, nonce: Nonce) -> io::Result<()> {
        let (socket, missing) = match to {
            IpAddr::V4(_) => (&self.v4, "no ICMP socket is open"),
            IpAddr::V6(_) => (&self.v6, "no ICMPv6 socket is open"),
        };
        let socket = socket.as_ref().ok_or_else(|| io::Error::other(missing))?;
        socket.get_ref().send_echo(to, id, seq, &nonce)
    }
}

/// The identifier of all requests, and their nonces.
///
/// SipHash under keys that the standard library draws from the kernel: nobody without the keys can
/// guess the values, and drawing one cannot fail halfway through a probe.
pub(crate) fn secrets() -> (u16, impl FnMut() -> Nonce + Send + 'static) {
    let keys = RandomState::new();
    let [high, low, ..] = keys.hash_one("identifier").to_be_bytes();
    let mut drawn = 0_u64;
    let nonces = move || {
        drawn += 1;
        keys.hash_one(drawn).to_be_bytes()
    };
    (u16::from_be_bytes([high, low]), nonces)
}

/// Waits for `due`, or forever.
pub(crate) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => pending().await,
    }
}

/// The runtime's clock.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn watch(socket: EchoSocket) -> Result<AsyncFd<EchoSocket>, Error> {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, against descriptors that change or close too early; an \
                  EchoSocket owns one descriptor for all its life"
    )]
    AsyncFd::with_interest(socket, Interest::READABLE).map_err(Error::Watch)
}

/// Takes a batch of replies off the socket; `WouldBlock` once it is empty.
fn read_replies(socket: &EchoSocket, mut handle: impl FnMut(&EchoReply<'_>)) -> io::Result<()> {
    let mut buf = [0; REPLY_BUFFER];
    for _ in 0..READ_BATCH {
        match socket.recv_reply(&mut buf) {
            Ok(Some(reply)) => handle(&reply),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            // The kernel hands out an error of the socket once; replies may lie behind it.
            Err(_) => {}
        }
    }
    Ok(())
}

async fn readable(
    socket: Option<&AsyncFd<EchoSocket>>,
) -> io::Result<AsyncFdReadyGuard<'_, EchoSocket>> {
    match socket {
        Some(socket) => socket.readable().await,
        None => pending().await,
    }
}

/// Replies read in one go before timers and other tasks get their turn.
const READ_BATCH: usize = 1024;
