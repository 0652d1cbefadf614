//! The message that the command line describes.

use menzil_model::table::{read_value, write_value};
use menzil_model::wire::{Reader, Writer as _};
use menzil_model::{Properties, Table, TableBuilder, Value};
use serde_json::Value as Json;

use crate::cli::RouteArguments;

/// Its headers and properties.
#[derive(Debug, Default)]
pub(super) struct Message {
    headers: Option<Table>,
    message_id: Option<String>,
    correlation_id: Option<String>,
    timestamp: Option<u64>,
}

impl Message {
    pub(super) fn new(arguments: &RouteArguments) -> Result<Self, String> {
        let mut message = Self {
            headers: headers(arguments)?,
            ..Self::default()
        };
        for property in &arguments.properties {
            let (name, value) = property
                .split_once('=')
                .ok_or_else(|| format!("--property {property}: NAME=VALUE is wanted"))?;
            let text = Some(value.to_owned());
            match name {
                "message_id" | "correlation_id" if value.len() > 255 => {
                    return Err(format!("--property {name}: longer than 255 bytes"));
                }
                "message_id" => message.message_id = text,
                "correlation_id" => message.correlation_id = text,
                "timestamp" => {
                    let seconds = value.parse();
                    let why = |_| format!("--property timestamp={value}: not whole seconds");
                    message.timestamp = Some(seconds.map_err(why)?);
                }
                other => {
                    return Err(format!(
                        "--property {other}: routing looks at message_id, correlation_id and \
                         timestamp only"
                    ));
                }
            }
        }
        Ok(message)
    }

    pub(super) fn properties(&self) -> Properties<'_> {
        Properties {
            headers: self.headers.as_ref().map(Table::as_bytes),
            message_id: self.message_id.as_deref().map(str::as_bytes),
            correlation_id: self.correlation_id.as_deref().map(str::as_bytes),
            timestamp: self.timestamp,
            ..Properties::default()
        }
    }
}

fn headers(arguments: &RouteArguments) -> Result<Option<Table>, String> {
    let mut content = Vec::new();
    let mut put = |name: &str, value: &Json| {
        put_field(&mut content, name, value).map_err(|why| format!("--header {name}: {why}"))
    };
    for header in &arguments.headers {
        let wanted = || format!("--header {header}: NAME=VALUE or NAME:=JSON is wanted");
        let (name, value) = header.split_once('=').ok_or_else(wanted)?;
        if let Some(name) = name.strip_suffix(':') {
            let value = serde_json::from_str(value).map_err(|_| {
                format!("--header {header}: after := comes a JSON value, such as 5, true or null")
            })?;
            put(name, &value)?;
        } else {
            put(name, &Json::String(value.to_owned()))?;
        }
    }
    if !arguments.cc.is_empty() {
        put("CC", &Json::from(arguments.cc.clone()))?;
    }
    if content.is_empty() {
        return Ok(None);
    }
    let table = Table::copy_from(&content).map_err(|_| "--header: nested too deeply".to_owned())?;
    Ok(Some(table))
}

/// A JSON object as a table.
pub(super) fn table(object: &serde_json::Map<String, Json>) -> Result<Table, String> {
    let mut content = Vec::new();
    for (name, value) in object {
        put_field(&mut content, name, value).map_err(|why| format!("{name}: {why}"))?;
    }
    Table::copy_from(&content).map_err(|_| "nested too deeply".to_owned())
}

fn put_field(content: &mut Vec<u8>, name: &str, value: &Json) -> Result<(), String> {
    if name.len() > 255 {
        return Err("its name is longer than 255 bytes".to_owned());
    }
    content.put_short_string(name.as_bytes());
    put_value(content, value)
}

/// A JSON value with its type octet: whole numbers, which have no width there, as the widest.
fn put_value(content: &mut Vec<u8>, value: &Json) -> Result<(), String> {
    match value {
        Json::Null => write_value(content, Value::Void),
        Json::Bool(flag) => write_value(content, Value::Bool(*flag)),
        Json::String(text) => write_value(content, Value::LongString(text.as_bytes())),
        Json::Number(number) => {
            if let Some(whole) = number.as_i64() {
                write_value(content, Value::I64(whole));
            } else if let Some(float) = number.as_f64() {
                write_value(content, Value::F64(float));
            } else {
                return Err(format!("{number} is no number of a table"));
            }
        }
        Json::Array(items) => {
            let mut inner = Vec::new();
            for item in items {
                put_value(&mut inner, item)?;
            }
            let mut array = vec![b'A'];
            array.put_long_string(&inner);
            let array =
                read_value(&mut Reader::new(&array)).map_err(|error| format!("{error:?}"))?;
            write_value(content, array);
        }
        Json::Object(fields) => {
            let mut inner = TableBuilder::new().build().as_bytes().to_vec();
            for (name, value) in fields {
                put_field(&mut inner, name, value)?;
            }
            let inner = Table::copy_from(&inner).map_err(|_| "nested too deeply".to_owned())?;
            write_value(content, Value::Table(inner.fields()));
        }
    }
    Ok(())
}
