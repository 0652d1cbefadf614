//! `tx`: publishes and settles that take effect together. Unlike RabbitMQ's, a transaction is
//! atomic: it is one record, and one refusal means that nothing of it happened.

use std::sync::Arc;

use menzil_model::fact::{Published, Ranges, Why};
use menzil_model::{Fact, Map, QueueId, Sequence};

use super::Shard;
use super::policy::DROPPED_AT_ONCE;
use super::publish::{Intake, Pending, write_chunks};
use crate::channel::{HeldPublish, HeldSettle, Mode, Transaction, Verdict};
use crate::command::ChannelKey;
use crate::effect::{Carried, Output, Reply};
use crate::refusal::Refusal;
use crate::settling::ranges_of;
use crate::turn::Turn;

/// What a place of a held publish counts as.
const HELD_PLACE_BYTES: u64 = 64;

impl Shard {
    pub(super) fn select_transaction(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
    ) -> Result<(), Refusal> {
        let Some(channel) = self.channel(key) else {
            return Ok(());
        };
        match channel.mode {
            Mode::Confirm { .. } => return Err(Refusal::TransactionOnConfirm),
            Mode::Transaction(_) => {}
            Mode::Plain => channel.mode = Mode::Transaction(Transaction::default()),
        }
        turn.reply(key, false, 0, Reply::TxSelectOk);
        Ok(())
    }

    /// Takes the held part of the channel's transaction.
    fn take_transaction(&mut self, key: ChannelKey) -> Result<Transaction, Refusal> {
        match self.channel(key).map(|channel| &mut channel.mode) {
            Some(Mode::Transaction(transaction)) => Ok(std::mem::take(transaction)),
            _ => Err(Refusal::NotTransactional),
        }
    }

    /// Puts held deliveries back among those that may be settled.
    fn restore_settles(&mut self, key: ChannelKey, transaction: &Transaction) {
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        for held in &transaction.settles {
            channel.deliveries.insert(held.delivery);
        }
    }

    pub(super) fn roll_back_transaction(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
    ) -> Result<(), Refusal> {
        let transaction = self.take_transaction(key)?;
        self.restore_settles(key, &transaction);
        turn.reply(key, false, 0, Reply::TxRollbackOk);
        Ok(())
    }

    pub(super) fn commit_transaction(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
    ) -> Result<(), Refusal> {
        let transaction = self.take_transaction(key)?;
        let mut pending = Pending::of_transaction();
        let mut intakes = Vec::new();
        for held in &transaction.publishes {
            let intake = self.intake(turn, held, false, &mut pending);
            if !intake.refused_by.is_empty() {
                self.counters.refused += 1;
                self.restore_settles(key, &transaction);
                return Err(Refusal::TransactionRefused);
            }
            intakes.push(intake);
        }
        let index = self.record_transaction(turn, &transaction, intakes, &pending);
        for held in transaction.publishes.iter().filter(|held| held.unroutable) {
            self.counters.unroutable_returned += 1;
            turn.send(
                key,
                0,
                Output::Return {
                    message: Arc::clone(&held.message),
                },
            );
        }
        for held in &transaction.publishes {
            self.send_replies(turn, &held.replies, Carried::Stored(&held.message));
        }
        for held in &transaction.settles {
            if let Some(place) = self.channel_place(key) {
                self.give_back_room((key, place), &held.delivery);
            }
            self.touch(held.delivery.queue);
            if !self.is_recorded(held) {
                self.carry_out(turn, &held.delivery, held.verdict);
            }
        }
        turn.reply(key, false, index, Reply::TxCommitOk);
        Ok(())
    }

    /// One record for all of it. What is transient is applied beside it.
    fn record_transaction(
        &mut self,
        turn: &mut Turn<'_>,
        transaction: &Transaction,
        intakes: Vec<Intake>,
        pending: &Pending,
    ) -> u64 {
        let mut durable = Vec::new();
        let mut volatile = Vec::new();
        let mut after = 0;
        for (held, intake) in transaction.publishes.iter().zip(intakes) {
            self.counters.routed += u64::from(intake.reaches_a_queue());
            self.count_duplicates(&intake.duplicates);
            after = after.max(intake.duplicates.after);
            let entries = intake.entries;
            if entries.is_empty() {
                continue;
            }
            for entry in &entries {
                self.touch(entry.queue);
            }
            self.count_delayed(&entries);
            let keep = entries.iter().any(|entry| entry.durable);
            let references = if keep { entries.len() } else { 0 };
            let extent = write_chunks(turn, &held.message, references);
            let message = Some(Arc::clone(&held.message));
            let fact = Fact::Published(Published {
                message,
                extent,
                entries,
                keys: intake.keys,
            });
            if keep {
                durable.push(fact);
            } else {
                volatile.push(fact);
            }
        }
        self.hold_settles(transaction, &mut durable, &mut volatile);
        // The messages that go over a limit go in the same record as those that push them.
        let mut dropped = Vec::new();
        for queue in pending.queues() {
            if let Some((ranges, is_durable)) = self.overflow(queue, pending, DROPPED_AT_ONCE) {
                let fact = Fact::Settled {
                    queue,
                    ranges,
                    why: Why::Overflow,
                };
                if is_durable {
                    durable.push(fact);
                } else {
                    dropped.push(fact);
                }
            }
        }
        // Only now: what is applied is no longer pending, and would count twice against a limit.
        for fact in volatile {
            self.record(turn, fact, false);
        }
        let mut index = after;
        if !durable.is_empty() {
            index = self.record(turn, Fact::Group(durable), true);
        }
        for fact in dropped {
            self.record(turn, fact, false);
        }
        index
    }

    /// Settles of the transaction, as one fact for each queue and reason.
    fn hold_settles(
        &mut self,
        transaction: &Transaction,
        durable: &mut Vec<Fact>,
        volatile: &mut Vec<Fact>,
    ) {
        let mut runs: Map<(QueueId, Verdict, bool), Vec<Sequence>> = Map::default();
        let mut order = Vec::new();
        for held in transaction
            .settles
            .iter()
            .filter(|held| self.is_recorded(held))
        {
            let delivery = held.delivery;
            let Some(queue) = self.queues.get(&delivery.queue) else {
                continue;
            };
            let run = (
                delivery.queue,
                held.verdict,
                queue.index.is_durable(delivery.sequence),
            );
            let sequences = runs.entry(run).or_insert_with(|| {
                order.push(run);
                Vec::new()
            });
            sequences.push(delivery.sequence);
        }
        for run in order {
            let (queue, verdict, is_durable) = run;
            let why = match verdict {
                Verdict::Acknowledge => Why::Acknowledged,
                Verdict::Reject | Verdict::Requeue | Verdict::Fail => Why::Rejected,
            };
            let ranges: Ranges = ranges_of(runs.remove(&run).unwrap_or_default());
            let fact = Fact::Settled { queue, ranges, why };
            if is_durable {
                durable.push(fact);
            } else {
                volatile.push(fact);
            }
        }
    }

    /// Whether the transaction's record says what becomes of the entry. What is to be
    /// dead-lettered moves when its message is here, and what goes back is no fact.
    fn is_recorded(&self, held: &HeldSettle) -> bool {
        let delivery = &held.delivery;
        match held.verdict {
            Verdict::Acknowledge => true,
            Verdict::Reject => !self.dead_letters((delivery.queue, delivery.queue_place)),
            Verdict::Requeue | Verdict::Fail => false,
        }
    }

    /// Keeps a routed publish for the commit.
    pub(super) fn hold_publish(
        &mut self,
        key: ChannelKey,
        publish: HeldPublish,
    ) -> Result<(), Refusal> {
        let bytes_max = self.settings.transaction_bytes_max;
        let Some(Mode::Transaction(transaction)) = self.channel(key).map(|c| &mut c.mode) else {
            return Ok(());
        };
        // Every place it will have takes some memory and some of the record.
        let places = publish.targets.len() as u64 * HELD_PLACE_BYTES;
        transaction.bytes += publish.message.total_bytes() + places;
        if transaction.bytes > bytes_max {
            return Err(Refusal::TransactionTooLarge {
                bytes: transaction.bytes,
                bytes_max,
            });
        }
        transaction.publishes.push(publish);
        Ok(())
    }
}
