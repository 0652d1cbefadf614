//! One AMQP connection with channel 1 open: blocking while it is set up, non-blocking under load.
//!
//! Its input grows with what is read, so that thousands of idle connections stay small.

use crate::BenchError;
use crate::uri::Target;
use crate::wire::{self, Fields, Frame, Kind, Publish, id};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Two of the largest frames this program agrees to, so that one always fits whole.
const INPUT_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX as usize;
/// As much is read at once under load; more would only fall out of the processor's cache.
const INPUT_BYTES_BUSY: usize = 128 * 1024;
const INPUT_BYTES_IDLE: usize = 2048;
const FRAME_BYTES_MAX: u32 = 131_072;
/// How many calls are on their way at once where answers are not waited for one by one.
const CALLS_IN_FLIGHT: u64 = 1000;
const CAPABILITIES: [&str; 4] = [
    "publisher_confirms",
    "basic.nack",
    "consumer_cancel_notify",
    "authentication_failure_close",
];
const REPLY_TIMEOUT: Duration = Duration::from_mins(1);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// How much of `input` holds bytes not handled yet.
    filled: usize,
    output: Vec<u8>,
    /// How much of `output` the kernel has taken.
    written: usize,
    frame_bytes_max: usize,
}

impl Connection {
    /// Connects, logs in with PLAIN, agrees to no heartbeats and opens channel 1.
    pub(crate) fn open(target: &Target) -> Result<Self, BenchError> {
        let stream = TcpStream::connect((target.host.as_str(), target.port)).map_err(|error| {
            BenchError::Connect {
                address: target.address(),
                error,
            }
        })?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let mut connection = Self {
            stream,
            input: vec![0; INPUT_BYTES_IDLE],
            filled: 0,
            output: Vec::new(),
            written: 0,
            frame_bytes_max: 4096,
        };
        let greeted = connection
            .stream
            .write_all(wire::PROTOCOL_HEADER)
            .map_err(BenchError::Io)
            .and_then(|()| connection.wait_for(id::CONNECTION_START));
        greeted.map_err(|error| refused(error, target))?;
        connection.log_in(target)?;
        connection.tune()?;
        connection.queue(0, id::CONNECTION_OPEN, |out| {
            wire::put_short(out, &target.virtual_host);
            wire::put_short(out, "");
            out.push(0);
        });
        connection.wait_for(id::CONNECTION_OPEN_OK)?;
        connection.open_channel(1)?;
        Ok(connection)
    }

    /// A connection on which nobody shakes hands: what its other end is sent and sends back is
    /// frames all the same.
    pub(crate) fn over(stream: TcpStream) -> Result<Self, BenchError> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            input: vec![0; INPUT_BYTES_IDLE],
            filled: 0,
            output: Vec::new(),
            written: 0,
            frame_bytes_max: FRAME_BYTES_MAX as usize,
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    pub(crate) fn set_nonblocking(&self) -> Result<(), BenchError> {
        Ok(self.stream.set_nonblocking(true)?)
    }

    /// Puts a method into the output without sending it.
    pub(crate) fn queue(
        &mut self,
        channel: u16,
        method: id::Method,
        arguments: impl FnOnce(&mut Vec<u8>),
    ) {
        wire::put_method(&mut self.output, channel, method, arguments);
    }

    /// Blocking.
    pub(crate) fn open_channel(&mut self, channel: u16) -> Result<(), BenchError> {
        self.queue(channel, id::CHANNEL_OPEN, |out| wire::put_short(out, ""));
        self.wait_for(id::CHANNEL_OPEN_OK).map(drop)
    }

    /// Blocking.
    pub(crate) fn close_channel(&mut self, channel: u16) -> Result<(), BenchError> {
        self.queue(channel, id::CHANNEL_CLOSE, |out| {
            out.extend_from_slice(&200u16.to_be_bytes());
            wire::put_short(out, "");
            out.extend_from_slice(&[0; 4]);
        });
        self.wait_for(id::CHANNEL_CLOSE_OK).map(drop)
    }

    /// Sends a method on channel 1 and waits for its answer, whose arguments it returns. Blocking.
    pub(crate) fn call(
        &mut self,
        method: id::Method,
        answer: id::Method,
        arguments: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Vec<u8>, BenchError> {
        self.queue(1, method, arguments);
        self.wait_for(answer)
    }

    /// The same `count` times, many on their way at once. Blocking.
    pub(crate) fn call_all(
        &mut self,
        count: u64,
        method: id::Method,
        answer: id::Method,
        mut arguments: impl FnMut(u64, &mut Vec<u8>),
    ) -> Result<(), BenchError> {
        let mut answered = 0;
        for index in 0..count {
            self.queue(1, method, |out| arguments(index, out));
            // Half of them are sent while the other half is answered.
            if index - answered >= CALLS_IN_FLIGHT {
                for _ in 0..CALLS_IN_FLIGHT / 2 {
                    self.wait_for(answer)?;
                    answered += 1;
                }
            }
        }
        (answered..count).try_for_each(|_| self.wait_for(answer).map(drop))
    }

    /// Puts a whole message into the output without sending it.
    pub(crate) fn publish(&mut self, publish: Publish<'_>) {
        publish.put(&mut self.output);
    }

    /// Fails where the broker ended the connection meanwhile.
    pub(crate) fn is_alive(&self) -> Result<(), BenchError> {
        self.set_nonblocking()?;
        match self.stream.peek(&mut [0]) {
            Ok(0) => Err(BenchError::HungUp),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.into()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether bytes wait for the socket to take them.
    pub(crate) fn has_output(&self) -> bool {
        self.written < self.output.len()
    }

    /// Writes what waits, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> Result<(), BenchError> {
        while let Some(rest @ [_, ..]) = self.output.get(self.written..) {
            let Some(size) = Self::write(&self.stream, rest)? else {
                return Ok(());
            };
            self.written += size;
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }

    /// Writes bytes that are kept elsewhere; `None` where the socket takes none now.
    pub(crate) fn write(mut stream: &TcpStream, bytes: &[u8]) -> Result<Option<usize>, BenchError> {
        loop {
            match stream.write(bytes) {
                Ok(size) => return Ok(Some(size)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads once and hands every whole frame to `handle`, which may append to the output.
    /// Non-blocking; a socket with nothing to read is no error.
    pub(crate) fn read(
        &mut self,
        mut handle: impl FnMut(Frame<'_>, &mut Vec<u8>) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        match self.fill() {
            Ok(()) => {}
            Err(BenchError::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        let output = &mut self.output;
        let left = walk(
            self.input.get(..self.filled).unwrap_or_default(),
            &mut |frame: Frame<'_>| handle(frame, output),
        )?;
        self.keep_last(left);
        Ok(())
    }

    /// Says good-bye within two seconds, after `rest` of a message that is half out already.
    /// Failures are not told: the run is over and the socket is dropped anyway.
    pub(crate) fn close(mut self, rest: &[u8]) {
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        let farewell = |this: &mut Self| -> Result<(), BenchError> {
            this.stream.set_nonblocking(false)?;
            this.stream.set_write_timeout(Some(CLOSE_TIMEOUT))?;
            this.stream.set_read_timeout(Some(CLOSE_TIMEOUT))?;
            this.flush()?;
            this.stream.write_all(rest)?;
            this.queue(0, id::CONNECTION_CLOSE, |out| {
                out.extend_from_slice(&200u16.to_be_bytes());
                wire::put_short(out, "");
                out.extend_from_slice(&[0; 4]);
            });
            this.flush()?;
            let mut closed = false;
            while !closed && Instant::now() < deadline {
                this.read(|frame, _| {
                    closed |= Fields(frame.payload).method() == Some(id::CONNECTION_CLOSE_OK)
                        && frame.kind == Kind::Method;
                    Ok(())
                })?;
            }
            Ok(())
        };
        drop(farewell(&mut self));
    }

    fn log_in(&mut self, target: &Target) -> Result<(), BenchError> {
        self.queue(0, id::CONNECTION_START_OK, |out| {
            wire::put_long(out, |table| {
                wire::put_text_entry(table, "product", "menzil-bench");
                wire::put_short(table, "capabilities");
                table.push(b'F');
                wire::put_long(table, |capabilities| {
                    for name in CAPABILITIES {
                        wire::put_short(capabilities, name);
                        capabilities.extend_from_slice(b"t\x01");
                    }
                });
            });
            wire::put_short(out, "PLAIN");
            wire::put_long(out, |response| {
                for part in [&target.user, &target.password] {
                    response.push(0);
                    response.extend_from_slice(part.as_bytes());
                }
            });
            wire::put_short(out, "en_US");
        });
        self.flush()
    }

    fn tune(&mut self) -> Result<(), BenchError> {
        let arguments = self.wait_for(id::CONNECTION_TUNE)?;
        let mut fields = Fields(&arguments);
        let (Some(channels), Some(offered)) = (fields.u16(), fields.u32()) else {
            return Err(BenchError::Malformed("a connection.tune too short"));
        };
        // 0 means that the broker sets no limit.
        let agreed = if offered == 0 {
            FRAME_BYTES_MAX
        } else {
            offered.min(FRAME_BYTES_MAX)
        };
        self.frame_bytes_max = crate::numbers::length(u64::from(agreed.max(4096)));
        self.queue(0, id::CONNECTION_TUNE_OK, |out| {
            out.extend_from_slice(&channels.to_be_bytes());
            out.extend_from_slice(&agreed.to_be_bytes());
            out.extend_from_slice(&[0, 0]);
        });
        Ok(())
    }

    /// Flushes, then reads until `expected` and returns its arguments. Blocking.
    pub(crate) fn wait_for(&mut self, expected: id::Method) -> Result<Vec<u8>, BenchError> {
        self.flush()?;
        loop {
            let mut rest = self.input.get(..self.filled).unwrap_or_default();
            let mut found = None;
            while found.is_none()
                && let Some(frame) = wire::split_frame(&mut rest)?
            {
                if frame.kind == Kind::Method {
                    let mut fields = Fields(frame.payload);
                    if fields.method() == Some(expected) {
                        found = Some(fields.0.to_vec());
                    } else {
                        refuse_closing(frame)?;
                    }
                }
            }
            let left = rest.len();
            self.keep_last(left);
            match found {
                Some(arguments) => return Ok(arguments),
                None => self.fill()?,
            }
        }
    }

    fn fill(&mut self) -> Result<(), BenchError> {
        if self.filled == self.input.len() {
            if self.filled == INPUT_BYTES_MAX {
                return Err(BenchError::Malformed("a frame larger than was agreed"));
            }
            self.input.resize(INPUT_BYTES_MAX.min(2 * self.filled), 0);
        }
        let room = self.input.get_mut(self.filled..).unwrap_or_default();
        loop {
            match (&self.stream).read(room) {
                Ok(0) => return Err(BenchError::HungUp),
                Ok(size) => {
                    self.filled += size;
                    if self.filled == self.input.len() && self.filled < INPUT_BYTES_BUSY {
                        self.input.resize(INPUT_BYTES_BUSY, 0);
                    }
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Moves the last `left` bytes of the input to its front.
    fn keep_last(&mut self, left: usize) {
        self.input.copy_within(self.filled - left..self.filled, 0);
        self.filled = left;
    }
}

/// Hands every whole frame to `handle` and returns how many bytes are left of one that is not.
#[inline]
pub(crate) fn walk(
    bytes: &[u8],
    handle: &mut impl FnMut(Frame<'_>) -> Result<(), BenchError>,
) -> Result<usize, BenchError> {
    let mut rest = bytes;
    while let Some(frame) = wire::split_frame(&mut rest)? {
        handle(frame)?;
    }
    Ok(rest.len())
}

/// What an end before the first word means.
fn refused(error: BenchError, target: &Target) -> BenchError {
    let ended = match &error {
        BenchError::HungUp => true,
        BenchError::Io(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ),
        BenchError::Usage(_)
        | BenchError::Connect { .. }
        | BenchError::Refused { .. }
        | BenchError::Process { .. }
        | BenchError::Malformed(_)
        | BenchError::Closed { .. }
        | BenchError::Denied { .. }
        | BenchError::Cancelled
        | BenchError::Stalled { .. }
        | BenchError::Misordered(_) => false,
    };
    if !ended {
        return error;
    }
    BenchError::Refused {
        address: target.address(),
    }
}

/// Turns a method by which the broker ends things into the error it means; others pass.
pub(crate) fn refuse_closing(frame: Frame<'_>) -> Result<(), BenchError> {
    let mut fields = Fields(frame.payload);
    match fields.method() {
        Some(id::CONNECTION_CLOSE | id::CHANNEL_CLOSE) => {
            let code = fields.u16().unwrap_or_default();
            let text = fields.short_string().unwrap_or_default();
            Err(BenchError::Closed {
                code,
                text: String::from_utf8_lossy(text).into_owned(),
            })
        }
        Some(id::BASIC_CANCEL) => Err(BenchError::Cancelled),
        Some(_) => Ok(()),
        None => Err(BenchError::Malformed("a method frame too short")),
    }
}
