//! One virtual host as plain lists: obviously right, and slow.
//!
//! What the host decides by itself it is asked for: what came out of it is compared with what this
//! says, delivery by delivery. Which of several consumers has its turn is not said, only which
//! ones may have it.

mod delays;
mod letter;
mod policies;
mod retry;
mod stuck;
mod timeout;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::delays::Waiting;
use self::letter::{Letter, Reason};
use self::policies::Settings;
use crate::plan::{Arguments, CHANNELS, Exchange, Mail, Overflow, Policy, Step, Verdict};

/// States on the way through a step that are looked at.
const ORDERS_MAX: usize = 2000;

/// What came out, as far as it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Delivered {
        channel: u16,
        consumer: String,
        tag: u64,
        redelivered: bool,
        body: String,
    },
    Got {
        channel: u16,
        tag: u64,
        redelivered: bool,
        body: String,
        left: u64,
    },
    /// Anything else in words.
    Said { channel: u16, what: String },
}

/// A message in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    letter: Letter,
    durable: bool,
    expires_at: Option<u64>,
    /// `None` where it may be either.
    redelivered: Option<bool>,
    /// How often it was given back as failed, where that is counted.
    failed: u64,
    /// How often it came back, where that is counted.
    acquired: u64,
    /// The consumer that has it, if it is out with one.
    holder: Option<u64>,
}

/// Place in a queue: the highest priority first, then who came first.
type Place = (u8, u64);

#[derive(Clone, Debug)]
struct Consumer {
    number: u64,
    channel: u16,
    tag: String,
    no_ack: bool,
    prefetch: u16,
    priority: i8,
    /// How long it may leave a delivery unsettled.
    timeout: Option<u64>,
    unsettled: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) number: u64,
    pub(crate) durable: bool,
    pub(crate) arguments: Arguments,
    /// What comes of them and of policies.
    settings: Settings,
    pub(crate) ready: BTreeMap<Place, Entry>,
    pub(crate) out: BTreeMap<Place, Entry>,
    /// What came back and is ready again later, with the time.
    resting: BTreeMap<Place, (u64, Entry)>,
    consumers: Vec<Consumer>,
    /// Of a queue with a single active consumer the one.
    active: Option<u64>,
    /// Key, time, whether it is durable.
    seen: Vec<(u8, u64, bool)>,
    used_at: u64,
    dying: VecDeque<(Entry, Reason)>,
    /// What died and has nowhere to go.
    stuck: Vec<(Entry, Reason)>,
}

#[derive(Clone, Debug)]
struct Out {
    queue: u8,
    number: u64,
    place: Place,
    consumer: Option<u64>,
    since: u64,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    last_tag: u64,
    confirms: Option<u64>,
    prefetch: u16,
    out: BTreeMap<u64, Out>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) now: u64,
    pub(crate) queues: BTreeMap<u8, Queue>,
    /// Exchange, key, queue.
    bindings: BTreeSet<(Exchange, u8, u8)>,
    channels: BTreeMap<u16, Channel>,
    next: u64,
    /// What is left to be seen of a step.
    events: VecDeque<Event>,
    /// Queues in which entries die, in the order in which that began.
    dying: VecDeque<u8>,
    /// Messages that a queue refused and dead-letters.
    refused: VecDeque<(u8, Letter)>,
    waiting: Vec<Waiting>,
    /// A queue refused a message that was due. It is not followed when that is tried again:
    /// `shard/due.rs` is about it.
    is_refused_when_due: bool,
    /// Time passed, and leases that are over are to end.
    leases_end: bool,
    policies: Vec<Policy>,
    /// Queues to which something came back.
    back: BTreeSet<u8>,
}

/// From where a message is to be sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A queue in which it died.
    Queue(u8),
    /// The queue that refused it.
    Refused,
    /// An exchange in which it waited until now.
    Delay(Exchange),
    /// A queue that it came back to, where it is ready again.
    Rest(u8),
    /// Consumers that hold something for too long.
    Late,
    /// Queues that nobody used for too long: what is due may come before they go, or after.
    Leases,
}

type Checked = Result<(), String>;

impl Host {
    pub(crate) fn new(now: u64) -> Self {
        let mut host = Self {
            now,
            queues: BTreeMap::new(),
            bindings: BTreeSet::new(),
            channels: BTreeMap::new(),
            next: 1,
            events: VecDeque::new(),
            dying: VecDeque::new(),
            refused: VecDeque::new(),
            waiting: Vec::new(),
            is_refused_when_due: false,
            leases_end: false,
            policies: Vec::new(),
            back: BTreeSet::new(),
        };
        host.open_channels();
        host
    }

    fn open_channels(&mut self) {
        self.channels = (1..=CHANNELS)
            .map(|number| (number, Channel::default()))
            .collect();
        self.channel(1).confirms = Some(0);
    }

    fn channel(&mut self, number: u16) -> &mut Channel {
        self.channels.get_mut(&number).unwrap()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The body of the message that is published next.
    pub(crate) fn next_body(&self, padding: u8) -> String {
        format!("{}:{}", self.next + 1, "x".repeat(padding.into()))
    }

    /// As [`Host::next_body`], for several.
    pub(crate) fn take_body(&mut self, padding: u8) -> String {
        let body = self.next_body(padding);
        self.number();
        body
    }

    /// The consumer that a number stands for.
    pub(crate) fn nth_consumer(&self, nth: u64) -> Option<(u16, String)> {
        let all: Vec<_> = self
            .queues
            .values()
            .flat_map(|queue| &queue.consumers)
            .collect();
        let at = nth.checked_rem(all.len() as u64)?;
        all.get(at as usize)
            .map(|one| (one.channel, one.tag.clone()))
    }

    /// The delivery tag that a number stands for.
    pub(crate) fn nth_tag(&self, channel: u16, nth: u64) -> Option<u64> {
        let out = &self.channels[&channel].out;
        let at = nth.checked_rem(out.len() as u64)?;
        out.keys().nth(at as usize).copied()
    }

    /// Whether it may be done, as things are.
    pub(crate) fn can(&self, step: &Step) -> bool {
        let is_there = |queue: &u8| self.queues.contains_key(queue);
        match step {
            Step::Declare { queue, .. } => !is_there(queue),
            Step::ClearPolicy { name, is_operator } => {
                let is_it = |one: &Policy| (one.name, one.is_operator) == (*name, *is_operator);
                self.policies.iter().any(is_it)
            }
            Step::Delete { queue } | Step::Purge { queue } | Step::Get { queue, .. } => {
                is_there(queue)
            }
            Step::Bind { queue, .. } | Step::Unbind { queue, .. } => is_there(queue),
            Step::Consume { queue, tag, .. } => {
                let is_known = |one: &Consumer| one.tag == tag.to_string();
                is_there(queue)
                    && !self
                        .queues
                        .values()
                        .flat_map(|queue| &queue.consumers)
                        .any(is_known)
            }
            Step::Cancel { nth } => self.nth_consumer(*nth).is_some(),
            Step::CancelDelay { .. } => !self.waiting.is_empty(),
            Step::Settle { channel, nth, .. } => self.nth_tag(*channel, *nth).is_some(),
            Step::Publish { .. }
            | Step::Transaction { .. }
            | Step::SetPolicy(_)
            | Step::Qos { .. }
            | Step::Recover { .. }
            | Step::Reopen { .. }
            | Step::Wait { .. }
            | Step::Checkpoint
            | Step::Crash { .. }
            | Step::Stop => true,
        }
    }

    /// Does it, and compares what came of it. Which of several messages dies first is not said:
    /// what may have become of the host is all that fits, `None` where that is too much to be
    /// followed.
    pub(crate) fn outcomes(
        &self,
        step: &Step,
        events: &[Event],
    ) -> Result<Option<Vec<Self>>, String> {
        let mut start = self.clone();
        start.events = events.to_vec().into();
        start.carry_out(step)?;
        let (mut open, mut done) = (vec![start], Vec::new());
        let (mut known, mut why) = (BTreeSet::new(), String::new());
        let mut begun = BTreeSet::new();
        while let Some(mut host) = open.pop() {
            if !begun.insert(host.signature()) {
                continue;
            }
            if begun.len() > 2 * ORDERS_MAX {
                return Ok(None);
            }
            // What has nowhere to go is tried again when it pleases, and goes if it can.
            open.extend(host.unstuck());
            // What a consumer is to get may have to be read first, and others die meanwhile.
            let reads = host
                .events
                .iter()
                .any(|event| matches!(event, Event::Delivered { .. }));
            let early = if reads { host.pending() } else { Vec::new() };
            // The same of groups: what is over the limit goes while the next one is read.
            let may_shed = |queue: &Queue| queue.arguments.groups && queue.settings.dead.is_some();
            if reads && host.queues.values().any(may_shed) {
                let mut next = host.clone();
                next.expire();
                if next.signature() != host.signature() {
                    open.push(next);
                }
            }
            // And what has no consumer that gets more goes when its time is over.
            if reads {
                let mut next = host.clone();
                for queue in next.idle() {
                    next.expire_in(queue);
                }
                if next.signature() != host.signature() {
                    open.push(next);
                }
            }
            for source in early {
                open.extend(host.waiting_behind(source));
                let mut next = host.clone();
                match next.bury(source) {
                    Ok(()) => open.push(next),
                    Err(text) => why = text,
                }
            }
            let pending = host.advance();
            if !known.insert(host.signature()) {
                continue;
            }
            open.extend(host.unstuck());
            if pending.is_empty() && !host.is_refused_when_due {
                match host.finish() {
                    Ok(()) => done.push(host),
                    Err(text) => why = text,
                }
                continue;
            }
            if known.len() > ORDERS_MAX || host.is_refused_when_due {
                return Ok(None);
            }
            for source in pending {
                open.extend(host.waiting_behind(source));
                let mut next = host.clone();
                match next.bury(source) {
                    Ok(()) => open.push(next),
                    Err(text) => why = text,
                }
            }
        }
        if done.is_empty() {
            Err(why)
        } else {
            Ok(Some(done))
        }
    }

    fn carry_out(&mut self, step: &Step) -> Checked {
        match step {
            Step::Declare {
                queue,
                durable,
                arguments,
            } => {
                let number = self.number();
                let new = Queue {
                    number,
                    durable: *durable,
                    arguments: arguments.clone(),
                    settings: self.settings_of(*queue, arguments),
                    ready: BTreeMap::new(),
                    out: BTreeMap::new(),
                    resting: BTreeMap::new(),
                    consumers: Vec::new(),
                    active: None,
                    seen: Vec::new(),
                    used_at: self.now,
                    dying: VecDeque::new(),
                    stuck: Vec::new(),
                };
                self.queues.insert(*queue, new);
                self.said(1, &format!("QueueDeclareOk q{queue} 0 0"))
            }
            Step::Delete { queue } => {
                let ready = self.queues[queue].ready.len();
                self.delete(*queue)?;
                self.said(1, &format!("QueueDeleteOk {ready}"))
            }
            Step::Purge { queue } => {
                let ready = std::mem::take(&mut self.queue(*queue).ready).len();
                self.said(1, &format!("QueuePurgeOk {ready}"))
            }
            Step::Bind {
                queue,
                exchange,
                key,
            } => {
                self.bindings.insert((*exchange, *key, *queue));
                self.said(1, "QueueBindOk")
            }
            Step::Unbind {
                queue,
                exchange,
                key,
            } => {
                self.bindings.remove(&(*exchange, *key, *queue));
                self.said(1, "QueueUnbindOk")
            }
            Step::Publish { channel, mail } => self.publish(*channel, mail),
            Step::Transaction { mails, commit } => self.transaction(mails, *commit),
            Step::Consume {
                channel,
                queue,
                tag,
                no_ack,
                prefetch,
                priority,
                timeout,
            } => {
                let of_queue = self.queues[queue].settings.timeout;
                let timeout = timeout.or(of_queue).filter(|time| *time > 0 && !no_ack);
                let consumer = Consumer {
                    number: self.number(),
                    channel: *channel,
                    tag: tag.to_string(),
                    no_ack: *no_ack,
                    prefetch: *prefetch,
                    priority: *priority,
                    timeout,
                    unsettled: 0,
                };
                let queue = self.queue(*queue);
                queue.consumers.push(consumer);
                queue.choose_active();
                self.said(*channel, "QosOk")?;
                self.said(*channel, &format!("ConsumeOk {tag}"))
            }
            Step::Cancel { nth } => {
                let (channel, tag) = self.nth_consumer(*nth).unwrap();
                self.remove_consumers(|one| one.tag == tag);
                self.said(channel, &format!("CancelOk {tag}"))
            }
            Step::Qos { channel, count } => {
                self.channel(*channel).prefetch = *count;
                self.said(*channel, "QosOk")
            }
            Step::Get {
                channel,
                queue,
                no_ack,
            } => self.get(*channel, *queue, *no_ack),
            Step::Settle {
                channel,
                nth,
                multiple,
                verdict,
            } => {
                let tag = self.nth_tag(*channel, *nth).unwrap();
                let of = &mut self.channel(*channel).out;
                let tags: Vec<u64> = if *multiple && *verdict != Verdict::Fail {
                    of.range(..=tag).map(|(tag, _)| *tag).collect()
                } else {
                    vec![tag]
                };
                for tag in tags {
                    self.settle(*channel, tag, *verdict);
                }
                self.trim();
                Ok(())
            }
            Step::Recover { channel } => {
                self.give_back_all(*channel, Verdict::Requeue);
                self.said(*channel, "RecoverOk")
            }
            Step::Reopen { channel } => {
                let number = *channel;
                self.remove_consumers(|one| one.channel == number);
                self.give_back_all(number, Verdict::Fail);
                let confirms = self.channel(number).confirms.map(|_| 0);
                *self.channel(number) = Channel {
                    confirms,
                    ..Channel::default()
                };
                self.said(number, "ChannelClosed")?;
                self.said(number, "ChannelOpened")?;
                match confirms {
                    Some(_) => self.said(number, "ConfirmSelectOk"),
                    None => Ok(()),
                }
            }
            Step::Wait { milliseconds } => {
                self.now += milliseconds;
                self.expire();
                self.leases_end = !self.ended_leases().is_empty();
                Ok(())
            }
            Step::CancelDelay { nth } => {
                self.cancel_delay(*nth);
                Ok(())
            }
            Step::SetPolicy(policy) => {
                self.policies = self.with_policy(policy).policies;
                self.apply_policies();
                Ok(())
            }
            Step::ClearPolicy { name, is_operator } => {
                self.policies = self.without_policy(*name, *is_operator).policies;
                self.apply_policies();
                Ok(())
            }
            Step::Checkpoint => Ok(()),
            Step::Crash { .. } | Step::Stop => {
                self.restart();
                Ok(())
            }
        }
    }

    fn queue(&mut self, queue: u8) -> &mut Queue {
        self.queues.get_mut(&queue).unwrap()
    }

    fn said(&mut self, channel: u16, what: &str) -> Checked {
        let said = Event::Said {
            channel,
            what: what.to_owned(),
        };
        self.see(|event| *event == said, || format!("{said:?}"))
            .map(drop)
    }

    /// The first event that is one like that.
    fn see(
        &mut self,
        is_it: impl Fn(&Event) -> bool,
        wanted: impl Fn() -> String,
    ) -> Result<Event, String> {
        match self.events.iter().position(is_it) {
            Some(at) => Ok(self.events.remove(at).unwrap()),
            None => Err(format!("missing: {}; came: {:?}", wanted(), self.events)),
        }
    }

    fn delete(&mut self, queue: u8) -> Checked {
        let gone = self.queues.remove(&queue).unwrap();
        self.bindings.retain(|(_, _, to)| *to != queue);
        for one in gone.consumers {
            self.said(one.channel, &format!("Cancelled {}", one.tag))?;
        }
        Ok(())
    }

    fn route(&self, exchange: Exchange, key: &str) -> Vec<u8> {
        let bound = |to: Exchange, any_key: bool| {
            let all = self.bindings.iter().filter(move |one| one.0 == to);
            let all = all.filter(|one| any_key || one.1.to_string() == key);
            let all: BTreeSet<u8> = all.map(|one| one.2).collect();
            all.into_iter().collect::<Vec<u8>>()
        };
        match exchange {
            Exchange::Default => self
                .queues
                .keys()
                .copied()
                .filter(|one| format!("q{one}") == key)
                .collect(),
            Exchange::Fanout | Exchange::Slow => bound(exchange, true),
            Exchange::Direct => bound(exchange, false),
            Exchange::Later => {
                let own = bound(exchange, false);
                if own.is_empty() {
                    bound(Exchange::Fanout, true)
                } else {
                    own
                }
            }
            Exchange::Missing => Vec::new(),
        }
    }

    fn publish(&mut self, channel: u16, mail: &Mail) -> Checked {
        let body = self.next_body(mail.padding);
        self.number();
        let letter = Letter::new(mail, &body);
        let exchange = Exchange::of(mail.to);
        let targets = self.route(exchange, &letter.key);
        let is_returned = targets.is_empty() && mail.mandatory;
        if is_returned {
            self.said(channel, &format!("Return {body}"))?;
        }
        let accepted = if is_returned {
            true
        } else if letter.waits_in(exchange) {
            self.keep(exchange, letter);
            true
        } else {
            self.put(&targets, &letter)
        };
        let Some(last) = &mut self.channel(channel).confirms else {
            return Ok(());
        };
        *last += 1;
        let text = format!("Confirm {last} {accepted}");
        self.said(channel, &text)
    }

    /// Puts a message into queues. False where one refuses it.
    fn put(&mut self, targets: &[u8], letter: &Letter) -> bool {
        let verdicts = targets
            .iter()
            .map(|queue| (*queue, self.verdict(*queue, letter, &[])));
        let verdicts: Vec<_> = verdicts.collect();
        let mut accepted = true;
        for (queue, verdict) in verdicts {
            match verdict {
                Taken::Duplicate => {}
                Taken::Refused => {
                    accepted = false;
                    let settings = &self.queues[&queue].settings;
                    if settings.overflow == Overflow::RejectDead && settings.dead.is_some() {
                        self.refused.push_back((queue, letter.clone()));
                    }
                }
                Taken::Stored => self.enter(queue, vec![letter.clone()]),
            }
        }
        accepted
    }

    /// What the queue does with it, behind others of the same transaction.
    fn verdict(&self, queue: u8, letter: &Letter, before: &[Letter]) -> Taken {
        let (mail, body) = (&letter.mail, &letter.body);
        let of = &self.queues[&queue];
        let durable = |mail: &Mail| mail.persistent && of.durable;
        if let (Some((size, age)), Some(id), true) =
            (of.arguments.once, mail.id, letter.deaths.is_empty())
        {
            let before = before
                .iter()
                .filter_map(|one| Some((one.mail.id?, self.now, durable(&one.mail))));
            let seen: Vec<_> = of.seen.iter().copied().chain(before).collect();
            let known = |kind: bool| {
                let kind = seen.iter().rev().filter(|one| one.2 == kind);
                let mut last = kind.take(size as usize);
                last.any(|one| one.0 == id && self.now < one.1 + age)
            };
            if known(true) || (!durable(mail) && known(false)) {
                return Taken::Duplicate;
            }
        }
        if of.settings.overflow != Overflow::DropHead {
            let all = before.iter().map(|one| one.body.len()).sum::<usize>() + body.len();
            let count = before.len() as u64 + 1;
            let is_over = of.is_over(of.ready.len() as u64 + count, of.bytes() + all as u64);
            if is_over && self.appetite(queue) < count {
                return Taken::Refused;
            }
        }
        Taken::Stored
    }

    /// How many more the consumers of the queue would take now.
    fn appetite(&self, queue: u8) -> u64 {
        let queue = &self.queues[&queue];
        if !queue.ready.is_empty() {
            return 0;
        }
        let room = |one: &Consumer| {
            let own = match one.prefetch {
                0 => u64::MAX,
                count => u64::from(count).saturating_sub(one.unsettled),
            };
            own.min(self.room_of_channel(one.channel))
        };
        let may = queue
            .consumers
            .iter()
            .filter(|one| queue.may_be_active(one));
        may.map(room).fold(0, u64::saturating_add)
    }

    fn room_of_channel(&self, channel: u16) -> u64 {
        let channel = &self.channels[&channel];
        let out = channel
            .out
            .values()
            .filter(|out| out.consumer.is_some())
            .count() as u64;
        match channel.prefetch {
            0 => u64::MAX,
            count => u64::from(count).saturating_sub(out),
        }
    }

    /// Messages take their places together; what is over the limit then goes from the head. What
    /// consumers take at once never was in the queue.
    fn enter(&mut self, queue: u8, letters: Vec<Letter>) {
        let appetite = self.appetite(queue);
        let now = self.now;
        let mut places = BTreeSet::new();
        for letter in letters {
            let mail = letter.mail;
            let is_new = letter.deaths.is_empty();
            let number = self.number();
            let of = self.queue(queue);
            let own = mail.expiration.filter(|_| is_new);
            let ttl = [own, of.settings.ttl].into_iter().flatten().min();
            let durable = mail.persistent && of.durable;
            if let (Some(_), Some(id), true) = (of.arguments.once, mail.id, is_new) {
                of.seen.push((id, now, durable));
            }
            let entry = Entry {
                letter,
                durable,
                expires_at: ttl.map(|ttl| now + ttl),
                redelivered: Some(false),
                failed: 0,
                acquired: 0,
                holder: None,
            };
            let highest = of.arguments.priorities.unwrap_or(0);
            let place = (255 - mail.priority.unwrap_or(0).min(highest), number);
            of.ready.insert(place, entry);
            places.insert(place);
        }
        // Those that are dead-lettered go when consumers had theirs.
        if self.queue(queue).settings.dead.is_none() {
            let taken = places.into_iter().take(appetite.min(1 << 20) as usize);
            let taken: BTreeSet<Place> = taken.collect();
            self.queue(queue).drop_head(&taken);
        }
    }

    fn transaction(&mut self, mails: &[Mail], commit: bool) -> Checked {
        let channel = CHANNELS;
        let mut entering: BTreeMap<u8, Vec<Letter>> = BTreeMap::new();
        let mut kept: Vec<(Exchange, Letter)> = Vec::new();
        let (mut returned, mut refused) = (Vec::new(), false);
        for mail in mails {
            let body = self.next_body(mail.padding);
            self.number();
            let letter = Letter::new(mail, &body);
            let exchange = Exchange::of(mail.to);
            let targets = self.route(exchange, &letter.key);
            if targets.is_empty() && mail.mandatory {
                returned.push(format!("Return {body}"));
                continue;
            }
            if letter.waits_in(exchange) {
                kept.push((exchange, letter));
                continue;
            }
            for queue in targets {
                let before = entering.entry(queue).or_default();
                match self.verdict(queue, &letter, before) {
                    Taken::Duplicate => {}
                    Taken::Refused => refused = true,
                    Taken::Stored => before.push(letter.clone()),
                }
            }
        }
        entering.retain(|_, letters| !letters.is_empty());
        if !commit {
            return self.said(channel, "TxRollbackOk");
        }
        if refused {
            self.said(channel, "Refused TransactionRefused")?;
            self.said(channel, "ChannelOpened")?;
            return self.said(channel, "TxSelectOk");
        }
        for (queue, letters) in entering {
            self.enter(queue, letters);
        }
        for (exchange, letter) in kept {
            self.keep(exchange, letter);
        }
        for returned in returned {
            self.said(channel, &returned)?;
        }
        self.said(channel, "TxCommitOk")
    }

    fn get(&mut self, channel: u16, queue: u8, no_ack: bool) -> Checked {
        let now = self.now;
        let of = self.queue(queue);
        of.used_at = now;
        let free = of.ready.iter().find(|(_, entry)| of.held(entry).is_none());
        let Some(place) = free.map(|(place, _)| *place) else {
            return self.said(channel, "GetEmpty");
        };
        let mut entry = of.ready.remove(&place).unwrap();
        let (left, number) = (of.ready.len() as u64, of.number);
        let state = self.channel(channel);
        state.last_tag += 1;
        let tag = state.last_tag;
        let is_it = |event: &Event| match event {
            Event::Got {
                channel: to,
                tag: with,
                body,
                redelivered,
                left: behind,
            } => {
                (*to, *with, body, *behind) == (channel, tag, &entry.text(), left)
                    && entry.redelivered.is_none_or(|known| known == *redelivered)
            }
            _ => false,
        };
        self.see(is_it, || {
            format!("get {tag} on {channel}: {entry:?}, {left} left")
        })?;
        if !no_ack {
            let out = Out {
                queue,
                number,
                place,
                consumer: None,
                since: now,
            };
            self.channel(channel).out.insert(tag, out);
            entry.redelivered = Some(true);
            entry.holder = None;
            self.queue(queue).out.insert(place, entry);
        }
        Ok(())
    }

    fn settle(&mut self, channel: u16, tag: u64, verdict: Verdict) {
        let out = self.channel(channel).out.remove(&tag).unwrap();
        let Some(queue) = self
            .queues
            .get_mut(&out.queue)
            .filter(|queue| queue.number == out.number)
        else {
            return;
        };
        let by = queue
            .consumers
            .iter_mut()
            .find(|one| Some(one.number) == out.consumer);
        if let Some(consumer) = by {
            consumer.unsettled -= 1;
        }
        let entry = queue.out.remove(&out.place).unwrap();
        queue.choose_active();
        match verdict {
            Verdict::Acknowledge => {}
            Verdict::Reject => self.end(out.queue, vec![entry], Reason::Rejected),
            Verdict::Requeue => self.give_back(out.queue, out.place, entry, false),
            Verdict::Fail => self.give_back(out.queue, out.place, entry, true),
        }
    }

    /// Entries leave their queue unacknowledged.
    fn end(&mut self, queue: u8, entries: Vec<Entry>, reason: Reason) {
        let of = self.queue(queue);
        if of.settings.dead.is_none() || entries.is_empty() {
            return;
        }
        of.dying
            .extend(entries.into_iter().map(|entry| (entry, reason)));
        if !self.dying.contains(&queue) {
            self.dying.push_back(queue);
        }
    }

    fn give_back_all(&mut self, channel: u16, verdict: Verdict) {
        let tags: Vec<u64> = self.channel(channel).out.keys().copied().collect();
        for tag in tags {
            self.settle(channel, tag, verdict);
        }
        self.trim();
    }

    /// What is over a limit goes, after more came back; what is past its time goes first.
    fn trim(&mut self) {
        for queue in std::mem::take(&mut self.back) {
            let of = self.queue(queue);
            let sheds = of.settings.overflow == Overflow::DropHead;
            if sheds && of.is_over(of.ready.len() as u64, of.bytes()) {
                self.expire_in(queue);
            }
            let of = self.queue(queue);
            if of.settings.dead.is_none() {
                of.drop_head(&BTreeSet::new());
            } else {
                self.shed(queue);
            }
        }
    }

    /// What is over the limit of a queue that dead-letters it goes from the head.
    fn shed(&mut self, queue: u8) {
        let of = self.queue(queue);
        let mut over = Vec::new();
        while of.settings.overflow == Overflow::DropHead
            && of.settings.dead.is_some()
            && of.is_over(of.ready.len() as u64, of.bytes())
            && let Some((_, head)) = of.ready.pop_first()
        {
            over.push(head);
        }
        self.end(queue, over, Reason::MaxLength);
    }

    fn remove_consumers(&mut self, is_it: impl Fn(&Consumer) -> bool) {
        let now = self.now;
        for queue in self.queues.values_mut() {
            let before = queue.consumers.len();
            queue.consumers.retain(|one| !is_it(one));
            if queue.consumers.is_empty() && before > 0 {
                queue.used_at = now;
            }
            queue.choose_active();
        }
    }

    /// What is past its time goes, and of queues that dead-letter what is over the limit.
    fn expire(&mut self) {
        let queues: Vec<u8> = self.queues.keys().copied().collect();
        for queue in queues {
            self.expire_in(queue);
        }
    }

    fn expire_in(&mut self, queue: u8) {
        let now = self.now;
        let of = self.queue(queue);
        let is_over = |entry: &Entry| entry.expires_at.is_some_and(|at| at <= now);
        let ended: Vec<Place> = of
            .ready
            .iter()
            .filter(|(_, one)| is_over(one))
            .map(|(place, _)| *place)
            .collect();
        let ended = ended
            .iter()
            .map(|place| of.ready.remove(place).unwrap())
            .collect();
        self.end(queue, ended, Reason::Expired);
        self.expire_resting(queue);
        self.shed(queue);
    }

    /// Queues whose consumers get no more.
    fn idle(&self) -> Vec<u8> {
        let gets = |one: &Consumer| {
            self.events.iter().any(|event| match event {
                Event::Delivered {
                    channel, consumer, ..
                } => (*channel, consumer) == (one.channel, &one.tag),
                _ => false,
            })
        };
        let is_idle = |(_, queue): &(&u8, &Queue)| !queue.consumers.iter().any(gets);
        let all = self.queues.iter().filter(is_idle);
        all.map(|(id, _)| *id).collect()
    }

    /// One message goes on from there.
    fn bury(&mut self, source: Source) -> Checked {
        match source {
            Source::Refused => {
                let (queue, letter) = self.refused.pop_front().unwrap();
                self.send_on(queue, letter, Reason::MaxLength, false);
            }
            Source::Queue(queue) => {
                let (entry, reason) = self.queue(queue).dying.pop_front().unwrap();
                if !self.send_on(queue, entry.letter.clone(), reason, true) {
                    self.queue(queue).stuck.push((entry, reason));
                }
            }
            Source::Delay(exchange) => self.send_due(exchange),
            Source::Rest(queue) => self.end_rest(queue),
            Source::Late => return self.time_out(),
            Source::Leases => self.end_leases(),
        }
        Ok(())
    }

    fn ended_leases(&self) -> Vec<u8> {
        let now = self.now;
        let ended = |queue: &Queue| {
            let lease = queue.settings.expires;
            queue.consumers.is_empty() && lease.is_some_and(|time| queue.used_at + time <= now)
        };
        self.queues
            .iter()
            .filter(|(_, one)| ended(one))
            .map(|(id, _)| *id)
            .collect()
    }

    fn end_leases(&mut self) {
        self.leases_end = false;
        for queue in self.ended_leases() {
            self.queues.remove(&queue);
            self.bindings.retain(|(_, _, to)| *to != queue);
        }
    }

    /// Consumers take what they can, and what is past its time goes. Tells what may be next.
    fn advance(&mut self) -> Vec<Source> {
        self.deliver_all();
        self.expire();
        self.pending()
    }

    /// From where something is to be dead-lettered.
    fn pending(&mut self) -> Vec<Source> {
        let queues = &self.queues;
        (self.dying).retain(|queue| queues.get(queue).is_some_and(|of| !of.dying.is_empty()));
        let dying = self.dying.iter().copied().map(Source::Queue);
        let refused = (!self.refused.is_empty()).then_some(Source::Refused);
        let due = self.due().into_iter().map(Source::Delay);
        let rested = self.rested().into_iter().map(Source::Rest);
        let late = (!self.late().is_empty()).then_some(Source::Late);
        let leases = self.leases_end.then_some(Source::Leases);
        let all = dying.chain(refused).chain(due).chain(rested);
        all.chain(late).chain(leases).collect()
    }

    /// Nothing came but what had to, and nothing is left undone.
    fn finish(&mut self) -> Checked {
        self.all_delivered()?;
        match self.events.pop_front() {
            None => Ok(()),
            Some(more) => Err(format!("more than expected: {more:?}")),
        }
    }

    fn all_delivered(&mut self) -> Checked {
        let mut left = self.events.iter();
        if let Some(event) = left.find(|event| matches!(event, Event::Delivered { .. })) {
            let event = event.clone();
            return self.deliver(&event);
        }
        let stuck = self.queues.iter().find(|(_, queue)| {
            let mut ready = queue.ready.values();
            ready.any(|entry| !self.takers(queue, entry).is_empty())
        });
        match stuck {
            None => Ok(()),
            Some((id, queue)) => Err(format!("queue {id} has an entry and a taker: {queue:?}")),
        }
    }

    /// Whether it could take one more.
    fn has_room(&self, queue: &Queue, one: &Consumer) -> bool {
        let own = one.prefetch == 0 || one.unsettled < one.prefetch.into();
        own && self.room_of_channel(one.channel) > 0 && queue.may_be_active(one)
    }

    /// Who may take the entry now: the highest of those who have room; of a group that somebody
    /// has some of, nobody else.
    fn takers<'a>(&self, queue: &'a Queue, entry: &Entry) -> Vec<&'a Consumer> {
        let held = queue.held(entry);
        let is_free = |one: &&Consumer| held.is_none_or(|other| other.holder == Some(one.number));
        let all = queue
            .consumers
            .iter()
            .filter(|one| self.has_room(queue, one));
        let all: Vec<_> = all.filter(is_free).collect();
        let highest = all.iter().map(|one| one.priority).max();
        all.into_iter()
            .filter(|one| Some(one.priority) == highest)
            .collect()
    }

    /// All that came and can be delivered as things are, in the order in which it came.
    fn deliver_all(&mut self) {
        let mut at = 0;
        while let Some(event) = self.events.get(at).cloned() {
            let is_delivered = matches!(event, Event::Delivered { .. });
            if is_delivered && self.deliver(&event).is_ok() {
                self.events.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Takes one delivery to be right, or says why not, and then nothing has happened.
    fn deliver(&mut self, event: &Event) -> Checked {
        let Event::Delivered {
            channel,
            consumer,
            tag,
            redelivered,
            body,
        } = event
        else {
            return Ok(());
        };
        let now = self.now;
        let is_taker = |one: &Consumer| one.tag == *consumer && one.channel == *channel;
        let mut queues = self.queues.iter();
        let found = queues.find_map(|(id, queue)| {
            Some((
                *id,
                queue,
                queue.consumers.iter().find(|one| is_taker(one))?,
            ))
        });
        let Some((id, queue, one)) = found else {
            return Err(format!("{event:?}: to nobody"));
        };
        if self.channels[channel].last_tag + 1 != *tag {
            return Err(format!(
                "{event:?}: the last tag was {}",
                self.channels[channel].last_tag
            ));
        }
        // What came back after its time is never head; what ends just now may be gone already.
        let is_it = |entry: &Entry| {
            entry.text() == *body && entry.redelivered.is_none_or(|known| known == *redelivered)
        };
        let is_before = |entry: &Entry| match entry.expires_at {
            Some(at) => at < now || (at == now && !is_it(entry)),
            None => false,
        };
        let mut before: Vec<Place> = Vec::new();
        let mut found = None;
        for (place, entry) in &queue.ready {
            if is_before(entry) {
                before.push(*place);
                continue;
            }
            let takers = self.takers(queue, entry);
            if takers.is_empty() {
                continue;
            }
            if is_it(entry) && takers.iter().any(|one| is_taker(one)) {
                found = Some(*place);
                break;
            }
            return Err(format!("{event:?}: first is {entry:?} for {takers:?}"));
        }
        let Some(place) = found else {
            return Err(format!("{event:?}: nobody may take more of {queue:?}"));
        };
        let (no_ack, number, taker) = (one.no_ack, queue.number, one.number);
        let queue = self.queue(id);
        let ended = before
            .iter()
            .map(|place| queue.ready.remove(place).unwrap())
            .collect();
        let mut entry = queue.ready.remove(&place).unwrap();
        if !no_ack {
            entry.redelivered = Some(true);
            entry.holder = Some(taker);
            queue.out.insert(place, entry);
            queue
                .consumers
                .iter_mut()
                .find(|one| is_taker(one))
                .unwrap()
                .unsettled += 1;
        }
        self.end(id, ended, Reason::Expired);
        let state = self.channel(*channel);
        state.last_tag = *tag;
        if !no_ack {
            let out = Out {
                queue: id,
                number,
                place,
                consumer: Some(taker),
                since: now,
            };
            state.out.insert(*tag, out);
        }
        Ok(())
    }

    /// What a restart leaves.
    fn restart(&mut self) {
        let now = self.now;
        self.queues.retain(|_, queue| queue.durable);
        let queues = &self.queues;
        self.bindings.retain(|(_, _, to)| queues.contains_key(to));
        for queue in self.queues.values_mut() {
            let out = std::mem::take(&mut queue.out);
            queue.ready.extend(out);
            queue.ready.retain(|_, entry| entry.durable);
            queue.resting.retain(|_, (_, entry)| entry.durable);
            queue.stuck.retain(|(entry, _)| entry.durable);
            for entry in queue.ready.values_mut() {
                // What went out is flagged; what did not may be.
                entry.redelivered = entry.redelivered.filter(|went_out| *went_out);
            }
            queue.consumers.clear();
            queue.active = None;
            queue.seen.retain(|one| one.2);
            queue.used_at = now;
        }
        // What was out counts again, if its time is not over.
        for queue in self.rested() {
            self.end_rest(queue);
        }
        self.expire();
        for queue in self.queues.values_mut() {
            if queue.settings.dead.is_none() {
                queue.drop_head(&BTreeSet::new());
            }
        }
        self.open_channels();
    }

    /// All that can be told apart of two hosts that made the same of all they saw.
    pub(crate) fn signature(&self) -> String {
        let entry = |entry: &Entry| {
            (
                entry.text(),
                entry.redelivered,
                entry.expires_at,
                entry.failed,
            )
        };
        let all = self.queues.iter().map(|(id, queue)| {
            let ready: Vec<_> = queue
                .ready
                .iter()
                .map(|(place, one)| (place.0, entry(one)))
                .collect();
            let out: Vec<_> = queue.out.values().map(entry).collect();
            let resting: Vec<_> = queue
                .resting
                .iter()
                .map(|(place, (at, one))| (place.0, *at, entry(one)))
                .collect();
            let dying: Vec<_> = queue
                .dying
                .iter()
                .map(|(one, why)| (one.letter.text(), *why))
                .collect();
            // Any of them may be the next.
            let mut stuck: Vec<_> = queue
                .stuck
                .iter()
                .map(|(one, why)| format!("{} {why:?}", one.letter.text()))
                .collect();
            stuck.sort_unstable();
            format!(
                "{id} {stuck:?} {ready:?} {out:?} {resting:?} {:?} {dying:?}\n",
                queue.seen
            )
        });
        let refused: Vec<_> = self
            .refused
            .iter()
            .map(|(queue, letter)| (*queue, letter.text()))
            .collect();
        let dying: BTreeSet<_> = self.dying.iter().collect();
        let waiting = self.waiting_texts();
        all.collect::<String>()
            + &format!(
                "{refused:?} {dying:?} {waiting:?} {} {:?}",
                self.leases_end, self.events
            )
    }

    /// The queues that one can get messages from.
    pub(crate) fn drained(&self) -> Vec<u8> {
        let all = self
            .queues
            .iter()
            .filter(|(_, queue)| !queue.arguments.single_active);
        all.map(|(id, _)| *id).collect()
    }

    /// Whether somebody who takes these one by one gets them: what is stuck may come between.
    pub(crate) fn is_left(&self, left: &BTreeMap<u8, Vec<String>>) -> bool {
        let is_stuck = self.queues.values().any(|queue| !queue.stuck.is_empty());
        self.all_ready().into_iter().all(|(id, ready)| {
            let mut ready = ready.into_iter().peekable();
            for body in &left[&id] {
                let _came = ready.next_if_eq(body);
            }
            ready.peek().is_none() && (is_stuck || left[&id].len() == self.queues[&id].ready.len())
        })
    }

    /// Every ready body of these, in order.
    pub(crate) fn all_ready(&self) -> BTreeMap<u8, Vec<String>> {
        let ready = |queue: &Queue| {
            queue
                .ready
                .values()
                .map(|entry| entry.letter.body.clone())
                .collect()
        };
        let all = self.drained().into_iter();
        all.map(|id| (id, ready(&self.queues[&id]))).collect()
    }

    /// Number of the queue, ready, out or not ready again, consumers.
    pub(crate) fn counts(&self) -> Vec<(u8, u64, u64, u64)> {
        let counts = self.queues.iter().map(|(id, queue)| {
            let (ready, out) = (queue.ready.len(), queue.out.len() + queue.resting.len());
            let out = out + queue.stuck.len();
            let (ready, out) = (ready as u64, out as u64);
            (*id, ready, out, queue.consumers.len() as u64)
        });
        counts.collect()
    }
}

/// What a queue says of a message.
enum Taken {
    Stored,
    Duplicate,
    Refused,
}

impl Queue {
    /// Another of the entry's group that is out.
    fn held(&self, entry: &Entry) -> Option<&Entry> {
        let group = entry.letter.mail.group.filter(|_| self.arguments.groups)?;
        let resting = self.resting.values().map(|(_, other)| other);
        let mut away = self.out.values().chain(resting);
        away.find(|other| other.letter.mail.group == Some(group))
    }

    fn bytes(&self) -> u64 {
        self.ready
            .values()
            .map(|entry| entry.letter.body.len() as u64)
            .sum()
    }

    fn is_over(&self, count: u64, bytes: u64) -> bool {
        let over = |max: Option<u64>, is: u64| max.is_some_and(|max| is > max);
        over(self.settings.length, count) || over(self.settings.bytes, bytes)
    }

    /// Drops from the head what is over the limit; some do not count.
    fn drop_head(&mut self, apart: &BTreeSet<Place>) {
        if self.settings.overflow != Overflow::DropHead {
            return;
        }
        loop {
            let counted = self
                .ready
                .iter()
                .filter(|(place, _)| !apart.contains(place));
            let counted: Vec<_> = counted
                .map(|(place, entry)| (*place, entry.letter.body.len() as u64))
                .collect();
            let bytes = counted.iter().map(|one| one.1).sum();
            if !self.is_over(counted.len() as u64, bytes) {
                return;
            }
            let Some((head, _)) = counted.first() else {
                return;
            };
            self.ready.remove(head);
        }
    }

    /// Whether nothing but room keeps it from taking entries.
    fn may_be_active(&self, one: &Consumer) -> bool {
        let a_higher_waits = self
            .consumers
            .iter()
            .any(|other| other.priority > one.priority);
        let is_active = self.active == Some(one.number) && !a_higher_waits;
        !self.arguments.single_active || is_active
    }

    /// With a single active consumer: the highest of those that wait, the oldest of equal ones,
    /// takes over when the active one is gone, or holds nothing any more and is lower.
    fn choose_active(&mut self) {
        let current = self
            .consumers
            .iter()
            .find(|one| Some(one.number) == self.active);
        let mut best: Option<&Consumer> = None;
        for one in &self.consumers {
            if best.is_none_or(|best| one.priority > best.priority) {
                best = Some(one);
            }
        }
        let Some(best) = best else {
            self.active = None;
            return;
        };
        self.active = match current {
            Some(current) if current.priority >= best.priority || current.unsettled > 0 => {
                Some(current.number)
            }
            _ => Some(best.number),
        };
    }
}
