//! A client: one connection at a time and some channels on it, each with its own kind of work.

use menzil_core::{ChannelKey, Reply};
use menzil_model::{ChannelId, ConnectionId};

use crate::channel::{Asked, Channel, Role, State};
use crate::oracle::Oracle;
use crate::speech::{Heard, What};

/// See the module.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) number: u64,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) channels: Vec<Channel>,
    /// It said `connection.close`.
    pub(crate) is_leaving: bool,
    pub(crate) roles: Vec<Role>,
}

impl Client {
    pub(crate) fn new(number: u64, roles: Vec<Role>) -> Self {
        Self {
            number,
            connection: None,
            channels: Vec::new(),
            is_leaving: false,
            roles,
        }
    }

    /// A new connection.
    pub(crate) fn connect(&mut self, connection: ConnectionId) {
        self.connection = Some(connection);
        self.is_leaving = false;
        self.channels = (1..)
            .zip(&self.roles)
            .map(|(number, role)| Channel::new(number, *role))
            .collect();
    }

    /// The connection is gone.
    pub(crate) fn cut(&mut self) {
        self.connection = None;
        self.channels.clear();
        self.is_leaving = false;
    }

    /// Takes in what was heard. False where the connection is over.
    pub(crate) fn hear(&mut self, heard: Heard, oracle: &mut Oracle) -> bool {
        let Some(connection) = self.connection else {
            return false;
        };
        let Some(id) = ChannelId::new(heard.channel) else {
            return false;
        };
        let key = ChannelKey {
            connection,
            channel: id,
        };
        let Some(channel) = self.channels.get_mut(usize::from(heard.channel) - 1) else {
            oracle.fail(format!(
                "something came for channel {id:?}, which is not open"
            ));
            return true;
        };
        if channel.state == State::Closed {
            oracle.fail(format!("{:?} came on a closed channel", heard.what));
            return true;
        }
        match heard.what {
            What::Reply(Reply::ChannelClosed) => {
                if oracle.is_refused(key) {
                    // The two closes crossed, and the broker's was not said any more.
                    channel.asked.retain(|asked| *asked == Asked::Close);
                }
                channel.answered(&Reply::ChannelClosed, oracle);
                oracle.replied(key, &Reply::ChannelClosed);
                *channel = Channel::new(channel.number, channel.role);
            }
            What::Reply(reply) => {
                channel.answered(&reply, oracle);
                oracle.replied(key, &reply);
            }
            What::Content {
                consumer_tag,
                delivery_tag,
                redelivered,
                body,
            } => {
                let Some(content) = oracle.received(key, delivery_tag, redelivered, &body) else {
                    return true;
                };
                channel.delivered(consumer_tag.as_deref(), delivery_tag, content, oracle);
            }
            What::Returned { body } => oracle.returned(key, &body),
            What::Confirm {
                sequence,
                multiple,
                accepted,
            } => channel.confirmed(key, sequence, multiple, accepted, oracle),
            What::Cancelled => {}
            What::Refused(_) => {
                let is_closing = channel.state == State::Closing;
                *channel = Channel::new(channel.number, channel.role);
                if is_closing {
                    // The two closes crossed; the answer to ours is still to come.
                    channel.state = State::Closing;
                    channel.asked.push_back(Asked::Close);
                }
                oracle.refusal_heard(key);
            }
            What::Gone => return false,
        }
        true
    }
}
