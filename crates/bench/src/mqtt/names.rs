//! Topic names, filters and client identifiers of a run.
//!
//! A topic's number is part of its name with as many digits as any other, three levels of a
//! thousand each: `bench/1a2b3c4d/000/000/007`. So all messages have one length, and a message is
//! sent to another topic by writing nine digits.

use std::hash::{BuildHasher, RandomState};

/// Topics that a name can number.
pub(crate) const TOPICS_MAX: u64 = 1_000_000_000;
/// Characters of a topic's number.
pub(crate) const NUMBER_BYTES: usize = 11;

/// What all names of a run begin with.
#[derive(Debug, Clone)]
pub(crate) struct Names(String);

impl Names {
    /// The given one, or one that nobody else has.
    pub(crate) fn of(name: Option<&str>) -> Self {
        let random = RandomState::new().hash_one(std::process::id()) & 0xFFFF_FFFF;
        Self(name.map_or_else(|| format!("{random:08x}"), str::to_owned))
    }

    pub(crate) fn topic(&self, number: u64) -> String {
        let mut text = format!("bench/{}/", self.0);
        text.extend(number_bytes(number).map(char::from));
        text
    }

    /// The filter of all topics.
    pub(crate) fn all(&self) -> String {
        format!("bench/{}/#", self.0)
    }

    /// A filter that matches none of the topics.
    pub(crate) fn other(&self, number: u64) -> String {
        match number % 3 {
            0 => format!("bench/{}/+/other/{number}", self.0),
            1 => format!("bench/{}/other/{number}/#", self.0),
            _ => format!("bench/{}/000/000/000/{number}", self.0),
        }
    }

    /// The filter as a member of the group subscribes to it.
    pub(crate) fn shared(&self, group: u64, filter: &str) -> String {
        format!("$share/{}{group}/{filter}", self.0)
    }

    /// At most 23 bytes of letters and digits where the name is our own (MQTT-3.1.3-5).
    pub(crate) fn client(&self, what: char, number: u64) -> String {
        format!("b{}{what}{number}", self.0)
    }
}

/// `012/345/678`, as bytes.
#[inline]
pub(crate) fn number_bytes(number: u64) -> [u8; NUMBER_BYTES] {
    let mut text = *b"000/000/000";
    let mut left = number;
    for byte in text.iter_mut().rev() {
        if *byte != b'/' {
            *byte += u8::try_from(left % 10).unwrap_or(0);
            left /= 10;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_length_and_a_run_its_own() {
        let names = Names::of(Some("mine"));
        assert_eq!(names.topic(0), "bench/mine/000/000/000");
        assert_eq!(names.topic(12_345_678), "bench/mine/012/345/678");
        assert_eq!(names.shared(1, &names.all()), "$share/mine1/bench/mine/#");
        assert_eq!(&number_bytes(TOPICS_MAX - 1), b"999/999/999");
        let client = Names::of(None).client('s', 1_000_000);
        assert!(client.len() <= 23 && client.bytes().all(|b| b.is_ascii_alphanumeric()));
    }
}
