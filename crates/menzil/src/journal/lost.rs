//! What a damaged record was, as far as its bytes still tell.
//!
//! Lacks certainty: at least one byte is wrong, so everything is told as a guess. Names are
//! those of sound records where a damaged one only has numbers.

use std::collections::{BTreeMap, BTreeSet};

use menzil_journal::{Disk, Report, remains};
use menzil_model::fact::{Content, Destination};
use menzil_model::{Class, Escaped, ExchangeId, Fact, Name, Position, QueueId, ShardId};

use super::fact_line::describe;

/// A text for each damaged record that still says something.
pub(crate) type Lost = BTreeMap<Position, String>;

/// The names of what was declared, and not deleted since or all the same.
#[derive(Debug, Default)]
pub(crate) struct Names {
    queues: BTreeMap<(ShardId, QueueId), Name>,
    exchanges: BTreeMap<(ShardId, ExchangeId), Name>,
}

impl Names {
    /// Learns from a sound fact.
    pub(crate) fn learn(&mut self, shard: ShardId, fact: &Fact) {
        match fact {
            Fact::QueueDeclared(queue) => {
                self.queues.insert((shard, queue.id), queue.name.clone());
            }
            Fact::ExchangeDeclared(exchange) => {
                let name = exchange.name.clone();
                self.exchanges.insert((shard, exchange.id), name);
            }
            Fact::Group(facts) => facts.iter().for_each(|fact| self.learn(shard, fact)),
            Fact::VirtualHostCreated { .. }
            | Fact::ExchangeDeleted { .. }
            | Fact::QueueDeleted { .. }
            | Fact::Bound(_)
            | Fact::Unbound(_)
            | Fact::PolicySet(_)
            | Fact::PolicyCleared { .. }
            | Fact::Chunk(_)
            | Fact::Published(_)
            | Fact::Settled { .. }
            | Fact::Delivering { .. }
            | Fact::Returned { .. }
            | Fact::Dying { .. }
            | Fact::Numbering { .. }
            | Fact::QueueState { .. }
            | Fact::Copied { .. }
            | Fact::Page { .. }
            | Fact::Session { .. }
            | Fact::Retained { .. }
            | Fact::Seen { .. } => {}
        }
    }

    /// What every damaged record of the report was.
    pub(crate) fn lost(&self, disk: &impl Disk, report: &Report) -> Lost {
        let told = report.quarantined.iter().filter_map(|one| {
            let payload = remains(disk, &one.damage)?;
            let text = self.guess(one.position.shard, one.class, &payload)?;
            Some((one.position, text))
        });
        told.collect()
    }

    fn guess(&self, shard: ShardId, class: Class, payload: &[u8]) -> Option<String> {
        let Ok(fact) = Fact::decode(payload, Content::Keep) else {
            // Bodies are nobody's business who looks at structure.
            let texts = (class == Class::Topology).then(|| texts(payload))?;
            return (!texts.is_empty())
                .then(|| format!("its bytes still have {}", texts.join(", ")));
        };
        if fact.class() != class {
            return None;
        }
        let mut ids = Ids::default();
        ids.of(&fact);
        let queues = ids.queues.into_iter().filter_map(|id| {
            let name = self.queues.get(&(shard, id))?;
            Some(format!("queue {id} is {}", quoted(name.as_bytes())))
        });
        let exchanges = ids.exchanges.into_iter().filter_map(|id| {
            let name = self.exchanges.get(&(shard, id))?;
            Some(format!("exchange {id} is {}", quoted(name.as_bytes())))
        });
        let known: Vec<String> = queues.chain(exchanges).take(NAMED_MAX).collect();
        let known = if known.is_empty() {
            String::new()
        } else {
            format!(" ({})", known.join(", "))
        };
        Some(format!("it still reads as {}{known}", describe(&fact)))
    }
}

/// What a fact refers to by number.
#[derive(Default)]
struct Ids {
    queues: BTreeSet<QueueId>,
    exchanges: BTreeSet<ExchangeId>,
}

impl Ids {
    fn of(&mut self, fact: &Fact) {
        match fact {
            Fact::Published(published) => {
                self.queues
                    .extend(published.entries.iter().map(|entry| entry.queue));
            }
            Fact::Settled { queue, .. }
            | Fact::Delivering { queue, .. }
            | Fact::Returned { queue, .. }
            | Fact::Dying { queue, .. }
            | Fact::QueueState { queue, .. }
            | Fact::Copied { queue, .. }
            | Fact::Page { queue, .. }
            | Fact::Seen { queue, .. }
            | Fact::Session { session: queue, .. }
            | Fact::QueueDeleted { id: queue } => {
                self.queues.insert(*queue);
            }
            Fact::ExchangeDeleted { id } => {
                self.exchanges.insert(*id);
            }
            Fact::Bound(binding) | Fact::Unbound(binding) => {
                self.exchanges.insert(binding.source);
                match binding.destination {
                    Destination::Queue(id) => self.queues.insert(id),
                    Destination::Exchange(id) => self.exchanges.insert(id),
                };
            }
            Fact::Group(facts) => facts.iter().for_each(|fact| self.of(fact)),
            Fact::VirtualHostCreated { .. }
            | Fact::ExchangeDeclared(_)
            | Fact::QueueDeclared(_)
            | Fact::PolicySet(_)
            | Fact::PolicyCleared { .. }
            | Fact::Chunk(_)
            | Fact::Retained { .. }
            | Fact::Numbering { .. } => {}
        }
    }
}

/// Runs of bytes that look like a name.
fn texts(payload: &[u8]) -> Vec<String> {
    let runs = payload.split(|byte| !byte.is_ascii_graphic());
    let long = runs.filter(|run| run.len() >= TEXT_BYTES_MIN);
    long.take(NAMED_MAX).map(quoted).collect()
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", Escaped(bytes))
}

const TEXT_BYTES_MIN: usize = 3;
const NAMED_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use menzil_model::Table;
    use menzil_model::fact::{Binding, QueueDefinition};

    use super::*;

    const SHARD: ShardId = ShardId(1);

    fn declared(name: &'static str) -> Fact {
        Fact::QueueDeclared(QueueDefinition {
            id: QueueId(7),
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Table::default(),
        })
    }

    fn bytes(fact: &Fact) -> Vec<u8> {
        let mut bytes = Vec::new();
        fact.encode(&mut bytes);
        bytes
    }

    #[test]
    fn a_name_that_still_reads_is_told_and_numbers_get_theirs_from_sound_records() {
        let mut names = Names::default();
        let text = names.guess(SHARD, Class::Topology, &bytes(&declared("orders")));
        assert!(
            text.unwrap()
                .contains("QueueDeclared queue=7 name=\"orders\"")
        );

        names.learn(SHARD, &Fact::Group(vec![declared("orders")]));
        let bound = Fact::Bound(Binding {
            source: ExchangeId(2),
            destination: Destination::Queue(QueueId(7)),
            key: Name::from("eu"),
            arguments: Table::default(),
        });
        let text = names.guess(SHARD, Class::Topology, &bytes(&bound));
        assert!(text.unwrap().ends_with("(queue 7 is \"orders\")"));
    }

    #[test]
    fn of_what_does_not_read_the_texts_are_told_but_of_no_body() {
        let names = Names::default();
        let mut damaged = bytes(&declared("orders"));
        damaged[0] = 0xff;
        let text = names.guess(SHARD, Class::Topology, &damaged).unwrap();
        assert!(text.contains("\"orders\""), "{text}");
        assert_eq!(names.guess(SHARD, Class::Message, &damaged), None);
    }
}
