//! What a checkpoint has of a session, beside its queue.

use bytes::Bytes;
use menzil_model::fact::{SessionChange, SessionState, Subscription};
use menzil_model::{Fact, Name, QueueId, Sequence};

use super::session::Session;

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
        Self {
            client_id: session.client_id.clone(),
            user: session.user.clone(),
            durable,
            state: session.state.clone(),
            subscriptions: subscriptions.take(all).collect(),
            received: session.received.keys().copied().take(all).collect(),
            released: session.released.iter().copied().take(all).collect(),
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
    }
}

/// About how many bytes that takes.
pub(crate) fn session_bytes(session: &Session) -> u64 {
    let filters: usize = session
        .subscriptions
        .keys()
        .map(|filter| filter.len() + 16)
        .sum();
    let noted = 16 * (session.received.len() + session.released.len());
    let will = session.state.will.as_ref();
    let will = will.map_or(0, |will| will.message.total_bytes() + 64);
    (session.client_id.len() + filters + noted) as u64 + will + 64
}
