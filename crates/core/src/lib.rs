//! The deterministic heart: topology, routing and queues of one virtual host.
//!
//! [`Shard::execute`] takes a command, decides what happens (facts), hands each durable fact to
//! the [`Log`], applies it, and says what the driver is to do (effects). Time, ids and
//! randomness come in as arguments; nothing here waits.

mod channel;
mod command;
mod consumer;
mod content;
mod counters;
mod death;
mod delay;
mod deliveries;
mod effect;
mod equivalence;
mod generated;
mod got;
mod headers;
mod log;
mod mqtt;
mod outbox;
mod own_arguments;
mod policy;
mod queue;
mod refusal;
mod releases;
mod replay;
mod route;
mod scratch;
mod settling;
mod shard;
mod slots;
mod spare;
mod stopwatch;
mod store;
pub mod testing;
mod topology;
mod turn;
mod ways;

pub use command::{
    Body, ChannelKey, Command, Consume, DIRECT_REPLY_TO, ExchangeBind, ExchangeDeclare, Publish,
    PublishRef, QueueBind, QueueDeclare, Rejection, Request,
};
pub use counters::Counters;
pub use effect::{
    Carried, ConnectionOutput, Delivering, Effect, Effects, Output, Reply, Wanted, credit_bytes,
};
pub use log::Log;
pub use mqtt::{
    Copy, CopyContent, EndReason, Filter, Options, OwnedCopy, SessionOpen, SessionOutput,
    SessionRequest, TopicNotes, TopicPublish, Translation, Verdict, matches,
};
pub use outbox::{Outbox, Sending};
pub use policy::{PolicyMistake, PolicyRequest, Reach as PolicyReach};
pub use queue::QueueCounters;
pub use refusal::{Given, Object, Refusal};
pub use scratch::Scratch;
pub use shard::{
    Definition, Definitions, Delay, DelaySummary, Draft, Effective, Frozen, QUEUES_COUNTED,
    QUEUES_LOOKED_AT, QueueSummary, SessionLimit, SessionSettings, SessionSummary, Setting,
    SettingOrigin, SettingValue, Shard, ShardSettings, Stray, Summary,
};
pub use topology::{
    Grounds, Routed, RoutingKeys, Targets, Topology, check_binding, check_exchange, explain,
    strip_bcc,
};
