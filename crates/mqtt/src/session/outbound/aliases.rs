//! Topic aliases that the server sets (§3.3.2.3.4), the least recently used one first to go.

/// The aliases of one connection.
#[derive(Debug)]
pub(super) struct Aliases {
    /// As many as the client allows and the server wants; not 0.
    most: u16,
    /// Topic and alias, the most recently used last.
    used: Vec<(Box<[u8]>, u16)>,
}

/// What stands for a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alias {
    /// The client has to be told topic and alias.
    New(u16),
    /// The alias alone will do.
    Known(u16),
}

impl Aliases {
    pub(super) fn new(most: u16) -> Self {
        let used = Vec::new();
        Self { most, used }
    }

    /// The alias of a topic; none where that would be as long.
    pub(super) fn of(&mut self, topic: &[u8]) -> Option<Alias> {
        if topic.len() <= ALIAS_BYTES || topic.len() > TOPIC_BYTES_MAX {
            return None;
        }
        let found = self.used.iter().position(|(known, _)| **known == *topic);
        if let Some(at) = found {
            let known = self.used.remove(at);
            let number = known.1;
            self.used.push(known);
            return Some(Alias::Known(number));
        }
        let number = if self.used.len() < usize::from(self.most) {
            u16::try_from(self.used.len() + 1).ok()?
        } else {
            self.used.remove(0).1
        };
        self.used.push((topic.into(), number));
        Some(Alias::New(number))
    }

    /// The client was not told of the alias that was made last, for this topic. What it stood for
    /// before is forgotten here, which does no harm.
    pub(super) fn forget(&mut self, topic: &[u8]) {
        if let Some((known, _)) = self.used.last_mut()
            && **known == *topic
        {
            // The number stays in use; no topic is empty.
            *known = Box::default();
        }
    }
}

/// Bytes of the property.
const ALIAS_BYTES: usize = 3;
/// Longer topics are not kept: memory is bounded.
const TOPIC_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut aliases = Aliases::new(2);
        assert_eq!(aliases.of(b"t/one"), Some(Alias::New(1)));
        assert_eq!(aliases.of(b"t/two"), Some(Alias::New(2)));
        assert_eq!(aliases.of(b"t/one"), Some(Alias::Known(1)));
        assert_eq!(aliases.of(b"t/three"), Some(Alias::New(2)));
        assert_eq!(aliases.of(b"t/two"), Some(Alias::New(1)));
        assert_eq!(aliases.of(b"t/three"), Some(Alias::Known(2)));
        assert_eq!(aliases.of(b"abc"), None);
    }

    #[test]
    fn what_was_not_sent_is_not_known() {
        let mut aliases = Aliases::new(1);
        assert_eq!(aliases.of(b"t/one"), Some(Alias::New(1)));
        aliases.forget(b"t/one");
        assert_eq!(aliases.of(b"t/one"), Some(Alias::New(1)));
        assert_eq!(aliases.of(b"t/one"), Some(Alias::Known(1)));
    }
}
