//! Do the records hang together? Finds the names of records that are missing.
//!
//! Lacks IO. Invariant: past the checkpoint of its shard no index is skipped unnoticed: each is
//! replayed, named as lost, or refuses the start.

use menzil_model::{Class, Map, Position, ShardId};

use crate::damage::Damage;
use crate::scan::{Found, Hint, Missing, assumed_class};

/// Follows the records in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Continuity {
    checkpoints: Map<ShardId, u64>,
    /// The last index seen of each shard.
    last: Map<ShardId, u64>,
    missing: Vec<Missing>,
}

/// A run of records that is lost, now that its name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) first: Position,
    pub(crate) count: u64,
    pub(crate) class: Class,
    pub(crate) damage: Damage,
}

/// The log does not hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Records are missing and no damage explains it.
    Gap {
        shard: ShardId,
        first: u64,
        found: u64,
    },
    /// A record comes after one with a higher index.
    Order { position: Position, last: u64 },
    /// Records are lost and cannot be named.
    Nameless {
        damage: Damage,
        classes_topology: bool,
    },
}

impl Continuity {
    pub(crate) fn new(checkpoints: Map<ShardId, u64>) -> Self {
        Self {
            checkpoints,
            last: Map::default(),
            missing: Vec::new(),
        }
    }

    /// Records up to there lie in a segment that need not be read.
    pub(crate) fn skip(&mut self, shard: ShardId, last: u64) {
        let seen = self.last.entry(shard).or_default();
        *seen = last.max(*seen);
    }

    pub(crate) fn missing(&mut self, missing: Missing) {
        self.missing.push(missing);
    }

    /// The next record of the log; the result is what lies between it and the one before.
    pub(crate) fn record(&mut self, found: &Found) -> Result<Option<Lost>, Broken> {
        let position = found.position();
        let covered = self.covered(position.shard);
        let seen = self.last.get(&position.shard).copied();
        if let Some(last) = seen.filter(|last| position.index <= *last) {
            return Err(Broken::Order { position, last });
        }
        let end = position.index.saturating_add(found.span).saturating_sub(1);
        self.last.insert(position.shard, end);
        // Below the checkpoint records may be gone with their segments, so a gap there is one
        // only where damage asks for it.
        let base = seen.unwrap_or(0).max(covered.min(position.index - 1));
        for last in [seen.unwrap_or(base), base] {
            let count = (position.index - 1).saturating_sub(last);
            if count == 0 {
                return Ok(None);
            }
            let first = Position {
                index: last + 1,
                ..position
            };
            if let Some((class, damage)) = self.explain(first, count) {
                return Ok(Some(Lost {
                    first,
                    count,
                    class,
                    damage,
                }));
            }
        }
        Err(Broken::Gap {
            shard: position.shard,
            first: base + 1,
            found: position.index,
        })
    }

    /// The log ends; what is lost of its last records must be named by what is left of them.
    pub(crate) fn finish(&mut self) -> Result<Vec<Lost>, Broken> {
        let mut lost = Vec::new();
        for missing in std::mem::take(&mut self.missing) {
            let Some(count) = missing.count else {
                return Err(nameless(&missing));
            };
            let shards = self.guess(&missing, count);
            if shards.iter().map(|(_, count)| count).sum::<u64>() != count {
                return Err(nameless(&missing));
            }
            for (shard, count) in shards {
                let first = self.last(shard) + 1;
                self.last.insert(shard, first + count - 1);
                let first = Position {
                    shard,
                    index: first,
                };
                let class = assumed_class(&missing);
                lost.push(Lost {
                    first,
                    count,
                    class,
                    damage: missing.damage,
                });
            }
        }
        Ok(lost)
    }

    /// The last index of every shard, checkpoints included.
    pub(crate) fn last_indexes(&self) -> Map<ShardId, u64> {
        let mut last = self.last.clone();
        for (shard, index) in &self.checkpoints {
            let seen = last.entry(*shard).or_default();
            *seen = (*seen).max(*index);
        }
        last
    }

    pub(crate) fn covered(&self, shard: ShardId) -> u64 {
        self.checkpoints.get(&shard).copied().unwrap_or(0)
    }

    fn last(&self, shard: ShardId) -> u64 {
        self.last
            .get(&shard)
            .copied()
            .unwrap_or(0)
            .max(self.covered(shard))
    }

    /// The damage that `count` missing records are put down to: first what is left of their own
    /// headers, then the earliest that does not name others, and where several share in it the
    /// gravest class.
    fn explain(&mut self, first: Position, count: u64) -> Option<(Class, Damage)> {
        // A damaged batch header does not say how many are missing: it explains any number, once.
        let known = self
            .missing
            .iter()
            .map(|missing| missing.count.unwrap_or(count));
        if known.sum::<u64>() < count {
            return None;
        }
        let mut explained: Option<(Class, Damage)> = None;
        let mut rest = count;
        for bound in [own, not_of_others, any] {
            for missing in &mut self.missing {
                let most = bound(missing, first, count);
                if most == 0 || rest == 0 {
                    continue;
                }
                let taken = missing
                    .count
                    .map_or(rest, |count| count.min(most).min(rest));
                let (class, damage) = (assumed_class(missing), missing.damage);
                let (known_class, _) = *explained.get_or_insert((class, damage));
                if class == Class::Topology && known_class != Class::Topology {
                    explained = Some((class, damage));
                }
                missing.count = Some(missing.count.map_or(0, |count| count - taken));
                rest -= taken;
            }
        }
        self.missing.retain(|missing| missing.count != Some(0));
        explained
    }

    /// Which shards the records at the end of the log were of.
    fn guess(&self, missing: &Missing, count: u64) -> Vec<(ShardId, u64)> {
        let mut known = self.last_indexes();
        let mut shards: Vec<(ShardId, u64)> = Vec::new();
        for hint in &missing.hints {
            let Some(shard) = guess_shard(hint, &known) else {
                continue;
            };
            *known.entry(shard).or_default() += 1;
            match shards.iter_mut().find(|(other, _)| *other == shard) {
                Some((_, count)) => *count += 1,
                None => shards.push((shard, 1)),
            }
        }
        if shards.is_empty()
            && let [shard] = known.keys().copied().collect::<Vec<_>>().as_slice()
        {
            shards.push((*shard, count));
        }
        shards
    }
}

/// How many of the `count` records from `first` on the damage names by what is left of their
/// headers.
fn own(missing: &Missing, first: Position, count: u64) -> u64 {
    let hints = missing.hints.iter();
    let named = hints.filter(|hint| hint.mended && is_in(hint, first, count));
    named.count() as u64
}

/// How many it may have cost that are not named to be others.
fn not_of_others(missing: &Missing, first: Position, count: u64) -> u64 {
    let hints = missing.hints.iter();
    let others = hints.filter(|hint| hint.mended && !is_in(hint, first, count));
    any(missing, first, count).saturating_sub(others.count() as u64)
}

fn any(missing: &Missing, _: Position, count: u64) -> u64 {
    missing.count.unwrap_or(count)
}

fn is_in(hint: &Hint, first: Position, count: u64) -> bool {
    let Position { shard, index } = hint.header.position;
    shard == first.shard && (first.index..first.index.saturating_add(count)).contains(&index)
}

/// The shard that a damaged header was of: index and shard fit together, or only one of the two
/// is damaged and the other leaves no choice.
fn guess_shard(hint: &Hint, known: &Map<ShardId, u64>) -> Option<ShardId> {
    let Position { shard, index } = hint.header.position;
    let last = known.get(&shard).copied();
    if hint.mended || last.is_some_and(|last| last + 1 == index) {
        return (last.unwrap_or(0) + 1 == index).then_some(shard);
    }
    let by_index = known
        .iter()
        .filter(|(_, last)| **last + 1 == index)
        .map(|(shard, _)| *shard);
    let candidates: Vec<ShardId> = by_index.chain(last.map(|_| shard)).collect();
    match candidates.as_slice() {
        [shard] => Some(*shard),
        _ => None,
    }
}

fn nameless(missing: &Missing) -> Broken {
    Broken::Nameless {
        damage: missing.damage,
        classes_topology: missing.classes.contains(Class::Topology),
    }
}
