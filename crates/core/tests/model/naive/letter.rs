//! A message with what became of it.

use crate::plan::{Mail, To};

/// A message as it is published, or dead-lettered.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) mail: Mail,
    pub(super) body: String,
    pub(super) key: String,
    /// The header, which is negative of what has waited.
    pub(super) delay: Option<i64>,
    pub(super) deaths: Vec<Death>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Death {
    queue: u8,
    reason: Reason,
    count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Expired,
    Rejected,
    MaxLength,
    DeliveryLimit,
}

impl Letter {
    pub(super) fn new(mail: &Mail, body: &str) -> Self {
        let key = match mail.to {
            To::Queue(queue) => format!("q{queue}"),
            To::Fanout | To::Slow => String::new(),
            To::Direct(key) | To::Later(key) => key.to_string(),
        };
        Self {
            mail: *mail,
            body: body.to_owned(),
            key,
            delay: mail.delay.map(i64::from),
            deaths: Vec::new(),
        }
    }

    /// Dies in that queue, once more.
    pub(super) fn die(&mut self, queue: u8, reason: Reason) {
        let same = self
            .deaths
            .iter()
            .position(|death| (death.queue, death.reason) == (queue, reason));
        let before = same.map_or(0, |at| self.deaths.remove(at).count);
        self.deaths.insert(
            0,
            Death {
                queue,
                reason,
                count: before + 1,
            },
        );
    }

    /// Whether it went round to that queue without anybody's doing.
    pub(super) fn is_cycle(&self, queue: u8) -> bool {
        let Some(at) = self.deaths.iter().position(|death| death.queue == queue) else {
            return false;
        };
        self.deaths[0].reason != Reason::Rejected
            && self.deaths[..=at]
                .iter()
                .all(|death| death.reason != Reason::Rejected)
    }

    /// The body, and what the headers say of its delay and its deaths.
    pub(super) fn text(&self) -> String {
        let word = |reason| match reason {
            Reason::Expired => "expired",
            Reason::Rejected => "rejected",
            Reason::MaxLength => "maxlen",
            Reason::DeliveryLimit => "delivery_limit",
        };
        let deaths = self
            .deaths
            .iter()
            .map(|one| format!(" q{} {} {}", one.queue, word(one.reason), one.count));
        let delay = self.delay.map(|delay| format!(" delay {delay}"));
        self.body.clone() + &delay.unwrap_or_default() + &deaths.collect::<String>()
    }
}
