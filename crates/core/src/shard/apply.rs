//! What facts do. Nothing here decides or counts numbers out: a fact has them all. The same
//! code runs when a fact is made and when it is read back.

use std::sync::Arc;

use menzil_model::fact::{Origin, Packed, Published, QueueDefinition, Range, SeenKey, Why};
use menzil_model::{Fact, QueueId, Sequence};

use super::Shard;
use crate::mqtt::group_filter;
use crate::policy::settings_of;
use crate::queue::{Item, Queue, Seen};
use crate::releases::Counted;
use crate::slots::Place;

impl Shard {
    /// Applies a fact; `index` is that of its record, 0 where it has none. For recovery the
    /// driver calls it with the facts of a checkpoint and of the records after it, in order.
    pub fn apply(&mut self, index: u64, fact: Fact) {
        let Fact::Group(facts) = fact else {
            self.apply_part(Origin { index, part: 0 }, fact);
            return;
        };
        for (part, fact) in (0..).zip(facts) {
            self.apply_part(Origin { index, part }, fact);
        }
    }

    fn apply_part(&mut self, origin: Origin, fact: Fact) {
        match fact {
            Fact::VirtualHostCreated { name } => self.name = name,
            Fact::ExchangeDeclared(exchange) => {
                self.next_exchange = self.next_exchange.max(exchange.id.0 + 1);
                let id = exchange.id;
                self.apply_stores_declared(&exchange);
                self.topology.declare_exchange(exchange);
                if !self.policies.is_empty() {
                    self.refresh_exchange(id);
                }
            }
            Fact::ExchangeDeleted { id } => {
                self.topology.delete_exchange(id);
                self.apply_stores_deleted(id);
            }
            Fact::QueueDeclared(queue) => self.apply_queue_declared(queue),
            Fact::QueueDeleted { id } => self.apply_queue_deleted(id),
            Fact::Bound(binding) => {
                self.topology.bind(binding);
            }
            Fact::Unbound(binding) => {
                self.topology.unbind(&binding);
            }
            Fact::PolicySet(policy) => {
                self.policies.set(policy);
                self.sweep.start();
            }
            Fact::PolicyCleared { name, is_operator } => {
                self.policies.clear(&name, is_operator);
                self.sweep.start();
            }
            Fact::Chunk(_) => {}
            Fact::Published(published) => self.apply_published(origin, published),
            Fact::Page { queue, entries } | Fact::Copied { queue, entries } => {
                self.apply_page(queue, entries);
            }
            Fact::Seen { queue, keys } => self.apply_seen(queue, &keys),
            Fact::Settled { queue, ranges, why } => self.apply_settled(queue, &ranges, why),
            Fact::Delivering { queue, below } => self.apply_delivering(origin.index, queue, below),
            Fact::Returned { queue, entries } => {
                if let Some(queue) = self.queues.get_mut(&queue) {
                    for returned in &entries {
                        queue.give_back(returned);
                    }
                }
            }
            Fact::Dying { queue, why, ranges } => self.apply_dying(queue, why, &ranges),
            Fact::Session { session, change } => self.apply_session(origin, session, change),
            Fact::Retained { topic, kept } => self.apply_retained(origin, &topic, kept),
            Fact::Group(_) => debug_assert!(false, "groups do not nest"),
            Fact::Numbering { exchange, queue } => {
                self.next_exchange = self.next_exchange.max(exchange);
                self.next_queue = self.next_queue.max(queue);
            }
            Fact::QueueState { queue, next, below } => {
                self.apply_store_named(queue);
                if let Some(queue) = self.queues.get_mut(&queue) {
                    queue.next_sequence = next.0;
                    queue.mark.advance(below, 0);
                }
            }
        }
    }

    fn apply_queue_declared(&mut self, definition: QueueDefinition) {
        let id = definition.id;
        if self.queues.contains_key(&id) {
            return;
        }
        self.next_queue = self.next_queue.max(id.0 + 1);
        let settings = settings_of(&definition, &self.policies);
        let (entries, shelf) = (self.settings.index_page_entries, Arc::clone(&self.shelf));
        if let Some(filter) = group_filter(&definition) {
            let queue = Queue::of_group(definition, settings, filter.clone(), entries, shelf);
            self.apply_group_declared(queue, &filter);
            return;
        }
        self.topology
            .declare_queue_name(definition.name.clone(), id);
        let queue = Queue::new(definition, settings, entries, shelf);
        self.queues.insert(id, queue);
    }

    pub(super) fn apply_queue_deleted(&mut self, id: QueueId) {
        let Some(mut queue) = self.queues.remove(&id) else {
            return;
        };
        self.topology.delete_queue(id);
        if let Some(filter) = &queue.group {
            self.apply_group_deleted(&queue.definition, filter);
        }
        if let Some(session) = &mut queue.session {
            for (_, link) in std::mem::take(&mut session.lent) {
                self.settle_there(link, Why::Purged);
            }
        }
        self.over.forget(id);
        if let Some(at) = queue.timer {
            self.timers.remove(&(at, id));
        }
        self.content
            .forget(queue.content, |id| self.queues.contains_key(id));
        queue.index.clear(&mut Counted {
            count: 0,
            releases: &mut self.releases,
        });
    }

    fn apply_published(&mut self, origin: Origin, published: Published) {
        let Published {
            mut message,
            extent,
            entries,
            keys,
        } = published;
        let stored = entries.iter().any(|entry| entry.durable);
        let origin = if stored { origin } else { Origin::default() };
        let last = entries.len().saturating_sub(1);
        for (at, entry) in entries.iter().enumerate() {
            let item = Item {
                sequence: entry.sequence,
                origin,
                extent,
                expires_at: entry.expires_at,
                durable: entry.durable,
                redelivered: false,
                failed: 0,
                acquired: 0,
            };
            if entry.queue.is_store() {
                self.apply_store_named(entry.queue);
            }
            let Some(queue) = self.queues.get_mut(&entry.queue) else {
                self.releases.entry(&item);
                continue;
            };
            queue.note_place(entry.sequence);
            queue.counters.entered += 1;
            let content = if at == last {
                message.take()
            } else {
                message.clone()
            };
            let reach = if queue.delays() {
                queue.reach_of_delay(item.sequence)
            } else {
                self.content.reach(!queue.line.is_unused())
            };
            if entry.queue.is_store()
                && queue.is_read()
                && let Some(message) = &content
            {
                self.arrived.push((entry.queue, item, Arc::clone(message)));
            }
            queue.index.insert(item, content, reach);
            if let Some(groups) = &mut queue.groups {
                groups.came(item.sequence);
            }
            let key = keys.as_deref().and_then(|keys| keys.in_queue(entry.queue));
            if let (Some(keys), Some(key)) = (keys.as_deref(), key) {
                let (at, index) = (keys.at, if entry.durable { origin.index } else { 0 });
                queue.remember(Seen { key, at, index }, entry.durable);
            }
        }
    }

    fn apply_seen(&mut self, queue: QueueId, keys: &[SeenKey]) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            return;
        };
        for &SeenKey { key, at } in keys {
            queue.remember(Seen { key, at, index: 0 }, true);
        }
    }

    fn apply_page(&mut self, queue: QueueId, entries: Packed) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            return;
        };
        let summary = entries.summary();
        if !queue.delays() {
            queue.note_place(summary.last);
        }
        queue.counters.entered += summary.count;
        if let Some(groups) = &mut queue.groups {
            let entries = entries.entries();
            entries.for_each(|entry| groups.came(entry.sequence));
        }
        queue.index.load(entries, summary);
    }

    fn apply_settled(&mut self, queue: QueueId, ranges: &[Range], why: Why) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            return;
        };
        let mut gone = Counted {
            count: 0,
            releases: &mut self.releases,
        };
        queue.index.remove_ranges(ranges, &mut gone);
        let count = gone.count;
        let is_store = queue.definition.id.is_store();
        let id = queue.definition.id;
        let session = queue.session.as_deref_mut();
        let lent = session.map(|session| session.forget(ranges));
        if let Some(groups) = &mut queue.groups {
            groups.gone(ranges);
        }
        let (queue, shard) = (&mut queue.counters, &mut self.counters);
        let (of_queue, of_shard) = match why {
            Why::Acknowledged => (&mut queue.acknowledged, &mut shard.acknowledged),
            Why::Rejected => (&mut queue.rejected, &mut shard.rejected),
            Why::Expired => (&mut queue.expired, &mut shard.expired),
            Why::Overflow => (&mut queue.overflowed, &mut shard.overflowed),
            Why::DeliveryLimit => (&mut queue.limited, &mut shard.limited),
            Why::Damaged => (&mut queue.damaged, &mut shard.damaged),
            Why::Purged => (&mut queue.purged, &mut 0),
        };
        *of_queue += count;
        // No message is lost by what an exchange no longer keeps.
        *of_shard += if is_store { 0 } else { count };
        for (sequence, _) in lent.unwrap_or_default() {
            self.settle_lent(id, sequence, why);
        }
    }

    /// Settles one entry that is out with a consumer, as a client asks: applied at once, written
    /// with others before the next fact.
    pub(super) fn settle(&mut self, at: (QueueId, Place), sequence: Sequence, why: Why) {
        if self.settle_entry(at, sequence, why) {
            self.settling.add(at.0, sequence, why);
        }
    }

    /// Settles one entry that goes to who acknowledges nothing.
    pub(super) fn settle_unasked(&mut self, at: (QueueId, Place), sequence: Sequence) {
        if self.settle_entry(at, sequence, Why::Acknowledged) {
            self.settling.add_unasked(at.0, sequence);
        }
    }

    /// Whether it is to be written.
    fn settle_entry(&mut self, at: (QueueId, Place), sequence: Sequence, why: Why) -> bool {
        let Some(queue) = self.queues.at_mut(at.1, at.0) else {
            return false;
        };
        let Some(durable) = queue
            .index
            .settle(sequence, &mut self.releases, &mut self.spare)
        else {
            return false;
        };
        queue.settled(sequence);
        let frees_group = queue.groups.is_some();
        match why {
            Why::Acknowledged => {
                queue.counters.acknowledged += 1;
                self.counters.acknowledged += 1;
            }
            Why::DeliveryLimit => {
                queue.counters.limited += 1;
                self.counters.limited += 1;
            }
            Why::Rejected | Why::Expired | Why::Overflow | Why::Purged | Why::Damaged => {
                queue.counters.rejected += 1;
                self.counters.rejected += 1;
            }
        }
        if frees_group {
            self.touch_at(at.0, at.1);
        }
        durable
    }

    fn apply_delivering(&mut self, index: u64, queue: QueueId, below: Sequence) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            return;
        };
        queue.mark.advance(below, index);
    }
}
