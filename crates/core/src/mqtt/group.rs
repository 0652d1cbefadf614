//! Groups of sessions that share a subscription (MQTT 5.0 §4.8.2).
//!
//! What comes for a group waits in a queue of its own, which can be consumed from as any other.
//! From there an entry is lent to a member's session: it is in both queues, out in the group's,
//! and leaves both at once, or it is given back. So a message that nobody has yet is where all
//! members can have it, and one that a member has keeps its packet identifier.
//!
//! Invariants: those in the line are members with a client; an entry that is lent is out.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use menzil_model::fact::QueueDefinition;
use menzil_model::{Map, Name, QueueId, Sequence, Value};
use twox_hash::XxHash3_64;

use super::tree::Options;
use crate::slots::Place;

/// Names of groups' queues begin so, and of no others.
pub(crate) const GROUP_PREFIX: &[u8] = b"mqtt.share/";

/// The argument of a group's queue that has its filter, with `$share/` and the name.
pub(crate) const GROUP_ARGUMENT: &[u8] = b"x-mqtt-filter";

/// Bytes of a hash at the end of a name that would be too long.
const HASH_BYTES: usize = 17;

/// Where an entry of a session is in its group's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) group: QueueId,
    pub(crate) there: Sequence,
    /// The journal says so: it knows of both by one fact.
    pub(crate) durable: bool,
}

/// A session that shares the subscription.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) place: Place,
    pub(crate) options: Options,
    pub(crate) durable: bool,
}

/// One group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) queue: Option<QueueId>,
    members: BTreeMap<QueueId, Member>,
    /// Those with a client, in the order of their turns.
    line: VecDeque<QueueId>,
    durable: usize,
}

impl Group {
    /// Whether somebody is there who could take something.
    pub(crate) fn is_attended(&self) -> bool {
        !self.line.is_empty()
    }

    /// Whether one of the members survives a restart.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable > 0
    }

    /// Those with a client, in the order of their turns.
    pub(crate) fn line(&self) -> impl Iterator<Item = (QueueId, Member)> + '_ {
        let members = self.line.iter();
        members.filter_map(|id| Some((*id, *self.members.get(id)?)))
    }

    /// Whoever stands there has had its turn.
    pub(crate) fn has_turn(&mut self, at: usize) {
        if at < self.line.len() {
            self.line.rotate_left(at + 1);
        }
    }

    fn is_gone(&self) -> bool {
        self.queue.is_none() && self.members.is_empty()
    }
}

/// All groups, by their filters.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_filter: BTreeMap<Bytes, Group>,
    by_name: Map<Name, QueueId>,
}

impl Groups {
    /// The group with that filter.
    pub(crate) fn get(&self, filter: &[u8]) -> Option<&Group> {
        self.by_filter.get(filter)
    }

    /// The same, to change.
    pub(crate) fn get_mut(&mut self, filter: &[u8]) -> Option<&mut Group> {
        self.by_filter.get_mut(filter)
    }

    /// The queue of that name.
    pub(crate) fn queue(&self, name: &[u8]) -> Option<QueueId> {
        self.by_name.get(name).copied()
    }

    /// Groups that have a queue.
    pub(crate) fn count(&self) -> usize {
        self.by_name.len()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Group)> {
        self.by_filter.iter()
    }

    /// The queues of groups that have no members.
    pub(crate) fn left_alone(&self) -> Vec<QueueId> {
        let alone = self.by_filter.values();
        let alone = alone.filter(|group| group.members.is_empty());
        alone.filter_map(|group| group.queue).collect()
    }

    /// A group's queue is there.
    pub(crate) fn set_queue(&mut self, filter: &Bytes, name: Name, id: QueueId) {
        self.by_filter.entry(filter.clone()).or_default().queue = Some(id);
        self.by_name.insert(name, id);
    }

    /// A group's queue is gone.
    pub(crate) fn forget_queue(&mut self, filter: &[u8], name: &Name) {
        self.by_name.remove(name);
        self.change(filter, |group| group.queue = None);
    }

    /// A session is a member, in the place of what it was before.
    pub(crate) fn join(&mut self, filter: &Bytes, id: QueueId, member: Member, has_client: bool) {
        let group = self.by_filter.entry(filter.clone()).or_default();
        group.durable += usize::from(member.durable);
        if let Some(before) = group.members.insert(id, member) {
            group.durable -= usize::from(before.durable);
        }
        if has_client {
            self.came(filter, id);
        }
    }

    /// A session is no member any more.
    pub(crate) fn leave(&mut self, filter: &[u8], id: QueueId) {
        self.change(filter, |group| {
            let before = group.members.remove(&id);
            group.durable -= before.map_or(0, |before| usize::from(before.durable));
            group.line.retain(|other| *other != id);
        });
    }

    /// A member's client is there.
    pub(crate) fn came(&mut self, filter: &[u8], id: QueueId) {
        self.change(filter, |group| {
            if !group.line.contains(&id) {
                group.line.push_back(id);
            }
        });
    }

    /// A member's client is gone.
    pub(crate) fn left(&mut self, filter: &[u8], id: QueueId) {
        self.change(filter, |group| group.line.retain(|other| *other != id));
    }

    fn change(&mut self, filter: &[u8], change: impl FnOnce(&mut Group)) {
        let Some(group) = self.by_filter.get_mut(filter) else {
            return;
        };
        change(group);
        if group.is_gone() {
            self.by_filter.remove(filter);
        }
    }

    pub(crate) fn check_invariants(&self) {
        let queues = self.by_filter.values().filter_map(|group| group.queue);
        assert_eq!(queues.count(), self.by_name.len());
        for group in self.by_filter.values() {
            assert!(!group.is_gone());
            assert!(group.line.iter().all(|id| group.members.contains_key(id)));
            let durable = group.members.values().filter(|member| member.durable);
            assert_eq!(durable.count(), group.durable);
        }
    }
}

/// The name of the queue of the group with that filter: `mqtt.share/GROUP/FILTER`, cut where it is
/// too long, with a hash of all.
pub(crate) fn name_of_group(filter: &[u8]) -> Name {
    let rest = filter.strip_prefix(b"$share/").unwrap_or(filter);
    let whole = [GROUP_PREFIX, rest].concat();
    if let Some(name) = Name::new(&whole) {
        return name;
    }
    let text = String::from_utf8_lossy(&whole);
    let mut end = Name::BYTES_MAX - HASH_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let hash = XxHash3_64::oneshot(filter);
    let kept = text.get(..end).unwrap_or_default();
    Name::cut(format!("{kept}~{hash:016x}").as_bytes())
}

/// The filter of the group whose queue that is.
pub(crate) fn group_filter(queue: &QueueDefinition) -> Option<Bytes> {
    if !queue.name.as_bytes().starts_with(GROUP_PREFIX) {
        return None;
    }
    let Value::LongString(filter) = queue.arguments.find(GROUP_ARGUMENT)? else {
        return None;
    };
    Some(Bytes::copy_from_slice(filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_group_and_filter_and_is_never_too_long() {
        assert_eq!(
            name_of_group(b"$share/g/a/+/#").as_bytes(),
            b"mqtt.share/g/a/+/#"
        );
        let long = |last: &str| {
            let filter = format!("$share/g/{}{last}", "\u{e4}/".repeat(200));
            name_of_group(filter.as_bytes())
        };
        assert!(long("a").as_bytes().len() > 250);
        assert!(std::str::from_utf8(long("a").as_bytes()).is_ok());
        assert_ne!(long("a"), long("b"));
    }
}
