//! A snapshot that is published whole: readers see the old one or the new one, never a mixture.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

/// The place where the current snapshot hangs.
///
/// Loading takes no lock and never waits for a publisher; the old snapshot lives until its last
/// reader lets go.
#[derive(Debug)]
pub struct Live<T>(ArcSwap<T>);

impl<T> Live<T> {
    /// Begins with `snapshot`.
    #[must_use]
    pub fn new(snapshot: Arc<T>) -> Self {
        Self(ArcSwap::new(snapshot))
    }

    /// Replaces the snapshot by one atomic swap.
    pub fn publish(&self, snapshot: Arc<T>) {
        self.0.store(snapshot);
    }

    /// The current snapshot. Take it once per packet batch or request and use only that: a second
    /// load may return a newer one.
    #[must_use]
    pub fn load(&self) -> Guard<Arc<T>> {
        self.0.load()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn reader_keeps_its_snapshot_while_a_new_one_is_published() {
        let live = Live::new(Arc::new(1));
        let before = live.load();
        live.publish(Arc::new(2));
        assert_eq!((**before, **live.load()), (1, 2));
    }

    #[test]
    fn no_reader_ever_sees_half_a_snapshot() {
        let live = Live::new(Arc::new([0_u64; 64]));
        thread::scope(|scope| {
            scope.spawn(|| (1..=10_000).for_each(|i| live.publish(Arc::new([i; 64]))));
            scope.spawn(|| {
                let mut newest = 0;
                while newest < 10_000 {
                    let snapshot = live.load();
                    assert!(snapshot.iter().all(|word| *word == snapshot[0]));
                    assert!(snapshot[0] >= newest, "went back in time");
                    newest = snapshot[0];
                }
            });
        });
    }
}
