//! Clients that come and go.

use menzil_model::fact::{SessionChange, SessionState};
use menzil_model::{ConnectionId, Fact, QueueId};

use super::super::Shard;
use crate::mqtt::{EndReason, SessionLink, SessionOpen, SessionOutput};
use crate::slots::Place;
use crate::turn::Turn;

/// A session that is there for ever.
pub(super) const NEVER: u32 = u32::MAX;

impl Shard {
    /// CONNECT. Who was connected with that client identifier is told to go.
    pub(super) fn open_session(
        &mut self,
        turn: &mut Turn<'_>,
        connection: ConnectionId,
        open: &SessionOpen,
    ) {
        self.open_connection(connection, open.user.clone(), false);
        if let Some(id) = self.sessions.clients.get(&open.client_id).copied() {
            self.take_over(turn, id, open.clean_start);
        }
        // It may have ended with its connection.
        let existing = self.sessions.clients.get(&open.client_id).copied();
        let present = existing.and_then(|id| Some((id, self.queues.place(&id)?)));
        let at = match present {
            Some(at) => self.resume_session(turn, at, open),
            None => self.create_session(turn, open),
        };
        let Some((at, after)) = at else {
            return;
        };
        let Some(place) = self.connections.place(&connection) else {
            return;
        };
        if let Some(state) = self.connections.at_mut(place, connection) {
            state.session = Some(at);
        }
        if let Some(session) = self.session_mut(at) {
            session.link = Some(SessionLink {
                connection,
                place,
                receive_max: open.receive_max.max(1),
            });
        }
        let output = SessionOutput::Opened {
            session_present: present.is_some(),
        };
        turn.send_session(connection, after, output);
        self.session_came(at.0);
        self.touch(at.0);
        self.reset_timer(at.0);
    }

    /// Another connection comes for the session, or for its end.
    fn take_over(&mut self, turn: &mut Turn<'_>, id: QueueId, ends: bool) {
        let queue = self.queues.get(&id);
        let link = queue.and_then(|queue| queue.session.as_deref()?.link);
        if let Some(link) = link {
            let output = SessionOutput::Ended(EndReason::TakenOver);
            turn.send_session(link.connection, 0, output);
            self.leave_session(turn, link.connection, (true, None));
        }
        if ends && self.queues.contains_key(&id) {
            self.end_session(turn, id, true);
        }
    }

    /// The session with that id goes on. Returns it with the index that this waits for.
    fn resume_session(
        &mut self,
        turn: &mut Turn<'_>,
        at: (QueueId, Place),
        open: &SessionOpen,
    ) -> Option<((QueueId, Place), u64)> {
        let state = self.state_of(open);
        let session = self.session_mut(at)?;
        session.user = open.user.clone();
        let after = self.set_state(turn, at, state);
        Some((at, after))
    }

    fn state_of(&self, open: &SessionOpen) -> SessionState {
        SessionState {
            expiry: open.expiry.min(self.settings.sessions.expiry_max),
            left_at: None,
            will: open.will.clone(),
        }
    }

    fn create_session(
        &mut self,
        turn: &mut Turn<'_>,
        open: &SessionOpen,
    ) -> Option<((QueueId, Place), u64)> {
        let state = self.state_of(open);
        let id = QueueId(self.next_queue);
        let durable = state.expiry > 0;
        let opened = SessionChange::Opened {
            client_id: open.client_id.clone(),
            user: open.user.clone(),
            durable,
        };
        // Of one that ends with its connection only the will has to survive.
        let is_written = durable || state.will.is_some();
        let changes = [opened, SessionChange::State(state)];
        let facts = changes.map(|change| Fact::Session {
            session: id,
            change,
        });
        let after = self.record(turn, Fact::Group(facts.to_vec()), is_written);
        let place = self.queues.place(&id)?;
        Some(((id, place), after))
    }

    /// Records what came or went with a connection. Returns the index, 0 where it has none.
    fn set_state(&mut self, turn: &mut Turn<'_>, at: (QueueId, Place), state: SessionState) -> u64 {
        let had_will = self
            .session(at)
            .is_some_and(|session| session.state.will.is_some());
        let is_written = self.is_session_recorded(at) || state.will.is_some() || had_will;
        let fact = Fact::Session {
            session: at.0,
            change: SessionChange::State(state),
        };
        self.record(turn, fact, is_written)
    }

    /// The client's connection ended, with its will or without.
    pub(super) fn leave_session(
        &mut self,
        turn: &mut Turn<'_>,
        connection: ConnectionId,
        (with_will, expiry): (bool, Option<u32>),
    ) {
        let Some(at) = self.session_of(connection) else {
            return;
        };
        self.drop_connection(turn, connection);
        let now = turn.now;
        let expiry_max = self.settings.sessions.expiry_max;
        let Some(session) = self.session_mut(at) else {
            return;
        };
        session.link = None;
        session.route = None;
        let out = std::mem::take(&mut session.in_flight);
        let mut state = session.state.clone();
        state.left_at = Some(now);
        if let Some(expiry) = expiry.filter(|_| state.expiry > 0) {
            state.expiry = expiry.min(expiry_max);
        }
        state.will.take_if(|_| !with_will);
        if let Some(queue) = self.queues.at_mut(at.1, at.0) {
            for one in out {
                queue.put_back(one.sequence);
            }
        }
        let is_over = state.expiry == 0;
        let is_due = state.will.as_ref().is_some_and(|will| will.delay == 0);
        let will = state.will.take_if(|_| is_due || is_over);
        self.session_left(turn, at.0);
        if let Some(will) = will {
            // Before the session knows that it has none: else a crash between would lose it.
            self.publish_will(turn, at.0, &will);
        }
        if is_over {
            self.end_session(turn, at.0, false);
        } else {
            self.set_state(turn, at, state);
            self.reset_timer(at.0);
        }
    }

    /// The session is gone, with all that it has, and with its will if that is to be published.
    pub(super) fn end_session(&mut self, turn: &mut Turn<'_>, id: QueueId, with_will: bool) {
        let Some(place) = self.queues.place(&id) else {
            return;
        };
        let at = (id, place);
        let will = self
            .session(at)
            .and_then(|session| session.state.will.clone());
        let had_will = will.is_some();
        if let Some(will) = will.filter(|_| with_will) {
            self.publish_will(turn, id, &will);
        }
        self.leave_groups(turn, at);
        let shares = self.session(at).is_some_and(|session| session.shares > 0);
        let is_written = self.is_session_recorded(at) || had_will;
        let fact = Fact::Session {
            session: id,
            change: SessionChange::Ended,
        };
        self.record(turn, fact, is_written);
        if shares {
            self.end_groups(turn);
        }
    }

    /// What is due of a session: the end, or its will.
    pub(in super::super) fn session_due(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let Some(place) = self.queues.place(&id) else {
            return;
        };
        let at = (id, place);
        let Some(session) = self.session(at).filter(|session| session.link.is_none()) else {
            return;
        };
        let state = session.state.clone();
        if ends_at(&state).is_some_and(|end| end <= turn.now) {
            self.end_session(turn, id, true);
            return;
        }
        if will_at(&state).is_some_and(|due| due <= turn.now)
            && let Some(will) = &state.will
        {
            self.publish_will(turn, id, will);
            let without = SessionState {
                will: None,
                ..state.clone()
            };
            self.set_state(turn, at, without);
        }
    }

    /// After recovery: no client is connected.
    pub(in super::super) fn recover_sessions(&mut self, turn: &mut Turn<'_>) {
        let mut ids: Vec<QueueId> = self.sessions.clients.values().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(place) = self.queues.place(&id) else {
                continue;
            };
            let state = self
                .session((id, place))
                .map(|session| session.state.clone());
            if let Some(state) = state.filter(|state| state.left_at.is_none()) {
                let left_at = Some(turn.now);
                self.set_state(turn, (id, place), SessionState { left_at, ..state });
            }
            self.session_left(turn, id);
            self.reset_timer(id);
        }
        self.end_groups(turn);
    }
}

/// When a session ends whose client is gone.
pub(super) fn ends_at(state: &SessionState) -> Option<u64> {
    let expiry = Some(state.expiry).filter(|expiry| *expiry != NEVER)?;
    Some(state.left_at? + u64::from(expiry) * 1000)
}

/// When its will is to be published.
pub(super) fn will_at(state: &SessionState) -> Option<u64> {
    let will = state.will.as_ref()?;
    Some(state.left_at? + u64::from(will.delay) * 1000)
}
