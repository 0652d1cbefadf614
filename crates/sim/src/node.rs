//! One node: a shard and its journal, driven as the server drives them, one step at a time.

use std::sync::Arc;

use menzil_core::{ChannelKey, Command, Effect, Rejection, Request, Shard, ShardSettings, Wanted};
use menzil_journal::testing::{MemoryDisk, freeze_at};
use menzil_journal::{CheckpointError, Freeze, Journal, Options, Space, StorageError};
use menzil_model::fact::{Content, Origin, Published};
use menzil_model::{DeliveryTag, Fact, Message, Name, Position, Properties, QueueId};

use crate::catalogue::Level;
use crate::disk::SimDisk;
use crate::log::{NodeLog, SHARD};
use crate::misplaced::Misplaced;
use crate::policy;
use crate::prng::Prng;
use crate::recovery::{Recovery, write_checkpoint_fact};
use crate::sabotage::Sabotage;

/// How a node is set up.
#[derive(Clone, Debug)]
pub(crate) struct NodeSettings {
    pub(crate) shard: ShardSettings,
    pub(crate) journal: Options,
    pub(crate) sabotage: Option<Sabotage>,
    pub(crate) seed: u64,
    /// How much of the catalogue is there.
    pub(crate) later: Level,
    /// Room in the journal that a publish must find; `None` where nobody asks.
    pub(crate) room_bytes: Option<u64>,
}

/// Messages to read for a queue.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) queue: QueueId,
    pub(crate) wanted: Vec<Wanted>,
}

/// Hears of each command before it is executed, and of its effects after.
pub(crate) type Listener<'a> = dyn FnMut(&Shard, Option<&Command>, Vec<Effect>) + 'a;

/// A frozen state that waits until it is committed.
#[derive(Debug)]
struct Frozen {
    freeze: Freeze,
    payload: Vec<u8>,
}

/// See the module.
pub(crate) struct Node {
    pub(crate) shard: Shard,
    pub(crate) journal: Journal<SimDisk>,
    pub(crate) fetches: Vec<Fetch>,
    frozen: Option<Frozen>,
    /// Batches that the journal had written by the last checkpoint.
    checkpoint_at: u64,
    misplaced: Misplaced,
    prng: Prng,
    settings: NodeSettings,
}

impl Node {
    /// Starts on that disk: recovers what is there.
    pub(crate) fn start(
        disk: &MemoryDisk,
        settings: &NodeSettings,
        now: u64,
    ) -> Result<Self, String> {
        let mut recovery = Recovery::new(
            settings.shard.clone(),
            settings.sabotage,
            settings.seed ^ now,
        );
        let disk = SimDisk::new(disk.clone(), settings.sabotage);
        let journal = Journal::open(disk, settings.journal.clone(), &mut recovery)
            .map_err(|error| error.to_string())?;
        if !recovery.quarantined.is_empty() {
            return Err(format!("quarantined records: {:?}", recovery.quarantined));
        }
        let mut shard = recovery.shard;
        shard.needs(&mut |first, count, references| {
            journal.need(SHARD, first, count, references);
        });
        journal.needs_known();
        let mut prng = Prng::new(settings.seed ^ now);
        let mut log = NodeLog::new(&journal, settings.sabotage, settings.room_bytes, &mut prng);
        shard.start(now, &Name::from("/"), &mut log);
        drop(log);
        Ok(Self {
            shard,
            journal,
            fetches: Vec::new(),
            frozen: None,
            checkpoint_at: 0,
            misplaced: Misplaced::default(),
            prng,
            settings: settings.clone(),
        })
    }

    pub(crate) fn committed(&self) -> u64 {
        self.journal.committed(SHARD)
    }

    pub(crate) fn appended(&self) -> u64 {
        self.journal.appended(SHARD)
    }

    /// Carries out one batch of commands, as one socket read brings it, handing effects to
    /// `effect` as they come. Acknowledgements that follow each other are carried out as one run.
    /// True where the writer committed in the middle of it.
    pub(crate) fn batch(
        &mut self,
        now: u64,
        commands: Vec<Command>,
        effect: &mut Listener<'_>,
    ) -> bool {
        let mut log = NodeLog::new(
            &self.journal,
            self.settings.sabotage,
            self.settings.room_bytes,
            &mut self.prng,
        );
        let mut commands = commands.into_iter().peekable();
        while let Some(command) = commands.next() {
            effect(&self.shard, Some(&command), Vec::new());
            let mut effects = Vec::new();
            if let Some((channel, first)) = acknowledged(&command) {
                let mut tags = vec![first];
                while let Some((next, tag)) = commands.peek().and_then(acknowledged)
                    && next == channel
                {
                    effect(&self.shard, commands.next().as_ref(), Vec::new());
                    tags.push(tag);
                }
                self.shard
                    .acknowledge_each(now, channel, &tags, &mut log, &mut effects);
            } else if self.settings.sabotage == Some(Sabotage::RequeueAtEnd) {
                self.misplaced
                    .execute(&mut self.shard, now, command, &mut log, &mut effects);
            } else {
                let command = uncounted(self.settings.sabotage, command);
                self.shard.execute(now, command, &mut log, &mut effects);
            }
            note_fetches(&mut self.fetches, &effects);
            effect(&self.shard, None, effects);
        }
        self.shard.finish(&mut log);
        log.has_committed
    }

    /// The journal was told of more entries gone than it was told of before. Planted bugs may
    /// make it so, and are to be caught by what comes of it.
    pub(crate) fn releases_too_much(&self) -> bool {
        self.settings.sabotage.is_none() && self.journal.counters().released_unknown > 0
    }

    /// Does what is due.
    pub(crate) fn expire(&mut self, now: u64) -> Vec<Effect> {
        let mut log = NodeLog::new(
            &self.journal,
            self.settings.sabotage,
            self.settings.room_bytes,
            &mut self.prng,
        );
        let mut effects = Vec::new();
        self.shard.expire(now, &mut log, &mut effects);
        note_fetches(&mut self.fetches, &effects);
        effects
    }

    /// An operator sets the policy, or clears it. Returns the index that this is committed with,
    /// where there was something to do.
    pub(crate) fn set_policy(&mut self, now: u64, limit: Option<u64>) -> Option<u64> {
        let mut log = NodeLog::new(
            &self.journal,
            self.settings.sabotage,
            self.settings.room_bytes,
            &mut self.prng,
        );
        let mut effects = Vec::new();
        let shard = &mut self.shard;
        let index = if let Some(limit) = limit {
            let policy = policy::policy(limit);
            shard.set_policy(now, policy, &mut log, &mut effects).ok()
        } else {
            let name = Name::from(policy::POLICY);
            shard.clear_policy(now, &name, false, &mut log, &mut effects)
        };
        debug_assert!(effects.is_empty(), "nobody hears of a policy");
        index
    }

    /// Reads one of the messages that were asked for; `number` counts them.
    pub(crate) fn read(
        &self,
        fetch: &Fetch,
        wanted: &Wanted,
        number: u64,
    ) -> Result<Arc<Message>, String> {
        let mut origin = wanted.origin;
        if self.settings.sabotage == Some(Sabotage::FetchSwapped) && number.is_multiple_of(5) {
            let others = self.fetches.iter().chain([fetch]);
            let others = others.flat_map(|fetch| &fetch.wanted);
            if let Some(other) = others.map(|other| other.origin).find(|one| *one != origin) {
                origin = other;
            }
        }
        let mut chunks: Vec<u64> = wanted.chunks.indexes().collect();
        if self.settings.sabotage == Some(Sabotage::ChunkMissing) && number.is_multiple_of(3) {
            chunks.pop();
        }
        let message = read_message(&self.journal, origin, &chunks)?;
        if self.settings.sabotage == Some(Sabotage::GroupForgotten) {
            return Ok(Arc::new(without_headers(&message)));
        }
        Ok(message)
    }

    /// Freezes the state for a checkpoint, unless one waits already.
    pub(crate) fn freeze(&mut self) {
        if self.frozen.is_some() {
            return;
        }
        let mut log = NodeLog::new(
            &self.journal,
            self.settings.sabotage,
            self.settings.room_bytes,
            &mut self.prng,
        );
        self.shard.finish(&mut log);
        drop(log);
        let mut payload = Vec::new();
        self.shard
            .freeze()
            .write(&mut |fact| write_checkpoint_fact(fact, &mut payload));
        if self.settings.sabotage == Some(Sabotage::LiveSegmentRecycled) {
            self.release_half();
        }
        let mut freeze = self.journal.freeze(SHARD);
        if self.settings.sabotage == Some(Sabotage::CheckpointUncommitted) {
            freeze = freeze_at(freeze, self.committed());
        }
        self.frozen = Some(Frozen { freeze, payload });
    }

    /// Gives up records that are needed.
    fn release_half(&self) {
        let mut needed = Vec::new();
        self.shard.needs(&mut |first, count, references| {
            needed.extend((first..first + count).map(|index| (index, references)));
        });
        needed.sort_unstable();
        let half = needed.len() / 2;
        for (index, references) in needed.into_iter().skip(half) {
            self.journal.batch().release(SHARD, index, references);
        }
    }

    /// Whether a server would make a checkpoint: on a full disk it makes one each second, in
    /// which settles that gather fill a few batches.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        let written = self.journal.counters().batches - self.checkpoint_at;
        self.journal.space() == Space::Full && written >= FULL_BATCHES_MAX
    }

    /// Installs the frozen checkpoint, if it is committed. True where one was installed.
    pub(crate) fn install(&mut self) -> Result<bool, String> {
        let committed = self.committed();
        let Some(frozen) = self
            .frozen
            .take_if(|frozen| frozen.freeze.index() <= committed)
        else {
            return Ok(false);
        };
        let payload: &[&[u8]] = &[&frozen.payload];
        self.checkpoint_at = self.journal.counters().batches;
        let done = self.journal.install_checkpoint(frozen.freeze, payload);
        match done {
            Ok(()) => Ok(true),
            Err(CheckpointError::Full | CheckpointError::Older { .. }) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    /// One step of evacuation: how many records moved.
    pub(crate) fn evacuate(&self) -> Result<u64, String> {
        let evacuated = self.journal.evacuate_step();
        evacuated
            .map(|evacuated| evacuated.map_or(0, |evacuated| evacuated.records))
            .map_err(|error| error.to_string())
    }

    /// One group commit.
    pub(crate) fn step(&self) -> Result<bool, StorageError> {
        self.journal.step().map(|commit| commit.is_some())
    }

    /// A clean stop.
    pub(crate) fn stop(mut self) -> Result<(), StorageError> {
        let mut log = NodeLog::new(
            &self.journal,
            self.settings.sabotage,
            self.settings.room_bytes,
            &mut self.prng,
        );
        self.shard.stop(&mut log);
        drop(log);
        self.journal.finish()
    }
}

/// Of the 15 that the journal's short segment has.
const FULL_BATCHES_MAX: u64 = 4;

/// The delivery that a command acknowledges, if it is just one.
fn acknowledged(command: &Command) -> Option<(ChannelKey, DeliveryTag)> {
    let Command::Request { channel, request } = command else {
        return None;
    };
    let Request::Ack {
        delivery_tag,
        multiple: false,
    } = request
    else {
        return None;
    };
    Some((*channel, *delivery_tag))
}

fn note_fetches(fetches: &mut Vec<Fetch>, effects: &[Effect]) {
    for effect in effects {
        if let Effect::Fetch { queue, wanted, .. } = effect {
            fetches.push(Fetch {
                queue: *queue,
                wanted: wanted.clone(),
            });
        }
    }
}

/// A message as the journal has it.
pub(crate) fn read_message(
    journal: &Journal<SimDisk>,
    origin: Origin,
    chunks: &[u64],
) -> Result<Arc<Message>, String> {
    let record = read_record(journal, origin.index)?;
    let published = published(record, origin.part).ok_or("the record holds no message")?;
    let message = published.message.ok_or("the record holds no content")?;
    if chunks.is_empty() {
        return Ok(message);
    }
    let mut parts = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        match read_record(journal, *chunk)? {
            Fact::Chunk(part) => parts.push(part),
            other => return Err(format!("record {chunk} is no part of a body: {other:?}")),
        }
    }
    let whole = Message::new(
        &Name::cut(message.exchange()),
        &Name::cut(message.routing_key()),
        message.properties(),
        parts,
        0,
    );
    Ok(Arc::new(whole.with_notes(message.notes())))
}

/// What a planted bug makes of a rejected message.
fn uncounted(sabotage: Option<Sabotage>, mut command: Command) -> Command {
    if sabotage == Some(Sabotage::LimitIgnored)
        && let Command::Request {
            request: Request::Reject { method, .. },
            ..
        } = &mut command
    {
        *method = Rejection::Nack;
    }
    command
}

/// The message as a planted bug reads it.
fn without_headers(message: &Message) -> Message {
    let properties = Properties::parse(message.properties()).unwrap_or_default();
    let mut bytes = Vec::new();
    Properties {
        headers: None,
        ..properties
    }
    .write(&mut bytes);
    let plain = Message::new(
        &Name::cut(message.exchange()),
        &Name::cut(message.routing_key()),
        &bytes,
        message.body_parts().collect(),
        0,
    );
    plain.with_notes(message.notes())
}

fn read_record(journal: &Journal<SimDisk>, index: u64) -> Result<Fact, String> {
    let position = Position {
        shard: SHARD,
        index,
    };
    let bytes = journal.read(position).map_err(|error| error.to_string())?;
    Fact::decode(&bytes, Content::Keep).map_err(|error| error.to_string())
}

/// The message of a record, alone or in a group with what follows from it.
fn published(record: Fact, part: u32) -> Option<Published> {
    match record {
        Fact::Published(published) if part == 0 => Some(published),
        Fact::Group(facts) => match facts.into_iter().nth(usize::try_from(part).ok()?) {
            Some(Fact::Published(published)) => Some(published),
            _ => None,
        },
        _ => None,
    }
}
