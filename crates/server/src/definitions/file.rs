//! A file of definitions as it reads.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The file: what this broker has a use for, and what it passes over.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) vhosts: Vec<VirtualHost>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) policies: Vec<Policy>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) queues: Vec<Queue>,
    pub(super) bindings: Vec<Binding>,
    /// Other sections by name, and how much is in them.
    pub(super) others: Vec<(String, usize)>,
}

#[derive(Debug, serde::Deserialize)]
pub(super) struct VirtualHost {
    pub(super) name: String,
    /// Older exports have `default_queue_type` here.
    default_queue_type: Option<serde_json::Value>,
    metadata: Option<serde_json::Value>,
}

impl VirtualHost {
    /// The type of queues that are declared without one, where it is not the usual one.
    pub(super) fn default_queue_type(&self) -> Option<&str> {
        let of_metadata = self.metadata.as_ref();
        let of_metadata = of_metadata.and_then(|metadata| metadata.get("default_queue_type"));
        let kind = of_metadata.or(self.default_queue_type.as_ref())?.as_str()?;
        let is_usual = matches!(kind, "" | "undefined" | "classic" | "rabbit_classic_queue");
        (!is_usual).then_some(kind)
    }
}

pub(super) type Arguments = serde_json::Map<String, serde_json::Value>;

#[derive(Debug, serde::Deserialize)]
pub(super) struct Parameter {
    pub(super) vhost: Option<String>,
    pub(super) component: String,
    pub(super) name: String,
    pub(super) value: serde_json::Value,
}

#[derive(Debug, serde::Deserialize)]
pub(super) struct Policy {
    pub(super) vhost: Option<String>,
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) parts: PolicyParts,
}

/// What a policy says of itself, in a file or over the socket.
#[derive(Debug, Default, serde::Deserialize)]
pub(crate) struct PolicyParts {
    pub(super) pattern: Option<serde_json::Value>,
    #[serde(rename = "apply-to")]
    pub(super) apply_to: Option<serde_json::Value>,
    pub(super) priority: Option<serde_json::Value>,
    pub(super) definition: Option<serde_json::Value>,
}

#[derive(Debug, serde::Deserialize)]
pub(super) struct Exchange {
    pub(super) vhost: Option<String>,
    pub(super) name: String,
    pub(super) r#type: String,
    #[serde(default = "yes")]
    pub(super) durable: bool,
    #[serde(default)]
    pub(super) auto_delete: bool,
    #[serde(default)]
    pub(super) internal: bool,
    #[serde(default, deserialize_with = "arguments")]
    pub(super) arguments: Arguments,
}

#[derive(Debug, serde::Deserialize)]
pub(super) struct Queue {
    pub(super) vhost: Option<String>,
    pub(super) name: String,
    /// What the queue was where it was exported. RabbitMQ reads the argument `x-queue-type` alone.
    pub(super) r#type: Option<String>,
    #[serde(default = "yes")]
    pub(super) durable: bool,
    #[serde(default)]
    pub(super) auto_delete: bool,
    #[serde(default, deserialize_with = "arguments")]
    pub(super) arguments: Arguments,
}

#[derive(Debug, serde::Deserialize)]
pub(super) struct Binding {
    pub(super) vhost: Option<String>,
    pub(super) source: String,
    pub(super) destination: String,
    pub(super) destination_type: String,
    #[serde(default)]
    pub(super) routing_key: String,
    #[serde(default, deserialize_with = "arguments")]
    pub(super) arguments: Arguments,
}

fn yes() -> bool {
    true
}

/// What an export says of itself: nothing is lost by not reading it.
const METADATA: [&str; 9] = [
    "rabbit_version",
    "rabbitmq_version",
    "rabbitmq_definition_format",
    "product_name",
    "product_version",
    "original_cluster_name",
    "original_vhost_name",
    "explanation",
    "description",
];

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FileVisitor)
    }
}

struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = File;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object, as RabbitMQ exports it")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<File, A::Error> {
        let mut file = File::default();
        while let Some(section) = map.next_key::<String>()? {
            match section.as_str() {
                "vhosts" => file.vhosts.append(&mut map.next_value()?),
                "parameters" => file.parameters.append(&mut map.next_value()?),
                "policies" => file.policies.append(&mut map.next_value()?),
                "exchanges" => file.exchanges.append(&mut map.next_value()?),
                "queues" => file.queues.append(&mut map.next_value()?),
                "bindings" => file.bindings.append(&mut map.next_value()?),
                name if METADATA.contains(&name) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    let Counted(count) = map.next_value()?;
                    if count > 0 {
                        file.others.push((section, count));
                    }
                }
            }
        }
        Ok(file)
    }
}

/// How many elements something has that is not read.
struct Counted(usize);

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(match value {
            serde_json::Value::Null => 0,
            serde_json::Value::Array(items) => items.len(),
            serde_json::Value::Object(fields) => fields.len(),
            serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::String(_) => 1,
        }))
    }
}

/// Arguments. None are an empty list to some exporters, RabbitMQ reads that too.
fn arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arguments, D::Error> {
    deserializer.deserialize_any(ArgumentsVisitor)
}

struct ArgumentsVisitor;

impl<'de> Visitor<'de> for ArgumentsVisitor {
    type Value = Arguments;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of arguments")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Arguments, A::Error> {
        Arguments::deserialize(de::value::MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Arguments, A::Error> {
        match list.next_element::<IgnoredAny>()? {
            None => Ok(Arguments::new()),
            Some(_) => Err(de::Error::invalid_type(de::Unexpected::Seq, &self)),
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<Arguments, E> {
        Ok(Arguments::new())
    }
}
