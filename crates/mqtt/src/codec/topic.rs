//! Topic names and topic filters (§4.7, §4.8.2). Levels are parted by `/` and may be empty.

use super::text::{TEXT_BYTES_MAX, TextPolicy, check_text, check_unusual_text, is_simple};
use super::violation::Rule;

/// The topic a message was published to: at least one character, no wildcard (MQTT-4.7.3-1,
/// MQTT-3.3.2-2), at most 65,535 bytes of UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName<'a>(&'a [u8]);

impl<'a> TopicName<'a> {
    /// No name: an alias stands for it (§3.3.2.3.4).
    pub const ALIASED: Self = Self(b"");

    /// Checks a name.
    ///
    /// # Errors
    /// Empty, over 65,535 bytes, not text, with a wildcard, or of more levels than allowed.
    #[inline]
    pub fn parse(bytes: &'a [u8], policy: TextPolicy, levels_max: u16) -> Result<Self, Rule> {
        if !is_simple(bytes) {
            check_unusual_text(bytes, policy)?;
            if bytes.iter().any(|byte| is_wildcard(*byte)) {
                return Err(Rule::TopicWildcard);
            }
        }
        if bytes.is_empty() {
            return Err(Rule::TopicEmpty);
        }
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(Rule::TextTooLong);
        }
        if has_too_many_levels(bytes, levels_max) {
            return Err(Rule::TopicLevels);
        }
        Ok(Self(bytes))
    }

    /// The name, UTF-8.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// True where an alias stands for the name.
    #[inline]
    pub fn is_aliased(self) -> bool {
        self.0.is_empty()
    }
}

/// What a subscription asks for. `$share/GROUP/FILTER` is a shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilter<'a> {
    whole: &'a [u8],
    /// Bytes before the filter proper: `$share/GROUP/` or none.
    prefix_bytes: usize,
}

/// What a shared subscription begins with (§4.8.2).
const SHARED: &[u8] = b"$share/";

impl<'a> TopicFilter<'a> {
    /// Checks a filter.
    ///
    /// # Errors
    /// Empty, over 65,535 bytes, not text, a wildcard beside other characters or `#` before the
    /// end (MQTT-4.7.1-1, MQTT-4.7.1-2), more levels than allowed, or a shared subscription whose
    /// group or filter is empty or whose group has a wildcard (MQTT-4.8.2-1, MQTT-4.8.2-2).
    pub fn parse(whole: &'a [u8], policy: TextPolicy, levels_max: u16) -> Result<Self, Rule> {
        check_text(whole, policy)?;
        if whole.is_empty() {
            return Err(Rule::TopicEmpty);
        }
        if whole.len() > TEXT_BYTES_MAX {
            return Err(Rule::TextTooLong);
        }
        let filter = Self {
            whole,
            prefix_bytes: shared_prefix(whole)?,
        };
        if has_too_many_levels(filter.levels(), levels_max) {
            return Err(Rule::FilterLevels);
        }
        check_wildcards(filter.levels())?;
        Ok(filter)
    }

    /// As the client wrote it, UTF-8.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.whole
    }

    /// The group of a shared subscription.
    #[inline]
    pub fn group(&self) -> Option<&'a [u8]> {
        self.whole
            .get(SHARED.len()..self.prefix_bytes.checked_sub(1)?)
    }

    /// What topic names are matched with.
    #[inline]
    pub fn levels(&self) -> &'a [u8] {
        self.whole.get(self.prefix_bytes..).unwrap_or_default()
    }

    /// True where more than one topic name may match.
    pub fn has_wildcard(&self) -> bool {
        self.levels().iter().any(|byte| is_wildcard(*byte))
    }
}

/// Bytes of `$share/GROUP/`, 0 where the filter is not shared.
fn shared_prefix(whole: &[u8]) -> Result<usize, Rule> {
    let Some(rest) = whole.strip_prefix(SHARED) else {
        return Ok(0);
    };
    let group_bytes = rest.iter().position(|byte| *byte == b'/');
    let group_bytes = group_bytes.ok_or(Rule::SharedWithoutFilter)?;
    let (group, filter) = rest.split_at_checked(group_bytes).unwrap_or_default();
    if group.is_empty() || group.iter().any(|byte| is_wildcard(*byte)) {
        return Err(Rule::SharedGroup);
    }
    if filter.len() <= 1 {
        return Err(Rule::SharedWithoutFilter);
    }
    Ok(SHARED.len() + group_bytes + 1)
}

fn check_wildcards(filter: &[u8]) -> Result<(), Rule> {
    let mut has_ended = false;
    for level in filter.split(|byte| *byte == b'/') {
        let is_odd = level.len() > 1 && level.iter().any(|byte| is_wildcard(*byte));
        if has_ended || is_odd {
            return Err(Rule::FilterWildcard);
        }
        has_ended = level == b"#";
    }
    Ok(())
}

#[inline]
fn is_wildcard(byte: u8) -> bool {
    byte & 0xF7 == b'#'
}

/// Levels are counted only where there could be too many.
#[inline]
fn has_too_many_levels(bytes: &[u8], levels_max: u16) -> bool {
    let most = usize::from(levels_max);
    bytes.len() >= most && bytes.split(|byte| *byte == b'/').count() > most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(bytes: &[u8], levels_max: u16) -> Option<Rule> {
        TopicName::parse(bytes, TextPolicy::Plain, levels_max).err()
    }

    fn filter(bytes: &[u8]) -> Result<TopicFilter<'_>, Rule> {
        TopicFilter::parse(bytes, TextPolicy::Plain, 4)
    }

    #[test]
    fn a_name_has_characters_and_no_wildcards() {
        for good in ["a", "/", "//", "/a/", "a b", "$SYS/x", "é/ü", "𪛔"] {
            assert_eq!(name(good.as_bytes(), 9), None, "{good}");
        }
        assert_eq!(name(b"", 9), Some(Rule::TopicEmpty));
        for wild in ["+", "a/#", "a+b", "é/+", "#é"] {
            assert_eq!(
                name(wild.as_bytes(), 9),
                Some(Rule::TopicWildcard),
                "{wild}"
            );
        }
    }

    #[test]
    fn levels_are_counted_with_the_empty_ones() {
        assert_eq!(name(b"a/b/c", 3), None);
        assert_eq!(name(b"a/b/c", 2), Some(Rule::TopicLevels));
        assert_eq!(name(b"//", 3), None);
        assert_eq!(name(b"//", 2), Some(Rule::TopicLevels));
        assert_eq!(
            filter(b"$share/g/a/b/c/d").map(|of| of.levels()),
            Ok(&b"a/b/c/d"[..])
        );
        assert_eq!(filter(b"a/b/c/d/#"), Err(Rule::FilterLevels));
    }

    #[test]
    fn a_wildcard_stands_alone_in_its_level_and_a_hash_at_the_end() {
        for good in [
            "#", "+", "+/+", "a/+/b", "a/#", "/+", "+/", "a//#", "$SYS/#", "é/#",
        ] {
            assert!(filter(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            "a#", "#/", "#/a", "a+", "+a/b", "##", "++", "a/b#", "é#", "#/é",
        ] {
            assert_eq!(filter(bad.as_bytes()), Err(Rule::FilterWildcard), "{bad}");
        }
        assert_eq!(filter(b""), Err(Rule::TopicEmpty));
    }

    #[test]
    fn a_shared_filter_has_a_group_and_a_filter() {
        let shared = filter(b"$share/g/a/+").unwrap();
        assert_eq!(shared.group(), Some(&b"g"[..]));
        assert_eq!(shared.levels(), b"a/+");
        assert_eq!(shared.as_bytes(), b"$share/g/a/+");
        assert!(shared.has_wildcard());
        assert_eq!(filter(b"$share/g//").map(|of| of.levels()), Ok(&b"/"[..]));
        for bare in [&b"$share"[..], b"$shared/g/a", b"a/$share/g/a"] {
            assert_eq!(filter(bare).map(|of| of.group()), Ok(None));
        }
        for bad in [&b"$share/g"[..], b"$share/g/", b"$share/"] {
            assert_eq!(filter(bad), Err(Rule::SharedWithoutFilter), "{bad:?}");
        }
        for bad in [&b"$share//a"[..], b"$share/+/a", b"$share/g#/a"] {
            assert_eq!(filter(bad), Err(Rule::SharedGroup), "{bad:?}");
        }
        assert_eq!(filter(b"$share/g/a#"), Err(Rule::FilterWildcard));
    }
}
