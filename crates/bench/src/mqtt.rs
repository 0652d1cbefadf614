//! A raw-packet MQTT load generator, good for any broker.
//!
//! The same habits as the one for AMQP beside it: packets are encoded once and only walked over
//! when they come, one thread serves all connections, and what the broker costs is read from
//! `/proc`. What was lost is counted: MQTT lets a broker drop messages of QoS 0.

mod crowd;
mod crowds;
mod engine;
mod flight;
mod flow;
mod link;
mod names;
mod offline;
mod options;
mod puback;
mod publisher;
mod retained;
mod scenario;
mod subscriber;
mod usage;
mod wire;
mod words;

use crate::BenchError;
use crate::report::{json, table, terminal_columns};
use options::Options;
use scenario::Kind;
pub(crate) use usage::mqtt as usage;

/// Runs one load and returns its table or its JSON.
pub(crate) fn report(args: Vec<String>) -> Result<String, BenchError> {
    let options = Options::parse(args)?;
    let rows = match options.scenario.kind {
        Kind::Flow if options.offline => offline::measure(&options)?,
        Kind::Flow => flow::measure(&options)?,
        Kind::Retained(then) => retained::measure(&options, then)?,
        Kind::IdleConnections => crowds::connections(&options)?,
        Kind::IdleSessions => crowds::sessions(&options)?,
        Kind::Storm => crowds::storm(&options)?,
        Kind::Puback => puback::measure(&options)?,
    };
    Ok(if options.json {
        json(&rows)
    } else {
        table(&rows, terminal_columns())
    })
}
