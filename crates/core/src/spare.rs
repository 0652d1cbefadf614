//! The memory of small messages that are gone, for those that come: a transient message that is
//! out to be acknowledged lives for so short a time that getting and giving its memory would cost
//! more than all else that is done with it.

use std::sync::Arc;

use menzil_model::Message;

use crate::command::{Body, PublishRef};

/// Messages kept, what a few consumers with a usual prefetch have out.
const SPARE_MAX: usize = 1024;

/// Longer ones are mostly copying anyway. What is kept takes a mebibyte and a half at most.
const MESSAGE_BYTES_MAX: u64 = 1300;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    messages: Vec<Arc<Message>>,
}

impl Spare {
    /// An entry let go of its message. Others may hold it still.
    #[inline]
    pub(crate) fn keep(&mut self, message: Option<Arc<Message>>) {
        if let Some(message) = message
            && self.messages.len() < SPARE_MAX
            && message.total_bytes() <= MESSAGE_BYTES_MAX
            && message.chunks().is_empty()
        {
            self.messages.push(message);
        }
    }

    /// The message of a publish.
    #[inline]
    pub(crate) fn message(&mut self, publish: &PublishRef<'_>) -> Arc<Message> {
        if let Body::Whole(body) = publish.body
            && let Some(mut message) = self.messages.pop()
            && let Some(own) = Arc::get_mut(&mut message)
            && own.become_copied(
                publish.exchange,
                publish.routing_key,
                publish.properties,
                body,
            )
        {
            return message;
        }
        Arc::new(publish.message(usize::MAX))
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
        for _ in 0..2 * SPARE_MAX {
            spare.keep(Some(Arc::new(publish(b"x").message(9))));
        }
        spare.keep(Some(Arc::new(publish(&[7; 5000]).message(9999))));
        assert_eq!(spare.messages.len(), SPARE_MAX);
    }
}
