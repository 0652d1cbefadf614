//! Flows and backlogs against a stub of a broker: one store for all queues, every message to every
//! consumer. It refuses to go on where a frame is not what the standard asks for.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test and its stub fail by panicking"
)]

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Stub {
    consumers: Vec<Consumer>,
    stored: Vec<Vec<u8>>,
    /// How often each method was received.
    methods: HashMap<(u8, u8), u64>,
}

struct Consumer {
    stream: TcpStream,
    tag: Vec<u8>,
    delivery_tag: u64,
}

fn start() -> (u16, Arc<Mutex<Stub>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let stub = Arc::new(Mutex::new(Stub::default()));
    let shared = stub.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let stub = shared.clone();
            std::thread::spawn(move || serve(stream, &stub));
        }
    });
    (port, stub)
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(channel.to_be_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload);
    bytes.push(0xCE);
    bytes
}

fn read_frame(reader: &mut impl Read) -> Option<(u8, u16, Vec<u8>)> {
    let mut head = [0; 7];
    reader.read_exact(&mut head).ok()?;
    let size = u32::from_be_bytes(head[3..7].try_into().unwrap());
    let mut payload = vec![0; usize::try_from(size).unwrap() + 1];
    reader.read_exact(&mut payload).ok()?;
    assert_eq!(payload.pop(), Some(0xCE));
    Some((head[0], u16::from_be_bytes([head[1], head[2]]), payload))
}

/// One connection; returns when it ends. Write errors end it too: the peer is gone then.
fn serve(mut stream: TcpStream, stub: &Mutex<Stub>) -> Option<()> {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut greeting = [0; 8];
    reader.read_exact(&mut greeting).ok()?;
    assert_eq!(&greeting, b"AMQP\x00\x00\x09\x01");
    let start = [
        &[0, 10, 0, 10, 0, 9, 0, 0, 0, 0][..],
        b"\0\0\0\x05PLAIN\0\0\0\x05en_US",
    ]
    .concat();
    stream.write_all(&frame(1, 0, &start)).ok()?;
    let (mut confirming, mut published) = (false, 0u64);
    loop {
        let (kind, channel, payload) = read_frame(&mut reader)?;
        assert_eq!(kind, 1, "a method comes first");
        let id = (payload[1], payload[3]);
        *stub.lock().unwrap().methods.entry(id).or_default() += 1;
        let answer: &[u8] = match id {
            (10, 11) => &[0, 10, 0, 30, 0, 9, 0, 0, 0x10, 0, 0, 0],
            (10, 40) => &[0, 10, 0, 41, 0],
            (10, 50) => &[0, 10, 0, 51],
            (20, 10) => &[0, 20, 0, 11, 0, 0, 0, 0],
            (40, 10) => &[0, 40, 0, 11],
            (40, 20) => &[0, 40, 0, 21],
            (50, 10) => &[0, 50, 0, 11, 1, b'q', 0, 0, 0, 0, 0, 0, 0, 0],
            (50, 20) => &[0, 50, 0, 21],
            (50, 40) => &[0, 50, 0, 41, 0, 0, 0, 0],
            (60, 10) => &[0, 60, 0, 11],
            (60, 20) => &[0, 60, 0, 21, 1, b'c'],
            (85, 10) => {
                confirming = true;
                &[0, 85, 0, 11]
            }
            (60, 40) => {
                published += 1;
                let message = content(&mut reader)?;
                stub.lock().unwrap().publish(message);
                if confirming {
                    let ack = [&[0, 60, 0, 80][..], &published.to_be_bytes(), &[0]].concat();
                    stream.write_all(&frame(1, channel, &ack)).ok()?;
                }
                continue;
            }
            (10, 31) | (60, 80) => continue,
            other => panic!("unexpected method {other:?}"),
        };
        stream.write_all(&frame(1, channel, answer)).ok()?;
        if id == (60, 20) {
            let stream = stream.try_clone().unwrap();
            stub.lock().unwrap().consume(Consumer {
                stream,
                tag: b"\x01c".to_vec(),
                delivery_tag: 0,
            });
        }
    }
}

/// The header and body frames that follow a publish, as they came.
fn content(reader: &mut impl Read) -> Option<Vec<u8>> {
    let (kind, channel, header) = read_frame(reader)?;
    assert_eq!(kind, 2, "a content header follows");
    let mut left = u64::from_be_bytes(header[4..12].try_into().unwrap());
    let mut bytes = frame(2, channel, &header);
    while left > 0 {
        let (kind, _, body) = read_frame(reader)?;
        assert_eq!(kind, 3, "body frames follow");
        assert!(body.len() <= 4088, "no frame over the agreed 4096 bytes");
        left = left
            .checked_sub(u64::try_from(body.len()).unwrap())
            .expect("no more than announced");
        bytes.extend(frame(3, channel, &body));
    }
    Some(bytes)
}

impl Stub {
    fn publish(&mut self, message: Vec<u8>) {
        self.consumers
            .retain_mut(|consumer| consumer.deliver(&message).is_some());
        if self.consumers.is_empty() {
            self.stored.push(message);
        }
    }

    fn consume(&mut self, mut consumer: Consumer) {
        for message in std::mem::take(&mut self.stored) {
            consumer.deliver(&message).expect("the consumer is there");
        }
        self.consumers.push(consumer);
    }
}

impl Consumer {
    fn deliver(&mut self, message: &[u8]) -> Option<()> {
        self.delivery_tag += 1;
        let mut method = [&[0, 60, 0, 60], self.tag.as_slice()].concat();
        method.extend(self.delivery_tag.to_be_bytes());
        method.extend([0, 0, 1, b'q']);
        let bytes = [&frame(1, 1, &method), message].concat();
        self.stream.write_all(&bytes).ok()
    }
}

/// Runs the command line and returns the JSON text and the methods the stub received.
fn run(words: &str) -> (String, HashMap<(u8, u8), u64>) {
    let (port, stub) = start();
    let times = if words.contains("--messages") {
        ""
    } else {
        "--seconds 0.5 --warmup 0.05"
    };
    let line = format!(
        "amqp --uri amqp://127.0.0.1:{port} {times} --json --quiet --pid {} {words}",
        std::process::id(),
    );
    let text = menzil_bench::report(line.split_whitespace().map(str::to_owned)).unwrap();
    let methods = stub.lock().unwrap().methods.clone();
    (text, methods)
}

/// The first value of a field; `None` where it is `null`.
fn field(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(&format!("\"{name}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().ok()
}

const EXCHANGE_DECLARE: (u8, u8) = (40, 10);
const QUEUE_DECLARE: (u8, u8) = (50, 10);
const QUEUE_DELETE: (u8, u8) = (50, 40);
const BASIC_ACK: (u8, u8) = (60, 80);

#[test]
fn deliveries_are_counted_and_every_queue_is_deleted() {
    for words in [
        "--scenario transient --publishers 2",
        "--scenario fanout --queues 3",
    ] {
        let (text, methods) = run(words);
        assert!(field(&text, "done").unwrap() > 0.0, "{text}");
        assert!(field(&text, "delivered").unwrap() > 0.0, "{text}");
        assert!(
            field(&text, "broker_resident_bytes").unwrap() > 0.0,
            "{text}"
        );
        assert_eq!(field(&text, "confirmed"), Some(0.0));
        assert_eq!(methods[&QUEUE_DECLARE], methods[&QUEUE_DELETE], "{words}");
        assert_eq!(methods.get(&BASIC_ACK), None);
    }
}

#[test]
fn bodies_of_no_frame_and_of_many_frames_are_sent_as_the_header_says() {
    for size in [0, 1, 4088, 4089, 50_000] {
        let (text, _) = run(&format!("--scenario transient --size {size}"));
        assert!(field(&text, "delivered").unwrap() > 0.0, "{text}");
    }
}

#[test]
fn manual_acks_are_sent_one_by_one_or_in_batches() {
    let (text, methods) = run("--scenario manual-ack");
    let delivered = field(&text, "delivered").unwrap();
    assert!(delivered > 0.0 && f64::from(u32::try_from(methods[&BASIC_ACK]).unwrap()) >= delivered);
    let (_, methods) = run("--scenario manual-ack --ack-batch 50");
    assert!(methods[&BASIC_ACK] > 0);
}

#[test]
fn confirms_are_counted_and_timed() {
    for words in [
        "--scenario confirm --publishers 3 --confirm 10",
        "--scenario confirm-one",
    ] {
        let (text, _) = run(words);
        assert!(field(&text, "confirmed").unwrap() > 0.0, "{text}");
        assert!(field(&text, "latency_p50_ns").unwrap() > 0.0, "{text}");
    }
}

#[test]
fn a_rate_is_kept_and_deliveries_are_timed() {
    let (text, _) = run("--scenario latency --rate 20 --size 5000 --seconds 1");
    // No more than half a minute's worth, which is far less than without a rate.
    let delivered = field(&text, "delivered").unwrap();
    assert!((1.0..=600.0).contains(&delivered), "{text}");
    assert!(field(&text, "latency_p99_ns").unwrap() > 0.0, "{text}");
}

/// The stub delays nothing: every message comes before it is due.
#[test]
fn delayed_messages_are_timed_from_when_they_are_due() {
    let (text, methods) = run("--scenario delays --rate 1000 --delay 60000-90000 --transient");
    assert!(field(&text, "delivered").unwrap() > 0.0, "{text}");
    assert_eq!(field(&text, "latency_p999_ns"), Some(0.0), "{text}");
    assert_eq!(methods[&EXCHANGE_DECLARE], 1);
}

#[test]
fn a_backlog_is_loaded_and_drained_to_the_last_message() {
    for words in ["--publishers 2", "--ack auto"] {
        let (text, _) = run(&format!("--scenario drain --messages 5000 {words}"));
        let (preload, drain) = text.split_once('\n').unwrap();
        assert_eq!(field(preload, "confirmed"), Some(5000.0), "{text}");
        assert_eq!(field(drain, "delivered"), Some(5000.0), "{text}");
    }
}

#[test]
fn an_address_where_nobody_answers_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let words = [
        "amqp".to_owned(),
        "--uri".to_owned(),
        format!("amqp://{address}"),
    ];
    let error = menzil_bench::report(words).unwrap_err();
    assert!(error.to_string().contains(&address), "{error}");
}
