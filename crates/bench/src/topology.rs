//! What is declared for a run, and deleted after it.
//!
//! All names of a run begin the same and have numbers of one width, so that messages to different
//! queues have one length. Where an exchange has patterns, each queue is bound by one that matches
//! every message, and all other bindings lead to a queue of their own, `….elsewhere`, and match
//! none.

use crate::BenchError;
use crate::connection::Connection;
use crate::numbers::{count, length};
use crate::options::{ExchangeKind, Options};
use crate::wire::{self, id};
use std::hash::{BuildHasher, RandomState};

/// The routing key of messages to a topic exchange: patterns of all shapes match it.
const TOPIC_KEY: &str = "orders.eu.created";

/// Where a message goes.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) routing_key: String,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// What a run declares.
#[derive(Debug)]
pub(crate) struct Topology {
    name: String,
    kind: ExchangeKind,
    /// It is an `x-delayed-message` exchange that routes as the kind.
    delays: bool,
    queue_type: Option<String>,
    queue_count: u64,
    dead_queue_count: u64,
    /// Bindings that match no message.
    other_binding_count: u64,
    apart: bool,
    reach: u64,
}

impl Topology {
    pub(crate) fn of(options: &Options) -> Self {
        let suffix = RandomState::new().hash_one(std::process::id());
        let name = options.name.clone();
        Self {
            name: name.unwrap_or_else(|| format!("bench.{suffix:016x}")),
            kind: options.exchange,
            delays: options.delay.is_some(),
            queue_type: options.queue_type.clone(),
            queue_count: options.queue_count,
            dead_queue_count: options.dead_queue_count,
            other_binding_count: options.binding_count.saturating_sub(options.queue_count),
            apart: options.apart,
            reach: options.reach,
        }
    }

    /// The exchange messages are sent to; empty for the default one.
    pub(crate) fn exchange(&self) -> String {
        match self.kind {
            ExchangeKind::Default => String::new(),
            ExchangeKind::Direct
            | ExchangeKind::Fanout
            | ExchangeKind::Topic
            | ExchangeKind::Headers => format!("{}.x", self.name),
        }
    }

    /// A queue that messages reach.
    pub(crate) fn queue(&self, index: u64) -> String {
        let width = (self.queue_count.max(2) - 1).ilog10() as usize + 1;
        format!("{}.{index:0width$}", self.name)
    }

    pub(crate) fn queue_count(&self) -> u64 {
        self.queue_count
    }

    /// Where messages are sent, in turn.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        let plain = |routing_key| Address {
            routing_key,
            headers: Vec::new(),
        };
        match self.kind {
            ExchangeKind::Default | ExchangeKind::Direct => (0..self.queue_count)
                .map(|index| plain(self.queue(index)))
                .collect(),
            ExchangeKind::Fanout => vec![plain(String::new())],
            ExchangeKind::Topic => vec![plain(TOPIC_KEY.to_owned())],
            ExchangeKind::Headers => vec![Address {
                routing_key: String::new(),
                headers: vec![
                    ("kind", "order".to_owned()),
                    ("region", "eu".to_owned()),
                    ("state", "created".to_owned()),
                ],
            }],
        }
    }

    /// Declares everything; what came into being before a refusal goes again.
    pub(crate) fn declare(&self, options: &Options) -> Result<(), BenchError> {
        let mut connection = Connection::open(&options.target)?;
        if let Err(error) = self.declare_on(&mut connection) {
            // The refusal is what is told.
            drop(self.delete(options));
            return Err(error);
        }
        connection.close(&[]);
        Ok(())
    }

    /// The same on a connection that is there.
    pub(crate) fn declare_on(&self, connection: &mut Connection) -> Result<(), BenchError> {
        let exchange = self.exchange();
        if !exchange.is_empty() {
            connection.call(id::EXCHANGE_DECLARE, id::EXCHANGE_DECLARE_OK, |out| {
                out.extend_from_slice(&[0, 0]);
                wire::put_short(out, &exchange);
                let (kind, arguments) = self.type_and_arguments();
                wire::put_short(out, kind);
                out.push(0b10);
                put_arguments(out, &arguments);
            })?;
        }
        let queues = self.all_queues();
        connection.call_all(
            count(queues.len()),
            id::QUEUE_DECLARE,
            id::QUEUE_DECLARE_OK,
            |index, out| self.put_declare(out, name_at(&queues, index)),
        )?;
        if exchange.is_empty() {
            return Ok(());
        }
        let reached = self.queue_count + self.dead_queue_count;
        connection.call_all(reached, id::QUEUE_BIND, id::QUEUE_BIND_OK, |index, out| {
            self.put_binding(out, name_at(&queues, index), &self.matching(index, &queues));
        })?;
        for key in 0..self.queue_count {
            // The first of those that a key reaches has the binding above.
            let further = self.reached_by(key) - 1;
            connection.call_all(further, id::QUEUE_BIND, id::QUEUE_BIND_OK, |index, out| {
                let queue = self.queue((key + 1 + index) % self.queue_count);
                self.put_binding(out, &queue, &Binding::key(&self.queue(key)));
            })?;
        }
        self.bind_others(connection, 0..self.other_binding_count)
    }

    fn type_and_arguments(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let kind = self.kind.name();
        if self.delays {
            let arguments = vec![("x-delayed-type", kind.to_owned())];
            ("x-delayed-message", arguments)
        } else {
            (kind, Vec::new())
        }
    }

    /// How many queues the messages of that key go to: two more or less than the average, where
    /// there is room, so that it is one only on average.
    fn reached_by(&self, key: u64) -> u64 {
        let uneven = self.reach > 2
            && self.reach + 2 <= self.queue_count
            && self.queue_count.is_multiple_of(5);
        if uneven {
            self.reach + key % 5 - 2
        } else {
            self.reach
        }
    }

    /// Binds those that match nothing.
    pub(crate) fn bind_others(
        &self,
        connection: &mut Connection,
        indexes: std::ops::Range<u64>,
    ) -> Result<(), BenchError> {
        let elsewhere = self.elsewhere();
        let first = indexes.start;
        let bindings = indexes.end - indexes.start;
        connection.call_all(bindings, id::QUEUE_BIND, id::QUEUE_BIND_OK, |index, out| {
            self.put_binding(out, &elsewhere, &self.other(first + index));
        })
    }

    /// Takes one of those away.
    pub(crate) fn unbind_other(
        &self,
        connection: &mut Connection,
        index: u64,
    ) -> Result<(), BenchError> {
        let binding = self.other(index);
        connection
            .call(id::QUEUE_UNBIND, id::QUEUE_UNBIND_OK, |out| {
                out.extend_from_slice(&[0, 0]);
                wire::put_short(out, &self.elsewhere());
                wire::put_short(out, &self.exchange());
                wire::put_short(out, &binding.key);
                put_arguments(out, &binding.arguments);
            })
            .map(drop)
    }

    /// Deletes the exchange, and with it all bindings.
    pub(crate) fn delete_exchange(&self, connection: &mut Connection) -> Result<(), BenchError> {
        let exchange = self.exchange();
        connection
            .call(id::EXCHANGE_DELETE, id::EXCHANGE_DELETE_OK, |out| {
                out.extend_from_slice(&[0, 0]);
                wire::put_short(out, &exchange);
                out.push(0);
            })
            .map(drop)
    }

    /// Deletes everything, there or not.
    pub(crate) fn delete(&self, options: &Options) -> Result<(), BenchError> {
        let mut connection = Connection::open(&options.target)?;
        let queues = self.all_queues();
        connection.call_all(
            count(queues.len()),
            id::QUEUE_DELETE,
            id::QUEUE_DELETE_OK,
            |index, out| {
                out.extend_from_slice(&[0, 0]);
                wire::put_short(out, name_at(&queues, index));
                out.push(0);
            },
        )?;
        if self.kind != ExchangeKind::Default {
            self.delete_exchange(&mut connection)?;
        }
        connection.close(&[]);
        Ok(())
    }

    /// Arguments of a `queue.declare` of one of ours.
    pub(crate) fn put_declare(&self, out: &mut Vec<u8>, queue: &str) {
        out.extend_from_slice(&[0, 0]);
        wire::put_short(out, queue);
        out.push(0b10);
        wire::put_long(out, |arguments| {
            if let Some(kind) = &self.queue_type {
                wire::put_text_entry(arguments, "x-queue-type", kind);
            }
        });
    }

    fn put_binding(&self, out: &mut Vec<u8>, queue: &str, binding: &Binding) {
        out.extend_from_slice(&[0, 0]);
        wire::put_short(out, queue);
        wire::put_short(out, &self.exchange());
        wire::put_short(out, &binding.key);
        out.push(0);
        put_arguments(out, &binding.arguments);
    }

    /// Queues that messages reach, those without consumers behind, then the one they do not reach.
    fn all_queues(&self) -> Vec<String> {
        let dead = (0..self.dead_queue_count).map(|index| format!("{}.dead.{index}", self.name));
        let has_elsewhere = self.kind.has_patterns() || self.other_binding_count > 0;
        let elsewhere = has_elsewhere.then(|| self.elsewhere());
        let alive = (0..self.queue_count).map(|index| self.queue(index));
        alive.chain(dead).chain(elsewhere).collect()
    }

    fn elsewhere(&self) -> String {
        format!("{}.elsewhere", self.name)
    }

    fn matching(&self, index: u64, queues: &[String]) -> Binding {
        match self.kind {
            ExchangeKind::Default | ExchangeKind::Direct => Binding::key(name_at(queues, index)),
            ExchangeKind::Fanout => Binding::key(""),
            ExchangeKind::Topic => Binding::key(match index % 4 {
                0 => "orders.*.created",
                1 => "orders.#",
                2 => "#.created",
                _ => TOPIC_KEY,
            }),
            ExchangeKind::Headers => Binding::headers(match index % 2 {
                0 => vec![("x-match", "all".to_owned()), ("kind", "order".to_owned())],
                _ => vec![
                    ("x-match", "any".to_owned()),
                    ("region", "eu".to_owned()),
                    ("planet", "mars".to_owned()),
                ],
            }),
        }
    }

    fn other(&self, index: u64) -> Binding {
        if self.kind == ExchangeKind::Headers {
            let value = format!("v{index}");
            return Binding::headers(if index.is_multiple_of(2) {
                vec![
                    ("x-match", "all".to_owned()),
                    ("kind", "order".to_owned()),
                    ("state", value),
                ]
            } else {
                vec![
                    ("x-match", "any".to_owned()),
                    ("kind", value.clone()),
                    ("planet", value),
                ]
            });
        }
        if self.kind == ExchangeKind::Direct {
            return Binding::key(&format!("other{index}"));
        }
        if self.apart {
            return Binding::key(&match index % 5 {
                0 => format!("invoice.us.step{index}"),
                1 => format!("invoice.*.step{index}"),
                2 => format!("invoice.stock{index}.#"),
                3 => format!("invoice.#.region{index}.paid"),
                _ => format!("invoice.step{index}.*"),
            });
        }
        // Exact ones, one word open, the end open, the beginning open: none ends in `.created`
        // with `orders` before it.
        Binding::key(&match index % 5 {
            0 => format!("orders.eu.step{index}"),
            1 => format!("orders.*.step{index}"),
            2 => format!("stock{index}.#"),
            3 => format!("*.region{index}.created"),
            _ => format!("#.step{index}"),
        })
    }
}

/// What a queue is bound by.
#[derive(Debug)]
struct Binding {
    key: String,
    arguments: Vec<(&'static str, String)>,
}

impl Binding {
    fn key(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            arguments: Vec::new(),
        }
    }

    fn headers(arguments: Vec<(&'static str, String)>) -> Self {
        Self {
            key: String::new(),
            arguments,
        }
    }
}

fn put_arguments(out: &mut Vec<u8>, arguments: &[(&'static str, String)]) {
    wire::put_long(out, |table| {
        for (key, value) in arguments {
            wire::put_text_entry(table, key, value);
        }
    });
}

fn name_at(queues: &[String], index: u64) -> &str {
    queues.get(length(index)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(line: &str) -> Topology {
        Topology::of(&Options::parse(line.split_whitespace().map(str::to_owned)).unwrap())
    }

    #[test]
    fn names_have_one_length_and_are_all_different() {
        for queues in [1, 2, 10, 11, 1000] {
            let topology = topology(&format!("--queues {queues} --name n --consumers 1"));
            let mut keys: Vec<String> = topology
                .addresses()
                .into_iter()
                .map(|one| one.routing_key)
                .collect();
            assert!(keys.iter().all(|key| key.len() == keys[0].len()));
            keys.dedup();
            assert_eq!(keys.len() as u64, queues);
        }
    }

    #[test]
    fn keys_reach_as_many_queues_as_asked_on_average() {
        let uneven = topology("--exchange direct --queues 25 --reach 6");
        let reached: Vec<u64> = (0..25).map(|key| uneven.reached_by(key)).collect();
        assert_eq!(reached.iter().sum::<u64>(), 25 * 6);
        assert_eq!(reached[..5], [4, 5, 6, 7, 8]);
        assert_eq!(topology("--exchange direct --queues 3").reached_by(2), 1);
    }

    #[test]
    fn bindings_beyond_the_queues_match_no_message() {
        let topology = topology("--exchange topic --queues 4 --bindings 104");
        assert_eq!(topology.other_binding_count, 100);
        let keys: Vec<String> = (0..100).map(|index| topology.other(index).key).collect();
        for key in &keys {
            let words: Vec<&str> = key.split('.').collect();
            assert!(
                words
                    .iter()
                    .any(|word| { !["orders", "eu", "created", "*", "#"].contains(word) })
            );
        }
        let mut unique = keys.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), keys.len());
    }
}
