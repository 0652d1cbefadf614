//! The transmitting half of a connection: effects in, bytes out.
//!
//! Other connections' tasks put deliveries in, so it stands behind the driver's lock and shares
//! nothing with [`crate::Inbound`]. It lacks sockets and clocks. Nothing leaves before the
//! journal has committed the index that it names, and each channel's outputs leave in the order
//! in which they were decided.

mod confirms;
mod encode;
mod lane;
mod template;

use std::io::IoSlice;

use menzil_core::{
    ConnectionOutput, Delivering, Effect, Outbox, Output, Reply, Sending, credit_bytes,
};
use menzil_model::wire::Writer;
use menzil_model::{ChannelId, Message, Name};

use self::confirms::Folded;
use self::lane::{Item, Lane};
use self::template::Envelope;
use crate::action::Outgoing;
use crate::by_channel::ByChannel;
use crate::frame::{FRAME_BYTES_MIN, FRAME_OVERHEAD_BYTES, HEARTBEAT_FRAME};
use crate::handshake::PROTOCOL_HEADER;
use crate::method::MethodId;
use crate::methods::{
    BasicAck, BasicCancel, BasicDeliver, BasicGetOk, BasicNack, BasicReturn, ChannelCloseOk,
    ConnectionBlocked, ConnectionCloseOk, ConnectionOpenOk, ConnectionUnblocked, Method,
};
use crate::refusal;
use crate::violation::{Code, Violation};

/// The transmitting half of one connection.
#[derive(Debug)]
pub struct Outbound {
    outbox: Outbox,
    lanes: ByChannel<Box<Lane>>,
    /// Channels whose lanes hold something.
    holding: Vec<ChannelId>,
    committed: u64,
    frame_bytes_max: u32,
    heartbeat_ms: u64,
    last_sent_ms: u64,
    blocked_notify: bool,
    vhost: Name,
    farewell: Farewell,
    /// Credit of deliveries that were dropped.
    credit: u64,
    failure: Option<Violation>,
}

/// How the connection ends, and how far that is.
#[derive(Debug)]
enum Farewell {
    /// It lives: when the core lets go of it, that is because the client closed.
    CloseOk,
    /// The session ends it when the core has let go of it.
    Exception(Violation),
    /// The core has let go of it, and this index is to be committed.
    Due(u64, Option<Violation>),
    /// It was said.
    Said,
}

impl Outbound {
    /// For a connection whose socket was accepted at that time.
    pub fn new(now_ms: u64) -> Self {
        Self {
            outbox: Outbox::default(),
            lanes: ByChannel::default(),
            holding: Vec::new(),
            committed: 0,
            frame_bytes_max: FRAME_BYTES_MIN,
            heartbeat_ms: 0,
            last_sent_ms: now_ms,
            blocked_notify: false,
            vhost: Name::empty(),
            farewell: Farewell::CloseOk,
            credit: 0,
            failure: None,
        }
    }

    /// Takes an effect for this connection.
    pub fn handle(&mut self, effect: Effect) {
        match effect {
            Effect::Channel { to, after, output } => self.channel(to.channel, after, output),
            Effect::Connection {
                after,
                output: ConnectionOutput::Closed,
                ..
            } => self.core_closed(after),
            // Nobody sends an AMQP connection what is for a session.
            Effect::Session { .. } | Effect::Fetch { .. } => {}
        }
    }

    /// Takes a delivery: encodes it at once if it may leave now, else keeps a copy.
    pub fn deliver(&mut self, delivery: &Delivering<'_>) {
        if delivery.after <= self.committed
            && !self.is_mute()
            && let Some((envelope, body)) = Envelope::of(delivery)
            && envelope.header_frame_bytes() <= TEMPLATE_HEADER_BYTES_MAX
            && body.len() <= self.body_bytes_max()
            && let Some(lane) = self.lanes.or_default(delivery.to.channel)
            && lane.is_clear()
        {
            lane.passed();
            let start = self.outbox.end();
            let template = lane.template.get_or_insert_default();
            self.outbox
                .write(|out| template.write(&envelope, delivery, body, out));
            self.outbox.mark(start, delivery.credit_bytes());
            return;
        }
        self.channel(delivery.to.channel, delivery.after, delivery.output());
    }

    /// Takes the fate of a publish.
    pub fn confirm(&mut self, channel: ChannelId, after: u64, sequence: u64, accepted: bool) {
        if self.is_mute() {
            return;
        }
        let Some(lane) = self.lanes.or_default(channel) else {
            return;
        };
        lane.confirm(sequence, accepted, after);
        if !lane.is_listed && !lane.is_empty() {
            lane.is_listed = true;
            self.holding.push(channel);
        }
    }

    /// A body up to this fits into one frame and is copied.
    fn body_bytes_max(&self) -> usize {
        (self.frame_bytes_max as usize - FRAME_OVERHEAD_BYTES).min(encode::COPIED_BYTES_MAX)
    }

    #[inline]
    fn channel(&mut self, channel: ChannelId, after: u64, output: Output) {
        if self.is_mute() {
            self.drop_output(&output);
            return;
        }
        match output {
            Output::Confirm { sequence, accepted } => {
                self.confirm(channel, after, sequence, accepted);
            }
            Output::Refused { refusal, method } => {
                let (class, method) = method;
                let violation = refusal::violation(&refusal, self.vhost.as_bytes())
                    .by(MethodId { class, method });
                self.item(channel, after, Item::Close(violation));
            }
            Output::Reply(Reply::ChannelOpened | Reply::ChannelClosed) => {
                self.item(channel, after, Item::Output(output));
            }
            Output::Reply(_)
            | Output::Deliver { .. }
            | Output::GetOk { .. }
            | Output::Return { .. }
            | Output::Cancelled { .. } => {
                let Some(lane) = self.lanes.or_default(channel) else {
                    return;
                };
                if after <= self.committed && lane.is_clear() {
                    lane.passed();
                    self.write_output(channel, &output);
                } else {
                    self.item(channel, after, Item::Output(output));
                }
            }
        }
    }

    /// Takes what the protocol session itself has to say.
    pub fn send(&mut self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::ProtocolHeader => self.outbox.write(|out| out.put(&PROTOCOL_HEADER)),
            Outgoing::Frame(frame) => self.outbox.write(|out| out.put(&frame)),
            Outgoing::ChannelFrame { channel, frame } => {
                self.item(channel, 0, Item::Frame(frame));
            }
            Outgoing::ChannelCloseOk { channel } => self.item(channel, 0, Item::CloseOk),
            Outgoing::ChannelException { channel, violation } => {
                self.item(channel, 0, Item::Close(violation));
                if let Some(lane) = self.lanes.or_default(channel) {
                    lane.hide_close_ok();
                }
            }
            Outgoing::ConnectionException { violation, is_open } => {
                self.connection_exception(violation, is_open);
            }
            Outgoing::Tuned {
                frame_bytes_max,
                heartbeat_seconds,
                blocked_notify,
            } => {
                self.frame_bytes_max = frame_bytes_max.max(FRAME_BYTES_MIN);
                self.heartbeat_ms = u64::from(heartbeat_seconds) * 1000;
                self.blocked_notify = blocked_notify;
            }
            Outgoing::Opened { vhost } => {
                self.vhost = vhost;
                let open_ok = ConnectionOpenOk { known_hosts: b"" };
                encode::method(&mut self.outbox, 0, &Method::ConnectionOpenOk(open_ok));
            }
            Outgoing::Blocked { reason } => {
                let reason = reason.as_bytes();
                self.notify(&Method::ConnectionBlocked(ConnectionBlocked { reason }));
            }
            Outgoing::Unblocked => {
                self.notify(&Method::ConnectionUnblocked(ConnectionUnblocked {}));
            }
        }
    }

    fn notify(&mut self, method: &Method<'_>) {
        if self.blocked_notify && !self.is_mute() {
            encode::method(&mut self.outbox, 0, method);
        }
    }

    /// The journal has committed up to that index: what waited for it is released.
    pub fn committed(&mut self, index: u64) {
        self.committed = self.committed.max(index);
        if let Farewell::Due(after, _) = self.farewell
            && after <= self.committed
        {
            self.say_farewell();
        }
        for channel in std::mem::take(&mut self.holding) {
            if let Some(lane) = self.lanes.get_mut(channel) {
                lane.is_listed = false;
            }
            self.release(channel);
            self.list(channel);
        }
    }

    /// The smallest index that something waits for.
    pub fn waits_for(&self) -> Option<u64> {
        let farewell = match self.farewell {
            Farewell::Due(after, _) => Some(after),
            Farewell::CloseOk | Farewell::Exception(_) | Farewell::Said => None,
        };
        let lanes = self.holding.iter().filter_map(|one| self.lanes.get(*one));
        lanes
            .filter_map(|lane| lane.waits_for(self.committed))
            .chain(farewell)
            .min()
    }

    /// Folds the verdicts that are due and encodes them. Once for a batch of effects, or for a
    /// commit, before [`Outbound::transmit`]: verdicts that fall due together become one frame.
    pub fn flush(&mut self) {
        for channel in std::mem::take(&mut self.holding) {
            self.fold(channel);
            if let Some(lane) = self.lanes.get_mut(channel) {
                lane.is_listed = false;
            }
            self.list(channel);
        }
    }

    /// What to send next; see [`Outbound::flush`].
    pub fn transmit<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        self.outbox.slices(slices);
    }

    /// That many bytes were sent. Returns the credit of the deliveries that have left, for
    /// [`menzil_core::Command::Drained`].
    pub fn advance(&mut self, now_ms: u64, count: usize) -> u64 {
        if count > 0 {
            self.last_sent_ms = now_ms;
        }
        self.outbox.advance(count) + std::mem::take(&mut self.credit)
    }

    /// Instead of [`Outbound::transmit`]: hands over what is to be sent, if everything that was
    /// handed over before is. The caller sends it without holding the outbound, then says
    /// [`Outbound::has_sent`].
    pub fn hand_over(&mut self, sending: &mut Sending) {
        sending.take_over(&mut self.outbox);
    }

    /// Something that was handed over was sent.
    pub fn has_sent(&mut self, now_ms: u64) {
        self.last_sent_ms = now_ms;
    }

    /// Credit of deliveries that were dropped instead of sent.
    pub fn take_credit(&mut self) -> u64 {
        std::mem::take(&mut self.credit)
    }

    /// Bytes that are encoded and not sent; see [`Outbound::flush`].
    pub fn pending_bytes(&self) -> usize {
        self.outbox.pending_bytes()
    }

    /// When [`Outbound::heartbeat`] wants to be called.
    pub fn heartbeat_due(&self) -> Option<u64> {
        (self.heartbeat_ms > 0).then_some(self.last_sent_ms + self.heartbeat_ms / 2)
    }

    /// Sends a heartbeat if nothing else was sent for half an interval.
    pub fn heartbeat(&mut self, now_ms: u64) {
        if self.heartbeat_due().is_none_or(|due| now_ms < due) {
            return;
        }
        self.last_sent_ms = now_ms;
        if self.outbox.pending_bytes() == 0 {
            self.outbox.shrink();
            self.lanes
                .values_mut()
                .for_each(|lane| lane.template = None);
            self.outbox.write(|out| out.put(&HEARTBEAT_FRAME));
        }
    }

    /// A delivery that cannot be sent on this connection. The driver then calls
    /// [`crate::Inbound::fail`]; nothing more is sent until it has.
    pub fn failure(&self) -> Option<&Violation> {
        self.failure.as_ref()
    }

    /// For tests and the simulation.
    ///
    /// # Panics
    /// Where what is listed is not what is there.
    pub fn check_invariants(&self) {
        self.outbox.check_invariants();
        for (channel, lane) in self.lanes.iter() {
            let listed = self.holding.iter().filter(|one| **one == channel).count();
            assert_eq!(listed, usize::from(lane.is_listed), "{channel:?}");
            assert!(lane.is_listed || lane.is_empty(), "a lane is forgotten");
        }
        let is_over = matches!(self.farewell, Farewell::Said);
        assert!(
            !is_over || self.lanes.is_empty(),
            "something waits behind the farewell"
        );
    }

    fn is_mute(&self) -> bool {
        self.failure.is_some() || matches!(self.farewell, Farewell::Said)
    }

    /// Puts an item into its lane and releases what is due.
    fn item(&mut self, channel: ChannelId, after: u64, item: Item) {
        if self.is_mute() {
            self.drop_item(&item);
            return;
        }
        let Some(lane) = self.lanes.or_default(channel) else {
            return;
        };
        if let Some(item) = lane.push(after, item) {
            self.drop_item(&item);
            return;
        }
        self.release(channel);
        self.list(channel);
    }

    fn release(&mut self, channel: ChannelId) {
        while let Some(lane) = self.lanes.get_mut(channel) {
            if lane.needs_fold(self.committed) {
                self.fold(channel);
            }
            let lane = self.lanes.get_mut(channel);
            let Some(item) = lane.and_then(|lane| lane.pop(self.committed)) else {
                return;
            };
            self.write_item(channel, &item);
        }
    }

    fn fold(&mut self, channel: ChannelId) {
        let Self {
            lanes,
            outbox,
            committed,
            ..
        } = self;
        if let Some(lane) = lanes.get_mut(channel) {
            let released = lane.released();
            let write = |folded| write_verdict(outbox, channel, folded);
            lane.confirms.fold(*committed, released, write);
        }
    }

    /// Remembers a lane that holds something.
    fn list(&mut self, channel: ChannelId) {
        if let Some(lane) = self.lanes.get_mut(channel)
            && !lane.is_listed
            && !lane.is_empty()
        {
            lane.is_listed = true;
            self.holding.push(channel);
        }
    }

    fn write_item(&mut self, channel: ChannelId, item: &Item) {
        match item {
            Item::Output(output) => self.write_output(channel, output),
            Item::Frame(frame) => self.outbox.write(|out| out.put(frame)),
            Item::CloseOk => {
                let close_ok = Method::ChannelCloseOk(ChannelCloseOk {});
                encode::method(&mut self.outbox, channel.number(), &close_ok);
            }
            Item::Close(violation) if violation.code.is_hard() => {
                self.outbox
                    .write(|out| violation.write_connection_close(out));
                self.fall_silent();
            }
            Item::Close(violation) => self
                .outbox
                .write(|out| violation.write_channel_close(channel.number(), out)),
        }
    }

    #[inline]
    fn write_output(&mut self, channel: ChannelId, output: &Output) {
        match output {
            Output::Reply(reply) => encode::reply(&mut self.outbox, channel.number(), reply),
            Output::Deliver {
                consumer_tag,
                delivery_tag,
                redelivered,
                properties,
                message,
            } => {
                let start = self.outbox.end();
                let method = Method::BasicDeliver(BasicDeliver {
                    consumer_tag: consumer_tag.as_bytes(),
                    delivery_tag: delivery_tag.0,
                    redelivered: *redelivered,
                    exchange: message.exchange(),
                    routing_key: message.routing_key(),
                });
                if self.write_content(channel, &method, message, properties.as_deref()) {
                    self.outbox.mark(start, credit_bytes(message));
                } else {
                    self.drop_output(output);
                }
            }
            Output::GetOk {
                delivery_tag,
                redelivered,
                message_count,
                properties,
                message,
            } => {
                let start = self.outbox.end();
                let method = Method::BasicGetOk(BasicGetOk {
                    delivery_tag: delivery_tag.0,
                    redelivered: *redelivered,
                    exchange: message.exchange(),
                    routing_key: message.routing_key(),
                    message_count: *message_count,
                });
                if self.write_content(channel, &method, message, properties.as_deref()) {
                    self.outbox.mark(start, credit_bytes(message));
                } else {
                    self.drop_output(output);
                }
            }
            Output::Return { message } => {
                let method = Method::BasicReturn(BasicReturn {
                    reply_code: Code::NoRoute.number(),
                    reply_text: Code::NoRoute.name().as_bytes(),
                    exchange: message.exchange(),
                    routing_key: message.routing_key(),
                });
                self.write_content(channel, &method, message, None);
            }
            Output::Cancelled { consumer_tag } => {
                let method = Method::BasicCancel(BasicCancel {
                    consumer_tag: consumer_tag.as_bytes(),
                    nowait: true,
                });
                encode::method(&mut self.outbox, channel.number(), &method);
            }
            // These two never come here: see `channel`.
            Output::Confirm { .. } | Output::Refused { .. } => {}
        }
    }

    /// False where the content header does not fit into a frame.
    fn write_content(
        &mut self,
        channel: ChannelId,
        method: &Method<'_>,
        message: &Message,
        properties: Option<&[u8]>,
    ) -> bool {
        let most = self.frame_bytes_max as usize;
        // Headers that were added give way where there is no room for them.
        let fits = |properties: &&[u8]| encode::header_frame_bytes(properties) <= most;
        let properties = properties.filter(fits);
        let properties = properties.unwrap_or_else(|| message.properties());
        let header = encode::header_frame_bytes(properties);
        if header > most {
            let text = format!(
                "content header of {header} bytes does not fit into the negotiated frame_max \
                 ({most}): negotiate a larger one"
            );
            self.failure = Some(Violation::new(Code::FrameError, text).by(method.id()));
            return false;
        }
        encode::method(&mut self.outbox, channel.number(), method);
        let payload_max = most - FRAME_OVERHEAD_BYTES;
        let content = (message, properties);
        encode::content(&mut self.outbox, channel.number(), content, payload_max);
        true
    }

    fn drop_item(&mut self, item: &Item) {
        if let Item::Output(output) = item {
            self.drop_output(output);
        }
    }

    /// What will never be sent gives its credit back.
    fn drop_output(&mut self, output: &Output) {
        if let Output::Deliver { message, .. } | Output::GetOk { message, .. } = output {
            self.credit += credit_bytes(message);
        }
    }

    fn connection_exception(&mut self, violation: Violation, is_open: bool) {
        match &self.farewell {
            Farewell::CloseOk | Farewell::Exception(_) if is_open => {
                self.farewell = Farewell::Exception(violation);
            }
            Farewell::CloseOk | Farewell::Exception(_) | Farewell::Due(..) => {
                self.outbox
                    .write(|out| violation.write_connection_close(out));
                self.fall_silent();
            }
            Farewell::Said => {}
        }
    }

    /// The core has let go of the connection.
    fn core_closed(&mut self, after: u64) {
        let violation = match std::mem::replace(&mut self.farewell, Farewell::Said) {
            Farewell::CloseOk => None,
            Farewell::Exception(violation) => Some(violation),
            Farewell::Due(_, violation) => violation,
            Farewell::Said => return,
        };
        self.farewell = Farewell::Due(after, violation);
        if after <= self.committed {
            self.say_farewell();
        }
    }

    fn say_farewell(&mut self) {
        let Farewell::Due(_, violation) = std::mem::replace(&mut self.farewell, Farewell::Said)
        else {
            return;
        };
        if let Some(violation) = violation {
            self.outbox
                .write(|out| violation.write_connection_close(out));
        } else {
            let close_ok = Method::ConnectionCloseOk(ConnectionCloseOk {});
            encode::method(&mut self.outbox, 0, &close_ok);
        }
        self.fall_silent();
    }

    /// The connection's last word is said: what waits on its channels is dropped.
    fn fall_silent(&mut self) {
        self.farewell = Farewell::Said;
        self.holding.clear();
        for mut lane in std::mem::take(&mut self.lanes).drain() {
            for item in lane.drain() {
                self.drop_item(&item);
            }
        }
    }
}

/// Longer property lists are rarely repeated, and one would be kept; any frame takes this much.
const TEMPLATE_HEADER_BYTES_MAX: usize = 1024;
const _: () = assert!(TEMPLATE_HEADER_BYTES_MAX < FRAME_BYTES_MIN as usize);

fn write_verdict(outbox: &mut Outbox, channel: ChannelId, folded: Folded) {
    let (delivery_tag, multiple) = (folded.sequence, folded.multiple);
    let method = if folded.accepted {
        Method::BasicAck(BasicAck {
            delivery_tag,
            multiple,
        })
    } else {
        Method::BasicNack(BasicNack {
            delivery_tag,
            multiple,
            requeue: false,
        })
    };
    encode::method(outbox, channel.number(), &method);
}
