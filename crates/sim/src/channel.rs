//! A channel as its client sees it.

use std::collections::{BTreeMap, VecDeque};

use menzil_core::{ChannelKey, Reply};

use crate::body::MessageNumber;
use crate::oracle::Oracle;

/// What a channel is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Publishes in confirm mode.
    Publisher,
    /// Consumes and acknowledges, and publishes in confirm mode on the same channel.
    Worker,
    /// Consumes, acknowledges, rejects, requeues, cancels.
    Consumer,
    /// Consumes without acknowledgements.
    Sink,
    /// `basic.get`, and now and then a purge.
    Getter,
    /// Publishes and settles in transactions.
    Transactor,
    /// Publishes without confirms.
    Careless,
    /// Declares, binds and deletes.
    Chaos,
}

/// How far a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not opened.
    Closed,
    /// `channel.open` is said; everything else may follow at once.
    Open,
    /// `channel.close` is said.
    Closing,
}

/// What a reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Open,
    Close,
    ConfirmSelect,
    TxSelect,
    TxCommit,
    TxRollback,
    Qos,
    Consume,
    Cancel,
    Get,
    Purge,
    Recover,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeBind,
    ExchangeUnbind,
    QueueDeclare,
    QueueDelete,
    QueueBind,
    QueueUnbind,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) number: u16,
    pub(crate) role: Role,
    pub(crate) state: State,
    /// Requests that wait for their reply, in order.
    pub(crate) asked: VecDeque<Asked>,
    pub(crate) sequence: u64,
    pub(crate) unconfirmed: BTreeMap<u64, MessageNumber>,
    /// Deliveries that are to be settled.
    pub(crate) deliveries: Vec<u64>,
    /// Consumer tags that were asked for and not cancelled, and whether they settle by
    /// themselves.
    pub(crate) consumers: BTreeMap<Vec<u8>, bool>,
    pub(crate) consumers_made: u64,
    /// A `basic.get` is out and settles by itself.
    pub(crate) get_no_ack: bool,
    /// Publishes and settles in the open transaction.
    pub(crate) held: u64,
    pub(crate) is_set_up: bool,
}

impl Channel {
    pub(crate) fn new(number: u16, role: Role) -> Self {
        Self {
            number,
            role,
            state: State::Closed,
            asked: VecDeque::new(),
            sequence: 0,
            unconfirmed: BTreeMap::new(),
            deliveries: Vec::new(),
            consumers: BTreeMap::new(),
            consumers_made: 0,
            get_no_ack: false,
            held: 0,
            is_set_up: false,
        }
    }

    /// Whether a `basic.get` is out.
    pub(crate) fn is_getting(&self) -> bool {
        self.asked.contains(&Asked::Get)
    }

    pub(crate) fn answered(&mut self, reply: &Reply, oracle: &mut Oracle) {
        if *reply == Reply::ChannelClosed {
            // A get that still waited for its message is dropped with the channel.
            self.asked.retain(|asked| *asked != Asked::Get);
        }
        if *reply == Reply::RecoverOk {
            self.deliveries.clear();
        }
        let asked = self.asked.pop_front();
        if asked != Some(question(reply)) {
            oracle.fail(format!("{reply:?} answers {asked:?}"));
        }
    }

    pub(crate) fn delivered(
        &mut self,
        consumer_tag: Option<&[u8]>,
        delivery_tag: u64,
        _number: MessageNumber,
        oracle: &mut Oracle,
    ) {
        let no_ack = if let Some(tag) = consumer_tag {
            let Some(no_ack) = self.consumers.get(tag) else {
                // Cancelled, and on its way before the node knew.
                if self.asked.contains(&Asked::Cancel) {
                    self.deliveries.push(delivery_tag);
                } else {
                    oracle.fail("a delivery for a consumer that is not there".to_owned());
                }
                return;
            };
            *no_ack
        } else {
            if self.asked.pop_front() != Some(Asked::Get) {
                oracle.fail("basic.get-ok that nobody asked for".to_owned());
            }
            self.get_no_ack
        };
        if !no_ack {
            self.deliveries.push(delivery_tag);
        }
    }

    pub(crate) fn confirmed(
        &mut self,
        key: ChannelKey,
        sequence: u64,
        multiple: bool,
        accepted: bool,
        oracle: &mut Oracle,
    ) {
        let mut covered = Vec::new();
        if multiple {
            let rest = self.unconfirmed.split_off(&(sequence + 1));
            covered.extend(std::mem::replace(&mut self.unconfirmed, rest).into_values());
        } else {
            covered.extend(self.unconfirmed.remove(&sequence));
        }
        if covered.is_empty() {
            oracle.fail(format!(
                "a verdict for publish {sequence} of {key:?}, which waits for none"
            ));
        }
        for number in covered {
            oracle.verdict(number, accepted);
        }
    }
}

fn question(reply: &Reply) -> Asked {
    match reply {
        Reply::ChannelOpened => Asked::Open,
        Reply::ChannelClosed => Asked::Close,
        Reply::ExchangeDeclareOk => Asked::ExchangeDeclare,
        Reply::ExchangeDeleteOk => Asked::ExchangeDelete,
        Reply::ExchangeBindOk => Asked::ExchangeBind,
        Reply::ExchangeUnbindOk => Asked::ExchangeUnbind,
        Reply::QueueDeclareOk { .. } => Asked::QueueDeclare,
        Reply::QueueBindOk => Asked::QueueBind,
        Reply::QueueUnbindOk => Asked::QueueUnbind,
        Reply::QueuePurgeOk { .. } => Asked::Purge,
        Reply::QueueDeleteOk { .. } => Asked::QueueDelete,
        Reply::QosOk => Asked::Qos,
        Reply::ConsumeOk { .. } => Asked::Consume,
        Reply::CancelOk { .. } => Asked::Cancel,
        Reply::GetEmpty => Asked::Get,
        Reply::RecoverOk => Asked::Recover,
        Reply::ConfirmSelectOk => Asked::ConfirmSelect,
        Reply::TxSelectOk => Asked::TxSelect,
        Reply::TxCommitOk => Asked::TxCommit,
        Reply::TxRollbackOk => Asked::TxRollback,
    }
}
