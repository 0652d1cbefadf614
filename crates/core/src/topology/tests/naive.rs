//! The rules of routing, written down once more without any index.

use std::collections::{BTreeMap, BTreeSet};

use menzil_model::Value;
use menzil_model::table::Fields;
use twox_hash::XxHash3_64;

use super::*;

/// Definitions and bindings, and a scan for everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Naive {
    pub(super) exchanges: BTreeMap<ExchangeId, ExchangeDefinition>,
    pub(super) queues: BTreeMap<QueueId, Name>,
    pub(super) bindings: Vec<Binding>,
}

impl Naive {
    pub(super) fn bind(&mut self, binding: &Binding) -> bool {
        let new = !self.bindings.iter().any(|other| same(other, binding));
        if new {
            self.bindings.push(binding.clone());
        }
        new
    }

    pub(super) fn unbind(&mut self, binding: &Binding) -> bool {
        let before = self.bindings.len();
        self.bindings.retain(|other| !same(other, binding));
        self.bindings.len() < before
    }

    pub(super) fn delete(&mut self, destination: Destination) {
        match destination {
            Destination::Queue(queue) => drop(self.queues.remove(&queue)),
            Destination::Exchange(exchange) => {
                self.exchanges.remove(&exchange);
                self.bindings.retain(|binding| binding.source != exchange);
            }
        }
        self.bindings
            .retain(|binding| binding.destination != destination);
    }

    pub(super) fn route(
        &self,
        from: ExchangeId,
        keys: &[&[u8]],
        headers: &Table,
    ) -> BTreeSet<QueueId> {
        let mut queues = BTreeSet::new();
        let mut seen = BTreeSet::from([from]);
        let mut work = vec![from];
        while let Some(here) = work.pop() {
            let Some(exchange) = self.exchanges.get(&here) else {
                continue;
            };
            let mut destinations = self.leave(exchange, keys, headers);
            if destinations.is_empty()
                && let Some(Value::LongString(name)) =
                    exchange.arguments.find(b"alternate-exchange")
            {
                let alternate = self.exchanges.values().find(|x| x.name.as_bytes() == name);
                destinations.extend(alternate.map(|x| Destination::Exchange(x.id)));
            }
            for destination in destinations {
                match destination {
                    Destination::Queue(queue) => drop(queues.insert(queue)),
                    Destination::Exchange(next) => {
                        if seen.insert(next) {
                            work.push(next);
                        }
                    }
                }
            }
        }
        queues
    }

    fn leave(
        &self,
        exchange: &ExchangeDefinition,
        keys: &[&[u8]],
        headers: &Table,
    ) -> Vec<Destination> {
        if exchange.name.is_empty() {
            let queues = self.queues.iter();
            return queues
                .filter(|(_, name)| keys.contains(&name.as_bytes()))
                .map(|(queue, _)| Destination::Queue(*queue))
                .collect();
        }
        let takes = |binding: &&Binding| match exchange.routes_as() {
            ExchangeKind::Direct | ExchangeKind::Delayed => keys.contains(&binding.key.as_bytes()),
            ExchangeKind::Topic => keys
                .iter()
                .any(|key| topic(&words(binding.key.as_bytes()), &words(key))),
            ExchangeKind::Headers => fits(&binding.arguments, headers),
            ExchangeKind::Fanout
            | ExchangeKind::RecentHistory
            | ExchangeKind::ConsistentHash
            | ExchangeKind::ModulusHash
            | ExchangeKind::Random
            | ExchangeKind::LocalRandom => true,
        };
        let from_here = self.bindings.iter().filter(|b| b.source == exchange.id);
        let taking: Vec<&Binding> = from_here
            .filter(|binding| match binding.destination {
                Destination::Queue(queue) => self.queues.contains_key(&queue),
                Destination::Exchange(exchange) => self.exchanges.contains_key(&exchange),
            })
            .filter(takes)
            .collect();
        match exchange.routes_as() {
            ExchangeKind::ConsistentHash => {
                let on = exchange.arguments.find(b"hash-header");
                let key = on.map_or(Some(keys[0]), |_| text_of(headers, b"h"));
                self.by_weight(&taking, key).into_iter().collect()
            }
            ExchangeKind::ModulusHash => self.by_number(&taking, keys).into_iter().collect(),
            ExchangeKind::Direct
            | ExchangeKind::Delayed
            | ExchangeKind::Fanout
            | ExchangeKind::Topic
            | ExchangeKind::Headers
            | ExchangeKind::RecentHistory
            | ExchangeKind::Random
            | ExchangeKind::LocalRandom => taking.iter().map(|b| b.destination).collect(),
        }
    }

    fn name(&self, destination: Destination) -> &[u8] {
        match destination {
            Destination::Queue(queue) => self.queues[&queue].as_bytes(),
            Destination::Exchange(exchange) => self.exchanges[&exchange].name.as_bytes(),
        }
    }

    /// The article of weighted rendezvous hashing with a logarithm: of `-ln(u) / w` the least.
    fn by_weight(&self, bindings: &[&Binding], key: Option<&[u8]>) -> Option<Destination> {
        let mut seen = BTreeSet::new();
        let mut best: Option<(f64, Destination)> = None;
        for binding in bindings {
            let digits = std::str::from_utf8(binding.key.as_bytes()).unwrap();
            let Ok(weight @ 1..=10_000) = digits.parse::<u16>() else {
                continue;
            };
            if !seen.insert(binding.destination) {
                continue;
            }
            let seed = match binding.destination {
                Destination::Queue(_) => 0x6d65_6e7a_696c_0002,
                Destination::Exchange(_) => 0x6d65_6e7a_696c_0003,
            };
            let name = self.name(binding.destination);
            let mut bits = XxHash3_64::oneshot_with_seed(seed, name);
            if let Some(key) = key {
                bits ^= XxHash3_64::oneshot_with_seed(0x6d65_6e7a_696c_0001, key);
            }
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^= bits >> 31;
            #[expect(clippy::cast_precision_loss, reason = "53 bits tell two draws apart")]
            let score = -(bits as f64 / 2_f64.powi(64)).ln() / f64::from(weight);
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, binding.destination));
            }
        }
        best.map(|(_, destination)| destination)
    }

    fn by_number(&self, bindings: &[&Binding], keys: &[&[u8]]) -> Option<Destination> {
        let named = bindings.iter().map(|binding| {
            let is_exchange = matches!(binding.destination, Destination::Exchange(_));
            (
                is_exchange,
                self.name(binding.destination),
                binding.destination,
            )
        });
        let sorted: BTreeSet<_> = named.collect();
        let mut seed = 0x6d65_6e7a_696c_0001;
        for key in keys {
            seed = XxHash3_64::oneshot_with_seed(seed, key);
        }
        let place = seed.checked_rem(sorted.len() as u64)?;
        let mut sorted = sorted.into_iter();
        let found = sorted.nth(usize::try_from(place).unwrap())?;
        Some(found.2)
    }
}

/// The header of that name, if it is a text.
fn text_of<'a>(headers: &'a Table, name: &[u8]) -> Option<&'a [u8]> {
    let last = Fields::of(headers.as_bytes())
        .filter(|(other, _)| *other == name)
        .last();
    match last {
        Some((_, Value::LongString(text))) => Some(text),
        _ => None,
    }
}

fn same(left: &Binding, right: &Binding) -> bool {
    let sorted = |binding: &Binding| {
        let mut fields: Vec<(Vec<u8>, String)> = binding
            .arguments
            .fields()
            .map(|(name, value)| (name.to_vec(), format!("{value:?}")))
            .collect();
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        fields
    };
    (left.source, left.destination, &left.key) == (right.source, right.destination, &right.key)
        && sorted(left) == sorted(right)
}

fn words(text: &[u8]) -> Vec<&[u8]> {
    if text.is_empty() {
        Vec::new()
    } else {
        text.split(|byte| *byte == b'.').collect()
    }
}

fn topic(pattern: &[&[u8]], key: &[&[u8]]) -> bool {
    match pattern {
        [] => key.is_empty(),
        [b"#", rest @ ..] => (0..=key.len()).any(|skipped| topic(rest, &key[skipped..])),
        [b"*", rest @ ..] => !key.is_empty() && topic(rest, &key[1..]),
        [word, rest @ ..] => key.first() == Some(word) && topic(rest, &key[1..]),
    }
}

fn fits(arguments: &Table, headers: &Table) -> bool {
    let (any, with_x) = match arguments.find(b"x-match") {
        Some(Value::LongString(b"any")) => (true, false),
        Some(Value::LongString(b"any-with-x")) => (true, true),
        Some(Value::LongString(b"all-with-x")) => (false, true),
        _ => (false, false),
    };
    let mut conditions = arguments.fields().filter(|(name, _)| {
        if with_x {
            *name != b"x-match"
        } else {
            !name.starts_with(b"x-")
        }
    });
    let holds = |(name, wanted): (&[u8], Value<'_>)| {
        let last = Fields::of(headers.as_bytes())
            .filter(|(other, _)| *other == name && *other != b"BCC")
            .last();
        last.is_some_and(|(_, value)| matches!(wanted, Value::Void) || equal(wanted, value))
    };
    if any {
        conditions.any(holds)
    } else {
        conditions.all(holds)
    }
}

fn equal(wanted: Value<'_>, value: Value<'_>) -> bool {
    let integer = |value: Value<'_>, scale: i128| {
        if let Value::Timestamp(seconds) = value {
            Some(i128::from(seconds) * scale)
        } else {
            value.as_integer()
        }
    };
    let float = |value: Value<'_>| {
        if let Value::F32(number) = value {
            Some(f64::from(number))
        } else if let Value::F64(number) = value {
            Some(number)
        } else {
            None
        }
    };
    if let (Some(left), Some(right)) = (integer(wanted, 1), integer(value, 1000)) {
        return left == right;
    }
    if let (Some(left), Some(right)) = (float(wanted), float(value)) {
        return left.to_bits() == right.to_bits();
    }
    match (wanted, value) {
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (
            Value::LongString(left) | Value::Binary(left),
            Value::LongString(right) | Value::Binary(right),
        ) => left == right,
        (Value::Decimal(places, left), Value::Decimal(others, right)) => {
            (places, left) == (others, right)
        }
        (Value::Table(left), Value::Table(right)) => left.rest() == right.rest(),
        (Value::Array(left), Value::Array(right)) => left.as_bytes() == right.as_bytes(),
        (Value::Table(fields), Value::Array(items))
        | (Value::Array(items), Value::Table(fields)) => {
            fields.rest().is_empty() && items.as_bytes().is_empty()
        }
        _ => false,
    }
}
