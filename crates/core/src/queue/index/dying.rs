//! Entries that are taken out for nobody, to be moved to another queue.

use std::sync::Arc;

use menzil_model::fact::Range;
use menzil_model::{Message, Sequence};

use super::fetch::Asking;
use super::{Gone, Index, RunMax};
use crate::effect::Wanted;
use crate::queue::item::{Held, Item};
use crate::queue::page::Page;

/// Entries that left the ready ones, with the messages that were there.
struct Taken {
    durable: bool,
    entries: Vec<Held>,
}

impl Gone for Taken {
    fn entry(&mut self, item: &Item) {
        self.entries.push(Held::new(*item, None));
    }

    fn held(&mut self, held: &Held) {
        self.entries.push(held.clone());
    }

    fn page(&mut self, page: Page) {
        self.entries.extend(page.open(self.durable));
    }
}

/// Where the message of an entry is that is to be moved.
pub(crate) enum Remains {
    /// In memory.
    Here(Arc<Message>),
    /// On its way.
    Asked,
    /// In the journal only.
    Away,
    /// The entry is gone.
    Gone,
}

impl Index {
    /// Takes entries out for nobody: ready ones, or after a start any. The ranges have no others
    /// in them. Tells which were there, in order.
    pub(crate) fn take_to_die(&mut self, ranges: &[Range]) -> Vec<Sequence> {
        let mut taken = Taken {
            durable: self.durable,
            entries: Vec::new(),
        };
        self.remove_ranges(ranges, &mut taken);
        let mut sequences: Vec<Sequence> = taken.entries.iter().map(Held::sequence).collect();
        sequences.sort_unstable();
        for held in taken.entries {
            self.content_bytes += held.held_bytes();
            self.unsettled.insert(held);
        }
        sequences
    }

    /// Where the message of an entry that was taken out is.
    pub(crate) fn remains(&self, sequence: Sequence) -> Remains {
        match self.unsettled.get(sequence) {
            None => Remains::Gone,
            Some(held) => match &held.content {
                Some(message) => Remains::Here(Arc::clone(message)),
                None if held.asked => Remains::Asked,
                None => Remains::Away,
            },
        }
    }

    /// As [`Index::ask`], of entries that were taken out.
    pub(crate) fn ask_dying(
        &mut self,
        dying: impl Iterator<Item = Sequence>,
        max: RunMax,
    ) -> Vec<Wanted> {
        let mut asking = Asking::of(max);
        for sequence in dying.take(max.messages) {
            let Some(held) = self.unsettled.get_mut(sequence) else {
                continue;
            };
            if !asking.ask(held) {
                break;
            }
        }
        self.note_asked(&asking.wanted);
        asking.wanted
    }

    /// Takes in a message of an entry that was taken out.
    pub(super) fn provide_dying(
        &mut self,
        sequence: Sequence,
        content: Option<Arc<Message>>,
    ) -> bool {
        let held = self.unsettled.get_mut(sequence);
        let Some(held) = held.filter(|held| held.asked) else {
            return false;
        };
        held.asked = false;
        if content.is_some() && held.content.is_none() {
            held.content = content;
            self.content_bytes += held.held_bytes();
        }
        true
    }

    /// Lets the message of an entry go that has to wait, if it can be read again.
    pub(crate) fn strip_dying(&mut self, sequence: Sequence) {
        if let Some(held) = self.unsettled.get_mut(sequence) {
            self.content_bytes -= held.strip();
        }
    }
}
