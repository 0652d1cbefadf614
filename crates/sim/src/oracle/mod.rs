//! What must hold, whatever happened: a shadow of the node, fed by what it was told to do, what
//! it said, and what clients heard of it.
//!
//! What *may* be gone follows from what the node executed; what *must* be there or be gone
//! follows from what clients heard. The oracle shares no code and no state with the node.

mod again;
mod chaos;
mod emitted;
mod executed;
mod letters;
mod model;
mod recovered;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use menzil_core::{ChannelKey, Reply};
use menzil_model::ConnectionId;

use crate::body::{self, MessageNumber};
use crate::catalogue::{Level, QUEUES, QueueNumber};
use crate::policy::PolicyLog;
use chaos::Chaos;
pub(crate) use chaos::Thing;
use model::{Belief, MessageModel, QueueModel, Transaction};

pub(crate) use recovered::Recovered;

/// What a channel's replies mean, in the order of the requests.
#[derive(Clone, Debug)]
enum Awaited {
    /// These were ready when the purge was executed.
    Purge(QueueNumber, Vec<MessageNumber>),
    /// A transaction, by number.
    Commit(u64),
    /// Something about an object that comes and goes.
    Topology(Option<chaos::Claim>),
}

/// A channel as the node should see it.
#[derive(Clone, Debug, Default)]
struct ChannelModel {
    is_confirm: bool,
    /// The open transaction.
    draft: Option<Transaction>,
    out: BTreeMap<u64, (QueueNumber, MessageNumber)>,
    /// Out again after a rollback, to the end of the channel.
    rolled_back: Vec<(QueueNumber, MessageNumber)>,
    gets: VecDeque<(Option<QueueNumber>, bool)>,
    awaited: VecDeque<Awaited>,
    /// Publishes in confirm mode, in order.
    published: Vec<Option<MessageNumber>>,
    /// Sent and not yet heard.
    emissions: VecDeque<(u64, Option<QueueNumber>, MessageNumber, bool)>,
    returned: VecDeque<MessageNumber>,
    /// The node has closed it.
    is_refused: bool,
}

/// A message that a client sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Client and channel number.
    pub(crate) group: (u64, u16),
    pub(crate) targets: &'static [QueueNumber],
    pub(crate) atomic: bool,
    pub(crate) persistent: bool,
    pub(crate) length: usize,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) priority: u8,
    pub(crate) confirm: bool,
    pub(crate) delay_ms: Option<u64>,
    pub(crate) group_key: Option<u8>,
    /// The body is that message's.
    pub(crate) resends: Option<MessageNumber>,
}

/// What the run is worth, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages sent.
    pub published: u64,
    /// Acknowledged publishes.
    pub confirmed: u64,
    /// Refused publishes.
    pub nacked: u64,
    /// Deliveries that clients received.
    pub delivered: u64,
    /// Of them, flagged redelivered.
    pub redelivered: u64,
    /// Places in queues that were left for good.
    pub settled: u64,
    /// Transactions committed.
    pub transactions: u64,
    /// States of the disk that were recovered and compared.
    pub audits: u64,
    /// Places in queues compared in audits.
    pub audited: u64,
    /// Deliveries of dead letters.
    pub letters: u64,
    /// First deliveries of delayed messages.
    pub delayed: u64,
    /// Acknowledged publishes of what had been published before.
    pub resent: u64,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.published += other.published;
        self.confirmed += other.confirmed;
        self.nacked += other.nacked;
        self.delivered += other.delivered;
        self.redelivered += other.redelivered;
        self.settled += other.settled;
        self.transactions += other.transactions;
        self.audits += other.audits;
        self.audited += other.audited;
        self.letters += other.letters;
        self.delayed += other.delayed;
        self.resent += other.resent;
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Oracle {
    /// How much of the catalogue is there.
    later: Level,
    messages: Vec<MessageModel>,
    queues: Vec<QueueModel>,
    channels: BTreeMap<ChannelKey, ChannelModel>,
    transactions: BTreeMap<u64, Transaction>,
    transactions_made: u64,
    /// Settles in the order of their commands, until something later is durable.
    settled: VecDeque<(u64, QueueNumber, MessageNumber)>,
    chaos: Chaos,
    pub(crate) policies: PolicyLog,
    /// The whole catalogue is there. After a restart its transient part is not, until somebody
    /// has seen to it.
    is_declared: bool,
    /// Commands so far.
    executed: u64,
    /// Time of the node.
    now: u64,
    /// Moments of the run: every call is one.
    moment: u64,
    failure: Option<String>,
    pub(crate) tally: Tally,
}

impl Oracle {
    pub(crate) fn new(later: Level) -> Self {
        Self {
            later,
            messages: Vec::new(),
            queues: vec![QueueModel::default(); QUEUES.len()],
            channels: BTreeMap::new(),
            transactions: BTreeMap::new(),
            transactions_made: 0,
            settled: VecDeque::new(),
            chaos: Chaos::default(),
            policies: PolicyLog::default(),
            is_declared: false,
            executed: 0,
            now: 0,
            moment: 0,
            failure: None,
            tally: Tally::default(),
        }
    }

    /// Something that must not be has happened. The first one counts.
    pub(crate) fn fail(&mut self, what: String) {
        if self.failure.is_none() {
            self.failure = Some(what);
        }
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The node's clock.
    pub(crate) fn at(&mut self, now: u64) {
        self.now = now;
    }

    fn message(&self, number: MessageNumber) -> Option<&MessageModel> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.messages.get(at)
    }

    fn message_mut(&mut self, number: MessageNumber) -> Option<&mut MessageModel> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.messages.get_mut(at)
    }

    /// A client sends a message. Returns its number.
    pub(crate) fn sent(&mut self, sent: &Sent) -> MessageNumber {
        self.moment += 1;
        self.tally.published += 1;
        self.messages.push(MessageModel {
            group: sent.group,
            targets: sent.targets,
            atomic: sent.atomic,
            persistent: sent.persistent,
            length: sent.length,
            ttl_ms: sent.ttl_ms,
            priority: sent.priority,
            confirm: sent.confirm,
            delay_ms: sent.delay_ms,
            group_key: sent.group_key,
            resends: sent.resends,
            is_resent: false,
            is_routed: false,
            executed: 0,
            verdict: None,
            sent_at: self.moment,
            acked_at: 0,
        });
        self.messages.len() as u64
    }

    /// A client heard the verdict on a publish.
    pub(crate) fn verdict(&mut self, number: MessageNumber, accepted: bool) {
        self.moment += 1;
        let moment = self.moment;
        let Some(message) = self.message_mut(number) else {
            return self.fail(format!("a verdict on message {number}, which nobody sent"));
        };
        let second = message.verdict.replace(accepted).is_some();
        message.acked_at = moment;
        let (executed, is_durable) = (message.executed, message.is_durable());
        if second {
            return self.fail(format!("a second verdict on message {number}"));
        }
        if executed == 0 {
            return self.fail(format!(
                "a verdict on message {number}, which never arrived"
            ));
        }
        if !accepted {
            self.tally.nacked += 1;
            return;
        }
        self.tally.confirmed += 1;
        self.resend_acked(number);
        if is_durable {
            self.settles_are_durable(executed);
        }
    }

    /// Everything settled before that command is on disk.
    fn settles_are_durable(&mut self, executed: u64) {
        while let Some((settled, queue, number)) = self.settled.front().copied() {
            if settled >= executed {
                break;
            }
            self.settled.pop_front();
            self.bury_for_good(queue, number);
            self.tally.settled += 1;
        }
    }

    /// A client received a message. Returns its number, where it is of the catalogue's.
    pub(crate) fn received(
        &mut self,
        key: ChannelKey,
        tag: u64,
        redelivered: bool,
        parts: &[Bytes],
    ) -> Option<MessageNumber> {
        self.moment += 1;
        let (number, length) = match body::number(parts) {
            Ok(found) => found,
            Err(why) => {
                self.fail(why);
                return None;
            }
        };
        if self
            .message(number)
            .is_none_or(|message| message.length != length)
        {
            self.fail(format!("message {number} was received with {length} bytes"));
            return None;
        }
        self.tally.delivered += 1;
        self.tally.redelivered += u64::from(redelivered);
        let emitted = self
            .channels
            .get_mut(&key)
            .and_then(|c| c.emissions.pop_front());
        let Some((sent_tag, queue, sent, flag)) = emitted else {
            self.fail(format!("message {number} was received and never sent"));
            return None;
        };
        if (sent_tag, sent, flag) != (tag, number, redelivered) {
            self.fail(format!(
                "received message {number} with tag {tag} (redelivered: {redelivered}), but what \
                 was sent is message {sent} with tag {sent_tag} (redelivered: {flag})"
            ));
            return None;
        }
        if let Some(entry) = queue.and_then(|q| self.queues[q].entries.get_mut(&number)) {
            entry.is_seen = true;
        }
        Some(number)
    }

    /// A client got an unroutable message back.
    pub(crate) fn returned(&mut self, key: ChannelKey, parts: &[Bytes]) {
        let number = body::number(parts).map(|(number, _)| number);
        let sent = self
            .channels
            .get_mut(&key)
            .and_then(|c| c.returned.pop_front());
        match number {
            Err(why) => self.fail(why),
            Ok(number) if sent != Some(number) => {
                self.fail(format!(
                    "message {number} came back, {sent:?} was sent back"
                ));
            }
            Ok(number) => {
                let is_durable = |queue: &QueueNumber| QUEUES[*queue].durable;
                if self
                    .message(number)
                    .is_none_or(|m| m.targets.iter().any(is_durable))
                {
                    self.fail(format!("message {number} came back and has a route"));
                }
            }
        }
    }

    /// A client heard the answer to a request.
    pub(crate) fn replied(&mut self, key: ChannelKey, reply: &Reply) {
        self.moment += 1;
        match reply {
            Reply::ChannelClosed => {
                self.channels.remove(&key);
            }
            Reply::QueuePurgeOk { message_count } => {
                if let Some(Awaited::Purge(queue, numbers)) = self.awaited(key)
                    && *message_count > 0
                {
                    for number in numbers {
                        self.bury_for_good(queue, number);
                    }
                }
            }
            Reply::TxCommitOk => {
                if let Some(Awaited::Commit(number)) = self.awaited(key) {
                    self.committed(number);
                }
            }
            Reply::QueueDeclareOk { .. }
            | Reply::QueueDeleteOk { .. }
            | Reply::ExchangeDeclareOk
            | Reply::ExchangeDeleteOk => {
                if let Some(Awaited::Topology(Some(claim))) = self.awaited(key) {
                    self.chaos.hold(&claim);
                }
            }
            _ => {}
        }
    }

    fn awaited(&mut self, key: ChannelKey) -> Option<Awaited> {
        let awaited = self.channels.get_mut(&key)?.awaited.pop_front();
        if awaited.is_none() {
            self.fail(format!("an answer on {key:?} that nobody waits for"));
        }
        awaited
    }

    /// A client heard `tx.commit-ok`.
    fn committed(&mut self, number: u64) {
        let Some(transaction) = self.transactions.remove(&number) else {
            return;
        };
        self.tally.transactions += 1;
        let moment = self.moment;
        let mut is_durable = false;
        for number in &transaction.publishes {
            if let Some(message) = self.message_mut(*number) {
                message.verdict = Some(true);
                message.acked_at = moment;
                is_durable |= message.is_durable();
            }
        }
        for (queue, number) in &transaction.settles {
            let entry = self.queues[*queue].entries.get(number);
            is_durable |= entry.is_some_and(|entry| entry.durable);
        }
        if is_durable {
            self.settles_are_durable(transaction.executed + 1);
        }
    }

    /// Whether the node has closed the channel by itself.
    pub(crate) fn is_refused(&self, key: ChannelKey) -> bool {
        self.channels
            .get(&key)
            .is_some_and(|channel| channel.is_refused)
    }

    /// A client heard that its channel was closed by the broker.
    pub(crate) fn refusal_heard(&mut self, key: ChannelKey) {
        self.channels.remove(&key);
    }

    /// The connection is gone, and the node knows.
    pub(crate) fn connection_over(&mut self, connection: ConnectionId) {
        self.channels.retain(|key, _| key.connection != connection);
    }

    /// Nothing is under way any more: everything that was asked must have been answered.
    pub(crate) fn check_answered(&mut self) {
        let unanswered = self.channels.iter().find(|(_, channel)| {
            !channel.awaited.is_empty()
                || !channel.emissions.is_empty()
                || !channel.gets.is_empty()
                || !channel.returned.is_empty()
        });
        if let Some((key, channel)) = unanswered {
            self.fail(format!("never answered on {key:?}: {channel:?}"));
        }
    }

    /// The node stopped, by accident or not, and forgot what is not on disk.
    pub(crate) fn restarted(&mut self, is_clean: bool) {
        self.moment += 1;
        self.is_declared = false;
        self.channels.clear();
        self.settled.clear();
        self.chaos.restarted();
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let is_attached = queue.is_attached;
            // What was passed over, for its group was out, is below the mark of deliveries.
            let is_marked = !is_clean || QUEUES[number].is_grouped;
            for entry in queue.entries.values_mut() {
                entry.out = None;
                entry.is_emitted_now = false;
                entry.fails_now = 0;
                entry.is_flaggable |= is_marked && is_attached;
            }
            let transient: Vec<_> = queue
                .entries
                .iter()
                .filter(|(_, entry)| !entry.durable)
                .map(|(number, _)| *number)
                .collect();
            for number in transient {
                queue.bury(number);
            }
            if !QUEUES[number].durable {
                queue.is_attached = false;
            }
        }
    }

    fn is_expired(&self, expires_at: Option<u64>) -> bool {
        expires_at.is_some_and(|at| at <= self.now)
    }

    /// Whether a client may count on the entry being in the queue, out or not.
    fn is_owed(&self, queue: QueueNumber, number: MessageNumber) -> bool {
        self.is_certain(queue, number) && self.is_promised(queue, number)
    }

    /// Whether a client may count on the message, or a recovery has found it.
    fn is_promised(&self, queue: QueueNumber, number: MessageNumber) -> bool {
        let entry = self.queues[queue].entries.get(&number);
        self.message(number).is_some_and(MessageModel::is_acked)
            || entry.is_some_and(|entry| entry.is_recovered)
    }

    /// Whether the entry is there if its message is.
    fn is_certain(&self, queue: QueueNumber, number: MessageNumber) -> bool {
        let model = &self.queues[queue];
        model.entries.get(&number).is_some_and(|entry| {
            entry.belief == Belief::Live && !entry.is_potential && !self.may_be_away(queue, entry)
        })
    }
}
