//! What waits in exchanges, as one list.

use super::letter::Letter;
use super::{Host, Taken};
use crate::plan::{Exchange, Overflow, To};

/// A message that an exchange keeps until it is due. It is on disk, whatever it says.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    exchange: Exchange,
    due_at: u64,
    number: u64,
    letter: Letter,
}

impl Exchange {
    pub(super) fn of(to: To) -> Self {
        match to {
            To::Queue(_) => Self::Default,
            To::Fanout => Self::Fanout,
            To::Direct(_) => Self::Direct,
            To::Later(_) => Self::Later,
            To::Slow => Self::Slow,
        }
    }
}

impl Letter {
    /// Whether it is to wait there.
    pub(super) fn waits_in(&self, exchange: Exchange) -> bool {
        Exchange::DELAYING.contains(&exchange) && self.delay.is_some_and(|delay| delay > 0)
    }
}

impl Host {
    pub(super) fn keep(&mut self, exchange: Exchange, letter: Letter) {
        let number = self.number();
        let delay = u64::try_from(letter.delay.unwrap()).unwrap();
        self.waiting.push(Waiting {
            exchange,
            due_at: self.now + delay,
            number,
            letter,
        });
        self.waiting
            .sort_by_key(|one| (one.exchange, one.due_at, one.number));
    }

    /// Exchanges with something that is due.
    pub(super) fn due(&self) -> Vec<Exchange> {
        let is_due = |exchange: &Exchange| {
            let mut waiting = self.waiting.iter();
            waiting.any(|one| one.exchange == *exchange && one.due_at <= self.now)
        };
        Exchange::DELAYING.into_iter().filter(is_due).collect()
    }

    /// The first one goes where a publish would go now.
    pub(super) fn send_due(&mut self, exchange: Exchange) {
        let is_it = |one: &Waiting| one.exchange == exchange;
        let at = self.waiting.iter().position(is_it).unwrap();
        let mut letter = self.waiting.remove(at).letter;
        letter.delay = letter.delay.map(|delay| -delay);
        let targets = self.route(exchange, &letter.key);
        self.is_refused_when_due |= targets.iter().any(|queue| self.leaves(*queue, &letter));
        self.put(&targets, &letter);
    }

    /// Whether a queue refuses it, and it waits for that one.
    fn leaves(&self, queue: u8, letter: &Letter) -> bool {
        let settings = &self.queues[&queue].settings;
        let dies = settings.overflow == Overflow::RejectDead && settings.dead.is_some();
        !dies && matches!(self.verdict(queue, letter, &[]), Taken::Refused)
    }

    pub(super) fn cancel_delay(&mut self, nth: u64) {
        let at = nth % self.waiting.len() as u64;
        self.waiting.remove(at as usize);
    }

    /// When each exchange sends on what it keeps.
    pub(crate) fn waiting(&self) -> Vec<(Exchange, u64)> {
        let all = self.waiting.iter();
        all.map(|one| (one.exchange, one.due_at)).collect()
    }

    pub(super) fn waiting_texts(&self) -> Vec<(Exchange, u64, String)> {
        let all = self.waiting.iter();
        all.map(|one| (one.exchange, one.due_at, one.letter.text()))
            .collect()
    }
}
