//! Retained messages on their way to new subscriptions.
//!
//! They enter the session's queue by reference, some at a time, as the client takes them: a
//! subscription to all of a million topics costs the memory of a few hundred entries.

use bytes::Bytes;
use menzil_model::fact::{Packed, StoredEntry};
use menzil_model::{Fact, QueueId};

use super::super::Shard;
use super::apply::item_of;
use crate::mqtt::{Grant, Options, Piece, RetainedTopics, shared_filter};
use crate::queue::{needs_of, place_in_session};
use crate::slots::Place;
use crate::turn::Turn;

/// Bytes of a retained message in a checkpoint beside its topic.
const KEPT_BYTES: u64 = 40;

/// Entries that wait in a session's queue while more are to come.
const AHEAD: u64 = 256;

/// Retained messages on their way to a subscription.
#[derive(Clone, Debug)]
pub(in super::super) struct Sending {
    session: QueueId,
    place: Place,
    filter: Bytes,
    options: Options,
    /// The last topic that was sent.
    behind: Option<Vec<u8>>,
}

impl Shard {
    /// A new subscription gets what its filter matches.
    pub(super) fn send_retained(
        &mut self,
        turn: &mut Turn<'_>,
        (session, place): (QueueId, Place),
        filter: Bytes,
        options: Options,
    ) {
        if shared_filter(&filter).is_some() || self.sessions.retained.len() == 0 {
            return;
        }
        self.stop_sending(session, &filter);
        let id = self.sessions.next_sending;
        self.sessions.next_sending += 1;
        let sending = Sending {
            session,
            place,
            filter,
            options,
            behind: None,
        };
        self.sessions.sending.insert(id, sending);
        self.go_on_sending(turn, id);
    }

    /// The subscription is gone.
    pub(super) fn stop_sending(&mut self, session: QueueId, filter: &[u8]) {
        let sending = &mut self.sessions.sending;
        sending.retain(|_, one| one.session != session || one.filter != filter);
    }

    pub(super) fn stop_all_sending(&mut self, session: QueueId) {
        let sending = &mut self.sessions.sending;
        sending.retain(|_, one| one.session != session);
    }

    /// The session's queue may have room for more.
    pub(in super::super) fn refill_session(&mut self, turn: &mut Turn<'_>, session: QueueId) {
        if self.sessions.sending.is_empty() {
            return;
        }
        let of_session = self.sessions.sending.iter();
        let ids: Vec<u64> = of_session
            .filter(|(_, sending)| sending.session == session)
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.go_on_sending(turn, id);
        }
    }

    fn go_on_sending(&mut self, turn: &mut Turn<'_>, id: u64) {
        let Some(sending) = self.sessions.sending.get(&id) else {
            return;
        };
        let Some(queue) = self.queues.at(sending.place, sending.session) else {
            self.sessions.sending.remove(&id);
            return;
        };
        let ready = queue.index.ready_count();
        if ready > AHEAD / 2 {
            return;
        }
        let most = usize::try_from(AHEAD - ready).unwrap_or(usize::MAX);
        let retained = &self.sessions.retained;
        let (found, is_end) = retained.find(&sending.filter, sending.behind.as_deref(), most);
        let (session, qos) = (sending.session, sending.options.qos());
        let first = queue.next_sequence;
        let living = found
            .iter()
            .filter(|(_, kept)| kept.expires_at.is_none_or(|at| at > turn.now));
        let entries = (first..).zip(living).map(|(counter, (_, kept))| {
            let grant = Grant {
                qos: qos.min(kept.qos),
                retain: true,
                sent: false,
                shared: false,
            };
            StoredEntry {
                sequence: place_in_session(counter, grant.bits()),
                origin: kept.origin,
                extent: kept.extent,
                expires_at: kept.expires_at,
            }
        });
        let entries = Packed::pack(entries);
        let durable = queue.definition.durable;
        let last = found.into_iter().next_back();
        if let Some(sending) = self.sessions.sending.get_mut(&id)
            && let Some((topic, _)) = last
        {
            sending.behind = Some(topic);
        }
        if is_end {
            self.sessions.sending.remove(&id);
        }
        if let Some(entries) = entries {
            let queue = session;
            self.record(turn, Fact::Copied { queue, entries }, durable);
            self.touch(session);
        }
    }

    /// All of them at this moment.
    pub(in super::super) fn share_retained(&self) -> Vec<Piece> {
        self.sessions.retained.share()
    }

    /// The records that they need.
    pub(in super::super) fn retained_needs(&self, each: &mut dyn FnMut(u64, u64)) {
        for piece in self.sessions.retained.share() {
            for (_, kept) in RetainedTopics::topics_of(&piece) {
                needs_of(&item_of(&kept), &mut |first, count| each(first, count));
            }
        }
    }

    /// About how many bytes they take in a checkpoint.
    pub(in super::super) fn retained_bytes_of_checkpoint(&self) -> u64 {
        let retained = &self.sessions.retained;
        KEPT_BYTES * retained.len() as u64 + retained.bytes()
    }

    /// Retained messages whose time is over go.
    pub(in super::super) fn expire_retained(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..EXPIRED_AT_ONCE {
            let Some((at, topic)) = self.sessions.retained_expiry.first().cloned() else {
                return;
            };
            if at > turn.now {
                return;
            }
            self.record(turn, Fact::Retained { topic, kept: None }, true);
        }
    }

    /// When the next of them goes.
    pub(in super::super) fn retained_deadline(&self) -> Option<u64> {
        self.sessions.retained_expiry.first().map(|(at, _)| *at)
    }
}

/// Retained messages that one turn lets go; the rest follow in the next.
const EXPIRED_AT_ONCE: usize = 1000;
