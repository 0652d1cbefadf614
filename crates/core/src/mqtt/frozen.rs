//! What a checkpoint has of a session, beside its queue.

use std::collections::BTreeMap;

use bytes::Bytes;
use menzil_model::fact::{Lent, SessionChange, SessionState, Subscription};
use menzil_model::{Fact, Name, QueueId, Sequence};

use super::session::{Sending, Session};

/// See the module.
#[derive(Debug)]
pub(crate) struct FrozenSession {
    client_id: Bytes,
    user: Name,
    durable: bool,
    state: SessionState,
    subscriptions: Vec<Subscription>,
    received: Vec<u16>,
    released: Vec<Sequence>,
    sending: Vec<(Bytes, Sending)>,
    /// By group.
    lent: BTreeMap<QueueId, Vec<Lent>>,
}

impl FrozenSession {
    /// Of one that ends with its connection only the will is durable.
    pub(crate) fn of(session: &Session, durable: bool) -> Self {
        let subscriptions = session.subscriptions.iter();
        let subscriptions = subscriptions.map(|(filter, subscribed)| Subscription {
            filter: filter.clone(),
            options: subscribed.options.0,
            id: subscribed.id,
        });
        let all = usize::MAX * usize::from(durable);
        let mut lent: BTreeMap<QueueId, Vec<Lent>> = BTreeMap::new();
        for (here, link) in session.lent.iter().filter(|(_, link)| link.durable) {
            let (here, there) = (*here, link.there);
            lent.entry(link.group)
                .or_default()
                .push(Lent { here, there });
        }
        let sending = session.sending.iter();
        let sending = sending.map(|(filter, sending)| (filter.clone(), sending.clone()));
        Self {
            client_id: session.client_id.clone(),
            user: session.user.clone(),
            durable,
            state: session.state.clone(),
            subscriptions: subscriptions.take(all).collect(),
            received: session.received.keys().copied().take(all).collect(),
            released: session.released.iter().copied().take(all).collect(),
            sending: sending.take(all).collect(),
            lent,
        }
    }

    pub(crate) fn write(self, session: QueueId, sink: &mut dyn FnMut(&Fact)) {
        let mut put = |change| sink(&Fact::Session { session, change });
        put(SessionChange::Opened {
            client_id: self.client_id,
            user: self.user,
            durable: self.durable,
        });
        put(SessionChange::State(self.state));
        for subscription in self.subscriptions {
            put(SessionChange::Subscribed(subscription));
        }
        for packet_id in self.received {
            put(SessionChange::PacketReceived { packet_id });
        }
        for sequence in self.released {
            put(SessionChange::DeliveryReceived { sequence });
        }
        for (filter, sending) in self.sending {
            put(SessionChange::RetainedBehind {
                filter,
                options: sending.options.0,
                topic: sending.behind,
            });
        }
    }

    /// What it has from groups, once their entries are there.
    pub(crate) fn take_lent(&mut self, session: QueueId) -> Vec<Fact> {
        let lent = std::mem::take(&mut self.lent).into_iter();
        let fact = |(group, entries)| Fact::Session {
            session,
            change: SessionChange::Lent { group, entries },
        };
        lent.map(fact).collect()
    }
}

/// About how many bytes that takes.
pub(crate) fn session_bytes(session: &Session) -> u64 {
    let filters: usize = session
        .subscriptions
        .keys()
        .map(|filter| filter.len() + 16)
        .sum();
    let noted = session.received.len() + session.released.len() + session.lent.len();
    let sending = session.sending.iter();
    let sending: usize = sending
        .map(|(filter, sending)| filter.len() + sending.behind.len() + 32)
        .sum();
    let noted = 16 * noted + sending;
    let will = session.state.will.as_ref();
    let will = will.map_or(0, |will| will.message.total_bytes() + 64);
    (session.client_id.len() + filters + noted) as u64 + will + 64
}
