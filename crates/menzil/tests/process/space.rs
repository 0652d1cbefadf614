//! What a few messages that stay cost on disk, while many come and go beside them.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Client, PATIENCE, Server};

const SEGMENT: u64 = 64 << 10;
const SETTINGS: [&str; 4] = [
    "--set",
    "segment_bytes=64 KiB",
    "--set",
    "checkpoint_bytes=256 KiB",
];
const WINDOW: u64 = 100;

/// Bytes of all files of the folder.
fn folder_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap();
    // One may be renamed while it is looked at.
    let length = |file: std::io::Result<std::fs::DirEntry>| file.ok()?.metadata().ok();
    files.filter_map(length).map(|found| found.len()).sum()
}

fn cold_files(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap();
    let names = names.map(|name| name.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with("cold-"))
        .count()
}

/// Waits until the folder has come down to that.
fn await_folder_below(dir: &Path, bytes: u64) {
    let until = Instant::now() + PATIENCE;
    while folder_bytes(dir) >= bytes {
        assert!(
            Instant::now() < until,
            "{} bytes instead of {bytes}: {:?}",
            folder_bytes(dir),
            std::fs::read_dir(dir)
                .unwrap()
                .flatten()
                .map(|file| (
                    file.file_name(),
                    file.metadata().map(|found| found.len()).ok()
                ))
                .collect::<Vec<_>>()
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// Publishes to each queue in turn and takes everything out of all but those in `kept`.
fn pass_through(server: &Server, queues: &[&str], kept: &[&str], messages: u64, body: &[u8]) {
    let mut publisher = Client::open(server.port);
    for queue in queues {
        publisher.declare(queue);
    }
    publisher.confirm_select();
    let gone: Vec<&str> = queues
        .iter()
        .copied()
        .filter(|queue| !kept.contains(queue))
        .collect();
    let port = server.port;
    thread::scope(|scope| {
        for queue in &gone {
            scope.spawn(move || {
                let mut consumer = Client::open(port);
                consumer.consume(queue, 200);
                for number in 1..=messages {
                    let (tag, ..) = consumer.delivery();
                    if number % 50 == 0 || number == messages {
                        consumer.ack(tag, true);
                    }
                }
                // The settles are in before the channel is gone.
                assert_eq!(consumer.declare(queue), 0);
            });
        }
        let mut published = 0_u64;
        for _ in 0..messages {
            for queue in queues {
                publisher.publish(queue, body);
                published += 1;
            }
            publisher.await_confirms(published.saturating_sub(WINDOW));
        }
        publisher.await_confirms(published);
    });
}

#[test]
fn one_unacknowledged_message_keeps_no_segments_and_outlives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &SETTINGS);
    let mut client = Client::open(server.port);
    client.declare("stays");
    client.confirm_select();
    client.publish("stays", &[7; 1000]);
    client.await_confirms(1);
    client.consume("stays", 1);
    assert_eq!(client.delivery().2, [7; 1000]);
    // Unacknowledged from here on, while a hundred segments pass.
    pass_through(&server, &["passes"], &[], 6500, &[9; 1000]);
    // Its commit covers the acknowledgements, which nobody waits for.
    client.declare("witness");
    await_folder_below(dir.path(), 3 * 1000 + 4 * SEGMENT);
    // The segment that holds it may be among the four for a while.
    let until = Instant::now() + PATIENCE;
    while cold_files(dir.path()) == 0 {
        assert!(Instant::now() < until, "it is not evacuated");
        thread::sleep(Duration::from_millis(50));
    }
    server.kill();
    let server = Server::start(dir.path(), &SETTINGS);
    let mut client = Client::open(server.port);
    assert_eq!(client.declare("stays"), 1);
    assert_eq!(client.declare("passes"), 0);
    client.consume("stays", 1);
    let (tag, redelivered, body) = client.delivery();
    assert_eq!((redelivered, body), (true, vec![7; 1000]));
    client.ack(tag, false);
    assert_eq!(client.declare("stays"), 0);
    let until = Instant::now() + PATIENCE;
    while cold_files(dir.path()) > 0 {
        assert!(Instant::now() < until, "the cold file stays");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_dead_queue_beside_five_fast_ones_costs_about_what_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &SETTINGS);
    let queues = ["dead", "one", "two", "three", "four", "five"];
    pass_through(&server, &queues, &["dead"], 1000, &[5; 1000]);
    await_folder_below(dir.path(), 3 * 1000 * 1000 + 4 * SEGMENT);
    server.kill();
    let server = Server::start(dir.path(), &SETTINGS);
    let mut client = Client::open(server.port);
    assert_eq!(client.declare("dead"), 1000);
    client.consume("dead", 0);
    for _ in 0..1000 {
        assert_eq!(client.delivery().2, [5; 1000]);
    }
}

#[test]
fn the_folder_of_an_empty_broker_is_small() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &SETTINGS);
    let mut client = Client::open(server.port);
    client.declare("q");
    await_folder_below(dir.path(), 6 * SEGMENT);
    drop(server);
}
