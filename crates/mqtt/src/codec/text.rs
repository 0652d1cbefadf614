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

/// True where all is U+0020 to U+007E and no `+` nor `#`: any policy lets it pass, and any topic
/// name may be it. It looks at eight bytes at once: most topics take two or three steps.
#[inline]
pub(super) fn is_simple(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<8>() else {
        return oddities(short_word(bytes)) & HIGH == 0;
    };
    let mut odd = oddities(u64::from_le_bytes(*last));
    let mut rest = bytes;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        odd |= oddities(u64::from_le_bytes(*word));
        rest = behind;
    }
    odd & HIGH == 0
}

/// A word that has all of fewer than eight bytes, some of them twice.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    let at = |place: usize| u64::from(bytes.get(place).copied().unwrap_or(b'a'));
    FILLER << 24 | at(0) << 16 | at(1) << 8 | at(2)
}

/// The high bit of some byte is set where a byte is below 0x20 (the subtraction borrows), above
/// 0x7E (the addition reaches 0x80, or the bit was there), or `#` (0x23) or `+` (0x2B), which are
/// one bit apart.
#[inline]
fn oddities(word: u64) -> u64 {
    let zero_for_wildcards = (word & (0xF7 * ONES)) ^ (0x23 * ONES);
    word | word.wrapping_sub(0x20 * ONES)
        | word.wrapping_add(ONES)
        | zero_for_wildcards.wrapping_sub(ONES)
}

/// What a length of two bytes can say (§1.5.4).
pub(super) const TEXT_BYTES_MAX: usize = 65_535;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x80 * ONES;
/// Letters.
const FILLER: u64 = 0x61 * ONES;

/// Checks text.
///
/// # Errors
/// Ill-formed (MQTT-1.5.4-1), with U+0000 (MQTT-1.5.4-2), or against the policy.
#[inline]
pub(super) fn check_text(bytes: &[u8], policy: TextPolicy) -> Result<(), Rule> {
    if is_simple(bytes) {
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

    fn twin(bytes: &[u8]) -> bool {
        bytes
            .iter()
            .all(|byte| (0x20..=0x7E).contains(byte) && !b"+#".contains(byte))
    }

    proptest! {
        #[test]
        fn words_see_what_bytes_see(bytes in "[ -~é]{0,40}") {
            prop_assert_eq!(is_simple(bytes.as_bytes()), twin(bytes.as_bytes()));
        }
    }

    #[test]
    fn every_byte_is_seen_at_every_place() {
        for filler in [b' ', b'x', b'~'] {
            for (length, byte) in (1..20).flat_map(|length| (0..=u8::MAX).map(move |b| (length, b)))
            {
                for place in 0..length {
                    let mut bytes = vec![filler; length];
                    bytes[place] = byte;
                    assert_eq!(
                        is_simple(&bytes),
                        twin(&bytes),
                        "{byte} at {place} of {length}"
                    );
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
