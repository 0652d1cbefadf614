//! `menzil delays` on a real server: what waits is listed page by page, and what is cancelled never
//! comes, a kill or not.

use std::path::Path;

use menzil_amqp::methods::{ExchangeDeclare, ExchangeDeclareOk, Method, QueueBind, QueueBindOk};
use menzil_model::{Properties, TableBuilder, Value};

use crate::common::{Client, Server, menzil, text};

/// Longer than the test takes.
const LATER: i64 = 3_600_000;

impl Client {
    /// A durable exchange that delays what goes to the queue.
    fn declare_delayed(&mut self, exchange: &str, queue: &str) {
        let arguments = TableBuilder::new().field("x-delayed", Value::Bool(true));
        self.send(
            1,
            &Method::ExchangeDeclare(ExchangeDeclare {
                ticket: 0,
                exchange: exchange.as_bytes(),
                kind: b"fanout",
                passive: false,
                durable: true,
                auto_delete: false,
                internal: false,
                nowait: false,
                arguments: arguments.build().as_bytes(),
            }),
        );
        self.expect(ExchangeDeclareOk::ID);
        self.send(
            1,
            &Method::QueueBind(QueueBind {
                ticket: 0,
                queue: queue.as_bytes(),
                exchange: exchange.as_bytes(),
                routing_key: b"",
                nowait: false,
                arguments: b"",
            }),
        );
        self.expect(QueueBindOk::ID);
    }

    fn publish_delayed(&mut self, to: (&str, &str), milliseconds: i64, body: &[u8]) {
        let headers = TableBuilder::new().field("x-delay", Value::I64(milliseconds));
        let headers = headers.build();
        let properties = Properties {
            headers: Some(headers.as_bytes()),
            ..Properties::default()
        };
        self.publish_with(to, &properties, body);
    }
}

/// A server and a client, with a queue behind exchanges that delay.
fn with_exchanges(path: &Path, exchanges: &[&str]) -> (Server, Client) {
    let server = Server::start(path, &[]);
    let mut client = Client::open(server.port);
    client.confirm_select();
    client.declare("q");
    for exchange in exchanges {
        client.declare_delayed(exchange, "q");
    }
    (server, client)
}

fn delays(path: &Path, words: &[&str]) -> std::process::Output {
    let mut command = menzil(&["delays"]);
    command.args(words).arg("--data-dir").arg(path);
    command.output().unwrap()
}

fn list(path: &Path, words: &[&str]) -> Vec<serde_json::Value> {
    let output = delays(path, &[&["list", "--json"], words].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn keys(path: &Path, words: &[&str]) -> Vec<String> {
    let key = |one: &serde_json::Value| one["routing_key"].as_str().unwrap().to_owned();
    list(path, words).iter().map(key).collect()
}

fn id(one: &serde_json::Value) -> &str {
    one["id"].as_str().unwrap()
}

#[test]
fn what_waits_is_listed_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (server, mut client) = with_exchanges(path, &["x", "y"]);
    // In several frames and several records: its key is in one of them.
    let large = vec![b'l'; 1 << 20];
    client.publish_delayed(("x", "third"), LATER + 2000, b"333");
    client.publish_delayed(("y", "second"), LATER + 1000, &large);
    client.publish_delayed(("x", "first"), LATER, b"1");
    client.await_confirms(3);

    let all = ["first", "second", "third"];
    assert_eq!(keys(path, &[]), all);
    assert_eq!(keys(path, &["--exchange", "y"]), ["second"]);
    let listed = list(path, &[]);
    assert_eq!(listed[1]["exchange"], "y");
    assert_eq!(listed[1]["body_bytes"], 1 << 20);
    let due_in = listed[1]["due_in_ms"].as_i64().unwrap();
    assert!((1..=LATER + 1000).contains(&due_in), "{due_in}");
    let mut paged = keys(path, &["--limit", "2"]);
    paged.extend(keys(path, &["--limit", "2", "--after", id(&listed[1])]));
    assert_eq!(paged, all);
    let table = text(&delays(path, &["list", "--limit", "2"]).stdout);
    let end = format!(
        "2 of 3 that wait; 1048580 bytes in all\nfor more: --after {}\n",
        id(&listed[1])
    );
    assert!(table.ends_with(&end), "{table}");
    server.kill();
    let server = Server::start(path, &[]);
    let again = list(path, &[]);
    assert!(again.iter().map(id).eq(listed.iter().map(id)));
    assert_eq!(keys(path, &[]), all);
    server.kill();
}

#[test]
fn what_is_cancelled_never_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (server, mut client) = with_exchanges(path, &["x"]);
    client.publish_delayed(("x", "stays"), LATER, b"stays");
    // On a slow machine it may come before it is cancelled: then one that waits longer.
    let mut delay = 1000;
    let mut published = 1;
    loop {
        client.publish_delayed(("x", "soon"), delay, delay.to_string().as_bytes());
        published += 1;
        client.await_confirms(published);
        let listed = list(path, &[]);
        let soon = listed.iter().find(|one| one["routing_key"] == "soon");
        let cancelled = soon.map(|one| delays(path, &["cancel", "--exchange", "x", id(one)]));
        if cancelled.is_some_and(|cancelled| text(&cancelled.stdout) == "1 cancelled\n") {
            break;
        }
        delay *= 2;
        assert!(delay < LATER / 2, "it is not there, or cannot be cancelled");
    }
    // It was on disk before the answer.
    server.kill();

    let server = Server::start(path, &[]);
    let listed = list(path, &[]);
    let stays = id(&listed[0]);
    assert_eq!(listed[0]["routing_key"], "stays");
    assert_eq!(listed.len(), 1);
    let mut client = Client::open(server.port);
    client.publish_delayed(("x", ""), delay, b"due after it");
    client.consume("q", 0);
    loop {
        let (_, _, body) = client.delivery();
        assert_ne!(text(&body), delay.to_string());
        if body == b"due after it" {
            break;
        }
    }
    let both = delays(path, &["cancel", "--exchange", "x", "1", stays]);
    assert_eq!(both.status.code(), Some(1));
    assert_eq!(text(&both.stdout), "1 cancelled\n");
    let told = "nothing of that number waits in exchange \"x\": 1\n";
    assert!(text(&both.stderr).ends_with(told), "{}", text(&both.stderr));
    assert_eq!(keys(path, &[]), Vec::<String>::new());
    server.kill();
}

#[test]
fn a_question_that_is_wrong_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let server = Server::start(path, &[]);
    assert_eq!(
        text(&delays(path, &["list"]).stdout),
        "0 of 0 that wait; 0 bytes in all\n"
    );
    for (words, code, told) in [
        (
            &["list", "--exchange", "amq.topic"][..],
            1,
            r#"no exchange "amq.topic" that delays"#,
        ),
        (
            &["cancel", "--exchange", "none", "7"],
            1,
            r#"no exchange "none" that delays"#,
        ),
        (&["list", "--vhost", "v"], 1, r#"no virtual host "v""#),
        (&["list", "--limit", "0"], 2, "1..=1000"),
        (&["list", "--limit", "1001"], 2, "1..=1000"),
        (&["cancel", "--exchange", "x"], 2, "<ID>..."),
        (&["cancel", "--exchange", "x", "-7"], 2, "-7"),
    ] {
        let output = delays(path, words);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        let error = text(&output.stderr);
        assert!(error.contains(told), "{error}");
    }
    server.kill();
}
