//! Message bodies that tell who they are: the number first, then bytes that follow from it, so
//! that a wrong, cut or mixed-up body shows.

use bytes::Bytes;

/// A published message, numbered in the order of sending.
pub(crate) type MessageNumber = u64;

/// The body of that message, at least eight bytes long.
pub(crate) fn body(number: MessageNumber, length: usize) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend((8..length).map(|at| filler(number, at)));
    bytes
}

fn filler(number: MessageNumber, at: usize) -> u8 {
    let mixed = (at as u64)
        .wrapping_mul(0x9e37_79b9)
        .wrapping_add(number * 131);
    mixed.to_le_bytes()[1]
}

/// The number in a body, if everything behind it belongs to that number.
pub(crate) fn number(parts: &[Bytes]) -> Result<(MessageNumber, usize), String> {
    let bytes = parts.concat();
    let number = bytes
        .first_chunk::<8>()
        .map(|bytes| u64::from_be_bytes(*bytes));
    let Some(number) = number else {
        return Err(format!("a body of {} bytes", bytes.len()));
    };
    match (8..bytes.len()).find(|at| bytes[*at] != filler(number, *at)) {
        None => Ok((number, bytes.len())),
        Some(at) => Err(format!(
            "the body of message {number} is wrong at byte {at}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_names_itself_and_damage_shows() {
        let mut bytes = body(77, 5000);
        assert_eq!(number(&[Bytes::from(bytes.clone())]), Ok((77, 5000)));
        bytes.copy_within(100..200, 4196);
        assert!(number(&[Bytes::from(bytes)]).is_err());
        assert!(number(&[Bytes::from_static(b"short")]).is_err());
    }
}
