//! How long the unsettled deliveries of one consumer have been out, where that has a limit.
//!
//! Those that go out within a 32nd of the limit are counted together, and their latest counts: so
//! the limit is reached late by that much at the most, never early, and there are some 32 counts
//! whatever is out. Invariant: something of the first is out.

use std::collections::VecDeque;

use menzil_model::DeliveryTag;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Stopwatch {
    /// Milliseconds.
    limit: u64,
    slices: VecDeque<Slice>,
    /// The shard has it in its timers, or is about to.
    pub(crate) is_armed: bool,
    /// Where it stands there.
    pub(crate) timer: Option<u64>,
}

/// Deliveries that went out at about the same time.
#[derive(Clone, Copy, Debug)]
struct Slice {
    first: DeliveryTag,
    since: u64,
    until: u64,
    out: u64,
}

impl Stopwatch {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            slices: VecDeque::new(),
            is_armed: false,
            timer: None,
        }
    }

    /// The limit in milliseconds.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// A delivery goes out; tags ascend.
    pub(crate) fn start(&mut self, tag: DeliveryTag, now: u64) {
        match self.slices.back_mut() {
            Some(last) if now.saturating_sub(last.since) <= self.limit / SLICES => {
                last.until = now;
                last.out += 1;
            }
            _ => self.slices.push_back(Slice {
                first: tag,
                since: now,
                until: now,
                out: 1,
            }),
        }
    }

    /// A delivery is settled.
    pub(crate) fn stop(&mut self, tag: DeliveryTag) {
        let after = self.slices.partition_point(|slice| slice.first <= tag);
        let slice = after.checked_sub(1).and_then(|at| self.slices.get_mut(at));
        if let Some(slice) = slice {
            slice.out = slice.out.saturating_sub(1);
        }
        while self.slices.front().is_some_and(|slice| slice.out == 0) {
            self.slices.pop_front();
        }
    }

    /// When the limit is reached if nothing is settled until then.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let oldest = self.slices.front()?;
        Some(oldest.until.saturating_add(self.limit))
    }
}

/// Into how many parts the limit is cut.
const SLICES: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_oldest_delivery_is_known_about_and_never_too_early(
            limit in 1..500_u64,
            steps in prop::collection::vec((any::<bool>(), 0..20_u64, 0..9_usize), 0..300)
        ) {
            let mut watch = Stopwatch::new(limit);
            let mut out = BTreeMap::new();
            let (mut now, mut tag) = (0, 0);
            for (is_delivery, wait, at) in steps {
                now += wait;
                // What reaches the limit is taken back.
                while let Some(oldest) = out.first_entry().filter(|first| now - first.get() >= limit) {
                    watch.stop(DeliveryTag(*oldest.key()));
                    oldest.remove();
                }
                if is_delivery {
                    tag += 1;
                    watch.start(DeliveryTag(tag), now);
                    out.insert(tag, now);
                } else if let Some(settled) = out.keys().nth(at).copied() {
                    watch.stop(DeliveryTag(settled));
                    out.remove(&settled);
                }
                let exact = out.values().min().map(|oldest| oldest + limit);
                prop_assert_eq!(watch.deadline().is_some(), exact.is_some());
                let late = watch.deadline().unwrap_or(0) - exact.unwrap_or(0);
                prop_assert!(late <= limit / SLICES, "late by {late}");
                prop_assert!(watch.slices.len() as u64 <= SLICES + 2);
            }
        }
    }
}
