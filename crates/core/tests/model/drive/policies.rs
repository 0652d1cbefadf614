//! Policies as the shard takes them.

use menzil_core::PolicyRequest;
use menzil_model::fact::PolicyDefinition;
use menzil_model::{Name, Value};

use super::{exchange_name, overflow_name, retry_name, strategy_name};
use crate::plan::{Pattern, Policy};
use crate::support::{arguments, name};

pub(super) fn policy_name(policy: u8) -> Name {
    name(&format!("p{policy}"))
}

pub(super) fn definition(policy: &Policy) -> PolicyDefinition {
    let says = &policy.says;
    let text = |text: &'static str| Value::LongString(text.as_bytes());
    let number = |number: u64| Value::I64(number as i64);
    let all = [
        ("max-length", says.length.map(number)),
        ("max-length-bytes", says.bytes.map(number)),
        ("overflow", says.overflow.map(overflow_name)),
        ("message-ttl", says.ttl.map(number)),
        ("expires", says.expires.map(number)),
        (
            "dead-letter-exchange",
            says.dead_exchange
                .map(|exchange| text(exchange_name(exchange))),
        ),
        ("dead-letter-routing-key", says.dead_key.map(text)),
        (
            "dead-letter-strategy",
            says.at_least_once.map(strategy_name),
        ),
        ("delivery-limit", says.failures.map(Value::I64)),
        ("consumer-timeout", says.timeout.map(number)),
        ("delayed-retry-type", says.retry.map(retry_name)),
        ("delayed-retry-min", says.retry_min.map(number)),
        ("delayed-retry-max", says.retry_max.map(number)),
        ("layered", policy.is_layered.then_some(Value::Bool(true))),
    ];
    let said = all.into_iter();
    let said: Vec<_> = said
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    let table = arguments(&said);
    let pattern = match policy.pattern {
        Pattern::All => "^q".to_owned(),
        Pattern::Low => "^q[0-2]$".to_owned(),
        Pattern::One(queue) => format!("^q{queue}$"),
    };
    PolicyRequest {
        name: policy_name(policy.name).as_bytes(),
        is_operator: policy.is_operator,
        pattern: Some(Value::LongString(pattern.as_bytes())),
        apply_to: Some(text(policy.apply_to)),
        priority: Some(Value::I8(policy.priority)),
        definition: Some(Value::Table(table.fields())),
    }
    .check()
    .unwrap()
}
