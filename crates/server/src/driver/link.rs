//! The sending side of a connection: what every thread that has something for it may use.
//!
//! Anybody may hand effects to a link and flush it; its own task is woken only when the socket
//! takes no more. Lock order: shard or what
//! is being sent, then outbound, then the shard's list of those that wait.
//! Nothing here is held across an await.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use menzil_core::{EndReason, Sending};
use menzil_model::{ChannelId, ConnectionId};
use parking_lot::{ArcMutexGuard, Mutex, MutexGuard, RawMutex};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

use super::Node;
use super::outbound::Outbound;
use super::shard_driver::ShardDriver;
use crate::turnstile::Turnstile;
use crate::websocket::{Frames, Saying};

/// The sending side of a connection.
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    pub(crate) peer: SocketAddr,
    pub(crate) protocol: Protocol,
    socket: OwnedWriteHalf,
    outbound: Arc<Mutex<Outbound>>,
    /// What is on its way into the socket, for whom the turnstile let in.
    sending: Mutex<Leaving>,
    turnstile: Turnstile,
    /// Somebody who handed it something will flush it.
    touched: AtomicBool,
    /// It is in its shard's list of those that wait for a commit.
    waits: AtomicBool,
    /// The socket took less than there was; the own task waits until it takes more.
    pub(crate) blocked: AtomicBool,
    /// Writing failed: the peer is gone.
    pub(crate) broken: AtomicBool,
    /// Bytes that wait for the socket or a commit, as of the last flush.
    pub(crate) pending_bytes: AtomicU64,
    /// Bytes of deliveries that left since the shard was last told.
    drained: AtomicU64,
    /// The shard is to be asked for what the outbound has for it.
    has_requests: AtomicBool,
    /// It has published, so a full disk concerns it.
    pub(crate) publisher: AtomicBool,
    /// Wakes the own task.
    pub(crate) wake: Notify,
    /// A channel of it waits for the journal: it is not read.
    pub(crate) parked: AtomicBool,
    /// It is in the list of publishers that wait until the journal has caught up.
    pub(crate) held_back: AtomicBool,
    /// What the shard refused, for the receiving side to hear before its next input.
    refusals: Mutex<Vec<Refused>>,
    has_refusals: AtomicBool,
    shard: OnceLock<Arc<ShardDriver>>,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

/// What is on its way into a socket.
struct Leaving {
    /// Bytes of the protocol.
    bytes: Sending,
    /// Over WebSocket, what they leave in.
    frames: Option<Box<Frames>>,
}

impl Leaving {
    fn pending_bytes(&self) -> usize {
        let of_frames = self
            .frames
            .as_ref()
            .map_or(0, |frames| frames.pending_bytes());
        self.bytes.pending_bytes() + of_frames
    }
}

/// An outbound, locked.
pub(crate) type OutboundGuard = ArcMutexGuard<RawMutex, Outbound>;

/// What ended, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    /// Not a refusal: the client closed it.
    ClosedByClient(ChannelId),
    Channel(ChannelId),
    Connection,
    /// The shard ended the connection of an MQTT session.
    Session(EndReason),
}

/// What is spoken on a connection, and over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// AMQP 0-9-1.
    Amqp,
    /// MQTT over TCP.
    Mqtt,
    /// MQTT over WebSocket.
    MqttWs,
}

impl Link {
    pub(crate) fn new(
        (id, peer, protocol): (ConnectionId, SocketAddr, Protocol),
        socket: OwnedWriteHalf,
        outbound: Outbound,
    ) -> Self {
        Self {
            id,
            peer,
            protocol,
            socket,
            outbound: Arc::new(Mutex::new(outbound)),
            sending: Mutex::new(Leaving {
                bytes: Sending::default(),
                frames: matches!(protocol, Protocol::MqttWs).then(Box::default),
            }),
            turnstile: Turnstile::default(),
            touched: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            pending_bytes: AtomicU64::new(0),
            drained: AtomicU64::new(0),
            has_requests: AtomicBool::new(false),
            publisher: AtomicBool::new(false),
            wake: Notify::new(),
            parked: AtomicBool::new(false),
            held_back: AtomicBool::new(false),
            refusals: Mutex::default(),
            has_refusals: AtomicBool::new(false),
            shard: OnceLock::new(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
        }
    }

    pub(crate) fn outbound(&self) -> MutexGuard<'_, Outbound> {
        self.outbound.lock()
    }

    /// As [`Link::outbound`], to be kept.
    pub(crate) fn outbound_kept(&self) -> OutboundGuard {
        self.outbound.lock_arc()
    }

    pub(crate) fn socket(&self) -> &OwnedWriteHalf {
        &self.socket
    }

    /// The shard of the virtual host that the connection opened.
    pub(crate) fn shard(&self) -> Option<&Arc<ShardDriver>> {
        self.shard.get()
    }

    /// Said once, before the shard hears of the connection.
    pub(crate) fn set_shard(&self, shard: Arc<ShardDriver>) {
        // A second opening is refused by the protocol session.
        let _ = self.shard.set(shard);
    }

    /// Notes it as to be flushed; false where somebody will do so anyway.
    pub(crate) fn touch(&self) -> bool {
        !self.touched.swap(true, Ordering::AcqRel)
    }

    /// Sends what can be sent. What was handed over before this call is on its way after it,
    /// by this thread or the one that is at it, or the own task was told to wait for room.
    pub(crate) fn flush(self: &Arc<Self>, node: &Node) {
        self.touched.store(false, Ordering::Release);
        self.turnstile
            .enter(|| self.pump(node), || self.leave_to_own_task());
    }

    /// Whether that many bytes of deliveries left since the shard was told.
    pub(crate) fn has_drained(&self, least: u64) -> bool {
        self.drained.load(Ordering::Relaxed) >= least.max(1)
    }

    /// Deliveries that left, if they are enough to tell the shard; telling is up to the caller.
    pub(crate) fn take_drained(&self, least: u64) -> u64 {
        if self.drained.load(Ordering::Relaxed) < least.max(1) {
            return 0;
        }
        self.drained.swap(0, Ordering::AcqRel)
    }

    /// Whether [`Outbound::take_requests`] has something; asking is up to the caller.
    pub(crate) fn take_has_requests(&self) -> bool {
        self.has_requests.load(Ordering::Relaxed) && self.has_requests.swap(false, Ordering::AcqRel)
    }

    /// The shard refused a request: its own task is to hear of it.
    pub(crate) fn refused(&self, refused: Refused) {
        self.refusals.lock().push(refused);
        self.has_refusals.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn take_refusals(&self) -> Vec<Refused> {
        if !self.has_refusals.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.refusals.lock())
    }

    /// From the journal's list of those that wait: it is in the list no more.
    pub(crate) fn released(&self) {
        self.waits.store(false, Ordering::Release);
    }

    /// Sends until nothing is left or the socket takes no more. The outbound is held only to
    /// take bytes over from it: whoever has something for the connection never waits for a write.
    fn pump(self: &Arc<Self>, node: &Node) {
        let mut sending = self.sending.lock();
        let mut has_sent = false;
        let (pending, failed) = loop {
            let mut outbound = self.outbound.lock();
            match self.shard() {
                Some(shard) => self.release(shard, &mut outbound),
                None => outbound.flush(),
            }
            if has_sent {
                outbound.has_sent(node.clock.now_ms());
            }
            self.drained
                .fetch_add(outbound.take_credit(), Ordering::AcqRel);
            outbound.hand_over(&mut sending.bytes);
            let waits = outbound.pending_bytes() + sending.pending_bytes();
            let failed = outbound.has_failed();
            if outbound.has_requests() {
                self.has_requests.store(true, Ordering::Release);
            }
            drop(outbound);
            has_sent = !self.broken.load(Ordering::Acquire) && self.write(&mut sending);
            if !has_sent {
                break (waits as u64, failed);
            }
        };
        drop(sending);
        let before = self.pending_bytes.swap(pending, Ordering::AcqRel);
        let most = node.outbox_bytes_max();
        if failed || before > most && pending <= most {
            self.wake.notify_one();
        }
    }

    /// Releases what is committed. What still waits is entered in the list first and the mark
    /// read again after, so that a commit in between is either seen here or finds the entry.
    /// What is due is flushed before asking what waits: only the oldest verdict is looked at.
    fn release(self: &Arc<Self>, shard: &ShardDriver, outbound: &mut Outbound) {
        outbound.committed(shard.marks.committed());
        outbound.flush();
        if outbound.waits_for().is_some() && !self.waits.swap(true, Ordering::AcqRel) {
            shard.waiting.lock().push(Arc::clone(self));
            outbound.committed(shard.marks.committed());
            outbound.flush();
        }
    }

    /// The own task is to go on once the socket takes more, which may be now.
    fn leave_to_own_task(&self) {
        if !self.blocked.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    /// Writes as much as the socket takes. False where that is nothing.
    fn write(&self, sending: &mut Leaving) -> bool {
        match &mut sending.frames {
            None => self.write_plain(&mut sending.bytes),
            Some(frames) => self.write_framed(&mut sending.bytes, frames),
        }
    }

    fn write_plain(&self, sending: &mut Sending) -> bool {
        let mut has_sent = false;
        while sending.pending_bytes() > 0 {
            let mut slices = Vec::with_capacity(SLICES);
            sending.transmit(&mut slices);
            let written = self.socket.try_write_vectored(&slices);
            drop(slices);
            let Some(count) = self.written(written) else {
                break;
            };
            has_sent |= count > 0;
            let drained = sending.advance(count);
            self.drained.fetch_add(drained, Ordering::AcqRel);
        }
        has_sent
    }

    fn write_framed(&self, sending: &mut Sending, frames: &mut Frames) -> bool {
        let mut has_sent = false;
        loop {
            let drained = frames.fill(sending);
            self.drained.fetch_add(drained, Ordering::AcqRel);
            let next = frames.transmit();
            if next.is_empty() {
                return has_sent;
            }
            let Some(count) = self.written(self.socket.try_write(next)) else {
                return has_sent;
            };
            has_sent |= count > 0;
            frames.advance(count);
        }
    }

    /// How much was written, or `None` where no more can be.
    fn written(&self, written: std::io::Result<usize>) -> Option<usize> {
        match written {
            Ok(count) => {
                self.bytes_out.fetch_add(count as u64, Ordering::Relaxed);
                Some(count)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.leave_to_own_task();
                None
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Some(0),
            Err(_) => {
                self.broken.store(true, Ordering::Release);
                self.wake.notify_one();
                None
            }
        }
    }

    /// Over WebSocket, says something beside the protocol; it is sent with the next flush. Not
    /// within a batch: who holds an outbound does not wait for what is being sent.
    pub(crate) fn say(&self, saying: Saying) {
        if let Some(frames) = &mut self.sending.lock().frames {
            frames.say(saying);
        }
    }

    /// Sends a heartbeat where one is due; an idle connection keeps no buffers.
    pub(crate) fn rest(&self, now_ms: u64) {
        self.outbound.lock().rest(now_ms);
        if let Some(mut sending) = self.sending.try_lock()
            && sending.pending_bytes() == 0
        {
            sending.bytes.shrink();
            if let Some(frames) = &mut sending.frames {
                frames.shrink();
            }
        }
    }
}

/// Small batches lie in one piece.
const SLICES: usize = 4;
