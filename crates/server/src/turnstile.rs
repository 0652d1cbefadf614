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
    /// Where wishes keep coming, one thread does not work for all of them for ever: it hands
    /// the duty on, to somebody who will enter anew.
    pub(crate) fn enter(&self, mut work: impl FnMut(), hand_on: impl FnOnce()) {
        if self.wishes.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        let mut seen = 1;
        for _ in 0..ROUNDS_MAX {
            work();
            let left = self
                .wishes
                .compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire);
            match left {
                Ok(_) => return,
                Err(more) => seen = more,
            }
        }
        // Who left word before this found somebody at work; the one who is told next comes after.
        self.wishes.store(0, Ordering::Release);
        hand_on();
    }
}

const ROUNDS_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn no_wish_is_lost_and_no_two_work_at_once() {
        let turnstile = Turnstile::default();
        let (asked, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let (inside, handed_on) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = || {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            done.store(asked.load(Ordering::SeqCst), Ordering::SeqCst);
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        let hand_on = || {
            handed_on.fetch_add(1, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        asked.fetch_add(1, Ordering::SeqCst);
                        turnstile.enter(work, hand_on);
                    }
                });
            }
        });
        if handed_on.load(Ordering::SeqCst) > 0 {
            turnstile.enter(work, hand_on);
        }
        assert_eq!(done.load(Ordering::SeqCst), 80_000);
    }
}
