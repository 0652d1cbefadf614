//! The message that is asked about.

use menzil_core::explain::Explanation;
use menzil_core::{RoutingKeys, Topology};
use menzil_model::{Name, Properties, Table};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::definitions::table_of_fields;

/// A message, or many that differ in their keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Question {
    /// The virtual host.
    pub vhost: String,
    /// The exchange that it is published to.
    pub exchange: String,
    /// Its routing key.
    pub key: String,
    /// A routing key in each line, in place of `key`; before it may stand another exchange and a
    /// tab. Empty lines and comments, which are `#` alone or before a space, have none.
    pub keys: Option<String>,
    /// Headers by name.
    pub headers: Vec<(String, Json)>,
    /// Further routing keys.
    pub cc: Vec<String>,
    /// The `message_id` property.
    pub message_id: Option<String>,
    /// The `correlation_id` property.
    pub correlation_id: Option<String>,
    /// The `timestamp` property, in seconds since 1970.
    pub timestamp: Option<u64>,
}

impl Question {
    /// What is wrong with the message itself, if something is.
    pub fn check(&self) -> Result<(), String> {
        let message = self.message()?;
        RoutingKeys::new(name_of(&self.key)?.as_bytes(), &message.properties())
            .map(drop)
            .map_err(|_| "--header CC and BCC are lists: use --cc".to_owned())
    }

    pub(super) fn message(&self) -> Result<Message, String> {
        for (name, property) in [
            ("message_id", &self.message_id),
            ("correlation_id", &self.correlation_id),
        ] {
            if property
                .as_ref()
                .is_some_and(|text| text.len() > Name::BYTES_MAX)
            {
                return Err(format!("--property {name}: longer than 255 bytes"));
            }
        }
        let mut fields: Vec<(&str, &Json)> = Vec::new();
        fields.extend(
            self.headers
                .iter()
                .map(|(name, value)| (name.as_str(), value)),
        );
        let cc = Json::from(self.cc.clone());
        if !self.cc.is_empty() {
            fields.push(("CC", &cc));
        }
        let table = table_of_fields(fields.iter().copied());
        let headers = table.map_err(|why| format!("--header: {why}"))?;
        Ok(Message {
            headers: (!fields.is_empty()).then_some(headers),
            message_id: self.message_id.clone(),
            correlation_id: self.correlation_id.clone(),
            timestamp: self.timestamp,
        })
    }
}

/// Headers and properties, as routing looks at them.
#[derive(Debug)]
pub(super) struct Message {
    headers: Option<Table>,
    message_id: Option<String>,
    correlation_id: Option<String>,
    timestamp: Option<u64>,
}

impl Message {
    fn properties(&self) -> Properties<'_> {
        Properties {
            headers: self.headers.as_ref().map(Table::as_bytes),
            message_id: self.message_id.as_deref().map(str::as_bytes),
            correlation_id: self.correlation_id.as_deref().map(str::as_bytes),
            timestamp: self.timestamp,
            ..Properties::default()
        }
    }

    pub(super) fn explain(
        &self,
        topology: &Topology,
        exchange: &str,
        key: &str,
    ) -> Result<Explanation, String> {
        let (exchange, key) = (name_of(exchange)?, name_of(key)?);
        let properties = self.properties();
        let keys = RoutingKeys::new(key.as_bytes(), &properties)
            .map_err(|_| "--header CC and BCC are lists: use --cc".to_owned())?;
        Ok(topology.explain(&exchange, &keys, &properties))
    }
}

fn name_of(text: &str) -> Result<Name, String> {
    Name::new(text.as_bytes()).ok_or_else(|| format!("{text:.40}…: longer than 255 bytes"))
}
