//! What the node was told to do, in the order in which it was told.

use menzil_core::{ChannelKey, Command, Rejection, Request};
use menzil_model::{ConnectionId, Properties};

use super::model::{Belief, Entry, MessageModel, Transaction};
use super::{Awaited, ChannelModel, Oracle};
use crate::body::MessageNumber;
use crate::catalogue::{QUEUES, QueueNumber, queue_number};

/// What a client says of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Acknowledge,
    Reject,
    Requeue,
    /// Requeue, and count it.
    Fail,
}

impl Oracle {
    /// The node is about to execute a command.
    pub(crate) fn executed(&mut self, now: u64, command: &Command) {
        self.now = now;
        self.executed += 1;
        self.moment += 1;
        match command {
            Command::ChannelOpened(key) => {
                self.channels.insert(*key, ChannelModel::default());
            }
            Command::ChannelClosed(key) => self.give_up(*key),
            Command::ConnectionClosed { connection } => self.give_up_all(*connection),
            Command::Request { channel, request } => {
                // What was sent before the refusal was heard has no effect.
                if self.channels.contains_key(channel) && !self.is_refused(*channel) {
                    self.requested(*channel, request);
                }
            }
            Command::ConnectionOpened { .. }
            | Command::Drained { .. }
            | Command::Session { .. }
            | Command::Fetched { .. } => {}
        }
    }

    fn requested(&mut self, key: ChannelKey, request: &Request) {
        match request {
            Request::Publish(publish) => {
                if let Some(again) = resend_of(&publish.properties) {
                    self.on(key, |channel| channel.published.push(Some(again)));
                    return self.resent(again);
                }
                let number = publish
                    .body
                    .first()
                    .and_then(|part| part.first_chunk::<8>())
                    .map(|bytes| u64::from_be_bytes(*bytes));
                let is_catalogued = number.is_some_and(|n| self.message(n).is_some());
                self.published(key, number.filter(|_| is_catalogued));
            }
            Request::Ack {
                delivery_tag,
                multiple,
            } => self.settled_tags(key, delivery_tag.0, *multiple, Verdict::Acknowledge),
            Request::Reject {
                delivery_tag,
                multiple,
                requeue,
                method,
            } => {
                let verdict = match (requeue, method) {
                    (true, Rejection::Reject) => Verdict::Fail,
                    (true, Rejection::Nack) => Verdict::Requeue,
                    (false, _) => Verdict::Reject,
                };
                self.settled_tags(key, delivery_tag.0, *multiple, verdict);
            }
            Request::Recover { .. } => self.give_back(key, false),
            Request::Get { queue, no_ack } => {
                let queue = queue_number(queue.as_bytes());
                if let Some(queue) = queue {
                    self.queues[queue].is_attached = true;
                }
                self.on(key, |channel| channel.gets.push_back((queue, *no_ack)));
            }
            Request::Consume(consume) => {
                if let Some(queue) = queue_number(consume.queue.as_bytes()) {
                    self.queues[queue].is_attached = true;
                }
            }
            Request::QueuePurge { queue, .. } => self.purged(key, queue.as_bytes()),
            Request::ConfirmSelect { .. } => self.on(key, |channel| channel.is_confirm = true),
            Request::TxSelect => {
                self.on(key, |channel| channel.draft = Some(Transaction::default()));
            }
            Request::TxCommit => self.commit(key),
            Request::TxRollback => self.on(key, |channel| {
                let draft = channel.draft.replace(Transaction::default());
                let Transaction {
                    settles, rejects, ..
                } = draft.unwrap_or_default();
                channel.rolled_back.extend(settles);
                channel.rolled_back.extend(rejects);
            }),
            Request::QueueDeclare(_)
            | Request::QueueDelete { .. }
            | Request::ExchangeDeclare(_)
            | Request::ExchangeDelete { .. } => {
                let claim = self.chaos.execute(request, self.executed);
                self.on(key, |channel| {
                    channel.awaited.push_back(Awaited::Topology(claim));
                });
            }
            Request::ExchangeBind(_) => {
                // The last of the catalogue.
                self.is_declared = true;
            }
            Request::ExchangeUnbind(_)
            | Request::QueueBind(_)
            | Request::QueueUnbind(_)
            | Request::Qos { .. }
            | Request::Cancel { .. } => {}
        }
    }

    pub(super) fn on(&mut self, key: ChannelKey, change: impl FnOnce(&mut ChannelModel)) {
        if let Some(channel) = self.channels.get_mut(&key) {
            change(channel);
        }
    }

    fn published(&mut self, key: ChannelKey, number: Option<MessageNumber>) {
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        if channel.is_confirm {
            channel.published.push(number);
        }
        let Some(number) = number else { return };
        let is_declared = self.is_declared;
        if let Some(message) = self.message_mut(number) {
            message.is_routed = is_declared;
        }
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        match &mut channel.draft {
            Some(draft) => draft.publishes.push(number),
            None => self.enter(number),
        }
    }

    /// The message takes its places, unless a queue refuses.
    fn enter(&mut self, number: MessageNumber) {
        let (now, executed) = (self.now, self.executed);
        let Some(message) = self.message_mut(number) else {
            return;
        };
        message.executed = executed;
        let message = message.clone();
        for queue in message.targets.iter().copied() {
            let model = &mut self.queues[queue];
            model.count += 1;
            model.bytes += message.length as u64;
            self.enter_queue(&message, (queue, number), now, false);
        }
    }

    /// The message takes its place in a queue, or may as a dead letter.
    pub(super) fn enter_queue(
        &mut self,
        message: &MessageModel,
        (queue, number): (QueueNumber, MessageNumber),
        now: u64,
        is_potential: bool,
    ) {
        let spec = QUEUES[queue];
        // A letter has no expiration of its own any more, and who knows when it comes.
        let own_ttl = message.ttl_ms.filter(|_| !is_potential);
        let ttl = [spec.ttl_ms, own_ttl].into_iter().flatten().min();
        let not_before = message.delay_ms.map(|delay| now + delay);
        let may_expire_at = ttl.map(|ttl| not_before.unwrap_or(now) + ttl);
        let model = &mut self.queues[queue];
        let entry = Entry {
            durable: (message.persistent || not_before.is_some()) && spec.durable,
            belief: if message.confirm && (message.is_routed || spec.durable) {
                Belief::Live
            } else {
                Belief::Maybe
            },
            is_settled: false,
            out: None,
            is_emitted_now: false,
            is_emitted: false,
            is_seen: false,
            is_flaggable: false,
            is_recovered: false,
            is_potential,
            is_rejected: false,
            not_before,
            is_brief: not_before.is_some() && !message.persistent,
            is_refused: false,
            fails: 0,
            fails_now: 0,
            consumer: Vec::new(),
            // When it comes nobody knows, only not before.
            expires_at: may_expire_at.filter(|_| !is_potential && not_before.is_none()),
            may_expire_at,
            count: model.count,
            bytes: model.bytes,
        };
        model.entries.insert(number, entry);
        for target in spec.letters {
            self.enter_queue(message, (*target, number), now, true);
        }
    }

    fn settled_tags(&mut self, key: ChannelKey, tag: u64, multiple: bool, verdict: Verdict) {
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        let tags: Vec<u64> = match (multiple, tag) {
            (false, _) => vec![tag],
            (true, 0) => channel.out.keys().copied().collect(),
            (true, _) => channel.out.range(..=tag).map(|(tag, _)| *tag).collect(),
        };
        let is_waiting = !channel.gets.is_empty();
        let places: Vec<_> = tags
            .iter()
            .filter_map(|tag| channel.out.remove(tag))
            .collect();
        let dies = |queue: QueueNumber| verdict == Verdict::Reject && QUEUES[queue].dead_letters();
        if let Some(draft) = &mut channel.draft {
            let (rejects, settles): (Vec<_>, Vec<_>) =
                places.into_iter().partition(|(queue, _)| dies(*queue));
            draft.settles.extend(settles);
            draft.rejects.extend(rejects);
            return;
        }
        for (queue, number) in places {
            match verdict {
                Verdict::Requeue => self.returned_to(queue, number),
                Verdict::Fail => self.failed(queue, number),
                Verdict::Reject if dies(queue) => self.reject(queue, number),
                Verdict::Reject | Verdict::Acknowledge => self.settle(queue, number),
            }
            if is_waiting && self.settled.back() == Some(&(self.executed, queue, number)) {
                // Behind a get that waits for the journal: who knows before what it is written.
                self.settled.pop_back();
            }
        }
    }

    fn returned_to(&mut self, queue: QueueNumber, number: MessageNumber) {
        if let Some(entry) = self.queues[queue].entries.get_mut(&number) {
            entry.out = None;
        }
    }

    /// A consumer failed: so often, and the message is a dead letter.
    fn failed(&mut self, queue: QueueNumber, number: MessageNumber) {
        self.returned_to(queue, number);
        let Some(entry) = self.queues[queue].entries.get_mut(&number) else {
            return;
        };
        entry.fails += 1;
        entry.fails_now += 1;
        if QUEUES[queue]
            .delivery_limit
            .is_some_and(|limit| entry.fails_now > limit)
        {
            self.reject(queue, number);
        }
    }

    /// The entry leaves the queue, in this life of the node for certain.
    pub(super) fn settle(&mut self, queue: QueueNumber, number: MessageNumber) {
        if let Some(entry) = self.queues[queue].entries.get_mut(&number) {
            entry.out = None;
            entry.belief = Belief::Maybe;
            entry.is_settled = true;
            self.settled.push_back((self.executed, queue, number));
        }
    }

    /// The entry is going to be a dead letter: from now on it is on its way.
    fn reject(&mut self, queue: QueueNumber, number: MessageNumber) {
        if let Some(entry) = self.queues[queue].entries.get_mut(&number) {
            entry.out = None;
            entry.is_settled = true;
            entry.is_rejected = true;
        }
    }

    /// Everything that is out on the channel goes back.
    fn give_back(&mut self, key: ChannelKey, has_failed: bool) {
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        for (queue, number) in std::mem::take(&mut channel.out).into_values() {
            if has_failed {
                self.failed(queue, number);
            } else {
                self.returned_to(queue, number);
            }
        }
    }

    /// The channel ends.
    pub(super) fn give_up(&mut self, key: ChannelKey) {
        self.give_back(key, true);
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        channel.gets.clear();
        let draft = channel.draft.take().unwrap_or_default();
        let rolled_back = std::mem::take(&mut channel.rolled_back);
        let held = draft.settles.into_iter().chain(draft.rejects);
        for (queue, number) in held.chain(rolled_back) {
            self.failed(queue, number);
        }
    }

    pub(super) fn give_up_all(&mut self, connection: ConnectionId) {
        let keys: Vec<_> = self
            .channels
            .keys()
            .filter(|key| key.connection == connection)
            .copied()
            .collect();
        for key in keys {
            self.give_up(key);
        }
    }

    fn purged(&mut self, key: ChannelKey, queue: &[u8]) {
        let Some(queue) = queue_number(queue) else {
            return;
        };
        let ready: Vec<MessageNumber> = self.queues[queue]
            .entries
            .iter()
            .filter(|(_, entry)| {
                // What was refused is not there to be purged, and may be published again.
                let is_absent = entry.is_refused && QUEUES[queue].deduplicates;
                entry.out.is_none() && !entry.is_settled && !is_absent
            })
            .map(|(number, _)| *number)
            .collect();
        // What is to be a dead letter is not purged; one that may have come is, if it has.
        let (ready, unsure): (Vec<_>, Vec<_>) = ready.into_iter().partition(|number| {
            let entry = &self.queues[queue].entries[number];
            let may_die = QUEUES[queue].dead_letters() && self.may_be_away(queue, entry);
            !may_die && !entry.is_potential && entry.is_in_place()
        });
        for number in &ready {
            if let Some(entry) = self.queues[queue].entries.get_mut(number) {
                entry.belief = Belief::Maybe;
                entry.is_settled = true;
            }
        }
        for number in unsure {
            if let Some(entry) = self.queues[queue].entries.get_mut(&number) {
                entry.belief = Belief::Maybe;
            }
        }
        self.on(key, |channel| {
            channel.awaited.push_back(Awaited::Purge(queue, ready));
        });
    }

    fn commit(&mut self, key: ChannelKey) {
        let Some(draft) = self.channels.get_mut(&key).and_then(|c| c.draft.as_mut()) else {
            return;
        };
        let mut transaction = std::mem::take(draft);
        transaction.executed = self.executed;
        for (queue, number) in transaction.settles.clone() {
            if self.is_owed(queue, number) {
                transaction.certain.push((queue, number));
            }
            self.settle(queue, number);
        }
        for (queue, number) in transaction.rejects.clone() {
            self.reject(queue, number);
        }
        for number in transaction.publishes.clone() {
            self.enter(number);
            let is_routed = self
                .message(number)
                .is_some_and(|message| message.is_routed);
            for queue in &mut self.queues {
                if let Some(entry) = queue.entries.get_mut(&number) {
                    // A refusal would refuse all of it.
                    if entry.durable || is_routed {
                        entry.belief = Belief::Live;
                    }
                }
            }
        }
        // What is settled from now on is written behind the transaction.
        self.executed += 1;
        self.transactions_made += 1;
        let number = self.transactions_made;
        self.transactions.insert(number, transaction);
        self.on(key, |channel| {
            channel.awaited.push_back(Awaited::Commit(number));
        });
    }

    /// The node refused the commit: nothing of it happened.
    pub(super) fn commit_refused(&mut self, key: ChannelKey) {
        let Some(Awaited::Commit(number)) = self
            .channels
            .get_mut(&key)
            .and_then(|channel| channel.awaited.pop_back())
        else {
            return self.fail(format!("a commit is refused on {key:?} that was not asked"));
        };
        let Some(transaction) = self.transactions.remove(&number) else {
            return;
        };
        for number in &transaction.publishes {
            for queue in &mut self.queues {
                queue.bury(*number);
                queue.unclear.insert(*number);
            }
        }
        self.settled
            .retain(|(executed, _, _)| *executed != transaction.executed);
        for (queue, number) in &transaction.rejects {
            if let Some(entry) = self.queues[*queue].entries.get_mut(number) {
                entry.is_settled = false;
                entry.fails += 1;
            }
        }
        for (queue, number) in &transaction.settles {
            let is_certain = transaction.certain.contains(&(*queue, *number));
            if let Some(entry) = self.queues[*queue].entries.get_mut(number) {
                entry.is_settled = false;
                entry.fails += 1;
                if is_certain {
                    entry.belief = Belief::Live;
                }
            }
        }
    }
}

/// The number of a publish of what was published before.
fn resend_of(properties: &[u8]) -> Option<MessageNumber> {
    let number = Properties::parse(properties).ok()?.correlation_id?;
    std::str::from_utf8(number).ok()?.parse().ok()
}
