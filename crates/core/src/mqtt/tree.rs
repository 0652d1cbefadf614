//! Who has subscribed to what.
//!
//! Filters lie in the trie that topic exchanges use, by level (MQTT 5.0 §4.7). Sessions that
//! share one filter lie beside each other by number.

use menzil_model::QueueId;

use crate::slots::Place;
use crate::topology::{Syntax, Trie, TrieScratch};

/// A subscription of a session, as its filter has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) session: QueueId,
    pub(crate) place: Place,
    pub(crate) options: Options,
}

/// The options of a subscription as on the wire (MQTT 5.0 §3.8.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options(pub u8);

impl Options {
    /// The highest quality of service that it takes.
    pub fn qos(self) -> u8 {
        (self.0 & 3).min(2)
    }

    /// What the session itself publishes does not come to it.
    pub fn no_local(self) -> bool {
        self.0 & 4 != 0
    }

    /// The retain flag stays as it was published.
    pub fn retain_as_published(self) -> bool {
        self.0 & 8 != 0
    }

    /// Whether and when retained messages are sent at the subscription.
    pub fn retain_handling(self) -> u8 {
        self.0 >> 4 & 3
    }

    /// The same with another quality of service.
    #[must_use]
    pub fn with_qos(self, qos: u8) -> Self {
        Self(self.0 & !3 | qos & 3)
    }
}

/// Those of one filter.
#[derive(Clone, Debug, Default)]
struct Subscribers {
    /// By session.
    sessions: Vec<Subscriber>,
    /// Queues of groups that share the filter, by number.
    groups: Vec<(QueueId, Place)>,
}

/// Who gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A session.
    Session(Subscriber),
    /// The queue of a group.
    Group(QueueId, Place),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tree {
    filters: Trie<Subscribers>,
    /// Subscriptions, and groups.
    count: usize,
}

const MQTT: Syntax = Syntax {
    separator: b'/',
    one: b"+",
    many: b"#",
};

impl Default for Tree {
    fn default() -> Self {
        Self {
            filters: Trie::new(MQTT),
            count: 0,
        }
    }
}

impl Tree {
    /// Subscriptions, and groups.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a subscription, in the place of the session's other one with that filter.
    pub(crate) fn subscribe(&mut self, filter: &[u8], subscriber: Subscriber) {
        let Some(of_filter) = self.filters.entry(filter) else {
            return;
        };
        let sessions = &mut of_filter.sessions;
        match sessions.binary_search_by_key(&subscriber.session, |other| other.session) {
            Ok(at) => {
                if let Some(place) = sessions.get_mut(at) {
                    *place = subscriber;
                }
            }
            Err(at) => {
                sessions.insert(at, subscriber);
                self.count += 1;
            }
        }
    }

    /// Removes a subscription. False where there is none.
    pub(crate) fn unsubscribe(&mut self, filter: &[u8], session: QueueId) -> bool {
        let Some(of_filter) = self.filters.find_mut(filter) else {
            return false;
        };
        let sessions = &mut of_filter.sessions;
        let Ok(at) = sessions.binary_search_by_key(&session, |other| other.session) else {
            return false;
        };
        sessions.remove(at);
        self.count -= 1;
        self.clear_away(filter);
        true
    }

    /// Adds the queue of a group.
    pub(crate) fn share(&mut self, filter: &[u8], group: (QueueId, Place)) {
        let Some(of_filter) = self.filters.entry(filter) else {
            return;
        };
        let groups = &mut of_filter.groups;
        if let Err(at) = groups.binary_search_by_key(&group.0, |(id, _)| *id) {
            groups.insert(at, group);
            self.count += 1;
        }
    }

    /// Removes the queue of a group.
    pub(crate) fn unshare(&mut self, filter: &[u8], group: QueueId) {
        let Some(of_filter) = self.filters.find_mut(filter) else {
            return;
        };
        let groups = &mut of_filter.groups;
        if let Ok(at) = groups.binary_search_by_key(&group, |(id, _)| *id) {
            groups.remove(at);
            self.count -= 1;
            self.clear_away(filter);
        }
    }

    fn clear_away(&mut self, filter: &[u8]) {
        let of_filter = self.filters.find(filter);
        if of_filter.is_some_and(|all| all.sessions.is_empty() && all.groups.is_empty()) {
            self.filters.remove(filter);
        }
    }

    /// Finds all who get a message of that topic, a session once for each filter that matches.
    /// Wildcards for the first level do not match a topic that begins with `$` (MQTT-4.7.2-1).
    pub(crate) fn find(
        &self,
        topic: &[u8],
        scratch: &mut TrieScratch,
        mut found: impl FnMut(Found),
    ) {
        let mut each = |all: &Subscribers| {
            for subscriber in &all.sessions {
                found(Found::Session(*subscriber));
            }
            for (group, place) in &all.groups {
                found(Found::Group(*group, *place));
            }
        };
        if topic.first() == Some(&b'$') {
            self.filters.matches_by_name(topic, scratch, &mut each);
        } else {
            self.filters.matches(topic, scratch, &mut each);
        }
    }

    pub(crate) fn check_invariants(&self) {
        self.filters.check_invariants();
        let all = self.filters.values();
        let count: usize = all.map(|all| all.sessions.len() + all.groups.len()).sum();
        assert_eq!(count, self.count);
    }
}

/// Whether a filter matches a topic, level by level (MQTT 5.0 §4.7).
pub fn matches(filter: &[u8], topic: &[u8]) -> bool {
    if topic.first() == Some(&b'$') && matches!(filter.first(), Some(b'+' | b'#')) {
        return false;
    }
    let mut levels = topic.split(|byte| *byte == b'/');
    for wanted in filter.split(|byte| *byte == b'/') {
        if wanted == b"#" {
            return true;
        }
        match levels.next() {
            Some(level) if wanted == b"+" || wanted == level => {}
            Some(_) | None => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn subscriber(session: u64) -> Subscriber {
        Subscriber {
            session: QueueId(session),
            place: Place::default(),
            options: Options(1),
        }
    }

    #[test]
    fn examples_of_the_standard_match_as_it_says() {
        for (filter, topic, expected) in [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            (
                "sport/tennis/player1/#",
                "sport/tennis/player1/score/wimbledon",
                true,
            ),
            ("sport/#", "sport", true),
            ("#", "/", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("#", "$SYS/x", false),
            ("+/monitor/Clients", "$SYS/monitor/Clients", false),
            ("$SYS/#", "$SYS/", true),
            ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
            ("a", "A", false),
            ("/a", "a", false),
        ] {
            assert_eq!(
                matches(filter.as_bytes(), topic.as_bytes()),
                expected,
                "{filter} {topic}"
            );
        }
    }

    fn path(levels: &'static [&'static str]) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(levels), 1..5)
            .prop_map(|levels| levels.join("/"))
            .prop_filter("it has a character", |path| !path.is_empty())
    }

    fn filter() -> impl Strategy<Value = String> {
        (path(&["a", "b", "", "+", "$x"]), any::<bool>())
            .prop_map(|(path, all)| if all { format!("{path}/#") } else { path })
    }

    proptest! {
        #[test]
        fn the_tree_finds_what_the_definition_finds(
            filters in prop::collection::vec((filter(), 0..6_u64), 0..40),
            gone in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            topics in prop::collection::vec(path(&["a", "b", "", "$x"]), 1..8),
        ) {
            let mut tree = Tree::default();
            let mut twin = std::collections::BTreeSet::new();
            for (filter, session) in &filters {
                tree.subscribe(filter.as_bytes(), subscriber(*session));
                twin.insert((filter.clone(), *session));
            }
            for index in gone {
                if let Some((filter, session)) = (!filters.is_empty()).then(|| index.get(&filters)) {
                    let was = twin.remove(&(filter.clone(), *session));
                    prop_assert_eq!(tree.unsubscribe(filter.as_bytes(), QueueId(*session)), was);
                }
            }
            tree.check_invariants();
            prop_assert_eq!(tree.len(), twin.len());
            for topic in topics {
                let mut found = Vec::new();
                tree.find(topic.as_bytes(), &mut TrieScratch::default(), |one| found.push(one));
                let mut found: Vec<_> = found.into_iter().map(|one| match one {
                    Found::Session(subscriber) => subscriber.session.0,
                    Found::Group(id, _) => id.0,
                }).collect();
                found.sort_unstable();
                let wanted = twin.iter().filter(|(filter, _)| matches(filter.as_bytes(), topic.as_bytes()));
                let mut wanted: Vec<_> = wanted.map(|(_, session)| *session).collect();
                wanted.sort_unstable();
                prop_assert_eq!(found, wanted, "{}", topic);
            }
        }
    }
}
