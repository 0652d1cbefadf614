//! What the bare machine does with the `latency` scenario: what no broker's latency can beat.
//!
//! An echo in a process of its own reads one TCP connection and writes what came to another, as a
//! broker does between its publisher and its consumer; the generator is the one that loads
//! brokers, so that both figures hold the same work of its own. The echo inherits the two sockets
//! as its standard input and output: it needs no port, and ends when its client does.

use crate::BenchError;
use crate::connection::Connection;
use crate::consumer::Consumer;
use crate::disk::seconds;
use crate::engine::{Engine, Until};
use crate::link::{Link, Role};
use crate::meter::Meter;
use crate::numbers::{count, float, ratio};
use crate::options::{bytes, number};
use crate::plain_words::PlainWords;
use crate::progress::Progress;
use crate::publisher::{Limits, Marks, Publisher, STAMP_BYTES};
use crate::report::{Latency, Row, json, table, terminal_columns};
use crate::wire::Publish;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::time::Duration;

/// As long as the names that a run declares.
const ROUTING_KEY: &str = "bench.0123456789abcdef.0";
const FRAME_BYTES_MAX: usize = 131_072;
const BODY_BYTES_MAX: u64 = 120 * 1024;
/// Of each message where bandwidth is measured; one read of the echo's.
const STREAM_BYTES: usize = 60 * 1024;
const ECHO_BYTES: usize = 64 * 1024;
const BACKLOG_MAX: u64 = 10_000;
/// The word by which this program starts itself as the echo.
const SERVE: &str = "--serve";

/// The command line of `menzil bench loopback`.
#[derive(Debug)]
struct Options {
    rate: u64,
    body_bytes: usize,
    measured: Duration,
    warmup: Duration,
    /// Cores of the echo and of the generator.
    cores: Option<(usize, usize)>,
    bandwidth: bool,
    serve: bool,
    json: bool,
    quiet: bool,
}

impl Options {
    fn parse(args: Vec<String>) -> Result<Self, BenchError> {
        let mut options = Self {
            rate: 1000,
            body_bytes: 100,
            measured: Duration::from_secs(3),
            warmup: Duration::from_millis(500),
            cores: None,
            bandwidth: false,
            serve: false,
            json: false,
            quiet: false,
        };
        let mut words = PlainWords::new(args);
        while let Some(name) = words.next_name() {
            match name.as_str() {
                "--rate" => {
                    options.rate =
                        within("rate", number("rate", &words.value("N")?)?, 1, 1_000_000)?;
                }
                "--size" => {
                    let size = bytes("size", &words.value("BYTES")?)?;
                    let size = within("size", size, count(STAMP_BYTES), BODY_BYTES_MAX)?;
                    options.body_bytes = crate::numbers::length(size);
                }
                "--seconds" => options.measured = seconds(&name, &words.value("S")?)?,
                "--warmup" => options.warmup = seconds(&name, &words.value("S")?)?,
                "--pin" => options.cores = Some(cores(&words.value("ECHO,GENERATOR")?)?),
                "--bandwidth" => options.bandwidth = true,
                SERVE => options.serve = true,
                "--json" => options.json = true,
                "--quiet" => options.quiet = true,
                _ => {
                    return Err(BenchError::Usage(format!(
                        "unknown word {name}; loopback knows --rate, --size, --seconds, --warmup, \
                         --pin, --bandwidth, --json and --quiet"
                    )));
                }
            }
        }
        Ok(options)
    }
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<u64, BenchError> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(BenchError::Usage(format!(
        "--{name} is {least} to {most}, not {value}"
    )))
}

fn cores(text: &str) -> Result<(usize, usize), BenchError> {
    let core = |text: &str| {
        let core = text.parse().ok();
        core.filter(|core| *core < CpuSet::MAX_CPU)
    };
    text.split_once(',')
        .and_then(|(echo, generator)| Some((core(echo)?, core(generator)?)))
        .ok_or_else(|| {
            BenchError::Usage(format!(
                "--pin {text:?} is no pair of cores; write --pin 0,1 for the echo on core 0 and \
                 the generator on core 1"
            ))
        })
}

/// Runs it and returns the table or the JSON; as the echo, nothing.
pub(crate) fn report(args: Vec<String>) -> Result<String, BenchError> {
    let options = Options::parse(args)?;
    if options.serve {
        serve()?;
        return Ok(String::new());
    }
    if let Some((_, generator)) = options.cores {
        pin(None, generator)?;
    }
    let mut rows = vec![measure(&options, Load::Calm, start)?];
    if options.bandwidth {
        rows.push(measure(&options, Load::Stream, start)?);
    }
    Ok(if options.json {
        json(&rows)
    } else {
        table(&rows, terminal_columns())
    })
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Messages at a rate, each with the time it was sent at.
    Calm,
    /// Large ones, as fast as they go.
    Stream,
}

/// Sends through what `start` makes of the echo's two sockets, the one it reads and the one it
/// writes.
fn measure<E: Running>(
    options: &Options,
    load: Load,
    start: impl FnOnce(&Options, TcpStream, TcpStream) -> Result<E, BenchError>,
) -> Result<Row, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (publishing, echo_input) = pair(&listener)?;
    let (consuming, echo_output) = pair(&listener)?;
    let echo = start(options, echo_input, echo_output)?;

    let body_bytes = match load {
        Load::Calm => options.body_bytes,
        Load::Stream => STREAM_BYTES,
    };
    let marks = Marks {
        stamped: load == Load::Calm,
        numbered: false,
        delay: None,
    };
    let limits = Limits {
        rate: (load == Load::Calm).then_some((options.rate, 1)),
        ..Limits::default()
    };
    let message = Publish {
        channel: 1,
        exchange: "",
        routing_key: ROUTING_KEY,
        headers: &[],
        persistent: false,
        delayed: false,
        expiration: "",
        body_bytes,
        frame_bytes_max: FRAME_BYTES_MAX,
    };
    let mut publishing = Connection::over(publishing)?;
    let publisher = Publisher::attach(&mut publishing, 0, [message].into_iter(), limits, marks)?;
    let links = vec![
        Link::new(
            Connection::over(consuming)?,
            vec![Role::Consumer(Consumer::bare(1, marks))],
        )?,
        Link::new(publishing, vec![Role::Publisher(publisher)])?,
    ];

    let mut engine = Engine::new(links, 1, BACKLOG_MAX);
    let mut progress = Progress::new("loopback", options.quiet);
    engine.run(Until::Elapsed(options.warmup), &mut progress)?;
    engine.tally.latency.clear();
    let before = engine.tally.counts();
    let meter = Meter::of(echo.pid(), None)?;
    engine.run(Until::Elapsed(options.measured), &mut progress)?;
    let reading = meter.stop()?;
    let counts = engine.tally.counts().since(before);
    let row = reading.row(match load {
        Load::Calm => "loopback echo".to_owned(),
        Load::Stream => "loopback stream".to_owned(),
    });
    let megabytes = float(counts.delivered * count(body_bytes)) / 1e6;
    let setup = match load {
        Load::Calm => format!("{body_bytes} B · {}/s", options.rate),
        Load::Stream => format!(
            "{} KiB · {:.0} MB/s",
            body_bytes / 1024,
            ratio(megabytes, row.seconds)
        ),
    };
    Ok(Row {
        setup,
        unit: "messages",
        counts,
        done: counts.delivered,
        latency: Latency::of(&engine.tally.latency),
        ..row
    })
}

/// Both ends of a new connection.
fn pair(listener: &TcpListener) -> Result<(TcpStream, TcpStream), BenchError> {
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let (theirs, _) = listener.accept()?;
    Ok((ours, theirs))
}

/// An echo at work; it ends when its sockets do.
trait Running {
    /// The process that is measured; `None` where it is not one of its own.
    fn pid(&self) -> Option<u32>;
}

/// The echo's process. Killed when it is dropped.
struct Process(Child);

impl Running for Process {
    fn pid(&self) -> Option<u32> {
        Some(self.0.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this program again as the echo.
fn start(options: &Options, input: TcpStream, output: TcpStream) -> Result<Process, BenchError> {
    // What stands before the verb is ours too: `menzil bench`.
    let words = std::env::args().skip(1).take_while(|w| w != "loopback");
    let echo = Command::new(std::env::current_exe()?)
        .args(words)
        .args(["loopback", SERVE])
        .stdin(OwnedFd::from(input))
        .stdout(OwnedFd::from(output))
        .spawn()?;
    let echo = Process(echo);
    if let Some((core, _)) = options.cores {
        pin(Some(&echo), core)?;
    }
    Ok(echo)
}

/// `None` is this thread. The echo has one.
fn pin(echo: Option<&Process>, core: usize) -> Result<(), BenchError> {
    let pid = echo.map(|echo| rustix::process::Pid::from_child(&echo.0));
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(pid, &set).map_err(|error| {
        BenchError::Usage(format!(
            "--pin: cannot run on core {core}: {error}; `nproc --all` says how many there are, \
             from 0"
        ))
    })
}

/// The echo on its standard input and output.
fn serve() -> Result<(), BenchError> {
    let socket = |fd: &dyn AsFd| -> Result<TcpStream, BenchError> {
        let stream = TcpStream::from(fd.as_fd().try_clone_to_owned()?);
        stream.peer_addr().map_err(|_| {
            BenchError::Usage(format!(
                "{SERVE} is how loopback starts its echo; leave it out"
            ))
        })?;
        Ok(stream)
    };
    echo(&socket(&std::io::stdin())?, &socket(&std::io::stdout())?)
}

/// Writes to `output` what comes from `input`, until either ends: one thread and its `epoll`, told
/// of edges, a read and a write for each message that comes alone.
fn echo(mut input: &TcpStream, mut output: &TcpStream) -> Result<(), BenchError> {
    const INPUT: u64 = 0;
    for socket in [input, output] {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
    }
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let edges = epoll::EventFlags::ET;
    let reads = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | edges;
    epoll::add(&poll, input, epoll::EventData::new_u64(INPUT), reads)?;
    let writes = epoll::EventFlags::OUT | edges;
    epoll::add(&poll, output, epoll::EventData::new_u64(INPUT + 1), writes)?;

    let mut bytes = vec![0; ECHO_BYTES];
    let (mut waiting, mut readable, mut writable) = (0..0, false, false);
    let mut ended = false;
    let end = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
    let mut events = Vec::with_capacity(2);
    loop {
        events.clear();
        match epoll::wait(&poll, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            if event.data.u64() == INPUT {
                readable = true;
                // The fields of an event are not aligned.
                let flags = event.flags;
                ended |= flags.intersects(end);
            } else {
                writable = true;
            }
        }
        loop {
            if waiting.is_empty() {
                if !readable {
                    break;
                }
                match moved(input.read(&mut bytes))? {
                    Moved::Some(size) => waiting = 0..size,
                    Moved::None => readable = false,
                    Moved::Ended => return Ok(()),
                }
                // Less than there was room for: the socket is empty until it says otherwise. An
                // end that came with the last bytes is not told again.
                readable &= ended || waiting.len() == bytes.len();
            }
            if !writable || waiting.is_empty() {
                break;
            }
            match moved(output.write(bytes.get(waiting.clone()).unwrap_or_default()))? {
                Moved::Some(size) => waiting.start += size,
                Moved::None => writable = false,
                Moved::Ended => return Ok(()),
            }
        }
    }
}

/// What a read or a write did.
enum Moved {
    Some(usize),
    /// Not now.
    None,
    Ended,
}

fn moved(done: std::io::Result<usize>) -> Result<Moved, BenchError> {
    match done {
        Ok(0) => Ok(Moved::Ended),
        Ok(size) => Ok(Moved::Some(size)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Moved::None),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Moved::Some(0)),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            ) =>
        {
            Ok(Moved::Ended)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::JoinHandle;

    fn parse(line: &str) -> Result<Options, BenchError> {
        Options::parse(line.split_whitespace().map(str::to_owned).collect())
    }

    struct Thread;

    impl Running for Thread {
        fn pid(&self) -> Option<u32> {
            None
        }
    }

    #[test]
    fn what_is_sent_comes_back_on_the_other_connection() {
        let options = parse("--rate 2000 --seconds 0.1 --warmup 0.02 --size 20 --quiet").unwrap();
        for load in [Load::Calm, Load::Stream] {
            let mut thread: Option<JoinHandle<()>> = None;
            let row = measure(&options, load, |_, input, output| {
                thread = Some(std::thread::spawn(move || echo(&input, &output).unwrap()));
                Ok(Thread)
            })
            .unwrap();
            assert!(row.done > 0 && row.counts.published > 0);
            assert_eq!(row.latency.is_some(), load == Load::Calm);
            // The generator's sockets are closed: so the echo ends.
            thread.unwrap().join().unwrap();
        }
    }

    #[test]
    fn an_echo_gives_back_every_byte_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut ours, input) = pair(&listener).unwrap();
        let (output, mut back) = pair(&listener).unwrap();
        let thread = std::thread::spawn(move || echo(&input, &output).unwrap());
        let sent: Vec<u8> = (0..10 << 20)
            .map(|n: u32| n.to_le_bytes()[n as usize % 3])
            .collect();
        let copy = sent.clone();
        let writer = std::thread::spawn(move || ours.write_all(&copy).map(|()| ours).unwrap());
        let mut got = vec![0; sent.len()];
        back.read_exact(&mut got).unwrap();
        assert!(got == sent);
        drop(writer.join().unwrap());
        thread.join().unwrap();
    }

    #[test]
    fn an_end_that_comes_with_the_last_bytes_is_not_missed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut ours, input) = pair(&listener).unwrap();
        let (output, mut back) = pair(&listener).unwrap();
        ours.write_all(b"last").unwrap();
        drop(ours);
        // Both are there before the echo looks for the first time.
        std::thread::sleep(Duration::from_millis(50));
        echo(&input, &output).unwrap();
        drop(output);
        let mut got = Vec::new();
        back.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"last");
    }

    #[test]
    fn what_is_not_understood_is_refused_with_a_way_out() {
        for (line, way_out) in [
            ("--port 7", "--pin"),
            ("--rate", "--rate N"),
            ("--rate many", "whole number"),
            ("--rate 0", "1 to"),
            ("--size 4", "8 to"),
            ("--size 1M", "8 to"),
            ("--seconds soon", "0.5"),
            ("--pin 0", "--pin 0,1"),
            ("--pin 0,9999999", "--pin 0,1"),
        ] {
            let text = parse(line).unwrap_err().to_string();
            assert!(text.contains(way_out), "{line}: {text}");
        }
        assert_eq!(parse("--pin=1,0").unwrap().cores, Some((1, 0)));
    }
}
