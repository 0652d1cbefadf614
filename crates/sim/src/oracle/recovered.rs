//! What a recovery has found, against what must be there.

use std::collections::{BTreeMap, BTreeSet};

use super::Oracle;
use super::chaos::Thing;
use super::model::{Belief, Entry};
use crate::body::MessageNumber;
use crate::catalogue::{QUEUES, QueueNumber, queues, source_of};

/// A disk as a new node sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovered {
    /// Every queue of the catalogue that is there: its messages in order, and whether they are
    /// flagged redelivered.
    pub(crate) queues: BTreeMap<QueueNumber, Vec<(MessageNumber, bool)>>,
    /// Which of the things that come and go are there.
    pub(crate) things: BTreeSet<Thing>,
    /// Of those, what an exchange still delayed when the clock was where it is.
    pub(crate) waited: BTreeSet<(QueueNumber, MessageNumber)>,
    /// The length limit that the policy sets.
    pub(crate) policy: Option<u64>,
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
        if let Err(why) = self.policies.audit(recovered.policy, for_good) {
            self.fail(why);
        }
        for (queue, spec) in queues(self.later).iter().enumerate() {
            if spec.durable {
                self.audit_queue(queue, recovered, for_good);
            } else if recovered.queues.contains_key(&queue) {
                self.fail(format!("transient queue {} is there", spec.name));
            }
        }
        self.audit_letters(recovered);
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
        let mut last = BTreeMap::new();
        let mut lowest = u8::MAX;
        let mut seen = BTreeSet::new();
        for (number, redelivered) in found {
            if !seen.insert(*number) {
                return self.fail(format!("doubled: message {number} in queue {name}"));
            }
            if let Some(why) = self.audit_entry(queue, *number, *redelivered, for_good) {
                return self.fail(format!("message {number} in queue {name}: {why}"));
            }
            let entry = self.queues[queue].entries.get(number);
            let not_before = entry.and_then(|entry| entry.not_before);
            if not_before.is_some_and(|at| at > self.now)
                && !recovered.waited.contains(&(queue, *number))
            {
                return self.fail(format!("message {number} came early to queue {name}"));
            }
            let Some(message) = self.message(*number) else {
                continue;
            };
            if source_of(queue).is_some() || !QUEUES[queue].is_ordered() {
                continue;
            }
            let priority = message.priority.min(QUEUES[queue].priority_max);
            if std::mem::replace(&mut lowest, priority) < priority {
                return self.fail(format!(
                    "queue {name} has message {number} behind one of a lower priority"
                ));
            }
            let before = last.insert((message.group, priority), *number);
            if let Some(before) = before.filter(|before| before > number) {
                return self.fail(format!(
                    "queue {name} has message {before} before message {number} of one channel"
                ));
            }
        }
    }

    /// Everything that clients may count on is in its queue or in those of its letters.
    fn audit_letters(&mut self, recovered: &Recovered) {
        let found: Vec<BTreeSet<MessageNumber>> = (0..QUEUES.len())
            .map(|queue| found_in(recovered, queue).map(|(n, _)| *n).collect())
            .collect();
        let is_found = |queue: QueueNumber, number: MessageNumber| found[queue].contains(&number);
        for queue in 0..QUEUES.len() {
            let twice = found[queue].iter().find_map(|number| {
                let other = Self::found_on_the_way(queue, *number, &is_found)?;
                Some((*number, other))
            });
            if let Some((number, other)) = twice {
                let (one, other) = (QUEUES[queue].name, QUEUES[other].name);
                return self.fail(format!(
                    "doubled: message {number} in queue {one} and, as its dead letter, in {other}"
                ));
            }
            if let Some(why) = self.lost_from(queue, |entry| entry.durable, &is_found) {
                return self.fail(why);
            }
        }
    }

    /// What is neither there nor where its letters go.
    fn lost_from(
        &self,
        queue: QueueNumber,
        counts: impl Fn(&Entry) -> bool,
        is_found: &dyn Fn(QueueNumber, MessageNumber) -> bool,
    ) -> Option<String> {
        let entries = self.queues[queue].entries.iter();
        let mut promised = entries
            .filter(|(_, entry)| counts(entry) && !entry.is_potential)
            .map(|(number, _)| *number)
            .filter(|number| self.is_promised(queue, *number));
        let (number, lacking) =
            promised.find_map(|number| Some((number, self.missing(queue, number, is_found)?)))?;
        let entry = self.queues[lacking].entries.get(&number);
        let (name, lacking) = (QUEUES[queue].name, QUEUES[lacking].name);
        Some(format!(
            "lost: message {number} of queue {name} is not in {lacking} ({entry:?})"
        ))
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
        if let Some(why) = self.letter_trouble(queue, number) {
            return Some(why);
        }
        if self.is_expired(entry.expires_at) {
            return Some("resurrected: it has expired".to_owned());
        }
        if self.must_be_dropped(queue, number, entry) {
            return Some("resurrected: the length limit dropped it".to_owned());
        }
        if for_good {
            return self.flag_objection(queue, number, entry, redelivered);
        }
        if entry.is_seen && !redelivered && self.source_with(queue, number).is_none() {
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
        let found: Vec<BTreeSet<MessageNumber>> = (0..QUEUES.len())
            .map(|queue| found_in(recovered, queue).map(|(n, _)| *n).collect())
            .collect();
        let is_found = |queue: QueueNumber, number: MessageNumber| found[queue].contains(&number);
        // Sources come before what their letters go to.
        for queue in 0..QUEUES.len() {
            let numbers: Vec<_> = self.queues[queue].entries.keys().copied().collect();
            for number in numbers {
                self.resume_entry(queue, number, &is_found);
            }
        }
    }

    /// An entry that was found is there. A letter that the audit found may not have moved yet in
    /// the node that goes on, and one that it did not find may come.
    fn resume_entry(
        &mut self,
        queue: QueueNumber,
        number: MessageNumber,
        is_found: &dyn Fn(QueueNumber, MessageNumber) -> bool,
    ) {
        let is_here = is_found(queue, number);
        let letters = QUEUES[queue].letters;
        let may_move = Self::found_on_the_way(queue, number, is_found).is_some()
            && (letters.iter()).any(|target| self.queues[*target].is_only_possible(number));
        let source = self.source_with(queue, number);
        if !is_here && !may_move && source.is_none() {
            let model = &mut self.queues[queue];
            let entry = model.entries.get(&number);
            if entry.is_some_and(|entry| entry.belief == Belief::Live || entry.is_refused) {
                model.lost.insert(number);
            } else {
                model.unclear.insert(number);
            }
            return model.bury(number);
        }
        let Some(entry) = self.queues[queue].entries.get_mut(&number) else {
            return;
        };
        // A letter that has come and gone, as by a purge, does not come again.
        if is_here || may_move || source.is_some_and(|source| is_found(source, number)) {
            entry.belief = Belief::Live;
        }
        entry.is_settled = false;
        entry.is_recovered = is_here || may_move;
        entry.is_rejected &= !is_here;
        entry.is_refused &= !is_here;
        if is_here && let Some(limit) = QUEUES[queue].delivery_limit {
            // What is known to be there has not failed too often.
            entry.fails = entry.fails.min(limit);
        }
        if source.is_some() {
            entry.is_potential = true;
            (entry.is_seen, entry.is_emitted) = (false, false);
        }
    }

    /// Everything that is left is taken out of a node that lives: compares it with what must be
    /// there, transient or not.
    pub(crate) fn check_drained(&mut self) {
        let lost =
            (0..QUEUES.len()).find_map(|queue| self.lost_from(queue, |_| true, &|_, _| false));
        if let Some(lost) = lost {
            self.fail(format!("at the end {lost}"));
        }
    }
}

fn found_in(
    recovered: &Recovered,
    queue: QueueNumber,
) -> impl Iterator<Item = &(MessageNumber, bool)> {
    recovered.queues.get(&queue).into_iter().flatten()
}

fn is_in(recovered: &Recovered, queue: QueueNumber, number: MessageNumber) -> bool {
    found_in(recovered, queue).any(|(found, _)| *found == number)
}
