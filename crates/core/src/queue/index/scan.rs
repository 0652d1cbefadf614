//! Ready entries of any part of a queue, to look at: for who reads without taking. Of a queue
//! that nobody consumes from, where none is out or came back.

use std::collections::VecDeque;
use std::sync::Arc;

use menzil_model::{Message, Sequence};

use super::Index;
use crate::queue::item::{Held, Item};

/// An entry, and its message where that is in memory.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    pub(crate) item: Item,
    pub(crate) content: Option<Arc<Message>>,
}

impl Scanned {
    fn of(held: &Held) -> Self {
        Self {
            item: held.item,
            content: held.content.clone(),
        }
    }

    fn packed(item: Item) -> Self {
        Self {
            item,
            content: None,
        }
    }
}

impl Index {
    /// At most `count` entries from a place on, in order.
    pub(crate) fn scan_from(&self, first: Sequence, count: usize) -> Vec<Scanned> {
        let mut seen = Vec::new();
        let in_head = self.head.partition_point(|held| held.sequence() < first);
        seen.extend(self.head.range(in_head..).take(count).map(Scanned::of));
        let first_page = self.pages.partition_point(|page| page.last < first);
        for page in self.pages.range(first_page..) {
            if seen.len() >= count {
                return seen;
            }
            let entries = page.clone().open(self.durable);
            let from = entries.partition_point(|held| held.sequence() < first);
            let left = count - seen.len();
            seen.extend(entries.iter().skip(from).take(left).map(Scanned::of));
        }
        let left = count - seen.len();
        if self.last_in_order().is_none_or(|last| last < first) {
            return seen;
        }
        let packed = self.packed_tail_items().map(Scanned::packed);
        let tail = packed.chain(self.tail.iter().map(Scanned::of));
        let behind = tail.filter(|entry| entry.item.sequence >= first);
        seen.extend(behind.take(left));
        seen
    }

    /// The last `count` entries before a place, in order.
    pub(crate) fn scan_before(&self, below: Sequence, count: usize) -> Vec<Scanned> {
        let mut seen = VecDeque::new();
        let packed = self.packed_tail_items().map(Scanned::packed);
        let tail = packed.chain(self.tail.iter().map(Scanned::of));
        put_before(&mut seen, tail.collect(), below, count);
        let pages = self.pages.partition_point(|page| page.first < below);
        for page in self.pages.range(..pages).rev() {
            if seen.len() >= count {
                break;
            }
            let entries = page.clone().open(self.durable);
            put_before(
                &mut seen,
                entries.iter().map(Scanned::of).collect(),
                below,
                count,
            );
        }
        put_before(
            &mut seen,
            self.head.iter().map(Scanned::of).collect(),
            below,
            count,
        );
        seen.into()
    }
}

fn put_before(seen: &mut VecDeque<Scanned>, entries: Vec<Scanned>, below: Sequence, count: usize) {
    let entries = entries.into_iter().rev();
    for entry in entries.filter(|entry| entry.item.sequence < below) {
        if seen.len() >= count {
            return;
        }
        seen.push_front(entry);
    }
}
