//! The messages that queues of a shard hold: content where it is in memory, else the name of
//! the record that has it. One message has one slot, however many queues it reached.
//!
//! Invariant: a slot lives as long as an entry refers to it; a message without content has an
//! origin to fetch it by.

use std::collections::VecDeque;
use std::sync::Arc;

use menzil_model::fact::{Extent, Origin};
use menzil_model::{Map, Message, QueueId};

/// A slot of the store. Reused once the message is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MessageId(u32);

#[derive(Debug)]
struct Slot {
    content: Option<Arc<Message>>,
    extent: Extent,
    /// Index 0 for a transient message.
    origin: Origin,
    references: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Store {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Messages being fetched, by origin, and the queues that wait for them.
    fetching: Map<Origin, (MessageId, Vec<QueueId>)>,
    /// Durable messages with content, oldest first: what is dropped from memory first. May
    /// name a slot that was freed or reused since; the origin tells.
    cached: VecDeque<(MessageId, Origin)>,
    content_bytes: u64,
    content_bytes_max: u64,
    messages: u64,
    /// Records that are needed by one message less, to be told to the journal.
    released: Vec<u64>,
}

/// What [`Store::content`] finds.
pub(crate) enum Content {
    /// The message.
    Here(Arc<Message>),
    /// It is being fetched already; the queue is noted as waiting.
    Underway,
    /// The driver is to fetch it; the queue is noted as waiting.
    Fetch { origin: Origin, chunks: Vec<u64> },
    /// Nobody has it. Cannot happen while the invariant holds.
    Gone,
}

impl Store {
    pub(crate) fn new(content_bytes_max: u64) -> Self {
        Self {
            content_bytes_max,
            ..Self::default()
        }
    }

    /// Takes in a message that `references` entries will name.
    pub(crate) fn insert(
        &mut self,
        content: Option<Arc<Message>>,
        extent: Extent,
        origin: Origin,
        references: u32,
    ) -> MessageId {
        let has_content = content.is_some();
        if has_content {
            self.content_bytes += extent.total_bytes;
        }
        self.messages += 1;
        let slot = Slot {
            content,
            extent,
            origin,
            references,
        };
        let id = if let Some(place) = self.free.pop() {
            MessageId(place)
        } else {
            self.slots.push(None);
            MessageId(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
        };
        if let Some(place) = self.slots.get_mut(id.0 as usize) {
            *place = Some(slot);
        }
        if has_content && origin.index != 0 {
            self.cached.push_back((id, origin));
            self.shrink(Some(id));
        }
        id
    }

    fn slot(&self, id: MessageId) -> Option<&Slot> {
        self.slots.get(id.0 as usize).and_then(Option::as_ref)
    }

    fn slot_mut(&mut self, id: MessageId) -> Option<&mut Slot> {
        self.slots.get_mut(id.0 as usize).and_then(Option::as_mut)
    }

    /// Where the message was published; index 0 for a transient one.
    pub(crate) fn origin(&self, id: MessageId) -> Origin {
        self.slot(id)
            .map_or_else(Origin::default, |slot| slot.origin)
    }

    /// Size of the message and where its large body lies.
    pub(crate) fn extent(&self, id: MessageId) -> Extent {
        self.slot(id)
            .map_or_else(Extent::default, |slot| slot.extent.clone())
    }

    /// Whether the content is in memory.
    pub(crate) fn has_content(&self, id: MessageId) -> bool {
        self.slot(id).is_some_and(|slot| slot.content.is_some())
    }

    /// Bytes of the whole message.
    pub(crate) fn total_bytes(&self, id: MessageId) -> u64 {
        self.slot(id).map_or(0, |slot| slot.extent.total_bytes)
    }

    /// Bytes of content that memory may hold.
    pub(crate) fn content_bytes_max(&self) -> u64 {
        self.content_bytes_max
    }

    /// Messages held.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// Bytes of content in memory.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// The content, for delivery from `queue`.
    pub(crate) fn content(&mut self, id: MessageId, queue: QueueId) -> Content {
        let Some(slot) = self.slots.get(id.0 as usize).and_then(Option::as_ref) else {
            return Content::Gone;
        };
        if let Some(content) = &slot.content {
            return Content::Here(Arc::clone(content));
        }
        if let Some((_, waiting)) = self.fetching.get_mut(&slot.origin) {
            if !waiting.contains(&queue) {
                waiting.push(queue);
            }
            return Content::Underway;
        }
        self.fetching.insert(slot.origin, (id, vec![queue]));
        Content::Fetch {
            origin: slot.origin,
            chunks: slot.extent.chunks.clone(),
        }
    }

    /// Takes in what was fetched. Returns the queues that waited, and the message where its
    /// record could not be read.
    pub(crate) fn fetched(
        &mut self,
        origin: Origin,
        content: Option<Arc<Message>>,
    ) -> (Vec<QueueId>, Option<MessageId>) {
        let Some((id, waiting)) = self.fetching.remove(&origin) else {
            return (Vec::new(), None);
        };
        let Some(slot) = self.slot_mut(id).filter(|slot| slot.origin == origin) else {
            return (waiting, None);
        };
        let Some(content) = content else {
            return (waiting, Some(id));
        };
        if slot.content.is_none() {
            slot.content = Some(content);
            self.content_bytes += self.slot(id).map_or(0, |slot| slot.extent.total_bytes);
            self.cached.push_back((id, origin));
            self.shrink(Some(id));
        }
        (waiting, None)
    }

    /// One entry less names the message; the last one frees it.
    pub(crate) fn release(&mut self, id: MessageId) {
        let Some(slot) = self.slot_mut(id) else {
            debug_assert!(false, "released a message that is not there");
            return;
        };
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        if slot.content.is_some() {
            self.content_bytes -= self.slot(id).map_or(0, |slot| slot.extent.total_bytes);
        }
        if let Some(place) = self.slots.get_mut(id.0 as usize)
            && let Some(slot) = place.take()
        {
            self.forget(slot.origin, &slot.extent);
        }
        self.free.push(id.0);
        self.messages -= 1;
        self.trim_cached();
    }

    /// The records of a message are needed by one message less.
    pub(crate) fn forget(&mut self, origin: Origin, extent: &Extent) {
        if origin.index != 0 {
            self.released.push(origin.index);
            self.released.extend_from_slice(&extent.chunks);
        }
    }

    /// Records that are needed by one message less, each time it happened.
    pub(crate) fn take_released(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.released)
    }

    /// Drops content of durable messages, oldest first, until the budget holds; `keep` was
    /// just asked for and stays.
    fn shrink(&mut self, keep: Option<MessageId>) {
        while self.content_bytes > self.content_bytes_max {
            let Some((id, origin)) = self.cached.pop_front() else {
                return;
            };
            if Some(id) == keep {
                self.cached.push_front((id, origin));
                return;
            }
            let bytes = match self.slot_mut(id) {
                Some(slot) if slot.origin == origin && slot.content.is_some() => {
                    slot.content = None;
                    slot.extent.total_bytes
                }
                _ => 0,
            };
            self.content_bytes -= bytes;
        }
    }

    /// Keeps the list of cached messages from growing past the messages themselves.
    fn trim_cached(&mut self) {
        while let Some(&(id, origin)) = self.cached.front() {
            if self
                .slot(id)
                .is_some_and(|slot| slot.origin == origin && slot.content.is_some())
            {
                break;
            }
            self.cached.pop_front();
        }
        if self.cached.len() as u64 > 2 * self.messages + 1024 {
            let slots = &self.slots;
            self.cached.retain(|(id, origin)| {
                slots
                    .get(id.0 as usize)
                    .and_then(Option::as_ref)
                    .is_some_and(|slot| slot.origin == *origin && slot.content.is_some())
            });
        }
    }

    /// Indexes of all records that are still needed, in no order.
    pub(crate) fn live(&self) -> Vec<u64> {
        let mut live = Vec::new();
        for slot in self
            .slots
            .iter()
            .flatten()
            .filter(|slot| slot.origin.index != 0)
        {
            live.push(slot.origin.index);
            live.extend_from_slice(&slot.extent.chunks);
        }
        live
    }

    /// Checks the sums; for tests.
    pub(crate) fn check_invariants(&self, references: u64) {
        let slots = || self.slots.iter().flatten();
        let counted: u64 = slots().map(|slot| u64::from(slot.references)).sum();
        assert_eq!(
            counted, references,
            "references of messages and entries differ"
        );
        assert_eq!(self.messages, slots().count() as u64);
        let bytes: u64 = slots()
            .filter(|s| s.content.is_some())
            .map(|s| s.extent.total_bytes)
            .sum();
        assert_eq!(self.content_bytes, bytes, "content bytes are off");
        assert!(
            slots().all(|slot| slot.content.is_some() || slot.origin.index != 0),
            "a message without content cannot be fetched"
        );
    }
}
