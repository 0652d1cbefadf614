//! JSON values as field values.

use menzil_model::table::write_value;
use menzil_model::wire::Writer as _;
use menzil_model::{Table, Value};
use serde_json::Value as Json;

/// A JSON object as a field table: texts, whole numbers, numbers with a fraction, flags, lists
/// and objects have a type of their own, `null` is void. The error names the key.
pub(crate) fn table_of(object: &serde_json::Map<String, Json>) -> Result<Table, String> {
    table_of_fields(object.iter().map(|(key, value)| (key.as_str(), value)))
}

/// As [`table_of`], of fields in their order.
pub(crate) fn table_of_fields<'a>(
    fields: impl Iterator<Item = (&'a str, &'a Json)>,
) -> Result<Table, String> {
    let mut content = Vec::new();
    for (key, value) in fields {
        if key.len() > menzil_model::Name::BYTES_MAX {
            return Err(format!("the key {key:?} has more than 255 bytes"));
        }
        content.put_short_string(key.as_bytes());
        write_json(&mut content, value).map_err(|what| format!("{key}: {what}"))?;
    }
    Table::copy_from(&content).map_err(|_| "it is nested too deep".to_owned())
}

/// A JSON value as the content of one field: an owner for what [`Value`] borrows.
pub(crate) fn field_of(value: &Json) -> Result<Table, String> {
    let mut content = Vec::new();
    content.put_short_string(b"");
    write_json(&mut content, value)?;
    Table::copy_from(&content).map_err(|_| "it is nested too deep".to_owned())
}

fn write_json(out: &mut Vec<u8>, value: &Json) -> Result<(), String> {
    match value {
        Json::Null => write_value(out, Value::Void),
        Json::Bool(flag) => write_value(out, Value::Bool(*flag)),
        Json::String(text) => write_value(out, Value::LongString(text.as_bytes())),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => write_value(out, Value::I64(whole)),
            (None, Some(fraction)) if !number.is_u64() => write_value(out, Value::F64(fraction)),
            _ => return Err(format!("{number} is too large")),
        },
        Json::Array(items) => {
            let mut content = Vec::new();
            for item in items {
                write_json(&mut content, item)?;
            }
            out.put_u8(b'A');
            out.put_long_string(&content);
        }
        Json::Object(object) => {
            out.put_u8(b'F');
            out.put_long_string(table_of(object)?.as_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<Table, String> {
        table_of(
            serde_json::from_str::<Json>(text)
                .unwrap()
                .as_object()
                .unwrap(),
        )
    }

    #[test]
    fn each_kind_of_value_has_its_type() {
        let text = r#"{"a":"t","b":5,"c":1.5,"d":true,"e":null,"f":[1,"x"],"g":{"h":6},"i":-1}"#;
        let printed = format!("{:?}", table(text).unwrap());
        for part in [
            "LongString",
            "I64(5)",
            "F64(1.5)",
            "Bool(true)",
            "Void",
            "Array",
            "Table",
            "I64(-1)",
        ] {
            assert!(printed.contains(part), "{part} is not in {printed}");
        }
        assert!(
            table(r#"{"a":18446744073709551615}"#)
                .unwrap_err()
                .contains("too large")
        );
        let long = format!(r#"{{"{}":1}}"#, "k".repeat(256));
        assert!(table(&long).unwrap_err().contains("255"));
    }
}
