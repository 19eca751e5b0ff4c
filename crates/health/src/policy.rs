//! When to probe a backend and how many results in a row decide.

use std::num::NonZeroU32;
use std::time::Duration;

/// The shortest interval between two probes of one backend.
///
/// A thousand backends at this interval are 100,000 probes a second: more is a flood, not a check.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The longest interval: a backend that is looked at less often is not health-checked.
pub const MAX_INTERVAL: Duration = Duration::from_secs(3600);

/// The schedule and the thresholds of one backend's check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Time from the start of one probe to the start of the next, [`MIN_INTERVAL`] to
    /// [`MAX_INTERVAL`].
    pub interval: Duration,
    /// How long a probe may stay unanswered, more than zero and at most `interval`.
    pub timeout: Duration,
    /// Successes in a row that mark a backend up.
    pub rise: NonZeroU32,
    /// Failures in a row that mark a backend down.
    pub fall: NonZeroU32,
}

impl Policy {
    /// Refuses a schedule that floods or neglects a backend or would keep two probes outstanding at once.
    ///
    /// # Errors
    /// Names the first rule that is broken, with the values.
    pub fn validate(&self) -> Result<(), Error> {
        if self.interval < MIN_INTERVAL {
            return Err(Error::IntervalTooShort(self.interval));
        }
        if self.interval > MAX_INTERVAL {
            return Err(Error::IntervalTooLong(self.interval));
        }
        if self.timeout.is_zero() {
            return Err(Error::TimeoutZero);
        }
        if self.timeout > self.interval {
            let Self { interval, timeout, .. } = *self;
            return Err(Error::TimeoutOverInterval { timeout, interval });
        }
        Ok(())
    }
}

/// Every 2 s, 1 s to answer, 2 in a row either way.
impl Default for Policy {
    fn default() -> Self {
        const TWO: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
        Self {
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            rise: TWO,
            fall: TWO,
        }
    }
}

/// Why a [`Policy`] is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interval is below [`MIN_INTERVAL`].
    #[error("an interval of {0:?} is shorter than {MIN_INTERVAL:?}")]
    IntervalTooShort(Duration),
    /// The interval is above [`MAX_INTERVAL`].
    #[error("an interval of {0:?} is longer than {MAX_INTERVAL:?}")]
    IntervalTooLong(Duration),
    /// No probe could ever be answered in time.
    #[error("a timeout of zero fails every probe")]
    TimeoutZero,
    /// A probe could still be outstanding when the next one is due.
    #[error("a timeout of {timeout:?} is longer than the interval of {interval:?}")]
    TimeoutOverInterval {
        /// The refused timeout.
        timeout: Duration,
        /// The interval it must not exceed.
        interval: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_is_refused_when_probes_would_overlap_or_flood() {
        let ms = Duration::from_millis;
        let too_long = Error::TimeoutOverInterval { timeout: ms(2001), interval: ms(2000) };
        for (interval, timeout, expected) in [
            (ms(2000), ms(1000), Ok(())),
            (ms(2000), ms(2000), Ok(())),
            (ms(2000), ms(2001), Err(too_long)),
            (ms(10), ms(10), Ok(())),
            (ms(9), ms(9), Err(Error::IntervalTooShort(ms(9)))),
            (ms(0), ms(0), Err(Error::IntervalTooShort(ms(0)))),
            (MAX_INTERVAL, MAX_INTERVAL, Ok(())),
            (MAX_INTERVAL + ms(1), ms(1), Err(Error::IntervalTooLong(MAX_INTERVAL + ms(1)))),
            (ms(10), ms(0), Err(Error::TimeoutZero)),
        ] {
            let policy = Policy { interval, timeout, ..Policy::default() };
            assert_eq!(policy.validate(), expected, "{policy:?}");
        }
        assert_eq!(Policy::default().validate(), Ok(()));
    }
}
