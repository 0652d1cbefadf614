//! Topics as routing keys and back.
//!
//! A level of a topic may hold `.` and `*`, a word of a routing key `/`, `+` and `#`: what would
//! mean something on the other side is written as `%` and two hexadecimal digits there. Each side
//! has its own set of such characters. A text that looks like an escape, `%2E` in a topic, gets a
//! `25` behind its `%`, and one more where it has some: so each side's texts go there and come
//! back as they were.

use std::borrow::Cow;

use menzil_model::Name;

/// How topics and routing keys stand for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Translation {
    /// As the module says.
    #[default]
    Reversible,
    /// As RabbitMQ: `/` and `.` are exchanged, and `+` and `*`.
    Plain,
}

/// A character of one side that stands as an escape on the other, and its digits.
type Escape = (u8, [u8; 2]);

/// What a level holds and a word may not.
const IN_KEYS: [Escape; 2] = [(b'.', *b"2E"), (b'*', *b"2A")];

/// What a word holds and a level may not.
const IN_TOPICS: [Escape; 3] = [(b'/', *b"2F"), (b'+', *b"2B"), (b'#', *b"23")];

impl Translation {
    /// The routing key of a topic; `None` where it is longer than 255 bytes.
    pub fn key_of(self, topic: &[u8]) -> Option<Cow<'_, [u8]>> {
        let is_plain = |byte: &u8| !matches!(byte, b'/' | b'.' | b'*' | b'+' | b'%');
        let key = match self {
            _ if topic.iter().all(is_plain) => Cow::Borrowed(topic),
            Self::Reversible => Cow::Owned(translate(topic, (b'/', &IN_TOPICS), (b'.', &IN_KEYS))),
            Self::Plain => Cow::Owned(topic.iter().copied().map(swapped).collect()),
        };
        (key.len() <= Name::BYTES_MAX).then_some(key)
    }

    /// The topic of a routing key; `None` where no topic can be written so (MQTT-1.5.4-1,
    /// MQTT-1.5.4-2, MQTT-4.7.3-1).
    pub fn topic_of(self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let is_plain = |byte: &u8| !matches!(byte, b'/' | b'.' | b'*' | b'+' | b'#' | b'%' | 0);
        let topic = match self {
            _ if key.iter().all(is_plain) => Cow::Borrowed(key),
            Self::Reversible => Cow::Owned(translate(key, (b'.', &IN_KEYS), (b'/', &IN_TOPICS))),
            Self::Plain => Cow::Owned(key.iter().copied().map(swapped).collect()),
        };
        let is_topic = !topic.is_empty()
            && !topic.iter().any(|byte| matches!(byte, 0 | b'+' | b'#'))
            && std::str::from_utf8(&topic).is_ok();
        is_topic.then_some(topic)
    }
}

fn swapped(byte: u8) -> u8 {
    match byte {
        b'/' => b'.',
        b'.' => b'/',
        b'+' => b'*',
        b'*' => b'+',
        other => other,
    }
}

/// From texts with one separator and escapes of its own to those of the other side.
fn translate(text: &[u8], from: (u8, &[Escape]), to: (u8, &[Escape])) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    for (number, part) in text.split(|byte| *byte == from.0).enumerate() {
        if number > 0 {
            out.push(to.0);
        }
        escape(&unescape(part, from.1), to.1, &mut out);
    }
    out
}

/// Takes escapes for what they stand for.
fn unescape<'a>(part: &'a [u8], escapes: &[Escape]) -> Cow<'a, [u8]> {
    if !part.contains(&b'%') {
        return Cow::Borrowed(part);
    }
    let mut out = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match escape_behind(byte, behind, escapes) {
            None => out.push(byte),
            Some((0, character)) => {
                out.push(character);
                rest = behind.get(2..).unwrap_or_default();
            }
            Some((_, _)) => {
                out.push(b'%');
                rest = behind.get(2..).unwrap_or_default();
                // What follows is a text, not an escape: it is taken whole.
                while let Some(after) = rest.strip_prefix(b"25") {
                    out.extend_from_slice(b"25");
                    rest = after;
                }
                let (digits, after) = rest.split_at_checked(2).unwrap_or((rest, &[]));
                out.extend_from_slice(digits);
                rest = after;
            }
        }
    }
    Cow::Owned(out)
}

/// Writes as escapes what the side has them for, and lengthens what looks like one.
fn escape(part: &[u8], escapes: &[Escape], out: &mut Vec<u8>) {
    let mut rest = part;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if let Some((_, digits)) = escapes.iter().find(|(own, _)| *own == byte) {
            out.push(b'%');
            out.extend_from_slice(digits);
            continue;
        }
        out.push(byte);
        if escape_behind(byte, behind, escapes).is_some() {
            out.extend_from_slice(b"25");
        }
    }
}

/// Whether an escape begins with this byte: how many `25` it has, and what it stands for.
fn escape_behind(byte: u8, behind: &[u8], escapes: &[Escape]) -> Option<(usize, u8)> {
    if byte != b'%' {
        return None;
    }
    let mut rest = behind;
    let mut count = 0;
    while let Some(after) = rest.strip_prefix(b"25") {
        rest = after;
        count += 1;
    }
    let found = escapes.iter().find(|(_, digits)| rest.starts_with(digits));
    found.map(|(character, _)| (count, *character))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key_of(topic: &str) -> Option<String> {
        let key = Translation::Reversible.key_of(topic.as_bytes())?;
        Some(String::from_utf8(key.into_owned()).unwrap())
    }

    fn topic_of(key: &str) -> Option<String> {
        let topic = Translation::Reversible.topic_of(key.as_bytes())?;
        Some(String::from_utf8(topic.into_owned()).unwrap())
    }

    #[test]
    fn levels_become_words_and_what_means_something_there_an_escape() {
        for (topic, key) in [
            ("sensor", "sensor"),
            ("a/b//c/", "a.b..c."),
            ("/a", ".a"),
            ("v1.2/x*", "v1%2E2.x%2A"),
            ("50%", "50%"),
            ("%2E", "%252E"),
            ("%252E", "%25252E"),
            ("%25", "%25"),
            ("a%2Fb", "a/b"),
            ("a%252Fb", "a%2Fb"),
            ("%41", "%41"),
        ] {
            assert_eq!(key_of(topic).as_deref(), Some(key), "{topic}");
            assert_eq!(topic_of(key).as_deref(), Some(topic), "{key}");
        }
        assert_eq!(topic_of("a+.#").as_deref(), Some("a%2B/%23"));
    }

    #[test]
    fn what_the_other_side_cannot_have_is_refused() {
        assert_eq!(key_of(&"x".repeat(255)).map(|key| key.len()), Some(255));
        assert_eq!(key_of(&"x".repeat(256)), None);
        assert_eq!(key_of(&".".repeat(100)), None, "it grows");
        assert_eq!(topic_of(""), None);
        assert_eq!(topic_of("a\0b"), None);
        assert_eq!(Translation::Reversible.topic_of(b"\xff"), None);
        assert_eq!(Translation::Plain.topic_of(b"a.*"), None);
    }

    #[test]
    fn plain_is_as_rabbitmq_does() {
        let plain = Translation::Plain;
        assert_eq!(plain.key_of(b"a/b.c").as_deref(), Some(&b"a.b/c"[..]));
        assert_eq!(plain.topic_of(b"a.b/c").as_deref(), Some(&b"a/b.c"[..]));
    }

    fn text(alphabet: &'static [&'static str]) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(alphabet), 1..20)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn a_topic_comes_back(topic in text(&["a", "/", ".", "*", "%", "2", "5", "25", "2E", "F", "23", "%2E"])) {
            if let Some(key) = key_of(&topic) {
                prop_assert_eq!(topic_of(&key), Some(topic));
            }
        }

        #[test]
        fn a_key_without_a_wildcard_comes_back(key in text(&["a", "/", ".", "#", "+", "%", "2", "5", "25", "2E", "F", "23", "%2F"])) {
            let topic = topic_of(&key).unwrap();
            let back = Translation::Reversible.key_of(topic.as_bytes());
            if let Some(back) = back {
                prop_assert_eq!(back.as_ref(), key.as_bytes());
            }
        }
    }
}
