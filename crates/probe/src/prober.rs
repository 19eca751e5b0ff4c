//! The shell around [`Echoes`](crate::echoes::Echoes): raw sockets, the clock, randomness.

use std::net::IpAddr;
use std::time::Instant;

use health::Machine;
use tokio::select;

use crate::echoes::{Echoes, Request};
use crate::mtu::MtuProbes;
use crate::sockets::{Nonce, Sockets, Watched, now, secrets, sleep_until};
use crate::{Change, Check, Error};

/// Probes backends and reports changes of their state.
pub struct Prober {
    sockets: Watched,
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
        let (sockets, mtu) = sockets.watch()?;
        let (id, nonces) = secrets();
        Ok(Self { sockets, echoes: Echoes::new(id, Box::new(nonces)), mtu })
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
            let Self { sockets, echoes, .. } = self;
            let due = echoes.poll_timeout();
            select! {
                () = sockets.replies(|reply| echoes.handle_reply(reply, now())) => {}
                () = sleep_until(due) => self.fire_timers(),
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
            let Request { backend, id, seq, nonce, .. } = request;
            match self.sockets.send(backend, id, seq, nonce) {
                Ok(()) => self.mtu.handle_check(backend),
                Err(error) => {
                    self.echoes.handle_send_error(&request, error.to_string(), now());
                }
            }
        }
    }

    /// Replies that lie in the sockets come first: they may have been there in time, and it would be
    /// our own stall that made them late.
    fn fire_timers(&mut self) {
        let Self { sockets, echoes, .. } = self;
        sockets.replies_now(|reply| echoes.handle_reply(reply, now()));
        self.echoes.handle_timeout(now());
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::num::NonZeroU32;
    use std::time::Duration;

    use health::{Policy, State};
    use wire::Family;

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
