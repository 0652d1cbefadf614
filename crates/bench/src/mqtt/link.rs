//! One MQTT connection: blocking while it is set up, non-blocking under load.
//!
//! Bytes are read into a buffer that all connections share; what is left of a packet that is not
//! whole yet is kept with the connection, so that thousands of idle ones stay small.

use super::options::Options;
use super::publisher::Publisher;
use super::subscriber::Subscriber;
use super::wire::{self, Accepted, Connect, DISCONNECT, Packet, Session, Version, kind};
use crate::BenchError;
use crate::connection::Connection;
use crate::engine::Tally;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

/// As much is read at once.
pub(crate) const INPUT_BYTES: usize = 128 * 1024;
const REPLY_TIMEOUT: Duration = Duration::from_mins(1);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// What a SUBSCRIBE of filters carries at most; brokers limit it.
const FILTERS_AT_ONCE: usize = 100;

/// What a connection is for.
#[derive(Debug)]
pub(crate) enum Role {
    Publisher(Box<Publisher>),
    Subscriber(Subscriber),
    /// It is there.
    Nobody,
}

/// A connection that the broker has accepted.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    version: Version,
    pub(crate) role: Role,
    /// The beginning of a packet that is not whole yet.
    partial: Vec<u8>,
    output: Vec<u8>,
    /// How much of `output` the kernel has taken.
    written: usize,
    /// What the socket did not take yet of a publisher's run.
    run: Option<Range<usize>>,
    /// The socket took less than it was given.
    pub(crate) blocked: bool,
}

impl Link {
    /// Connects and waits for the CONNACK. Blocking.
    pub(crate) fn open(
        options: &Options,
        client_id: &str,
        session: Session,
    ) -> Result<(Self, Accepted), BenchError> {
        let stream = TcpStream::connect(options.address).map_err(|error| BenchError::Connect {
            address: options.address.to_string(),
            error,
        })?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let mut link = Self {
            stream,
            version: options.version,
            role: Role::Nobody,
            partial: Vec::new(),
            output: Vec::new(),
            written: 0,
            run: None,
            blocked: false,
        };
        options.connect(client_id, session).put(&mut link.output);
        let version = options.version;
        let greeted = link.call(kind::CONNACK, |packet| Accepted::of(packet, version));
        let accepted = greeted.map_err(|error| refused(error, options))?;
        if accepted.code != 0 {
            return Err(BenchError::Denied {
                what: "CONNECT",
                code: accepted.code,
            });
        }
        Ok((link, accepted))
    }

    /// Subscribes to all of them and returns the least QoS that was granted. Blocking.
    pub(crate) fn subscribe(&mut self, filters: &[String], qos: u8) -> Result<u8, BenchError> {
        let mut least = qos;
        for (id, filters) in (1..).zip(filters.chunks(FILTERS_AT_ONCE)) {
            let names = filters.iter().map(String::as_str);
            wire::put_subscribe(&mut self.output, self.version, id, names, qos);
            let version = self.version;
            let codes = self.call(kind::SUBACK, |packet| {
                wire::granted(packet, version).map(<[u8]>::to_vec)
            })?;
            if let Some(code) = codes.iter().copied().find(|code| *code >= 0x80) {
                return Err(BenchError::Denied {
                    what: "SUBSCRIBE",
                    code,
                });
            }
            least = codes.into_iter().fold(least, u8::min);
        }
        Ok(least)
    }

    /// Puts a SUBSCRIBE into the output without sending it.
    pub(crate) fn queue_subscribe(&mut self, filter: &str, qos: u8) {
        wire::put_subscribe(&mut self.output, self.version, 1, [filter].into_iter(), qos);
    }

    pub(crate) fn set_nonblocking(&self) -> Result<(), BenchError> {
        Ok(self.stream.set_nonblocking(true)?)
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn publisher(&self) -> Option<&Publisher> {
        match &self.role {
            Role::Publisher(publisher) => Some(publisher),
            Role::Subscriber(_) | Role::Nobody => None,
        }
    }

    /// Reads once and takes every whole packet. A socket with nothing to read is no error.
    pub(crate) fn read(
        &mut self,
        input: &mut Vec<u8>,
        now: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        let filled = match self.fill(input) {
            Ok(filled) => filled,
            Err(BenchError::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut rest = input.get(..filled).unwrap_or_default();
        let output = &mut self.output;
        while let Some(packet) = wire::split(&mut rest)? {
            match &mut self.role {
                Role::Subscriber(subscriber) => subscriber.handle(packet, now, output, tally)?,
                Role::Publisher(publisher) => publisher.handle(packet, now, output, tally)?,
                Role::Nobody => {}
            }
            if packet.kind() == kind::DISCONNECT {
                return Err(ended(packet));
            }
        }
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    /// Whether anything waits for the socket to take it.
    pub(crate) fn has_output(&self) -> bool {
        self.run.is_some() || self.written < self.output.len()
    }

    /// Writes what waits, as far as the socket takes it: first the rest of a run, for an answer
    /// may not stand within a packet.
    pub(crate) fn flush(&mut self) -> Result<(), BenchError> {
        self.blocked = false;
        if let (Some(run), Role::Publisher(publisher)) = (&mut self.run, &self.role) {
            let bytes = publisher.bytes(run.clone());
            match Connection::write(&self.stream, bytes)? {
                Some(size) if size == bytes.len() => self.run = None,
                Some(size) => run.start += size,
                None => {}
            }
            if self.run.is_some() {
                self.blocked = true;
                return Ok(());
            }
        }
        while let Some(rest @ [_, ..]) = self.output.get(self.written..) {
            let Some(size) = Connection::write(&self.stream, rest)? else {
                self.blocked = true;
                return Ok(());
            };
            self.written += size;
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Sends the publisher's next run, if it may; returns how many messages that are.
    pub(crate) fn publish(&mut self, now: u64, room: u64) -> Result<u64, BenchError> {
        if self.has_output() {
            return Ok(0);
        }
        let Role::Publisher(publisher) = &mut self.role else {
            return Ok(0);
        };
        let messages = publisher.allowed(now, room);
        if messages > 0 {
            self.run = Some(publisher.begin(messages, now));
            self.flush()?;
        }
        Ok(messages)
    }

    /// Ends the connection in good order. Blocking.
    pub(crate) fn close(self) {
        Self::close_all(vec![self]);
    }

    /// The same with many at once: within two seconds, even where the broker does not end its side.
    /// Failures are not told: the run is over and the sockets are dropped anyway.
    pub(crate) fn close_all(mut links: Vec<Self>) {
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        for link in &mut links {
            drop(link.say_goodbye());
        }
        for link in &mut links {
            drop(link.wait_for_end(deadline));
        }
    }

    /// Sends a DISCONNECT after what is half out already.
    fn say_goodbye(&mut self) -> Result<(), BenchError> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(CLOSE_TIMEOUT))?;
        if let (Some(run), Role::Publisher(publisher)) = (&self.run, &self.role) {
            let rest = publisher.rest_of_message(run.clone());
            self.stream.write_all(rest)?;
        }
        let rest = self.output.get(self.written..).unwrap_or_default();
        self.stream.write_all(rest)?;
        self.stream.write_all(DISCONNECT)?;
        Ok(self.stream.shutdown(Shutdown::Write)?)
    }

    /// Reads what still comes, so that the end is none by a reset.
    fn wait_for_end(&mut self, deadline: Instant) -> Result<(), BenchError> {
        let mut bytes = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.stream.set_read_timeout(Some(left))?;
            if self.stream.read(&mut bytes)? == 0 {
                return Ok(());
            }
        }
    }

    /// Flushes, then reads until a packet of that kind and returns what `take` makes of it.
    /// Blocking.
    fn call<T>(
        &mut self,
        expected: u8,
        take: impl Fn(Packet<'_>) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        self.flush()?;
        let mut input = Vec::new();
        loop {
            let filled = self.fill(&mut input)?;
            let mut rest = input.get(..filled).unwrap_or_default();
            let mut found = None;
            while found.is_none()
                && let Some(packet) = wire::split(&mut rest)?
            {
                if packet.kind() == expected {
                    found = Some(take(packet)?);
                } else if packet.kind() == kind::DISCONNECT {
                    return Err(ended(packet));
                }
            }
            self.partial.clear();
            self.partial.extend_from_slice(rest);
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Puts what was left over and what comes into `input`; returns how much that is.
    fn fill(&mut self, input: &mut Vec<u8>) -> Result<usize, BenchError> {
        let kept = self.partial.len();
        let wanted = INPUT_BYTES.max(2 * kept);
        if input.len() < wanted {
            input.resize(wanted, 0);
        }
        let (front, room) = input.split_at_mut(kept);
        front.copy_from_slice(&self.partial);
        loop {
            match (&self.stream).read(room) {
                Ok(0) => return Err(BenchError::HungUp),
                Ok(size) => return Ok(kept + size),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Options {
    pub(crate) fn connect<'a>(&'a self, client_id: &'a str, session: Session) -> Connect<'a> {
        Connect {
            version: self.version,
            client_id,
            session,
            user: self.user.as_deref(),
            password: self.password.as_deref(),
        }
    }
}

/// The error that a DISCONNECT of the broker's is.
fn ended(packet: Packet<'_>) -> BenchError {
    BenchError::Denied {
        what: "the connection",
        code: packet.body.first().copied().unwrap_or_default(),
    }
}

/// An end before the CONNACK is one of the whole connection.
fn refused(error: BenchError, options: &Options) -> BenchError {
    if matches!(error, BenchError::HungUp) {
        return BenchError::Refused {
            address: options.address.to_string(),
        };
    }
    error
}
