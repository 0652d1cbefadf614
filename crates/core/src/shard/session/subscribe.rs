//! SUBSCRIBE and UNSUBSCRIBE.

use bytes::Bytes;
use menzil_model::fact::{SessionChange, Subscription};
use menzil_model::{ConnectionId, Fact, QueueId};

use super::super::Shard;
use crate::mqtt::{Filter, SessionOutput};
use crate::slots::Place;
use crate::turn::Turn;

/// Quota exceeded (MQTT 5.0 §3.9.3).
const QUOTA_EXCEEDED: u8 = 0x97;

impl Shard {
    pub(super) fn subscribe(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, at): (ConnectionId, (QueueId, Place)),
        (packet_id, id): (u16, u32),
        filters: Vec<Filter>,
    ) {
        let Some(session) = self.session(at) else {
            return;
        };
        let mut codes = Vec::with_capacity(filters.len());
        let mut facts = Vec::new();
        let mut wanted = Vec::new();
        let mut room =
            (self.settings.sessions.subscriptions_max).saturating_sub(session.subscriptions.len());
        for Filter {
            filter,
            options,
            refused,
        } in filters
        {
            let is_new = !session.subscriptions.contains_key(&filter);
            if let Some(code) = refused {
                codes.push(code);
                continue;
            }
            if is_new && room == 0 {
                codes.push(QUOTA_EXCEEDED);
                continue;
            }
            room -= usize::from(is_new);
            codes.push(options.qos());
            let handling = options.retain_handling();
            if handling == 0 || handling == 1 && is_new {
                wanted.extend(self.retained_for(at.0, &filter, options));
            }
            let subscription = Subscription {
                filter,
                options: options.0,
                id,
            };
            facts.push(Fact::Session {
                session: at.0,
                change: SessionChange::Subscribed(subscription),
            });
        }
        facts.append(&mut wanted);
        let made = self.make_groups(turn, &facts);
        let is_written = self.is_session_recorded(at);
        let after = match facts.len() {
            0 => 0,
            _ => self.record(turn, Fact::Group(facts), is_written),
        };
        let after = after.max(made);
        self.session_came(at.0);
        let output = SessionOutput::Subscribed { packet_id, codes };
        turn.send_session(connection, after, output);
        self.refill_session(turn, at);
    }

    pub(super) fn unsubscribe(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, at): (ConnectionId, (QueueId, Place)),
        packet_id: u16,
        filters: Vec<Bytes>,
    ) {
        let Some(session) = self.session(at) else {
            return;
        };
        let mut were_there = Vec::with_capacity(filters.len());
        let mut facts: Vec<Fact> = Vec::new();
        for filter in filters {
            let change = SessionChange::Unsubscribed {
                filter: filter.clone(),
            };
            let fact = Fact::Session {
                session: at.0,
                change,
            };
            let is_there = session.subscriptions.contains_key(&filter) && !facts.contains(&fact);
            were_there.push(is_there);
            if is_there {
                facts.push(fact);
            }
        }
        let is_written = self.is_session_recorded(at);
        let gone: Vec<Bytes> = facts.iter().filter_map(filter_of).collect();
        let after = match facts.len() {
            0 => 0,
            _ => self.record(turn, Fact::Group(facts), is_written),
        };
        for filter in gone {
            self.leave_group(turn, at, &filter);
        }
        let output = SessionOutput::Unsubscribed {
            packet_id,
            were_there,
        };
        turn.send_session(connection, after, output);
    }
}

fn filter_of(fact: &Fact) -> Option<Bytes> {
    let Fact::Session { change, .. } = fact else {
        return None;
    };
    let SessionChange::Unsubscribed { filter } = change else {
        return None;
    };
    Some(filter.clone())
}
