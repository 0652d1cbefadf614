//! Bytes as RabbitMQ's error texts print them, in Erlang's notation for binaries.

/// `<<"text">>` where every byte is printable, `<<1,2,3>>` otherwise.
pub(crate) fn binary(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "<<>>".to_owned();
    }
    if bytes.iter().all(|byte| is_printable(*byte)) {
        let text: String = bytes.iter().map(|byte| escape(*byte)).collect();
        return format!("<<\"{text}\">>");
    }
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    format!("<<{}>>", numbers.join(","))
}

/// How much of a payload a text shows, and those bytes: `all octets = <<>>`.
pub(crate) fn snippet(payload: &[u8]) -> String {
    match payload.get(..SNIPPET_BYTES) {
        Some(first) if payload.len() > SNIPPET_BYTES => {
            format!("first 16 octets = {}", binary(first))
        }
        _ => format!("all octets = {}", binary(payload)),
    }
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, 8..=13 | 27 | 32..=126 | 160..=255)
}

fn escape(byte: u8) -> String {
    match byte {
        8 => "\\b".to_owned(),
        9 => "\\t".to_owned(),
        10 => "\\n".to_owned(),
        11 => "\\v".to_owned(),
        12 => "\\f".to_owned(),
        13 => "\\r".to_owned(),
        27 => "\\e".to_owned(),
        b'"' => "\\\"".to_owned(),
        b'\\' => "\\\\".to_owned(),
        other => char::from(other).to_string(),
    }
}

const SNIPPET_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_bytes_are_text_and_others_are_numbers() {
        assert_eq!(binary(b""), "<<>>");
        assert_eq!(binary(b"a\"b\n"), "<<\"a\\\"b\\n\">>");
        assert_eq!(binary(&[0, 10]), "<<0,10>>");
        assert_eq!(snippet(&[0; 3]), "all octets = <<0,0,0>>");
        assert_eq!(
            snippet(&[b'a'; 17]),
            "first 16 octets = <<\"aaaaaaaaaaaaaaaa\">>"
        );
    }
}
