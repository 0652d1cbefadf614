//! Ready entries wherever they stand, not only the next: for queues that set some aside.

use std::sync::Arc;

use menzil_model::{Message, Sequence};

use super::fetch::{Asking, Body, RunMax, find};
use super::{Held, Index};
use crate::effect::Wanted;
use crate::queue::item::Item;

impl Index {
    /// The first ready entry from there on.
    pub(crate) fn ready_from(&mut self, from: Sequence) -> Option<Sequence> {
        self.open_to(from);
        let at = self.head.partition_point(|held| held.sequence() < from);
        let returned = self.returned.range(from..).next();
        let found = self.head.get(at).map(Held::sequence).into_iter();
        found.chain(returned.map(|(sequence, _)| *sequence)).min()
    }

    /// Some of the ready entries from there on, in order.
    pub(crate) fn run_from(&mut self, from: Sequence, most: usize) -> Vec<Sequence> {
        self.open_to(from);
        let at = self.head.partition_point(|held| held.sequence() < from);
        while self.head.len() - at < most && self.open_more() {}
        let head = self.head.range(at..).take(most).map(Held::sequence);
        let returned = self.returned.range(from..).take(most);
        let mut run: Vec<Sequence> = head
            .chain(returned.map(|(sequence, _)| *sequence))
            .collect();
        run.sort_unstable();
        run.truncate(most);
        run
    }

    /// A ready entry, and its message or where that is.
    pub(crate) fn entry(&mut self, sequence: Sequence) -> Option<(Item, Option<&Message>, Body)> {
        let held = self.held(sequence)?;
        let body = match (&held.content, held.asked) {
            (Some(_), _) => Body::Here,
            (None, true) => Body::Asked,
            (None, false) => Body::Away,
        };
        Some((held.item, held.content.as_deref(), body))
    }

    /// Takes a ready entry out to a consumer; as [`Index::take_head`].
    pub(crate) fn take_out(&mut self, sequence: Sequence) -> Option<(Item, Option<Arc<Message>>)> {
        self.open_to(sequence);
        let held = self.take(sequence)?;
        Some(self.send_out(held))
    }

    /// As [`Index::ask`], for these.
    pub(crate) fn ask_for(&mut self, sequences: &[Sequence], max: RunMax) -> Vec<Wanted> {
        let mut asking = Asking::of(max);
        for sequence in sequences.iter().take(max.messages) {
            let Some(held) = self.held(*sequence) else {
                continue;
            };
            if !asking.ask(held) {
                break;
            }
        }
        asking.wanted
    }

    /// Lets go of the message of a ready entry, if it can be read again.
    pub(crate) fn strip_one(&mut self, sequence: Sequence) {
        let Some(held) = self.held(sequence) else {
            return;
        };
        let stripped = held.strip();
        self.content_bytes -= stripped;
    }

    fn held(&mut self, sequence: Sequence) -> Option<&mut Held> {
        if self.returned.contains_key(&sequence) {
            return self.returned.get_mut(&sequence);
        }
        self.open_to(sequence);
        find(&mut self.head, sequence)
    }

    /// Opens what is behind the head until it reaches that far.
    fn open_to(&mut self, sequence: Sequence) {
        while self
            .head
            .back()
            .is_none_or(|last| last.sequence() < sequence)
        {
            if !self.open_more() {
                return;
            }
        }
    }

    /// Adds what follows to the head. False where nothing does.
    fn open_more(&mut self) -> bool {
        if let Some(page) = self.pages.pop_front() {
            page.open_behind(&mut self.head, self.durable);
            return true;
        }
        let has_more = self.tail_len() > 0;
        self.open_tail();
        self.head.append(&mut self.tail);
        has_more
    }
}
