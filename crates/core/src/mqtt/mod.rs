//! What MQTT sessions are, and what they ask of a shard and get from it.
//!
//! A session is a queue without a name and with one taker: its client, while that is connected.
//! So order, limits, expiry, paging, checkpoints and recovery are those of queues; what only
//! sessions have is here, and what is decided of them in `shard/session/`. Docs/adr/0017.

mod bridge;
mod frozen;
mod group;
mod notes;
mod output;
mod properties;
mod request;
mod retained;
mod session;
mod topic_route;
mod tree;

pub use bridge::Translation;
pub use notes::TopicNotes;
pub use output::{Copy, CopyContent, EndReason, OwnedCopy, SessionOutput, Verdict};
pub use request::{Filter, SessionOpen, SessionRequest, TopicPublish};
pub use tree::{Options, matches};

pub(crate) use frozen::{FrozenSession, session_bytes};
pub(crate) use group::{
    GROUP_ARGUMENT, GROUP_PREFIX, Group, Groups, Link, Member, group_filter, name_of_group,
};
pub(crate) use properties::{RETAIN_HEADER, from_amqp, to_amqp};
pub(crate) use retained::{Piece, RetainedTopics};
pub(crate) use session::{
    Grant, InFlight, Sending, Session, SessionLink, Subscribed, packet_id_of, plain_filter,
    shared_filter,
};
pub(crate) use topic_route::{SessionTarget, TopicRoute};
pub(crate) use tree::{Found, Subscriber, Tree};
