//! What waits in the queue of a group goes to its members.
//!
//! A member is lent what its client can take at once, and a few entries more while their messages
//! are being read: who is slow holds up nothing that others could take.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use menzil_model::fact::{Entry, Lent, Packed, SessionChange, StoredEntry};
use menzil_model::{Fact, Message, QueueId, Sequence};

use super::super::Shard;
use crate::channel::HeldPublish;
use crate::mqtt::{Grant, Group, Link, Member, Session, TopicNotes};
use crate::queue::{Item, Overflow, needs_of, place_in_session};
use crate::slots::Place;
use crate::turn::Turn;

/// Entries that wait in a member's queue, at most, when it is lent more.
const AHEAD: u64 = 32;

/// Entries that are lent with one record.
const LENT_AT_ONCE: usize = 256;

/// An entry on its way to a member.
#[derive(Debug)]
struct Loan {
    entry: StoredEntry,
    there: Sequence,
    content: Option<Arc<Message>>,
}

/// What is to be recorded, by session.
type Loans = BTreeMap<QueueId, Vec<Loan>>;

impl Shard {
    /// Lends until the queue is empty or no member can take more.
    pub(in super::super) fn lend(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) {
        let filter = self
            .queues
            .at(place, id)
            .and_then(|queue| queue.group.clone());
        let Some(filter) = filter else {
            return;
        };
        while !self.over.has(id) && self.lend_some(turn, (id, place), &filter) {}
    }

    /// True where there may be more to lend.
    fn lend_some(
        &mut self,
        turn: &mut Turn<'_>,
        (id, place): (QueueId, Place),
        filter: &Bytes,
    ) -> bool {
        let mut loans = Loans::new();
        let mut count = 0;
        while count < LENT_AT_ONCE {
            let head = self
                .queues
                .at(place, id)
                .and_then(|queue| queue.index.head().copied());
            let Some(head) = head else {
                break;
            };
            if head.expires_at.is_some_and(|at| at < turn.now) {
                if self.expire_now(turn, id) {
                    continue;
                }
                break;
            }
            let Some((at, session, member)) = self.next_taker(filter, &head, &loans) else {
                break;
            };
            if let Some(group) = self.sessions.groups.get_mut(filter) {
                group.has_turn(at);
            }
            self.lend_head(turn, (id, place), (session, member), &mut loans);
            count += 1;
        }
        self.record_loans(turn, id, loans);
        count == LENT_AT_ONCE
    }

    /// Whether a member could have the head.
    pub(super) fn can_lend(&self, now: u64, (id, place): (QueueId, Place), filter: &Bytes) -> bool {
        let queue = self.queues.at(place, id);
        let head = queue.and_then(|queue| queue.index.head());
        let living = head.filter(|head| head.expires_at.is_none_or(|at| at >= now));
        !self.over.has(id)
            && living.is_some_and(|head| self.next_taker(filter, head, &Loans::new()).is_some())
    }

    /// The first member in the group's line that can take that entry, and where it stands.
    fn next_taker(
        &self,
        filter: &Bytes,
        head: &Item,
        loans: &Loans,
    ) -> Option<(usize, QueueId, Member)> {
        let group = self.sessions.groups.get(filter)?;
        let mut line = group.line().enumerate();
        let found = line.find(|(_, (id, member))| {
            let pending = loans.get(id).map_or(&[][..], Vec::as_slice);
            self.has_room_to_lend((*id, member.place), head, pending)
        });
        found.map(|(at, (id, member))| (at, id, member))
    }

    /// Whether a session's client would take one more at once, or soon.
    fn has_room_to_lend(
        &self,
        (id, place): (QueueId, Place),
        head: &Item,
        pending: &[Loan],
    ) -> bool {
        let Some(queue) = self.queues.at(place, id) else {
            return false;
        };
        let Some(session) = queue.session.as_deref() else {
            return false;
        };
        let Some(link) = session.link else {
            return false;
        };
        let connection = self.connections.at(link.place, link.connection);
        let bytes: u64 = pending
            .iter()
            .map(|loan| loan.entry.extent.total_bytes)
            .sum();
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let waiting = queue.index.ready_count() + pending.len() as u64;
        let out = session.in_flight.len() as u64;
        let next = place_in_session(queue.next_sequence + pending.len() as u64, 0);
        // What is of QoS 0 needs no room, but waits behind what does.
        let passes = Grant::of(head.sequence).qos == 0 && waiting == 0;
        connection.is_some_and(|connection| connection.credit > bytes)
            && waiting < AHEAD
            && (passes
                || out + waiting < u64::from(link.receive_max) && session.has_room_for(&link, next))
    }

    /// The head goes to a member. Of what the journal has to know the record is still to be made.
    fn lend_head(
        &mut self,
        turn: &mut Turn<'_>,
        (id, place): (QueueId, Place),
        (session, member): (QueueId, Member),
        loans: &mut Loans,
    ) {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return;
        };
        let Some((item, content)) = queue.index.take_head() else {
            return;
        };
        queue.content.warm();
        let there = item.sequence;
        let content = content.or_else(|| queue.index.content_out(there).cloned());
        let published = Grant::of(there);
        let grant = Grant {
            qos: published.qos.min(member.options.qos()),
            retain: published.retain && member.options.retain_as_published(),
            sent: false,
            shared: true,
        };
        let pending = loans.get(&session).map_or(0, |loans| loans.len() as u64);
        let Some(target) = self.queues.at(member.place, session) else {
            return;
        };
        let here = place_in_session(target.next_sequence + pending, grant.bits());
        let entry = StoredEntry {
            sequence: here,
            ..item.to_stored()
        };
        let loan = Loan {
            entry,
            there,
            content,
        };
        if item.durable && member.durable && grant.qos > 0 {
            loans.entry(session).or_default().push(loan);
        } else {
            self.lend_unrecorded(turn, (id, item.durable), (session, member.place), loan);
        }
    }

    /// Lends an entry that the group's queue or the session has for itself alone. What the
    /// journal has of it stays as it is: after a crash it is ready there again.
    fn lend_unrecorded(
        &mut self,
        turn: &mut Turn<'_>,
        (group, is_durable): (QueueId, bool),
        (session, place): (QueueId, Place),
        loan: Loan,
    ) {
        let there = loan.there;
        let queue = self.queues.get(&group);
        let due = queue.and_then(|queue| queue.mark.due(there));
        // What is of another quality leaves the group's queue before it is sent.
        let may_come_again = is_durable && Grant::of(loan.entry.sequence).qos == 1;
        let marked = match due.filter(|_| may_come_again) {
            Some(below) => self.record(
                turn,
                Fact::Delivering {
                    queue: group,
                    below,
                },
                true,
            ),
            None => 0,
        };
        let item = Item::unpacked(loan.entry, false);
        needs_of(&item, &mut |first, count| turn.log.retain_run(first, count));
        let Some(queue) = self.queues.at_mut(place, session) else {
            return;
        };
        queue.moved.note(false, marked);
        queue.note_place(item.sequence);
        queue.counters.entered += 1;
        queue.index.insert(item, loan.content, u64::MAX);
        let link = Link {
            group,
            there,
            durable: false,
        };
        if let Some(session) = queue.session.as_deref_mut() {
            session.lent.insert(item.sequence, link);
        }
        self.touch_at(session, place);
    }

    /// One record for all that is lent and that the journal has to know of.
    fn record_loans(&mut self, turn: &mut Turn<'_>, group: QueueId, loans: Loans) {
        if loans.is_empty() {
            return;
        }
        let mut facts = Vec::new();
        for (session, loans) in &loans {
            let queue = *session;
            let Some(entries) = Packed::pack(loans.iter().map(|loan| loan.entry)) else {
                continue;
            };
            facts.push(Fact::Copied { queue, entries });
            let entries = loans.iter().map(|loan| Lent {
                here: loan.entry.sequence,
                there: loan.there,
            });
            let entries = entries.collect();
            facts.push(Fact::Session {
                session: queue,
                change: SessionChange::Lent { group, entries },
            });
            facts.extend(self.mark_of_loan(queue, loans));
        }
        self.record(turn, Fact::Group(facts), true);
        for (session, loans) in loans {
            if let Some(queue) = self.queues.get_mut(&session) {
                for loan in loans {
                    queue.index.hold(loan.entry.sequence, loan.content);
                }
            }
            self.touch(session);
        }
    }

    /// One that goes out in this turn for sure is marked as such in the same record.
    fn mark_of_loan(&self, session: QueueId, loans: &[Loan]) -> Option<Fact> {
        let [loan] = loans else {
            return None;
        };
        let queue = self.queues.get(&session)?;
        let sequence = loan.entry.sequence;
        let is_next =
            queue.index.ready_count() == 0 && loan.content.is_some() && Grant::of(sequence).qos > 0;
        is_next.then_some(Fact::Delivering {
            queue: session,
            below: Sequence(sequence.0 + 1),
        })
    }

    /// The session's client can take more: its groups may have some.
    pub(super) fn take_from_groups(&mut self, now: u64, (id, place): (QueueId, Place)) {
        let session = self.session((id, place));
        if session.is_none_or(|session| session.shares == 0) {
            return;
        }
        let filters = session.map(Session::shared_filters);
        for filter in filters.unwrap_or_default() {
            let group = self.sessions.groups.get(&filter);
            if let Some(queue) = group.and_then(|group| group.queue)
                && let Some(place) = self.queues.place(&queue)
                && self.can_lend(now, (queue, place), &filter)
            {
                self.touch_at(queue, place);
            }
        }
    }

    /// Asks the queue of a group, which gets an entry unless nobody waits for such messages or it
    /// has too many.
    pub(super) fn ask_group(
        &mut self,
        now: u64,
        held: &HeldPublish,
        ((id, place), is_stored): ((QueueId, Place), bool),
    ) -> Option<Entry> {
        let queue = self.queues.at(place, id)?;
        let group = queue.group.as_ref();
        let group = group.and_then(|filter| self.sessions.groups.get(filter));
        let is_attended = group.is_some_and(Group::is_attended);
        let has_taker = is_attended || !queue.line.is_unused();
        let published = TopicNotes::read(held.message.notes()).unwrap_or_default();
        if published.qos == 0 && !has_taker && !self.settings.sessions.queue_qos0 {
            self.counters.session_offline_dropped += 1;
            return None;
        }
        let is_over = queue.is_over(1, held.message.body_bytes());
        if is_over && queue.settings.overflow != Overflow::DropHead {
            self.counters.session_limit_dropped += 1;
            if let Some(queue) = self.queues.at_mut(place, id) {
                queue.counters.refused += 1;
            }
            return None;
        }
        let grant = Grant {
            qos: published.qos,
            retain: held.retain,
            ..Grant::default()
        };
        Some(Entry {
            queue: id,
            sequence: queue.place(grant.bits(), now, 0),
            expires_at: queue.expires_at(now, held.ttl),
            durable: is_stored,
        })
    }
}
