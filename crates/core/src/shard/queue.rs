//! Declaring, deleting, purging and binding queues.

use menzil_model::fact::{Binding, Destination, ExchangeDefinition, QueueDefinition, Why};
use menzil_model::{Fact, Name, QueueId, Table, Value};

use super::Shard;
use super::exchange::{Gone, ensure_room};
use super::reply::is_reply_name;
use crate::command::{ChannelKey, DIRECT_REPLY_TO, QueueBind, QueueDeclare};
use crate::effect::Reply;
use crate::equivalence::{Compared, compare_argument, compare_flag};
use crate::generated::generated_name;
use crate::mqtt::GROUP_PREFIX;
use crate::own_arguments::{Holder, check_own};
use crate::queue::{Queue, Settings, compared, is_quorum};
use crate::refusal::{Object, Refusal};
use crate::replay::Asker;
use crate::topology::check_binding;
use crate::turn::Turn;

impl Shard {
    /// What a queue name in a method means: empty is the last one declared on the channel.
    pub(super) fn queue_name(&self, key: ChannelKey, name: &Name) -> Result<Name, Refusal> {
        if !name.is_empty() {
            return Ok(name.clone());
        }
        self.channels
            .get(&key)
            .and_then(|channel| channel.last_queue.clone())
            .ok_or(Refusal::NoQueueDeclared)
    }

    /// The queue of that name, if this connection may use it.
    pub(super) fn queue_for(
        &self,
        key: ChannelKey,
        name: &Name,
    ) -> Result<(QueueId, Name), Refusal> {
        self.queue_named(key, self.queue_name(key, name)?)
    }

    /// As [`Shard::queue_for`], but an empty name is a name, and nobody's.
    fn queue_named(&self, key: ChannelKey, name: Name) -> Result<(QueueId, Name), Refusal> {
        let Some(id) = self.queue_id(name.as_bytes()) else {
            return Err(Refusal::NotFound(Object::Queue(name)));
        };
        match self.queues.get(&id).and_then(|queue| queue.owner) {
            Some(owner) if owner != key.connection => Err(Refusal::Locked(name)),
            _ => Ok((id, name)),
        }
    }

    /// The queue of that name: one that messages are routed to by it, or that of a group of MQTT
    /// sessions, to which they are not.
    pub(super) fn queue_id(&self, name: &[u8]) -> Option<QueueId> {
        let routed = self.topology.queue(name);
        routed.or_else(|| self.queue_of_group(name))
    }

    pub(super) fn declare_queue(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        declare: QueueDeclare,
    ) -> Result<(), Refusal> {
        let nowait = declare.nowait;
        if declare.queue.as_bytes().starts_with(DIRECT_REPLY_TO) {
            return self.find_replier(turn, key, declare.queue, nowait);
        }
        let (id, name) = if declare.passive {
            self.queue_named(key, declare.queue)?
        } else {
            self.declare_actively(turn, key, declare)?
        };
        let counts = self.queues.get(&id).map(|queue| {
            let consumers = queue.line.count() as u64;
            (count(queue.index.ready_count()), count(consumers))
        });
        self.answer_declare(turn, key, nowait, (name, counts));
        Ok(())
    }

    /// The channel has declared that queue, with so many messages and consumers.
    fn answer_declare(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        nowait: bool,
        (queue, counts): (Name, Option<(u32, u32)>),
    ) {
        if let Some(channel) = self.channels.get_mut(&key) {
            channel.last_queue = Some(queue.clone());
        }
        if let Some((message_count, consumer_count)) = counts {
            let reply = Reply::QueueDeclareOk {
                queue,
                message_count,
                consumer_count,
            };
            turn.reply(key, nowait, self.topology_index, reply);
        }
    }

    /// Tells whether somebody wants replies under that name. No queue is ever made of it.
    fn find_replier(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        name: Name,
        nowait: bool,
    ) -> Result<(), Refusal> {
        if name.as_bytes() != DIRECT_REPLY_TO && !self.wants_replies(&name) {
            return Err(Refusal::NotFound(Object::Queue(name)));
        }
        self.answer_declare(turn, key, nowait, (name, Some((0, 1))));
        Ok(())
    }

    fn declare_actively(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        mut declare: QueueDeclare,
    ) -> Result<(QueueId, Name), Refusal> {
        let prefix = take_name_prefix(&mut declare.arguments);
        if declare.queue.is_empty() {
            if is_quorum(&declare.arguments) {
                return Err(Refusal::ServerNamed { kind: "quorum" });
            }
            let prefix = prefix.as_deref().unwrap_or(b"amq.gen");
            if prefix.len() > NAME_PREFIX_BYTES_MAX {
                return Err(Refusal::NamePrefixTooLong(Name::cut(prefix)));
            }
            declare.queue = generated_name([prefix, b"-"].concat(), declare.entropy);
            let id = self.create_queue(turn, key, &declare)?;
            return Ok((id, declare.queue));
        }
        let name = declare.queue.clone();
        let Some(id) = self.queue_id(name.as_bytes()) else {
            if name.as_bytes().starts_with(b"amq.") {
                return Err(Refusal::ReservedPrefix(Object::Queue(name)));
            }
            let id = self.create_queue(turn, key, &declare)?;
            return Ok((id, name));
        };
        if let Some(queue) = self.queues.get_mut(&id) {
            check_equivalent(queue, key, &declare)?;
            queue.unused_since = turn.now;
        }
        self.touch(id);
        Ok((id, name))
    }

    fn create_queue(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        declare: &QueueDeclare,
    ) -> Result<QueueId, Refusal> {
        let id = self.new_queue(turn, declare)?;
        if declare.exclusive
            && let Some(queue) = self.queues.get_mut(&id)
        {
            queue.owner = Some(key.connection);
            if let Some(connection) = self.connections.get_mut(&key.connection) {
                connection.owned.insert(id);
            }
        }
        Ok(id)
    }

    /// Makes a queue that is not there.
    pub(super) fn new_queue(
        &mut self,
        turn: &mut Turn<'_>,
        declare: &QueueDeclare,
    ) -> Result<QueueId, Refusal> {
        check_new_queue(declare)?;
        let id = QueueId(self.next_queue);
        let definition = new_definition(id, declare);
        let durable = definition.durable;
        ensure_room(turn, durable, &declare.arguments)?;
        self.record(turn, Fact::QueueDeclared(definition), durable);
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.unused_since = turn.now;
        }
        self.touch(id);
        Ok(id)
    }

    pub(super) fn delete_queue_by_name(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        name: &Name,
        if_unused: bool,
        if_empty: bool,
        nowait: bool,
    ) -> Result<(), Refusal> {
        let message_count = match self.queue_for(key, name) {
            Ok((id, name)) => {
                let Some(queue) = self.queues.get(&id) else {
                    return Ok(());
                };
                if queue.group.is_some() {
                    // It goes with the last member.
                    return Err(Refusal::ReservedPrefix(Object::Queue(name)));
                }
                if if_empty && queue.index.ready_count() > 0 {
                    return Err(Refusal::NotEmpty(name));
                }
                if if_unused && !queue.line.is_unused() {
                    return Err(Refusal::InUse(Object::Queue(name)));
                }
                let ready = queue.index.ready_count();
                self.delete_queue(turn, id);
                count(ready)
            }
            Err(Refusal::NotFound(_)) => 0,
            Err(refusal) => return Err(refusal),
        };
        let reply = Reply::QueueDeleteOk { message_count };
        turn.reply(key, nowait, self.topology_index, reply);
        Ok(())
    }

    /// Deletes a queue with its bindings, its entries, and the auto-delete exchanges that it
    /// leaves without bindings. Its consumers are told.
    pub(super) fn delete_queue(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        let durable = queue.definition.durable;
        if let Some(connection) = queue
            .owner
            .and_then(|owner| self.connections.get_mut(&owner))
        {
            connection.owned.remove(&id);
        }
        let gone = self.exchanges_gone_with(Gone::Queue(id));
        self.cancel_consumers(turn, id);
        self.record_deleted(turn, Some((Fact::QueueDeleted { id }, durable)), &gone);
    }

    pub(super) fn purge(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        name: &Name,
        nowait: bool,
    ) -> Result<(), Refusal> {
        if self.wants_replies(name) {
            let reply = Reply::QueuePurgeOk { message_count: 0 };
            turn.reply(key, nowait, 0, reply);
            return Ok(());
        }
        let (id, _) = self.queue_for(key, name)?;
        let Some(queue) = self.queues.get(&id) else {
            return Ok(());
        };
        let (ranges, message_count) = (queue.index.ready_ranges(), queue.index.ready_count());
        let durable = queue.definition.durable;
        let mut after = self.topology_index;
        if message_count > 0 {
            let fact = Fact::Settled {
                queue: id,
                ranges,
                why: Why::Purged,
            };
            after = after.max(self.record(turn, fact, durable));
        }
        self.touch(id);
        turn.reply(
            key,
            nowait,
            after,
            Reply::QueuePurgeOk {
                message_count: count(message_count),
            },
        );
        Ok(())
    }

    /// The name of the queue to bind or unbind; from the default exchange nothing is.
    fn bound_queue_name(&self, key: ChannelKey, bind: &QueueBind) -> Result<Name, Refusal> {
        let name = self.queue_name(key, &bind.queue)?;
        if is_reply_name(name.as_bytes()) {
            return Err(Refusal::ReplyQueueBinding);
        }
        if bind.exchange.is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        Ok(name)
    }

    pub(super) fn binding_of(
        &self,
        bind: &QueueBind,
        (id, name): (QueueId, Name),
    ) -> Result<(Binding, &ExchangeDefinition, bool), Refusal> {
        let exchange = self
            .topology
            .exchange(bind.exchange.as_bytes())
            .ok_or_else(|| Refusal::NotFound(Object::Exchange(bind.exchange.clone())))?;
        let names_itself = bind.queue.is_empty() && bind.routing_key.is_empty();
        let binding = Binding {
            source: exchange.id,
            destination: Destination::Queue(id),
            key: if names_itself {
                name
            } else {
                bind.routing_key.clone()
            },
            arguments: bind.arguments.clone(),
        };
        let is_durable = self
            .queues
            .get(&id)
            .is_some_and(|queue| queue.definition.durable);
        Ok((binding, exchange, exchange.durable && is_durable))
    }

    pub(super) fn bind_queue(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        bind: &QueueBind,
    ) -> Result<(), Refusal> {
        let name = self.bound_queue_name(key, bind)?;
        if self.topology.exchange(bind.exchange.as_bytes()).is_none() {
            return Err(Refusal::NotFound(Object::Exchange(bind.exchange.clone())));
        }
        let queue = self.queue_named(key, name)?;
        if self.queues.get(&queue.0).is_some_and(|q| q.group.is_some()) {
            // What its members get has a topic.
            return Err(Refusal::ReservedPrefix(Object::Queue(queue.1)));
        }
        let (binding, exchange, durable) = self.binding_of(bind, queue)?;
        let (to, binding_key) = (binding.destination, binding.key.as_bytes());
        check_binding(exchange, to, binding_key, &bind.arguments)?;
        let asker = Asker {
            channel: Some(key),
            nowait: bind.nowait,
            reply: Reply::QueueBindOk,
            method: (50, 20),
        };
        self.record_bound(turn, (binding, durable), asker)
    }

    pub(super) fn unbind_queue(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        bind: &QueueBind,
    ) -> Result<(), Refusal> {
        let name = self.bound_queue_name(key, bind)?;
        // What is not there needs no unbinding; whose the queue is does not matter, as in RabbitMQ.
        if let Some(id) = self.topology.queue(name.as_bytes())
            && let Ok((binding, _, durable)) = self.binding_of(bind, (id, name))
        {
            self.record_unbound(turn, binding, durable);
        }
        turn.reply(key, false, self.topology_index, Reply::QueueUnbindOk);
        Ok(())
    }
}

/// Takes `x-name-prefix` out, which only says how a name is made up; empty is none, and what is no
/// text is not looked at, as in RabbitMQ.
fn take_name_prefix(arguments: &mut Table) -> Option<Vec<u8>> {
    let name = b"x-name-prefix";
    let mut prefix = None;
    if let Value::LongString(text) = arguments.find(name)?
        && !text.is_empty()
    {
        let kept = text.iter().filter(|byte| !matches!(byte, b'\r' | b'\n'));
        prefix = Some(kept.copied().collect());
    }
    *arguments = arguments.without(name);
    prefix
}

const NAME_PREFIX_BYTES_MAX: usize = 64;

/// A count as the wire has it.
fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// RabbitMQ's order of checks: owner, durable, auto-delete, then arguments.
fn check_equivalent(queue: &Queue, key: ChannelKey, declare: &QueueDeclare) -> Result<(), Refusal> {
    let current = &queue.definition;
    let owner_differs = match queue.owner {
        Some(owner) => owner != key.connection || !declare.exclusive,
        None => declare.exclusive,
    };
    if owner_differs {
        return Err(Refusal::Locked(current.name.clone()));
    }
    check_same_queue(current, declare)
}

/// Whether a queue that is there is what is asked for, whoever has it.
pub(super) fn check_same_queue(
    current: &QueueDefinition,
    declare: &QueueDeclare,
) -> Result<(), Refusal> {
    let object = Object::Queue(current.name.clone());
    let of = Compared { object: &object };
    let durable = declare.durable && !declare.exclusive;
    compare_flag(of, "durable", durable, current.durable)?;
    compare_flag(of, "auto_delete", declare.auto_delete, current.auto_delete)?;
    for &argument in compared(is_quorum(&current.arguments)) {
        let default = (argument == "x-queue-type").then_some(Value::LongString(b"classic"));
        compare_argument(
            of,
            argument,
            default,
            &declare.arguments,
            &current.arguments,
        )?;
    }
    Ok(())
}

/// The queue that is asked for.
pub(super) fn new_definition(id: QueueId, declare: &QueueDeclare) -> QueueDefinition {
    QueueDefinition {
        id,
        name: declare.queue.clone(),
        durable: declare.durable && !declare.exclusive,
        exclusive: declare.exclusive,
        auto_delete: declare.auto_delete,
        arguments: declare.arguments.clone(),
    }
}

/// Whether a queue that is not there yet can be as it is asked for.
pub(super) fn check_new_queue(declare: &QueueDeclare) -> Result<(), Refusal> {
    if declare.queue.as_bytes().starts_with(GROUP_PREFIX) {
        return Err(Refusal::ReservedPrefix(Object::Queue(
            declare.queue.clone(),
        )));
    }
    Settings::parse(&declare.queue, &declare.arguments)?;
    if is_quorum(&declare.arguments) {
        check_quorum(&declare.queue, declare)?;
    }
    let object = Object::Queue(declare.queue.clone());
    check_own(Holder::Queue, &declare.arguments, &object)
}

/// What RabbitMQ does not let a quorum queue be.
fn check_quorum(name: &Name, declare: &QueueDeclare) -> Result<(), Refusal> {
    let invalid = |property| Refusal::InvalidProperty {
        object: Object::Queue(name.clone()),
        property,
    };
    if declare.auto_delete {
        return Err(invalid("auto-delete"));
    }
    if declare.exclusive {
        return Err(invalid("exclusive-owner"));
    }
    if !declare.durable {
        return Err(invalid("non-durable"));
    }
    Ok(())
}
