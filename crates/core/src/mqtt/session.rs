//! What a session knows beside its queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use menzil_model::fact::Range;
use menzil_model::fact::SessionState;
use menzil_model::{ConnectionId, Name, Sequence};

use super::group::Link;
use super::topic_route::TopicRoute;
use super::tree::Options;
use crate::queue::SESSION_FLAG_BITS;
use crate::slots::Place;

/// How an entry goes to its client: the lower bits of its place in the queue's order, so that
/// everything that keeps the place keeps this too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Quality of service.
    pub(crate) qos: u8,
    /// The retain flag.
    pub(crate) retain: bool,
    /// It went out as it came in: after a crash it may be known to the client.
    pub(crate) sent: bool,
    /// It came from the queue of a group.
    pub(crate) shared: bool,
}

impl Grant {
    /// As in an entry's place.
    pub(crate) fn bits(self) -> u8 {
        self.qos & 3
            | u8::from(self.retain) << 2
            | u8::from(self.sent) << 3
            | u8::from(self.shared) << 4
    }

    /// That of an entry.
    pub(crate) fn of(sequence: Sequence) -> Self {
        let bits = sequence.0;
        Self {
            qos: u8::try_from(bits & 3).unwrap_or(0).min(2),
            retain: bits & 4 != 0,
            sent: bits & 8 != 0,
            shared: bits & 16 != 0,
        }
    }
}

/// The packet identifier of an entry: a function of its place, so that it is the same after a
/// restart (MQTT-4.4.0-1) and needs no record of its own. Entries that are out at the same time
/// are never so far apart that two have the same.
pub(crate) fn packet_id_of(sequence: Sequence) -> u16 {
    let counter = sequence.0 >> SESSION_FLAG_BITS;
    // The first entry of a queue has counter 1.
    u16::try_from((counter + PACKET_IDS - 1) % PACKET_IDS).unwrap_or(0) + 1
}

/// How many packet identifiers there are.
pub(crate) const PACKET_IDS: u64 = 65_535;

/// The connection of a session's client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLink {
    pub(crate) connection: ConnectionId,
    pub(crate) place: Place,
    /// How many entries of QoS 1 and 2 it takes at once.
    pub(crate) receive_max: u16,
}

/// An entry of QoS 1 or 2 that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) sequence: Sequence,
    /// Its PUBREC came, and its PUBREL is out.
    pub(crate) is_released: bool,
}

/// A subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscribed {
    pub(crate) options: Options,
    /// The subscription identifier; 0 is none.
    pub(crate) id: u32,
}

/// Retained messages that are on their way to a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sending {
    pub(crate) options: Options,
    /// The last topic that came; empty where none did.
    pub(crate) behind: Bytes,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client_id: Bytes,
    pub(crate) user: Name,
    pub(crate) state: SessionState,
    pub(crate) link: Option<SessionLink>,
    pub(crate) subscriptions: BTreeMap<Bytes, Subscribed>,
    /// Subscriptions that have an identifier.
    pub(crate) ids: usize,
    /// Subscriptions that are shared.
    pub(crate) shares: usize,
    /// Entries that came from groups.
    pub(crate) lent: BTreeMap<Sequence, Link>,
    /// By the filter of the subscription.
    pub(crate) sending: BTreeMap<Bytes, Sending>,
    /// What is out, in order.
    pub(crate) in_flight: VecDeque<InFlight>,
    /// Packet identifiers of messages of QoS 2 that came in and are not released, and the index
    /// that each one's PUBREC waits for.
    pub(crate) received: BTreeMap<u16, u64>,
    /// Entries whose PUBREC came: the client has the message.
    pub(crate) released: BTreeSet<Sequence>,
    /// The way that the last publish took.
    pub(crate) route: Option<Box<TopicRoute>>,
    /// When it is to be looked at.
    pub(crate) due_at: Option<u64>,
    /// Messages of QoS 0 that came while its client was away.
    pub(crate) dropped_offline: u64,
}

impl Session {
    pub(crate) fn new(client_id: Bytes, user: Name) -> Self {
        Self {
            client_id,
            user,
            state: SessionState::default(),
            link: None,
            subscriptions: BTreeMap::new(),
            ids: 0,
            shares: 0,
            lent: BTreeMap::new(),
            sending: BTreeMap::new(),
            in_flight: VecDeque::new(),
            received: BTreeMap::new(),
            released: BTreeSet::new(),
            route: None,
            due_at: None,
            dropped_offline: 0,
        }
    }

    /// Whether its client may have one more of QoS 1 or 2, this one.
    #[inline]
    pub(crate) fn has_room_for(&self, link: &SessionLink, sequence: Sequence) -> bool {
        let Some(first) = self.in_flight.front() else {
            return true;
        };
        let counter = |sequence: Sequence| sequence.0 >> SESSION_FLAG_BITS;
        self.in_flight.len() < usize::from(link.receive_max)
            && counter(sequence).abs_diff(counter(first.sequence)) < PACKET_IDS
    }

    /// Where the entry with that packet identifier is among those that are out.
    #[inline]
    pub(crate) fn find_in_flight(&self, packet_id: u16) -> Option<usize> {
        let mut out = self.in_flight.iter();
        out.position(|one| packet_id_of(one.sequence) == packet_id)
    }

    /// The identifiers of its subscriptions that match, each once: that of one which is shared
    /// goes with what comes from its group alone.
    pub(crate) fn ids_of(&self, topic: &[u8]) -> Vec<u32> {
        if self.ids == 0 {
            return Vec::new();
        }
        let all = self.subscriptions.iter();
        let mut ids: Vec<u32> = all
            .filter(|(filter, subscribed)| {
                subscribed.id != 0
                    && shared_filter(filter).is_none()
                    && super::tree::matches(filter, topic)
            })
            .map(|(_, subscribed)| subscribed.id)
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Notes a subscription.
    pub(crate) fn subscribe(&mut self, filter: Bytes, subscribed: Subscribed) {
        self.ids += usize::from(subscribed.id != 0);
        let is_shared = shared_filter(&filter).is_some();
        match self.subscriptions.insert(filter, subscribed) {
            Some(before) => self.ids -= usize::from(before.id != 0),
            None => self.shares += usize::from(is_shared),
        }
    }

    /// Forgets one. False where there is none.
    pub(crate) fn unsubscribe(&mut self, filter: &[u8]) -> bool {
        let before = self.subscriptions.remove(filter);
        self.sending.remove(filter);
        self.shares -= usize::from(before.is_some() && shared_filter(filter).is_some());
        self.ids -= before.map_or(0, |before| usize::from(before.id != 0));
        before.is_some()
    }

    /// The filters of its subscriptions that are shared.
    pub(crate) fn shared_filters(&self) -> Vec<Bytes> {
        if self.shares == 0 {
            return Vec::new();
        }
        let filters = self.subscriptions.keys();
        let shared = filters.filter(|filter| shared_filter(filter).is_some());
        shared.cloned().collect()
    }

    /// Entries are gone. Returns those of them that came from groups.
    pub(crate) fn forget(&mut self, ranges: &[Range]) -> Vec<(Sequence, Link)> {
        let mut gone = Vec::new();
        for range in ranges {
            let range = range.first..=range.last;
            for (sequence, link) in self.lent.range(range.clone()) {
                gone.push((*sequence, *link));
            }
            let released: Vec<Sequence> = self.released.range(range).copied().collect();
            for sequence in released {
                self.released.remove(&sequence);
            }
        }
        gone
    }
}

const SHARE: &[u8] = b"$share/";

/// The group and the filter of a shared subscription (MQTT 5.0 §4.8.2); `None` of another.
pub(crate) fn shared_filter(filter: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = filter.strip_prefix(SHARE)?;
    let at = rest.iter().position(|byte| *byte == b'/')?;
    let (group, filter) = rest.split_at_checked(at)?;
    Some((group, filter.get(1..)?))
}

/// The filter without its group.
pub(crate) fn plain_filter(filter: &[u8]) -> &[u8] {
    shared_filter(filter).map_or(filter, |(_, filter)| filter)
}
