//! Bytes on disk that are not what was written.

use std::fs;
use std::path::Path;

use crate::common::{Client, Server, run, text};

/// Flips a bit of the one place in the segments where these bytes are.
fn damage(dir: &Path, needle: &[u8]) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if !text(path.file_name().unwrap().as_encoded_bytes()).starts_with("segment-") {
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        let found = bytes
            .windows(needle.len())
            .position(|bytes| bytes == needle);
        if let Some(at) = found {
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            return;
        }
    }
    panic!("nothing to damage");
}

fn fill(server: &Server) {
    let mut client = Client::open(server.port);
    client.declare("a-queue-to-find");
    client.confirm_select();
    for body in ["first", "message-to-find", "third"] {
        client.publish("a-queue-to-find", body.as_bytes());
        client.publish("a-queue-to-find", b"between");
    }
    client.await_confirms(6);
    // A later batch: damage in the very last one cannot be told from a torn write.
    client.publish("a-queue-to-find", b"last");
    client.await_confirms(7);
}

fn bodies(server: &Server, count: usize) -> Vec<String> {
    let mut client = Client::open(server.port);
    client.consume("a-queue-to-find", 0);
    (0..count).map(|_| text(&client.delivery().2)).collect()
}

const LEFT: [&str; 6] = ["first", "between", "between", "third", "between", "last"];

#[test]
fn a_damaged_message_of_the_tail_is_named_at_the_start_and_alone_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    fill(&server);
    server.kill();
    damage(dir.path(), b"message-to-find");
    let verify = run(&["journal", "verify", dir.path().to_str().unwrap()]);
    assert_eq!(verify.status.code(), Some(1));
    assert!(text(&verify.stderr).contains("a server starts on it all the same"));
    let found = text(&verify.stdout);
    assert!(
        found.contains("of virtual host \"/\" is damaged"),
        "{found}"
    );
    assert!(found.contains("effect: of each damaged message"), "{found}");
    let server = Server::start(dir.path(), &[]);
    assert_eq!(bodies(&server, 6), LEFT);
    assert_eq!(Client::open(server.port).declare("a-queue-to-find"), 6);
    let (_, log) = server.stop();
    assert!(
        log.contains("a record is damaged and set aside record=1:"),
        "{log}"
    );
}

#[test]
fn a_damaged_message_below_the_checkpoint_is_named_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    fill(&server);
    assert_eq!(server.stop().0.code(), Some(0));
    damage(dir.path(), b"message-to-find");
    let server = Server::start(dir.path(), &[]);
    assert_eq!(Client::open(server.port).declare("a-queue-to-find"), 7);
    assert_eq!(bodies(&server, 6), LEFT);
    assert_eq!(Client::open(server.port).declare("a-queue-to-find"), 6);
    let (_, log) = server.stop();
    assert!(
        log.contains("message cannot be read and is dropped"),
        "{log}"
    );
    assert!(log.contains("record=1:"), "{log}");
}

#[test]
fn a_damaged_declaration_refuses_the_start_and_repair_lets_it_through() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let server = Server::start(dir.path(), &[]);
    fill(&server);
    server.kill();
    damage(dir.path(), b"a-queue-to-find");
    let refused = run(&["server", "--amqp", "off", "--data-dir", path]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(text(&refused.stdout), "");
    let error = text(&refused.stderr);
    assert!(
        error.contains("topology record 1:") && error.contains("menzil journal repair"),
        "{error}"
    );
    let verify = run(&["journal", "verify", path]);
    assert!(text(&verify.stderr).contains("no server starts on it"));
    assert!(text(&verify.stderr).contains("menzil journal repair"));
    let repair = run(&["journal", "repair", path]);
    let done = text(&repair.stdout);
    assert!(done.contains("effect: of each damaged topology"), "{done}");
    assert!(done.contains("done: dropped"), "{done}");
    assert_eq!(repair.status.code(), Some(0), "{}", text(&repair.stderr));
    let server = Server::start(dir.path(), &[]);
    assert_eq!(Client::open(server.port).declare("a-queue-to-find"), 0);
}
