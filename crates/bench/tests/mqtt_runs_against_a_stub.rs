//! MQTT loads against a stub of a broker: exact filters and those that end in `#`, durable sessions,
//! retained messages. It refuses to go on where a packet is not what the standard asks for, and
//! loses messages where a test wants it to.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test and its stub fail by panicking"
)]

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Stub {
    sessions: HashMap<Vec<u8>, Session>,
    retained: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How often each packet type was received.
    packets: HashMap<u8, u64>,
    /// One of so many deliveries is lost.
    loses: Option<u64>,
    /// Clients are refused after so many.
    accepts: Option<u64>,
    delivered: u64,
    accepted: u64,
}

#[derive(Default)]
struct Session {
    version: u8,
    durable: bool,
    filters: Vec<(Vec<u8>, u8)>,
    stream: Option<TcpStream>,
    stored: Vec<Message>,
    next_id: u16,
}

#[derive(Clone)]
struct Message {
    topic: Vec<u8>,
    qos: u8,
    payload: Vec<u8>,
}

fn start(stub: Stub) -> (u16, Arc<Mutex<Stub>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let stub = Arc::new(Mutex::new(stub));
    let shared = stub.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let stub = shared.clone();
            std::thread::spawn(move || {
                let client = serve(stream, &stub);
                let mut stub = stub.lock().unwrap();
                if let Some(session) = stub.sessions.get_mut(&client) {
                    session.stream = None;
                    if !session.durable {
                        stub.sessions.remove(&client);
                    }
                }
            });
        }
    });
    (port, stub)
}

fn read_packet(reader: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut byte = [0];
    reader.read_exact(&mut byte).ok()?;
    let first = byte[0];
    let (mut length, mut shift) = (0usize, 0);
    loop {
        reader.read_exact(&mut byte).ok()?;
        length |= usize::from(byte[0] & 0x7F) << shift;
        shift += 7;
        if byte[0] & 0x80 == 0 {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, body))
}

fn packet(first: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut bytes = vec![first];
    let mut left = body.len();
    loop {
        let low = u8::try_from(left % 128).unwrap();
        left /= 128;
        bytes.push(if left > 0 { low | 0x80 } else { low });
        if left == 0 {
            break;
        }
    }
    bytes.extend(body);
    bytes
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}

fn string<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = take(rest, 2);
    take(
        rest,
        usize::from(u16::from_be_bytes([length[0], length[1]])),
    )
}

/// One connection; returns whose it was when it ends.
fn serve(mut stream: TcpStream, stub: &Mutex<Stub>) -> Vec<u8> {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let Some((0x10, body)) = read_packet(&mut reader) else {
        return Vec::new();
    };
    let mut rest = &body[..];
    assert_eq!(string(&mut rest), b"MQTT");
    let head = take(&mut rest, 4);
    let (version, clean) = (head[0], head[1] & 2 != 0);
    let properties: &[u8] = if version == 5 { &[0] } else { &[] };
    if version == 5 {
        let length = take(&mut rest, 1)[0];
        take(&mut rest, usize::from(length));
    }
    let client = string(&mut rest).to_vec();
    assert!(rest.is_empty() && !client.is_empty());
    {
        let mut stub = stub.lock().unwrap();
        stub.accepted += 1;
        if stub.accepts.is_some_and(|most| stub.accepted > most) {
            let refusal = packet(0x20, &[&[0, 3], properties]);
            drop(stream.write_all(&refusal));
            return Vec::new();
        }
        if clean {
            stub.sessions.remove(&client);
        }
        let present = u8::from(stub.sessions.contains_key(&client));
        let session = stub.sessions.entry(client.clone()).or_default();
        (session.version, session.durable) = (version, !clean);
        session.stream = Some(stream.try_clone().unwrap());
        let accepted = packet(0x20, &[&[present, 0], properties]);
        drop(stream.write_all(&accepted));
        for message in std::mem::take(&mut session.stored) {
            session.send(&message, message.qos, false);
        }
    }
    while let Some((first, body)) = read_packet(&mut reader) {
        let mut stub = stub.lock().unwrap();
        *stub.packets.entry(first >> 4).or_default() += 1;
        match first {
            0x82 => stub.subscribe(&client, &body),
            0x30..0x40 => stub.publish(&client, first, &body),
            0x62 => stub.answer(&client, 0x70, &body),
            0x50 => stub.answer(&client, 0x62, &body),
            0x40 | 0x70 => assert_eq!(body.len(), 2),
            0xE0 => break,
            other => panic!("unexpected packet 0x{other:02X}"),
        }
    }
    client
}

impl Stub {
    fn subscribe(&mut self, client: &[u8], body: &[u8]) {
        let mut rest = body;
        let id = take(&mut rest, 2).to_vec();
        let session = self.sessions.get_mut(client).unwrap();
        let properties: &[u8] = if session.version == 5 {
            assert_eq!(take(&mut rest, 1), [0]);
            &[0]
        } else {
            &[]
        };
        let mut codes = Vec::new();
        let mut retained = Vec::new();
        while !rest.is_empty() {
            let filter = string(&mut rest).to_vec();
            let qos = take(&mut rest, 1)[0];
            codes.push(qos);
            let found = self.retained.iter();
            retained.extend(
                found
                    .filter(|(topic, _)| matches(&filter, topic))
                    .map(|(topic, payload)| (topic.clone(), payload.clone(), qos)),
            );
            session.filters.push((filter, qos));
        }
        session.write(&packet(0x90, &[&id, properties, &codes]));
        for (topic, payload, qos) in retained {
            let message = Message {
                topic,
                qos,
                payload,
            };
            session.send(&message, qos, true);
        }
    }

    fn publish(&mut self, client: &[u8], first: u8, body: &[u8]) {
        let qos = first >> 1 & 3;
        let mut rest = body;
        let topic = string(&mut rest).to_vec();
        let id = take(&mut rest, if qos > 0 { 2 } else { 0 }).to_vec();
        assert!(qos == 0 || id != [0, 0]);
        if self.sessions[client].version == 5 {
            assert_eq!(take(&mut rest, 1), [0]);
        }
        if first & 1 == 1 && rest.is_empty() {
            self.retained.remove(&topic);
        } else if first & 1 == 1 {
            self.retained.insert(topic.clone(), rest.to_vec());
        }
        for session in self.sessions.values_mut() {
            let mut filters = session.filters.iter();
            let Some((_, granted)) = filters.find(|(filter, _)| matches(filter, &topic)) else {
                continue;
            };
            let qos = qos.min(*granted);
            self.delivered += 1;
            if self
                .loses
                .is_some_and(|each| self.delivered.is_multiple_of(each))
            {
                continue;
            }
            let message = Message {
                topic: topic.clone(),
                qos,
                payload: rest.to_vec(),
            };
            if session.stream.is_some() {
                session.send(&message, qos, false);
            } else if session.durable && qos > 0 {
                session.stored.push(message);
            }
        }
        match qos {
            0 => {}
            1 => self.answer(client, 0x40, &id),
            _ => self.answer(client, 0x50, &id),
        }
    }

    fn answer(&mut self, client: &[u8], first: u8, id: &[u8]) {
        assert_eq!(id.len(), 2);
        self.sessions
            .get_mut(client)
            .unwrap()
            .write(&packet(first, &[id]));
    }
}

impl Session {
    fn send(&mut self, message: &Message, qos: u8, retain: bool) {
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        let id = self.next_id.to_be_bytes();
        let topic = u16::try_from(message.topic.len()).unwrap().to_be_bytes();
        let bytes = packet(
            0x30 | qos << 1 | u8::from(retain),
            &[
                &topic,
                &message.topic,
                if qos > 0 { &id } else { &[] },
                if self.version == 5 { &[0] } else { &[] },
                &message.payload,
            ],
        );
        self.write(&bytes);
    }

    /// A client that is gone is noticed where its packets are read.
    fn write(&mut self, bytes: &[u8]) {
        if let Some(stream) = &mut self.stream {
            drop(stream.write_all(bytes));
        }
    }
}

/// Shared groups have one member here.
fn matches(filter: &[u8], topic: &[u8]) -> bool {
    let filter = match filter.strip_prefix(b"$share/") {
        Some(rest) => &rest[rest.iter().position(|byte| *byte == b'/').unwrap() + 1..],
        None => filter,
    };
    match filter.strip_suffix(b"#") {
        Some(front) => topic.starts_with(front),
        None => filter == topic,
    }
}

/// Runs the command line and returns the rows as JSON and what the stub has seen.
fn run(stub: Stub, words: &str) -> (Vec<String>, Arc<Mutex<Stub>>) {
    let (port, stub) = start(stub);
    let line = format!("mqtt --connect 127.0.0.1:{port} --json --quiet {words}");
    let text = menzil_bench::report(line.split_whitespace().map(str::to_owned)).unwrap();
    (text.lines().map(str::to_owned).collect(), stub)
}

/// The first value of a field; `None` where it is `null`.
fn field(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(&format!("\"{name}\":")).unwrap();
    rest.split([',', '}']).next().unwrap().parse().ok()
}

#[test]
fn messages_of_every_qos_and_version_are_counted_and_none_is_lost() {
    for version in ["3.1.1", "5"] {
        for words in [
            "--scenario qos0",
            "--scenario qos1 --publishers 2",
            "--scenario qos2",
            "--scenario qos2 --sub-qos 1 --size 0",
            "--scenario fanout0 --subscribers 3 --topics 5 --filters 3",
            "--scenario shared --subscribers 1",
        ] {
            let (rows, _) = run(
                Stub::default(),
                &format!("{words} --version {version} --seconds 0.2 --warmup 0.05"),
            );
            assert!(field(&rows[0], "done").unwrap() > 0.0, "{words}: {rows:?}");
            assert_eq!(field(&rows[0], "lost"), Some(0.0), "{words}: {rows:?}");
        }
    }
}

#[test]
fn what_a_broker_loses_is_told() {
    let loses = |each| Stub {
        loses: Some(each),
        ..Stub::default()
    };
    let (rows, _) = run(loses(10), "--scenario qos0 --messages 1000");
    assert_eq!(field(&rows[0], "delivered"), Some(900.0), "{rows:?}");
    assert_eq!(field(&rows[0], "lost"), Some(100.0), "{rows:?}");
    // More is missing than the backlog allows: the run goes on all the same.
    let (rows, _) = run(loses(2), "--scenario qos1 --messages 100 --backlog 20");
    assert_eq!(field(&rows[0], "lost"), Some(50.0), "{rows:?}");
}

#[test]
fn latencies_are_of_deliveries_where_messages_have_their_time() {
    let (rows, _) = run(
        Stub::default(),
        "--scenario latency --rate 200 --seconds 0.5 --size 8",
    );
    assert!(field(&rows[0], "latency_p50_ns").unwrap() > 0.0, "{rows:?}");
    // No more than half a minute's worth, which is far less than without a rate.
    assert!(field(&rows[0], "done").unwrap() <= 6000.0, "{rows:?}");
}

#[test]
fn sessions_that_were_away_come_back_for_everything() {
    let (rows, stub) = run(
        Stub::default(),
        "--scenario drain --messages 3000 --subscribers 2 --publishers 2",
    );
    assert_eq!(field(&rows[0], "confirmed"), Some(3000.0), "{rows:?}");
    assert_eq!(field(&rows[1], "delivered"), Some(6000.0), "{rows:?}");
    assert_eq!(field(&rows[1], "lost"), Some(0.0), "{rows:?}");
    assert_eq!(stub.lock().unwrap().packets[&4], 6000);
}

#[test]
fn retained_messages_are_set_read_and_deleted() {
    let (rows, stub) = run(
        Stub::default(),
        "--scenario retained-read --retained 2500 --publishers 3",
    );
    assert_eq!(field(&rows[0], "done"), Some(2500.0), "{rows:?}");
    assert_eq!(field(&rows[1], "done"), Some(2500.0), "{rows:?}");
    assert!(stub.lock().unwrap().retained.is_empty());
    let (_, stub) = run(
        Stub::default(),
        "--scenario retained-load --retained 7 --keep --name x",
    );
    let stub = stub.lock().unwrap();
    let topics: Vec<String> = stub
        .retained
        .keys()
        .map(|topic| String::from_utf8(topic.clone()).unwrap())
        .collect();
    assert_eq!(topics.len(), 7);
    assert_eq!(topics[6], "bench/x/000/000/006");
}

#[test]
fn crowds_come_stay_and_come_back() {
    for words in [
        "--scenario idle-connections --connections 100 --filters 3",
        "--scenario idle-sessions --sessions 100 --version 5",
        "--scenario storm --connections 100 --ramp 1000",
        "--scenario storm --connections 100 --ramp 1000 --version 5",
    ] {
        let (rows, _) = run(Stub::default(), words);
        assert_eq!(field(&rows[0], "done"), Some(100.0), "{words}: {rows:?}");
        assert_eq!(field(&rows[0], "lost"), Some(0.0), "{words}: {rows:?}");
        assert!(field(&rows[0], "latency_p50_ns").unwrap() > 0.0);
    }
    let refuses = Stub {
        accepts: Some(81),
        ..Stub::default()
    };
    let (rows, _) = run(refuses, "--scenario idle-connections --connections 100");
    assert_eq!(field(&rows[0], "done"), Some(80.0), "{rows:?}");
    assert_eq!(field(&rows[0], "lost"), Some(20.0), "{rows:?}");
    assert!(rows[0].contains("refused with code 0x03"), "{rows:?}");
}

#[test]
fn pubacks_are_timed_one_by_one() {
    let (rows, _) = run(Stub::default(), "--scenario puback --messages 50");
    for (row, what) in rows.iter().zip(["no session", "offline session"]) {
        assert!(row.contains(what), "{rows:?}");
        assert_eq!(field(row, "confirmed"), Some(50.0), "{rows:?}");
    }
}

#[test]
fn a_refusal_and_an_address_where_nobody_answers_are_named() {
    let refuses = Stub {
        accepts: Some(0),
        ..Stub::default()
    };
    let (port, _) = start(refuses);
    let answer = |line: String| {
        let words = line.split_whitespace().map(str::to_owned);
        menzil_bench::report(words).unwrap_err().to_string()
    };
    let text = answer(format!("mqtt --connect 127.0.0.1:{port}"));
    assert!(text.contains("CONNECT") && text.contains("0x03"), "{text}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    for words in ["", "--scenario storm", "--scenario idle-connections"] {
        let text = answer(format!("mqtt --connect {address} {words}"));
        assert!(text.contains(&address), "{text}");
    }
}
