//! Bytes on disk that are not what was written.

use std::fs;
use std::path::{Path, PathBuf};

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
    let lost = "routing-key=\"a-queue-to-find\" body-bytes=15 entries=1:3 (queue 1 is \"a-queue-to-find\")";
    assert!(found.contains(lost), "{found}");
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
fn what_a_queue_needs_of_what_was_taken_out_is_missed_until_it_was_due() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    fill(&server);
    assert_eq!(server.stop().0.code(), Some(0));
    damage(dir.path(), b"message-to-find");
    let (code, _) = journal("repair", dir.path());
    assert_eq!(code, Some(0));
    let (code, found) = journal("verify", dir.path());
    assert_eq!(code, Some(1), "{found}");
    assert!(
        found.contains("of virtual host \"/\" is missing"),
        "{found}"
    );
    assert!(found.contains("taken out by a repair"), "{found}");
    assert!(!found.contains("no damage was found"), "{found}");
    let server = Server::start(dir.path(), &[]);
    assert_eq!(bodies(&server, 6), LEFT);
    let (_, log) = server.stop();
    assert!(
        log.contains("records that queues need are missing"),
        "{log}"
    );
    let (code, found) = journal("verify", dir.path());
    assert_eq!(code, Some(0), "{found}");
    let (_, log) = Server::start(dir.path(), &[]).stop();
    assert!(
        !log.contains("records that queues need are missing"),
        "{log}"
    );
}

/// Messages of a queue by number.
fn publish_numbers(server: &Server, numbers: std::ops::Range<u32>) {
    let mut client = Client::open(server.port);
    client.declare("numbers");
    client.confirm_select();
    let count = u64::from(numbers.end - numbers.start);
    for number in numbers {
        client.publish("numbers", format!("number-{number:04}").as_bytes());
    }
    client.await_confirms(count);
}

#[test]
fn what_is_confirmed_before_and_after_repairs_survives_kills() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Server::start(dir.path(), &[]);
    let server = start();
    publish_numbers(&server, 0..20);
    server.kill();
    let mut gone = Vec::new();
    for (round, hit) in [vec![5, 6, 7], vec![15, 30], vec![0, 28, 47]]
        .into_iter()
        .enumerate()
    {
        // The start marks the end of the log: no damage in it is a torn write then.
        start().kill();
        for number in &hit {
            damage(dir.path(), format!("number-{number:04}").as_bytes());
        }
        gone.extend(hit);
        assert_eq!(journal("repair", dir.path()).0, Some(0));
        assert_eq!(journal("verify", dir.path()).0, Some(0));
        for part in 0..2 {
            let server = start();
            let first = 20 + 20 * u32::try_from(round).unwrap() + 10 * part;
            publish_numbers(&server, first..first + 10);
            server.kill();
        }
    }
    let left: Vec<String> = (0..80)
        .filter(|number| !gone.contains(number))
        .map(|number| format!("number-{number:04}"))
        .collect();
    let server = start();
    let mut client = Client::open(server.port);
    assert_eq!(client.declare("numbers") as usize, left.len());
    client.consume("numbers", 0);
    let found: Vec<String> = left.iter().map(|_| text(&client.delivery().2)).collect();
    assert_eq!(found, left);
    let (_, log) = server.stop();
    assert!(
        !log.contains("cannot be read") && !log.contains("missing"),
        "{log}"
    );
}

#[test]
fn a_damaged_declaration_refuses_the_start_and_repair_lets_it_through() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let server = Server::start(dir.path(), &[]);
    fill(&server);
    server.kill();
    damage(dir.path(), b"a-queue-to-find");
    let refused = run(&[
        "server",
        "--amqp",
        "off",
        "--mqtt",
        "off",
        "--data-dir",
        path,
    ]);
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
    // The flipped bit is in its first letter; the rest tells who was lost.
    assert!(
        done.contains("it still reads as QueueDeclared queue=1 name=\"`-queue-to-find\" durable"),
        "{done}"
    );
    assert!(done.contains("effect: of each damaged topology"), "{done}");
    assert!(done.contains("done: dropped"), "{done}");
    assert_eq!(repair.status.code(), Some(0), "{}", text(&repair.stderr));
    let server = Server::start(dir.path(), &[]);
    assert_eq!(Client::open(server.port).declare("a-queue-to-find"), 0);
}

/// Forty messages of a tenth of a mebibyte each, over several segments.
fn fill_deep(server: &Server) {
    let mut client = Client::open(server.port);
    client.declare("deep");
    client.confirm_select();
    for number in 0..40_u8 {
        client.publish("deep", &vec![number; 100_000]);
        client.await_confirms(u64::from(number) + 1);
    }
}

const SMALL: [&str; 2] = ["--set", "segment_bytes=1 MiB"];

/// The files whose names start so, in order; of segments, those with batches.
fn files(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| text(path.file_name().unwrap().as_encoded_bytes()).starts_with(prefix));
    if prefix == "segment-" {
        let used = |path: &PathBuf| fs::read(path).unwrap()[512..].iter().any(|byte| *byte != 0);
        paths.retain(used);
    }
    paths.sort();
    paths
}

fn cut(path: &Path, length: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

/// What a `menzil journal` verb printed, and with which code it ended.
fn journal(verb: &str, dir: &Path) -> (Option<i32>, String) {
    let output = run(&["journal", verb, dir.to_str().unwrap()]);
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), said)
}

#[test]
fn a_damaged_checkpoint_is_told_and_a_repair_that_cannot_mend_it_fails() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    fill(&server);
    assert_eq!(server.stop().0.code(), Some(0));
    let (code, said) = journal("verify", dir.path());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 segment, "), "{said}");
    assert!(said.ends_with("no damage was found\n"), "{said}");

    for checkpoint in files(dir.path(), "checkpoint-1-") {
        let mut bytes = fs::read(&checkpoint).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&checkpoint, bytes).unwrap();
    }
    let (code, said) = journal("verify", dir.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("0 checkpoints and 1 damaged\n"), "{said}");
    assert!(!said.contains("no damage was found"), "{said}");
    let (code, said) = journal("repair", dir.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot be mended: checkpoint "), "{said}");
    assert!(
        said.contains("A server starts on it all the same"),
        "{said}"
    );
    let server = Server::start(dir.path(), &[]);
    assert_eq!(Client::open(server.port).declare("a-queue-to-find"), 7);
    let (_, log) = server.stop();
    assert!(log.contains("checkpoints_damaged=1"), "{log}");
    // The checkpoint of the stop took its place.
    let (code, said) = journal("verify", dir.path());
    assert_eq!(code, Some(0), "{said}");
}

/// A folder with several segments; after a stop, all of them lie below the checkpoint.
fn deep(stop: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &SMALL);
    fill_deep(&server);
    if stop {
        assert_eq!(server.stop().0.code(), Some(0));
    } else {
        server.kill();
    }
    let (code, said) = journal("verify", dir.path());
    assert_eq!(code, Some(0), "{said}");
    dir
}

fn start_is_refused(dir: &Path) -> String {
    let path = dir.to_str().unwrap();
    let refused = run(&[
        "server",
        "--amqp",
        "off",
        "--mqtt",
        "off",
        "--data-dir",
        path,
    ]);
    assert_eq!(refused.status.code(), Some(1));
    text(&refused.stderr)
}

#[test]
fn messages_below_the_checkpoint_whose_segment_is_gone_are_named_by_verify() {
    type Harm = (&'static str, fn(&Path));
    let harms: [Harm; 4] = [
        ("deleted", |dir| {
            fs::remove_file(&files(dir, "segment-")[1]).unwrap();
        }),
        ("emptied", |dir| cut(&files(dir, "segment-")[1], 0)),
        ("the last one deleted", |dir| {
            fs::remove_file(files(dir, "segment-").last().unwrap()).unwrap();
        }),
        ("swapped", |dir| {
            let (one, other) = (&files(dir, "segment-")[1], &files(dir, "segment-")[2]);
            let aside = dir.join("aside");
            fs::rename(one, &aside).unwrap();
            fs::rename(other, one).unwrap();
            fs::rename(&aside, other).unwrap();
        }),
    ];
    for (name, harm) in harms {
        let dir = deep(true);
        harm(dir.path());
        let (code, said) = journal("verify", dir.path());
        assert_eq!(code, Some(1), "{name}: {said}");
        for part in [
            "message records 1:",
            "of virtual host \"/\" are missing",
            "records that queues need are missing",
            "a server starts on it without them",
        ] {
            assert!(said.contains(part), "{name}: {said}");
        }
        if name == "swapped" {
            let part = "segment-0000000002 is the file that was made as segment-0000000003";
            assert!(said.contains(part), "{said}");
            let (code, said) = journal("repair", dir.path());
            assert_eq!(code, Some(0), "{said}");
            let part = "done: segment-0000000002 is called segment-0000000003 again";
            assert!(said.contains(part), "{said}");
            let (code, said) = journal("verify", dir.path());
            assert_eq!(code, Some(0), "{said}");
        } else if name == "deleted" {
            let (code, said) = journal("repair", dir.path());
            assert_eq!(code, Some(1), "there was nothing to mend: {said}");
            assert!(
                said.contains("Only a backup, or the missing files"),
                "{said}"
            );
        }
    }
}

#[test]
fn messages_that_were_consumed_are_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &SMALL);
    fill_deep(&server);
    let mut client = Client::open(server.port);
    client.consume("deep", 0);
    for _ in 0..15 {
        let (tag, ..) = client.delivery();
        client.ack(tag, false);
    }
    drop(client);
    assert_eq!(server.stop().0.code(), Some(0));
    let (code, said) = journal("verify", dir.path());
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn repair_of_a_log_with_a_segment_missing_in_its_midst_says_that_it_cannot() {
    let harms: [fn(&Path); 2] = [|path| fs::remove_file(path).unwrap(), |path| cut(path, 0)];
    for harm in harms {
        let dir = deep(false);
        harm(&files(dir.path(), "segment-")[2]);
        let names = |dir: &Path| files(dir, "");
        let before = names(dir.path());
        let (code, said) = journal("repair", dir.path());
        assert_eq!(code, Some(1), "{said}");
        for part in [
            "records 3",
            "of shard 1, before segment 4, are missing",
            "no repair can bring back what is missing",
            "Nothing was changed",
            "Restore the whole folder from a backup",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains("journal repair"), "{said}");
        assert_eq!(names(dir.path()), before);
        let refused = start_is_refused(dir.path());
        assert!(
            refused.contains("restore the data folder from a backup"),
            "{refused}"
        );
        assert!(!refused.contains("journal repair"), "{refused}");
    }
}

#[test]
fn repair_of_a_folder_without_its_checkpoint_says_that_it_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &SMALL);
    fill_deep(&server);
    assert_eq!(server.stop().0.code(), Some(0));
    // As if the first segments had long been used again.
    fs::remove_file(&files(dir.path(), "segment-")[0]).unwrap();
    for checkpoint in files(dir.path(), "checkpoint-1-") {
        let mut bytes = fs::read(&checkpoint).unwrap();
        bytes.truncate(bytes.len() - 1);
        fs::write(&checkpoint, bytes).unwrap();
        let (code, said) = journal("verify", dir.path());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("no repair can bring back"), "{said}");
        assert!(!said.contains("journal repair"), "{said}");
        fs::remove_file(checkpoint).unwrap();
    }
    let (code, said) = journal("verify", dir.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(!said.contains("journal repair"), "{said}");
    let (code, said) = journal("repair", dir.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("records 1 to "), "{said}");
    assert!(
        said.contains("Restore the whole folder from a backup"),
        "{said}"
    );
    assert!(!said.contains("journal repair"), "{said}");
    assert!(!start_is_refused(dir.path()).contains("journal repair"));
}

#[test]
fn a_log_whose_last_segment_is_cut_off_ends_before_it_after_repair() {
    for (stop, length) in [(false, 700), (false, 0), (true, 700), (false, 500_000)] {
        let dir = deep(stop);
        let last = files(dir.path(), "segment-").pop().unwrap();
        cut(&last, length);
        let name = text(last.file_name().unwrap().as_encoded_bytes());
        let (code, said) = journal("verify", dir.path());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("{name} ")), "{said}");
        let (code, said) = journal("repair", dir.path());
        assert_eq!(code, Some(0), "{said}");
        let done = if length < 1000 {
            format!("done: {name} set aside as quarantine-{name}: it ")
        } else {
            "done: bytes 500000 to 1048576 of segment 4 are there again, as zeros".to_owned()
        };
        assert!(said.contains(&done), "{said}");
        assert_eq!(said.contains("are missing"), stop, "{said}");
        let server = Server::start(dir.path(), &SMALL);
        let mut client = Client::open(server.port);
        client.consume("deep", 0);
        for number in 0..30 {
            assert_eq!(client.delivery().2, vec![number; 100_000]);
        }
    }
}

#[test]
fn a_segment_cut_off_in_the_midst_of_the_log_is_mended_and_what_is_lost_is_named() {
    for (length, kept) in [(700, 20), (500_000, 24)] {
        let dir = deep(false);
        cut(&files(dir.path(), "segment-")[2], length);
        let refused = start_is_refused(dir.path());
        assert!(refused.contains("menzil journal repair"), "{refused}");
        let (code, said) = journal("repair", dir.path());
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("done: dropped Topology records 1:"), "{said}");
        let (code, said) = journal("verify", dir.path());
        assert_eq!(code, Some(0), "{said}");
        let server = Server::start(dir.path(), &SMALL);
        let mut client = Client::open(server.port);
        client.consume("deep", 0);
        for number in 0..kept {
            assert_eq!(client.delivery().2, vec![number; 100_000]);
        }
        let rest = client.delivery().2;
        assert!(rest[0] >= 29, "{}", rest[0]);
        for number in rest[0] + 1..40 {
            assert_eq!(client.delivery().2, vec![number; 100_000]);
        }
    }
}
