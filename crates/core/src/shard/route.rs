//! Where a publish goes: its way through the topology, and what its properties ask for.

use menzil_model::{ExchangeId, Name, Properties, QueueId};
use smallvec::SmallVec;

use super::Shard;
use crate::command::{ChannelKey, PublishRef};
use crate::delay::delay_of;
use crate::queue::{Order, parse_expiration};
use crate::refusal::{Object, Refusal};
use crate::route::Route;
use crate::slots::Place;
use crate::topology::{Grounds, Routed, RoutingKeys, Targets, strip_bcc};
use crate::ways::Way;

impl Shard {
    /// The way of a publish on that channel, taken from it: that of the last one if it holds.
    pub(super) fn route_of(
        &mut self,
        (key, place): (ChannelKey, Place),
        publish: &PublishRef<'_>,
    ) -> Result<Box<Route>, Refusal> {
        let open = self.channels.at_mut(place, key);
        let generation = self.topology.generation();
        let mut route = match open.and_then(|open| open.route.take()) {
            Some(route) if route.is_for(generation, publish) => return Ok(route),
            last => last.unwrap_or_default(),
        };
        self.next_route += 1;
        let knows_properties = route.restart(self.next_route, generation, publish);
        if !(knows_properties && route.is_plain && self.find_way(publish, &mut route)) {
            self.find_route(key, publish, &mut route)?;
        }
        route.complete();
        Ok(route)
    }

    /// The way that another publish with that exchange and routing key took.
    #[inline]
    fn find_way(&self, publish: &PublishRef<'_>, route: &mut Route) -> bool {
        let generation = self.topology.generation();
        let way = (self.ways).find(generation, (publish.exchange, publish.routing_key));
        way.map(|way| route.take(way)).is_some()
    }

    /// Keeps it for the next publish.
    pub(super) fn keep_route(&mut self, (key, place): (ChannelKey, Place), route: Box<Route>) {
        if let Some(channel) = self.channels.at_mut(place, key)
            && route.is_worth_keeping()
        {
            channel.route = Some(route);
        }
    }

    fn find_route(
        &mut self,
        key: ChannelKey,
        publish: &PublishRef<'_>,
        route: &mut Route,
    ) -> Result<(), Refusal> {
        let Some(exchange) = self.topology.exchange(publish.exchange) else {
            let name = Name::cut(publish.exchange);
            return Err(Refusal::NotFound(Object::Exchange(name)));
        };
        if exchange.internal {
            return Err(Refusal::InternalExchange(Name::cut(publish.exchange)));
        }
        route.atomic = is_atomic(&exchange.arguments);
        let exchange = exchange.id;
        let properties = Properties::parse(publish.properties).unwrap_or_default();
        let named = self.with_reply_name(key, &properties)?;
        route.ttl = properties.expiration.map(parse_expiration).transpose()?;
        route.persistent = properties.is_persistent();
        route.priority = properties.priority.unwrap_or_default();
        route.is_plain = properties.headers.is_none();
        let keys = RoutingKeys::new(publish.routing_key, &properties)?;
        if let Some(given) = properties.user_id {
            self.check_user(key, given)?;
        }
        let as_named = named.as_deref().unwrap_or(publish.properties);
        route.stripped = properties.headers.and_then(|_| strip_bcc(as_named));
        route.named = named;
        if publish.exchange.is_empty() {
            self.find_repliers(keys.iter(), route);
        }
        if route.is_plain && self.find_way(publish, route) {
            return Ok(());
        }
        let mut targets = std::mem::take(&mut self.targets);
        let way = (exchange, &keys, &properties);
        let grounds = self.find_targets(way, publish.mandatory, route, &mut targets);
        self.find_subscribers(&targets, (&keys, &properties), route);
        self.targets = targets;
        let known = self.look_at_queues(route);
        route.is_unlimited = known.is_unlimited;
        route.is_durable = known.is_durable && route.persistent;
        route.has_terms = known.has_terms || route.ttl.is_some();
        match (grounds, route.targets.as_slice()) {
            (Grounds::Chance, _) => route.holds_once(),
            (Grounds::Keys, [_])
                if route.is_plain && route.stores == 0 && route.notes.is_empty() =>
            {
                let key = (publish.exchange, publish.routing_key);
                self.ways.keep(self.topology.generation(), key, known);
            }
            (Grounds::Keys | Grounds::Properties, _) => {}
        }
        Ok(())
    }

    /// Asks the topology, and says what the way depends on.
    fn find_targets(
        &self,
        (exchange, keys, properties): (ExchangeId, &RoutingKeys<'_>, &Properties<'_>),
        mandatory: bool,
        route: &mut Route,
        targets: &mut Targets,
    ) -> Grounds {
        route.delay = delay_of(properties).unwrap_or_default();
        let topology = &self.topology;
        let _routed = if route.delay > 0 {
            topology.route_delayed(exchange, keys, properties, targets)
        } else {
            topology.route(exchange, keys, properties, targets)
        };
        let found = targets.queues().iter().chain(targets.stores());
        (route.targets).extend(found.map(|queue| (*queue, Place::default())));
        route.stores = targets.stores().len();
        let grounds = targets.grounds();
        if targets.delays().is_empty() {
            route.delay = 0;
            return grounds;
        }
        let delays: SmallVec<[QueueId; 2]> = targets.delays().into();
        // A publisher that wants to know hears now what would become of it.
        let is_nowhere = mandatory
            && targets.queues().is_empty()
            && topology.route(exchange, keys, properties, targets) == Routed::Nowhere;
        if is_nowhere {
            return Grounds::Chance;
        }
        (route.targets).extend(delays.iter().map(|queue| (*queue, Place::default())));
        // It depends on `mandatory`, which a route does not know.
        Grounds::Chance
    }

    /// What is known of queues for as long as they live. It is a way of its own where there is
    /// one.
    fn look_at_queues(&self, route: &mut Route) -> Way {
        let mut known = Way {
            queue: QueueId(0),
            place: Place::default(),
            is_unlimited: true,
            is_durable: false,
            has_terms: false,
            atomic: route.atomic,
        };
        for (id, at) in &mut route.targets {
            let place = self.queues.place(id);
            *at = place.unwrap_or_default();
            (known.queue, known.place) = (*id, *at);
            let Some(queue) = place.and_then(|place| self.queues.at(place, *id)) else {
                known.is_unlimited = false;
                continue;
            };
            known.is_unlimited &= !queue.is_limited() && queue.settings.deduplication.is_none();
            known.is_unlimited &= queue.groups.is_none();
            known.is_durable |= queue.is_durable();
            known.has_terms |= queue.settings.message_ttl.is_some();
            known.is_unlimited &= !queue.delays();
            known.has_terms |= queue.order != Order::Arrival;
        }
        known
    }

    /// The `user_id` property, where there is one, tells the truth.
    fn check_user(&self, key: ChannelKey, given: &[u8]) -> Result<(), Refusal> {
        match self
            .connections
            .get(&key.connection)
            .map(|connection| &connection.user)
        {
            Some(user) if user.as_bytes() != given => Err(Refusal::UserId {
                given: Name::cut(given),
                user: user.clone(),
            }),
            _ => Ok(()),
        }
    }
}

pub(super) fn is_atomic(arguments: &menzil_model::Table) -> bool {
    matches!(
        arguments.find(b"atomic-routing"),
        Some(menzil_model::Value::Bool(true))
    )
}
