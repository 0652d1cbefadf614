//! Where a shard's effects go: into the outbound of the connection that each is for, at once.
//!
//! The outbounds that a batch has something for stay locked until it ends, some at a time, so
//! that a delivery takes no lock and no look-up of its own. Only who holds the shard holds more
//! than one, so nobody waits in a circle.

use std::sync::Arc;

use menzil_core::{ChannelKey, Copy, Delivering, Effect, Effects, Output, Reply, SessionOutput};
use menzil_model::{ChannelId, ConnectionId, Map};

use super::Node;
use super::link::{Link, OutboundGuard, Refused};
use super::shard_driver::{ShardDriver, Touched};

/// See the module.
pub(crate) struct Outlet<'a> {
    pub(crate) now_ms: u64,
    pub(crate) node: &'a Node,
    pub(crate) driver: &'a ShardDriver,
    pub(crate) links: &'a Map<ConnectionId, Arc<Link>>,
    pub(crate) open: &'a mut Open,
    pub(crate) touched: &'a mut Touched,
}

impl Outlet<'_> {
    /// The outbound of a connection, `None` where it is gone and has nobody to reach.
    #[inline]
    fn outbound(&mut self, to: ConnectionId) -> Option<&mut OutboundGuard> {
        match self.open.find(to) {
            Some(at) => self.open.get(at),
            None => self.open_outbound(to),
        }
    }

    fn open_outbound(&mut self, to: ConnectionId) -> Option<&mut OutboundGuard> {
        let link = self.links.get(&to)?;
        self.open.outbound(link, self.touched)
    }
}

impl Effects for Outlet<'_> {
    fn effect(&mut self, effect: Effect) {
        let to = match &effect {
            Effect::Channel { to, output, .. } => {
                if let Some(ended) = ended_by(to.channel, output)
                    && let Some(link) = self.links.get(&to.connection)
                {
                    link.refused(ended);
                }
                to.connection
            }
            Effect::Session { to, output, .. } => {
                if let SessionOutput::Ended(reason) = output
                    && let Some(link) = self.links.get(to)
                {
                    link.refused(Refused::Session(*reason));
                }
                *to
            }
            Effect::Connection { to, .. } => *to,
            Effect::Fetch { .. } => {
                self.node.fetches.push(self.driver.id, effect);
                return;
            }
        };
        if let Some(outbound) = self.outbound(to) {
            outbound.handle(effect);
        }
    }

    fn deliver(&mut self, delivery: &Delivering<'_>) {
        if let Some(outbound) = self.outbound(delivery.to.connection) {
            outbound.deliver(delivery);
        }
    }

    fn deliver_copy(&mut self, copy: &Copy<'_>) {
        if let Some(outbound) = self.outbound(copy.to) {
            outbound.deliver_copy(copy);
        }
    }

    fn confirm(&mut self, to: ChannelKey, after: u64, sequence: u64, accepted: bool) {
        if let Some(outbound) = self.outbound(to.connection) {
            outbound.confirm(to, after, sequence, accepted);
        }
    }
}

/// Outbounds that are held until the batch ends.
#[derive(Default)]
pub(crate) struct Open {
    held: Vec<(ConnectionId, OutboundGuard)>,
    /// The one that was asked for last.
    recent: usize,
}

impl Open {
    /// Where that connection's is, if it is held: mostly the same as the last time, or the one
    /// after it where a message goes to many.
    #[inline]
    fn find(&mut self, id: ConnectionId) -> Option<usize> {
        let is_it = |at: usize| self.held.get(at).is_some_and(|(held, _)| *held == id);
        let at = if is_it(self.recent) {
            self.recent
        } else if is_it(self.recent + 1) {
            self.recent + 1
        } else {
            self.held.iter().position(|(held, _)| *held == id)?
        };
        self.recent = at;
        Some(at)
    }

    #[inline]
    fn get(&mut self, at: usize) -> Option<&mut OutboundGuard> {
        self.held.get_mut(at).map(|(_, outbound)| outbound)
    }

    /// The connection's, held from now on, and its link noted as to be flushed.
    pub(crate) fn outbound(
        &mut self,
        link: &Arc<Link>,
        touched: &mut Touched,
    ) -> Option<&mut OutboundGuard> {
        if self.find(link.id).is_none() {
            if self.held.len() >= HELD_MAX {
                self.held.clear();
            }
            self.recent = self.held.len();
            self.held.push((link.id, link.outbound_kept()));
            // Only now: who is told before this to flush it, and has not, waits for the lock.
            if link.touch() {
                touched.push(Arc::clone(link));
            }
        }
        self.get(self.recent)
    }

    /// Lets them all go.
    pub(crate) fn close(&mut self) {
        self.held.clear();
    }
}

/// What the receiving side is to know of an output before its next input.
fn ended_by(channel: ChannelId, output: &Output) -> Option<Refused> {
    if let Output::Reply(Reply::ChannelClosed) = output {
        return Some(Refused::ClosedByClient(channel));
    }
    let Output::Refused { refusal, .. } = output else {
        return None;
    };
    Some(if refusal.is_hard() {
        Refused::Connection
    } else {
        Refused::Channel(channel)
    })
}

/// Looking through them stays short.
const HELD_MAX: usize = 32;
