//! Methods of the connection itself: handshake, new secrets, close (AMQP 0-9-1 §1.4).

use bytes::Bytes;

use menzil_core::Command;
use menzil_model::{Name, Table};

use super::channel::{decode, method_frame, method_id, unexpected, unknown};
use super::{Inbound, Phase};
use crate::action::{Action, AuthError, CloseReason, OpenError, Outgoing, Sink};
use crate::frame::{BODY, Frame, HEADER, HEARTBEAT, METHOD};
use crate::handshake::{self, Capabilities};
use crate::method::MethodId;
use crate::methods::{
    ConnectionCloseOk, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, ConnectionUpdateSecret,
    ConnectionUpdateSecretOk, Method,
};
use crate::sasl::{Mechanism, Secret};
use crate::violation::{Code, Violation};

impl Inbound {
    /// The protocol header is right.
    pub(super) fn start(&mut self, out: &mut dyn Sink) {
        self.phase = Phase::Start;
        send(out, handshake::start(&self.config));
    }

    /// A frame of channel 0.
    pub(super) fn connection_frame(
        &mut self,
        frame: Frame<'_>,
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        let is_ending = matches!(self.phase, Phase::Closing(_) | Phase::Closed);
        match frame.kind {
            METHOD => {}
            _ if is_ending => return Ok(()),
            HEARTBEAT if frame.payload.is_empty() => return Ok(()),
            HEADER if frame.payload.len() >= 12 => return Err(unexpected(frame)),
            BODY => return Err(unexpected(frame)),
            _ => return Err(unknown(frame)),
        }
        if is_ending {
            if let Ok((id, _)) = method_id(frame) {
                self.method_while_ending(id, out);
            }
            return Ok(());
        }
        let (id, fields) = method_id(frame)?;
        decode(id, fields)
            .and_then(|method| self.connection_method(method, out))
            .map_err(|violation| match violation.method {
                MethodId::NONE => violation.by(id),
                _ => violation,
            })
    }

    fn connection_method(
        &mut self,
        method: Method<'_>,
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        match (&self.phase, method) {
            (Phase::Start, Method::ConnectionStartOk(start)) => self.log_in(start, out),
            (Phase::Tune, Method::ConnectionTuneOk(tune)) => self.tune(tune, out),
            (Phase::Open, Method::ConnectionOpen(open)) => {
                self.open(open, out);
                Ok(())
            }
            (Phase::Running, Method::ConnectionClose(_)) => {
                self.close_by_client(out);
                Ok(())
            }
            (Phase::Running, Method::ConnectionUpdateSecret(update)) => {
                self.renew(update, out);
                Ok(())
            }
            (phase, _) => {
                let text = format!(
                    "unexpected method in connection state {}",
                    phase.rabbitmq_name()
                );
                Err(Violation::new(Code::ChannelError, text))
            }
        }
    }

    fn log_in(
        &mut self,
        start: ConnectionStartOk<'_>,
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        self.capabilities = Capabilities::of(start.client_properties);
        self.client_properties = Table::copy_from(start.client_properties).unwrap_or_default();
        let offered = self.config.mechanisms.iter();
        let Some(mechanism) = offered
            .copied()
            .find(|known| known.name().as_bytes() == start.mechanism)
        else {
            let name = start.mechanism;
            let text = [b"unknown authentication mechanism '", name, b"'"].concat();
            return Err(Violation::new(Code::CommandInvalid, text));
        };
        let Some((user, password)) = mechanism.read(start.response) else {
            let text = match mechanism {
                // The response is not shown: it may hold most of a password.
                Mechanism::Plain | Mechanism::AmqPlain => format!("{mechanism} response invalid"),
            };
            return Err(Violation::new(Code::SyntaxError, text));
        };
        self.phase = Phase::Authenticating(mechanism);
        out.action(Action::Authenticate {
            mechanism,
            user,
            password,
        });
        Ok(())
    }

    /// The driver's answer to [`Action::Authenticate`]; then call [`Inbound::receive`].
    pub fn authenticated(
        &mut self,
        now_ms: u64,
        result: Result<Name, AuthError>,
        out: &mut dyn Sink,
    ) {
        self.now_ms = now_ms;
        match (&self.phase, result) {
            (Phase::Authenticating(_), Ok(user)) => {
                self.user = user;
                self.phase = Phase::Tune;
                send(out, handshake::tune(&self.config));
            }
            (Phase::Authenticating(mechanism), Err(_)) => {
                let violation = handshake::login_refused(mechanism.name());
                if self.capabilities.authentication_failure_close {
                    self.close_handshake(violation, out);
                } else {
                    self.go_deaf(CloseReason::Refused(violation));
                }
            }
            (Phase::Renewing, Ok(_)) => {
                self.phase = Phase::Running;
                let method = Method::ConnectionUpdateSecretOk(ConnectionUpdateSecretOk {});
                out.action(Action::Send(Outgoing::Frame(method_frame(0, &method))));
            }
            (Phase::Renewing, Err(_)) => {
                let text = "New secret was refused by one of the backends";
                let violation = Violation::new(Code::NotAllowed, text);
                self.violated(violation.by(ConnectionUpdateSecret::ID), out);
            }
            _ => {}
        }
    }

    fn tune(&mut self, tune: ConnectionTuneOk, out: &mut dyn Sink) -> Result<(), Violation> {
        handshake::check_tune(&self.config, tune)?;
        self.frame_bytes_max = tune.frame_max;
        self.channel_max = tune.channel_max;
        self.heartbeat_ms = u64::from(tune.heartbeat) * 1000;
        self.phase = Phase::Open;
        out.action(Action::Send(Outgoing::Tuned {
            frame_bytes_max: tune.frame_max,
            heartbeat_seconds: tune.heartbeat,
            blocked_notify: self.capabilities.blocked_notify,
        }));
        Ok(())
    }

    fn open(&mut self, open: ConnectionOpen<'_>, out: &mut dyn Sink) {
        self.vhost = Name::cut(open.virtual_host);
        self.phase = Phase::Opening;
        out.action(Action::Open {
            vhost: self.vhost.clone(),
        });
    }

    /// The driver's answer to [`Action::Open`]; then call [`Inbound::receive`].
    pub fn opened(&mut self, now_ms: u64, result: Result<(), OpenError>, out: &mut dyn Sink) {
        self.now_ms = now_ms;
        if !matches!(self.phase, Phase::Opening) {
            return;
        }
        if let Err(error) = result {
            let violation = handshake::open_refused(error, &self.vhost, &self.user);
            self.vhost = Name::empty();
            self.violated(violation.by(ConnectionOpen::ID), out);
            return;
        }
        self.phase = Phase::Running;
        self.patience_until_ms = None;
        self.is_in_core = true;
        out.action(Action::Command(Command::ConnectionOpened {
            connection: self.connection,
            user: self.user.clone(),
            cancel_notify: self.capabilities.cancel_notify,
        }));
        out.action(Action::Send(Outgoing::Opened {
            vhost: self.vhost.clone(),
        }));
    }

    fn renew(&mut self, update: ConnectionUpdateSecret<'_>, out: &mut dyn Sink) {
        self.phase = Phase::Renewing;
        out.action(Action::Authenticate {
            mechanism: Mechanism::Plain,
            user: self.user.as_bytes().to_vec(),
            password: Secret::new(update.new_secret),
        });
    }

    fn close_by_client(&mut self, out: &mut dyn Sink) {
        self.leave_core(out);
        self.phase = Phase::Closed;
        self.patience_until_ms = Some(self.now_ms + self.close_wait_ms());
    }

    fn method_while_ending(&mut self, id: MethodId, out: &mut dyn Sink) {
        if id == ConnectionCloseOk::ID {
            let phase = std::mem::replace(&mut self.phase, Phase::Ended);
            self.end(phase.reason().unwrap_or(CloseReason::Closed), out);
        } else if id == crate::methods::ConnectionClose::ID
            && matches!(self.phase, Phase::Closing(_))
        {
            // Both sides closed at once.
            let close_ok = Method::ConnectionCloseOk(ConnectionCloseOk {});
            out.action(Action::Send(Outgoing::Frame(method_frame(0, &close_ok))));
        }
    }

    /// An operator, or the shutdown, ends the connection (reply code 320).
    pub fn close(&mut self, now_ms: u64, text: &str, out: &mut dyn Sink) {
        self.now_ms = now_ms;
        match self.phase {
            Phase::Running | Phase::Renewing => {
                self.violated(Violation::new(Code::ConnectionForced, text), out);
            }
            Phase::Header
            | Phase::Start
            | Phase::Authenticating(_)
            | Phase::Tune
            | Phase::Open
            | Phase::Opening => self.end(CloseReason::Forced, out),
            Phase::Closing(_) | Phase::Closed | Phase::Deaf(_) | Phase::Ended => {}
        }
    }

    /// The transmitting half cannot go on: see [`crate::Outbound::failure`].
    pub fn fail(&mut self, now_ms: u64, violation: Violation, out: &mut dyn Sink) {
        self.now_ms = now_ms;
        self.violated(violation, out);
    }

    /// Ends the connection by error, as loudly as the phase allows: a client that has not
    /// logged in is told nothing and kept waiting, so that guessing is slow.
    pub(super) fn violated(&mut self, violation: Violation, out: &mut dyn Sink) {
        match self.phase {
            Phase::Running | Phase::Renewing => {
                let is_open = self.is_in_core;
                out.action(Action::Send(Outgoing::ConnectionException {
                    violation: violation.clone(),
                    is_open,
                }));
                self.leave_core(out);
                self.await_close_ok(CloseReason::Violated(violation));
            }
            Phase::Open | Phase::Opening => self.close_handshake(violation, out),
            Phase::Tune if violation.code == Code::NotAllowed => {
                self.close_handshake(violation, out);
            }
            Phase::Header | Phase::Start | Phase::Authenticating(_) | Phase::Tune => {
                self.go_deaf(CloseReason::Refused(violation));
            }
            Phase::Closing(_) | Phase::Closed | Phase::Deaf(_) | Phase::Ended => {}
        }
    }

    /// As [`Inbound::violated`], where the next frame's start cannot be told any more.
    pub(super) fn lost_sync(&mut self, violation: Violation, out: &mut dyn Sink) {
        let lost = CloseReason::Violated(violation.clone());
        self.violated(violation, out);
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        self.go_deaf(phase.reason().unwrap_or(lost));
    }

    fn close_handshake(&mut self, violation: Violation, out: &mut dyn Sink) {
        out.action(Action::Send(Outgoing::ConnectionException {
            violation: violation.clone(),
            is_open: false,
        }));
        self.phase = Phase::Closing(CloseReason::Refused(violation));
        self.patience_until_ms = Some(self.now_ms + self.config.refusal_delay_ms);
    }

    fn go_deaf(&mut self, reason: CloseReason) {
        self.phase = Phase::Deaf(reason);
        self.patience_until_ms = Some(self.now_ms + self.config.refusal_delay_ms);
        self.forget_input();
    }

    pub(super) fn await_close_ok(&mut self, reason: CloseReason) {
        self.phase = Phase::Closing(reason);
        self.patience_until_ms = Some(self.now_ms + self.close_wait_ms());
        self.forget_channels();
    }

    /// Tells the core, once, that the connection is over.
    fn leave_core(&mut self, out: &mut dyn Sink) {
        self.forget_channels();
        if std::mem::take(&mut self.is_in_core) {
            out.action(Action::Command(Command::ConnectionClosed {
                connection: self.connection,
            }));
        }
    }

    /// Nothing more is read.
    pub(super) fn forget_input(&mut self) {
        self.kept = Vec::new();
        self.forget_channels();
    }

    fn forget_channels(&mut self) {
        self.channels.clear();
        self.assembling = 0;
    }

    /// RabbitMQ waits one heartbeat interval, if that is shorter.
    fn close_wait_ms(&self) -> u64 {
        match self.heartbeat_ms {
            0 => self.config.close_wait_ms,
            interval => interval.min(self.config.close_wait_ms),
        }
    }

    /// The driver is to close the socket, without another word.
    pub(super) fn end(&mut self, reason: CloseReason, out: &mut dyn Sink) {
        self.leave_core(out);
        self.forget_input();
        self.phase = Phase::Ended;
        self.patience_until_ms = None;
        out.action(Action::Close { reason });
    }
}

impl Phase {
    /// Why the socket is going to close.
    pub(super) fn reason(self) -> Option<CloseReason> {
        match self {
            Self::Closing(reason) | Self::Deaf(reason) => Some(reason),
            Self::Closed => Some(CloseReason::Closed),
            Self::Header
            | Self::Start
            | Self::Authenticating(_)
            | Self::Tune
            | Self::Open
            | Self::Opening
            | Self::Running
            | Self::Renewing
            | Self::Ended => None,
        }
    }

    /// The state's name in RabbitMQ's texts.
    fn rabbitmq_name(&self) -> &'static str {
        match self {
            Self::Header => "pre_init",
            Self::Start => "starting",
            Self::Authenticating(_) => "securing",
            Self::Tune => "tuning",
            Self::Open | Self::Opening => "opening",
            Self::Running | Self::Renewing => "running",
            Self::Closing(_) | Self::Closed | Self::Deaf(_) | Self::Ended => "closed",
        }
    }
}

fn send(out: &mut dyn Sink, frame: Vec<u8>) {
    out.action(Action::Send(Outgoing::Frame(Bytes::from(frame))));
}
