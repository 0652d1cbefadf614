//! What clients do next, by chance and by the role of the channel.

use bytes::Bytes;
use menzil_core::{Consume, ExchangeDeclare, Publish, QueueBind, QueueDeclare, Rejection, Request};
use menzil_model::table::TableBuilder;
use menzil_model::{DeliveryTag, Name, Properties, Table, Value};

use crate::body::{MessageNumber, body};
use crate::catalogue::{
    DEDUPLICATED, DELAYING, GROUP_HEADER, Level, QUEUES, QueueNumber, Route, declarations, queues,
    routes,
};
use crate::channel::{Asked, Channel, Role, State};
use crate::oracle::{Oracle, Sent};
use crate::prng::Prng;
use crate::scenario::Scenario;
use crate::speech::Say;

/// What a channel says next: nothing, or some of it.
pub(crate) struct Workload<'a> {
    pub(crate) prng: &'a mut Prng,
    pub(crate) oracle: &'a mut Oracle,
    pub(crate) scenario: &'a Scenario,
    pub(crate) client: u64,
    pub(crate) said: Vec<Say>,
}

impl Workload<'_> {
    pub(crate) fn act(&mut self, channel: &mut Channel) {
        match channel.state {
            State::Closing => return,
            State::Closed => return self.open(channel),
            State::Open => {}
        }
        if !channel.is_set_up {
            channel.is_set_up = true;
            return self.set_up(channel);
        }
        if self.prng.one_in(self.scenario.close_channel_one_in) {
            channel.state = State::Closing;
            channel.asked.push_back(Asked::Close);
            self.said.push(Say::CloseChannel(channel.number));
            return;
        }
        match channel.role {
            Role::Publisher => self.publish_some(channel),
            Role::Careless => self.publish(channel),
            Role::Worker => {
                if self.prng.one_in(2) {
                    self.settle(channel);
                } else {
                    self.publish_some(channel);
                }
            }
            Role::Consumer | Role::Sink => self.consume_or_settle(channel),
            Role::Getter => self.get_or_settle(channel),
            Role::Transactor => self.transact(channel),
            Role::Chaos => self.chaos(channel),
        }
    }

    fn ask(&mut self, channel: &mut Channel, asked: Asked, request: Request) {
        channel.asked.push_back(asked);
        self.said.push(Say::Request(channel.number, request));
    }

    fn tell(&mut self, channel: &Channel, request: Request) {
        self.said.push(Say::Request(channel.number, request));
    }

    fn open(&mut self, channel: &mut Channel) {
        *channel = Channel::new(channel.number, channel.role);
        channel.state = State::Open;
        channel.asked.push_back(Asked::Open);
        self.said.push(Say::OpenChannel(channel.number));
    }

    fn set_up(&mut self, channel: &mut Channel) {
        match channel.role {
            Role::Publisher | Role::Worker => {
                self.ask(
                    channel,
                    Asked::ConfirmSelect,
                    Request::ConfirmSelect { nowait: false },
                );
            }
            Role::Transactor => self.ask(channel, Asked::TxSelect, Request::TxSelect),
            Role::Consumer | Role::Sink | Role::Getter | Role::Careless | Role::Chaos => {}
        }
        if matches!(channel.role, Role::Worker | Role::Consumer) {
            let qos = Request::Qos {
                prefetch_size: 0,
                prefetch_count: self.prng.pick(&[1, 2, 5, 10, 0]),
                global: self.prng.one_in(3),
            };
            self.ask(channel, Asked::Qos, qos);
        }
        if channel.role == Role::Worker {
            self.consume(channel);
        }
    }

    /// Declares what every run has; on a channel of the first client, before all else.
    pub(crate) fn declare_catalogue(&mut self, channel: &mut Channel) {
        for request in declarations(self.scenario.node.later) {
            let asked = match request {
                Request::ExchangeDeclare(_) => Asked::ExchangeDeclare,
                Request::QueueDeclare(_) => Asked::QueueDeclare,
                Request::ExchangeBind(_) => Asked::ExchangeBind,
                _ => Asked::QueueBind,
            };
            self.ask(channel, asked, request);
        }
    }

    fn publish_some(&mut self, channel: &mut Channel) {
        let window = self.scenario.window;
        for _ in 0..=self.prng.below(4) {
            if channel.unconfirmed.len() as u64 >= window {
                return;
            }
            self.publish(channel);
        }
    }

    fn publish(&mut self, channel: &mut Channel) {
        let route = self.route();
        if self.prng.one_in(25) {
            return self.publish_unroutable(channel);
        }
        let deduplicates = route.key == DEDUPLICATED;
        if deduplicates && is_confirmed(channel) && self.prng.one_in(3) {
            return self.publish_again(channel, route);
        }
        let persistent = !self.prng.one_in(self.scenario.transient_one_in) || deduplicates;
        let length = self.length();
        let ttl_ms = self.prng.one_in(15).then_some(EXPIRATION_MS);
        let ttl_ms = ttl_ms.filter(|_| !deduplicates);
        let priority = if self.scenario.node.later > 0 {
            self.prng.pick(&[0, 0, 1, 2, 5])
        } else {
            0
        };
        let delays = DELAYING.contains(&route.exchange) && !self.prng.one_in(6);
        let group_key = if self.scenario.node.later > 1 {
            self.prng.pick(&[None, Some(1), Some(2), Some(3)])
        } else {
            None
        };
        let sent = Sent {
            delay_ms: delays.then(|| self.prng.pick(&DELAYS_MS)),
            group_key,
            resends: None,
            group: (self.client, channel.number),
            targets: route.queues,
            atomic: route.atomic,
            persistent,
            length,
            ttl_ms,
            priority,
            confirm: is_confirmed(channel),
        };
        let number = self.oracle.sent(&sent);
        let mandatory = self.prng.one_in(4);
        self.send(channel, route, number, &sent, mandatory);
    }

    /// The level of the features that what comes next is of.
    fn level(&mut self) -> Level {
        let highest = self.scenario.node.later;
        let is_later = highest > 0 && self.prng.below(100) < self.scenario.later_percent;
        match highest {
            _ if !is_later => 0,
            0 | 1 => highest,
            _ if self.prng.one_in(4) => 1,
            _ => highest,
        }
    }

    /// One to the first queues, or to those of the later features.
    fn route(&mut self) -> Route {
        let level = self.level();
        let below = level.checked_sub(1).map_or(0, |below| routes(below).len());
        self.prng.pick(&routes(level)[below..])
    }

    /// One of the first queues, or of those of the later features.
    fn queue(&mut self) -> QueueNumber {
        let level = self.level();
        let below = level.checked_sub(1).map_or(0, |below| queues(below).len());
        below + self.prng.index(queues(level).len() - below)
    }

    fn publish_unroutable(&mut self, channel: &mut Channel) {
        let route = Route {
            exchange: "direct",
            key: "nowhere",
            queues: &[],
            atomic: false,
        };
        let sent = Sent {
            group: (self.client, channel.number),
            targets: &[],
            atomic: false,
            persistent: true,
            length: self.length(),
            ttl_ms: None,
            priority: 0,
            confirm: is_confirmed(channel),
            delay_ms: None,
            group_key: None,
            resends: None,
        };
        let number = self.oracle.sent(&sent);
        let mandatory = number.is_multiple_of(2);
        self.send(channel, route, number, &sent, mandatory);
    }

    /// Publishes something again that was published before: in doubt, or by mistake.
    fn publish_again(&mut self, channel: &mut Channel, route: Route) {
        let Some((number, length)) = self.oracle.resendable(self.prng) else {
            return;
        };
        let sent = Sent {
            group: (self.client, channel.number),
            targets: &[],
            atomic: false,
            persistent: true,
            length,
            ttl_ms: None,
            priority: 0,
            confirm: true,
            delay_ms: None,
            group_key: None,
            resends: Some(number),
        };
        let again = self.oracle.sent(&sent);
        self.send(channel, route, again, &sent, false);
    }

    fn length(&mut self) -> usize {
        let range = match self.prng.below(20) {
            0 => self.scenario.large_bytes,
            1..=4 => 1500,
            _ => 100,
        };
        8 + self.prng.index(range)
    }

    fn send(
        &mut self,
        channel: &mut Channel,
        route: Route,
        number: MessageNumber,
        sent: &Sent,
        mandatory: bool,
    ) {
        if sent.confirm {
            channel.sequence += 1;
            channel.unconfirmed.insert(channel.sequence, number);
        }
        let body_number = sent.resends.unwrap_or(number);
        let bytes = Bytes::from(body(body_number, sent.length));
        let chunk = self.scenario.chunk_bytes;
        let parts = (0..bytes.len())
            .step_by(chunk)
            .map(|at| bytes.slice(at..bytes.len().min(at + chunk)))
            .collect();
        let publish = Publish {
            exchange: Name::from(route.exchange),
            routing_key: Name::from(route.key),
            mandatory,
            properties: properties(number, sent),
            body: parts,
        };
        self.tell(channel, Request::Publish(publish));
    }

    /// Consumes from every queue there is.
    pub(crate) fn consume_all(&mut self, channel: &mut Channel) {
        for queue in 0..queues(self.scenario.node.later).len() {
            self.consume_from(channel, queue);
        }
    }

    fn consume(&mut self, channel: &mut Channel) {
        let queue = self.queue();
        self.consume_from(channel, queue);
    }

    fn consume_from(&mut self, channel: &mut Channel, queue: usize) {
        let no_ack = channel.role == Role::Sink;
        channel.consumers_made += 1;
        let tag = format!(
            "{}|{}|{}",
            QUEUES[queue].name,
            if no_ack { "n" } else { "a" },
            channel.consumers_made
        );
        channel.consumers.insert(tag.clone().into_bytes(), no_ack);
        let consume = Consume {
            queue: Name::from(QUEUES[queue].name),
            consumer_tag: Name::cut(tag.as_bytes()),
            no_local: false,
            no_ack,
            exclusive: false,
            nowait: false,
            arguments: Table::empty(),
            entropy: 0,
            reply_entropy: 0,
        };
        self.ask(channel, Asked::Consume, Request::Consume(consume));
    }

    fn consume_or_settle(&mut self, channel: &mut Channel) {
        if channel.consumers.is_empty() || (channel.consumers.len() < 3 && self.prng.one_in(20)) {
            return self.consume(channel);
        }
        if self.prng.one_in(15)
            && let Some(tag) = channel.consumers.keys().next().cloned()
            && !channel.consumers.get(&tag).copied().unwrap_or(false)
        {
            channel.consumers.remove(&tag);
            let cancel = Request::Cancel {
                consumer_tag: Name::cut(&tag),
                nowait: false,
            };
            return self.ask(channel, Asked::Cancel, cancel);
        }
        if self.prng.one_in(40) && channel.role == Role::Consumer {
            channel.deliveries.clear();
            let recover = Request::Recover {
                requeue: true,
                reply: true,
            };
            return self.ask(channel, Asked::Recover, recover);
        }
        self.settle(channel);
    }

    /// Settles one delivery, or all up to it.
    fn settle(&mut self, channel: &mut Channel) {
        if channel.deliveries.is_empty() {
            return;
        }
        // What was delivered while a recover was out is no longer this channel's to settle.
        if channel.asked.contains(&Asked::Recover) {
            return;
        }
        let at = self.prng.index(channel.deliveries.len());
        let tag = channel.deliveries[at];
        // Behind a get that waits for the journal nobody can say when a message goes back.
        let is_getting = channel.is_getting();
        let multiple = self.prng.one_in(5);
        if multiple {
            channel.deliveries.retain(|other| *other > tag);
        } else {
            channel.deliveries.remove(at);
        }
        let delivery_tag = DeliveryTag(tag);
        let tx = channel.role == Role::Transactor;
        let request = match self.prng.below(10) {
            0..=6 => Request::Ack {
                delivery_tag,
                multiple,
            },
            7 => Request::Reject {
                delivery_tag,
                multiple,
                requeue: false,
                method: Rejection::Nack,
            },
            _ => Request::Reject {
                delivery_tag,
                multiple,
                requeue: !tx && !is_getting,
                method: self.rejection(multiple),
            },
        };
        channel.held += 1;
        self.tell(channel, request);
    }

    /// Only what is rejected counts as failed.
    fn rejection(&mut self, multiple: bool) -> Rejection {
        if self.scenario.node.later > 1 && !multiple && self.prng.one_in(2) {
            Rejection::Reject
        } else {
            Rejection::Nack
        }
    }

    fn get_or_settle(&mut self, channel: &mut Channel) {
        if !channel.deliveries.is_empty() && self.prng.one_in(2) {
            return self.settle(channel);
        }
        if channel.is_getting() {
            return;
        }
        let queue = Name::from(QUEUES[self.queue()].name);
        if self.prng.one_in(self.scenario.purge_one_in) {
            let purge = Request::QueuePurge {
                queue,
                nowait: false,
            };
            return self.ask(channel, Asked::Purge, purge);
        }
        let no_ack = self.prng.one_in(3);
        channel.get_no_ack = no_ack;
        self.ask(channel, Asked::Get, Request::Get { queue, no_ack });
    }

    fn transact(&mut self, channel: &mut Channel) {
        if channel.is_getting() || channel.asked.contains(&Asked::TxCommit) {
            return;
        }
        match self.prng.below(10) {
            0..=3 => {
                channel.held += 2;
                self.publish(channel);
                self.publish(channel);
            }
            4 => self.settle(channel),
            5..=6 => {
                channel.get_no_ack = false;
                let queue = Name::from(QUEUES[self.queue()].name);
                let get = Request::Get {
                    queue,
                    no_ack: false,
                };
                self.ask(channel, Asked::Get, get);
            }
            7..=8 if channel.held > 0 => {
                channel.held = 0;
                self.ask(channel, Asked::TxCommit, Request::TxCommit);
            }
            9 if self.prng.one_in(8) => {
                // Rolled-back settles are outstanding again; closing the channel gives all back.
                channel.state = State::Closing;
                channel.asked.push_back(Asked::TxRollback);
                channel.asked.push_back(Asked::Close);
                self.said
                    .push(Say::Request(channel.number, Request::TxRollback));
                self.said.push(Say::CloseChannel(channel.number));
            }
            _ => {}
        }
    }

    fn chaos(&mut self, channel: &mut Channel) {
        if channel.asked.len() > 6 {
            return;
        }
        let queue = Name::from(CHAOS_QUEUES[self.prng.index(CHAOS_QUEUES.len())]);
        let exchange = Name::from(CHAOS_EXCHANGES[self.prng.index(CHAOS_EXCHANGES.len())]);
        let bind = QueueBind {
            queue: queue.clone(),
            exchange: exchange.clone(),
            routing_key: Name::from(self.prng.pick(&["k", "l"])),
            nowait: false,
            arguments: Table::empty(),
        };
        match self.prng.below(12) {
            0..=3 => self.declare_chaos_queue(channel, queue),
            4..=5 => {
                let declare = ExchangeDeclare {
                    exchange,
                    kind: Name::from("direct"),
                    passive: false,
                    durable: true,
                    auto_delete: self.prng.one_in(4),
                    internal: false,
                    nowait: false,
                    arguments: Table::empty(),
                };
                self.ask(
                    channel,
                    Asked::ExchangeDeclare,
                    Request::ExchangeDeclare(declare),
                );
            }
            6..=7 => self.ask(channel, Asked::QueueBind, Request::QueueBind(bind)),
            8 => self.ask(channel, Asked::QueueUnbind, Request::QueueUnbind(bind)),
            9 => {
                let delete = Request::QueueDelete {
                    queue,
                    if_unused: false,
                    if_empty: false,
                    nowait: false,
                };
                self.ask(channel, Asked::QueueDelete, delete);
            }
            10 => {
                let delete = Request::ExchangeDelete {
                    exchange,
                    if_unused: false,
                    nowait: false,
                };
                self.ask(channel, Asked::ExchangeDelete, delete);
            }
            _ => {
                let publish = Publish {
                    exchange: Name::empty(),
                    routing_key: queue,
                    mandatory: false,
                    properties: Bytes::from_static(&[0x10, 0, 2]),
                    body: vec![Bytes::from_static(b"chaos")],
                };
                self.tell(channel, Request::Publish(publish));
            }
        }
    }

    fn declare_chaos_queue(&mut self, channel: &mut Channel, queue: Name) {
        let mut arguments = TableBuilder::new();
        if self.prng.one_in(5) {
            arguments = arguments.field("x-expires", Value::I64(300));
        }
        let declare = QueueDeclare {
            queue,
            passive: self.prng.one_in(6),
            durable: !self.prng.one_in(4),
            exclusive: self.prng.one_in(8),
            auto_delete: self.prng.one_in(8),
            nowait: false,
            arguments: arguments.build(),
            entropy: u128::from(self.prng.next()),
        };
        self.ask(channel, Asked::QueueDeclare, Request::QueueDeclare(declare));
    }
}

/// Whether publishes of the channel are answered.
fn is_confirmed(channel: &Channel) -> bool {
    matches!(channel.role, Role::Publisher | Role::Worker)
}

/// Property flags and list.
fn properties(number: MessageNumber, sent: &Sent) -> Bytes {
    let mut headers = TableBuilder::new();
    if let Some(delay) = sent.delay_ms {
        headers = headers.field("x-delay", Value::I64(i64::try_from(delay).unwrap_or(0)));
    }
    if let Some(key) = sent.group_key {
        headers = headers.field(GROUP_HEADER, Value::I64(key.into()));
    }
    let headers = headers.build();
    // Numbers the publish, where the body numbers what it publishes again.
    let again = sent.resends.map(|_| number.to_string());
    let deduplicates = (sent.targets.iter()).any(|queue| QUEUES[*queue].deduplicates);
    let own = deduplicates.then_some(number);
    let id = sent.resends.or(own);
    let id = id.map(|id| id.to_string());
    let expiration = sent.ttl_ms.map(|ttl| ttl.to_string());
    let properties = Properties {
        delivery_mode: Some(if sent.persistent { 2 } else { 1 }),
        priority: (sent.priority > 0).then_some(sent.priority),
        expiration: expiration.as_deref().map(str::as_bytes),
        headers: (!headers.is_empty()).then_some(headers.as_bytes()),
        message_id: id.as_deref().map(str::as_bytes),
        correlation_id: again.as_deref().map(str::as_bytes),
        ..Properties::default()
    };
    let mut bytes = Vec::new();
    properties.write(&mut bytes);
    Bytes::from(bytes)
}

/// The expiration of those messages that have one.
const EXPIRATION_MS: u64 = 300;
/// How long messages are delayed that are.
const DELAYS_MS: [u64; 5] = [1, 30, 200, 700, 1500];
/// Queues that come and go.
pub(crate) const CHAOS_QUEUES: [&str; 4] = ["c0", "c1", "c2", "c3"];
/// Exchanges that come and go.
pub(crate) const CHAOS_EXCHANGES: [&str; 2] = ["x0", "x1"];
