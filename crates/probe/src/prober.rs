//! The shell around [`Echoes`](crate::echoes::Echoes): raw sockets, the clock, randomness.

use std::collections::hash_map::RandomState;
use std::future::pending;
use std::hash::BuildHasher;
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use health::Machine;
use netio::icmp::{EchoSocket, REPLY_BUFFER};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::select;
use wire::Family;

use crate::echoes::{Echoes, Nonce, Request};
use crate::mtu::MtuProbes;
use crate::{Change, Check};

/// One open echo socket per family, shared by all backends.
///
/// Opening takes `CAP_NET_RAW` and no runtime, so it can happen before privileges are dropped and
/// before the first thread starts.
#[derive(Debug)]
pub struct Sockets {
    v4: Option<EchoSocket>,
    v6: Option<EchoSocket>,
    mtu: MtuProbes,
}

impl Sockets {
    /// Opens a socket for each of `families`. Backends of another family fail every probe.
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
}

/// Probes backends and reports changes of their state.
pub struct Prober {
    v4: Option<AsyncFd<EchoSocket>>,
    v6: Option<AsyncFd<EchoSocket>>,
    echoes: Echoes<Box<dyn FnMut() -> Nonce + Send>>,
    mtu: MtuProbes,
}

impl Prober {
    /// A prober without backends, to be called inside the tokio runtime that will drive it.
    ///
    /// # Errors
    /// Fails if the runtime cannot watch the sockets.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub fn new(sockets: Sockets) -> Result<Self, Error> {
        // SipHash under keys that the standard library draws from the kernel: nobody without the
        // keys can guess the values, and drawing one cannot fail halfway through a probe.
        let keys = RandomState::new();
        let [high, low, ..] = keys.hash_one("identifier").to_be_bytes();
        let mut drawn = 0_u64;
        let nonces = move || {
            drawn += 1;
            keys.hash_one(drawn).to_be_bytes()
        };
        Ok(Self {
            v4: sockets.v4.map(watch).transpose()?,
            v6: sockets.v6.map(watch).transpose()?,
            echoes: Echoes::new(u16::from_be_bytes([high, low]), Box::new(nonces)),
            mtu: sockets.mtu,
        })
    }

    /// Makes `checks` the backends to be probed.
    ///
    /// Backends that were there before keep their state and take over a changed policy; vanished
    /// ones are forgotten without a change being reported. The first probe of the i-th backend is
    /// due i times 10 ms after `now`, or less if they are many. A backend listed twice has the
    /// later policy.
    pub fn replace(&mut self, checks: &[Check], now: Instant) {
        self.echoes.replace(checks, now);
        self.mtu.retain(|backend| self.echoes.machine(backend).is_some());
    }

    /// Probes until one backend changes state. Waits forever without backends.
    ///
    /// Cancel-safe: dropping the future loses neither a change nor a reply.
    pub async fn next(&mut self) -> Change {
        loop {
            self.send_requests();
            if let Some(change) = self.echoes.poll_change() {
                return change;
            }
            let Self { v4, v6, echoes, .. } = self;
            select! {
                Ok(mut ready) = readable(v4.as_ref()) => {
                    // An error means "empty now", and has cleared the readiness.
                    let _ = ready.try_io(|socket| read_replies(socket.get_ref(), echoes));
                }
                Ok(mut ready) = readable(v6.as_ref()) => {
                    let _ = ready.try_io(|socket| read_replies(socket.get_ref(), echoes));
                }
                () = sleep_until(echoes.poll_timeout()) => self.fire_timers(),
            }
        }
    }

    /// The machine of one backend, for status output; `None` if it is not being checked.
    #[must_use]
    pub fn machine(&self, backend: IpAddr) -> Option<&Machine> {
        self.echoes.machine(backend)
    }

    fn send_requests(&mut self) {
        while let Some(request) = self.echoes.poll_request() {
            match self.send(&request) {
                Ok(()) => self.mtu.handle_check(request.backend),
                Err(error) => {
                    self.echoes.handle_send_error(&request, error.to_string(), now());
                }
            }
        }
    }

    fn send(&self, request: &Request) -> io::Result<()> {
        let &Request { backend, id, seq, nonce, .. } = request;
        let (socket, missing) = match backend {
            IpAddr::V4(_) => (&self.v4, "no ICMP socket is open"),
            IpAddr::V6(_) => (&self.v6, "no ICMPv6 socket is open"),
        };
        let socket = socket.as_ref().ok_or_else(|| io::Error::other(missing))?;
        socket.get_ref().send_echo(backend, id, seq, &nonce)
    }

    /// Replies that lie in the sockets come first: they may have been there in time, and it would be
    /// our own stall that made them late.
    fn fire_timers(&mut self) {
        for socket in [&self.v4, &self.v6].into_iter().flatten() {
            // An error means "empty now".
            let _ = read_replies(socket.get_ref(), &mut self.echoes);
        }
        self.echoes.handle_timeout(now());
    }
}

/// Why probing cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A raw socket was refused, most often for want of `CAP_NET_RAW`.
    #[error("cannot open a raw ICMP socket ({family:?}): {source}")]
    Socket {
        /// The family it was for.
        family: Family,
        /// What the kernel said.
        source: io::Error,
    },
    /// The runtime could not watch a socket.
    #[error("cannot watch the ICMP sockets: {0}")]
    Watch(#[source] io::Error),
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
fn read_replies<N: FnMut() -> Nonce>(
    socket: &EchoSocket,
    echoes: &mut Echoes<N>,
) -> io::Result<()> {
    let mut buf = [0; REPLY_BUFFER];
    for _ in 0..READ_BATCH {
        match socket.recv_reply(&mut buf) {
            Ok(Some(reply)) => echoes.handle_reply(&reply, now()),
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

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => pending().await,
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Replies read in one go before timers and other tasks get their turn.
const READ_BATCH: usize = 1024;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::num::NonZeroU32;
    use std::time::Duration;

    use health::{Policy, State};

    use super::*;

    /// Probes that answer at once on loopback, with room for a busy machine.
    fn policy() -> Policy {
        let interval = Duration::from_millis(500);
        Policy { interval, timeout: interval, rise: NonZeroU32::MIN, fall: NonZeroU32::MIN }
    }

    fn check(backend: impl Into<IpAddr>) -> Check {
        Check { backend: backend.into(), policy: policy() }
    }

    fn prober(families: &[Family]) -> Option<Prober> {
        match Sockets::open(families) {
            Ok(sockets) => Some(Prober::new(sockets).unwrap()),
            Err(error) => {
                let required = std::env::var_os("LABS").is_some_and(|value| value == "required");
                assert!(!required, "must not be skipped: {error}");
                println!("skipped: {error}");
                None
            }
        }
    }

    async fn next(prober: &mut Prober) -> Change {
        tokio::time::timeout(Duration::from_secs(10), prober.next()).await.unwrap()
    }

    #[tokio::test]
    async fn loopback_comes_up_in_both_families() {
        let families =
            [(Family::V4, check(Ipv4Addr::LOCALHOST)), (Family::V6, check(Ipv6Addr::LOCALHOST))];
        for (family, check) in families {
            let Some(mut prober) = prober(&[family]) else { continue };
            prober.replace(&[check], now());
            let change = next(&mut prober).await;
            assert_eq!((change.backend, change.transition.to), (check.backend, State::Up));
            assert_eq!(prober.machine(check.backend).map(Machine::state), Some(State::Up));
        }
    }

    #[tokio::test]
    async fn refused_send_takes_a_backend_down_with_the_kernels_reason() {
        let Some(mut prober) = prober(&[Family::V4]) else { return };
        // Without SO_BROADCAST the kernel refuses a broadcast address with EACCES. Loopback's has a
        // route wherever `lo` is up; 255.255.255.255 has none in a namespace without other links.
        prober.replace(&[check(Ipv4Addr::new(127, 255, 255, 255))], now());
        let transition = next(&mut prober).await.transition;
        assert_eq!(transition.to, State::Down);
        assert_eq!(transition.cause.unwrap().to_string(), "Permission denied (os error 13)");
    }

    #[tokio::test]
    async fn backend_without_a_socket_of_its_family_goes_down_and_says_so() {
        let Some(mut prober) = prober(&[Family::V4]) else { return };
        prober.replace(&[check(Ipv6Addr::LOCALHOST)], now());
        let transition = next(&mut prober).await.transition;
        assert_eq!(transition.cause.unwrap().to_string(), "no ICMPv6 socket is open");
    }

    #[tokio::test]
    async fn no_change_is_lost_when_the_future_is_dropped_over_and_over() {
        let Some(mut prober) = prober(&[Family::V4]) else { return };
        let backends: Vec<_> = (1..=100).map(|i| Ipv4Addr::new(127, 0, 0, i)).collect();
        let checks: Vec<_> = backends.iter().copied().map(check).collect();
        prober.replace(&checks, now());
        let mut ticks = tokio::time::interval(Duration::from_micros(200));
        let deadline = now() + Duration::from_secs(10);
        let mut changed = Vec::new();
        while changed.len() < backends.len() && now() < deadline {
            select! {
                biased;
                _ = ticks.tick() => tokio::task::yield_now().await,
                change = prober.next() => {
                    if change.transition.to == State::Up {
                        changed.push(change.backend);
                    }
                }
            }
        }
        changed.sort();
        assert_eq!(changed, backends);
    }
}
