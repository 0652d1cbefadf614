//! The state that drivers share: queues, consumers, and per connection an outbox.
//!
//! The outbox is where a wake-up could be lost, so its rule stands here. It is *idle* or *busy*.
//! Bytes put into an idle one make it busy and hand the duty to flush it, together with its bytes,
//! to whoever processes the batch. While it is busy nobody else is told: whoever has the duty comes
//! back through [`Shard::written`], which pumps the queues again, hands out what has gathered, and
//! makes it idle only if that is nothing. Both happen under the same exclusive access, so bytes
//! never lie in an outbox that nobody is bound to flush, and ready messages never wait for a
//! consumer that nobody is bound to pump.

use crate::Settings;
use crate::store::Store;
use crate::wire::{Message, put_delivery};
use std::collections::HashMap;

pub type ConnectionId = usize;

pub struct Shard<H> {
    settings: Settings,
    names: HashMap<Vec<u8>, usize>,
    queues: Vec<Queue>,
    outboxes: Vec<Option<Outbox<H>>>,
    /// Outboxes that became busy since they were last handed out.
    dirty: Vec<ConnectionId>,
}

struct Queue {
    ready: Store,
    consumers: Consumers,
}

#[derive(Default)]
struct Consumers {
    all: Vec<Consumer>,
    next: usize,
}

struct Consumer {
    connection: ConnectionId,
    channel: u16,
    /// As a short string.
    tag: Vec<u8>,
    delivery_tag: u64,
}

struct Outbox<H> {
    handle: H,
    bytes: Vec<u8>,
    spare: Vec<u8>,
    busy: bool,
    /// Bytes handed out and not written yet.
    out_bytes: usize,
    /// The queues its consumers read.
    queues: Vec<usize>,
}

impl<H: Clone> Shard<H> {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            names: HashMap::new(),
            queues: Vec::new(),
            outboxes: Vec::new(),
            dirty: Vec::new(),
        }
    }

    pub fn connect(&mut self, handle: impl FnOnce(ConnectionId) -> H) -> ConnectionId {
        let id = self.outboxes.len();
        self.outboxes.push(Some(Outbox {
            handle: handle(id),
            bytes: Vec::new(),
            spare: Vec::new(),
            busy: false,
            out_bytes: 0,
            queues: Vec::new(),
        }));
        id
    }

    pub fn disconnect(&mut self, id: ConnectionId) {
        self.outboxes[id] = None;
        for queue in &mut self.queues {
            queue
                .consumers
                .all
                .retain(|consumer| consumer.connection != id);
        }
    }

    pub fn declare(&mut self, name: &[u8]) {
        if !self.names.contains_key(name) {
            self.names.insert(name.to_vec(), self.queues.len());
            self.queues.push(Queue {
                ready: Store::default(),
                consumers: Consumers::default(),
            });
        }
    }

    pub fn delete(&mut self, name: &[u8]) {
        if let Some(index) = self.names.remove(name) {
            self.queues[index].consumers.all.clear();
            self.queues[index].ready = Store::default();
        }
    }

    pub fn consume(&mut self, name: &[u8], connection: ConnectionId, channel: u16, tag: Vec<u8>) {
        let index = self.names[name];
        self.queues[index].consumers.all.push(Consumer {
            connection,
            channel,
            tag,
            delivery_tag: 0,
        });
        if let Some(outbox) = &mut self.outboxes[connection] {
            outbox.queues.push(index);
        }
        self.pump(index);
    }

    #[inline]
    pub fn queue_of(&self, routing_key: &[u8]) -> Option<usize> {
        self.names.get(routing_key).copied()
    }

    /// Encodes the message for a consumer at once if one has credit, else keeps a copy.
    #[inline]
    pub fn publish(&mut self, index: usize, message: Message<'_>) {
        let queue = &mut self.queues[index];
        if queue.ready.is_empty()
            && let Some(place) =
                queue
                    .consumers
                    .place(&mut self.outboxes, &mut self.dirty, self.settings)
        {
            place.put(message);
        } else {
            queue.ready.push(message);
        }
    }

    pub fn handle(&self, id: ConnectionId) -> Option<H> {
        self.outboxes[id]
            .as_ref()
            .map(|outbox| outbox.handle.clone())
    }

    /// Appends a reply to a connection's own outbox.
    pub fn reply(&mut self, id: ConnectionId, encode: impl FnOnce(&mut Vec<u8>)) {
        if let Some(outbox) = &mut self.outboxes[id] {
            encode(&mut outbox.bytes);
            mark(outbox, id, &mut self.dirty);
        }
    }

    /// Hands out every outbox that became busy, with the duty to flush it.
    pub fn take_dirty(&mut self, mut each: impl FnMut(H, ConnectionId, Vec<u8>)) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            if let Some(outbox) = &mut self.outboxes[id] {
                each(outbox.handle.clone(), id, take(outbox));
            }
        }
        self.dirty = dirty;
    }

    /// Hands out only whose duty it becomes; the bytes stay and go on gathering.
    pub fn take_dirty_handles(&mut self, mut each: impl FnMut(H)) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            if let Some(outbox) = &self.outboxes[id] {
                each(outbox.handle.clone());
            }
        }
        self.dirty = dirty;
    }

    /// What was handed out is written: here is its buffer back. Pumps again, and either hands out
    /// more or makes the outbox idle and returns `None`.
    pub fn written(&mut self, id: ConnectionId, mut buffer: Vec<u8>) -> Option<Vec<u8>> {
        buffer.clear();
        let outbox = self.outboxes.get_mut(id)?.as_mut()?;
        outbox.spare = buffer;
        outbox.out_bytes = 0;
        for place in 0..outbox.queues.len() {
            let Some(outbox) = &self.outboxes[id] else {
                break;
            };
            let index = outbox.queues[place];
            self.pump(index);
        }
        let outbox = self.outboxes[id].as_mut()?;
        if outbox.bytes.is_empty() {
            outbox.busy = false;
            return None;
        }
        Some(take(outbox))
    }

    fn pump(&mut self, index: usize) {
        let Queue { ready, consumers } = &mut self.queues[index];
        while !ready.is_empty()
            && let Some(place) = consumers.place(&mut self.outboxes, &mut self.dirty, self.settings)
        {
            ready.pop(|message| place.put(message));
        }
    }
}

fn take<H>(outbox: &mut Outbox<H>) -> Vec<u8> {
    let bytes = std::mem::replace(&mut outbox.bytes, std::mem::take(&mut outbox.spare));
    outbox.out_bytes = bytes.len();
    bytes
}

#[inline]
fn mark<H>(outbox: &mut Outbox<H>, id: ConnectionId, dirty: &mut Vec<ConnectionId>) {
    if !outbox.busy {
        outbox.busy = true;
        dirty.push(id);
    }
}

impl Consumers {
    /// The next consumer whose connection has byte credit, its outbox marked.
    #[inline]
    fn place<'a, H>(
        &'a mut self,
        outboxes: &'a mut [Option<Outbox<H>>],
        dirty: &mut Vec<ConnectionId>,
        settings: Settings,
    ) -> Option<Place<'a>> {
        let has_credit =
            |outbox: &Outbox<H>| outbox.bytes.len() + outbox.out_bytes < settings.credit_bytes;
        let count = self.all.len();
        let index = (self.next..self.next + count)
            .map(|index| index % count)
            .find(|&index| {
                outboxes[self.all[index].connection]
                    .as_ref()
                    .is_some_and(has_credit)
            })?;
        self.next = index + 1;
        let consumer = &mut self.all[index];
        let outbox = outboxes[consumer.connection].as_mut()?;
        mark(outbox, consumer.connection, dirty);
        consumer.delivery_tag += 1;
        Some(Place {
            out: &mut outbox.bytes,
            consumer,
        })
    }
}

/// Where one message goes.
struct Place<'a> {
    out: &'a mut Vec<u8>,
    consumer: &'a Consumer,
}

impl Place<'_> {
    #[inline]
    fn put(self, message: Message<'_>) {
        let Consumer {
            channel,
            tag,
            delivery_tag,
            ..
        } = self.consumer;
        put_delivery(self.out, *channel, tag, *delivery_tag, message);
    }
}
