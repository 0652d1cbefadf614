//! Packets as bytes (MQTT 3.1, 3.1.1 and 5.0; clauses without a version are those of 5.0).
//!
//! ```text
//! packet := type:4 flags:4 │ remaining length: 1 to 4 bytes │ variable header │ payload
//! ```
//!
//! - [`decode_connect`] reads the first packet, which says the [`Version`]; [`decode`] all others;
//!   [`decode_publish_start`] the head of a PUBLISH that is too large to wait for.
//! - Packets borrow from the input: nothing is copied and nothing allocated. [`Properties`] are a
//!   checked slice that is walked, so that user properties keep their order and duplicates.
//! - What is refused is a [`Violation`]: it has the [`ReasonCode`] that is due, the clause and a
//!   sentence for people.
//! - Each packet has `encode`; a PUBLISH that goes to many is written by a [`PublishTemplate`].
//!
//! Invariant: how the input is split changes neither packets nor violations, and no input panics.

mod connect;
mod decode;
mod encode;
mod header;
mod packet;
mod property;
mod publish;
mod reason;
mod subscribe;
mod template;
mod text;
mod topic;
mod violation;

pub use connect::{Connect, Will, decode_connect};
pub use decode::{Decoded, Peer, Rules, decode};
pub use encode::{Oversize, subscribe, unsubscribe};
pub use header::{FixedHeader, PacketType, REMAINING_BYTES_MAX, fixed_header};
pub use packet::{Ack, Auth, ConnAck, Disconnect, Packet, PacketId, SubAck, Version};
pub use property::{Place, Properties, PropertiesIter, Property, PropertyId, PropertyList};
pub use publish::{Publish, PublishStart, Qos, decode_publish_start};
pub use reason::ReasonCode;
pub use subscribe::{
    Filters, RetainHandling, Subscribe, Subscription, SubscriptionOptions, Subscriptions,
    Unsubscribe,
};
pub use template::{Delivery, Payload, PublishTemplate};
pub use text::TextPolicy;
pub use topic::{TopicFilter, TopicName};
pub use violation::{Rule, Violation};
