//! The outputs of one channel in their decided order, each held back until the journal has
//! committed what it reveals.
//!
//! An output goes when it is the first of the lane and its index is committed. Verdicts of
//! publishes may be overtaken by outputs, but overtake none themselves; what ends the channel
//! overtakes nothing.

use std::collections::VecDeque;

use bytes::Bytes;

use menzil_core::{Output, Reply};

use super::confirms::{Confirms, Verdict};
use super::template::Template;
use crate::violation::Violation;

/// One channel's outputs.
#[derive(Debug, Default)]
pub(super) struct Lane {
    waiting: VecDeque<Waiting>,
    /// Outputs ever released.
    released: u64,
    pub(super) confirms: Confirms,
    /// Of the last delivery.
    pub(super) template: Option<Box<Template>>,
    /// The channel ended by error: only the answer to a client's close follows.
    is_closing: bool,
    /// The next `channel.close-ok` answers a close that the session made up.
    hides_close_ok: bool,
    /// The lane is in the list of those that hold something.
    pub(super) is_listed: bool,
}

#[derive(Debug)]
struct Waiting {
    after: u64,
    item: Item,
}

/// Something to send in order.
#[derive(Debug)]
pub(super) enum Item {
    /// What the core decided.
    Output(Output),
    /// A whole frame.
    Frame(Bytes),
    /// The end of the channel, or of the connection.
    Close(Violation),
    /// The answer to a close of the client's that crossed with ours.
    CloseOk,
}

impl Lane {
    /// Puts an item at the end; gives it back where the channel takes no more.
    pub(super) fn push(&mut self, after: u64, item: Item) -> Option<Item> {
        match &item {
            Item::Output(Output::Reply(Reply::ChannelOpened)) => {
                self.is_closing = false;
                self.hides_close_ok = false;
            }
            Item::Output(Output::Reply(Reply::ChannelClosed)) => {
                if std::mem::take(&mut self.hides_close_ok) {
                    return Some(item);
                }
                // Nothing is sent on a channel between its close-ok and the next open-ok.
                self.is_closing = true;
            }
            Item::CloseOk => {}
            _ if self.is_closing => return Some(item),
            Item::Close(_) => self.is_closing = true,
            Item::Output(_) | Item::Frame(_) => {}
        }
        self.waiting.push_back(Waiting { after, item });
        None
    }

    /// The close that follows from the core is the session's own.
    pub(super) fn hide_close_ok(&mut self) {
        self.hides_close_ok = true;
    }

    /// True where an output that waits for nothing may go at once.
    pub(super) fn is_clear(&self) -> bool {
        self.waiting.is_empty() && !self.is_closing
    }

    /// An output went past the lane, because it was clear.
    pub(super) fn passed(&mut self) {
        self.released += 1;
    }

    /// Notes the fate of a publish.
    pub(super) fn confirm(&mut self, sequence: u64, accepted: bool, after: u64) {
        if !self.is_closing {
            self.confirms.push(Verdict {
                sequence,
                accepted,
                after,
                behind: self.released + self.waiting.len() as u64,
            });
        }
    }

    /// Outputs ever released.
    pub(super) fn released(&self) -> u64 {
        self.released
    }

    /// True where the first item is due, but verdicts go before it.
    pub(super) fn needs_fold(&self, committed: u64) -> bool {
        self.waiting.front().is_some_and(|first| {
            first.after <= committed && ends_channel(&first.item) && self.confirms_precede()
        })
    }

    fn confirms_precede(&self) -> bool {
        self.confirms.precede(self.released)
    }

    /// Takes the first item, if it is due.
    pub(super) fn pop(&mut self, committed: u64) -> Option<Item> {
        let first = self.waiting.front()?;
        let ends = ends_channel(&first.item);
        if first.after > committed || ends && self.confirms_precede() {
            return None;
        }
        self.released += 1;
        if ends {
            self.confirms.restart();
        }
        self.waiting.pop_front().map(|waiting| waiting.item)
    }

    /// Everything that waits, where nothing of it will go.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Item> + '_ {
        self.confirms = Confirms::default();
        self.waiting.drain(..).map(|waiting| waiting.item)
    }

    /// True where nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.confirms.is_empty()
    }

    /// The smallest index above `committed` that something waits for.
    pub(super) fn waits_for(&self, committed: u64) -> Option<u64> {
        let first = self.waiting.front().map(|first| first.after);
        [first, self.confirms.waits_for()]
            .into_iter()
            .flatten()
            .filter(|after| *after > committed)
            .min()
    }
}

fn ends_channel(item: &Item) -> bool {
    matches!(
        item,
        Item::Close(_) | Item::Output(Output::Reply(Reply::ChannelClosed))
    )
}
