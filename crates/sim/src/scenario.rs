//! What a run is like: everything follows from the seed, and the bug that is planted.

use menzil_core::testing::MemoryScratch;
use menzil_core::{SessionSettings, ShardSettings};
use menzil_journal::Options;

use crate::node::NodeSettings;
use crate::prng::Prng;
use crate::sabotage::Sabotage;

/// How to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where all chance comes from.
    pub seed: u64,
    /// How many steps.
    pub steps: u64,
    /// A bug that is planted.
    pub sabotage: Option<Sabotage>,
    /// What takes part: 1, queues and routes with dead letters and priorities; 2, delays,
    /// delivery limits, groups, deduplication and policies too.
    pub later: usize,
    /// Lines of the trace to keep for a failure; 0 keeps none.
    pub trace_lines: usize,
}

impl Settings {
    /// The highest level.
    pub const LATER_MAX: usize = 2;

    /// A run of that seed and length.
    pub fn new(seed: u64, steps: u64) -> Self {
        Self {
            seed,
            steps,
            sabotage: None,
            later: 0,
            trace_lines: 40,
        }
    }

    /// The command that repeats this run.
    pub fn command(&self) -> String {
        let sabotage = self
            .sabotage
            .map_or_else(String::new, |bug| format!(" --sabotage {bug:?}"));
        let later = match self.later {
            0 => String::new(),
            level => format!(" --later {level}"),
        };
        format!(
            "cargo run -p menzil-sim -- --seed {} --steps {}{later}{sabotage}",
            self.seed, self.steps
        )
    }

    /// The same on that level, from 0 to [`Self::LATER_MAX`].
    #[must_use]
    pub fn later(mut self, level: usize) -> Self {
        self.later = level.min(Self::LATER_MAX);
        self
    }

    /// The same with a bug planted.
    #[must_use]
    pub fn with(mut self, sabotage: Sabotage) -> Self {
        self.sabotage = Some(sabotage);
        self
    }
}

/// What the seed makes of a run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) node: NodeSettings,
    pub(crate) chunk_bytes: usize,
    /// Clients speak AMQP to protocol sessions, instead of commands to the shard.
    pub(crate) speaks_amqp: bool,
    pub(crate) large_bytes: usize,
    pub(crate) window: u64,
    pub(crate) transient_one_in: u64,
    pub(crate) purge_one_in: u64,
    /// How much goes to queues of the later features.
    pub(crate) later_percent: u64,
    pub(crate) close_channel_one_in: u64,
    pub(crate) clients: u64,
    /// How likely a fault is in a step: once in so many.
    pub(crate) fault_one_in: u64,
    /// The disk is full most of the time.
    pub(crate) is_short_of_space: bool,
    pub(crate) cut_one_in: u64,
    /// How often an operator changes a policy.
    pub(crate) policy_one_in: u64,
    pub(crate) audit_one_in: u64,
    pub(crate) check_one_in: u64,
    /// How often the journal commits, by weight.
    pub(crate) commit_weight: u64,
    /// How fast clients act, by weight.
    pub(crate) act_weight: u64,
}

impl Scenario {
    pub(crate) fn new(settings: &Settings, prng: &mut Prng) -> Self {
        let chunk_bytes = prng.pick(&[1024, 4096]);
        let shard = ShardSettings {
            reply_bytes_max: 64 << 20,
            content_bytes_max: prng.pick(&[0, 0, 4000, 1 << 20]),
            index_page_entries: prng.pick(&[1, 4, 4, 64]),
            index_bytes_max: prng.pick(&[0, 0, 200, 1 << 20]),
            scratch: Some(MemoryScratch::shared()),
            credit_bytes: prng.pick(&[500, 4000, 1 << 20]),
            transaction_bytes_max: 1 << 20,
            chunk_bytes,
            consumers_per_channel_max: 100,
            dead_letter_counts_client_headers: false,
            sessions: SessionSettings::default(),
        };
        let journal = Options {
            segment_bytes: prng.pick(&[16 << 10, 16 << 10, 64 << 10]),
            record_bytes_max: 1 << 20,
            checkpoint_reserve_bytes: 8 << 10,
            prepared_segments: 2,
            spare_segments_max: 2,
            log_reserve_bytes: 8 << 10,
            evacuation_reserve_bytes: 4 << 10,
            evacuate_below_percent: 90,
            evacuate_age_segments: 1,
            evacuate_bytes: 8 << 10,
            ..Options::default()
        };
        // The largest message, in chunks, and what goes with it.
        let room_bytes = Some(12_000);
        Self {
            node: NodeSettings {
                shard,
                journal,
                sabotage: settings.sabotage,
                seed: settings.seed,
                room_bytes,
                later: settings.later,
            },
            chunk_bytes,
            speaks_amqp: !prng.one_in(3),
            large_bytes: 9000,
            window: prng.pick(&[1, 8, 30]),
            transient_one_in: prng.pick(&[2, 6, 20]),
            purge_one_in: prng.pick(&[8, 60]),
            later_percent: if settings.later > 0 {
                prng.pick(&[40, 90])
            } else {
                0
            },
            close_channel_one_in: prng.pick(&[50, 300, 2000]),
            clients: 3 + prng.below(4),
            fault_one_in: prng.pick(&[200, 600, 1500]),
            is_short_of_space: prng.one_in(4),
            cut_one_in: prng.pick(&[100, 400, 3000]),
            audit_one_in: prng.pick(&[80, 250]),
            policy_one_in: 150,
            check_one_in: 8,
            commit_weight: prng.pick(&[1, 5, 20]),
            act_weight: prng.pick(&[5, 15, 30]),
        }
    }
}
