//! Connections, a shard and a journal in memory, and the little that a driver does between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use menzil_core::{
    Command, Copy, Effect, Effects, Log, Sending, SessionOutput, SessionRequest, Shard,
    ShardSettings, TopicPublish,
};
use menzil_model::fact::{read_chunk, read_message, read_short_message};
use menzil_model::{ConnectionId, Fact, Name};
use menzil_mqtt::codec::ReasonCode;
use menzil_mqtt::{
    Action, Admission, CloseReason, Inbound, Login, MqttConfig, Outbound, Permission, Sink,
};

/// Encoded facts, the first has index 1.
#[derive(Default)]
pub(crate) struct Records(Vec<Vec<u8>>, bool);

impl Log for Records {
    fn append(&mut self, fact: &Fact, _: u32) -> u64 {
        let mut bytes = Vec::new();
        fact.encode(&mut bytes);
        self.0.push(bytes);
        self.0.len() as u64
    }

    fn append_lazy(&mut self, fact: &Fact) -> u64 {
        self.append(fact, 0)
    }

    fn release(&mut self, _: u64, _: u32) {}

    fn retain_run(&mut self, _: u64, _: u64) {}

    fn has_room(&self, _: u64) -> bool {
        !self.1
    }
}

/// One connection as both ends see it.
pub(crate) struct Peer {
    inbound: Inbound,
    outbound: Outbound,
    sending: Sending,
    /// What the client has not looked at.
    received: Vec<u8>,
    pub(crate) closed: Option<CloseReason>,
    /// Messages that were denied.
    pub(crate) denied: u64,
}

/// See the module.
pub(crate) struct World {
    shard: Shard,
    log: Records,
    pub(crate) now: u64,
    pub(crate) peers: BTreeMap<u64, Peer>,
    next: u64,
    /// Who is let in.
    pub(crate) admit: Box<dyn FnMut(&Login) -> Admission>,
    /// Topics and filters that begin so are nobody's.
    pub(crate) forbidden: &'static [u8],
    /// The journal commits by itself.
    pub(crate) commits: bool,
    committed: u64,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// All that name no authentication method.
pub(crate) fn anonymous(login: &Login) -> Admission {
    if login.step.is_some() {
        return Admission::Refused {
            reason: ReasonCode::BadAuthenticationMethod,
        };
    }
    Admission::Granted {
        user: name("anonymous"),
        data: None,
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let mut log = Records::default();
        let mut shard = Shard::new(ShardSettings::default());
        shard.start(1_000, &name("/"), &mut log);
        Self {
            shard,
            log,
            now: 1_000,
            peers: BTreeMap::new(),
            next: 1,
            admit: Box::new(anonymous),
            forbidden: b"forbidden",
            commits: true,
            committed: 0,
        }
    }

    /// A new connection.
    pub(crate) fn accept(&mut self, config: &Arc<MqttConfig>) -> u64 {
        let id = self.next;
        self.next += 1;
        let peer = Peer {
            inbound: Inbound::new(Arc::clone(config), ConnectionId(id), self.now),
            outbound: Outbound::new(self.now),
            sending: Sending::default(),
            received: Vec::new(),
            closed: None,
            denied: 0,
        };
        self.peers.insert(id, peer);
        id
    }

    /// The client sends bytes.
    pub(crate) fn send(&mut self, id: u64, bytes: &[u8]) {
        self.with_inbound(id, |inbound, now, executor| {
            inbound.receive(now, bytes, &mut || 7, executor);
        });
        self.go_on();
    }

    /// The client is gone without a word.
    pub(crate) fn hang_up(&mut self, id: u64) {
        let Some(mut peer) = self.peers.remove(&id) else {
            return;
        };
        if let Some(request) = peer.inbound.disconnected() {
            self.request(id, request);
        }
        self.go_on();
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, milliseconds: u64) {
        self.now += milliseconds;
        let mut effects = Vec::new();
        while self.shard.deadline().is_some_and(|at| at <= self.now) {
            self.shard.expire(self.now, &mut self.log, &mut effects);
        }
        for effect in effects {
            self.effect(effect);
        }
        let ids: Vec<u64> = self.peers.keys().copied().collect();
        for id in ids {
            let due = self.peers[&id].inbound.deadline();
            if due.is_some_and(|due| due <= self.now) {
                self.with_inbound(id, |inbound, now, executor| inbound.timeout(now, executor));
            }
        }
        self.go_on();
    }

    /// The server ends a connection.
    pub(crate) fn close(&mut self, id: u64, reason: ReasonCode) {
        self.with_inbound(id, |inbound, now, executor| {
            inbound.close(now, reason, executor);
        });
        self.go_on();
    }

    /// What the client got since it was last asked.
    pub(crate) fn take(&mut self, id: u64) -> Vec<u8> {
        std::mem::take(&mut self.peers.get_mut(&id).unwrap().received)
    }

    pub(crate) fn is_closed(&self, id: u64) -> bool {
        self.peers[&id].closed.is_some()
    }

    pub(crate) fn inbound(&self, id: u64) -> &Inbound {
        &self.peers[&id].inbound
    }

    /// All that was appended is on disk.
    pub(crate) fn commit(&mut self) {
        self.committed = self.log.0.len() as u64;
        self.write_all();
    }

    /// The disk takes no more, or does again.
    pub(crate) fn fill_disk(&mut self, is_full: bool) {
        self.log.1 = is_full;
    }

    fn with_inbound(&mut self, id: u64, work: impl FnOnce(&mut Inbound, u64, &mut Executor<'_>)) {
        let now = self.now;
        let config = Arc::new(MqttConfig::default());
        let fresh = Inbound::new(config, ConnectionId(id), now);
        let peer = self.peers.get_mut(&id).unwrap();
        if peer.closed.is_some() {
            return;
        }
        let mut inbound = std::mem::replace(&mut peer.inbound, fresh);
        let mut executor = Executor {
            world: self,
            id,
            question: None,
        };
        work(&mut inbound, now, &mut executor);
        while let Some(login) = executor.question.take() {
            let admission = (executor.world.admit)(&login);
            inbound.authenticated(now, admission, &mut executor);
            inbound.receive(now, &[], &mut || 7, &mut executor);
        }
        inbound.check_invariants();
        self.peers.get_mut(&id).unwrap().inbound = inbound;
    }

    fn go_on(&mut self) {
        if self.commits {
            self.committed = self.log.0.len() as u64;
        }
        self.write_all();
        self.shard.check_invariants();
    }

    /// Writes all sockets, until nothing more comes of it.
    fn write_all(&mut self) {
        let ids: Vec<u64> = self.peers.keys().copied().collect();
        let mut again = true;
        while again {
            again = false;
            for id in &ids {
                let (requests, drained, failure) = self.write(*id);
                again |= !requests.is_empty() || drained > 0;
                for request in requests {
                    self.request(*id, request);
                }
                if drained > 0 {
                    let connection = ConnectionId(*id);
                    let bytes = drained;
                    self.execute(Command::Drained { connection, bytes });
                }
                if let Some(fault) = failure {
                    again = true;
                    self.with_inbound(*id, |inbound, now, executor| {
                        inbound.fail(now, fault, executor);
                    });
                }
            }
            if self.commits {
                self.committed = self.log.0.len() as u64;
            }
        }
    }

    fn write(&mut self, id: u64) -> (Vec<SessionRequest>, u64, Option<menzil_mqtt::Fault>) {
        let committed = self.committed;
        let peer = self.peers.get_mut(&id).unwrap();
        let outbound = &mut peer.outbound;
        outbound.committed(committed);
        outbound.flush();
        outbound.check_invariants();
        assert!(outbound.waits_for().is_none_or(|after| after > committed));
        let mut drained = outbound.take_credit();
        outbound.hand_over(&mut peer.sending);
        while peer.sending.pending_bytes() > 0 {
            let mut slices = Vec::new();
            peer.sending.transmit(&mut slices);
            let before = peer.received.len();
            for slice in &slices {
                peer.received.extend_from_slice(slice);
            }
            let count = peer.received.len() - before;
            drained += peer.sending.advance(count);
        }
        let failure = outbound.failure().cloned();
        (outbound.take_requests(), drained, failure)
    }

    fn request(&mut self, id: u64, request: SessionRequest) {
        let connection = ConnectionId(id);
        self.execute(Command::Session {
            connection,
            request,
        });
    }

    fn execute(&mut self, command: Command) {
        let mut outlet = Outlet {
            peers: &mut self.peers,
            fetches: Vec::new(),
            ended: Vec::new(),
        };
        (self.shard).execute(self.now, command, &mut self.log, &mut outlet);
        self.shard.finish(&mut self.log);
        let Outlet { fetches, ended, .. } = outlet;
        self.after(fetches, ended);
    }

    fn publish(&mut self, id: u64, publish: &TopicPublish<'_>) {
        let mut outlet = Outlet {
            peers: &mut self.peers,
            fetches: Vec::new(),
            ended: Vec::new(),
        };
        let connection = ConnectionId(id);
        (self.shard).publish_topic(self.now, connection, publish, &mut self.log, &mut outlet);
        self.shard.finish(&mut self.log);
        let Outlet { fetches, ended, .. } = outlet;
        self.after(fetches, ended);
    }

    fn effect(&mut self, effect: Effect) {
        let mut outlet = Outlet {
            peers: &mut self.peers,
            fetches: Vec::new(),
            ended: Vec::new(),
        };
        outlet.effect(effect);
        let Outlet { fetches, ended, .. } = outlet;
        self.after(fetches, ended);
    }

    fn after(&mut self, fetches: Vec<Effect>, ended: Vec<(u64, menzil_core::EndReason)>) {
        for fetch in fetches {
            let read = self.read(fetch);
            self.execute(read);
        }
        for (id, reason) in ended {
            // One's own inbound hears of it at the end of what it is at.
            let peer = self.peers.get_mut(&id).unwrap();
            let mut actions = Vec::new();
            peer.inbound.session_ended(reason, &mut actions);
            for action in actions {
                if let Action::Close { reason } = action {
                    peer.closed = peer.closed.take().or(Some(reason));
                }
            }
        }
    }

    fn read(&self, fetch: Effect) -> Command {
        let Effect::Fetch { queue, wanted, .. } = fetch else {
            unreachable!("only fetches are kept");
        };
        let record = |index: u64| self.log.0[index as usize - 1].as_slice();
        let messages = wanted.iter().map(|wanted| {
            let origin = record(wanted.origin.index);
            let message = if wanted.chunks.count == 0 {
                read_short_message(origin, wanted.origin.part, None)
            } else {
                let chunks = wanted.chunks.indexes();
                let chunks = chunks.map(|chunk| read_chunk(record(chunk)).unwrap());
                read_message(origin, wanted.origin.part, chunks.collect())
            };
            (wanted.sequence, Some(message.unwrap()))
        });
        Command::Fetched {
            queue,
            messages: messages.collect(),
        }
    }
}

/// Hands effects to the outbounds.
struct Outlet<'a> {
    peers: &'a mut BTreeMap<u64, Peer>,
    fetches: Vec<Effect>,
    ended: Vec<(u64, menzil_core::EndReason)>,
}

impl Effects for Outlet<'_> {
    fn effect(&mut self, effect: Effect) {
        let to = match &effect {
            Effect::Fetch { .. } => {
                self.fetches.push(effect);
                return;
            }
            Effect::Session { to, output, .. } => {
                if let SessionOutput::Ended(reason) = output {
                    self.ended.push((to.0, *reason));
                }
                *to
            }
            Effect::Connection { to, .. } => *to,
            Effect::Channel { .. } => unreachable!("no channel is open"),
        };
        if let Some(peer) = self.peers.get_mut(&to.0) {
            peer.outbound.handle(effect);
        }
    }

    fn deliver_copy(&mut self, copy: &Copy<'_>) {
        if let Some(peer) = self.peers.get_mut(&copy.to.0) {
            peer.outbound.deliver_copy(copy);
        }
    }
}

/// Carries out what a connection's input asks for.
pub(crate) struct Executor<'a> {
    world: &'a mut World,
    id: u64,
    question: Option<Box<Login>>,
}

impl Sink for Executor<'_> {
    fn action(&mut self, action: Action) {
        match action {
            Action::Authenticate(login) => self.question = Some(login),
            Action::Request(request) => self.world.request(self.id, request),
            Action::Publish(publish) => self.world.publish(self.id, &publish.borrowed()),
            Action::Send(outgoing) => {
                let peer = self.world.peers.get_mut(&self.id).unwrap();
                peer.outbound.send(outgoing);
            }
            Action::Denied { .. } => {
                self.world.peers.get_mut(&self.id).unwrap().denied += 1;
            }
            Action::Close { reason } => {
                let peer = self.world.peers.get_mut(&self.id).unwrap();
                peer.closed = Some(reason);
            }
        }
    }

    fn publish(&mut self, publish: &TopicPublish<'_>) {
        self.world.publish(self.id, publish);
    }

    fn may_publish(&mut self, topic: &[u8]) -> bool {
        !topic.starts_with(self.world.forbidden)
    }

    fn may_subscribe(&mut self, filter: &[u8]) -> Permission {
        if filter.starts_with(self.world.forbidden) {
            Permission::Denied(ReasonCode::NotAuthorized)
        } else {
            Permission::Granted
        }
    }

    fn answered(&mut self) -> u64 {
        self.world.peers[&self.id].outbound.answered()
    }
}
