//! Paths that were looked up lately: a lookup costs system calls, and a packet must not.
//!
//! Four ways a set, so that thousands of backends, which all have packets at once, keep their
//! places: in a table of one way a fifth of a thousand would drive each other out.

use datapath::Fib;
use std::time::{Duration, Instant};
use wire::Address;

/// How long a path is believed before the kernel is asked again. What is learned meanwhile by a
/// packet that is refused makes it forgotten at once.
const PATH_TIME: Duration = Duration::from_secs(10);
/// How long the lack of a route is believed: a route that comes back is used almost at once.
const NO_ROUTE_TIME: Duration = Duration::from_millis(100);
const SETS: usize = 4_096;
const WAYS: usize = 4;

/// The cache.
#[derive(Debug)]
pub struct Paths {
    sets: Box<[[Path; WAYS]]>,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    destination: Address,
    fib: Option<Fib>,
    until: Option<Instant>,
}

impl Default for Paths {
    fn default() -> Self {
        let empty = Path { destination: Address::v6([0; 16]), fib: None, until: None };
        Self { sets: vec![[empty; WAYS]; SETS].into_boxed_slice() }
    }
}

impl Paths {
    /// What is known of the path to a destination; `look_up` is asked if nothing is.
    #[inline]
    pub fn get(
        &mut self,
        destination: Address,
        now: Instant,
        look_up: impl FnOnce(Address) -> Option<Fib>,
    ) -> Option<Fib> {
        let set = self.sets.get_mut(set_of(destination))?;
        let known = set.iter().find(|path| path.destination == destination);
        if let Some(path) = known
            && path.until.is_some_and(|until| now < until)
        {
            return path.fib;
        }
        let fib = look_up(destination);
        let time = if fib.is_some() { PATH_TIME } else { NO_ROUTE_TIME };
        // The destination's own place, or that of the path that ends first.
        let place = set.iter_mut().min_by_key(|path| (path.destination != destination, path.until));
        *place? = Path { destination, fib, until: Some(now + time) };
        fib
    }

    /// Forgets the path to a destination: the kernel has just learned something about it.
    pub fn forget(&mut self, destination: Address) {
        let set = self.sets.get_mut(set_of(destination)).into_iter().flatten();
        set.filter(|path| path.destination == destination).for_each(|path| path.until = None);
    }
}

fn set_of(destination: Address) -> usize {
    // Only spreads paths over sets; it is no part of the selection.
    usize::try_from(balance::hash::hash(0, destination.words())).unwrap_or(0) % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "virtual time needs a beginning")]
        Instant::now()
    }

    const FIB: Fib = Fib { mtu: 1500, source: Address::v4([10, 0, 0, 1]) };

    /// Lookups that one packet to each of so many destinations costs.
    fn lookups(paths: &mut Paths, destinations: u16, now: Instant) -> u32 {
        let mut lookups = 0;
        for number in 0..destinations {
            let [high, low] = number.to_be_bytes();
            let path = paths.get(Address::v4([10, 80, high, low]), now, |_| {
                lookups += 1;
                Some(FIB)
            });
            assert_eq!(path, Some(FIB));
        }
        lookups
    }

    #[test]
    fn thousands_of_destinations_keep_their_places() {
        for destinations in [1, 1_000, 4_096] {
            let (mut paths, now) = (Paths::default(), now());
            assert_eq!(lookups(&mut paths, destinations, now), u32::from(destinations));
            let again = lookups(&mut paths, destinations, now + Duration::from_secs(1));
            assert!(again <= u32::from(destinations) / 50, "{again} of {destinations}");
        }
    }

    #[test]
    fn a_path_is_asked_for_again_after_its_time_or_when_it_is_forgotten() {
        let (mut paths, start) = (Paths::default(), now());
        let to = Address::v4([192, 0, 2, 1]);
        let mut ask = |fib, at| {
            let mut asked = false;
            let answer = paths.get(to, at, |_| {
                asked = true;
                fib
            });
            (answer, asked)
        };
        assert_eq!(ask(None, start), (None, true));
        assert_eq!(ask(Some(FIB), start + NO_ROUTE_TIME / 2), (None, false));
        let back = start + NO_ROUTE_TIME;
        assert_eq!(ask(Some(FIB), back), (Some(FIB), true));
        assert_eq!(ask(None, back + PATH_TIME / 2), (Some(FIB), false));
        assert_eq!(ask(None, back + PATH_TIME), (None, true));
        paths.forget(to);
        assert_eq!(paths.get(to, back + PATH_TIME, |_| Some(FIB)), Some(FIB));
    }
}
