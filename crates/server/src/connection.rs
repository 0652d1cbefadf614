//! The task of one connection: reads, decides, writes.
//!
//! Invariant: everything between two awaits is one batch; the shard is held only inside
//! [`Connection::in_batch`], which cannot wait. The task wakes for bytes, for room in a socket
//! that was full, for its timers and for the end of the server, never for a message.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use menzil_amqp::{
    Action, AuthError, CloseReason, Inbound, OpenError, Outgoing, Sink as _, Violation,
};
use menzil_model::{ConnectionId, Escaped, Name, text_of};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::Secret;
use crate::driver::Node;
use crate::driver::link::{Link, Protocol, Refused};
use crate::driver::outbound::Outbound;
use crate::entropy::entropy;
use crate::executor::{Executor, Question};
use crate::log;
use crate::wire::{self, Wire};

/// One connection, from accept to the end of its socket.
pub(crate) struct Connection {
    wire: Wire,
    inbound: Inbound,
    user: Name,
    /// Kept between batches for their memory.
    actions: Vec<Action>,
    /// What the protocol session waits for; it is not fed meanwhile.
    question: Option<Question>,
    /// Why the connection ends, once it does.
    end: Option<End>,
    /// The connection is being closed: what still comes in goes nowhere and is always read.
    is_closing: bool,
    /// The session was told that the socket is not read.
    is_held: bool,
    blocked_sent: bool,
}

/// How a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// The protocol session has said its last word, which is still to be sent.
    Closed(CloseReason),
    /// The peer closed or reset the socket.
    PeerGone(String),
}

impl Connection {
    pub(crate) fn new(
        node: &Arc<Node>,
        id: ConnectionId,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Self {
        let (reader, socket) = stream.into_split();
        let now_ms = node.clock.now_ms();
        let outbound = Outbound::Amqp(menzil_amqp::Outbound::new(now_ms));
        let link = Link::new((id, peer, Protocol::Amqp), socket, outbound);
        Self {
            wire: Wire::new(node, link, reader),
            inbound: Inbound::new(Arc::clone(&node.session), id, now_ms),
            user: Name::empty(),
            actions: Vec::new(),
            question: None,
            end: None,
            is_closing: false,
            is_held: false,
            blocked_sent: false,
        }
    }

    pub(crate) async fn run(mut self) {
        log::debug(
            "connected",
            &[
                ("connection", &self.wire.link.id),
                ("peer", &self.wire.link.peer),
            ],
        );
        let end = self.serve().await;
        self.leave();
        if let End::Closed(_) = end {
            self.wire.linger().await;
        }
        self.report(&end);
    }

    async fn serve(&mut self) -> End {
        let node = Arc::clone(&self.wire.node);
        let link = Arc::clone(&self.wire.link);
        let mut stopping = node.stopping.subscribe();
        let mut told_to_stop = false;
        let mut timer = pin!(tokio::time::sleep_until(self.deadline()));
        loop {
            if let Some(end) = self.end.take() {
                return end;
            }
            if let Some(question) = self.question.take() {
                self.answer(question).await;
                continue;
            }
            if !self.actions.is_empty() && self.has_room() {
                self.carry_out();
                tokio::task::yield_now().await;
                continue;
            }
            wire::arm(timer.as_mut(), self.deadline());
            let reads = self.may_read();
            let writes = link.blocked.load(Ordering::Acquire);
            let mut was_woken = false;
            tokio::select! {
                () = poll_fn(|cx| self.poll_read(cx)), if reads => {}
                _ = link.socket().writable(), if writes => {
                    link.blocked.store(false, Ordering::Release);
                    self.wire.flush();
                }
                () = link.wake.notified() => {
                    self.look_around();
                    was_woken = true;
                }
                () = timer.as_mut() => self.on_time(),
                _ = stopping.wait_for(|stopping| *stopping), if !told_to_stop => {
                    told_to_stop = true;
                    self.on_stop();
                }
            }
            if was_woken {
                // A long backlog comes in many such rounds; others run in between.
                tokio::task::yield_now().await;
            }
        }
    }

    fn deadline(&self) -> Instant {
        let inbound = self.inbound.deadline();
        let outbound = self
            .wire
            .link
            .outbound()
            .amqp()
            .and_then(|outbound| outbound.heartbeat_due());
        let at_ms = [inbound, outbound].into_iter().flatten().min();
        self.wire
            .node
            .clock
            .instant(at_ms.unwrap_or(u64::MAX))
            .into()
    }

    /// False while what was read could not be taken further. Silence of a peer that is not
    /// read means nothing.
    fn may_read(&mut self) -> bool {
        let may = self.actions.is_empty() && self.has_room();
        if may == self.is_held {
            self.is_held = !may;
            self.inbound.hold(self.wire.node.clock.now_ms(), !may);
        }
        may
    }

    fn has_room(&self) -> bool {
        self.is_closing || self.wire.has_room()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        wire::with_buffer(|buffer| {
            match ready!(self.wire.poll_read(cx, buffer)) {
                Ok(bytes) => self.take_in(bytes),
                Err(why) => self.end = Some(End::PeerGone(why)),
            }
            Poll::Ready(())
        })
    }

    fn take_in(&mut self, bytes: &[u8]) {
        self.hear_refusals();
        self.receive(bytes);
        if !self.wire.count_assembling(self.inbound.assembling_bytes()) {
            self.end = Some(End::PeerGone("no memory for its message".to_owned()));
        }
        if self.wire.node.why_blocked().is_some() {
            self.tell_of_the_disk();
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let now_ms = self.wire.node.clock.now_ms();
        if !self.actions.is_empty() {
            // What was read before goes first.
            let inbound = &mut self.inbound;
            inbound.receive(now_ms, bytes, &mut entropy, &mut self.actions);
            self.carry_out();
            return;
        }
        self.in_batch(|inbound, executor| inbound.receive(now_ms, bytes, &mut entropy, executor));
    }

    /// What the shard refused since the last input, by whoever's hand.
    fn hear_refusals(&mut self) {
        for refused in self.wire.link.take_refusals() {
            match refused {
                Refused::ClosedByClient(channel) => self.inbound.channel_closed(channel),
                Refused::Channel(channel) => self.inbound.channel_refused(channel),
                Refused::Connection => {
                    self.is_closing = true;
                    self.inbound.connection_refused();
                }
                // Of the other protocol.
                Refused::Session(_) => {}
            }
        }
    }

    /// Everything that was left over, in order, holding the shard once.
    fn carry_out(&mut self) {
        if let Some(Action::Close {
            reason: CloseReason::HeartbeatTimeout,
        }) = self.actions.last()
        {
            // A peer that is taken for dead is told nothing more.
            self.wire.link.broken.store(true, Ordering::Release);
        }
        let actions = std::mem::take(&mut self.actions);
        self.in_batch(|_, executor| {
            for action in actions {
                executor.action(action);
            }
        });
    }

    /// Runs `work` with somebody who carries its actions out, then writes the sockets of all
    /// whom that concerns.
    fn in_batch(&mut self, work: impl FnOnce(&mut Inbound, &mut Executor<'_>)) {
        let node = Arc::clone(&self.wire.node);
        let link = Arc::clone(&self.wire.link);
        let mut executor = Executor::new(&node, &link, std::mem::take(&mut self.wire.touched));
        work(&mut self.inbound, &mut executor);
        let done = executor.finish();
        self.is_closing |= done.is_closing;
        if done.question.is_some() {
            self.question = done.question;
        }
        if done.end.is_some() {
            self.end = done.end;
        }
        self.actions.extend(done.held);
        self.wire.touched = done.touched;
        node.flush(&mut self.wire.touched);
    }

    /// Somebody woke the task: the socket is full or broken, something was refused or failed,
    /// or reading may go on.
    fn look_around(&mut self) {
        if self.wire.link.broken.load(Ordering::Acquire) {
            self.end = Some(End::PeerGone("writing to the socket failed".to_owned()));
            return;
        }
        self.hear_refusals();
        let failure = self
            .wire
            .link
            .outbound()
            .amqp()
            .and_then(|outbound| outbound.failure().cloned());
        if let Some(violation) = failure {
            let now_ms = self.wire.node.clock.now_ms();
            self.inbound.fail(now_ms, violation, &mut self.actions);
            self.carry_out();
        }
        self.tell_of_the_disk();
        self.wire.flush();
    }

    /// `connection.blocked` and `connection.unblocked`, to publishers that asked for it.
    fn tell_of_the_disk(&mut self) {
        let why = self.wire.node.why_blocked();
        let blocked = why.filter(|_| self.wire.link.publisher.load(Ordering::Relaxed));
        if blocked.is_some() == self.blocked_sent {
            return;
        }
        self.blocked_sent = blocked.is_some();
        self.actions.push(Action::Send(match blocked {
            Some(why) => Outgoing::Blocked {
                reason: Name::from(why),
            },
            None => Outgoing::Unblocked,
        }));
        self.carry_out();
    }

    fn on_time(&mut self) {
        let now_ms = self.wire.node.clock.now_ms();
        self.inbound.timeout(now_ms, &mut self.actions);
        self.wire.link.rest(now_ms);
        self.carry_out();
        self.wire.flush();
    }

    fn on_stop(&mut self) {
        let now_ms = self.wire.node.clock.now_ms();
        self.inbound.close(now_ms, STOP_TEXT, &mut self.actions);
        self.carry_out();
    }

    /// Answers the session, which then goes on with the input that it kept meanwhile.
    async fn answer(&mut self, question: Question) {
        match question {
            Question::Login { user, password } => {
                let Some(verdict) = self.check_login(&user, password).await else {
                    return;
                };
                let now_ms = self.wire.node.clock.now_ms();
                self.inbound
                    .authenticated(now_ms, verdict, &mut self.actions);
            }
            Question::Open { virtual_host } => {
                let verdict = match self.wire.node.shards.get(&virtual_host) {
                    Some(shard) => {
                        self.wire.link.set_shard(Arc::clone(shard));
                        Ok(())
                    }
                    None => Err(OpenError::NotFound),
                };
                let now_ms = self.wire.node.clock.now_ms();
                self.inbound.opened(now_ms, verdict, &mut self.actions);
            }
        }
        self.receive(&[]);
    }

    /// `None` where the connection ended meanwhile, such as for taking too long.
    async fn check_login(
        &mut self,
        user: &[u8],
        password: Secret,
    ) -> Option<Result<Name, AuthError>> {
        let users = Arc::clone(&self.wire.node.users);
        let mut login = pin!(users.login(user, password, self.wire.link.peer.ip()));
        let verdict = loop {
            tokio::select! {
                verdict = login.as_mut() => break verdict,
                () = tokio::time::sleep_until(self.deadline()) => self.on_time(),
            }
            if self.end.is_some() {
                return None;
            }
        };
        self.user = Name::cut(user);
        if let Err(refused) = verdict {
            log::warn(
                "login refused",
                &[
                    ("connection", &self.wire.link.id),
                    ("peer", &self.wire.link.peer),
                    ("user", &Escaped(user)),
                    ("why", &refused.advice()),
                ],
            );
        }
        Some(match verdict {
            Ok(()) => Ok(self.user.clone()),
            Err(refused) => Err(refused.into()),
        })
    }

    /// The connection is over: what it held goes back, if the shard does not know yet.
    fn leave(&mut self) {
        self.wire.count_assembling(0);
        let Some(command) = self.inbound.disconnected() else {
            return;
        };
        let Some(shard) = self.wire.link.shard() else {
            return;
        };
        // The answer has nobody to go to any more.
        let mut batch = shard.batch(&self.wire.node);
        batch.leave(self.wire.link.id);
        batch.execute(command, &mut self.wire.touched);
        drop(batch);
        self.wire.node.flush(&mut self.wire.touched);
    }

    fn report(&self, end: &End) {
        let (level, why): (fn(&str, &[log::Field<'_>]), String) = match end {
            End::Closed(CloseReason::Closed) => (log::debug, "closed by the client".to_owned()),
            End::Closed(CloseReason::Refused(violation)) => {
                (log::info, told("refused in the handshake", violation))
            }
            End::Closed(CloseReason::Violated(violation)) => {
                (log::info, told("violated the protocol", violation))
            }
            End::Closed(CloseReason::ProtocolHeader(header)) => (log::info, foreign(*header)),
            End::Closed(CloseReason::HandshakeTimeout) => {
                (log::info, "the handshake took too long".to_owned())
            }
            End::Closed(CloseReason::HeartbeatTimeout) => (
                log::info,
                "nothing was heard for two heartbeat intervals".to_owned(),
            ),
            End::Closed(CloseReason::CoreRefused) => {
                (log::info, "a request ended the connection".to_owned())
            }
            End::Closed(CloseReason::Forced) => (log::info, "the server stops".to_owned()),
            End::Closed(CloseReason::Ahead) => (
                log::info,
                "the client sent too much ahead of an answer".to_owned(),
            ),
            End::PeerGone(why) => (log::debug, why.clone()),
        };
        level(
            "disconnected",
            &[
                ("connection", &self.wire.link.id),
                ("peer", &self.wire.link.peer),
                ("user", &self.user),
                ("why", &why),
            ],
        );
    }
}

impl Drop for Connection {
    /// However the task ends, by a panic or with the runtime too, nobody keeps anything of it.
    fn drop(&mut self) {
        self.leave();
    }
}

impl From<crate::LoginRefused> for AuthError {
    fn from(refused: crate::LoginRefused) -> Self {
        match refused {
            crate::LoginRefused::Credentials | crate::LoginRefused::Busy => Self::Refused,
            crate::LoginRefused::NotLoopback => Self::NotLocal,
        }
    }
}

/// What a client did wrong, in the words that it was told.
fn told(what: &str, violation: &Violation) -> String {
    let (code, detail) = (violation.code, text_of(&violation.detail));
    format!("{what}: {} {} - {detail}", code.number(), code.name())
}

/// What came in the place of a protocol header.
fn foreign(header: [u8; 8]) -> String {
    let is_plain = header.iter().all(|byte| matches!(byte, b' '..=b'~'));
    match header {
        // The record of a client hello.
        [22, 3, _, _, _, 1, ..] => {
            "the client began with TLS, and this port speaks AMQP 0-9-1 without it".to_owned()
        }
        [b'A', b'M', b'Q', b'P', version @ ..] => {
            let version = version.map(|byte| byte.to_string()).join("-");
            format!("the client asked for AMQP version {version}, not 0-0-9-1")
        }
        _ if is_plain => {
            let text = String::from_utf8_lossy(&header);
            format!("the client sent \"{text}\", not AMQP 0-9-1")
        }
        _ => format!("the client sent {}, not AMQP 0-9-1", header.escape_ascii()),
    }
}

const STOP_TEXT: &str = "broker forced connection closure with reason 'shutdown'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_protocol_header_is_told_in_words() {
        for (header, told) in [
            (b"GET / HT", "the client sent \"GET / HT\", not AMQP 0-9-1"),
            (
                b"AMQP\x00\x01\x00\x00",
                "the client asked for AMQP version 0-1-0-0, not 0-0-9-1",
            ),
            (
                b"\x16\x03\x01\x02\x00\x01\x00\x01",
                "the client began with TLS, and this port speaks AMQP 0-9-1 without it",
            ),
            (
                b"\x00\x01abcdef",
                "the client sent \\x00\\x01abcdef, not AMQP 0-9-1",
            ),
        ] {
            assert_eq!(foreign(*header), told);
        }
    }
}
