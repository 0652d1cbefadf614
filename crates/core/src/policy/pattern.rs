//! The pattern of a policy: a regular expression over the bytes of a name, as RabbitMQ has it.
//!
//! Matching takes time by pattern and name, whatever they are: nothing is tried twice. So there
//! are no back references and no look-around, save the one that policies are known to begin with:
//! `^(?!amq\.)…` and `^(?=…)…`, where two expressions say the same.

use std::borrow::Cow;

use regex_lite::{Regex, RegexBuilder};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// Every name.
    Always,
    /// No name.
    Never,
    /// Names that the expression is found in.
    Found(Regex),
    /// Of those the ones that begin, or do not begin, with another.
    Ahead {
        ahead: Regex,
        is_wanted: bool,
        rest: Regex,
    },
}

/// Bytes of a pattern, as in RabbitMQ.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024;

/// Bytes of a compiled expression.
const COMPILED_BYTES_MAX: usize = 64 << 10;

impl Pattern {
    /// Compiles a pattern; the error says what is wrong with it.
    pub(crate) fn new(pattern: &[u8]) -> Result<Self, String> {
        if matches!(pattern, b"" | b".*" | b"^" | b"^.*") {
            return Ok(Self::Always);
        }
        let text = text_of(pattern);
        let Some((ahead, is_wanted, rest)) = look_ahead(&text) else {
            return Ok(Self::Found(compile(&text)?));
        };
        Ok(Self::Ahead {
            ahead: compile(&format!("^(?:{ahead})"))?,
            is_wanted,
            rest: compile(&format!("^(?:{rest})"))?,
        })
    }

    /// Whether a name matches.
    pub(crate) fn is_match(&self, name: &[u8]) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Found(found) => found.is_match(&text_of(name)),
            Self::Ahead {
                ahead,
                is_wanted,
                rest,
            } => {
                let name = text_of(name);
                ahead.is_match(&name) == *is_wanted && rest.is_match(&name)
            }
        }
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(text);
    let regex = builder.size_limit(COMPILED_BYTES_MAX).build();
    regex.map_err(|error| error.to_string())
}

/// Each byte as the character of that number, so that `.` is one byte.
fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => Cow::Borrowed(text),
        _ => bytes.iter().copied().map(char::from).collect(),
    }
}

/// What a pattern looks ahead for at its beginning, whether it wants it, and what follows. `None`
/// where it does not begin so, or has alternatives outside of any group: those that come later
/// do not look.
fn look_ahead(text: &str) -> Option<(&str, bool, &str)> {
    let inner = text.strip_prefix("^(?")?;
    let (inner, is_wanted) = match inner.strip_prefix('!') {
        Some(inner) => (inner, false),
        None => (inner.strip_prefix('=')?, true),
    };
    let end = closing(inner, ')')?;
    let (ahead, rest) = inner.split_at_checked(end)?;
    let rest = rest.get(1..)?;
    closing(rest, '|')
        .is_none()
        .then_some((ahead, is_wanted, rest))
}

/// The first place of a character that stands in no group and no class.
fn closing(text: &str, wanted: char) -> Option<usize> {
    let (mut depth, mut class) = (0_u32, None);
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match (character, class) {
            ('\\', _) => {
                characters.next();
            }
            // A bracket that comes first in a class stands for itself.
            (']', Some(start)) if place > start => class = None,
            (_, Some(_)) => {}
            ('[', None) => {
                let negated = text.get(place + 1..)?.starts_with('^');
                class = Some(place + 1 + usize::from(negated));
            }
            _ if character == wanted && depth == 0 => return Some(place),
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            (_, None) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern.as_bytes())
            .unwrap()
            .is_match(name.as_bytes())
    }

    #[test]
    fn a_pattern_is_found_anywhere_unless_it_says_where() {
        assert!(matches("rder", "orders"));
        assert!(!matches("^rder", "orders"));
        assert!(matches("^orders\\.(eu|us)$", "orders.eu"));
        assert!(!matches("^orders\\.(eu|us)$", "orders.eu.old"));
        for all in ["", ".*", "^", "^.*"] {
            assert!(matches(all, "anything") && matches(all, ""));
        }
        assert!(!matches("^$", "a"));
        assert!(matches("(?i)ORDERS", "orders"));
        assert!(matches("^[[:alpha:]]+$", "orders"));
    }

    #[test]
    fn what_does_not_begin_with_something_may_be_asked_for() {
        let pattern = "^(?!amq\\.)";
        assert!(matches(pattern, "orders") && !matches(pattern, "amq.gen-1"));
        let pattern = "^(?!amq\\.|tmp[)|]).*\\.work$";
        assert!(matches(pattern, "a.work") && !matches(pattern, "a.play"));
        assert!(!matches(pattern, "amq.work") && !matches(pattern, "tmp|.work"));
        assert!(matches(pattern, "tmp.work"));
        let pattern = "^(?=eu)(eu\\.a|us\\.a)";
        assert!(matches(pattern, "eu.a") && !matches(pattern, "us.a"));
        // The second alternative does not look ahead.
        assert!(Pattern::new(b"^(?!a)b|c").is_err());
        assert!(Pattern::new(b"a(?!b)").is_err());
    }

    #[test]
    fn names_are_bytes() {
        assert!(matches("^..$", "é"));
        assert!(matches("^é$", "é"));
        assert!(Pattern::new(b"^.$").unwrap().is_match(b"\xff"));
    }

    #[test]
    fn what_is_no_expression_or_too_large_is_refused() {
        for wrong in ["[a", "(a", "a{9999}{9999}", "*", "(?<=a)b", "\\1"] {
            assert!(Pattern::new(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
