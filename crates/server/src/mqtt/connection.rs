//! The task of one MQTT connection: reads, decides, writes.
//!
//! It is made as that of AMQP: everything between two awaits is one batch, and the shard is held
//! only inside [`Connection::in_batch`], which cannot wait.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use menzil_core::{Command, EndReason};
use menzil_model::{ConnectionId, Escaped, Name};
use menzil_mqtt::codec::ReasonCode;
use menzil_mqtt::{Admission, CloseReason, Inbound, Login, Outbound};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::Service;
use super::executor::Executor;
use super::login::{self, Refused};
use super::rights::Rights;
use crate::driver::Node;
use crate::driver::link::{self, Link, Protocol};
use crate::driver::outbound;
use crate::entropy::entropy;
use crate::log;
use crate::websocket::{Came, NORMAL, Saying, WebSocket};
use crate::wire::{self, Wire};

/// One connection, from accept to the end of its socket.
pub(crate) struct Connection {
    wire: Wire,
    /// What the packets come in, where they do not come as they are.
    websocket: Option<Box<WebSocket>>,
    service: Arc<Service>,
    inbound: Inbound,
    rights: Rights,
    /// What the protocol session waits for; it is not fed meanwhile.
    login: Option<Box<Login>>,
    /// Why the connection ends, once it does.
    end: Option<End>,
    /// The session was told that the socket is not read.
    is_held: bool,
    /// The shard knows that it is over.
    has_left: bool,
    /// A denied publish was logged.
    is_denial_told: bool,
}

/// How a connection ends.
#[derive(Debug)]
enum End {
    /// The protocol session has said its last word, which is still to be sent.
    Closed(CloseReason),
    /// The peer closed or reset the socket.
    PeerGone(String),
    /// It is over for WebSocket, whose last word is still to be sent.
    Transport(String),
}

impl Connection {
    pub(crate) fn new(
        node: &Arc<Node>,
        service: &Arc<Service>,
        (id, protocol): (ConnectionId, Protocol),
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Self {
        let (reader, socket) = stream.into_split();
        let now_ms = node.clock.now_ms();
        let outbound = outbound::Outbound::Mqtt(Outbound::new(now_ms));
        let link = Link::new((id, peer, protocol), socket, outbound);
        Self {
            wire: Wire::new(node, link, reader),
            websocket: (protocol == Protocol::MqttWs).then(|| Box::new(WebSocket::new())),
            service: Arc::clone(service),
            inbound: Inbound::new(Arc::clone(&service.config), id, now_ms),
            rights: Rights::of(Name::empty()),
            login: None,
            end: None,
            is_held: false,
            has_left: false,
            is_denial_told: false,
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
        if let End::Closed(_) | End::Transport(_) = end {
            if self.websocket.as_deref().is_some_and(WebSocket::is_open) {
                // Behind the last packet.
                self.say([Saying::Close(NORMAL)]);
            }
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
            if let Some(login) = self.login.take() {
                self.answer(&login).await;
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
        let at_ms = self.inbound.deadline().unwrap_or(u64::MAX);
        self.wire.node.clock.instant(at_ms).into()
    }

    /// False while what was read could not be taken further. Silence of a peer that is not
    /// read means nothing.
    fn may_read(&mut self) -> bool {
        let may = self.wire.has_room();
        if may == self.is_held {
            self.is_held = !may;
            self.inbound.hold(self.wire.node.clock.now_ms(), !may);
        }
        may
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

    fn take_in(&mut self, bytes: &mut [u8]) {
        self.hear_refusals();
        if self.end.is_some() {
            return;
        }
        match self.websocket.take() {
            None => self.receive(bytes),
            Some(mut websocket) => {
                self.unwrap_frames(&mut websocket, bytes);
                self.websocket = Some(websocket);
            }
        }
        let assembling = self.inbound.assembling_bytes();
        if !self.wire.count_assembling(assembling) {
            self.end = Some(End::PeerGone("no memory for its packet".to_owned()));
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let now_ms = self.wire.node.clock.now_ms();
        self.in_batch(|inbound, executor| inbound.receive(now_ms, bytes, &mut entropy, executor));
    }

    /// As [`Connection::receive`], of what comes in frames, with one batch for all of them.
    fn unwrap_frames(&mut self, websocket: &mut WebSocket, mut bytes: &mut [u8]) {
        let now_ms = self.wire.node.clock.now_ms();
        let (mut sayings, mut end) = (Vec::new(), None);
        self.in_batch(|inbound, executor| {
            while let Some(came) = websocket.next(&mut bytes) {
                match came {
                    Came::Bytes(bytes) => {
                        inbound.receive(now_ms, bytes, &mut entropy, executor);
                    }
                    Came::Answer(saying) => sayings.push(saying),
                    Came::End(why, saying) => {
                        sayings.push(saying);
                        end = Some(End::Transport(why));
                    }
                }
                if end.is_some() || executor.is_over() {
                    return;
                }
            }
        });
        if end.is_some() {
            self.end = end;
        }
        self.say(sayings);
    }

    fn say(&mut self, sayings: impl IntoIterator<Item = Saying>) {
        let mut says_something = false;
        for saying in sayings {
            self.wire.link.say(saying);
            says_something = true;
        }
        if says_something {
            self.wire.flush();
        }
    }

    /// What the shard ended since the last input, by whoever's hand.
    fn hear_refusals(&mut self) {
        for refused in self.wire.link.take_refusals() {
            // The others are of the other protocol.
            if let link::Refused::Session(reason) = refused {
                self.in_batch(|inbound, executor| inbound.session_ended(reason, executor));
            }
        }
    }

    /// Runs `work` with somebody who carries its actions out, then writes the sockets of all
    /// whom that concerns.
    fn in_batch(&mut self, work: impl FnOnce(&mut Inbound, &mut Executor<'_>)) {
        let node = Arc::clone(&self.wire.node);
        let link = Arc::clone(&self.wire.link);
        let touched = std::mem::take(&mut self.wire.touched);
        let mut executor = Executor::new(&node, &link, &self.rights, touched);
        work(&mut self.inbound, &mut executor);
        let done = executor.finish();
        if done.login.is_some() {
            self.login = done.login;
        }
        if let Some(reason) = done.end {
            self.end = Some(End::Closed(reason));
        }
        self.wire.touched = done.touched;
        node.flush(&mut self.wire.touched);
        if done.denied > 0 {
            self.tell_of_denial(done.denied, &done.denied_topic);
        }
    }

    fn tell_of_denial(&mut self, count: u64, topic: &[u8]) {
        let denied = &self.wire.node.mqtt_denied;
        denied.fetch_add(count, Ordering::Relaxed);
        if !std::mem::replace(&mut self.is_denial_told, true) {
            log::warn(
                "publish denied; no other of this connection is logged",
                &[
                    ("connection", &self.wire.link.id),
                    ("peer", &self.wire.link.peer),
                    ("client_id", &Escaped(self.inbound.client_id())),
                    ("user", self.rights.user()),
                    ("topic", &Escaped(topic)),
                ],
            );
        }
    }

    /// Somebody woke the task: the socket is full or broken, the session ended or something
    /// cannot be sent, or reading may go on.
    fn look_around(&mut self) {
        if self.wire.link.broken.load(Ordering::Acquire) {
            self.end = Some(End::PeerGone("writing to the socket failed".to_owned()));
            return;
        }
        self.hear_refusals();
        let mut outbound = self.wire.link.outbound();
        let failure = outbound.mqtt().and_then(|one| one.failure().cloned());
        drop(outbound);
        if let Some(fault) = failure {
            let now_ms = self.wire.node.clock.now_ms();
            self.in_batch(|inbound, executor| inbound.fail(now_ms, fault, executor));
        }
        self.wire.flush();
    }

    fn on_time(&mut self) {
        let now_ms = self.wire.node.clock.now_ms();
        self.in_batch(|inbound, executor| inbound.timeout(now_ms, executor));
        self.wire.link.rest(now_ms);
        self.wire.flush();
    }

    fn on_stop(&mut self) {
        let now_ms = self.wire.node.clock.now_ms();
        let reason = ReasonCode::ShuttingDown;
        self.in_batch(|inbound, executor| inbound.close(now_ms, reason, executor));
    }

    /// Answers the session, which then goes on with the input that it kept meanwhile.
    async fn answer(&mut self, login: &Login) {
        let Some(admission) = self.check_login(login).await else {
            return;
        };
        let now_ms = self.wire.node.clock.now_ms();
        self.in_batch(|inbound, executor| inbound.authenticated(now_ms, admission, executor));
        self.receive(&[]);
    }

    /// `None` where the connection ended meanwhile, such as for taking too long.
    async fn check_login(&mut self, login: &Login) -> Option<Admission> {
        let (users, service) = (Arc::clone(&self.wire.node.users), Arc::clone(&self.service));
        let from = self.address();
        let mut admitted = pin!(login::admit(&users, &service, login, from));
        let verdict = loop {
            tokio::select! {
                verdict = admitted.as_mut() => break verdict,
                () = tokio::time::sleep_until(self.deadline()) => self.on_time(),
            }
            if self.end.is_some() {
                return None;
            }
        };
        Some(match verdict {
            Ok(user) => {
                self.rights = Rights::of(user.clone());
                self.wire.link.set_shard(Arc::clone(&service.shard));
                let data = None;
                Admission::Granted { user, data }
            }
            Err(refused) => {
                self.tell_of_refusal(login, refused);
                let reason = refused.reason;
                Admission::Refused { reason }
            }
        })
    }

    /// Where the client is, as far as its rights go.
    fn address(&self) -> IpAddr {
        let is_foreign = |websocket: &WebSocket| websocket.is_foreign();
        if self.websocket.as_deref().is_some_and(is_foreign) {
            // A page of another machine that is open in a browser of this one.
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        } else {
            self.wire.link.peer.ip()
        }
    }

    fn tell_of_refusal(&self, login: &Login, refused: Refused) {
        log::warn(
            "login refused",
            &[
                ("connection", &self.wire.link.id),
                ("peer", &self.wire.link.peer),
                ("client_id", &Escaped(&login.client_id)),
                ("user", &Escaped(login.user.as_deref().unwrap_or_default())),
                ("why", &refused.advice),
            ],
        );
    }

    /// The connection is over: its session hears of it, if the shard does not know yet.
    fn leave(&mut self) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        self.wire.count_assembling(0);
        let request = self.inbound.disconnected();
        let Some(shard) = self.wire.link.shard() else {
            return;
        };
        let connection = self.wire.link.id;
        // An answer has nobody to go to any more.
        let mut batch = shard.batch(&self.wire.node);
        batch.leave(connection);
        if let Some(request) = request {
            let command = Command::Session {
                connection,
                request,
            };
            batch.execute(command, &mut self.wire.touched);
        }
        drop(batch);
        self.wire.node.flush(&mut self.wire.touched);
    }

    fn report(&self, end: &End) {
        let (level, why): (fn(&str, &[log::Field<'_>]), String) = match end {
            End::Closed(CloseReason::Goodbye(_)) => (log::debug, "closed by the client".to_owned()),
            End::Closed(CloseReason::Violated(fault)) => {
                (log::info, format!("violated the protocol: {fault}"))
            }
            End::Closed(CloseReason::Ended(EndReason::TakenOver)) => (
                log::info,
                "another connection came with this client identifier".to_owned(),
            ),
            End::Closed(reason) => (log::info, format!("{reason:?}")),
            End::PeerGone(why) | End::Transport(why) => (log::debug, why.clone()),
        };
        level(
            "disconnected",
            &[
                ("connection", &self.wire.link.id),
                ("peer", &self.wire.link.peer),
                ("client_id", &Escaped(self.inbound.client_id())),
                ("user", self.rights.user()),
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
