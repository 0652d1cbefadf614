//! Wills.

use menzil_model::QueueId;
use menzil_model::fact::Will;

use super::super::Shard;
use crate::command::Body;
use crate::mqtt::{TopicNotes, TopicPublish};
use crate::turn::Turn;

impl Shard {
    /// Publishes a session's will.
    pub(super) fn publish_will(&mut self, turn: &mut Turn<'_>, session: QueueId, will: &Will) {
        let notes = TopicNotes::read(will.message.notes()).unwrap_or_default();
        let parts: Vec<_> = will.message.body_parts().collect();
        let payload = match parts.as_slice() {
            [] => Body::Whole(&[]),
            [whole] => Body::Whole(whole),
            parts => Body::Parts(parts),
        };
        let publish = TopicPublish {
            packet_id: 0,
            qos: will.qos,
            retain: will.retain,
            topic: notes.topic,
            properties: notes.properties,
            expiry: will.expiry,
            payload,
        };
        self.counters.published += 1;
        self.publish_for(turn, session, &publish);
    }
}
