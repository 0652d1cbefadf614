//! A protocol session with a driver and a core around it that always say yes, and a client's
//! words for it.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses a part of it, and not all leave one unused"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most of it says yes to anything else"
)]

pub(crate) mod script;

use std::sync::Arc;

use menzil_amqp::frame::{BODY, HEADER, HEARTBEAT, METHOD, Split, split, write_frame};
use menzil_amqp::method::MethodId;
use menzil_amqp::methods::*;
use menzil_amqp::{
    Action, AmqpSession, AuthError, CloseReason, OpenError, PROTOCOL_HEADER, SessionConfig,
};
use menzil_core::{ChannelKey, Command, ConnectionOutput, Effect, Output, Reply};
use menzil_model::{ChannelId, ConnectionId, Name, TableBuilder, Value};

pub(crate) const CONNECTION: ConnectionId = ConnectionId(7);

/// The broker's side of one connection.
pub(crate) struct Broker {
    pub(crate) session: AmqpSession,
    pub(crate) now: u64,
    pub(crate) login: Result<Name, AuthError>,
    pub(crate) vhost: Result<(), OpenError>,
    /// Every action as text, in order.
    pub(crate) log: Vec<String>,
    pub(crate) commands: Vec<Command>,
    pub(crate) closed: Vec<CloseReason>,
    /// Logins asked for: mechanism, user, password.
    pub(crate) logins: Vec<(String, Vec<u8>, Vec<u8>)>,
    /// The receiving half does not hear when a channel is closed: what is ignored until then
    /// would depend on how the input is split.
    pub(crate) hides_closes: bool,
    entropy: u128,
}

impl Broker {
    pub(crate) fn new(config: SessionConfig) -> Self {
        Self {
            session: AmqpSession::new(Arc::new(config), CONNECTION, 0),
            now: 0,
            login: Ok(Name::from("guest")),
            vhost: Ok(()),
            log: Vec::new(),
            commands: Vec::new(),
            closed: Vec::new(),
            logins: Vec::new(),
            hides_closes: false,
            entropy: 0,
        }
    }

    /// Through the handshake; what was said until then is forgotten.
    pub(crate) fn running(config: SessionConfig) -> Self {
        let mut broker = Self::new(config);
        let said = broker.receive(&handshake());
        assert!(
            said.last().unwrap().1.starts_with("connection.open-ok"),
            "{said:?}"
        );
        broker.log.clear();
        broker.commands.clear();
        broker
    }

    /// With channel 1 open.
    pub(crate) fn open() -> Self {
        let mut broker = Self::running(SessionConfig::default());
        broker.receive(&channel_open(1));
        broker.log.clear();
        broker.commands.clear();
        broker
    }

    /// Takes bytes and returns what the broker says to them.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Vec<(u16, String)> {
        self.feed(bytes);
        self.said()
    }

    /// Takes bytes and answers what the session asks.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        loop {
            let mut actions = Vec::new();
            let entropy = &mut self.entropy;
            let mut draw = || {
                *entropy += 1;
                *entropy
            };
            self.session
                .receive(self.now, bytes, &mut draw, &mut actions);
            if !self.carry_out(actions) {
                return;
            }
            bytes = &[];
        }
    }

    /// True where the session waited for an answer and has it now.
    pub(crate) fn carry_out(&mut self, actions: Vec<Action>) -> bool {
        let mut answered = false;
        for action in actions {
            self.log.push(format!("{action:?}"));
            match action {
                Action::Command(command) => self.execute(command),
                Action::Send(outgoing) => self.session.send(outgoing),
                Action::Authenticate {
                    mechanism,
                    user,
                    password,
                } => {
                    let login = (mechanism.to_string(), user, password.as_bytes().to_vec());
                    self.logins.push(login);
                    let (login, mut out) = (self.login.clone(), Vec::new());
                    self.session
                        .inbound
                        .authenticated(self.now, login, &mut out);
                    self.carry_out(out);
                    answered = true;
                }
                Action::Open { .. } => {
                    let mut out = Vec::new();
                    self.session.inbound.opened(self.now, self.vhost, &mut out);
                    self.carry_out(out);
                    answered = true;
                }
                Action::Close { reason } => self.closed.push(reason),
            }
        }
        answered
    }

    fn execute(&mut self, command: Command) {
        match &command {
            Command::ChannelOpened(to) => self.reply(*to, Reply::ChannelOpened),
            Command::ChannelClosed(to) if self.hides_closes => {
                self.session.outbound.handle(Effect::Channel {
                    to: *to,
                    after: 0,
                    output: Output::Reply(Reply::ChannelClosed),
                });
            }
            Command::ChannelClosed(to) => self.reply(*to, Reply::ChannelClosed),
            Command::ConnectionClosed { connection } => self.session.handle(Effect::Connection {
                to: *connection,
                after: 0,
                output: ConnectionOutput::Closed,
            }),
            _ => {}
        }
        self.commands.push(command);
    }

    pub(crate) fn reply(&mut self, to: ChannelKey, reply: Reply) {
        self.output(to.channel.number(), 0, Output::Reply(reply));
    }

    pub(crate) fn output(&mut self, channel: u16, after: u64, output: Output) {
        let to = key(channel);
        self.session.handle(Effect::Channel { to, after, output });
    }

    pub(crate) fn said(&mut self) -> Vec<(u16, String)> {
        let (bytes, _) = self.session.poll_transmit(self.now);
        describe(&bytes)
    }

    /// Lets time pass up to the next deadline of the receiving half.
    pub(crate) fn wait(&mut self) -> Vec<(u16, String)> {
        self.now = self.session.inbound.deadline().expect("a deadline");
        let mut out = Vec::new();
        self.session.inbound.timeout(self.now, &mut out);
        self.carry_out(out);
        self.said()
    }
}

pub(crate) fn key(channel: u16) -> ChannelKey {
    ChannelKey {
        connection: CONNECTION,
        channel: ChannelId::new(channel).unwrap(),
    }
}

/// Frames as channel and text; other bytes as they are.
pub(crate) fn describe(mut bytes: &[u8]) -> Vec<(u16, String)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        if bytes.starts_with(b"AMQP") {
            out.push((0, format!("header {:?}", &bytes[4..8])));
            bytes = &bytes[8..];
            continue;
        }
        let Split::Whole(frame, length) = split(bytes, u32::MAX - 8) else {
            panic!("broken frame: {bytes:?}");
        };
        let payload = frame.payload;
        let text = match frame.kind {
            METHOD => {
                let number = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
                let id = MethodId {
                    class: number(0),
                    method: number(2),
                };
                method_text(Method::decode(id, &payload[4..]).unwrap())
            }
            HEADER => format!("header {}", payload[11]),
            BODY => format!("body {}", payload.len()),
            HEARTBEAT => "heartbeat".to_owned(),
            other => panic!("frame type {other}"),
        };
        out.push((frame.channel, text));
        bytes = &bytes[length..];
    }
    out
}

fn method_text(method: Method<'_>) -> String {
    let close = |name: &str, code: u16, text: &[u8], class: u16, number: u16| {
        let text = String::from_utf8_lossy(text);
        format!("{name}.close {code} {text} [{class}.{number}]")
    };
    match method {
        Method::ConnectionClose(m) => close(
            "connection",
            m.reply_code,
            m.reply_text,
            m.class_id,
            m.method_id,
        ),
        Method::ChannelClose(m) => close(
            "channel",
            m.reply_code,
            m.reply_text,
            m.class_id,
            m.method_id,
        ),
        Method::BasicAck(m) => format!("ack {} {}", m.delivery_tag, m.multiple),
        Method::BasicNack(m) => format!("nack {} {}", m.delivery_tag, m.multiple),
        Method::BasicDeliver(m) => format!("deliver {}", m.delivery_tag),
        other => format!("{}", other.id()),
    }
}

/// A method as a frame.
pub(crate) fn method(channel: u16, method: &Method<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, METHOD, channel, |out| method.write(out));
    out
}

/// Any frame.
pub(crate) fn raw(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame(&mut out, kind, channel, |out| {
        out.extend_from_slice(payload);
    });
    out
}

/// Client properties with these capabilities.
pub(crate) fn properties(capabilities: &[&str]) -> Vec<u8> {
    let inner = capabilities
        .iter()
        .fold(TableBuilder::new(), |table, name| {
            table.field(name, Value::Bool(true))
        })
        .build();
    let table = TableBuilder::new()
        .field("product", Value::LongString(b"test"))
        .field("capabilities", Value::Table(inner.fields()))
        .build();
    table.as_bytes().to_vec()
}

pub(crate) fn start_ok(capabilities: &[&str], mechanism: &str, response: &[u8]) -> Vec<u8> {
    let start = ConnectionStartOk {
        client_properties: &properties(capabilities),
        mechanism: mechanism.as_bytes(),
        response,
        locale: b"en_US",
    };
    method(0, &Method::ConnectionStartOk(start))
}

pub(crate) fn tune_ok(channel_max: u16, frame_max: u32, heartbeat: u16) -> Vec<u8> {
    let tune = ConnectionTuneOk {
        channel_max,
        frame_max,
        heartbeat,
    };
    method(0, &Method::ConnectionTuneOk(tune))
}

pub(crate) fn connection_open(vhost: &str) -> Vec<u8> {
    let open = ConnectionOpen {
        virtual_host: vhost.as_bytes(),
        capabilities: b"",
        insist: false,
    };
    method(0, &Method::ConnectionOpen(open))
}

pub(crate) const ALL: [&str; 3] = [
    "consumer_cancel_notify",
    "connection.blocked",
    "authentication_failure_close",
];

/// A whole handshake, sent ahead at once.
pub(crate) fn handshake() -> Vec<u8> {
    [
        PROTOCOL_HEADER.to_vec(),
        start_ok(&ALL, "PLAIN", b"\0guest\0guest"),
        tune_ok(2047, 131_072, 60),
        connection_open("/"),
    ]
    .concat()
}

pub(crate) fn channel_open(channel: u16) -> Vec<u8> {
    method(
        channel,
        &Method::ChannelOpen(ChannelOpen { out_of_band: b"" }),
    )
}

pub(crate) fn channel_close(channel: u16) -> Vec<u8> {
    let close = ChannelClose {
        reply_code: 200,
        reply_text: b"bye",
        class_id: 0,
        method_id: 0,
    };
    method(channel, &Method::ChannelClose(close))
}

pub(crate) fn channel_close_ok(channel: u16) -> Vec<u8> {
    method(channel, &Method::ChannelCloseOk(ChannelCloseOk {}))
}

pub(crate) fn connection_close() -> Vec<u8> {
    let close = ConnectionClose {
        reply_code: 200,
        reply_text: b"bye",
        class_id: 0,
        method_id: 0,
    };
    method(0, &Method::ConnectionClose(close))
}

pub(crate) fn connection_close_ok() -> Vec<u8> {
    method(0, &Method::ConnectionCloseOk(ConnectionCloseOk {}))
}

pub(crate) fn publish_method(channel: u16, immediate: bool) -> Vec<u8> {
    let publish = BasicPublish {
        ticket: 0,
        exchange: b"",
        routing_key: b"q",
        mandatory: false,
        immediate,
    };
    method(channel, &Method::BasicPublish(publish))
}

pub(crate) fn header_payload(class: u16, weight: u16, size: u64, properties: &[u8]) -> Vec<u8> {
    let mut payload = class.to_be_bytes().to_vec();
    payload.extend(weight.to_be_bytes());
    payload.extend(size.to_be_bytes());
    payload.extend(properties);
    payload
}

pub(crate) fn header(channel: u16, size: u64) -> Vec<u8> {
    raw(HEADER, channel, &header_payload(60, 0, size, b"\0\0"))
}

pub(crate) fn body(channel: u16, payload: &[u8]) -> Vec<u8> {
    raw(BODY, channel, payload)
}

/// A whole publish in frames of at most that many body bytes.
pub(crate) fn publish(channel: u16, content: &[u8], frame: usize) -> Vec<u8> {
    let mut out = publish_method(channel, false);
    out.extend(header(channel, content.len() as u64));
    for part in content.chunks(frame) {
        out.extend(body(channel, part));
    }
    out
}

pub(crate) fn texts(said: &[(u16, String)]) -> Vec<&str> {
    said.iter().map(|(_, text)| text.as_str()).collect()
}
