//! What comes back: how often, how often is too much, and how long it waits.

use super::letter::Reason;
use super::policies::Settings;
use super::{Entry, Host, Place};
use crate::plan::Retry;

impl Settings {
    /// How long an entry waits that came back after so many failures.
    fn rest(&self, failed: u64, has_failed: bool) -> Option<u64> {
        let waits = match self.retry {
            Retry::Disabled => false,
            Retry::All => true,
            Retry::Failed => has_failed,
            Retry::Returned => !has_failed,
        };
        let shortest = self.retry_min.filter(|_| waits)?;
        let longest = self.retry_max.unwrap_or(shortest);
        Some(longest.min(shortest * failed.max(1)))
    }

    fn counts(&self) -> bool {
        let retries = self.retry != Retry::Disabled && self.retry_min.is_some();
        self.failures.is_some() || retries
    }
}

impl Entry {
    /// What is delivered, with what is said of its returns.
    pub(super) fn text(&self) -> String {
        let mut text = self.letter.text();
        if self.acquired > 0 {
            text += &[" came back ", &self.acquired.to_string()].concat();
            text += &[" failed ", &self.failed.to_string()].concat();
        }
        text
    }
}

impl Host {
    pub(super) fn give_back(&mut self, id: u8, place: Place, mut entry: Entry, has_failed: bool) {
        let now = self.now;
        let queue = self.queue(id);
        let settings = &queue.settings;
        if settings.counts() {
            entry.failed += u64::from(has_failed);
            if settings.failures.is_some_and(|most| entry.failed > most) {
                self.end(id, vec![entry], Reason::DeliveryLimit);
                return;
            }
            entry.acquired += 1;
            entry.holder = None;
            if let Some(rest) = settings.rest(entry.failed, has_failed) {
                queue.resting.insert(place, (now + rest, entry));
                return;
            }
        }
        queue.ready.insert(place, entry);
        self.back.insert(id);
    }

    /// What rests expires too.
    pub(super) fn expire_resting(&mut self, id: u8) {
        let now = self.now;
        let queue = self.queue(id);
        let (mut ended, mut left) = (Vec::new(), std::mem::take(&mut queue.resting));
        left.retain(|_, (_, entry)| {
            let is_over = entry.expires_at.is_some_and(|at| at <= now);
            if is_over {
                ended.push(entry.clone());
            }
            !is_over
        });
        queue.resting = left;
        self.end(id, ended, Reason::Expired);
    }

    /// Queues in which entries are to be ready again.
    pub(super) fn rested(&self) -> Vec<u8> {
        let now = self.now;
        let mut all = Vec::new();
        for (id, queue) in &self.queues {
            if queue.resting.values().any(|(at, _)| *at <= now) {
                all.push(*id);
            }
        }
        all
    }

    /// They stand where they stood, and count.
    pub(super) fn end_rest(&mut self, id: u8) {
        let now = self.now;
        let queue = self.queue(id);
        let rested: Vec<Place> = queue
            .resting
            .iter()
            .filter(|(_, (at, _))| *at <= now)
            .map(|(place, _)| *place)
            .collect();
        for place in rested {
            let (_, entry) = queue.resting.remove(&place).unwrap();
            queue.ready.insert(place, entry);
        }
        self.back.insert(id);
        self.trim();
    }
}
