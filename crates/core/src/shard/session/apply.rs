//! What facts do to sessions.

use std::sync::Arc;

use bytes::Bytes;
use menzil_model::fact::{Extent, Kept, Origin, QueueDefinition, SessionChange};
use menzil_model::{Name, QueueId, Sequence, Table};

use super::super::Shard;
use super::open::{ends_at, will_at};
use crate::mqtt::{Options, Sending, Session, Subscribed, Subscriber, shared_filter};
use crate::queue::{Item, Overflow, Queue, Settings};

impl Shard {
    pub(in super::super) fn apply_session(
        &mut self,
        origin: Origin,
        id: QueueId,
        change: SessionChange,
    ) {
        match change {
            SessionChange::Opened {
                client_id,
                user,
                durable,
            } => self.apply_opened(id, (client_id, user), durable),
            SessionChange::Ended => self.apply_ended(id),
            SessionChange::State(state) => {
                if let Some(session) = self.session_by_id(id) {
                    let due = [ends_at(&state), will_at(&state)];
                    session.due_at = due.into_iter().flatten().min();
                    session.state = state;
                }
            }
            SessionChange::Subscribed(subscription) => {
                let subscribed = Subscribed {
                    options: Options(subscription.options),
                    id: subscription.id,
                };
                self.apply_subscribed(id, &subscription.filter, subscribed);
            }
            SessionChange::Unsubscribed { filter } => {
                let is_gone = self
                    .session_by_id(id)
                    .is_some_and(|s| s.unsubscribe(&filter));
                if is_gone {
                    self.forget_subscription(id, &filter);
                }
            }
            SessionChange::PacketReceived { packet_id } => {
                if let Some(session) = self.session_by_id(id) {
                    // Of a checkpoint it has no index, and is committed.
                    session.received.insert(packet_id, origin.index.max(1));
                }
            }
            SessionChange::PacketReleased { packet_id } => {
                if let Some(session) = self.session_by_id(id) {
                    session.received.remove(&packet_id);
                }
            }
            SessionChange::DeliveryReceived { sequence } => {
                if let Some(session) = self.session_by_id(id) {
                    session.released.insert(sequence);
                }
            }
            SessionChange::Lent { group, entries } => self.apply_lent(id, group, &entries),
            SessionChange::GivenBack { entries } => self.apply_given_back(origin, id, &entries),
            SessionChange::RetainedBehind {
                filter,
                options,
                topic,
            } => {
                if let Some(session) = self.session_by_id(id) {
                    let (options, behind) = (Options(options), topic);
                    session.sending.insert(filter, Sending { options, behind });
                }
            }
            SessionChange::RetainedCame { filter } => {
                if let Some(session) = self.session_by_id(id) {
                    session.sending.remove(&filter);
                }
            }
        }
    }

    pub(super) fn session_by_id(&mut self, id: QueueId) -> Option<&mut Session> {
        self.queues.get_mut(&id)?.session.as_deref_mut()
    }

    fn apply_opened(&mut self, id: QueueId, (client_id, user): (Bytes, Name), durable: bool) {
        if self.queues.contains_key(&id) {
            return;
        }
        self.next_queue = self.next_queue.max(id.0 + 1);
        let definition = QueueDefinition {
            id,
            name: Name::empty(),
            durable,
            exclusive: false,
            auto_delete: false,
            arguments: Table::empty(),
        };
        let rules = &self.settings.sessions;
        let settings = Settings {
            length_max: Some(rules.messages_max),
            bytes_max: Some(rules.bytes_max),
            overflow: match rules.limit {
                super::SessionLimit::DropOldest => Overflow::DropHead,
                super::SessionLimit::DropNewest | super::SessionLimit::Disconnect => {
                    Overflow::RejectPublish
                }
            },
            ..Settings::default()
        };
        let session = Session::new(client_id.clone(), user);
        let (entries, shelf) = (self.settings.index_page_entries, Arc::clone(&self.shelf));
        let queue = Queue::of_session(definition, settings, session, entries, shelf);
        self.queues.insert(id, queue);
        self.sessions.clients.insert(client_id, id);
    }

    fn apply_ended(&mut self, id: QueueId) {
        let Some(session) = self.session_by_id(id) else {
            return;
        };
        let client_id = session.client_id.clone();
        let subscriptions = std::mem::take(&mut session.subscriptions);
        for filter in subscriptions.keys() {
            self.forget_subscription(id, filter);
        }
        if self.sessions.clients.get(&client_id) == Some(&id) {
            self.sessions.clients.remove(&client_id);
        }
        self.apply_queue_deleted(id);
    }

    fn apply_subscribed(&mut self, id: QueueId, filter: &Bytes, subscribed: Subscribed) {
        let Some(place) = self.queues.place(&id) else {
            return;
        };
        let Some(session) = self.session_by_id(id) else {
            return;
        };
        session.subscribe(filter.clone(), subscribed);
        if shared_filter(filter).is_none() {
            let subscriber = Subscriber {
                session: id,
                place,
                options: subscribed.options,
            };
            self.sessions.tree.subscribe(filter, subscriber);
        } else {
            self.apply_joined((id, place), filter);
        }
        self.topology.forget_ways();
    }

    fn forget_subscription(&mut self, id: QueueId, filter: &[u8]) {
        if shared_filter(filter).is_none() {
            self.sessions.tree.unsubscribe(filter, id);
        } else {
            self.sessions.groups.leave(filter, id);
        }
        self.topology.forget_ways();
    }

    pub(in super::super) fn apply_retained(
        &mut self,
        origin: Origin,
        topic: &Bytes,
        kept: Option<Kept>,
    ) {
        let kept = kept.map(|kept| Kept {
            origin: if kept.origin.index == 0 {
                Origin {
                    index: origin.index,
                    part: kept.origin.part,
                }
            } else {
                kept.origin
            },
            ..kept
        });
        let before = match kept {
            Some(kept) => {
                if let Some(at) = kept.expires_at {
                    self.sessions.retained_expiry.insert((at, topic.clone()));
                }
                self.sessions.retained_bytes += kept.extent.total_bytes;
                self.sessions.retained.set(topic, kept)
            }
            None => self.sessions.retained.clear(topic),
        };
        if let Some(before) = before {
            self.sessions.retained_bytes -= before.extent.total_bytes;
            let ends = before
                .expires_at
                .filter(|at| kept.and_then(|kept| kept.expires_at) != Some(*at));
            if let Some(at) = ends {
                self.sessions.retained_expiry.remove(&(at, topic.clone()));
            }
            self.releases.entry(&item_of(&before));
        }
    }
}

/// A retained message as an entry that needs its record.
pub(super) fn item_of(kept: &Kept) -> Item {
    Item {
        sequence: Sequence(0),
        origin: kept.origin,
        extent: Extent { ..kept.extent },
        expires_at: kept.expires_at,
        durable: true,
        redelivered: false,
        failed: 0,
        acquired: 0,
    }
}
