//! What a broker says, from frames.

use bytes::Bytes;
use menzil_core::Reply;
use menzil_model::Name;
use menzil_model::wire::{Reader, Truncated};

use super::{Assembly, Codec, Phase, encode};
use crate::speech::{Heard, What};

/// One frame.
#[derive(Debug)]
pub(super) struct Frame {
    kind: u8,
    channel: u16,
    payload: Vec<u8>,
    end: u8,
}

/// Takes the first whole frame out of `kept`.
pub(super) fn split(kept: &mut Vec<u8>) -> Option<Frame> {
    let mut reader = Reader::new(kept);
    let kind = reader.u8().ok()?;
    let channel = reader.u16().ok()?;
    let size = usize::try_from(reader.u32().ok()?).ok()?;
    let payload = reader.bytes(size).ok()?.to_vec();
    let end = reader.u8().ok()?;
    kept.drain(..size + 8);
    Some(Frame {
        kind,
        channel,
        payload,
        end,
    })
}

impl Codec {
    pub(super) fn frame(&mut self, frame: &Frame) -> Result<(), String> {
        if frame.end != 0xCE {
            return Err(format!("it ends with {}", frame.end));
        }
        if frame.payload.len() + 8 > encode::FRAME_BYTES_MAX && self.phase == Phase::Running {
            return Err("it is larger than agreed".to_owned());
        }
        match frame.kind {
            1 => {
                if self.assemblies.contains_key(&frame.channel) {
                    return Err("a method in the middle of a content".to_owned());
                }
                self.method(frame)
                    .map_err(|Truncated| "it ends early".to_owned())?
            }
            2 => self.header(frame),
            3 => self.body(frame),
            8 => Ok(()),
            kind => Err(format!("type {kind}")),
        }
    }

    fn header(&mut self, frame: &Frame) -> Result<(), String> {
        let assembly = self.assemblies.get_mut(&frame.channel);
        let Some(assembly) = assembly.filter(|assembly| assembly.missing.is_none()) else {
            return Err("a header that nobody waits for".to_owned());
        };
        let mut reader = Reader::new(&frame.payload);
        let size = (|| {
            reader.u16()?;
            reader.u16()?;
            reader.u64()
        })();
        assembly.missing = Some(size.map_err(|Truncated| "it ends early".to_owned())?);
        self.complete(frame.channel);
        Ok(())
    }

    fn body(&mut self, frame: &Frame) -> Result<(), String> {
        let Some(Assembly {
            missing: Some(missing),
            parts,
            ..
        }) = self.assemblies.get_mut(&frame.channel)
        else {
            return Err("a body that nobody waits for".to_owned());
        };
        let Some(left) = missing.checked_sub(frame.payload.len() as u64) else {
            return Err("more body than announced".to_owned());
        };
        *missing = left;
        parts.push(Bytes::copy_from_slice(&frame.payload));
        self.complete(frame.channel);
        Ok(())
    }

    /// Hands out a message that is whole.
    fn complete(&mut self, channel: u16) {
        let whole = self
            .assemblies
            .get(&channel)
            .is_some_and(|a| a.missing == Some(0));
        if !whole {
            return;
        }
        let Some(mut assembly) = self.assemblies.remove(&channel) else {
            return;
        };
        if let What::Content { body, .. } | What::Returned { body } = &mut assembly.what {
            *body = assembly.parts;
        }
        self.heard.push_back(Heard {
            channel,
            what: assembly.what,
        });
    }

    fn method(&mut self, frame: &Frame) -> Result<Result<(), String>, Truncated> {
        let mut reader = Reader::new(&frame.payload);
        let id = (reader.u16()?, reader.u16()?);
        if frame.channel == 0 {
            return Ok(self.connection_method(id, &mut reader));
        }
        let what = match id {
            (20, 40) => {
                let (code, text) = (reader.u16()?, reader.short_string()?);
                What::Refused(format!("{code} {}", String::from_utf8_lossy(text)))
            }
            (60, 30) => What::Cancelled,
            (60, 80) => What::Confirm {
                sequence: reader.u64()?,
                multiple: reader.u8()? & 1 == 1,
                accepted: true,
            },
            (60, 120) => What::Confirm {
                sequence: reader.u64()?,
                multiple: reader.u8()? & 1 == 1,
                accepted: false,
            },
            (60, 60) => {
                let what = What::Content {
                    consumer_tag: Some(reader.short_string()?.to_vec()),
                    delivery_tag: reader.u64()?,
                    redelivered: reader.u8()? & 1 == 1,
                    body: Vec::new(),
                };
                return Ok(self.assemble(frame.channel, what));
            }
            (60, 71) => {
                let what = What::Content {
                    consumer_tag: None,
                    delivery_tag: reader.u64()?,
                    redelivered: reader.u8()? & 1 == 1,
                    body: Vec::new(),
                };
                return Ok(self.assemble(frame.channel, what));
            }
            (60, 50) => {
                if reader.u16()? != 312 {
                    return Ok(Err("a return that is not 312".to_owned()));
                }
                let what = What::Returned { body: Vec::new() };
                return Ok(self.assemble(frame.channel, what));
            }
            _ => match reply(id, &mut reader)? {
                Some(reply) => What::Reply(reply),
                None => return Ok(Err(format!("no such method: {id:?}"))),
            },
        };
        self.heard.push_back(Heard {
            channel: frame.channel,
            what,
        });
        Ok(Ok(()))
    }

    fn assemble(&mut self, channel: u16, what: What) -> Result<(), String> {
        self.assemblies.insert(
            channel,
            Assembly {
                what,
                missing: None,
                parts: Vec::new(),
            },
        );
        Ok(())
    }

    fn connection_method(&mut self, id: (u16, u16), reader: &mut Reader<'_>) -> Result<(), String> {
        match (id, self.phase) {
            ((10, 10), Phase::Start) => {
                encode::start_ok(&mut self.up);
                self.phase = Phase::Tune;
            }
            ((10, 30), Phase::Tune) => {
                encode::tune_ok(&mut self.up);
                encode::open(&mut self.up);
                self.phase = Phase::Open;
            }
            ((10, 41), Phase::Open) => {
                self.phase = Phase::Running;
                for say in std::mem::take(&mut self.held) {
                    encode::say(&mut self.up, &say);
                }
            }
            ((10, 51), Phase::Running) => self.heard.push_back(Heard {
                channel: 0,
                what: What::Gone,
            }),
            ((10, 50), _) => {
                let code = reader.u16().unwrap_or_default();
                let text = reader.short_string().unwrap_or_default();
                let text = String::from_utf8_lossy(text);
                return Err(format!("connection.close {code} {text}"));
            }
            _ => return Err(format!("{id:?} in {:?}", self.phase)),
        }
        Ok(())
    }
}

fn reply(id: (u16, u16), reader: &mut Reader<'_>) -> Result<Option<Reply>, Truncated> {
    Ok(Some(match id {
        (20, 11) => Reply::ChannelOpened,
        (20, 41) => Reply::ChannelClosed,
        (40, 11) => Reply::ExchangeDeclareOk,
        (40, 21) => Reply::ExchangeDeleteOk,
        (40, 31) => Reply::ExchangeBindOk,
        (40, 51) => Reply::ExchangeUnbindOk,
        (50, 11) => Reply::QueueDeclareOk {
            queue: Name::cut(reader.short_string()?),
            message_count: reader.u32()?,
            consumer_count: reader.u32()?,
        },
        (50, 21) => Reply::QueueBindOk,
        (50, 31) => Reply::QueuePurgeOk {
            message_count: reader.u32()?,
        },
        (50, 41) => Reply::QueueDeleteOk {
            message_count: reader.u32()?,
        },
        (50, 51) => Reply::QueueUnbindOk,
        (60, 11) => Reply::QosOk,
        (60, 21) => Reply::ConsumeOk {
            consumer_tag: Name::cut(reader.short_string()?),
        },
        (60, 31) => Reply::CancelOk {
            consumer_tag: Name::cut(reader.short_string()?),
        },
        (60, 72) => Reply::GetEmpty,
        (60, 111) => Reply::RecoverOk,
        (85, 11) => Reply::ConfirmSelectOk,
        (90, 11) => Reply::TxSelectOk,
        (90, 21) => Reply::TxCommitOk,
        (90, 31) => Reply::TxRollbackOk,
        _ => return Ok(None),
    }))
}
