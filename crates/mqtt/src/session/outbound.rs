//! The transmitting half of a connection: effects in, bytes out.
//!
//! Other connections' tasks put messages in, so it stands behind the driver's lock and shares
//! nothing with [`crate::Inbound`]. It lacks sockets and clocks. Nothing leaves before the journal
//! has committed the index that it names. CONNACK leaves first; then two lanes leave each in the
//! order in which it was decided: answers, so that each PUBACK and PUBREC keeps the
//! order of its PUBLISH (MQTT-4.6.0-2, MQTT-4.6.0-3), and copies, each PUBREL among them
//! (MQTT-4.6.0-4).

mod aliases;
mod answer;
mod template;

use std::collections::VecDeque;

use menzil_core::{
    Body, Copy, CopyContent, Effect, EndReason, Outbox, OwnedCopy, Sending, SessionOutput,
    SessionRequest, Verdict,
};
use menzil_model::ConnectionId;
use menzil_model::wire::Writer;

use self::aliases::Aliases;
use self::answer::Answer;
use self::template::Template;
use super::action::{Accepted, Outgoing};
use super::config::Denied;
use super::fault::Fault;
use crate::codec::{Disconnect, Properties, ReasonCode, Version};

/// The transmitting half of one connection.
#[derive(Debug)]
pub struct Outbound {
    outbox: Outbox,
    version: Version,
    packet_bytes_max: u32,
    refused_before_5: Denied,
    /// Acknowledgements that say no say why.
    explains: bool,
    optional_codes: bool,
    stage: Stage,
    committed: u64,
    answers: VecDeque<(u64, Answer)>,
    copies: VecDeque<(u64, Held)>,
    /// Of the last copy.
    template: Option<Box<Template>>,
    aliases: Option<Box<Aliases>>,
    requests: Vec<SessionRequest>,
    credit: u64,
    answered: u64,
    oversized: u64,
    last_sent_ms: u64,
    failure: Option<Fault>,
}

/// How far the connection is.
#[derive(Debug)]
enum Stage {
    /// Nobody was let in.
    Before,
    /// CONNACK waits for the core.
    Accepted(Box<Accepted>),
    /// CONNACK is on its way.
    Open,
    /// The last word was said.
    Over,
}

/// A copy, or what keeps its place among copies.
#[derive(Debug)]
enum Held {
    Copy(OwnedCopy),
    Release { packet_id: u16, is_known: bool },
}

impl Outbound {
    /// For a connection whose socket was accepted at that time.
    pub fn new(now_ms: u64) -> Self {
        Self {
            outbox: Outbox::default(),
            version: Version::V3_1_1,
            packet_bytes_max: u32::MAX,
            refused_before_5: Denied::default(),
            explains: false,
            optional_codes: true,
            stage: Stage::Before,
            committed: 0,
            answers: VecDeque::new(),
            copies: VecDeque::new(),
            template: None,
            aliases: None,
            requests: Vec::new(),
            credit: 0,
            answered: 0,
            oversized: 0,
            last_sent_ms: now_ms,
            failure: None,
        }
    }

    /// Takes an effect for this connection.
    pub fn handle(&mut self, effect: Effect) {
        match effect {
            Effect::Session { to, after, output } => self.output(to, after, output),
            // Nobody sends a session's connection what is for a channel, and when the core has let
            // go of one there is nothing to say.
            Effect::Channel { .. } | Effect::Connection { .. } | Effect::Fetch { .. } => {}
        }
    }

    fn output(&mut self, to: ConnectionId, after: u64, output: SessionOutput) {
        match output {
            SessionOutput::Opened { session_present } => {
                self.answer(after, Answer::Opened { session_present });
            }
            SessionOutput::Copy(copy) => self.deliver_copy(&copy.borrowed(to, after)),
            SessionOutput::Published {
                packet_id,
                qos,
                verdict,
            } => {
                let reason = match verdict {
                    Verdict::Accepted => ReasonCode::Success,
                    Verdict::NoMatch if qos == 2 && !self.optional_codes => ReasonCode::Success,
                    Verdict::NoMatch => ReasonCode::NoMatchingSubscribers,
                    Verdict::Full => ReasonCode::QuotaExceeded,
                };
                self.published(after, packet_id, qos, reason);
            }
            SessionOutput::Release {
                packet_id,
                is_known,
            } => self.release_packet(after, packet_id, is_known || !self.optional_codes),
            SessionOutput::Completed {
                packet_id,
                is_known,
            } => {
                let answer = Answer::Completed {
                    packet_id,
                    is_known: is_known || !self.optional_codes,
                };
                self.answer(after, answer);
            }
            SessionOutput::Subscribed { packet_id, codes } => {
                self.answer(after, Answer::Subscribed { packet_id, codes });
            }
            SessionOutput::Unsubscribed {
                packet_id,
                were_there,
            } => {
                let code = |was_there: bool| {
                    if was_there {
                        ReasonCode::Success
                    } else {
                        ReasonCode::NoSubscriptionExisted
                    }
                };
                let codes = were_there.into_iter().map(|was| code(was).number());
                let answer = Answer::Unsubscribed {
                    packet_id,
                    codes: codes.collect(),
                };
                self.answer(after, answer);
            }
            SessionOutput::Ended(reason) => self.ended(reason),
        }
    }

    /// Takes a message: encodes it at once if it may leave now, else keeps it.
    #[inline]
    pub fn deliver_copy(&mut self, copy: &Copy<'_>) {
        if copy.after <= self.committed && self.copies.is_empty() && self.is_open() {
            self.write_copy(copy);
        } else if self.is_mute() {
            self.credit += copy.credit_bytes();
        } else {
            self.copies
                .push_back((copy.after, Held::Copy(copy.to_owned())));
        }
    }

    fn release_packet(&mut self, after: u64, packet_id: u16, is_known: bool) {
        if self.is_mute() {
            return;
        }
        let held = Held::Release {
            packet_id,
            is_known,
        };
        self.copies.push_back((after, held));
        self.release_copies();
    }

    /// PUBACK or PUBREC.
    #[inline]
    fn published(&mut self, after: u64, packet_id: u16, qos: u8, reason: ReasonCode) {
        self.answer(
            after,
            Answer::Published {
                packet_id,
                qos,
                reason,
            },
        );
    }

    #[inline]
    fn answer(&mut self, after: u64, answer: Answer) {
        if self.is_mute() {
            return;
        }
        if after <= self.committed && self.answers.is_empty() && self.is_open() {
            self.write_answer(&answer);
        } else {
            self.answers.push_back((after, answer));
            self.release_answers();
        }
    }

    /// Takes what the protocol session itself has to say.
    pub fn send(&mut self, outgoing: Outgoing) {
        if self.is_mute() && !matches!(outgoing, Outgoing::Last(_)) {
            return;
        }
        match outgoing {
            Outgoing::Accepted(accepted) => {
                self.version = accepted.version;
                self.packet_bytes_max = accepted.packet_bytes_max;
                self.refused_before_5 = accepted.refused_before_5;
                self.explains = accepted.explains;
                self.optional_codes = accepted.optional_codes;
                self.aliases = (accepted.topic_alias_max > 0)
                    .then(|| Box::new(Aliases::new(accepted.topic_alias_max)));
                self.stage = Stage::Accepted(accepted);
            }
            Outgoing::Refused {
                packet_id,
                qos,
                reason,
            } => self.published(0, packet_id, qos, reason),
            Outgoing::PingResp => self.packet(&[0xD0, 0]),
            Outgoing::Packet(packet) => self.packet(&packet),
            Outgoing::Last(packet) => {
                // Nothing goes before CONNACK (MQTT-3.2.0-1).
                if matches!(self.stage, Stage::Before | Stage::Open) {
                    self.outbox.write(|out| out.put(&packet));
                }
                self.failure = None;
                self.fall_silent();
            }
        }
    }

    /// A packet that overtakes all but CONNACK.
    fn packet(&mut self, packet: &[u8]) {
        if let Stage::Accepted(_) = self.stage {
            self.answers.push_back((0, Answer::Packet(packet.to_vec())));
        } else {
            self.outbox.write(|out| out.put(packet));
        }
    }

    /// The core has let go of the connection.
    fn ended(&mut self, reason: EndReason) {
        if matches!(self.stage, Stage::Over) {
            return;
        }
        if self.version.is_5() && self.is_open() {
            let reason = match reason {
                EndReason::TakenOver => ReasonCode::SessionTakenOver,
                EndReason::TooManyAtOnce => ReasonCode::ReceiveMaximumExceeded,
                EndReason::WrongAck => ReasonCode::ProtocolError,
                EndReason::LimitReached => ReasonCode::QuotaExceeded,
                EndReason::Administrative => ReasonCode::AdministrativeAction,
            };
            let disconnect = Disconnect {
                reason,
                properties: Properties::EMPTY,
            };
            // It is three bytes long, which a client takes that took its CONNACK.
            self.outbox.write(|out| {
                let _ = disconnect.encode(Version::V5, out);
            });
        }
        self.fall_silent();
    }

    /// The journal has committed up to that index: what waited for it is released.
    pub fn committed(&mut self, index: u64) {
        if index > self.committed {
            self.committed = index;
            self.release_answers();
            self.release_copies();
        }
    }

    /// The smallest index that something waits for.
    pub fn waits_for(&self) -> Option<u64> {
        let answer = self.answers.front().map(|(after, _)| *after);
        let copy = self.copies.front().map(|(after, _)| *after);
        [answer, copy]
            .into_iter()
            .flatten()
            .filter(|after| *after > self.committed)
            .min()
    }

    /// Encodes what is due; before [`Outbound::hand_over`].
    pub fn flush(&mut self) {
        self.release_answers();
        self.release_copies();
    }

    /// Hands over what is to be sent, if everything that was handed over before is. The caller
    /// sends it without holding the outbound, then says [`Outbound::has_sent`].
    pub fn hand_over(&mut self, sending: &mut Sending) {
        sending.take_over(&mut self.outbox);
    }

    /// Something that was handed over was sent.
    pub fn has_sent(&mut self, now_ms: u64) {
        self.last_sent_ms = now_ms;
    }

    /// Requests that the core is to hear in the client's name: what is too large for the client
    /// is never sent to it and counts as acknowledged (MQTT-3.1.2-25). To be taken after each
    /// batch of effects and each commit; empty but in that case.
    #[must_use]
    pub fn take_requests(&mut self) -> Vec<SessionRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Whether [`Outbound::take_requests`] has some.
    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Messages that were too large for the client.
    pub fn oversized(&self) -> u64 {
        self.oversized
    }

    /// Credit of copies that were dropped instead of sent.
    pub fn take_credit(&mut self) -> u64 {
        std::mem::take(&mut self.credit)
    }

    /// Publishes of this connection that are through, as the client was or will be told: PUBACK,
    /// PUBCOMP and PUBREC with an error.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Bytes that are encoded and not sent; see [`Outbound::flush`].
    pub fn pending_bytes(&self) -> usize {
        self.outbox.pending_bytes()
    }

    /// When something was last sent.
    pub fn last_sent_ms(&self) -> u64 {
        self.last_sent_ms
    }

    /// An idle connection keeps no buffers. To be called now and then, such as with
    /// [`super::Inbound::timeout`].
    pub fn rest(&mut self) {
        if self.outbox.pending_bytes() == 0 {
            self.outbox.shrink();
            self.template = None;
        }
        self.answers.shrink_to_fit();
        self.copies.shrink_to_fit();
    }

    /// Why the connection cannot go on. The driver then calls [`super::Inbound::fail`]; nothing
    /// more is sent until it has.
    pub fn failure(&self) -> Option<&Fault> {
        self.failure.as_ref()
    }

    /// For tests and the simulation.
    ///
    /// # Panics
    /// Where something is forgotten.
    pub fn check_invariants(&self) {
        self.outbox.check_invariants();
        let is_due = |after: Option<u64>| after.is_some_and(|after| after <= self.committed);
        if self.is_open() && self.failure.is_none() {
            let answer = self.answers.front().map(|(after, _)| *after);
            let copy = self.copies.front().map(|(after, _)| *after);
            assert!(!is_due(answer), "an answer that is due waits");
            assert!(!is_due(copy), "a copy that is due waits");
        }
        let is_empty = self.answers.is_empty() && self.copies.is_empty();
        let is_over = matches!(self.stage, Stage::Over);
        assert!(!is_over || is_empty, "something waits behind the last word");
    }

    #[inline]
    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open) && self.failure.is_none()
    }

    fn is_mute(&self) -> bool {
        self.failure.is_some() || matches!(self.stage, Stage::Over)
    }

    fn release_answers(&mut self) {
        while let Some((after, answer)) = self.answers.front() {
            let is_first =
                matches!(self.stage, Stage::Accepted(_)) && matches!(answer, Answer::Opened { .. });
            if *after > self.committed || !(self.is_open() || is_first) {
                return;
            }
            if let Some((_, answer)) = self.answers.pop_front() {
                self.write_answer(&answer);
            }
        }
    }

    fn release_copies(&mut self) {
        while let Some((after, _)) = self.copies.front() {
            if *after > self.committed || !self.is_open() {
                return;
            }
            match self.copies.pop_front() {
                Some((after, Held::Copy(copy))) => {
                    self.write_copy(&copy.borrowed(ConnectionId(0), after));
                }
                Some((
                    _,
                    Held::Release {
                        packet_id,
                        is_known,
                    },
                )) => self.write_answer(&Answer::Release {
                    packet_id,
                    is_known,
                }),
                None => {}
            }
        }
    }

    #[inline]
    fn write_copy(&mut self, copy: &Copy<'_>) {
        let payload = Payload::of(copy);
        let payload_bytes = payload.bytes();
        let template = self.template.get_or_insert_default();
        template.prepare(copy, self.version, self.aliases.as_deref_mut());
        let packet_bytes = template.packet_bytes(payload_bytes);
        if packet_bytes > self.packet_bytes_max.min(PACKET_BYTES_MAX) as usize {
            template.drop_unsent(self.aliases.as_deref_mut());
            self.settle_oversized(copy);
            return;
        }
        let start = self.outbox.end();
        self.outbox.write(|out| {
            out.reserve(packet_bytes.min(COPIED_BYTES_MAX));
            template.write(copy, payload_bytes, out);
            if let Payload::Inside(bytes) = payload {
                out.put(bytes);
            }
        });
        if let Payload::Apart(content) = payload {
            share(&mut self.outbox, content);
        }
        self.outbox.mark(start, copy.credit_bytes());
    }

    /// The client never gets it: it is as if it had it.
    #[cold]
    fn settle_oversized(&mut self, copy: &Copy<'_>) {
        self.oversized += 1;
        self.credit += copy.credit_bytes();
        let packet_id = copy.packet_id;
        match copy.qos {
            0 => {}
            1 => self
                .requests
                .push(SessionRequest::Acknowledge { packet_id }),
            _ => self.requests.push(SessionRequest::Received {
                packet_id,
                is_refused: true,
            }),
        }
    }

    #[inline]
    fn write_answer(&mut self, answer: &Answer) {
        if let Answer::Published { reason, .. } = answer
            && reason.is_error()
            && !self.version.is_5()
        {
            self.refuse_before_5();
            return;
        }
        self.answered += u64::from(answer.ends_publish());
        let mut is_sent = true;
        let (version, most, explains) = (self.version, self.packet_bytes_max, self.explains);
        let stage = &self.stage;
        self.outbox.write(|out| {
            is_sent = match (answer, stage) {
                (Answer::Opened { session_present }, Stage::Accepted(accepted)) => {
                    answer::conn_ack(*session_present, accepted, out)
                }
                _ => answer.encode(version, most, explains, out),
            };
        });
        if !is_sent {
            let text = "an answer is larger than the client's Maximum Packet Size [MQTT-3.1.2-24]";
            self.fail(Fault::new(ReasonCode::PacketTooLarge, text));
        } else if let Answer::Opened { .. } = answer {
            self.stage = Stage::Open;
            self.release_copies();
        }
    }

    /// A publish for which there was no room, of a client whose protocol has no word for it.
    #[cold]
    fn refuse_before_5(&mut self) {
        match self.refused_before_5 {
            Denied::Silent => {}
            Denied::Close => {
                let text = "there is no room for a publish";
                self.fail(Fault::new(ReasonCode::QuotaExceeded, text));
            }
        }
    }

    fn fail(&mut self, fault: Fault) {
        self.drop_waiting();
        self.failure = Some(fault);
    }

    /// The connection's last word is said: what waits is dropped.
    fn fall_silent(&mut self) {
        self.stage = Stage::Over;
        self.drop_waiting();
        self.template = None;
        self.aliases = None;
    }

    fn drop_waiting(&mut self) {
        self.answers = VecDeque::new();
        for (after, held) in std::mem::take(&mut self.copies) {
            if let Held::Copy(copy) = held {
                self.credit += copy.borrowed(ConnectionId(0), after).credit_bytes();
            }
        }
    }
}

/// Where a payload is.
#[derive(Clone, Copy)]
enum Payload<'a> {
    /// In one piece, to be copied.
    Inside(&'a [u8]),
    /// In parts, to be shared.
    Apart(CopyContent<'a>),
}

impl<'a> Payload<'a> {
    #[inline]
    fn of(copy: &Copy<'a>) -> Self {
        match copy.content {
            CopyContent::Stored(message)
                if message.chunks().is_empty()
                    && message.inline_body().len() <= COPIED_BYTES_MAX =>
            {
                Self::Inside(message.inline_body())
            }
            CopyContent::Passing { publish, .. } => match publish.payload {
                Body::Whole(body) => Self::Inside(body),
                Body::Parts(_) => Self::Apart(copy.content),
            },
            CopyContent::Stored(_) => Self::Apart(copy.content),
        }
    }

    #[inline]
    fn bytes(&self) -> usize {
        match self {
            Self::Inside(bytes) => bytes.len(),
            Self::Apart(CopyContent::Stored(message)) => {
                usize::try_from(message.body_bytes()).unwrap_or(usize::MAX)
            }
            Self::Apart(CopyContent::Passing { publish, .. }) => match publish.payload {
                Body::Whole(body) => body.len(),
                Body::Parts(parts) => parts.iter().map(bytes::Bytes::len).sum(),
            },
        }
    }
}

fn share(outbox: &mut Outbox, content: CopyContent<'_>) {
    match content {
        CopyContent::Stored(message) => {
            for part in message.body_parts() {
                outbox.share(part);
            }
        }
        CopyContent::Passing { publish, .. } => match publish.payload {
            Body::Whole(body) => outbox.write(|out| out.put(body)),
            Body::Parts(parts) => parts.iter().for_each(|part| outbox.share(part.clone())),
        },
    }
}

/// A larger stored payload is shared instead.
const COPIED_BYTES_MAX: usize = 4096;
/// More than a remaining length can say, and its fixed header.
const PACKET_BYTES_MAX: u32 = crate::codec::REMAINING_BYTES_MAX + 5;
