//! The exchanges, queues and bindings of a virtual host, in the form of RabbitMQ's definitions,
//! with the alternate exchange that each exchange really has as `alternate`.

use menzil_core::Topology;
use menzil_model::fact::{Binding, Destination, ExchangeDefinition};
use menzil_model::table::{Fields, Items};
use menzil_model::{ExchangeId, Map, Name, QueueId, Table, Value as Field};
use serde_json::{Value, json};

use crate::driver::Node;

/// What is copied while the shard is held; names and tables are shared.
pub(crate) struct Snapshot {
    exchanges: Vec<(ExchangeDefinition, Option<Name>)>,
    queues: Vec<(Name, QueueId)>,
    bindings: Vec<Binding>,
}

impl Snapshot {
    pub(crate) fn of(topology: &Topology) -> Self {
        let exchanges = topology.exchanges();
        let bindings = topology
            .exchanges()
            .flat_map(|exchange| topology.ranked_bindings_from(exchange.id));
        let mut bindings: Vec<(u64, Binding)> = bindings
            .map(|(rank, binding)| (rank, binding.clone()))
            .collect();
        // Of those between the same two the first ones first.
        bindings.sort_by_key(|(rank, _)| *rank);
        Self {
            exchanges: exchanges
                .map(|exchange| {
                    (
                        exchange.clone(),
                        topology.alternate_of(exchange.id).cloned(),
                    )
                })
                .collect(),
            queues: (topology.queues())
                .map(|(name, id)| (name.clone(), id))
                .collect(),
            bindings: bindings.into_iter().map(|(_, binding)| binding).collect(),
        }
    }
}

pub(crate) fn of(node: &Node, vhost: &[u8]) -> Value {
    let mut shards = node.shards.values();
    let Some(shard) = shards.find(|shard| shard.name.as_bytes() == vhost) else {
        let names: Vec<String> = (node.shards.values())
            .map(|shard| format!("'{}'", shard.name))
            .collect();
        let vhost = menzil_model::Escaped(vhost);
        let names = names.join(", ");
        return json!({"error": format!("no virtual host '{vhost}'; there is {names}")});
    };
    let Snapshot {
        mut exchanges,
        mut queues,
        bindings,
    } = shard.definitions();
    exchanges.sort_unstable_by(|(left, _), (right, _)| left.name.cmp(&right.name));
    queues.sort_unstable();
    let exchange_names: Map<ExchangeId, String> = (exchanges.iter())
        .map(|(exchange, _)| (exchange.id, text(exchange.name.as_bytes())))
        .collect();
    let queue_names: Map<QueueId, String> = (queues.iter())
        .map(|(name, id)| (*id, text(name.as_bytes())))
        .collect();
    let bindings = bindings.iter().filter_map(|binding| {
        let (kind, to) = match &binding.destination {
            Destination::Queue(id) => ("queue", queue_names.get(id)?),
            Destination::Exchange(id) => ("exchange", exchange_names.get(id)?),
        };
        Some(json!({
            "source": exchange_names.get(&binding.source)?,
            "destination": to,
            "destination_type": kind,
            "routing_key": text(binding.key.as_bytes()),
            "arguments": table(&binding.arguments),
        }))
    });
    json!({
        "exchanges": exchanges.iter().map(|(definition, alternate)| json!({
            "name": text(definition.name.as_bytes()),
            "type": definition.kind.name(),
            "durable": definition.durable,
            "auto_delete": definition.auto_delete,
            "internal": definition.internal,
            "arguments": table(&definition.arguments),
            "alternate": alternate.as_ref().map(|name| text(name.as_bytes())),
        })).collect::<Vec<_>>(),
        "queues": queues.iter().map(|(name, _)| json!({
            "name": text(name.as_bytes()),
        })).collect::<Vec<_>>(),
        "bindings": bindings.collect::<Vec<_>>(),
    })
}

/// JSON has no other bytes than text.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn table(table: &Table) -> Value {
    object(table.fields())
}

fn object(fields: Fields<'_>) -> Value {
    Value::Object(
        fields
            .map(|(name, value)| (text(name), field(value)))
            .collect(),
    )
}

fn array(items: Items<'_>) -> Value {
    Value::Array(items.map(field).collect())
}

fn field(value: Field<'_>) -> Value {
    match value {
        Field::Bool(flag) => json!(flag),
        Field::F32(number) => json!(number),
        Field::F64(number) => json!(number),
        Field::LongString(bytes) | Field::Binary(bytes) => json!(text(bytes)),
        Field::Timestamp(seconds) => json!(seconds),
        Field::Array(items) => array(items),
        Field::Table(fields) => object(fields),
        Field::Void => Value::Null,
        Field::Decimal(places, number) => json!(f64::from(number) / 10_f64.powi(places.into())),
        Field::I8(_)
        | Field::U8(_)
        | Field::I16(_)
        | Field::U16(_)
        | Field::I32(_)
        | Field::U32(_)
        | Field::I64(_) => {
            let number = value
                .as_integer()
                .and_then(|number| i64::try_from(number).ok());
            json!(number)
        }
    }
}
