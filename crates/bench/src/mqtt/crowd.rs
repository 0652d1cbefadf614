//! Many clients that each shake hands, perhaps subscribe, and stay or go: all at once as far as the
//! rate and the number of open handshakes let them.

use super::engine::Moved;
use super::options::Options;
use super::wire::{self, Accepted, DISCONNECT, Session, kind};
use crate::BenchError;
use crate::connection::Connection;
use crate::histogram::Histogram;
use crate::numbers::{count, length, nanos};
use crate::progress::Progress;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Handshakes that are open at once. Brokers listen with a backlog of a hundred and more, and a
/// client that finds it full waits for a second.
const OPEN_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_secs(30);
const EVENTS_AT_ONCE: usize = 256;

/// What every client of a crowd does.
pub(crate) struct Plan<'a> {
    pub(crate) clients: u64,
    pub(crate) client_id: &'a dyn Fn(u64) -> String,
    pub(crate) session: Session,
    /// The filters it subscribes to; none of nothing.
    pub(crate) filters: &'a dyn Fn(u64) -> Vec<String>,
    /// It keeps its connection.
    pub(crate) stays: bool,
    /// Its session must be there.
    pub(crate) returns: bool,
}

/// What came of a crowd.
pub(crate) struct Outcome {
    /// The connections of those that stay.
    pub(crate) held: Vec<TcpStream>,
    pub(crate) done: u64,
    /// Refused, ended or left without an answer; or, where they return, without their session.
    pub(crate) refused: u64,
    /// The last reason code that refused one.
    pub(crate) code: Option<u8>,
    /// From the begin of a connection to its CONNACK.
    pub(crate) latency: Histogram,
}

/// How far a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Connecting,
    Subscribing,
}

struct Client {
    stream: TcpStream,
    number: u64,
    step: Step,
    began: Instant,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
}

struct Crowd<'a> {
    options: &'a Options,
    plan: Plan<'a>,
    poll: OwnedFd,
    /// Those whose handshake is open, each at its place.
    open: Vec<Option<Client>>,
    free: Vec<usize>,
    begun: u64,
    outcome: Outcome,
}

/// Lets all of them come.
pub(crate) fn run(
    options: &Options,
    plan: Plan<'_>,
    progress: &mut Progress,
) -> Result<Outcome, BenchError> {
    let mut crowd = Crowd {
        options,
        plan,
        poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        open: (0..OPEN_MAX).map(|_| None).collect(),
        free: (0..OPEN_MAX).collect(),
        begun: 0,
        outcome: Outcome {
            held: Vec::new(),
            done: 0,
            refused: 0,
            code: None,
            latency: Histogram::new(),
        },
    };
    let start = Instant::now();
    let mut moved = Moved::now(crowd.finished());
    let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
    while crowd.finished() < crowd.plan.clients {
        let due = crowd.due(start.elapsed());
        while crowd.begun < due && !crowd.free.is_empty() {
            crowd.begin()?;
        }
        crowd.wait(&mut events, start.elapsed())?;
        for event in events.drain(..) {
            let data = event.data;
            crowd.advance(length(data.u64()));
        }
        moved.look(crowd.finished());
        if moved.still_for() >= PATIENCE && crowd.free.len() < OPEN_MAX {
            crowd.give_up();
        }
        let finished = crowd.finished();
        progress.count(finished, Some(crowd.plan.clients), "clients");
    }
    progress.end();
    Ok(crowd.outcome)
}

impl Crowd<'_> {
    fn finished(&self) -> u64 {
        self.outcome.done + self.outcome.refused
    }

    /// How many may have begun by then.
    fn due(&self, elapsed: Duration) -> u64 {
        let all = self.plan.clients;
        self.options.ramp.map_or(all, |per_second| {
            let due = u128::from(nanos(elapsed)) * u128::from(per_second) / 1_000_000_000;
            u64::try_from(due + 1).unwrap_or(all).min(all)
        })
    }

    /// Until a socket is ready or the next client is due.
    fn wait(&mut self, events: &mut Vec<Event>, elapsed: Duration) -> Result<(), BenchError> {
        let mut wait = Duration::from_secs(1);
        if let Some(per_second) = self.options.ramp.filter(|_| self.begun < self.plan.clients) {
            let next = u128::from(self.begun) * 1_000_000_000 / u128::from(per_second);
            let next = Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX));
            if !self.free.is_empty() {
                wait = wait.min(next.saturating_sub(elapsed));
            }
        }
        let timeout = Timespec::try_from(wait).unwrap_or_default();
        events.clear();
        match epoll::wait(&self.poll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn begin(&mut self) -> Result<(), BenchError> {
        let (number, began) = (self.begun, Instant::now());
        self.begun += 1;
        let stream = match self.connect() {
            Ok(stream) => stream,
            // The first one tells whether anybody listens there.
            Err(error) if number == 0 => {
                return Err(BenchError::Connect {
                    address: self.options.address.to_string(),
                    error,
                });
            }
            Err(_) => {
                self.outcome.refused += 1;
                return Ok(());
            }
        };
        let id = (self.plan.client_id)(number);
        let mut output = Vec::new();
        self.options
            .connect(&id, self.plan.session)
            .put(&mut output);
        let Some(place) = self.free.pop() else {
            return Ok(());
        };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(&self.poll, &stream, EventData::new_u64(count(place)), flags)?;
        if let Some(open) = self.open.get_mut(place) {
            *open = Some(Client {
                stream,
                number,
                step: Step::Connecting,
                began,
                input: Vec::new(),
                output,
                written: 0,
            });
        }
        Ok(())
    }

    /// A connection whose handshake goes on by itself.
    fn connect(&self) -> std::io::Result<TcpStream> {
        let family = if self.options.address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &self.options.address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn advance(&mut self, place: usize) {
        let Some(mut client) = self.open.get_mut(place).and_then(Option::take) else {
            return;
        };
        match self.exchange(&mut client) {
            Ok(false) => {
                if let Some(open) = self.open.get_mut(place) {
                    *open = Some(client);
                }
                return;
            }
            Ok(true) => self.finish(client),
            Err(error) => {
                if let BenchError::Denied { code, .. } = error {
                    self.outcome.code = Some(code);
                }
                self.outcome.refused += 1;
            }
        }
        self.free.push(place);
    }

    /// Writes and reads what there is; true once the client is through.
    fn exchange(&mut self, client: &mut Client) -> Result<bool, BenchError> {
        if !client.flush()? {
            return Ok(false);
        }
        let ended = client.fill()?;
        let input = std::mem::take(&mut client.input);
        let mut rest = &*input;
        while let Some(packet) = wire::split(&mut rest)? {
            match (client.step, packet.kind()) {
                (Step::Connecting, kind::CONNACK) => {
                    let accepted = Accepted::of(packet, self.options.version)?;
                    self.greet(client, accepted)?;
                    let filters = (self.plan.filters)(client.number);
                    if filters.is_empty() {
                        return Ok(true);
                    }
                    client.step = Step::Subscribing;
                    let names = filters.iter().map(String::as_str);
                    let (version, qos) = (self.options.version, self.options.subscribe_qos);
                    wire::put_subscribe(&mut client.output, version, 1, names, qos);
                    client.flush()?;
                }
                (Step::Subscribing, kind::SUBACK) => {
                    let codes = wire::granted(packet, self.options.version)?;
                    return match codes.iter().find(|code| **code >= 0x80) {
                        None => Ok(true),
                        Some(code) => Err(BenchError::Denied {
                            what: "SUBSCRIBE",
                            code: *code,
                        }),
                    };
                }
                _ => {}
            }
        }
        client.input = rest.to_vec();
        if ended {
            return Err(BenchError::HungUp);
        }
        Ok(false)
    }

    fn greet(&mut self, client: &Client, accepted: Accepted) -> Result<(), BenchError> {
        if accepted.code != 0 {
            return Err(BenchError::Denied {
                what: "CONNECT",
                code: accepted.code,
            });
        }
        if self.plan.returns && !accepted.session_present {
            return Err(BenchError::Malformed("a CONNACK without the session"));
        }
        self.outcome
            .latency
            .record(nanos(client.began.elapsed()), 1);
        Ok(())
    }

    fn finish(&mut self, client: Client) {
        self.outcome.done += 1;
        if self.plan.stays {
            // An error leaves it watched, which does no harm.
            let _ = epoll::delete(&self.poll, &client.stream);
            self.outcome.held.push(client.stream);
        } else {
            // A socket that just answered takes two bytes.
            let _ = Connection::write(&client.stream, DISCONNECT);
        }
    }

    /// Those that got no answer are taken for refused.
    fn give_up(&mut self) {
        for (place, open) in self.open.iter_mut().enumerate() {
            if open.take().is_some() {
                self.outcome.refused += 1;
                self.free.push(place);
            }
        }
    }
}

impl Client {
    /// Whether all is written.
    fn flush(&mut self) -> Result<bool, BenchError> {
        while let Some(rest @ [_, ..]) = self.output.get(self.written..) {
            match Connection::write(&self.stream, rest) {
                Ok(Some(size)) => self.written += size,
                Ok(None) => return Ok(false),
                Err(BenchError::Io(error)) if error.kind() == ErrorKind::NotConnected => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads what there is; true at the end of the connection.
    fn fill(&mut self) -> Result<bool, BenchError> {
        let mut bytes = [0; 512];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(true),
                Ok(size) => self.input.extend(bytes.iter().take(size)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
