//! Waiting for a condition, with a deadline and without sleeping blindly.

use std::thread;
use std::time::{Duration, Instant};

/// How long one wait lasts before the condition is asked again.
const TICK: Duration = Duration::from_millis(5);

/// Asks `condition` until it holds; after `deadline` has passed, an error that names `what`.
///
/// The condition is asked at least once, and once more after the deadline.
///
/// # Errors
/// The condition did not hold within `deadline`.
pub fn until(
    deadline: Duration,
    what: &str,
    mut condition: impl FnMut() -> bool,
) -> Result<(), String> {
    let end = Deadline::after(deadline);
    loop {
        let left = end.left();
        if condition() {
            return Ok(());
        }
        if left.is_zero() {
            return Err(format!("waited {deadline:?} in vain for: {what}"));
        }
        thread::park_timeout(TICK.min(left));
    }
}

/// A moment of real time after which nobody waits any longer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    start: Instant,
    limit: Duration,
}

impl Deadline {
    /// The moment `limit` from now.
    #[expect(clippy::disallowed_methods, reason = "tests wait for real processes and packets")]
    pub(crate) fn after(limit: Duration) -> Self {
        Self { start: Instant::now(), limit }
    }

    /// The time left; zero once it has passed.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_until_the_condition_holds() {
        let mut asked = 0;
        let outcome = until(Duration::from_secs(20), "three questions", || {
            asked += 1;
            asked == 3
        });
        assert_eq!((outcome, asked), (Ok(()), 3));
    }

    #[test]
    fn the_error_names_what_did_not_happen() {
        let error = until(Duration::from_millis(12), "rain", || false).unwrap_err();
        assert_eq!(error, "waited 12ms in vain for: rain");
    }

    #[test]
    fn a_condition_that_holds_needs_no_time() {
        assert_eq!(until(Duration::ZERO, "nothing", || true), Ok(()));
    }
}
