//! Frames of channels: which channels there are, what each expects next, and the content that
//! is under assembly.
//!
//! ```text
//!            channel.open            channel.close -> ChannelClosed
//!   (none) ───────────────> Open ─────────────────────────────────> Leaving ── answered ──> (none)
//!                            │  channel exception, by session or core  │
//!                            └─────────> Closing <─────────────────────┘
//!                                           └────────── close-ok ───────────────────────────> (none)
//! ```

use bytes::Bytes;

use menzil_core::{ChannelKey, Command, Publish, Request};
use menzil_model::wire::Reader;
use menzil_model::{ChannelId, Name, Properties, PropertiesError};

use super::Inbound;
use super::assembly::{Assembly, PublishHead};
use super::request::request;
use crate::action::{Action, Outgoing, Sink};
use crate::frame::{BODY, Frame, HEADER, HEARTBEAT, METHOD, write_frame};
use crate::method::{MethodError, MethodId};
use crate::methods::{
    AccessRequestOk, BasicPublish, ChannelClose, ChannelCloseOk, ChannelFlowOk, ChannelOpen, Method,
};
use crate::term;
use crate::violation::{Code, Violation};

/// A channel number in use.
#[derive(Debug)]
pub(super) enum Slot {
    /// The client may use it.
    Open(Box<Channel>),
    /// The client closed it and cannot know yet that the core has answered: what it sent until
    /// then is ignored, save an open of the next channel on the number.
    Leaving,
    /// It ended by error; everything is ignored until the client says close-ok.
    Closing,
}

/// An open channel.
#[derive(Debug)]
pub(super) struct Channel {
    expects: Expects,
    last: LastPublish,
}

#[derive(Debug)]
enum Expects {
    Method,
    Header(PublishHead),
    Body(Assembly),
}

/// Envelope of the last publish: most publishers repeat it, and then nothing is allocated. It
/// stays as long as the channel, so that a long property list is not kept.
#[derive(Debug)]
struct LastPublish {
    exchange: Name,
    routing_key: Name,
    properties: Vec<u8>,
}

impl Slot {
    /// Bytes of a message under assembly.
    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Self::Open(channel) => match &channel.expects {
                Expects::Body(assembly) => assembly.held_bytes(),
                Expects::Method | Expects::Header(_) => 0,
            },
            Self::Leaving | Self::Closing => 0,
        }
    }
}

impl Inbound {
    /// A frame of a channel of the open connection. An error ends the connection.
    pub(super) fn channel_frame(
        &mut self,
        channel: ChannelId,
        frame: Frame<'_>,
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        match frame.kind {
            METHOD => self.channel_method(channel, frame, entropy, out),
            HEADER => self.channel_header(channel, frame, out),
            BODY => self.channel_body(channel, frame.payload, out),
            HEARTBEAT if frame.payload.is_empty() => Err(unexpected(frame)),
            _ => Err(unknown(frame)),
        }
    }

    fn channel_method(
        &mut self,
        channel: ChannelId,
        frame: Frame<'_>,
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        let (id, fields) = method_id(frame)?;
        match self.channels.get_mut(channel) {
            None => self.first_method(channel, id, fields, out),
            Some(Slot::Leaving) if id == ChannelOpen::ID => {
                self.first_method(channel, id, fields, out)
            }
            Some(Slot::Leaving) => Ok(()),
            Some(Slot::Closing) => self.method_while_closing(channel, id, out),
            Some(Slot::Open(open)) => {
                match open.expects {
                    Expects::Method => {}
                    Expects::Header(_) => return Err(no_header()),
                    Expects::Body(_) => return Err(no_body()),
                }
                let method = decode(id, fields)?;
                if let Method::BasicPublish(publish) = method {
                    return open.publish(publish);
                }
                self.open_method(channel, method, entropy, out)
            }
        }
    }

    /// The first method on a channel number can only open it.
    fn first_method(
        &mut self,
        channel: ChannelId,
        id: MethodId,
        fields: &[u8],
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        self.check_channel_count()?;
        let Method::ChannelOpen(_) = decode(id, fields)? else {
            return Err(Violation::new(Code::ChannelError, "expected 'channel.open'").by(id));
        };
        self.channels
            .insert(channel, Slot::Open(Box::new(Channel::new())));
        out.action(Action::Command(Command::ChannelOpened(self.key(channel))));
        Ok(())
    }

    fn check_channel_count(&self) -> Result<(), Violation> {
        let slots = self.channels.values();
        let open = slots.filter(|slot| !matches!(slot, Slot::Leaving)).count();
        let most = usize::from(self.channel_max);
        if open < most {
            return Ok(());
        }
        let text = format!(
            "number of channels opened ({open}) has reached the negotiated channel_max ({most})"
        );
        Err(Violation::new(Code::NotAllowed, text))
    }

    fn method_while_closing(
        &mut self,
        channel: ChannelId,
        id: MethodId,
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        match id {
            ChannelCloseOk::ID => {
                self.channels.remove(channel);
            }
            // Both sides closed at once: ours is answered too, and theirs still comes. Replies
            // of the channel may wait for a commit, and nothing may follow the answer.
            ChannelClose::ID => out.action(Action::Send(Outgoing::ChannelCloseOk { channel })),
            ChannelOpen::ID => return Err(second_open()),
            _ => {}
        }
        Ok(())
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "everything not named is unimplemented"
    )]
    fn open_method(
        &mut self,
        channel: ChannelId,
        method: Method<'_>,
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        let by = |code, text: &str| Err(Violation::new(code, text).by(method.id()));
        if let Some(request) = request(method, entropy) {
            out.action(self.request(channel, request));
            return Ok(());
        }
        let answer = match method {
            Method::ChannelClose(_) => {
                self.channels.insert(channel, Slot::Leaving);
                out.action(Action::Command(Command::ChannelClosed(self.key(channel))));
                return Ok(());
            }
            Method::ChannelOpen(_) => {
                return Err(second_open());
            }
            Method::ChannelFlow(flow) if !flow.active => {
                return by(Code::NotImplemented, "active=false");
            }
            Method::ChannelFlow(_) => Method::ChannelFlowOk(ChannelFlowOk { active: true }),
            Method::AccessRequest(_) => Method::AccessRequestOk(AccessRequestOk { ticket: 1 }),
            _ => return by(Code::CommandInvalid, "unimplemented method"),
        };
        out.action(Action::Send(Outgoing::ChannelFrame {
            channel,
            frame: method_frame(channel.number(), &answer),
        }));
        Ok(())
    }

    fn channel_header(
        &mut self,
        channel: ChannelId,
        frame: Frame<'_>,
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        let header = ContentHeader::read(frame.payload).ok_or_else(|| unknown(frame))?;
        let open = match self.channels.get_mut(channel) {
            None => return Err(no_method()),
            Some(Slot::Leaving | Slot::Closing) => return Ok(()),
            Some(Slot::Open(open)) => open,
        };
        // Taken out: whatever goes wrong below ends the channel or the connection.
        let head = match std::mem::replace(&mut open.expects, Expects::Method) {
            Expects::Method => return Err(no_method()),
            Expects::Body(assembly) => {
                self.assembling -= assembly.held_bytes();
                return Err(no_body());
            }
            Expects::Header(_) if header.weight != 0 => return Err(no_header()),
            Expects::Header(_) if header.class != BasicPublish::ID.class => {
                return Err(other_class(header.class));
            }
            Expects::Header(head) => head,
        };
        if header.body_bytes > BODY_BYTES_CAP {
            return Err(body_over_cap(header.body_bytes));
        }
        let properties = open.last.properties(header.properties)?;
        if header.body_bytes > self.config.message_bytes_max {
            let violation = too_large(header.body_bytes, self.config.message_bytes_max);
            self.channel_exception(channel, violation, out);
            return Ok(());
        }
        let (size, chunk_bytes) = (header.body_bytes, self.config.chunk_bytes);
        let assembly = Assembly::new(head, properties, size, chunk_bytes);
        let held = assembly.held_bytes();
        open.expects = Expects::Body(assembly);
        if let Some(publish) = open.finished() {
            out.action(self.request(channel, Request::Publish(publish)));
            return Ok(());
        }
        self.assembling += held;
        self.check_assembling(held)
    }

    fn channel_body(
        &mut self,
        channel: ChannelId,
        payload: &[u8],
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        let open = match self.channels.get_mut(channel) {
            None => return Err(no_method()),
            Some(Slot::Leaving | Slot::Closing) => return Ok(()),
            Some(Slot::Open(open)) => open,
        };
        let assembly = match &mut open.expects {
            Expects::Method => return Err(no_method()),
            Expects::Header(_) => return Err(no_header()),
            Expects::Body(assembly) => assembly,
        };
        let held = assembly.held_bytes();
        if !assembly.append(payload) {
            let text = "content body frame exceeds remaining content size";
            return Err(Violation::new(Code::FrameError, text).by(BasicPublish::ID));
        }
        if let Some(publish) = open.finished() {
            self.assembling -= held;
            out.action(self.request(channel, Request::Publish(publish)));
            return Ok(());
        }
        let more = payload.len() as u64;
        self.assembling += more;
        self.check_assembling(held + more)
    }

    /// After the message that holds so much has grown. One alone may always come in: its body
    /// and its property list have limits of their own.
    fn check_assembling(&self, held: u64) -> Result<(), Violation> {
        let most = self.assembling_bytes_max();
        if self.assembling <= most || self.assembling == held {
            return Ok(());
        }
        let text = format!(
            "incomplete messages on this connection hold {} bytes, more than configured max size \
             {most}: publish on fewer channels at once",
            self.assembling
        );
        Err(Violation::new(Code::ResourceError, text).by(BasicPublish::ID))
    }

    /// Ends a channel that the core has open.
    fn channel_exception(&mut self, channel: ChannelId, violation: Violation, out: &mut dyn Sink) {
        self.close_slot(channel);
        out.action(Action::Send(Outgoing::ChannelException {
            channel,
            violation,
        }));
        out.action(Action::Command(Command::ChannelClosed(self.key(channel))));
    }

    /// The channel takes nothing more until the client says close-ok.
    pub(super) fn close_slot(&mut self, channel: ChannelId) {
        if let Some(slot) = self.channels.insert(channel, Slot::Closing) {
            self.assembling -= slot.held_bytes();
        }
    }

    fn request(&self, channel: ChannelId, request: Request) -> Action {
        Action::Command(Command::Request {
            channel: self.key(channel),
            request,
        })
    }

    pub(super) fn key(&self, channel: ChannelId) -> ChannelKey {
        ChannelKey {
            connection: self.connection,
            channel,
        }
    }
}

impl Channel {
    fn new() -> Self {
        Self {
            expects: Expects::Method,
            last: LastPublish {
                exchange: Name::empty(),
                routing_key: Name::empty(),
                properties: Vec::new(),
            },
        }
    }

    /// The message under assembly, if it is complete; then a method is expected again.
    #[inline]
    fn finished(&mut self) -> Option<Publish> {
        if !matches!(&self.expects, Expects::Body(assembly) if assembly.is_complete()) {
            return None;
        }
        match std::mem::replace(&mut self.expects, Expects::Method) {
            Expects::Body(assembly) => Some(assembly.finish()),
            Expects::Method | Expects::Header(_) => None,
        }
    }

    /// Whether it expects a method.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.expects, Expects::Method)
    }

    /// Whether the property list reads.
    pub(super) fn takes(&mut self, properties: &[u8]) -> bool {
        self.last.check(properties).is_ok()
    }

    fn publish(&mut self, publish: BasicPublish<'_>) -> Result<(), Violation> {
        if publish.immediate {
            let violation = Violation::new(Code::NotImplemented, "immediate=true");
            return Err(violation.by(BasicPublish::ID));
        }
        self.expects = Expects::Header(PublishHead {
            exchange: same_name(&mut self.last.exchange, publish.exchange),
            routing_key: same_name(&mut self.last.routing_key, publish.routing_key),
            mandatory: publish.mandatory,
        });
        Ok(())
    }
}

impl LastPublish {
    /// The property list, checked.
    fn properties(&mut self, bytes: &[u8]) -> Result<Bytes, Violation> {
        self.check(bytes).map_err(|error| {
            let text = format!("content header properties do not read: {}", words(error));
            Violation::new(Code::SyntaxError, text).by(BasicPublish::ID)
        })?;
        Ok(Bytes::copy_from_slice(bytes))
    }

    /// Whether the property list reads; one that did so just before does again.
    fn check(&mut self, bytes: &[u8]) -> Result<(), PropertiesError> {
        if self.properties == bytes && !bytes.is_empty() {
            return Ok(());
        }
        Properties::parse(bytes)?;
        if bytes.len() <= KEPT_PROPERTIES_BYTES_MAX {
            self.properties.clear();
            self.properties.extend_from_slice(bytes);
        }
        Ok(())
    }
}

/// A longer property list is rarely repeated word for word, and every channel keeps its last one.
const KEPT_PROPERTIES_BYTES_MAX: usize = 512;

fn words(error: PropertiesError) -> String {
    match error {
        PropertiesError::Truncated => "a value runs past the end of the frame".to_owned(),
        PropertiesError::Trailing => "bytes are left over after the last property".to_owned(),
        PropertiesError::UnknownFlag => "a flag of no property is set".to_owned(),
        PropertiesError::Headers(error) => MethodError::Table(error).to_string(),
    }
}

fn same_name(last: &mut Name, bytes: &[u8]) -> Name {
    if last.as_bytes() != bytes {
        *last = Name::cut(bytes);
    }
    last.clone()
}

/// The payload of a content header frame.
struct ContentHeader<'a> {
    class: u16,
    weight: u16,
    body_bytes: u64,
    properties: &'a [u8],
}

impl<'a> ContentHeader<'a> {
    fn read(payload: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        Some(Self {
            class: reader.u16().ok()?,
            weight: reader.u16().ok()?,
            body_bytes: reader.u64().ok()?,
            properties: reader.rest(),
        })
    }
}

/// Class and method number of a method frame, and its fields.
pub(super) fn method_id(frame: Frame<'_>) -> Result<(MethodId, &[u8]), Violation> {
    let mut reader = Reader::new(frame.payload);
    let (Ok(class), Ok(method)) = (reader.u16(), reader.u16()) else {
        return Err(unknown(frame));
    };
    Ok((MethodId { class, method }, reader.rest()))
}

/// A method, or why it does not read.
pub(super) fn decode(id: MethodId, fields: &[u8]) -> Result<Method<'_>, Violation> {
    Method::decode(id, fields).map_err(|error| match error {
        // RabbitMQ drops the socket here and at a bad table, without a word.
        MethodError::Unknown => Violation::new(Code::CommandInvalid, "unimplemented method").by(id),
        MethodError::Table(_) => {
            Violation::new(Code::SyntaxError, format!("{id} does not read: {error}")).by(id)
        }
        MethodError::NotUtf8 => Violation::new(Code::FrameError, error.to_string()),
        MethodError::Truncated | MethodError::Trailing => {
            let text = format!("cannot decode {}", term::binary(fields));
            Violation::new(Code::FrameError, text).by(id)
        }
    })
}

/// A frame that nobody defines.
pub(super) fn unknown(frame: Frame<'_>) -> Violation {
    let (kind, snippet) = (frame.kind, term::snippet(frame.payload));
    Violation::new(
        Code::FrameError,
        format!("type {kind}, {snippet}: unknown_frame"),
    )
}

/// A frame that cannot be here.
pub(super) fn unexpected(frame: Frame<'_>) -> Violation {
    let (kind, snippet) = (frame.kind, term::snippet(frame.payload));
    Violation::new(Code::UnexpectedFrame, format!("type {kind}, {snippet}"))
}

fn second_open() -> Violation {
    Violation::new(Code::ChannelError, "second 'channel.open' seen").by(ChannelOpen::ID)
}

fn no_method() -> Violation {
    let text = "expected method frame, got non method frame instead";
    Violation::new(Code::UnexpectedFrame, text)
}

fn no_header() -> Violation {
    let text = "expected content header for class 60, got non content header frame instead";
    Violation::new(Code::UnexpectedFrame, text).by(BasicPublish::ID)
}

fn no_body() -> Violation {
    let text = "expected content body, got non content body frame instead";
    Violation::new(Code::UnexpectedFrame, text).by(BasicPublish::ID)
}

fn other_class(class: u16) -> Violation {
    let text = format!("expected content header for class 60, got one for class {class} instead");
    Violation::new(Code::UnexpectedFrame, text).by(BasicPublish::ID)
}

fn body_over_cap(body_bytes: u64) -> Violation {
    let text =
        format!("content body size {body_bytes} exceeds maximum allowed size {BODY_BYTES_CAP}");
    Violation::new(Code::FrameError, text).by(BasicPublish::ID)
}

fn too_large(body_bytes: u64, most: u64) -> Violation {
    let configured = if most == BODY_BYTES_CAP {
        ""
    } else {
        "configured "
    };
    let text = format!("message size {body_bytes} is larger than {configured}max size {most}");
    Violation::new(Code::PreconditionFailed, text).by(BasicPublish::ID)
}

/// A method as a whole frame.
pub(super) fn method_frame(channel: u16, method: &Method<'_>) -> Bytes {
    let mut frame = Vec::new();
    write_frame(&mut frame, METHOD, channel, |out| method.write(out));
    Bytes::from(frame)
}

/// No message of AMQP 0-9-1 is larger, whatever the setting.
pub(super) const BODY_BYTES_CAP: u64 = 512 << 20;
