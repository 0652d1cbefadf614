//! What a node has for one client: held back until the commit it waits for, in the order of
//! each channel. Stands in for the protocol session where a run has none.

use std::collections::{BTreeMap, VecDeque};

use menzil_core::{ConnectionOutput, Effect, Output, Reply, credit_bytes};

use crate::speech::{Heard, What};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    channels: BTreeMap<u16, VecDeque<(u64, Output)>>,
    connection: VecDeque<(u64, ConnectionOutput)>,
    /// Confirms wait for nothing: a planted bug.
    pub(crate) hasty: bool,
}

impl Outbox {
    pub(crate) fn handle(&mut self, effect: Effect) {
        match effect {
            Effect::Channel { to, after, output } => {
                let after = match output {
                    Output::Confirm { .. } if self.hasty => 0,
                    _ => after,
                };
                let channel = to.channel.number();
                self.channels
                    .entry(channel)
                    .or_default()
                    .push_back((after, output));
            }
            Effect::Connection { after, output, .. } => self.connection.push_back((after, output)),
            Effect::Session { .. } | Effect::Fetch { .. } => {}
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.channels.values().all(VecDeque::is_empty) && self.connection.is_empty()
    }

    /// Moves what may go out to `out`. Returns the bytes of deliveries in it.
    pub(crate) fn release(&mut self, committed: u64, out: &mut VecDeque<Heard>) -> u64 {
        let mut drained = 0;
        for (channel, outputs) in &mut self.channels {
            let mut is_held = false;
            let mut kept = VecDeque::new();
            for (after, output) in std::mem::take(outputs) {
                if is_held || after > committed {
                    is_held |= !matches!(output, Output::Confirm { .. });
                    kept.push_back((after, output));
                    continue;
                }
                if let Output::Deliver { message, .. } | Output::GetOk { message, .. } = &output {
                    drained += credit_bytes(message);
                }
                if matches!(
                    output,
                    Output::Reply(Reply::ChannelClosed) | Output::Refused { .. }
                ) {
                    // Nothing may follow the end of a channel, late confirms neither.
                    kept.clear();
                }
                out.push_back(Heard {
                    channel: *channel,
                    what: heard(&output),
                });
            }
            *outputs = kept;
        }
        while let Some((after, _)) = self.connection.front() {
            if *after > committed {
                break;
            }
            self.connection.pop_front();
            out.push_back(Heard {
                channel: 0,
                what: What::Gone,
            });
        }
        drained
    }
}

fn heard(output: &Output) -> What {
    match output {
        Output::Reply(reply) => What::Reply(reply.clone()),
        Output::Deliver {
            consumer_tag,
            delivery_tag,
            redelivered,
            message,
            properties: _,
        } => What::Content {
            consumer_tag: Some(consumer_tag.as_bytes().to_vec()),
            delivery_tag: delivery_tag.0,
            redelivered: *redelivered,
            body: message.body_parts().collect(),
        },
        Output::GetOk {
            delivery_tag,
            redelivered,
            message,
            ..
        } => What::Content {
            consumer_tag: None,
            delivery_tag: delivery_tag.0,
            redelivered: *redelivered,
            body: message.body_parts().collect(),
        },
        Output::Return { message } => What::Returned {
            body: message.body_parts().collect(),
        },
        Output::Confirm { sequence, accepted } => What::Confirm {
            sequence: *sequence,
            multiple: false,
            accepted: *accepted,
        },
        Output::Cancelled { .. } => What::Cancelled,
        Output::Refused { refusal, .. } => What::Refused {
            why: format!("{refusal:?}"),
        },
    }
}
