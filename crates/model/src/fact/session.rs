//! What happens to MQTT sessions, as the journal records it.
//!
//! A session is a queue without a name, and that queue's id is its number. What its clients wait
//! for is in its entries like those of any other queue; what else it knows stands here.

use std::sync::Arc;

use bytes::Bytes;

use super::decode::decode_extent;
use super::decode::{decode_message, decode_time, length};
use super::encode::encode_extent;
use super::encode::encode_time;
use super::{Extent, FactError, Origin};
use crate::wire::{Reader, Writer};
use crate::{Message, Name, QueueId, Sequence};

/// A change of a stored session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// It is there.
    Opened {
        /// The client's identifier, of at most 65,535 bytes.
        client_id: Bytes,
        /// The user that it belongs to.
        user: Name,
        /// It outlives its connection: what waits for it is recorded.
        durable: bool,
    },
    /// It is gone, with all that it has.
    Ended,
    /// Its client came or went.
    State(SessionState),
    /// It has a subscription, in the place of the one that had its filter.
    Subscribed(Subscription),
    /// A subscription is gone.
    Unsubscribed {
        /// Its topic filter as the client wrote it.
        filter: Bytes,
    },
    /// A message of QoS 2 came in: another with its packet identifier is the same one.
    PacketReceived {
        /// The packet identifier.
        packet_id: u16,
    },
    /// The client released a packet identifier: the next message with it is another one.
    PacketReleased {
        /// The packet identifier.
        packet_id: u16,
    },
    /// The client has a message of QoS 2 that was sent to it: it gets the release, and never the
    /// message again.
    DeliveryReceived {
        /// The entry of its queue.
        sequence: Sequence,
    },
    /// Entries of the queue of a group came to the session: they are out there, and leave that
    /// queue when they leave the session's.
    Lent {
        /// The group's queue.
        group: QueueId,
        /// Which entries.
        entries: Vec<Lent>,
    },
    /// Entries that came from groups are in their queues again, and not in the session's.
    GivenBack {
        /// Which entries.
        entries: Vec<GivenBack>,
    },
    /// Retained messages are on their way to a subscription, in the order of their topics.
    RetainedBehind {
        /// The topic filter.
        filter: Bytes,
        /// The options that they are sent with.
        options: u8,
        /// The last topic that came; empty where none did.
        topic: Bytes,
    },
    /// All retained messages came that were on their way to a subscription.
    RetainedCame {
        /// The topic filter.
        filter: Bytes,
    },
}

/// An entry of a group's queue that came to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Its place in the session's queue.
    pub here: Sequence,
    /// Its place in the group's queue.
    pub there: Sequence,
}

/// An entry of a session that goes back to the queue of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenBack {
    /// Its place in the session's queue.
    pub sequence: Sequence,
    /// The client may have got it.
    pub was_sent: bool,
}

/// A retained message, by reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The record that has it; index 0 is that which says so, of which it is that part.
    pub origin: Origin,
    /// Its size.
    pub extent: Extent,
    /// Milliseconds since 1970 at which it is no longer retained.
    pub expires_at: Option<u64>,
    /// As which it was published.
    pub qos: u8,
}

/// What comes and goes with the client's connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// Seconds that the session outlives its connection; `u32::MAX` is for ever.
    pub expiry: u32,
    /// When its connection ended, in milliseconds since 1970; `None` while it has one.
    pub left_at: Option<u64>,
    /// What is to be published when the client is gone.
    pub will: Option<Box<Will>>,
}

/// A will message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// The message, with its topic in its notes.
    pub message: Arc<Message>,
    /// As which it is published.
    pub qos: u8,
    /// Whether it is retained.
    pub retain: bool,
    /// Seconds that it waits for the client to come back.
    pub delay: u32,
    /// Seconds that it lives once it is published.
    pub expiry: Option<u32>,
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topic filter as the client wrote it.
    pub filter: Bytes,
    /// Its options as on the wire (MQTT 5.0 §3.8.3.1).
    pub options: u8,
    /// Its subscription identifier; 0 is none.
    pub id: u32,
}

const OPENED: u8 = 1;
const ENDED: u8 = 2;
const STATE: u8 = 3;
const SUBSCRIBED: u8 = 4;
const UNSUBSCRIBED: u8 = 5;
const PACKET_RECEIVED: u8 = 6;
const PACKET_RELEASED: u8 = 7;
const DELIVERY_RECEIVED: u8 = 8;
const LENT: u8 = 9;
const GIVEN_BACK: u8 = 10;
const RETAINED_BEHIND: u8 = 11;
const RETAINED_CAME: u8 = 12;

impl SessionChange {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Opened {
                client_id,
                user,
                durable,
            } => {
                out.put_u8(OPENED);
                out.put_u8(u8::from(*durable));
                out.put_short_string(user.as_bytes());
                out.put(client_id);
            }
            Self::Ended => out.put_u8(ENDED),
            Self::State(state) => {
                out.put_u8(STATE);
                state.encode(out);
            }
            Self::Subscribed(subscription) => {
                out.put_u8(SUBSCRIBED);
                out.put_u8(subscription.options);
                out.put_varint(subscription.id.into());
                out.put(&subscription.filter);
            }
            Self::Unsubscribed { filter } => {
                out.put_u8(UNSUBSCRIBED);
                out.put(filter);
            }
            Self::PacketReceived { packet_id } => {
                out.put_u8(PACKET_RECEIVED);
                out.put_u16(*packet_id);
            }
            Self::PacketReleased { packet_id } => {
                out.put_u8(PACKET_RELEASED);
                out.put_u16(*packet_id);
            }
            Self::DeliveryReceived { sequence } => {
                out.put_u8(DELIVERY_RECEIVED);
                out.put_varint(sequence.0);
            }
            Self::Lent { group, entries } => {
                out.put_u8(LENT);
                out.put_varint(group.0);
                out.put_varint(entries.len() as u64);
                for lent in entries {
                    out.put_varint(lent.here.0);
                    out.put_varint(lent.there.0);
                }
            }
            Self::GivenBack { entries } => {
                out.put_u8(GIVEN_BACK);
                out.put_varint(entries.len() as u64);
                for given in entries {
                    out.put_varint(given.sequence.0);
                    out.put_u8(u8::from(given.was_sent));
                }
            }
            Self::RetainedBehind {
                filter,
                options,
                topic,
            } => {
                out.put_u8(RETAINED_BEHIND);
                out.put_u8(*options);
                out.put_varint(topic.len() as u64);
                out.put(topic);
                out.put(filter);
            }
            Self::RetainedCame { filter } => {
                out.put_u8(RETAINED_CAME);
                out.put(filter);
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, FactError> {
        Ok(match reader.u8()? {
            OPENED => Self::Opened {
                durable: reader.u8()? & 1 != 0,
                user: Name::new(reader.short_string()?).ok_or(FactError::Invalid("name"))?,
                client_id: rest(reader)?,
            },
            ENDED => Self::Ended,
            STATE => Self::State(SessionState::decode(reader)?),
            SUBSCRIBED => Self::Subscribed(Subscription {
                options: reader.u8()?,
                id: number(reader)?,
                filter: rest(reader)?,
            }),
            UNSUBSCRIBED => Self::Unsubscribed {
                filter: rest(reader)?,
            },
            PACKET_RECEIVED => Self::PacketReceived {
                packet_id: reader.u16()?,
            },
            PACKET_RELEASED => Self::PacketReleased {
                packet_id: reader.u16()?,
            },
            DELIVERY_RECEIVED => Self::DeliveryReceived {
                sequence: Sequence(reader.varint()?),
            },
            LENT => Self::Lent {
                group: QueueId(reader.varint()?),
                entries: several(reader, |reader| {
                    Ok(Lent {
                        here: Sequence(reader.varint()?),
                        there: Sequence(reader.varint()?),
                    })
                })?,
            },
            GIVEN_BACK => Self::GivenBack {
                entries: several(reader, |reader| {
                    Ok(GivenBack {
                        sequence: Sequence(reader.varint()?),
                        was_sent: reader.u8()? != 0,
                    })
                })?,
            },
            RETAINED_BEHIND => Self::RetainedBehind {
                options: reader.u8()?,
                topic: {
                    let length = length(reader)?;
                    Bytes::copy_from_slice(reader.bytes(length)?)
                },
                filter: rest(reader)?,
            },
            RETAINED_CAME => Self::RetainedCame {
                filter: rest(reader)?,
            },
            _ => return Err(FactError::Invalid("change of a session")),
        })
    }
}

impl SessionState {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.expiry.into());
        encode_time(self.left_at, out);
        match &self.will {
            None => out.put_u8(0),
            Some(will) => will.encode(out),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, FactError> {
        Ok(Self {
            expiry: number(reader)?,
            left_at: decode_time(reader)?,
            will: Will::decode(reader)?.map(Box::new),
        })
    }
}

impl Will {
    fn encode(&self, out: &mut Vec<u8>) {
        let message = &self.message;
        out.put_u8(1);
        out.put_u8(self.qos << 1 | u8::from(self.retain));
        out.put_varint(self.delay.into());
        encode_time(self.expiry.map(u64::from), out);
        out.put_varint(message.notes().len() as u64);
        out.put(message.notes());
        out.put_short_string(message.exchange());
        out.put_short_string(message.routing_key());
        out.put_long_string(message.properties());
        for part in message.body_parts() {
            out.put(&part);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Option<Self>, FactError> {
        match reader.u8()? {
            0 => return Ok(None),
            1 => {}
            _ => return Err(FactError::Invalid("will flag")),
        }
        let flags = reader.u8()?;
        let delay = number(reader)?;
        let expiry = decode_time(reader)?.map(to_u32).transpose()?;
        let length = length(reader)?;
        let notes = reader.bytes(length)?;
        let message = decode_message(reader, None)?;
        Ok(Some(Self {
            message: Arc::new(Arc::unwrap_or_clone(message).with_notes(notes)),
            qos: flags >> 1,
            retain: flags & 1 != 0,
            delay,
            expiry,
        }))
    }
}

impl Kept {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.origin.index);
        out.put_varint(self.origin.part.into());
        encode_extent(&self.extent, out);
        encode_time(self.expires_at, out);
        out.put_u8(self.qos);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, FactError> {
        Ok(Self {
            origin: Origin {
                index: reader.varint()?,
                part: number(reader)?,
            },
            extent: decode_extent(reader)?,
            expires_at: decode_time(reader)?,
            qos: reader.u8()?,
        })
    }
}

/// A list, of which each takes two bytes at the least.
fn several<T>(
    reader: &mut Reader<'_>,
    mut one: impl FnMut(&mut Reader<'_>) -> Result<T, FactError>,
) -> Result<Vec<T>, FactError> {
    let count = length(reader)?;
    if count > reader.rest().len() / 2 {
        return Err(FactError::Invalid("count"));
    }
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(one(reader)?);
    }
    Ok(all)
}

fn rest(reader: &mut Reader<'_>) -> Result<Bytes, FactError> {
    let rest = reader.bytes(reader.rest().len())?;
    Ok(Bytes::copy_from_slice(rest))
}

fn number(reader: &mut Reader<'_>) -> Result<u32, FactError> {
    to_u32(reader.varint()?)
}

fn to_u32(number: u64) -> Result<u32, FactError> {
    u32::try_from(number).map_err(|_| FactError::Invalid("number"))
}
