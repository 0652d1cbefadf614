//! Declaring, deleting and binding exchanges.

use menzil_model::fact::{Binding, Destination, ExchangeDefinition, ExchangeKind};
use menzil_model::{ExchangeId, Fact, Map, Name, QueueId, Set, Table, Value};

use super::Shard;
use crate::command::{ChannelKey, ExchangeBind, ExchangeDeclare};
use crate::counters::Counters;
use crate::delay::check_delayed;
use crate::effect::Reply;
use crate::equivalence::{Compared, compare_argument, compare_flag, compare_text};
use crate::log::Log;
use crate::own_arguments::{Holder, check_own, mistaken};
use crate::refusal::{Object, Refusal};
use crate::replay::Asker;
use crate::store::Retention;
use crate::topology::{check_binding, check_exchange};
use crate::turn::Turn;

/// Exchange types that RabbitMQ or its common plugins have and this broker has not, yet.
const UNSUPPORTED_KINDS: [&str; 3] = [
    "x-jms-topic",
    "x-message-deduplication",
    "x-federation-upstream",
];

/// The predeclared exchanges: name, kind, internal.
const PREDECLARED: [(&str, ExchangeKind, bool); 7] = [
    ("", ExchangeKind::Direct, false),
    ("amq.direct", ExchangeKind::Direct, false),
    ("amq.fanout", ExchangeKind::Fanout, false),
    ("amq.headers", ExchangeKind::Headers, false),
    ("amq.match", ExchangeKind::Headers, false),
    ("amq.rabbitmq.trace", ExchangeKind::Topic, true),
    ("amq.topic", ExchangeKind::Topic, false),
];

impl Shard {
    /// Completes an empty or recovered shard: its name and predeclared exchanges are written
    /// where they are missing, and the clock starts for what waits. Call it once, after the
    /// last [`Shard::apply`] and after [`Shard::needs`].
    pub fn start(&mut self, now: u64, name: &Name, log: &mut dyn Log) {
        // What was replayed has been counted when it happened; queues count it again.
        self.counters = Counters::default();
        self.releases.start();
        self.targets.seed(now);
        let mut effects = Vec::new();
        let mut turn = Turn {
            now,
            log,
            effects: &mut effects,
        };
        if self.name.is_empty() {
            self.record(
                &mut turn,
                Fact::VirtualHostCreated { name: name.clone() },
                true,
            );
        }
        for (name, kind, internal) in PREDECLARED {
            if self.topology.exchange(name.as_bytes()).is_some() {
                continue;
            }
            let definition = ExchangeDefinition {
                id: ExchangeId(self.next_exchange),
                name: Name::from(name),
                kind,
                durable: true,
                auto_delete: false,
                internal,
                arguments: Table::empty(),
            };
            self.record(&mut turn, Fact::ExchangeDeclared(definition), true);
        }
        self.recover_policies(now);
        let mut ids: Vec<_> = self.queues.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if let Some(queue) = self.queues.get_mut(&id) {
                if queue.delays() {
                    // What is to be read for it is asked for by the timer: nobody hears it now.
                    self.reset_timer(id);
                    continue;
                }
                queue.recovered(now);
            }
            if let Some(place) = self.queues.place(&id) {
                self.note_over(id, place);
            }
            self.touch(id);
        }
        self.recover_sessions(&mut turn);
        // Nothing can be read yet: what is to be moved waits for the first turn.
        self.settle_touched(&mut turn);
        self.finish(turn.log);
    }

    pub(super) fn declare_exchange(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        declare: &ExchangeDeclare,
    ) -> Result<(), Refusal> {
        let name = declare.exchange.clone();
        if name.is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        let object = Object::Exchange(name.clone());
        if declare.passive {
            if self.topology.exchange(name.as_bytes()).is_none() {
                return Err(Refusal::NotFound(object));
            }
        } else {
            match self.topology.exchange(name.as_bytes()) {
                Some(current) => check_same_exchange(current, declare)?,
                None => self.create_exchange(turn, declare)?,
            }
        }
        let after = self.topology_index;
        turn.reply(key, declare.nowait, after, Reply::ExchangeDeclareOk);
        Ok(())
    }

    pub(super) fn create_exchange(
        &mut self,
        turn: &mut Turn<'_>,
        declare: &ExchangeDeclare,
    ) -> Result<(), Refusal> {
        let kind = check_new_exchange(declare)?;
        let definition = definition_of(ExchangeId(self.next_exchange), kind, declare);
        ensure_room(turn, declare.durable, &declare.arguments)?;
        self.record(turn, Fact::ExchangeDeclared(definition), declare.durable);
        Ok(())
    }

    pub(super) fn delete_exchange(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        name: &Name,
        if_unused: bool,
        nowait: bool,
    ) -> Result<(), Refusal> {
        if name.is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        if name.as_bytes().starts_with(b"amq.") {
            return Err(Refusal::SystemExchange(name.clone()));
        }
        if let Some(exchange) = self.topology.exchange(name.as_bytes()) {
            let id = exchange.id;
            if if_unused && self.topology.has_bindings_from(id) {
                return Err(Refusal::InUse(Object::Exchange(name.clone())));
            }
            let gone = self.exchanges_gone_with(Gone::Exchange(id));
            self.record_deleted(turn, None, &gone);
        }
        turn.reply(key, nowait, self.topology_index, Reply::ExchangeDeleteOk);
        Ok(())
    }

    pub(super) fn exchange_pair(
        &self,
        bind: &ExchangeBind,
    ) -> Result<[&ExchangeDefinition; 2], Refusal> {
        if bind.source.is_empty() || bind.destination.is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        let find = |name: &Name| {
            self.topology
                .exchange(name.as_bytes())
                .ok_or_else(|| Refusal::NotFound(Object::Exchange(name.clone())))
        };
        Ok([find(&bind.source)?, find(&bind.destination)?])
    }

    pub(super) fn bind_exchange(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        bind: &ExchangeBind,
    ) -> Result<(), Refusal> {
        let [source, destination] = self.exchange_pair(bind)?;
        let to = Destination::Exchange(destination.id);
        check_binding(source, to, bind.routing_key.as_bytes(), &bind.arguments)?;
        let bound = binding_between(source, destination, bind);
        let asker = Asker {
            channel: Some(key),
            nowait: bind.nowait,
            reply: Reply::ExchangeBindOk,
            method: (40, 30),
        };
        self.record_bound(turn, bound, asker)
    }

    pub(super) fn unbind_exchange(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        bind: &ExchangeBind,
    ) -> Result<(), Refusal> {
        match self.exchange_pair(bind) {
            Err(refusal @ Refusal::DefaultExchange) => return Err(refusal),
            Err(_) => {}
            Ok([source, destination]) => {
                let (binding, durable) = binding_between(source, destination, bind);
                self.record_unbound(turn, binding, durable);
            }
        }
        turn.reply(
            key,
            bind.nowait,
            self.topology_index,
            Reply::ExchangeUnbindOk,
        );
        Ok(())
    }

    /// Binds, unless the same binding is there, with what the exchange kept for it.
    pub(super) fn record_bound(
        &mut self,
        turn: &mut Turn<'_>,
        (binding, durable): (Binding, bool),
        asker: Asker,
    ) -> Result<(), Refusal> {
        if !self.sweep.is_over() {
            // What it asks for may be kept by a policy that has not come so far.
            self.refresh_exchange(binding.source);
        }
        let from = self.replay_from(&binding, turn.now)?;
        if !self.topology.has_binding(&binding) {
            ensure_room(turn, durable, &binding.arguments)?;
            if let Some(from) = from {
                self.start_replay(turn, (binding, durable), from, asker);
                return Ok(());
            }
            self.record(turn, Fact::Bound(binding), durable);
        }
        self.answer(turn, &asker, Ok(()));
        Ok(())
    }

    /// Unbinds, and deletes the auto-delete exchanges that lose their last binding by it.
    pub(super) fn record_unbound(&mut self, turn: &mut Turn<'_>, binding: Binding, durable: bool) {
        if !self.topology.has_binding(&binding) {
            return;
        }
        let gone = self.exchanges_gone_with(Gone::Binding(binding.source));
        self.record_deleted(turn, Some((Fact::Unbound(binding), durable)), &gone);
    }

    /// The exchanges that are to be deleted when something goes: itself, and auto-delete ones
    /// whose last outgoing binding goes with it, and so on.
    pub(super) fn exchanges_gone_with(&self, first: Gone) -> Vec<ExchangeId> {
        let mut gone = Vec::new();
        let mut lost: Map<ExchangeId, usize> = Map::default();
        // What goes, with the bindings to it that are not counted yet.
        let mut going: Vec<Destination> = Vec::new();
        let mut sources = Vec::new();
        match first {
            Gone::Binding(source) => {
                lost.insert(source, 1);
                sources.push(source);
            }
            Gone::Queue(id) => going.push(Destination::Queue(id)),
            Gone::Exchange(id) => {
                gone.push(id);
                going.push(Destination::Exchange(id));
            }
        }
        let mut is_gone: Set<ExchangeId> = gone.iter().copied().collect();
        loop {
            for source in sources.drain(..) {
                let is_last = lost.get(&source) == Some(&self.topology.count_from(source));
                let exchange = self.topology.exchange_by_id(source);
                if is_last && exchange.is_some_and(|e| e.auto_delete) && is_gone.insert(source) {
                    gone.push(source);
                    going.push(Destination::Exchange(source));
                }
            }
            let Some(destination) = going.pop() else {
                return gone;
            };
            for binding in self.topology.bindings_to(destination) {
                *lost.entry(binding.source).or_default() += 1;
                if sources.last() != Some(&binding.source) {
                    sources.push(binding.source);
                }
            }
        }
    }

    /// Writes a deletion with what goes along in one record.
    pub(super) fn record_deleted(
        &mut self,
        turn: &mut Turn<'_>,
        first: Option<(Fact, bool)>,
        exchanges: &[ExchangeId],
    ) {
        let mut facts = Vec::new();
        let mut durable = false;
        if let Some((fact, is_durable)) = first {
            durable |= is_durable;
            facts.push(fact);
        }
        for id in exchanges {
            durable |= self
                .topology
                .exchange_by_id(*id)
                .is_some_and(|exchange| exchange.durable);
            facts.push(Fact::ExchangeDeleted { id: *id });
        }
        match (facts.pop(), facts.is_empty()) {
            (Some(only), true) => {
                self.record(turn, only, durable);
            }
            (Some(last), false) => {
                facts.push(last);
                self.record(turn, Fact::Group(facts), durable);
            }
            (None, _) => {}
        }
    }
}

/// What goes first; see [`Shard::exchanges_gone_with`].
#[derive(Clone, Copy)]
pub(super) enum Gone {
    /// One binding from that exchange.
    Binding(ExchangeId),
    /// A queue.
    Queue(QueueId),
    /// An exchange.
    Exchange(ExchangeId),
}

/// The exchange that is asked for.
pub(super) fn definition_of(
    id: ExchangeId,
    kind: ExchangeKind,
    declare: &ExchangeDeclare,
) -> ExchangeDefinition {
    ExchangeDefinition {
        id,
        name: declare.exchange.clone(),
        kind,
        durable: declare.durable,
        auto_delete: declare.auto_delete,
        internal: declare.internal,
        arguments: declare.arguments.clone(),
    }
}

/// The binding that is asked for, and whether it is durable.
pub(super) fn binding_between(
    source: &ExchangeDefinition,
    destination: &ExchangeDefinition,
    bind: &ExchangeBind,
) -> (Binding, bool) {
    let binding = Binding {
        source: source.id,
        destination: Destination::Exchange(destination.id),
        key: bind.routing_key.clone(),
        arguments: bind.arguments.clone(),
    };
    (binding, source.durable && destination.durable)
}

/// What a full disk has left is for settles, deletions and a checkpoint.
pub(super) fn ensure_room(
    turn: &mut Turn<'_>,
    durable: bool,
    arguments: &Table,
) -> Result<(), Refusal> {
    let bytes = arguments.as_bytes().len() as u64;
    if durable && !turn.log.has_room(bytes) {
        return Err(Refusal::NoRoom);
    }
    Ok(())
}

/// The kind of an exchange that is not there yet, if it can be as it is asked for.
pub(super) fn check_new_exchange(declare: &ExchangeDeclare) -> Result<ExchangeKind, Refusal> {
    let kind = kind_of(&declare.kind)?;
    let object = Object::Exchange(declare.exchange.clone());
    if declare.exchange.as_bytes().starts_with(b"amq.") {
        return Err(Refusal::ReservedPrefix(object));
    }
    check_arguments(&declare.arguments, &object)?;
    check_own(Holder::Exchange, &declare.arguments, &object)?;
    let routes_as = check_delayed(kind, &declare.arguments, &object)?;
    check_exchange(routes_as, &declare.arguments, &object)?;
    Retention::read(kind, &declare.arguments, || object.clone())?;
    Ok(kind)
}

fn kind_of(name: &Name) -> Result<ExchangeKind, Refusal> {
    ExchangeKind::from_name(name.as_bytes()).ok_or_else(|| {
        if UNSUPPORTED_KINDS
            .iter()
            .any(|known| known.as_bytes() == name.as_bytes())
        {
            Refusal::UnsupportedExchangeType(name.clone())
        } else {
            Refusal::UnknownExchangeType(name.clone())
        }
    })
}

fn check_arguments(arguments: &Table, object: &Object) -> Result<(), Refusal> {
    for (name, value) in arguments.fields() {
        match (name, value) {
            (b"alternate-exchange", Value::LongString(_)) | (b"atomic-routing", Value::Bool(_)) => {
            }
            (b"alternate-exchange", _) => {
                return Err(Refusal::InvalidType {
                    object: object.clone(),
                    argument: Name::cut(name),
                    kind: value.type_name(),
                });
            }
            (b"atomic-routing", _) => {
                let wanted = "true or false";
                return Err(mistaken(object.clone(), "atomic-routing", value, wanted));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Arguments that take part in redeclare equivalence. In RabbitMQ only the first does; the others
/// are this broker's own.
const COMPARED: [&str; 8] = [
    "x-delayed-type",
    "x-delayed",
    "alternate-exchange",
    "atomic-routing",
    "x-max-weight",
    "x-retain-messages",
    "x-retain-bytes",
    "x-retain-age",
];

/// Whether an exchange that is there is what is asked for. RabbitMQ compares type, flags, and of
/// the arguments only the alternate exchange.
pub(super) fn check_same_exchange(
    current: &ExchangeDefinition,
    declare: &ExchangeDeclare,
) -> Result<(), Refusal> {
    let kind = kind_of(&declare.kind)?;
    let object = &Object::Exchange(current.name.clone());
    let of = Compared { object };
    compare_text(of, "type", kind.name(), current.kind.name())?;
    compare_flag(of, "durable", declare.durable, current.durable)?;
    compare_flag(of, "auto_delete", declare.auto_delete, current.auto_delete)?;
    compare_flag(of, "internal", declare.internal, current.internal)?;
    for argument in COMPARED {
        compare_argument(of, argument, None, &declare.arguments, &current.arguments)?;
    }
    Ok(())
}
