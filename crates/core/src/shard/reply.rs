//! Direct reply-to: a channel gets replies without a queue. Its consumer of the pseudo-queue
//! `amq.rabbitmq.reply-to` has a name that nobody can guess, which goes into the `reply_to` of
//! what the channel publishes; a publish to that name on the default exchange goes straight to
//! the channel. Nothing is kept, written or bound: a reply that cannot be sent is lost.

use std::sync::Arc;

use menzil_model::{Name, Properties};

use super::Shard;
use crate::channel::Replies;
use crate::command::{Body, ChannelKey, Consume, DIRECT_REPLY_TO, PublishRef};
use crate::effect::{Carried, Delivering, Reply};
use crate::generated::generated_name;
use crate::refusal::Refusal;
use crate::route::Route;
use crate::turn::Turn;

/// What the names of those who want replies begin with.
const PREFIX: &str = "amq.rabbitmq.reply-to.";

/// Whether no queue is meant by that name, but somebody who wants replies.
pub(super) fn is_reply_name(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}

impl Shard {
    /// `basic.consume` of the pseudo-queue; the consumer tag is not in use.
    pub(super) fn consume_replies(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        consume: Consume,
    ) -> Result<(), Refusal> {
        let Some(channel) = self.channels.get_mut(&key) else {
            return Ok(());
        };
        if !consume.no_ack {
            return Err(Refusal::ReplyConsumerAcknowledges);
        }
        if channel.replies.is_some() {
            return Err(Refusal::ReplyConsumerExists);
        }
        let consumer_tag = if consume.consumer_tag.is_empty() {
            generated_name("amq.ctag-", consume.entropy)
        } else {
            consume.consumer_tag
        };
        let name = generated_name(PREFIX, consume.reply_entropy);
        self.repliers.insert(name.clone(), key);
        channel.replies = Some(Box::new(Replies {
            consumer_tag: consumer_tag.clone(),
            name,
        }));
        let reply = Reply::ConsumeOk { consumer_tag };
        turn.reply(key, consume.nowait, self.topology_index, reply);
        Ok(())
    }

    /// Takes the channel's consumer of replies away, if it has that tag.
    pub(super) fn cancel_replies(&mut self, key: ChannelKey, consumer_tag: &Name) -> bool {
        let Some(channel) = self.channels.get_mut(&key) else {
            return false;
        };
        let replies = &mut channel.replies;
        match replies.take_if(|replies| replies.consumer_tag == *consumer_tag) {
            Some(replies) => self.repliers.remove(&replies.name).is_some(),
            None => false,
        }
    }

    /// Whether somebody wants replies under that name.
    pub(super) fn wants_replies(&self, name: &Name) -> bool {
        self.repliers.contains_key(name)
    }

    /// The properties of a publish that asks for direct replies, with the name that they are to
    /// go to; `None` of any other.
    pub(super) fn with_reply_name(
        &self,
        key: ChannelKey,
        properties: &Properties<'_>,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        if properties.reply_to != Some(DIRECT_REPLY_TO) {
            return Ok(None);
        }
        let replies = self.channels.get(&key).and_then(|c| c.replies.as_ref());
        let replies = replies.ok_or(Refusal::NoReplyConsumer)?;
        let mut out = Vec::new();
        let named = Properties {
            reply_to: Some(replies.name.as_bytes()),
            ..*properties
        };
        named.write(&mut out);
        Ok(Some(out))
    }

    /// Notes in a route those of the keys that somebody wants replies under.
    pub(super) fn find_repliers<'a>(
        &self,
        keys: impl Iterator<Item = &'a [u8]>,
        route: &mut Route,
    ) {
        for key in keys.filter(|key| is_reply_name(key)) {
            if let Some(name) = Name::new(key).filter(|name| self.wants_replies(name))
                && !route.replies.contains(&name)
            {
                route.replies.push(name);
            }
        }
    }

    /// As [`Shard::send_replies`], for a publish that comes along that route.
    pub(super) fn reply_with(
        &mut self,
        turn: &mut Turn<'_>,
        publish: &PublishRef<'_>,
        route: &Route,
    ) -> bool {
        let publish = PublishRef {
            properties: route.stripped.as_deref().unwrap_or(publish.properties),
            ..*publish
        };
        let message;
        let content = match publish.body {
            Body::Whole(_) => Carried::Passing {
                publish: &publish,
                envelope: route.number,
            },
            Body::Parts(_) => {
                message = Arc::new(publish.message(self.settings.chunk_bytes));
                Carried::Stored(&message)
            }
        };
        self.send_replies(turn, &route.replies, content)
    }

    /// Sends a message to those who wait for it as a reply. False where none could have it.
    pub(super) fn send_replies(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[Name],
        content: Carried<'_>,
    ) -> bool {
        let mut is_sent = false;
        for name in names {
            is_sent |= self.send_reply(turn, name, content).is_some();
        }
        is_sent
    }

    fn send_reply(&mut self, turn: &mut Turn<'_>, name: &Name, content: Carried<'_>) -> Option<()> {
        let to = *self.repliers.get(name)?;
        let connection = self.connections.get_mut(&to.connection)?;
        // Nobody holds replies back, so that there is an end to those that nobody reads.
        let reply_bytes_max = i64::try_from(self.settings.reply_bytes_max).unwrap_or(i64::MAX);
        if connection.credit <= -reply_bytes_max {
            return None;
        }
        let channel = self.channels.get_mut(&to)?;
        let delivery_tag = channel.next_tag();
        let replies = channel.replies.as_deref()?;
        let delivering = Delivering {
            to,
            after: 0,
            consumer_tag: &replies.consumer_tag,
            delivery_tag,
            redelivered: false,
            properties: None,
            content,
        };
        connection.spend(delivering.credit_bytes());
        turn.effects.deliver(&delivering);
        self.counters.delivered += 1;
        self.counters.acknowledged += 1;
        Some(())
    }
}
