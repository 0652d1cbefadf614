//! Retained messages on their way to new subscriptions.
//!
//! They enter the session's queue by reference, some at a time, as the client takes them: a
//! subscription to all of a million topics costs the memory of a few hundred entries.

use bytes::Bytes;
use menzil_model::fact::{Packed, SessionChange, StoredEntry};
use menzil_model::{Fact, QueueId};

use super::super::Shard;
use super::apply::item_of;
use crate::mqtt::{Grant, Options, Piece, RetainedTopics, Sending, shared_filter};
use crate::queue::{needs_of, place_in_session};
use crate::slots::Place;
use crate::turn::Turn;

/// Bytes of a retained message in a checkpoint beside its topic.
const KEPT_BYTES: u64 = 40;

/// Entries that wait in a session's queue while more are to come.
const AHEAD: u64 = 256;

impl Shard {
    /// The retained messages that a new subscription is to get are on their way to it: the fact
    /// that says so, which is to be recorded with the subscription.
    pub(super) fn retained_for(
        &self,
        session: QueueId,
        filter: &Bytes,
        options: Options,
    ) -> Option<Fact> {
        let retained = &self.sessions.retained;
        if shared_filter(filter).is_some() || retained.len() == 0 {
            return None;
        }
        let (found, _) = retained.find(filter, None, 1);
        (!found.is_empty()).then(|| Fact::Session {
            session,
            change: SessionChange::RetainedBehind {
                filter: filter.clone(),
                options: options.0,
                topic: Bytes::new(),
            },
        })
    }

    /// The session's queue may have room for more.
    pub(in super::super) fn refill_session(&mut self, turn: &mut Turn<'_>, at: (QueueId, Place)) {
        let sending = self.session(at).map(|session| &session.sending);
        let Some(sending) = sending.filter(|sending| !sending.is_empty()) else {
            return;
        };
        for (filter, sending) in sending.clone() {
            self.go_on_sending(turn, at, (filter, sending));
        }
    }

    /// Sends some more: one record has the entries and how far that is.
    fn go_on_sending(
        &mut self,
        turn: &mut Turn<'_>,
        (session, place): (QueueId, Place),
        (filter, Sending { options, behind }): (Bytes, Sending),
    ) {
        let Some(queue) = self.queues.at(place, session) else {
            return;
        };
        let ready = queue.index.ready_count();
        if ready > AHEAD / 2 {
            return;
        }
        let most = usize::try_from(AHEAD - ready).unwrap_or(usize::MAX);
        let retained = &self.sessions.retained;
        let behind = Some(behind.as_ref()).filter(|behind| !behind.is_empty());
        let (found, is_end) = retained.find(&filter, behind, most);
        let first = queue.next_sequence;
        let living = found
            .iter()
            .filter(|(_, kept)| kept.expires_at.is_none_or(|at| at > turn.now));
        let entries = (first..).zip(living).map(|(counter, (_, kept))| {
            let grant = Grant {
                qos: options.qos().min(kept.qos),
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
        let change = match last.filter(|_| !is_end) {
            None => SessionChange::RetainedCame { filter },
            Some((topic, _)) => SessionChange::RetainedBehind {
                filter,
                options: options.0,
                topic: topic.into(),
            },
        };
        let queue = session;
        let mut facts = vec![Fact::Session { session, change }];
        facts.extend(entries.map(|entries| Fact::Copied { queue, entries }));
        self.record(turn, Fact::Group(facts), durable);
        self.touch(session);
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
