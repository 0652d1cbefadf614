//! A small client's side of AMQP 0-9-1, written on its own so that a mistake of the broker's
//! codec is not made twice.

mod decode;
mod encode;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::speech::{Heard, Say, What};

/// What the handshake waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Start,
    Tune,
    Open,
    Running,
}

/// A message on its way in.
#[derive(Debug)]
struct Assembly {
    what: What,
    /// `None` before the content header.
    missing: Option<u64>,
    parts: Vec<Bytes>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Codec {
    phase: Phase,
    /// What waits for the handshake.
    held: Vec<Say>,
    /// To the broker.
    up: Vec<u8>,
    /// From the broker: not yet a whole frame.
    kept: Vec<u8>,
    assemblies: BTreeMap<u16, Assembly>,
    heard: VecDeque<Heard>,
    /// The broker broke the protocol.
    failure: Option<String>,
}

impl Codec {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Start,
            held: Vec::new(),
            up: b"AMQP\0\0\x09\x01".to_vec(),
            kept: Vec::new(),
            assemblies: BTreeMap::new(),
            heard: VecDeque::new(),
            failure: None,
        }
    }

    pub(crate) fn say(&mut self, say: Say) {
        if self.phase == Phase::Running {
            encode::say(&mut self.up, &say);
        } else {
            self.held.push(say);
        }
    }

    /// Whether bytes wait to be sent.
    pub(crate) fn has_up(&self) -> bool {
        !self.up.is_empty()
    }

    /// Takes the first bytes that are to be sent.
    pub(crate) fn take_up(&mut self, count: usize) -> Vec<u8> {
        self.up.drain(..count.min(self.up.len())).collect()
    }

    pub(crate) fn up_bytes(&self) -> usize {
        self.up.len()
    }

    /// What comes next. A channel that the broker closed is confirmed closed now, not when the
    /// bytes came: until now the client went on talking on it.
    pub(crate) fn hear(&mut self) -> Option<Heard> {
        let heard = self.heard.pop_front()?;
        if matches!(heard.what, What::Refused(_)) {
            encode::method(&mut self.up, heard.channel, (20, 41), |_| {});
        }
        Some(heard)
    }

    pub(crate) fn has_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Takes bytes of the broker, split anywhere.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        while let Some(frame) = decode::split(&mut self.kept) {
            if let Err(why) = self.frame(&frame) {
                let what = format!("the broker's frame {frame:?} is wrong: {why}");
                self.failure.get_or_insert(what);
            }
        }
    }
}
