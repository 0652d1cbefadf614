//! What a recovery has found, against what must be there.

use std::collections::{BTreeMap, BTreeSet};

use super::Oracle;
use super::chaos::Thing;
use super::model::Belief;
use crate::body::MessageNumber;
use crate::catalogue::{QUEUES, QueueNumber};

/// A disk as a new node sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovered {
    /// Every queue of the catalogue that is there: its messages in order, and whether they are
    /// flagged redelivered.
    pub(crate) queues: BTreeMap<QueueNumber, Vec<(MessageNumber, bool)>>,
    /// Which of the things that come and go are there.
    pub(crate) things: BTreeSet<Thing>,
    /// What does not hold by itself.
    pub(crate) trouble: Option<String>,
}

impl Oracle {
    /// Compares a recovered disk with what must be. A life of the node that ends here, unlike
    /// one that is only thought of, is `for_good`: what is not there then is gone, and what is
    /// there must stay.
    pub(crate) fn audit(&mut self, recovered: &Recovered, for_good: bool) {
        self.moment += 1;
        self.tally.audits += 1;
        if let Some(trouble) = &recovered.trouble {
            return self.fail(trouble.clone());
        }
        self.audit_things(recovered);
        for queue in 0..QUEUES.len() {
            if QUEUES[queue].durable {
                self.audit_queue(queue, recovered, for_good);
            } else if recovered.queues.contains_key(&queue) {
                self.fail(format!("transient queue {} is there", QUEUES[queue].name));
            }
        }
        self.audit_fan_out(recovered);
        self.audit_transactions(recovered);
        if for_good && self.failure.is_none() {
            self.resume(recovered);
        }
    }

    fn audit_things(&mut self, recovered: &Recovered) {
        let wrong = self
            .chaos
            .expected()
            .find(|(thing, is_there)| recovered.things.contains(thing) != *is_there)
            .map(|(thing, is_there)| format!("{thing:?} should be there: {is_there}"));
        if let Some(wrong) = wrong {
            self.fail(wrong);
        }
    }

    fn audit_queue(&mut self, queue: QueueNumber, recovered: &Recovered, for_good: bool) {
        let name = QUEUES[queue].name;
        let Some(found) = recovered.queues.get(&queue) else {
            return self.fail(format!("lost: queue {name}"));
        };
        self.tally.audited += found.len() as u64;
        let mut last: BTreeMap<(u64, u16), MessageNumber> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (number, redelivered) in found {
            if !seen.insert(*number) {
                return self.fail(format!("doubled: message {number} in queue {name}"));
            }
            if let Some(why) = self.audit_entry(queue, *number, *redelivered, for_good) {
                return self.fail(format!("message {number} in queue {name}: {why}"));
            }
            let Some(message) = self.message(*number) else {
                continue;
            };
            let before = last.insert(message.group, *number).unwrap_or_default();
            if before > *number {
                return self.fail(format!(
                    "queue {name} has message {before} before message {number} of one channel"
                ));
            }
        }
        let lost = self.queues[queue]
            .entries
            .iter()
            .filter(|(number, entry)| entry.durable && !seen.contains(number))
            .map(|(number, _)| *number)
            .find(|number| self.is_owed(queue, *number));
        if let Some(number) = lost {
            let entry = &self.queues[queue].entries[&number];
            self.fail(format!(
                "lost: message {number} of queue {name} ({entry:?})"
            ));
        }
    }

    /// Why that entry must not be there, or not like that.
    fn audit_entry(
        &self,
        queue: QueueNumber,
        number: MessageNumber,
        redelivered: bool,
        for_good: bool,
    ) -> Option<String> {
        if self.queues[queue].is_gone(number) {
            return Some("resurrected: it was settled for good".to_owned());
        }
        let Some(entry) = self.queues[queue].entries.get(&number) else {
            return Some("it never came there".to_owned());
        };
        if !entry.durable {
            return Some("resurrected: it was transient".to_owned());
        }
        if self.is_expired(entry.expires_at) {
            return Some("resurrected: it has expired".to_owned());
        }
        if self.must_be_dropped(queue, number, entry) {
            return Some("resurrected: the length limit dropped it".to_owned());
        }
        if for_good {
            return self.flag_objection(queue, entry, redelivered);
        }
        if entry.is_seen && !redelivered {
            return Some("it was delivered and is not flagged redelivered".to_owned());
        }
        (redelivered && !entry.is_emitted && !self.queues[queue].is_attached)
            .then(|| "it is flagged redelivered in a queue that nobody ever used".to_owned())
    }

    /// Where an unsettled message is, and where it is not though it might be. Queues that may
    /// have left it are not asked.
    fn places(
        &self,
        number: MessageNumber,
        recovered: &Recovered,
    ) -> (Vec<QueueNumber>, Vec<QueueNumber>) {
        let Some(message) = self.message(number).filter(|message| message.persistent) else {
            return (Vec::new(), Vec::new());
        };
        message
            .targets
            .iter()
            .copied()
            .filter(|queue| QUEUES[*queue].durable && (message.atomic || !QUEUES[*queue].rejects))
            .filter(|queue| self.is_certain(*queue, number))
            .partition(|queue| is_in(recovered, *queue, number))
    }

    /// Everywhere or nowhere.
    fn audit_fan_out(&mut self, recovered: &Recovered) {
        let numbers: BTreeSet<MessageNumber> = self
            .queues
            .iter()
            .flat_map(|queue| queue.entries.keys().copied())
            .collect();
        for number in numbers {
            let (there, lacking) = self.places(number, recovered);
            if !there.is_empty() && !lacking.is_empty() {
                return self.fail(format!(
                    "half of a publish: message {number} is in queues {there:?} and not in \
                     {lacking:?}"
                ));
            }
        }
    }

    /// All of a transaction or nothing.
    fn audit_transactions(&mut self, recovered: &Recovered) {
        for (id, transaction) in &self.transactions {
            let (mut done, mut undone) = (Vec::new(), Vec::new());
            for number in &transaction.publishes {
                let (there, lacking) = self.places(*number, recovered);
                done.extend(
                    there
                        .iter()
                        .map(|queue| format!("publish {number} to {queue}")),
                );
                undone.extend(
                    lacking
                        .iter()
                        .map(|queue| format!("publish {number} to {queue}")),
                );
            }
            for (queue, number) in &transaction.certain {
                let model = &self.queues[*queue];
                let Some(entry) = model.entries.get(number).filter(|entry| entry.durable) else {
                    continue;
                };
                if self.is_expired(entry.expires_at) || model.may_be_dropped(*queue, entry) {
                    continue;
                }
                let settle = format!("settle {number} of {queue}");
                if is_in(recovered, *queue, *number) {
                    undone.push(settle);
                } else {
                    done.push(settle);
                }
            }
            if !done.is_empty() && !undone.is_empty() {
                let why = format!("half of transaction {id}: done {done:?}, not done {undone:?}");
                return self.fail(why);
            }
        }
    }

    /// The node goes on from there.
    fn resume(&mut self, recovered: &Recovered) {
        self.transactions.clear();
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let found: BTreeSet<MessageNumber> = recovered
                .queues
                .get(&number)
                .into_iter()
                .flatten()
                .map(|(number, _)| *number)
                .collect();
            let lost: Vec<_> = queue
                .entries
                .keys()
                .filter(|number| !found.contains(number))
                .copied()
                .collect();
            for number in lost {
                queue.bury(number);
            }
            for entry in queue.entries.values_mut() {
                entry.belief = Belief::Live;
                entry.is_settled = false;
                entry.is_recovered = true;
            }
        }
    }

    /// Everything that is left is taken out of a node that lives: compares it with what must be
    /// there, transient or not.
    pub(crate) fn check_drained(&mut self) {
        let lost = (0..QUEUES.len()).find_map(|queue| {
            let owed = |number: &&MessageNumber| self.is_owed(queue, **number);
            self.queues[queue]
                .entries
                .keys()
                .find(owed)
                .map(|number| (queue, *number))
        });
        if let Some((queue, number)) = lost {
            let name = QUEUES[queue].name;
            let entry = &self.queues[queue].entries[&number];
            self.fail(format!(
                "lost: message {number} of queue {name} at the end ({entry:?})"
            ));
        }
    }
}

fn is_in(recovered: &Recovered, queue: QueueNumber, number: MessageNumber) -> bool {
    let found = recovered.queues.get(&queue).map_or(&[][..], Vec::as_slice);
    found.iter().any(|(found, _)| *found == number)
}
