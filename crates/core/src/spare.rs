//! The memory of small messages that are gone, for those that come: a transient message that is
//! out to be acknowledged lives for so short a time that getting and giving its memory would cost
//! more than all else that is done with it.

use std::sync::Arc;

use menzil_model::Message;

use crate::command::{Body, PublishRef};

/// Messages kept that are one piece of memory: what consumers have out, and a backlog that comes
/// and goes. They take two mebibytes.
const SHORT_MAX: usize = 10_000;

/// Others are kept while there are no more than this, what a few consumers with a usual prefetch
/// have out.
const LONG_MAX: usize = 1024;

/// Still longer ones are mostly copying anyway. What is kept of these takes a mebibyte and a half.
const LONG_BYTES_MAX: u64 = 1300;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    messages: Vec<Arc<Message>>,
}

impl Spare {
    /// An entry let go of its message. Others may hold it still.
    #[inline]
    pub(crate) fn keep(&mut self, message: Option<Arc<Message>>) {
        let Some(message) = message else { return };
        let is_kept = if message.is_one_piece() {
            self.messages.len() < SHORT_MAX
        } else {
            self.messages.len() < LONG_MAX
                && message.chunks().is_empty()
                && message.total_bytes() <= LONG_BYTES_MAX
        };
        if is_kept {
            self.messages.push(message);
        }
    }

    /// The message of a publish.
    #[inline]
    pub(crate) fn message(&mut self, publish: &PublishRef<'_>) -> Arc<Message> {
        match publish.body {
            Body::Whole(body) => {
                let spare = self.messages.pop();
                Message::copied_into(
                    spare,
                    publish.exchange,
                    publish.routing_key,
                    publish.properties,
                    body,
                )
            }
            Body::Parts(_) => Arc::new(publish.message(usize::MAX)),
        }
    }

    /// Gives some away, no more than `count`.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Arc<Message>> {
        let kept = self.messages.len().saturating_sub(count);
        self.messages.split_off(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(body: &[u8]) -> PublishRef<'_> {
        PublishRef {
            exchange: b"x",
            routing_key: b"key",
            properties: b"\0\0",
            body: Body::Whole(body),
            mandatory: false,
        }
    }

    #[test]
    fn memory_is_used_again_when_nobody_else_has_it() {
        let mut spare = Spare::default();
        let first = spare.message(&publish(b"one"));
        let at = Arc::as_ptr(&first);
        spare.keep(Some(Arc::clone(&first)));
        let second = spare.message(&publish(b"two"));
        assert_eq!(first.inline_body(), b"one", "it is held here still");
        spare.keep(Some(first));
        let third = spare.message(&publish(b"three"));
        assert_eq!(
            (Arc::as_ptr(&third), third.inline_body()),
            (at, &b"three"[..])
        );
        assert_eq!(second.inline_body(), b"two");
    }

    #[test]
    fn no_more_is_kept_than_a_little() {
        let mut spare = Spare::default();
        let long = |length| Some(Arc::new(publish(&vec![7; length]).message(9999)));
        for _ in 0..2 * LONG_MAX {
            spare.keep(long(5000));
            spare.keep(long(1000));
        }
        assert_eq!(spare.messages.len(), LONG_MAX);
        for _ in 0..2 * SHORT_MAX {
            spare.keep(long(1));
        }
        assert_eq!(spare.messages.len(), SHORT_MAX);
        assert_eq!(spare.take(7).len(), 7);
        drop(spare.message(&publish(b"x")));
        assert_eq!(spare.take(usize::MAX).len(), SHORT_MAX - 8);
    }
}
