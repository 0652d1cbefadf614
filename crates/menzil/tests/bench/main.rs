//! `menzil bench amqp` against a real server: every scenario with small counts. What is asked is
//! that all messages come, in order, and that nothing is left behind; never how fast.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A server on a free port and a folder of its own. Killed when it is dropped.
struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = menzil()
            .args([
                "server",
                "--amqp",
                "127.0.0.1:0",
                "--mqtt",
                "off",
                "--set",
                "segment_bytes=4 MiB",
            ])
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut ready).unwrap();
        let (_, address) = ready.split_once("amqp=127.0.0.1:").unwrap();
        let port = address.split(' ').next().unwrap().parse().unwrap();
        Self {
            child,
            port,
            folder,
        }
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Runs a load and returns its rows.
    fn bench(&self, words: &str) -> Vec<Value> {
        let output = self.bench_output(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}: {error}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn bench_output(&self, words: &str) -> Output {
        menzil()
            .args(["bench", "amqp", "--json", "--quiet", "--uri"])
            .arg(format!("amqp://127.0.0.1:{}", self.port))
            .args(["--pid", &self.child.id().to_string()])
            .args(words.split_whitespace())
            .output()
            .unwrap()
    }

    /// Names of the queues and exchanges that runs left.
    fn leftovers(&self) -> Vec<String> {
        let output = menzil()
            .args(["stats", "--json", "--data-dir"])
            .arg(self.data_dir())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let words = text.split('"').filter(|word| word.starts_with("bench."));
        words.map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn menzil() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menzil"));
    command.env_clear();
    command
}

fn count(row: &Value, field: &str) -> u64 {
    row[field]
        .as_u64()
        .unwrap_or_else(|| panic!("no {field} in {row}"))
}

#[test]
fn flows_deliver_every_message_once_and_in_order() {
    let server = Server::start();
    for (words, copies, confirmed) in [
        ("", 1, 0),
        ("--size 20", 1, 0),
        ("--size 300k --messages 20", 1, 0),
        ("--scenario manual-ack", 1, 0),
        ("--scenario manual-ack --ack-batch 7 --prefetch 10", 1, 0),
        ("--scenario confirm --consumers 1", 1, 1000),
        ("--scenario confirm-one --consumers 1 --messages 50", 1, 50),
        (
            "--scenario confirm --publishers 4 --confirm 10 --consumers 2",
            1,
            1000,
        ),
        (
            "--publishers 3 --consumers 4 --connections 2 --queues 2",
            1,
            0,
        ),
        (
            "--publishers 2 --consumers 2 --connections 1 --ack manual --backlog 10",
            1,
            0,
        ),
        ("--queues 3 --exchange direct", 1, 0),
        ("--scenario fanout", 10, 0),
        (
            "--scenario fanout --dead-queues 2 --hold 3 --persistent --confirm 100",
            10,
            1000,
        ),
        ("--scenario topic --bindings 200 --matches 3", 3, 0),
        ("--scenario headers --bindings 100 --matches 2", 2, 0),
        ("--scenario latency --rate 2000 --messages 100", 1, 0),
        (
            "--scenario confirm-latency --rate 2000 --consumers 6 --messages 100",
            6,
            100,
        ),
        ("--scenario spread --queues 20 --consumers 20", 1, 1000),
    ] {
        let row = &server.bench(&format!("--check-order --messages 1000 {words}"))[0];
        let messages = count(row, "published");
        assert_eq!(count(row, "delivered"), messages * copies, "{words}: {row}");
        assert_eq!(count(row, "confirmed"), confirmed, "{words}: {row}");
        assert_eq!(count(row, "done"), messages, "{words}: {row}");
        assert!(count(row, "broker_resident_bytes") > 0);
    }
    assert_eq!(server.leftovers(), Vec::<String>::new());
}

#[test]
fn a_flow_for_a_time_needs_no_count() {
    let server = Server::start();
    let data_dir = server.data_dir();
    let row = &server.bench(&format!(
        "--scenario latency --seconds 0.2 --warmup 0 --data-dir {}",
        data_dir.display()
    ))[0];
    assert!(count(row, "delivered") > 0, "{row}");
    assert!(count(row, "latency_p50_ns") > 0, "{row}");
    assert!(count(row, "folder_bytes_peak") >= count(row, "folder_bytes"));
    assert!(count(row, "folder_bytes") > 0, "{row}");
}

#[test]
fn a_backlog_is_stored_and_drained_or_purged_to_the_last_message() {
    let server = Server::start();
    let rows = server.bench("--scenario backlog --messages 2000 --publishers 3");
    assert_eq!((rows.len(), count(&rows[0], "confirmed")), (1, 2000));
    for words in ["", "--ack auto --check-order", "--consumers 2 --queues 3"] {
        let rows = server.bench(&format!("--scenario drain --messages 2000 {words}"));
        assert_eq!(count(&rows[0], "confirmed"), 2000, "{words}");
        assert_eq!(count(&rows[1], "delivered"), 2000, "{words}");
    }
    let rows = server.bench("--scenario purge --messages 2000 --queues 2");
    assert_eq!(count(&rows[1], "done"), 2000);
    assert_eq!(server.leftovers(), Vec::<String>::new());
}

#[test]
fn what_one_run_keeps_another_finds() {
    let server = Server::start();
    server.bench("--scenario backlog --messages 500 --name bench.kept --keep");
    assert!(server.leftovers().contains(&"bench.kept.0".to_owned()));
    let rows = server.bench("--scenario drain --messages 500 --name bench.kept --existing");
    assert_eq!((rows.len(), count(&rows[0], "delivered")), (1, 500));
    assert_eq!(server.leftovers(), Vec::<String>::new());
}

#[test]
fn idle_and_churning_things_are_counted_and_gone_afterwards() {
    let server = Server::start();
    for (words, done) in [
        ("idle-connections --connections 50", 50),
        ("idle-queues --queues 2500", 2500),
        ("idle-queues --queues 30 --exchange direct", 30),
        ("bindings --bindings 1200", 1200),
        ("bindings --bindings 40 --exchange headers --queues 3", 40),
        ("churn-connections --messages 5", 5),
        ("churn-channels --messages 20", 20),
        ("churn-queues --messages 10", 10),
        ("churn-bindings --messages 10", 10),
        ("churn-bindings --messages 10 --exchange headers", 10),
    ] {
        let row = &server.bench(&format!("--scenario {words}"))[0];
        assert_eq!(count(row, "done"), done, "{words}: {row}");
    }
    assert_eq!(server.leftovers(), Vec::<String>::new());
}

#[test]
fn the_bare_machine_is_measured_through_an_echo_of_its_own() {
    let output = menzil()
        .args(["bench", "loopback", "--json", "--quiet", "--bandwidth"])
        .args(["--seconds", "0.2", "--warmup", "0.1", "--pin", "0,0"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(count(&rows[0], "delivered") > 0, "{rows:?}");
    assert!(count(&rows[0], "latency_p99_ns") >= count(&rows[0], "latency_p50_ns"));
    // The echo is a process that is weighed.
    assert!(count(&rows[0], "broker_resident_bytes") > 0, "{rows:?}");
    assert!(count(&rows[1], "delivered") > 0, "{rows:?}");

    let output = menzil().args(["bench", "loopback", "--serve"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("leave it out"));
}

#[test]
fn a_broker_that_takes_no_more_connections_is_told_apart_from_one_that_fails() {
    let server = Server::start_with(&["--set", "connections_max=5"]);
    let output = server.bench_output("--scenario idle-connections --connections 10");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("connections_max"), "{error}");
}

#[test]
fn what_goes_wrong_is_told_with_a_way_out() {
    let server = Server::start();
    for (words, code, text) in [
        ("--sise 5", 2, "--size"),
        ("--uri amqp://127.0.0.1:1", 1, "--uri"),
        ("--pid 999999999", 1, "--pid"),
        ("--queue-type nonsense", 1, "closed by the broker"),
    ] {
        let output = server.bench_output(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {error}");
        assert!(error.contains(text), "{words}: {error}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(server.leftovers(), Vec::<String>::new());
}
