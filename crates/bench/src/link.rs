//! One connection under load and the publishers and consumers on its channels.

use crate::BenchError;
use crate::connection::{Connection, refuse_closing};
use crate::consumer::Consumer;
use crate::engine::Tally;
use crate::publisher::Publisher;
use crate::wire::Kind;
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

/// What is done on one channel.
#[derive(Debug)]
pub(crate) enum Role {
    Publisher(Publisher),
    Consumer(Consumer),
}

/// A non-blocking connection; channel `n` has the role at `n - 1`.
#[derive(Debug)]
pub(crate) struct Link {
    connection: Connection,
    roles: Vec<Role>,
    /// What the socket did not take yet of a publisher's run, and whose it is.
    run: Option<(usize, Range<usize>)>,
    /// Whose turn it is to begin a run.
    next: usize,
    /// The socket took less than it was given.
    blocked: bool,
}

impl Link {
    pub(crate) fn new(connection: Connection, roles: Vec<Role>) -> Result<Self, BenchError> {
        connection.set_nonblocking()?;
        Ok(Self {
            connection,
            roles,
            run: None,
            next: 0,
            blocked: false,
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.connection.stream()
    }

    pub(crate) fn publishers(&self) -> impl Iterator<Item = &Publisher> {
        self.roles.iter().filter_map(|role| match role {
            Role::Publisher(publisher) => Some(publisher),
            Role::Consumer(_) => None,
        })
    }

    /// Reads once. A socket with nothing to read is no error.
    pub(crate) fn read(&mut self, now: u64, tally: &mut Tally) -> Result<(), BenchError> {
        let roles = &mut self.roles;
        self.connection.read(|frame, output| {
            let index = usize::from(frame.channel.wrapping_sub(1));
            match roles.get_mut(index) {
                Some(Role::Consumer(consumer)) => consumer.handle(frame, now, output, tally),
                Some(Role::Publisher(publisher)) => publisher.handle(frame, now, tally),
                None if frame.kind == Kind::Method => refuse_closing(frame),
                None => Ok(()),
            }
        })
    }

    pub(crate) fn wants_to_write(&self, now: u64, room: u64) -> bool {
        self.run.is_some()
            || self.connection.has_output()
            || self.publishers().any(|one| one.allowed(now, room) > 0)
    }

    /// Whether writing has to wait until the socket is writable.
    pub(crate) fn blocked(&self) -> bool {
        self.blocked
    }

    /// Writes what waits, then a run of each publisher in turn, as far as the socket takes it.
    pub(crate) fn write(
        &mut self,
        now: u64,
        mut room: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        self.blocked = false;
        self.write_run()?;
        self.write_output()?;
        for _ in 0..self.roles.len() {
            if self.blocked {
                return Ok(());
            }
            let turn = self.next;
            self.next = (turn + 1) % self.roles.len();
            if let Some(Role::Publisher(publisher)) = self.roles.get_mut(turn) {
                let messages = publisher.allowed(now, room);
                if messages > 0 {
                    self.run = Some((turn, publisher.begin(messages, now)));
                    tally.published += messages;
                    room = room.saturating_sub(messages);
                    self.write_run()?;
                }
            }
        }
        Ok(())
    }

    /// When a rate next allows a message, since the epoch.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.publishers().filter_map(Publisher::next_due).min()
    }

    /// Ends the connection in good order.
    pub(crate) fn close(self) {
        let rest = match (&self.run, &self.roles) {
            (Some((index, run)), roles) => match roles.get(*index) {
                Some(Role::Publisher(publisher)) => publisher.rest_of_message(run.clone()),
                Some(Role::Consumer(_)) | None => &[],
            },
            (None, _) => &[],
        };
        self.connection.close(rest);
    }

    fn write_run(&mut self) -> Result<(), BenchError> {
        let Some((index, run)) = &mut self.run else {
            return Ok(());
        };
        let Some(Role::Publisher(publisher)) = self.roles.get(*index) else {
            return Ok(());
        };
        let bytes = publisher.bytes(run.clone());
        match Connection::write(self.connection.stream(), bytes)? {
            Some(size) if size == bytes.len() => self.run = None,
            Some(size) => {
                run.start += size;
                self.blocked = true;
            }
            None => self.blocked = true,
        }
        Ok(())
    }

    fn write_output(&mut self) -> Result<(), BenchError> {
        if !self.blocked && self.connection.has_output() {
            self.connection.flush()?;
            self.blocked = self.connection.has_output();
        }
        Ok(())
    }
}
