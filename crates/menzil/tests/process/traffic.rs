//! Many clients at once, through sockets and a journal on disk.

use std::collections::HashMap;
use std::thread;

use crate::common::{Client, Server, run, text};

const PUBLISHERS: u32 = 6;
const MESSAGES: u32 = 500;

/// Publishes with a window of confirms, and ends once all are confirmed.
fn publish_all(port: u16, publisher: u32, padding: usize) {
    let mut client = Client::open(port);
    client.confirm_select();
    for number in 0..MESSAGES {
        let mut body = format!("{publisher} {number} ").into_bytes();
        body.resize(body.len() + padding, b'x');
        client.publish("q", &body);
    }
    client.await_confirms(MESSAGES.into());
}

/// Publisher and number of a body.
fn read(body: &[u8]) -> (u32, u32) {
    let body = text(body);
    let mut words = body.split(' ');
    let mut number = || words.next().unwrap().parse().unwrap();
    (number(), number())
}

/// Takes that many messages, acknowledging now and then, and checks each publisher's order.
fn consume(client: &mut Client, count: u32) {
    let mut next: HashMap<u32, u32> = HashMap::new();
    for taken in 1..=count {
        let (tag, redelivered, body) = client.delivery();
        assert!(!redelivered);
        let (publisher, number) = read(&body);
        let expected = next.entry(publisher).or_default();
        assert_eq!(number, *expected, "publisher {publisher}");
        *expected += 1;
        if taken % 7 == 0 || taken == count {
            client.ack(tag, true);
        }
    }
}

#[test]
fn each_message_comes_once_and_in_its_publishers_order() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let port = server.port;
    let mut client = Client::open(port);
    client.declare("q");
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| thread::spawn(move || publish_all(port, publisher, 100)))
        .collect();
    client.consume("q", 50);
    consume(&mut client, PUBLISHERS * MESSAGES);
    for publisher in publishers {
        publisher.join().unwrap();
    }
    assert_eq!(client.declare("q"), 0);
    drop(client);
    server.kill();
    let server = Server::start(dir.path(), &[]);
    // The last acknowledgements may not have reached the disk; nothing else comes back.
    assert!(Client::open(server.port).declare("q") <= PUBLISHERS * MESSAGES);
}

#[test]
fn bodies_that_memory_does_not_hold_come_back_from_disk() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(
        dir.path(),
        &[
            "--set",
            "body_cache_bytes=0",
            "--set",
            "index_page_entries=4",
            "--set",
            "index_bytes_max=0",
        ],
    );
    let mut client = Client::open(server.port);
    client.declare("q");
    publish_all(server.port, 0, 2000);
    let mut large = b"0 500 ".to_vec();
    large.extend((0..2_500_000_u32).map(|n| n.to_le_bytes()[1]));
    client.confirm_select();
    client.publish("q", &large);
    client.await_confirms(1);
    client.consume("q", 100);
    consume(&mut client, MESSAGES);
    assert!(client.delivery().2 == large);
    let path = dir.path().to_str().unwrap();
    let json = run(&["stats", "--data-dir", path, "--json"]);
    let read: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let fetched = &read["virtual_hosts"][0]["counters"]["fetched"];
    assert!(fetched.as_u64().unwrap() > 100, "{fetched}");
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up_and_gets_everything_later() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(
        dir.path(),
        &[
            "--set",
            "body_cache_bytes=1 MiB",
            "--set",
            "delivery_credit_bytes=64 KiB",
        ],
    );
    let mut slow = Client::open(server.port);
    slow.declare("q");
    slow.consume("q", 0);
    for publisher in 0..PUBLISHERS {
        publish_all(server.port, publisher, 10_000);
    }
    assert_eq!(Client::open(server.port).declare("other"), 0);
    consume(&mut slow, PUBLISHERS * MESSAGES);
    assert_eq!(slow.declare("q"), 0);
}

#[test]
fn checkpoints_set_segments_free_under_load() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "--set",
        "segment_bytes=1 MiB",
        "--set",
        "checkpoint_bytes=1 MiB",
    ];
    let server = Server::start(dir.path(), &arguments);
    let mut client = Client::open(server.port);
    client.declare("q");
    client.consume("q", 50);
    let port = server.port;
    let publisher = thread::spawn(move || publish_all(port, 0, 20_000));
    consume(&mut client, MESSAGES);
    publisher.join().unwrap();
    let until = std::time::Instant::now() + crate::common::PATIENCE;
    let segments = || {
        let names = std::fs::read_dir(dir.path()).unwrap();
        names
            .filter(|name| {
                text(name.as_ref().unwrap().file_name().as_encoded_bytes()).starts_with("segment-")
            })
            .count()
    };
    // Ten MiB went through; what is left is what is prepared and in use.
    while segments() > 6 {
        assert!(std::time::Instant::now() < until, "{} segments", segments());
        thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(client);
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    let server = Server::start(dir.path(), &arguments);
    assert_eq!(Client::open(server.port).declare("q"), 0);
}
