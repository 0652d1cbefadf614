//! UTF-8 strings (§1.5.4).

use super::violation::Rule;

/// What is refused of well-formed text. U+0000 always is (MQTT-1.5.4-2), U+FEFF never
/// (MQTT-1.5.4-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TextPolicy {
    /// Control characters and non-characters too, which nobody should send (§1.5.4) and which end
    /// a connection to many a receiver.
    #[default]
    Plain,
    /// Nothing else.
    Any,
}

/// What a look at all bytes has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// Only U+0020 to U+007E: every policy lets it pass.
    pub(super) is_printable: bool,
    /// A `+` or `#` is there (certain only where all is printable).
    pub(super) has_wildcard: bool,
}

/// Looks at eight bytes at once: most topics take two or three steps.
#[inline]
pub(super) fn scan(bytes: &[u8]) -> Scan {
    let (words, rest) = bytes.as_chunks::<8>();
    let (mut odd, mut wild) = (0, 0);
    let mut look = |word: u64| {
        odd |= not_printable(word);
        wild |= wildcards(word);
    };
    for word in words {
        look(u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        look(match bytes.last_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => short_word(rest),
        });
    }
    Scan {
        is_printable: odd & HIGH == 0,
        has_wildcard: wild & HIGH != 0,
    }
}

/// Fewer than eight bytes as a word, filled up with a letter.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(u64::from_le_bytes([b'a'; 8]), |word, &byte| {
            word << 8 | u64::from(byte)
        })
}

/// What a length of two bytes can say (§1.5.4).
pub(super) const TEXT_BYTES_MAX: usize = 65_535;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * ONES;

/// The high bit of some byte is set where a byte is below 0x20 or above 0x7E: the subtraction
/// borrows, the addition reaches 0x80, or the bit was there.
#[inline]
fn not_printable(word: u64) -> u64 {
    word | word.wrapping_sub(0x20 * ONES) | word.wrapping_add(ONES)
}

/// The high bit of some byte is set where a byte is `#` (0x23) or `+` (0x2B), one bit apart.
#[inline]
fn wildcards(word: u64) -> u64 {
    let zeroed = (word & (0xF7 * ONES)) ^ (0x23 * ONES);
    zeroed.wrapping_sub(ONES) & !zeroed
}

/// Checks text.
///
/// # Errors
/// Ill-formed (MQTT-1.5.4-1), with U+0000 (MQTT-1.5.4-2), or against the policy.
#[inline]
pub(super) fn check_text(bytes: &[u8], policy: TextPolicy) -> Result<(), Rule> {
    if scan(bytes).is_printable {
        return Ok(());
    }
    check_unusual_text(bytes, policy)
}

#[cold]
pub(super) fn check_unusual_text(bytes: &[u8], policy: TextPolicy) -> Result<(), Rule> {
    let text = str::from_utf8(bytes).map_err(|_| Rule::TextIllFormed)?;
    for character in text.chars() {
        if character == '\0' {
            return Err(Rule::TextWithNul);
        }
        if policy == TextPolicy::Plain && (character.is_control() || is_non_character(character)) {
            return Err(Rule::TextNotPlain);
        }
    }
    Ok(())
}

/// The code points that Unicode keeps for nobody.
fn is_non_character(character: char) -> bool {
    let code = u32::from(character);
    code & 0xFFFE == 0xFFFE || (0xFDD0..=0xFDEF).contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn twin(bytes: &[u8]) -> Scan {
        Scan {
            is_printable: bytes.iter().all(|byte| (0x20..=0x7E).contains(byte)),
            has_wildcard: bytes.iter().any(|byte| b"+#".contains(byte)),
        }
    }

    proptest! {
        #[test]
        fn words_see_what_bytes_see(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(scan(&bytes).is_printable, twin(&bytes).is_printable);
        }

        #[test]
        fn wildcards_are_seen_in_printable_text(bytes in "[ -~]{0,40}") {
            prop_assert_eq!(scan(bytes.as_bytes()), twin(bytes.as_bytes()));
        }
    }

    #[test]
    fn every_byte_is_seen_at_every_place() {
        for length in 1..20 {
            for place in 0..length {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![b'x'; length];
                    bytes[place] = byte;
                    let (seen, meant) = (scan(&bytes), twin(&bytes));
                    assert_eq!(seen.is_printable, meant.is_printable, "{byte} at {place}");
                    if meant.is_printable {
                        assert_eq!(seen.has_wildcard, meant.has_wildcard, "{byte} at {place}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_the_standard_forbids_and_what_it_only_dislikes() {
        let both = |bytes: &[u8]| {
            [TextPolicy::Plain, TextPolicy::Any].map(|policy| check_text(bytes, policy).err())
        };
        assert_eq!(both("a\u{FEFF}é𪛔".as_bytes()), [None, None]);
        assert_eq!(both(b"a\0b"), [Some(Rule::TextWithNul); 2]);
        for ill in [
            &b"\xED\xA0\x80"[..],
            b"\xC0\x80",
            b"\xF4\x90\x80\x80",
            b"\xC3",
            b"\xFF",
        ] {
            assert_eq!(both(ill), [Some(Rule::TextIllFormed); 2], "{ill:x?}");
        }
        for odd in [
            "\u{1}",
            "\u{1F}",
            "\u{7F}",
            "\u{9F}",
            "\u{FFFF}",
            "\u{FDD0}",
            "\u{1FFFE}",
        ] {
            assert_eq!(
                both(odd.as_bytes()),
                [Some(Rule::TextNotPlain), None],
                "{odd:?}"
            );
        }
    }
}
