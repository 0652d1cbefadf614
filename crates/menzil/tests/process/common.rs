//! A real server process and a client of bare frames.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use menzil_amqp::frame::{self, Split, split, write_frame};
use menzil_amqp::method::MethodId;
use menzil_amqp::methods::{
    BasicAck, BasicConsume, BasicConsumeOk, BasicPublish, BasicQos, BasicQosOk, ChannelOpen,
    ConfirmSelect, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, Method, QueueDeclare,
};
use menzil_model::Properties;
use menzil_model::wire::Writer as _;

/// Longer than anything takes on a machine that is busy with something else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The binary with these arguments; no setting of the surroundings gets in.
pub(crate) fn menzil(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menzil"));
    command.env_clear().args(arguments);
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    menzil(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server that is ready. Killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// Its ready line.
    pub(crate) ready: String,
    pub(crate) port: u16,
    pub(crate) mqtt_port: u16,
}

impl Server {
    /// Starts on a free port, with small segments so that many tests may run at once, and with the
    /// settings in `MENZIL_TEST_SETTINGS` (`key=value;key=value`): the whole suite also runs where
    /// every page and every body has to come from disk.
    pub(crate) fn start(data_dir: &Path, arguments: &[&str]) -> Self {
        let mut command = menzil(&[
            "server",
            "--amqp",
            "127.0.0.1:0",
            "--mqtt",
            "127.0.0.1:0",
            "--set",
            "segment_bytes=4 MiB",
            // No timer of a handshake wakes a connection that should have been woken before.
            "--set",
            "handshake_timeout_seconds=3600",
        ]);
        if let Ok(settings) = std::env::var("MENZIL_TEST_SETTINGS") {
            for setting in settings.split(';') {
                command.args(["--set", setting]);
            }
        }
        command.arg("--data-dir").arg(data_dir).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut ready).unwrap();
        if ready.is_empty() {
            let output = child.wait_with_output().unwrap();
            panic!("no ready line: {}", text(&output.stderr));
        }
        let port = |protocol: &str| {
            let (_, rest) = ready.split_once(&format!(" {protocol}=127.0.0.1:"))?;
            rest.split(' ').next()?.parse().ok()
        };
        let (port, mqtt_port) = (port("amqp").unwrap_or(0), port("mqtt").unwrap_or(0));
        Self {
            child,
            ready,
            port,
            mqtt_port,
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("/bin/kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Asks it to stop and waits for that. Returns what it logged.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.signal("-TERM");
        self.wait()
    }

    /// Takes its life at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut log = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        (status, log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A frame that came: its channel, and class and method where it is one.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) kind: u8,
    pub(crate) payload: Vec<u8>,
}

impl Came {
    pub(crate) fn id(&self) -> MethodId {
        let number = |at: usize| u16::from_be_bytes([self.payload[at], self.payload[at + 1]]);
        MethodId {
            class: number(0),
            method: number(2),
        }
    }

    pub(crate) fn method(&self) -> Method<'_> {
        assert_eq!(self.kind, frame::METHOD, "{self:?}");
        Method::decode(self.id(), &self.payload[4..]).unwrap()
    }
}

/// A client of bare frames.
pub(crate) struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    /// Publishes of channel 1 that are confirmed.
    confirmed: u64,
    /// The server may be killed under it: what cannot be sent is dropped.
    pub(crate) may_end: bool,
}

impl Client {
    pub(crate) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            input: Vec::new(),
            confirmed: 0,
            may_end: false,
        }
    }

    /// Logged in, with channel 1 open.
    pub(crate) fn open(port: u16) -> Self {
        let mut client = Self::connect(port);
        client.log_in("guest", "guest");
        assert!(matches!(
            client.next().unwrap().method(),
            Method::ConnectionTune(_)
        ));
        client.tune_and_open(0, b"/");
        assert!(matches!(
            client.next().unwrap().method(),
            Method::ConnectionOpenOk(_)
        ));
        client.send(1, &Method::ChannelOpen(ChannelOpen { out_of_band: b"" }));
        assert!(matches!(
            client.next().unwrap().method(),
            Method::ChannelOpenOk(_)
        ));
        client
    }

    /// Sends the protocol header and the login, and takes `connection.start`.
    pub(crate) fn log_in(&mut self, user: &str, password: &str) {
        self.write(b"AMQP\x00\x00\x09\x01");
        assert!(matches!(
            self.next().unwrap().method(),
            Method::ConnectionStart(_)
        ));
        let response = format!("\0{user}\0{password}");
        self.send(
            0,
            &Method::ConnectionStartOk(ConnectionStartOk {
                client_properties: BLOCKED_CAPABILITY,
                mechanism: b"PLAIN",
                response: response.as_bytes(),
                locale: b"en_US",
            }),
        );
    }

    pub(crate) fn tune_and_open(&mut self, heartbeat: u16, virtual_host: &[u8]) {
        let tune = ConnectionTuneOk {
            channel_max: 2047,
            frame_max: 131_072,
            heartbeat,
        };
        self.send(0, &Method::ConnectionTuneOk(tune));
        let open = ConnectionOpen {
            virtual_host,
            capabilities: b"",
            insist: false,
        };
        self.send(0, &Method::ConnectionOpen(open));
    }

    pub(crate) fn send(&mut self, channel: u16, method: &Method<'_>) {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, frame::METHOD, channel, |out| method.write(out));
        self.write(&bytes);
    }

    /// A persistent message through the default exchange.
    pub(crate) fn publish(&mut self, queue: &str, body: &[u8]) {
        self.publish_with(("", queue), &Properties::default(), body);
    }

    /// A persistent message to an exchange with a routing key.
    pub(crate) fn publish_with(
        &mut self,
        (exchange, routing_key): (&str, &str),
        properties: &Properties<'_>,
        body: &[u8],
    ) {
        let mut bytes = Vec::new();
        let publish = Method::BasicPublish(BasicPublish {
            ticket: 0,
            exchange: exchange.as_bytes(),
            routing_key: routing_key.as_bytes(),
            mandatory: false,
            immediate: false,
        });
        write_frame(&mut bytes, frame::METHOD, 1, |out| publish.write(out));
        write_frame(&mut bytes, frame::HEADER, 1, |out| {
            out.put_u16(60);
            out.put_u16(0);
            out.put_u64(body.len() as u64);
            Properties {
                delivery_mode: Some(2),
                ..*properties
            }
            .write(out);
        });
        for part in body.chunks(131_072 - 8) {
            write_frame(&mut bytes, frame::BODY, 1, |out| out.put(part));
        }
        self.write(&bytes);
    }

    pub(crate) fn confirm_select(&mut self) {
        self.send(1, &Method::ConfirmSelect(ConfirmSelect { nowait: false }));
        assert!(matches!(
            self.next().unwrap().method(),
            Method::ConfirmSelectOk(_)
        ));
    }

    /// Declares a durable queue and says how many messages it has.
    pub(crate) fn declare(&mut self, queue: &str) -> u32 {
        self.send(
            1,
            &Method::QueueDeclare(QueueDeclare {
                ticket: 0,
                queue: queue.as_bytes(),
                passive: false,
                durable: true,
                exclusive: false,
                auto_delete: false,
                nowait: false,
                arguments: b"",
            }),
        );
        let came = self.next().unwrap();
        let Method::QueueDeclareOk(ok) = came.method() else {
            panic!("{came:?}");
        };
        ok.message_count
    }

    /// Waits until that many publishes are confirmed, counted from the start of the channel.
    pub(crate) fn await_confirms(&mut self, until: u64) {
        while self.confirmed < until {
            let came = self.next().unwrap();
            let Method::BasicAck(ack) = came.method() else {
                panic!("{came:?}");
            };
            assert!(ack.multiple || ack.delivery_tag == self.confirmed + 1);
            self.confirmed = ack.delivery_tag;
        }
    }

    /// Consumes with acknowledgements and that prefetch count.
    pub(crate) fn consume(&mut self, queue: &str, prefetch_count: u16) {
        let qos = BasicQos {
            prefetch_size: 0,
            prefetch_count,
            global: false,
        };
        self.send(1, &Method::BasicQos(qos));
        self.expect(BasicQosOk::ID);
        self.send(
            1,
            &Method::BasicConsume(BasicConsume {
                ticket: 0,
                queue: queue.as_bytes(),
                consumer_tag: b"",
                no_local: false,
                no_ack: false,
                exclusive: false,
                nowait: false,
                arguments: b"",
            }),
        );
        self.expect(BasicConsumeOk::ID);
    }

    /// The next delivery: its tag, whether it is a redelivery, and its body.
    pub(crate) fn delivery(&mut self) -> (u64, bool, Vec<u8>) {
        let came = self.next().unwrap();
        let Method::BasicDeliver(deliver) = came.method() else {
            panic!("{came:?}");
        };
        let header = self.next().unwrap();
        assert_eq!(header.kind, frame::HEADER);
        let size = header.payload[4..12]
            .try_into()
            .map(u64::from_be_bytes)
            .unwrap();
        let mut body = Vec::new();
        while (body.len() as u64) < size {
            let part = self.next().unwrap();
            assert_eq!(part.kind, frame::BODY);
            body.extend_from_slice(&part.payload);
        }
        (deliver.delivery_tag, deliver.redelivered, body)
    }

    pub(crate) fn ack(&mut self, delivery_tag: u64, multiple: bool) {
        let ack = BasicAck {
            delivery_tag,
            multiple,
        };
        self.send(1, &Method::BasicAck(ack));
    }

    pub(crate) fn expect(&mut self, id: MethodId) {
        let came = self.next().unwrap();
        assert_eq!(came.id(), id, "{came:?}");
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let written = self.stream.write_all(bytes);
        assert!(self.may_end || written.is_ok(), "{written:?}");
    }

    /// The next frame that is no heartbeat; `None` at the end of the socket.
    pub(crate) fn next(&mut self) -> Option<Came> {
        loop {
            let came = self.next_any()?;
            if came.kind != frame::HEARTBEAT {
                return Some(came);
            }
        }
    }

    pub(crate) fn next_any(&mut self) -> Option<Came> {
        loop {
            if let Split::Whole(frame, length) = split(&self.input, u32::MAX) {
                let came = Came {
                    kind: frame.kind,
                    payload: frame.payload.to_vec(),
                };
                self.input.drain(..length);
                return Some(came);
            }
            let mut bytes = vec![0; 65536];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                // Where a read has a time limit, a signal to the process ends it.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// `capabilities: {connection.blocked: true}`
const BLOCKED_CAPABILITY: &[u8] = b"\x0ccapabilitiesF\x00\x00\x00\x15\x12connection.blockedt\x01";
