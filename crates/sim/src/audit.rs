//! Recovers a copy of a disk and takes everything out of it, as a client would.

use std::collections::BTreeMap;

use bytes::Bytes;
use menzil_core::{
    ChannelKey, Command, Effect, ExchangeDeclare, Output, Publish, Refusal, Request, credit_bytes,
};
use menzil_journal::testing::MemoryDisk;
use menzil_model::{ChannelId, ConnectionId, Name, Table};

use crate::body;
use crate::catalogue::{Level, QUEUES, queue_number, queues, routes};
use crate::node::{Node, NodeSettings};
use crate::oracle::{Recovered, Thing};
use crate::policy;
use crate::workload::{CHAOS_EXCHANGES, CHAOS_QUEUES};

/// What a node finds on that disk, which is used up.
pub(crate) fn audit(disk: &MemoryDisk, settings: &NodeSettings, now: u64) -> Recovered {
    disk.set_capacity(None);
    let mut settings = settings.clone();
    settings.journal.prepared_segments = 1;
    settings.room_bytes = None;
    match Node::start(disk, &settings, now) {
        Ok(node) => Auditor::new(node, now, settings.later).look(),
        Err(why) => Recovered {
            trouble: Some(format!("the node does not start: {why}")),
            ..Recovered::default()
        },
    }
}

struct Auditor {
    node: Node,
    now: u64,
    later: Level,
    channels: u16,
    found: Recovered,
}

impl Auditor {
    fn new(node: Node, now: u64, later: Level) -> Self {
        Self {
            node,
            now,
            later,
            channels: 0,
            found: Recovered::default(),
        }
    }

    fn look(mut self) -> Recovered {
        self.node.shard.check_invariants();
        self.execute(Command::ConnectionOpened {
            connection: CONNECTION,
            user: Name::from("auditor"),
            cancel_notify: false,
        });
        for queue in self.node.shard.queues() {
            if CHAOS_QUEUES
                .iter()
                .any(|name| name.as_bytes() == queue.name.as_bytes())
            {
                self.found
                    .things
                    .insert(Thing::Queue(queue.name.to_string()));
            }
        }
        for exchange in CHAOS_EXCHANGES {
            if self.has_exchange(exchange) {
                self.found
                    .things
                    .insert(Thing::Exchange(exchange.to_owned()));
            }
        }
        let mut key = self.open_channel();
        if self.later > 0 {
            self.come_to_rest();
            while self.drain_all(&mut key) || self.has_more() {
                self.come_to_rest();
            }
        } else {
            // Nothing moves by itself, so clients may be as fast as they like.
            self.drain_all(&mut key);
        }
        self.found.policy = policy::limit_of(&self.node.shard);
        self.await_delays(&mut key);
        if self.node.shard.counters().damaged > 0 {
            self.trouble("a message was damaged".to_owned());
        }
        self.probe_routes(key);
        self.node.shard.check_invariants();
        self.found
    }

    /// Lets time go on until all delayed messages have come.
    fn await_delays(&mut self, key: &mut ChannelKey) {
        let before = self.found.queues.clone();
        for _ in 0..DELAY_TURNS_MAX {
            if self.node.shard.summary().delayed == 0 {
                break;
            }
            self.now += 1000;
            self.come_to_rest();
            self.drain_all(key);
        }
        if self.node.shard.summary().delayed > 0 {
            self.trouble("delayed messages do not come".to_owned());
        }
        for (queue, messages) in &self.found.queues {
            let early = before.get(queue).map_or(0, Vec::len);
            let late = messages.iter().skip(early);
            let late = late.map(|(number, _)| (*queue, *number));
            self.found.waited.extend(late);
        }
    }

    /// Takes everything out of all queues. True where there was something: it may have made room
    /// for dead letters.
    fn drain_all(&mut self, key: &mut ChannelKey) -> bool {
        let mut has_found = false;
        for queue in self.node.shard.queues() {
            if let Some(number) = queue_number(queue.name.as_bytes()) {
                let messages = self.drain(*key, &queue.name);
                has_found |= !messages.is_empty();
                self.found
                    .queues
                    .entry(number)
                    .or_default()
                    .extend(messages);
                *key = self.open_channel();
            }
        }
        has_found
    }

    /// Whether dead letters came in the meantime.
    fn has_more(&self) -> bool {
        let queues = self.node.shard.queues();
        (queues.iter())
            .any(|queue| queue_number(queue.name.as_bytes()).is_some() && queue.ready > 0)
    }

    /// Lets happen what is due now: expired messages move.
    fn come_to_rest(&mut self) {
        for _ in 0..TURNS_MAX {
            let is_due = |at: u64| at <= self.now;
            if !self.node.shard.deadline().is_some_and(is_due) && self.node.fetches.is_empty() {
                return;
            }
            self.commit();
            self.node.expire(self.now);
            let fetched = self.fetch();
            for command in fetched {
                self.execute(command);
            }
        }
        self.trouble("it never comes to rest".to_owned());
    }

    /// Writes what there is, so that there is room for more.
    fn commit(&mut self) {
        let done = self.node.step().map(|_| ());
        if let Err(why) = done.and_then(|()| self.node.journal.prepare().map(|_| ())) {
            self.trouble(format!("the journal fails: {why}"));
        }
    }

    /// Reads what was asked for.
    fn fetch(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        for fetch in std::mem::take(&mut self.node.fetches) {
            let mut messages = Vec::new();
            for wanted in &fetch.wanted {
                let read = self.node.read(&fetch, wanted, 1);
                if let Err(why) = &read {
                    let index = wanted.origin.index;
                    self.trouble(format!("record {index} cannot be read: {why}"));
                }
                messages.push((wanted.sequence, read.ok()));
            }
            let queue = fetch.queue;
            commands.push(Command::Fetched { queue, messages });
        }
        commands
    }

    fn trouble(&mut self, what: String) {
        self.found.trouble.get_or_insert(what);
    }

    fn open_channel(&mut self) -> ChannelKey {
        self.channels += 1;
        let key = ChannelKey {
            connection: CONNECTION,
            channel: ChannelId::new(self.channels).expect("channels are numbered from 1"),
        };
        self.execute(Command::ChannelOpened(key));
        key
    }

    /// Executes a command, and the reads that it asks for.
    fn execute(&mut self, command: Command) -> Vec<Output> {
        self.commit();
        let mut outputs = Vec::new();
        let mut commands = vec![command];
        while !commands.is_empty() {
            self.node.batch(self.now, commands, &mut |_, _, effects| {
                outputs.extend(effects.into_iter().filter_map(|effect| match effect {
                    Effect::Channel { output, .. } => Some(output),
                    Effect::Connection { .. } | Effect::Session { .. } | Effect::Fetch { .. } => {
                        None
                    }
                }));
            });
            commands = self.fetch();
        }
        outputs
    }

    fn request(&mut self, channel: ChannelKey, request: Request) -> Vec<Output> {
        self.execute(Command::Request { channel, request })
    }

    fn has_exchange(&mut self, name: &'static str) -> bool {
        let key = self.open_channel();
        let declare = ExchangeDeclare {
            exchange: Name::from(name),
            kind: Name::from("direct"),
            passive: true,
            durable: true,
            auto_delete: false,
            internal: false,
            nowait: false,
            arguments: Table::empty(),
        };
        let outputs = self.request(key, Request::ExchangeDeclare(declare));
        !outputs.iter().any(|output| {
            matches!(
                output,
                Output::Refused {
                    refusal: Refusal::NotFound(_),
                    ..
                }
            )
        })
    }

    fn drain(&mut self, key: ChannelKey, queue: &Name) -> Vec<(u64, bool)> {
        let mut messages = Vec::new();
        loop {
            let get = Request::Get {
                queue: queue.clone(),
                no_ack: true,
            };
            let outputs = self.request(key, get);
            let Some(Output::GetOk {
                redelivered,
                message,
                ..
            }) = outputs.into_iter().next()
            else {
                return messages;
            };
            // It is taken at once, so the credit comes back.
            self.execute(Command::Drained {
                connection: key.connection,
                bytes: credit_bytes(&message),
            });
            let parts: Vec<Bytes> = message.body_parts().collect();
            match body::number(&parts) {
                Ok((number, _)) => messages.push((number, redelivered)),
                Err(why) => self.trouble(format!("in queue {queue}: {why}")),
            }
        }
    }

    /// Every binding of the catalogue must still be there.
    fn probe_routes(&mut self, key: ChannelKey) {
        for route in routes(self.later) {
            let before = self.ready();
            let publish = Publish {
                exchange: Name::from(route.exchange),
                routing_key: Name::from(route.key),
                mandatory: false,
                properties: Bytes::from_static(&[0x10, 0, 1]),
                body: vec![Bytes::from_static(b"!")],
            };
            self.request(key, Request::Publish(publish));
            let after = self.ready();
            let reached: Vec<usize> = after
                .iter()
                .filter(|(queue, ready)| before.get(queue).is_none_or(|before| *ready > before))
                .map(|(queue, _)| *queue)
                .collect();
            let expected: Vec<usize> = route
                .queues
                .iter()
                .copied()
                .filter(|queue| QUEUES[*queue].durable)
                .collect();
            if reached != expected {
                self.trouble(format!(
                    "bindings are lost: '{}' with '{}' reaches {reached:?} instead of \
                     {expected:?}",
                    route.exchange, route.key
                ));
            }
            for queue in queues(self.later) {
                let purge = Request::QueuePurge {
                    queue: Name::from(queue.name),
                    nowait: true,
                };
                if queue.durable {
                    self.request(key, purge);
                }
            }
        }
    }

    fn ready(&self) -> BTreeMap<usize, u64> {
        self.node
            .shard
            .queues()
            .iter()
            .filter_map(|queue| Some((queue_number(queue.name.as_bytes())?, queue.ready)))
            .collect()
    }
}

/// Turns in which everything that is due must be done.
const TURNS_MAX: usize = 10_000;

/// Seconds in which everything that is delayed must have come.
const DELAY_TURNS_MAX: usize = 20;

const CONNECTION: ConnectionId = ConnectionId(1);
