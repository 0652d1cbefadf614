//! One at a time, and nobody waits: who finds somebody at work leaves word and goes.
//!
//! Invariant: work asked for by [`Turnstile::enter`] is done after the call by somebody, either
//! the caller or the one at work, who looks again before leaving. No wish is lost.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Lets one thread at a time do a piece of work that others ask for too.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    /// Wishes since the one at work entered, itself included; 0 is nobody at work.
    wishes: AtomicUsize,
}

impl Turnstile {
    /// Does `work` at least once after this call began, here or by the thread that is at it.
    pub(crate) fn enter(&self, mut work: impl FnMut()) {
        if self.wishes.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        let mut seen = 1;
        loop {
            work();
            let left = self
                .wishes
                .compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire);
            match left {
                Ok(_) => return,
                Err(more) => seen = more,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn no_wish_is_lost_and_no_two_work_at_once() {
        let turnstile = Turnstile::default();
        let (asked, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let inside = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        asked.fetch_add(1, Ordering::SeqCst);
                        turnstile.enter(|| {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            done.store(asked.load(Ordering::SeqCst), Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 80_000);
    }
}
