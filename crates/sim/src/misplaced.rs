//! A planted bug: what is requeued goes to the end of its queue, as a new message.

use std::collections::BTreeMap;
use std::sync::Arc;

use menzil_core::{ChannelKey, Command, Effect, Log, Output, Publish, Request, Shard};
use menzil_model::{ChannelId, ConnectionId, Message, Name};

use bytes::Bytes;

/// Remembers what went out, so that it can be published again.
#[derive(Debug, Default)]
pub(crate) struct Misplaced {
    out: BTreeMap<(ChannelKey, u64), (Name, Arc<Message>)>,
    is_open: bool,
}

impl Misplaced {
    pub(crate) fn execute(
        &mut self,
        shard: &mut Shard,
        now: u64,
        command: Command,
        log: &mut dyn Log,
        effects: &mut Vec<Effect>,
    ) {
        let again = self.requeued(&command);
        shard.execute(now, settled(command, again.is_some()), log, effects);
        if let Some(publish) = again {
            self.publish(shard, now, publish, log, effects);
        }
        for effect in effects {
            if let Effect::Channel {
                to,
                output:
                    Output::Deliver {
                        consumer_tag,
                        delivery_tag,
                        message,
                        ..
                    },
                ..
            } = effect
            {
                let queue = consumer_tag.as_bytes().split(|byte| *byte == b'|').next();
                let queue = Name::cut(queue.unwrap_or_default());
                self.out
                    .insert((*to, delivery_tag.0), (queue, Arc::clone(message)));
            }
        }
    }

    fn requeued(&mut self, command: &Command) -> Option<Publish> {
        let Command::Request {
            channel,
            request:
                Request::Reject {
                    delivery_tag,
                    multiple: false,
                    requeue: true,
                    ..
                },
        } = command
        else {
            return None;
        };
        let (queue, message) = self.out.remove(&(*channel, delivery_tag.0))?;
        Some(Publish {
            exchange: Name::empty(),
            routing_key: queue,
            mandatory: false,
            properties: Bytes::copy_from_slice(message.properties()),
            body: message.body_parts().collect(),
        })
    }

    fn publish(
        &mut self,
        shard: &mut Shard,
        now: u64,
        publish: Publish,
        log: &mut dyn Log,
        effects: &mut Vec<Effect>,
    ) {
        let connection = ConnectionId(0);
        let channel = ChannelKey {
            connection,
            channel: ChannelId::new(1).expect("1 is not 0"),
        };
        if !std::mem::replace(&mut self.is_open, true) {
            let open = Command::ConnectionOpened {
                connection,
                user: Name::from("guest"),
                cancel_notify: false,
            };
            shard.execute(now, open, log, &mut Vec::new());
            shard.execute(now, Command::ChannelOpened(channel), log, &mut Vec::new());
        }
        let request = Request::Publish(publish);
        shard.execute(now, Command::Request { channel, request }, log, effects);
    }
}

fn settled(command: Command, is_again: bool) -> Command {
    match command {
        Command::Request {
            channel,
            request: Request::Reject { delivery_tag, .. },
        } if is_again => Command::Request {
            channel,
            request: Request::Ack {
                delivery_tag,
                multiple: false,
            },
        },
        other => other,
    }
}
