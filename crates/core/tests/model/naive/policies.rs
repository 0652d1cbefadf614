//! What policies make of a queue, key by key.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::Host;
use crate::plan::{Arguments, Exchange, Overflow, Pattern, Policy, Retry, Says};

/// What a queue is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) length: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) overflow: Overflow,
    pub(super) ttl: Option<u64>,
    pub(super) expires: Option<u64>,
    pub(super) dead: Option<Dead>,
    pub(super) failures: Option<u64>,
    pub(super) timeout: Option<u64>,
    pub(super) retry: Retry,
    pub(super) retry_min: Option<u64>,
    pub(super) retry_max: Option<u64>,
}

/// Where what dies goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dead {
    pub(super) exchange: Exchange,
    pub(super) key: Option<String>,
    pub(super) at_least_once: bool,
}

/// Policies of one kind that are for a queue, in the order in which they are asked.
struct Asked<'a>(Vec<&'a Policy>);

impl Asked<'_> {
    /// The first of them says it, or the next where that leaves it to others.
    fn say<T>(&self, key: impl Fn(&Says) -> Option<T>) -> Option<T> {
        for policy in &self.0 {
            let said = key(&policy.says);
            if said.is_some() || !policy.is_layered {
                return said;
            }
        }
        None
    }
}

impl Host {
    fn asked(&self, queue: u8, of_operators: bool) -> Asked<'_> {
        let is_for = |policy: &&Policy| {
            let is_it = match policy.pattern {
                Pattern::All => true,
                Pattern::Low => queue < 3,
                Pattern::One(one) => queue == one,
            };
            is_it && policy.is_operator == of_operators && policy.apply_to != "quorum_queues"
        };
        let mut all: Vec<_> = self.policies.iter().filter(is_for).collect();
        all.sort_by_key(|policy| (Reverse(policy.priority), policy.name));
        Asked(all)
    }

    pub(super) fn settings_of(&self, queue: u8, own: &Arguments) -> Settings {
        let (users, operators) = (self.asked(queue, false), self.asked(queue, true));
        let lowest = |own: Option<u64>, key: fn(&Says) -> Option<u64>| {
            let all = [own, users.say(key), operators.say(key)];
            all.into_iter().flatten().min()
        };
        let failures = users.say(|says| says.failures);
        let failures = stricter(failures, operators.say(|says| says.failures));
        let failures = stricter(own.failures.map(|most| most as i64), failures);
        let retry = operators
            .say(|says| says.retry)
            .or_else(|| users.say(|says| says.retry))
            .or(own.retry);
        let of_operators = operators.say(|says| says.retry_min);
        let retry_min = users.say(|says| says.retry_min).max(of_operators);
        let retry_min = [own.retry_min, retry_min].into_iter().flatten().min();
        let own_overflow = (own.overflow != Overflow::DropHead).then_some(own.overflow);
        let overflow = own_overflow
            .or_else(|| operators.say(|says| says.overflow))
            .or_else(|| users.say(|says| says.overflow));
        let exchange = own.dead.map(|dead| dead.exchange);
        let exchange = exchange.or_else(|| users.say(|says| says.dead_exchange));
        let own_key = own.dead.and_then(|dead| Some(dead.exchange.key(dead.key?)));
        let key = own_key.or_else(|| users.say(|says| says.dead_key).map(str::to_owned));
        let strict = own.dead.and_then(|dead| dead.at_least_once);
        let strict = strict.or_else(|| users.say(|says| says.at_least_once));
        let dead = exchange.map(|exchange| Dead {
            exchange,
            key,
            at_least_once: strict.unwrap_or_default(),
        });
        Settings {
            length: lowest(own.length, |says| says.length),
            bytes: lowest(own.bytes, |says| says.bytes),
            overflow: overflow.unwrap_or_default(),
            ttl: lowest(own.ttl, |says| says.ttl),
            expires: lowest(own.expires, |says| says.expires),
            dead,
            failures: failures.and_then(|most| u64::try_from(most).ok()),
            timeout: lowest(own.timeout, |says| says.timeout),
            retry: retry.unwrap_or_default(),
            retry_min,
            retry_max: lowest(own.retry_max, |says| says.retry_max),
        }
    }

    pub(super) fn with_policy(&self, policy: &Policy) -> Self {
        let mut host = self.without_policy(policy.name, policy.is_operator);
        host.policies.push(policy.clone());
        host
    }

    pub(super) fn without_policy(&self, name: u8, is_operator: bool) -> Self {
        let mut host = self.clone();
        let is_it = |one: &Policy| (one.name, one.is_operator) == (name, is_operator);
        host.policies.retain(|one| !is_it(one));
        host
    }

    /// Policies act on what is there.
    pub(super) fn apply_policies(&mut self) {
        let settings =
            |(id, queue): (&u8, &super::Queue)| (*id, self.settings_of(*id, &queue.arguments));
        let all: Vec<_> = self.queues.iter().map(settings).collect();
        let now = self.now;
        for (id, settings) in all {
            let queue = self.queue(id);
            if queue.settings.expires != settings.expires {
                queue.used_at = now;
            }
            queue.settings = settings;
            if queue.settings.dead.is_none() {
                queue.drop_head(&BTreeSet::new());
            }
        }
    }
}

/// The lower of two limits; but one below 0 is none, and then the higher.
fn stricter(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) if one < 0 || other < 0 => Some(one.max(other)),
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
