//! The topics that have a retained message.
//!
//! They lie in one order, level by level: `/` is the least of all bytes there, for no topic has
//! U+0000. So what a filter matches is found by leaps: a name leaps to it, `+` from one name of
//! the level to the next, `#` takes all that follow. What lies between costs nothing.
//!
//! Topics lie in pieces that are shared with who looks at them later (a checkpoint); a piece that
//! changes meanwhile is copied.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use menzil_model::fact::Kept;

/// Topics of one piece, and half of that when it is cut.
const PIECE_TOPICS: usize = 256;

/// A topic with its levels apart by U+0000.
type Key = Box<[u8]>;

/// Some topics, in order.
pub(crate) type Piece = Arc<Vec<(Key, Kept)>>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetainedTopics {
    /// By their first topic; none is empty.
    pieces: BTreeMap<Key, Piece>,
    count: usize,
    bytes: u64,
}

fn key_of(topic: &[u8]) -> Key {
    topic
        .iter()
        .map(|byte| if *byte == b'/' { 0 } else { *byte })
        .collect()
}

fn topic_of(key: &[u8]) -> Vec<u8> {
    key.iter()
        .map(|byte| if *byte == 0 { b'/' } else { *byte })
        .collect()
}

impl RetainedTopics {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of all topics.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The topic's message.
    pub(crate) fn get(&self, topic: &[u8]) -> Option<Kept> {
        let key = key_of(topic);
        let (_, piece) = self.piece_of(&key)?;
        let at = piece.binary_search_by(|(other, _)| other.cmp(&key)).ok()?;
        piece.get(at).map(|(_, kept)| *kept)
    }

    /// The piece in which a key would lie.
    fn piece_of(&self, key: &[u8]) -> Option<(&Key, &Piece)> {
        let until = (Bound::Unbounded, Bound::Included(key));
        self.pieces.range::<[u8], _>(until).next_back()
    }

    /// Gives a topic its message. Returns the one that it had.
    pub(crate) fn set(&mut self, topic: &[u8], kept: Kept) -> Option<Kept> {
        let key = key_of(topic);
        let first = self
            .piece_of(&key)
            .or_else(|| self.pieces.first_key_value());
        let Some(first) = first.map(|(first, _)| first.clone()) else {
            self.note_in(&key);
            self.pieces.insert(key.clone(), Arc::new(vec![(key, kept)]));
            return None;
        };
        let mut piece = self.pieces.remove(&first)?;
        let topics = Arc::make_mut(&mut piece);
        let before = match topics.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(at) => {
                let place = topics.get_mut(at).map(|(_, place)| place);
                place.map(|place| std::mem::replace(place, kept))
            }
            Err(at) => {
                self.note_in(&key);
                topics.insert(at, (key, kept));
                None
            }
        };
        let behind = (topics.len() > PIECE_TOPICS).then(|| topics.split_off(PIECE_TOPICS / 2));
        for piece in std::iter::once(piece).chain(behind.map(Arc::new)) {
            if let Some((first, _)) = piece.first() {
                self.pieces.insert(first.clone(), piece);
            }
        }
        before
    }

    fn note_in(&mut self, key: &[u8]) {
        self.count += 1;
        self.bytes += key.len() as u64;
    }

    /// Takes a topic's message away. Returns it.
    pub(crate) fn clear(&mut self, topic: &[u8]) -> Option<Kept> {
        let key = key_of(topic);
        let first = self.piece_of(&key)?.0.clone();
        let piece = self.pieces.get(&first)?;
        let at = piece.binary_search_by(|(other, _)| other.cmp(&key)).ok()?;
        let mut piece = self.pieces.remove(&first)?;
        let (_, kept) = Arc::make_mut(&mut piece).remove(at);
        if let Some((first, _)) = piece.first() {
            self.pieces.insert(first.clone(), piece);
        }
        self.count -= 1;
        self.bytes -= key.len() as u64;
        Some(kept)
    }

    /// Finds topics that a filter matches, in order, behind one: at most so many, and where to go
    /// on behind, unless all are found. Topics that begin with `$` are found by name only.
    pub(crate) fn find(
        &self,
        filter: &[u8],
        behind: Option<&[u8]>,
        most: usize,
    ) -> (Vec<(Vec<u8>, Kept)>, bool) {
        let levels: Vec<&[u8]> = filter.split(|byte| *byte == b'/').collect();
        let behind = behind.map(key_of);
        let mut from = match &behind {
            Some(behind) => Bound::Excluded(behind.to_vec()),
            None => Bound::Included(Vec::new()),
        };
        let mut found = Vec::new();
        while let Some((key, kept)) = self.first_from(&from) {
            match next_step(&levels, key) {
                Step::Match if found.len() >= most => return (found, false),
                Step::Match => {
                    found.push((topic_of(key), kept));
                    from = Bound::Excluded(key.to_vec());
                }
                Step::Leap(to) => from = Bound::Included(to),
                Step::End => break,
            }
        }
        (found, true)
    }

    /// The first topic at or behind a key.
    fn first_from(&self, from: &Bound<Vec<u8>>) -> Option<(&[u8], Kept)> {
        let (key, is_in) = match from {
            Bound::Included(key) => (key.as_slice(), true),
            Bound::Excluded(key) => (key.as_slice(), false),
            Bound::Unbounded => (&[][..], true),
        };
        let is_before = |other: &[u8]| if is_in { other < key } else { other <= key };
        let in_piece = self.piece_of(key).and_then(|(_, piece)| {
            let at = piece.partition_point(|(other, _)| is_before(other));
            piece.get(at)
        });
        let found = in_piece.or_else(|| {
            let behind = (Bound::Excluded(key), Bound::Unbounded);
            let (_, piece) = self.pieces.range::<[u8], _>(behind).next()?;
            piece.first()
        });
        found.map(|(key, kept)| (key.as_ref(), *kept))
    }

    /// All of them at this moment, in pieces.
    pub(crate) fn share(&self) -> Vec<Piece> {
        self.pieces.values().map(Arc::clone).collect()
    }

    /// The topics of a piece.
    pub(crate) fn topics_of(piece: &Piece) -> impl Iterator<Item = (Vec<u8>, Kept)> + '_ {
        piece.iter().map(|(key, kept)| (topic_of(key), *kept))
    }

    pub(crate) fn check_invariants(&self) {
        let all: Vec<_> = self
            .pieces
            .values()
            .flat_map(|piece| piece.iter())
            .collect();
        assert_eq!(all.len(), self.count);
        assert_eq!(
            all.iter().map(|(key, _)| key.len() as u64).sum::<u64>(),
            self.bytes
        );
        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
        for (first, piece) in &self.pieces {
            assert_eq!(Some(first), piece.first().map(|(first, _)| first));
            assert!(piece.len() <= PIECE_TOPICS);
        }
    }
}

/// What to do at a topic.
enum Step {
    /// It matches.
    Match,
    /// Nothing before this one does.
    Leap(Vec<u8>),
    /// Nothing here or behind does.
    End,
}

/// Where the next match of a filter is, from a topic on.
fn next_step(filter: &[&[u8]], key: &[u8]) -> Step {
    let is_hidden = key.first() == Some(&b'$') && matches!(filter.first(), Some(&b"+" | &b"#"));
    if is_hidden {
        // Past all that begin so.
        return Step::Leap(vec![b'$' + 1]);
    }
    let levels: Vec<&[u8]> = key.split(|byte| *byte == 0).collect();
    let path = |count: usize| levels.get(..count).unwrap_or_default().join(&0);
    for (number, wanted) in filter.iter().enumerate() {
        if *wanted == b"#" {
            return Step::Match;
        }
        let Some(level) = levels.get(number) else {
            // It is too short: what follows it directly is longer.
            return deeper(filter, key, number);
        };
        if *wanted == b"+" || wanted == level {
            continue;
        }
        let mut to = path(number);
        if number > 0 {
            to.push(0);
        }
        if *level < *wanted {
            to.extend_from_slice(wanted);
            return Step::Leap(to);
        }
        return past(filter, &levels, number);
    }
    if levels.len() == filter.len() {
        return Step::Match;
    }
    // It is too long, and so is all that begins like the filter's levels of it.
    let mut to = path(filter.len());
    to.push(1);
    Step::Leap(to)
}

/// Below a topic that ends where the filter goes on.
fn deeper(filter: &[&[u8]], key: &[u8], number: usize) -> Step {
    let mut to = key.to_vec();
    to.push(0);
    if let Some(wanted) = filter
        .get(number)
        .filter(|wanted| !matches!(**wanted, b"+" | b"#"))
    {
        to.extend_from_slice(wanted);
    }
    Step::Leap(to)
}

/// The level of that number is past what is wanted: on to the next name of the last level above it
/// for which any will do.
fn past(filter: &[&[u8]], levels: &[&[u8]], number: usize) -> Step {
    let above = filter.get(..number).unwrap_or_default();
    let Some(any) = above.iter().rposition(|wanted| *wanted == b"+") else {
        return Step::End;
    };
    let mut to = levels.get(..=any).unwrap_or_default().join(&0);
    // Behind everything of this name, before every other that is greater.
    to.push(1);
    Step::Leap(to)
}

#[cfg(test)]
mod tests {
    use super::super::tree::matches;
    use super::*;
    use menzil_model::fact::Origin;
    use proptest::prelude::*;

    fn kept(index: u64) -> Kept {
        Kept {
            origin: Origin { index, part: 0 },
            ..Kept::default()
        }
    }

    fn topics() -> impl Strategy<Value = String> {
        let level = prop::sample::select(vec!["a", "b", "ab", "", "a\u{1}", "$x", "\u{7f}"]);
        prop::collection::vec(level, 1..5)
            .prop_map(|levels| levels.join("/"))
            .prop_filter("a topic has a character", |topic| !topic.is_empty())
    }

    fn filters() -> impl Strategy<Value = String> {
        let level = prop::sample::select(vec!["a", "b", "", "+", "$x", "c"]);
        (prop::collection::vec(level, 0..5), any::<bool>()).prop_map(|(mut levels, all)| {
            if all || levels.is_empty() {
                levels.push("#");
            }
            levels.join("/")
        })
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_matches(
            steps in prop::collection::vec((topics(), any::<bool>()), 0..400),
            filter in filters(),
            most in 1..9_usize,
        ) {
            let mut retained = RetainedTopics::default();
            let mut twin = BTreeMap::new();
            for (number, (topic, is_set)) in (1..).zip(&steps) {
                let topic = topic.as_bytes();
                let before = twin.remove(topic);
                if *is_set {
                    prop_assert_eq!(retained.set(topic, kept(number)), before);
                    twin.insert(topic.to_vec(), kept(number));
                } else {
                    prop_assert_eq!(retained.clear(topic), before);
                }
                prop_assert_eq!(retained.get(topic), twin.get(topic).copied());
            }
            retained.check_invariants();
            let mut all = Vec::new();
            loop {
                let last = all.last().map(|(topic, _): &(Vec<u8>, _)| topic.clone());
                let (found, is_end) = retained.find(filter.as_bytes(), last.as_deref(), most);
                prop_assert!(is_end || found.len() == most);
                all.extend(found);
                if is_end {
                    break;
                }
            }
            prop_assert!(all.is_sorted_by(|a, b| key_of(&a.0) < key_of(&b.0)));
            all.sort_by(|a, b| a.0.cmp(&b.0));
            let wanted = twin.into_iter().filter(|(topic, _)| matches(filter.as_bytes(), topic));
            prop_assert_eq!(all, wanted.collect::<Vec<_>>(), "{}", filter);
        }
    }

    #[test]
    fn many_topics_lie_in_pieces_and_those_that_are_shared_do_not_change() {
        let mut retained = RetainedTopics::default();
        for number in 0..5000_u64 {
            retained.set(
                format!("t/{}", number * 7919 % 5000).as_bytes(),
                kept(number + 1),
            );
        }
        let shared = retained.share();
        for number in 0..5000 {
            retained.clear(format!("t/{number}").as_bytes());
        }
        assert_eq!(retained.len(), 0);
        retained.check_invariants();
        let count: usize = shared
            .iter()
            .map(|piece| RetainedTopics::topics_of(piece).count())
            .sum();
        assert_eq!(count, 5000);
    }
}
