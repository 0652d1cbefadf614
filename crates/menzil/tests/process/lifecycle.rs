//! A server as a process: how it starts, stops, and what it says to people.

use crate::common::{Client, PATIENCE, Server, menzil, run, text};
use menzil_amqp::methods::{
    ConnectionCloseOk, ConnectionUpdateSecret, ConnectionUpdateSecretOk, Method, QueueBind,
};
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

#[test]
fn the_ready_line_names_the_port_the_folder_and_the_version() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let expected = format!(
        "menzil ready amqp=127.0.0.1:{} mqtt=127.0.0.1:{} mqtt-ws=off data={} version={}\n",
        server.port,
        server.mqtt_port,
        dir.path().display(),
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(server.ready, expected);
    Client::open(server.port);
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(
        log.contains("virtual host created name=/ exchanges=7"),
        "{log}"
    );
}

#[test]
fn a_listener_can_be_off() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--set", "amqp=off", "--set", "mqtt=off"]);
    assert!(
        server.ready.starts_with("menzil ready amqp=off mqtt=off "),
        "{}",
        server.ready
    );
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0));
    assert!(!log.contains("listening"), "{log}");
}

#[test]
fn a_second_server_on_the_folder_is_refused_and_the_first_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let path = dir.path().to_str().unwrap();
    let second = run(&[
        "server",
        "--amqp",
        "off",
        "--mqtt",
        "off",
        "--data-dir",
        path,
    ]);
    assert_eq!(second.status.code(), Some(1));
    let error = text(&second.stderr);
    assert!(error.contains("another server runs on it"), "{error}");
    assert!(error.contains(path), "{error}");
    assert_eq!(text(&second.stdout), "");
    let verify = run(&["journal", "verify", path]);
    assert_eq!(verify.status.code(), Some(1));
    assert!(text(&verify.stderr).contains("stop the server"));
    Client::open(server.port);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for (listener, variable) in [
        ("--amqp", "MENZIL_AMQP"),
        ("--mqtt", "MENZIL_MQTT"),
        ("--mqtt-ws", "MENZIL_MQTT_WS"),
    ] {
        let output = menzil(&["server", listener, &address, "--data-dir"])
            .arg(&data)
            .envs(["MENZIL_AMQP", "MENZIL_MQTT"].map(|name| (name, "off")))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        for part in [&address, &format!("{listener} ADDR"), variable] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!data.exists(), "a half-made data folder");
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_data_folder_and_all_in_it_are_the_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("new/data");
    let server = Server::start(&data, &[]);
    let mut client = Client::open(server.port);
    client.declare("q");
    client.confirm_select();
    // Past the end of a segment, so that there is a sidecar.
    for _ in 0..6 {
        client.publish("q", &vec![7; 1_000_000]);
    }
    client.await_confirms(6);
    drop(client);
    let (_, log) = server.stop();
    assert_eq!(mode(&data), 0o700);
    let mut kinds = BTreeSet::new();
    for entry in std::fs::read_dir(&data).unwrap() {
        let entry = entry.unwrap();
        let name = text(entry.file_name().as_encoded_bytes());
        assert_eq!(mode(&entry.path()), 0o600, "{name}");
        kinds.insert(name.split('-').next().unwrap().to_owned());
    }
    for kind in ["segment", "checkpoint", "directory", "lock", "format"] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    assert!(!log.contains("other users"), "{log}");
}

#[test]
fn an_open_data_folder_is_left_as_it_is_and_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(dir.path(), &[]);
    assert_eq!(mode(dir.path()), 0o755);
    let (_, log) = server.stop();
    assert_eq!(
        log.matches("other users of this machine").count(),
        1,
        "{log}"
    );
    assert!(log.contains("mode=755"), "{log}");
}

#[test]
fn a_server_that_nobody_can_log_in_to_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--set", "guest=false"]);
    let (_, log) = server.stop();
    assert!(log.contains("nobody can log in"), "{log}");
}

#[test]
fn what_was_confirmed_is_there_after_kill_and_after_a_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Client::open(server.port);
    assert_eq!(client.declare("q"), 0);
    client.confirm_select();
    for number in 0..100 {
        client.publish("q", format!("message {number}").as_bytes());
    }
    client.publish("q", &vec![7; 3_000_000]);
    client.await_confirms(101);
    server.kill();

    let server = Server::start(dir.path(), &[]);
    assert_eq!(Client::open(server.port).declare("q"), 101);
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0));
    let recovered = "virtual host recovered name=/ exchanges=7 queues=1 bindings=0 messages=101";
    assert!(log.contains(recovered), "{log}");

    let server = Server::start(dir.path(), &[]);
    assert_eq!(Client::open(server.port).declare("q"), 101);
    let (_, log) = server.stop();
    assert!(log.contains("checkpoints=1 records_replayed=0"), "{log}");
    let verify = run(&["journal", "verify", dir.path().to_str().unwrap()]);
    assert_eq!(verify.status.code(), Some(0), "{}", text(&verify.stdout));
    let dump = run(&["journal", "dump", dir.path().to_str().unwrap()]);
    let dump = text(&dump.stdout);
    for part in [
        "1:1 topology ",
        "bytes VirtualHostCreated name=\"/\"\n",
        "name=\"q\" durable\n",
        "bytes Published exchange=\"\" routing-key=\"q\" body-bytes=9 entries=",
    ] {
        assert!(dump.contains(part), "{dump}");
    }
    for rust in ["Extent", "LongString", "Some("] {
        assert!(!dump.contains(rust), "{dump}");
    }
}

#[test]
fn a_clean_stop_tells_clients_and_waits_for_their_answer() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &[]);
    let mut client = Client::open(server.port);
    server.signal("-TERM");
    let came = client.next().unwrap();
    let Method::ConnectionClose(close) = came.method() else {
        panic!("{came:?}");
    };
    assert_eq!(close.reply_code, 320);
    let reply_text = text(close.reply_text);
    assert!(
        reply_text.starts_with("CONNECTION_FORCED - "),
        "{reply_text}"
    );
    client.send(0, &Method::ConnectionCloseOk(ConnectionCloseOk {}));
    assert!(client.next().is_none());
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_client_that_does_not_answer_holds_the_stop_up_for_a_bounded_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), &["--set", "stop_seconds=1"]);
    let _silent = Client::open(server.port);
    server.signal("-INT");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0));
    assert!(
        log.contains("connections did not close in time connections=1"),
        "{log}"
    );
    assert!(
        log.contains("ends it connections=1 seconds_at_most=1"),
        "{log}"
    );
}

#[test]
fn a_second_signal_ends_the_stop_and_the_journal_is_closed_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    // Without the second signal the test would wait longer than it has patience.
    let mut server = Server::start(dir.path(), &["--set", "stop_seconds=3600"]);
    let mut silent = Client::open(server.port);
    server.signal("-INT");
    let came = silent.next().unwrap();
    assert!(matches!(came.method(), Method::ConnectionClose(_)));
    server.signal("-TERM");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0));
    assert!(
        log.contains("second signal: connections are cut off signal=SIGTERM connections=1"),
        "{log}"
    );
    let server = Server::start(dir.path(), &[]);
    let (_, log) = server.stop();
    assert!(log.contains("checkpoints=1 records_replayed=0"), "{log}");
}

#[test]
fn a_log_of_json_has_numbers_and_not_texts() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--log-format", "json"]);
    let (_, log) = server.stop();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |message: &str| {
        lines
            .iter()
            .find(|line| line["message"] == message)
            .unwrap()
    };
    assert!(of("stopped")["uptime_ms"].is_u64(), "{log}");
    assert!(of("virtual host created")["exchanges"].is_u64(), "{log}");
    assert!(of("listening")["address"].is_string(), "{log}");
}

#[test]
fn wrong_settings_are_refused_by_name_with_code_2() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("menzil.toml");
    std::fs::write(&file, "guest = true\nguset = true\n").unwrap();
    let file = file.to_str().unwrap();
    let cases: [(&[&str], &str); 4] = [
        (
            &["--config", file],
            "menzil.toml:2: unknown setting guset (did you mean guest?)",
        ),
        (&["--config", "/no/such.toml"], "/no/such.toml"),
        (&["--set", "frame_max=1"], "--set frame_max: frame_max is 1"),
        (
            &["--amqp", "5672"],
            "--amqp: amqp is \"5672\": it must be HOST:PORT",
        ),
    ];
    for (arguments, expected) in cases {
        let output = run(&[&["server"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(text(&output.stdout), "");
    }
    let output = menzil(&["server"])
        .env("MENZIL_HEARTBEET_SECONDS", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(
        error.contains("MENZIL_HEARTBEET_SECONDS: unknown setting"),
        "{error}"
    );
    let output = run(&["server", "--data-drr", "x"]);
    assert_eq!(output.status.code(), Some(2));
    let output = menzil(&["server", "--print-config", "--amqp", "off"])
        .env("MENZIL_AMQP", "[::1]:1")
        .env("MENZIL_CHANNEL_MAX", "7")
        .output()
        .unwrap();
    let printed = text(&output.stdout);
    assert!(
        printed.contains("amqp = \"off\"") && printed.contains("channel_max = 7"),
        "{printed}"
    );
}

#[test]
fn a_hashed_password_logs_in_and_a_wrong_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut hash = menzil(&["hash-password", "ada", "--tag", "administrator"]);
    hash.stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut child = hash.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"s3cret\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let entry = text(&output.stdout);
    assert!(
        entry.contains("[users.ada]") && !entry.contains("s3cret"),
        "{entry}"
    );
    let file = dir.path().join("menzil.toml");
    std::fs::write(&file, entry).unwrap();
    let data = dir.path().join("data");
    let server = Server::start(
        &data,
        &["--config", file.to_str().unwrap(), "--log-level", "debug"],
    );
    let mut client = Client::connect(server.port);
    client.log_in("ada", "s3cret");
    assert!(matches!(
        client.next().unwrap().method(),
        Method::ConnectionTune(_)
    ));
    client.tune_and_open(0, b"/");
    assert!(matches!(
        client.next().unwrap().method(),
        Method::ConnectionOpenOk(_)
    ));
    let mut stranger = Client::connect(server.port);
    stranger.log_in("ada", "wr0ng");
    assert!(stranger.next().is_none());
    drop((client, stranger));
    let (_, log) = server.stop();
    assert!(
        log.contains("login refused") && log.contains("user=ada"),
        "{log}"
    );
    assert!(!log.contains("s3cret") && !log.contains("wr0ng"), "{log}");
}

#[test]
fn statistics_come_over_a_socket_of_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Client::open(server.port);
    client.declare("a queue");
    client.confirm_select();
    client.publish("a queue", b"x");
    client.await_confirms(1);
    let socket = dir.path().join("menzil.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let plain = text(&run(&["stats", "--data-dir", path]).stdout);
    let lines: Vec<Vec<&str>> = plain
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(plain.contains("\nvirtual host /\n"), "{plain}");
    assert!(plain.contains("  open 1   accepted 1 "), "{plain}");
    // Name, durable, ready.
    let queue = |line: &Vec<&str>| line.starts_with(&["a", "queue", "yes", "1"]);
    assert!(lines.iter().any(queue), "{plain}");
    let json = run(&["stats", "--data-dir", path, "--json"]);
    let read: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(read["virtual_hosts"][0]["counters"]["confirmed"], 1);
    assert!(read["journal"]["syncs"].as_u64().unwrap() >= 1);
    let mut undocumented = Vec::new();
    collect_undocumented(&read, &mut undocumented);
    assert_eq!(undocumented, Vec::<String>::new());
    let of_one = |words: &[&str]| run(&[&["stats", "--data-dir", path][..], words].concat());
    let one = text(&of_one(&["--queue", "a queue"]).stdout);
    assert!(
        one.starts_with("queue 'a queue' in virtual host '/'\n  durable yes   ready 1   "),
        "{one}"
    );
    assert!(one.lines().all(|line| line.len() <= 80), "{one}");
    let json = of_one(&["--queue", "a queue", "--vhost", "/", "--json"]);
    let one: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(one, read["virtual_hosts"][0]["queues"][0]);
    for (words, told) in [
        (
            &["--queue", "none"][..],
            "menzil: there is no queue 'none' in virtual host '/'\n",
        ),
        (
            &["--queue", "a queue", "--vhost", "v"],
            "there is no virtual host \"v\"",
        ),
        (&["--vhost", "/"], "--queue <NAME>"),
    ] {
        let refused = of_one(words);
        assert!(!refused.status.success());
        let error = text(&refused.stderr);
        assert!(error.contains(told), "{error}");
    }
    server.stop();
    assert!(!socket.exists());
    let nobody = run(&["stats", "--data-dir", path]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("is a server running"));
}

#[test]
fn a_running_server_is_asked_where_a_message_would_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Client::open(server.port);
    client.declare("a queue");
    client.send(
        1,
        &Method::QueueBind(QueueBind {
            ticket: 0,
            queue: b"a queue",
            exchange: b"amq.topic",
            routing_key: b"order.#",
            nowait: false,
            arguments: b"",
        }),
    );
    assert!(matches!(
        client.next().unwrap().method(),
        Method::QueueBindOk(_)
    ));
    let route = [
        "explain",
        "route",
        "--data-dir",
        path,
        "--exchange",
        "amq.topic",
    ];
    let wanted = run(&[&route[..], &["--key", "order.created"]].concat());
    assert_eq!(wanted.status.code(), Some(0));
    let out = text(&wanted.stdout);
    assert!(
        out.contains("exchange 'amq.topic' (topic, 1 binding)"),
        "{out}"
    );
    assert!(out.contains("✓ order.#  → queue 'a queue'"), "{out}");
    let renamed = run(&[&route[..], &["--key", "orders.created"]].concat());
    assert_eq!(renamed.status.code(), Some(1));
    assert!(text(&renamed.stdout).contains("word 1 is 'orders', not 'order'"));
    let nowhere = run(&[&route[..], &["--vhost", "other"]].concat());
    assert_eq!(nowhere.status.code(), Some(1));
    let err = text(&nowhere.stderr);
    assert!(
        err.contains("no virtual host 'other'; there is '/'"),
        "{err}"
    );
    // Nothing was published.
    assert_eq!(client.declare("a queue"), 0);
    server.stop();
}

/// Numbers of an answer that the page for operators does not explain.
fn collect_undocumented(value: &serde_json::Value, into: &mut Vec<String>) {
    let page = include_str!("../../../../docs/operations.md");
    if let Some(fields) = value.as_object() {
        for (key, value) in fields {
            if (value.is_number() || value.is_boolean()) && !page.contains(&format!("`{key}`")) {
                into.push(key.clone());
            }
            collect_undocumented(value, into);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        collect_undocumented(item, into);
    }
}

#[test]
fn more_connections_than_allowed_are_closed_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--set", "connections_max=2"]);
    let mut first = Client::open(server.port);
    let second = Client::open(server.port);
    assert!(Client::connect(server.port).next_any().is_none());
    first.declare("q");
    drop(second);
    let until = Instant::now() + PATIENCE;
    // The place is free once the server has seen the second one go.
    while !accepts(server.port) {
        assert!(Instant::now() < until);
    }
    first.declare("q");
}

fn accepts(port: u16) -> bool {
    let mut client = Client::connect(port);
    client.write(b"AMQP\x00\x00\x09\x01");
    client.next_any().is_some()
}

#[test]
fn heartbeats_go_both_ways_and_a_silent_client_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Client::connect(server.port);
    client.log_in("guest", "guest");
    assert!(client.next().is_some());
    client.tune_and_open(1, b"/");
    assert!(matches!(
        client.next().unwrap().method(),
        Method::ConnectionOpenOk(_)
    ));
    let mut beats = 0;
    while let Some(came) = client.next_any() {
        assert_eq!(
            came.kind,
            menzil_amqp::frame::HEARTBEAT,
            "{:?}",
            text(&came.payload)
        );
        beats += 1;
    }
    assert!(beats >= 1);
    Client::open(server.port);
}

#[test]
fn a_new_secret_is_checked_while_the_connection_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut client = Client::open(server.port);
    let renew = |secret| {
        Method::ConnectionUpdateSecret(ConnectionUpdateSecret {
            new_secret: secret,
            reason: b"rotation",
        })
    };
    client.send(0, &renew(b"guest"));
    client.expect(ConnectionUpdateSecretOk::ID);
    assert_eq!(client.declare("q"), 0);
}

#[test]
fn help_fits_a_terminal_of_80_columns() {
    for words in [
        &[][..],
        &["server"],
        &["stats"],
        &["definitions", "import"],
        &["delays"],
        &["delays", "list"],
        &["delays", "cancel"],
        &["journal"],
        &["journal", "verify"],
        &["journal", "stats"],
        &["journal", "dump"],
        &["journal", "repair"],
        &["explain"],
        &["explain", "route"],
        &["policy"],
        &["policy", "set"],
        &["policy", "clear"],
        &["policy", "list"],
        &["policy", "effective"],
        &["definitions"],
        &["definitions", "import"],
        &["hash-password"],
        &["bench"],
        &["bench", "amqp"],
        &["bench", "disk"],
        &["bench", "loopback"],
    ] {
        for help in ["-h", "--help"] {
            let output = run(&[words, &[help]].concat());
            let wide = text(&output.stdout);
            let wide = wide.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{words:?} {help}");
        }
    }
}

#[test]
fn help_shows_what_the_load_generator_takes() {
    for (arguments, shown) in [
        (&["help", "bench"][..], "menzil bench amqp"),
        (&["bench", "--help"], "menzil bench disk"),
        (&["bench"], "menzil bench amqp"),
        (&["bench", "amqp", "--help"], "--scenario NAME"),
        (&["bench", "disk", "--help"], "--dir DIR"),
    ] {
        let help = text(&run(arguments).stdout);
        assert!(help.contains(shown), "{help}");
    }
}

#[test]
fn a_folder_without_its_format_file_says_how_to_put_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    Server::start(dir.path(), &[]).stop();
    std::fs::remove_file(dir.path().join("format")).unwrap();
    let advice = format!("`echo menzil journal 2 > {path}/format`");
    for arguments in [
        &["journal", "verify", path][..],
        &[
            "server",
            "--amqp",
            "off",
            "--mqtt",
            "off",
            "--data-dir",
            path,
        ],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(error.contains(&advice), "{error}");
    }
    std::fs::write(dir.path().join("format"), "menzil journal 2\n").unwrap();
    Server::start(dir.path(), &[]).stop();
}
