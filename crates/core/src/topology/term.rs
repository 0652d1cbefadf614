//! Field values as Erlang prints them, for the texts that RabbitMQ's clients know.

use std::fmt;

use menzil_model::Value;
use menzil_model::table::NESTING_MAX;

/// Displays a value as `~tp` prints what RabbitMQ makes of it, save that long lists stay on one
/// line and large floats have no exponent.
pub(crate) struct Term<'a>(pub(crate) Value<'a>);

impl fmt::Display for Term<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_term(f, self.0, 0)
    }
}

fn write_term(f: &mut fmt::Formatter<'_>, value: Value<'_>, depth: usize) -> fmt::Result {
    match value {
        Value::Bool(flag) => write!(f, "{flag}"),
        // Debug keeps the fraction of a whole number, as Erlang does.
        Value::F32(number) => write!(f, "{:?}", f64::from(number)),
        Value::F64(number) => write!(f, "{number:?}"),
        Value::Decimal(places, number) => write!(f, "{{{places},{number}}}"),
        Value::LongString(bytes) | Value::Binary(bytes) => write_binary(f, bytes),
        Value::Timestamp(seconds) => write!(f, "{seconds}"),
        Value::Void => f.write_str("undefined"),
        Value::Array(items) => {
            write_list(f, items.take_while(|_| depth < NESTING_MAX), |f, item| {
                write!(f, "{{{},", item.type_name())?;
                write_term(f, item, depth + 1)?;
                f.write_str("}")
            })
        }
        Value::Table(fields) => write_list(
            f,
            fields.take_while(|_| depth < NESTING_MAX),
            |f, (name, value)| {
                f.write_str("{")?;
                write_binary(f, name)?;
                write!(f, ",{},", value.type_name())?;
                write_term(f, value, depth + 1)?;
                f.write_str("}")
            },
        ),
        Value::I8(_)
        | Value::U8(_)
        | Value::I16(_)
        | Value::U16(_)
        | Value::I32(_)
        | Value::U32(_)
        | Value::I64(_) => write!(f, "{}", value.as_integer().unwrap_or_default()),
    }
}

fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    f.write_str("[")?;
    for (place, item) in items.enumerate() {
        if place > 0 {
            f.write_str(",")?;
        }
        write(f, item)?;
    }
    f.write_str("]")
}

/// A text where all of it prints, else numbers.
fn write_binary(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    if bytes.is_empty() {
        return f.write_str("<<>>");
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(prints) => {
            f.write_str("<<\"")?;
            for character in text.chars() {
                match character {
                    '"' | '\\' => write!(f, "\\{character}")?,
                    '\u{8}' => f.write_str("\\b")?,
                    '\t' => f.write_str("\\t")?,
                    '\n' => f.write_str("\\n")?,
                    '\u{b}' => f.write_str("\\v")?,
                    '\u{c}' => f.write_str("\\f")?,
                    '\r' => f.write_str("\\r")?,
                    '\u{1b}' => f.write_str("\\e")?,
                    _ => write!(f, "{character}")?,
                }
            }
            f.write_str(if text.is_ascii() { "\">>" } else { "\"/utf8>>" })
        }
        _ => {
            f.write_str("<<")?;
            for (place, byte) in bytes.iter().enumerate() {
                let comma = if place > 0 { "," } else { "" };
                write!(f, "{comma}{byte}")?;
            }
            f.write_str(">>")
        }
    }
}

/// What Erlang's shell calls printable by default: Latin-1.
fn prints(character: char) -> bool {
    matches!(character, ' '..='~' | '\u{a0}'..='\u{ff}' | '\u{8}'..='\r' | '\u{1b}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::TableBuilder;

    #[test]
    fn values_print_as_erlang_prints_them() {
        let table = TableBuilder::new()
            .field("n", Value::I8(1))
            .field("s", Value::LongString(b"a\"b"))
            .build();
        for (value, text) in [
            (Value::LongString(b"q2"), "<<\"q2\">>"),
            (Value::LongString(b""), "<<>>"),
            (Value::LongString(b"\xff\0"), "<<255,0>>"),
            (Value::LongString("é".as_bytes()), "<<\"é\"/utf8>>"),
            (Value::LongString(b"a\n\t\x08\x1b"), "<<\"a\\n\\t\\b\\e\">>"),
            (Value::LongString("日".as_bytes()), "<<230,151,165>>"),
            (Value::LongString(b"\x7f"), "<<127>>"),
            (Value::I64(-5), "-5"),
            (Value::F64(1.0), "1.0"),
            (Value::Bool(false), "false"),
            (Value::Void, "undefined"),
            (Value::Decimal(2, 314), "{2,314}"),
            (
                Value::Table(table.fields()),
                "[{<<\"n\">>,byte,1},{<<\"s\">>,longstr,<<\"a\\\"b\">>}]",
            ),
        ] {
            assert_eq!(Term(value).to_string(), text);
        }
    }
}
