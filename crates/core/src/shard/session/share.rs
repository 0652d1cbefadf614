//! Shared subscriptions: groups of sessions that take from one queue.

use bytes::Bytes;
use menzil_model::fact::{GivenBack, Lent, Origin, QueueDefinition, SessionChange, Why};
use menzil_model::{Fact, QueueId, Sequence, TableBuilder, Value};

use super::super::Shard;
use crate::mqtt::{
    GROUP_ARGUMENT, Grant, Link, Member, Session, name_of_group, plain_filter, shared_filter,
};
use crate::queue::{Queue, whole_counter};
use crate::releases::Counted;
use crate::slots::Place;
use crate::turn::Turn;

impl Shard {
    /// Makes the groups that these subscriptions name and that are not there. Returns the index
    /// that this waits for.
    pub(super) fn make_groups(&mut self, turn: &mut Turn<'_>, facts: &[Fact]) -> u64 {
        let mut made: Vec<Fact> = Vec::new();
        let mut filters: Vec<&Bytes> = facts.iter().filter_map(shared_filter_of).collect();
        filters.sort_unstable();
        filters.dedup();
        for filter in filters {
            let group = self.sessions.groups.get(filter);
            if group.is_none_or(|group| group.queue.is_none()) {
                let id = QueueId(self.next_queue + made.len() as u64);
                made.push(Fact::QueueDeclared(self.queue_for_group(id, filter)));
            }
        }
        match made.len() {
            0 => 0,
            _ => self.record(turn, Fact::Group(made), true),
        }
    }

    /// A group's queue has the limits of a session's.
    fn queue_for_group(&self, id: QueueId, filter: &Bytes) -> QueueDefinition {
        let rules = &self.settings.sessions;
        let number = |number: u64| Value::I64(i64::try_from(number).unwrap_or(i64::MAX));
        let overflow: &[u8] = match rules.limit {
            super::SessionLimit::DropOldest => b"drop-head",
            super::SessionLimit::DropNewest | super::SessionLimit::Disconnect => b"reject-publish",
        };
        let mut name = name_of_group(filter);
        if self.queue_id(name.as_bytes()).is_some() {
            // Of a filter with the same hash.
            let other = [filter.as_ref(), &id.0.to_be_bytes()].concat();
            name = name_of_group(&other);
        }
        let arguments = TableBuilder::new()
            .field("x-max-length", number(rules.messages_max))
            .field("x-max-length-bytes", number(rules.bytes_max))
            .field("x-overflow", Value::LongString(overflow))
            .field(
                &String::from_utf8_lossy(GROUP_ARGUMENT),
                Value::LongString(filter),
            );
        QueueDefinition {
            id,
            name,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.build(),
        }
    }

    pub(in super::super) fn apply_group_declared(&mut self, queue: Queue, filter: &Bytes) {
        let (id, name) = (queue.definition.id, queue.definition.name.clone());
        self.queues.insert(id, queue);
        let Some(place) = self.queues.place(&id) else {
            return;
        };
        self.sessions.groups.set_queue(filter, name, id);
        self.sessions.tree.share(plain_filter(filter), (id, place));
        self.topology.forget_ways();
    }

    pub(in super::super) fn apply_group_deleted(
        &mut self,
        definition: &QueueDefinition,
        filter: &Bytes,
    ) {
        let groups = &mut self.sessions.groups;
        groups.forget_queue(filter, &definition.name);
        let tree = &mut self.sessions.tree;
        tree.unshare(plain_filter(filter), definition.id);
        self.topology.forget_ways();
    }

    /// The session is a member of a group.
    pub(super) fn apply_joined(&mut self, (id, place): (QueueId, Place), filter: &Bytes) {
        let Some(queue) = self.queues.at(place, id) else {
            return;
        };
        let Some(session) = queue.session.as_deref() else {
            return;
        };
        let subscribed = session.subscriptions.get(filter);
        let member = Member {
            place,
            options: subscribed.map(|one| one.options).unwrap_or_default(),
            durable: queue.definition.durable,
        };
        let has_client = session.link.is_some();
        self.sessions.groups.join(filter, id, member, has_client);
    }

    /// Entries came from a group, as a fact says: they are out there.
    pub(super) fn apply_lent(&mut self, id: QueueId, group: QueueId, entries: &[Lent]) {
        let Some(session) = self.session_by_id(id) else {
            return;
        };
        for lent in entries {
            let link = Link {
                group,
                there: lent.there,
                durable: true,
            };
            session.lent.insert(lent.here, link);
        }
        let Some(queue) = self.queues.get_mut(&group) else {
            return;
        };
        for lent in entries {
            if !queue.index.is_out(lent.there) {
                queue.index.take_out(lent.there);
            }
        }
    }

    /// Entries go back to their groups.
    pub(super) fn apply_given_back(&mut self, origin: Origin, id: QueueId, entries: &[GivenBack]) {
        for given in entries {
            let Some(queue) = self.queues.get_mut(&id) else {
                return;
            };
            let session = queue.session.as_deref_mut();
            let Some(link) = session.and_then(|session| session.lent.remove(&given.sequence))
            else {
                continue;
            };
            let mut gone = Counted {
                count: 0,
                releases: &mut self.releases,
            };
            queue.index.remove(given.sequence, &mut gone);
            // As if it had never been here.
            queue.counters.entered -= gone.count;
            let Some(group) = self.queues.get_mut(&link.group) else {
                continue;
            };
            if !given.was_sent {
                group.index.put_back_unsent(link.there);
            } else if group.put_back(link.there) {
                group.counters.requeued += 1;
                if let Some(below) = group.mark.due(link.there) {
                    group.mark.advance(below, origin.index);
                }
            }
        }
    }

    /// An entry of a session is gone: it leaves its group's queue too.
    pub(in super::super) fn settle_lent(&mut self, id: QueueId, sequence: Sequence, why: Why) {
        let link = (self.queues.get_mut(&id))
            .and_then(|queue| queue.session.as_deref_mut()?.lent.remove(&sequence));
        if let Some(link) = link {
            self.settle_there(link, why);
        }
    }

    /// An entry that was lent is settled. The journal knows of it by the session's, unless it
    /// does not have that.
    pub(in super::super) fn settle_there(&mut self, link: Link, why: Why) {
        let Some(queue) = self.queues.get_mut(&link.group) else {
            return;
        };
        let there = link.there;
        let Some(durable) = (queue.index).settle(there, &mut self.releases, &mut self.spare) else {
            return;
        };
        let counters = &mut queue.counters;
        *match why {
            Why::Acknowledged => &mut counters.acknowledged,
            Why::Rejected => &mut counters.rejected,
            Why::Expired => &mut counters.expired,
            Why::Overflow => &mut counters.overflowed,
            Why::Purged => &mut counters.purged,
            Why::Damaged => &mut counters.damaged,
            Why::DeliveryLimit => &mut counters.limited,
        } += 1;
        if durable && !link.durable {
            self.settling
                .add_range(link.group, whole_counter(there), why);
        }
    }

    /// The subscription identifier that goes with an entry that came from a group.
    pub(super) fn id_of_share(&self, at: (QueueId, Place), sequence: Sequence) -> Option<u32> {
        let session = self.session(at).filter(|session| session.ids > 0)?;
        let link = session.lent.get(&sequence)?;
        let filter = self.queues.get(&link.group)?.group.as_ref()?;
        let subscribed = session.subscriptions.get(filter)?;
        Some(subscribed.id).filter(|id| *id != 0)
    }

    /// Before a copy is sent that only the group's queue has after a crash: of QoS 0 or 2 it is
    /// nobody else's any more (MQTT-4.8.2-5). Returns the index that it waits for.
    pub(super) fn own_before_sending(
        &mut self,
        turn: &mut Turn<'_>,
        at: (QueueId, Place),
        sequence: Sequence,
    ) -> u64 {
        let Some(session) = self.session_mut(at) else {
            return 0;
        };
        let Some(link) = session.lent.get(&sequence).copied() else {
            return 0;
        };
        let queue = self.queues.get(&link.group);
        let may_go_to_others = Grant::of(sequence).qos == 1 || link.durable;
        if may_go_to_others || !queue.is_some_and(|queue| queue.index.is_durable(link.there)) {
            return 0;
        }
        if let Some(session) = self.session_mut(at) {
            session.lent.remove(&sequence);
        }
        let fact = Fact::Settled {
            queue: link.group,
            ranges: [whole_counter(link.there)].into_iter().collect(),
            why: Why::Acknowledged,
        };
        self.record(turn, fact, true)
    }

    /// What came to the session from groups goes back there, if it is asked for: by how it was
    /// granted, whether it was sent, and from which group.
    fn give_back(
        &mut self,
        turn: &mut Turn<'_>,
        at: (QueueId, Place),
        which: impl Fn(Grant, bool, QueueId) -> bool,
    ) {
        let Some(queue) = self.queues.at_mut(at.1, at.0) else {
            return;
        };
        let Some(session) = queue.session.as_deref() else {
            return;
        };
        let (mut entries, mut groups, mut durable) = (Vec::new(), Vec::new(), false);
        for (sequence, link) in &session.lent {
            let Some(was_sent) = queue.index.was_sent(*sequence) else {
                continue;
            };
            if which(Grant::of(*sequence), was_sent, link.group) {
                let sequence = *sequence;
                entries.push(GivenBack { sequence, was_sent });
                groups.push(link.group);
                durable |= link.durable;
            }
        }
        if entries.is_empty() {
            return;
        }
        let fact = Fact::Session {
            session: at.0,
            change: SessionChange::GivenBack { entries },
        };
        self.record(turn, fact, durable);
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            self.touch(group);
        }
    }

    /// Its subscription with that filter is gone.
    pub(super) fn leave_group(&mut self, turn: &mut Turn<'_>, at: (QueueId, Place), filter: &[u8]) {
        if shared_filter(filter).is_none() {
            return;
        }
        let group = self.sessions.groups.get(filter);
        let queue = group.and_then(|group| group.queue);
        self.give_back(turn, at, |_, was_sent, from| {
            !was_sent && Some(from) == queue
        });
        self.end_groups(turn);
    }

    /// The session ends: what came to it from groups, and is not done with, goes back. What was
    /// sent with QoS 2 is nobody else's (MQTT-4.8.2-5).
    pub(super) fn leave_groups(&mut self, turn: &mut Turn<'_>, at: (QueueId, Place)) {
        self.give_back(turn, at, |grant, was_sent, _| !was_sent || grant.qos == 1);
    }

    /// Groups end that have no members, with what is in their queues.
    pub(super) fn end_groups(&mut self, turn: &mut Turn<'_>) {
        for queue in self.sessions.groups.left_alone() {
            self.delete_queue(turn, queue);
        }
    }

    /// A member's client is there.
    pub(super) fn session_came(&mut self, id: QueueId) {
        for filter in self.shared_filters(id) {
            self.sessions.groups.came(&filter, id);
            let group = self.sessions.groups.get(&filter);
            if let Some(queue) = group.and_then(|group| group.queue) {
                self.touch(queue);
            }
        }
    }

    /// A member's client is gone: what it did not get goes back.
    pub(super) fn session_left(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        for filter in self.shared_filters(id) {
            self.sessions.groups.left(&filter, id);
        }
        if let Some(place) = self.queues.place(&id) {
            self.give_back(turn, (id, place), |_, was_sent, _| !was_sent);
        }
    }

    fn shared_filters(&self, id: QueueId) -> Vec<Bytes> {
        let queue = self.queues.get(&id);
        let session = queue.and_then(|queue| queue.session.as_deref());
        session.map_or_else(Vec::new, Session::shared_filters)
    }

    /// Groups whose queues are in the tree of subscriptions.
    pub(super) fn group_count(&self) -> usize {
        self.sessions.groups.count()
    }

    /// The queue of a group, by its name.
    pub(in super::super) fn queue_of_group(&self, name: &[u8]) -> Option<QueueId> {
        self.sessions.groups.queue(name)
    }

    /// Entries of groups' queues that are out with sessions.
    pub(in super::super) fn lent_count(&self) -> u64 {
        let sessions = self.queues.values();
        let sessions = sessions.filter_map(|queue| queue.session.as_deref());
        let links = sessions.flat_map(|session| session.lent.values());
        links
            .filter(|link| self.queues.contains_key(&link.group))
            .count() as u64
    }

    /// What is lent is out, and no group has something that a member could take.
    pub(super) fn check_groups(&self) {
        self.sessions.groups.check_invariants();
        for queue in self.queues.values() {
            let Some(session) = queue.session.as_deref() else {
                continue;
            };
            for (sequence, link) in &session.lent {
                let group = self.queues.get(&link.group);
                assert!(group.is_none_or(|group| group.index.is_out(link.there)));
                assert!(queue.index.items().any(|item| item.sequence == *sequence));
            }
        }
        for (filter, group) in self.sessions.groups.iter() {
            if let Some(id) = group.queue
                && let Some(place) = self.queues.place(&id)
            {
                assert!(!self.can_lend(0, (id, place), filter), "a group has both");
            }
        }
    }
}

fn shared_filter_of(fact: &Fact) -> Option<&Bytes> {
    let Fact::Session {
        change: SessionChange::Subscribed(subscription),
        ..
    } = fact
    else {
        return None;
    };
    let filter = &subscription.filter;
    shared_filter(filter).map(|_| filter)
}
