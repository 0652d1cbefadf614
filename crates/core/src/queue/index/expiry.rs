//! Which ready entries expire next. No list of them is kept: the earliest is known as a bound,
//! and where entries expire in the order in which they came, as they do where all have their
//! queue's time to live, those that are due stand at the head.

use menzil_model::Sequence;

use super::Index;

/// When the next ready entry expires, or earlier: an entry that left leaves the bound behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    first: u64,
    /// The latest of all that came.
    last: u64,
    /// None came that expires before one that came before it.
    in_order: bool,
}

const NEVER: u64 = u64::MAX;

impl Default for Bound {
    fn default() -> Self {
        Self {
            first: NEVER,
            last: 0,
            in_order: true,
        }
    }
}

impl Bound {
    /// An entry came in.
    pub(super) fn note(&mut self, expires_at: Option<u64>) {
        let Some(at) = expires_at else { return };
        self.in_order &= at >= self.last;
        self.last = self.last.max(at);
        self.first = self.first.min(at);
    }

    /// The entry that came in went before others: those that came in the order of their expiry
    /// do not stand in it.
    #[cold]
    pub(super) fn note_between(&mut self, expires_at: Option<u64>) {
        self.in_order &= expires_at.is_none();
    }

    /// An entry came back. It stands apart from those that are in order.
    pub(super) fn note_returned(&mut self, expires_at: Option<u64>) {
        self.first = self.first.min(expires_at.unwrap_or(NEVER));
    }
}

/// What a walk over entries finds.
struct Walk {
    now: u64,
    count: usize,
    due: Vec<Sequence>,
    /// The earliest of the others.
    next: u64,
}

impl Walk {
    /// False once there is no reason to look at what follows, if entries are in order.
    fn look(&mut self, sequence: Sequence, expires_at: Option<u64>) -> bool {
        match expires_at {
            Some(at) if at <= self.now && self.due.len() < self.count => {
                self.due.push(sequence);
                true
            }
            Some(at) => {
                self.next = self.next.min(at);
                false
            }
            None => true,
        }
    }
}

impl Index {
    /// When the first entry that is not out expires, or earlier.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        let ready = (self.expiry.first != NEVER).then_some(self.expiry.first);
        [ready, self.delayed_expiry()].into_iter().flatten().min()
    }

    /// Entries that are not out and expire at `now` or before, at most `count`, in no order. The caller
    /// is to remove them; [`Index::next_expiry`] speaks of the others, and exactly.
    pub(crate) fn expired(&mut self, now: u64, count: usize) -> Vec<Sequence> {
        let due = self.delayed_expired(now, count);
        if self.expiry.first > now {
            return due;
        }
        let mut walk = Walk {
            now,
            count,
            due,
            next: NEVER,
        };
        for held in self.returned.values() {
            walk.look(held.sequence(), self.expiry_of(&held.item));
        }
        self.walk_in_order(&mut walk);
        self.expiry.first = walk.next;
        walk.due
    }

    fn walk_in_order(&self, walk: &mut Walk) {
        let in_order = self.expiry.in_order;
        for held in &self.head {
            if !walk.look(held.sequence(), self.expiry_of(&held.item)) && in_order {
                return;
            }
        }
        for page in &self.pages {
            let Some(first) = page.expires_first else {
                continue;
            };
            if first > walk.now || walk.due.len() >= walk.count {
                walk.next = walk.next.min(first);
                if in_order {
                    return;
                }
                continue;
            }
            for item in page.items(self.durable) {
                walk.look(item.sequence, self.expiry_of(&item));
            }
        }
        let packed = self.packed_tail_items();
        for item in packed.chain(self.tail.iter().map(|held| held.item)) {
            if !walk.look(item.sequence, self.expiry_of(&item)) && in_order {
                return;
            }
        }
    }
}
