//! Definitions files and policies on a real server: whole or not at all, and there after a kill.

use std::path::Path;

use crate::common::{Server, menzil, run, text};

const FILE: &str = r##"{
  "rabbit_version": "4.3.6",
  "vhosts": [{"name": "/"}],
  "users": [{"name": "u", "password_hash": "x"}],
  "topic_permissions": [],
  "odd": {"a": 1, "b": 2},
  "parameters": [
    {"vhost": "/", "component": "operator_policy", "name": "cap",
     "value": {"pattern": "^jobs", "apply-to": "queues", "priority": 0, "definition": {"max-length": 2}}},
    {"vhost": "/", "component": "federation-upstream", "name": "up", "value": {"uri": "amqp://"}}
  ],
  "policies": [
    {"vhost": "/", "name": "short", "pattern": "^jobs", "apply-to": "queues", "priority": 1,
     "definition": {"max-length": 5, "overflow": "reject-publish"}}
  ],
  "queues": [
    {"vhost": "/", "name": "jobs", "durable": true, "auto_delete": false, "arguments": {"x-queue-type": "classic"}},
    {"vhost": "/", "name": "amq.gen-passed-over", "durable": true, "auto_delete": false, "arguments": {}}
  ],
  "exchanges": [
    {"vhost": "/", "name": "work", "type": "topic", "durable": true, "auto_delete": false, "internal": false, "arguments": []}
  ],
  "bindings": [
    {"vhost": "/", "source": "", "destination": "jobs", "destination_type": "queue", "routing_key": "jobs"},
    {"vhost": "/", "source": "work", "destination": "amq.gen-passed-over", "destination_type": "queue", "routing_key": "b"},
    {"vhost": "/", "source": "work", "destination": "jobs", "destination_type": "queue", "routing_key": "a.#", "arguments": {}},
    {"vhost": "/", "source": "amq.topic", "destination": "work", "destination_type": "exchange", "routing_key": "#", "arguments": {}}
  ]
}"##;

fn count(path: &str, of: &str) -> u64 {
    let output = run(&["stats", "--data-dir", path, "--json"]);
    let stats: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    stats["virtual_hosts"][0][of].as_u64().unwrap()
}

/// Exchanges, queues, bindings, policies.
fn objects(path: &str) -> [u64; 4] {
    let policies = run(&["policy", "list", "--json", "--data-dir", path]);
    let policies = text(&policies.stdout).lines().count() as u64;
    ["exchanges", "queues_count", "bindings"]
        .map(|of| count(path, of))
        .into_iter()
        .chain([policies])
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_file_is_imported_at_the_start_and_the_same_again_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = data.to_str().unwrap();
    let file = write(folder.path(), "definitions.json", FILE);
    let server = Server::start(&data, &["--definitions", &file]);
    assert_eq!(objects(path), [8, 1, 2, 2]);
    let told = run(&["policy", "effective", "jobs", "--json", "--data-dir", path]);
    let told = text(&told.stdout);
    assert!(
        told.contains(r#"{"by":"cap","key":"max-length","origin":"operator policy","value":2}"#),
        "{told}"
    );
    assert!(
        told.contains(
            r#"{"by":"short","key":"overflow","origin":"policy","value":"reject-publish"}"#
        ),
        "{told}"
    );
    let again = run(&["definitions", "import", &file, "--data-dir", path]);
    assert_eq!(
        text(&again.stdout),
        "\
0 new, 6 kept
passed over: users (1): not imported yet; see menzil hash-password
passed over: odd (2): no section of that name is known
passed over: parameters of federation-upstream (1): there is no federation yet
passed over: queues (1): names that begin with amq. are the broker's own
passed over: bindings (1): the default exchange has every queue by its name
passed over: bindings (1): their queues are passed over
"
    );
    server.kill();
    // Without the file: what was imported is the server's own.
    let server = Server::start(&data, &[]);
    assert_eq!(objects(path), [8, 1, 2, 2]);
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let server = Server::start(&data, &["--definitions", &file]);
    assert_eq!(objects(path), [8, 1, 2, 2]);
    let (_, log) = server.stop();
    assert!(log.contains("something that is passed over"), "{log}");
    assert!(log.contains("there is no federation yet"), "{log}");
}

/// An export of a virtual host whose queues are quorum queues unless they say something else.
#[test]
fn a_queue_is_of_the_type_that_the_export_says() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = data.to_str().unwrap();
    let file = r#"{"vhosts": [{"name": "/", "metadata": {"default_queue_type": "quorum"}}],
        "queues": [{"vhost": "/", "name": "q", "type": "quorum"},
            {"vhost": "/", "name": "c", "type": "classic"}]}"#;
    let file = write(folder.path(), "types.json", file);
    let server = Server::start(&data, &[]);
    let import = |file: &str| run(&["definitions", "import", file, "--data-dir", path]);
    let passed_over = "passed over: default_queue_type quorum of vhosts (1): a queue is what its \
        x-queue-type says: declare queues with it\n";
    assert_eq!(
        text(&import(&file).stdout),
        format!("2 new, 0 kept\n{passed_over}")
    );
    assert_eq!(
        text(&import(&file).stdout),
        format!("0 new, 2 kept\n{passed_over}")
    );
    let same = r#"{"queues": [
        {"vhost": "/", "name": "q", "arguments": {"x-queue-type": "quorum"}},
        {"vhost": "/", "name": "c", "arguments": {"x-queue-type": "classic"}}]}"#;
    let same = import(&write(folder.path(), "same.json", same));
    assert_eq!(
        text(&same.stdout),
        "0 new, 2 kept\n",
        "{}",
        text(&same.stderr)
    );
    let usual = r#"{"vhosts": [{"name": "/", "metadata": {"default_queue_type": "classic"}}]}"#;
    let usual = import(&write(folder.path(), "usual.json", usual));
    assert_eq!(text(&usual.stdout), "0 new, 0 kept\n");
    server.kill();
}

/// What is wrong with a file, and what is said of it.
const WRONG: [(&str, &str); 20] = [
    (
        r#"{"queues": [{"vhost": "/", "name": "s", "type": "stream"}]}"#,
        r#"queues[0] "s": PRECONDITION_FAILED - argument 'x-queue-type=stream' for queue 's' in vhost '/' is not supported"#,
    ),
    (
        r#"{"queues": [{"vhost": "/", "name": "s", "arguments": {"x-queue-type": "stream"}}]}"#,
        r#"queues[0] "s": PRECONDITION_FAILED - argument 'x-queue-type=stream'"#,
    ),
    (
        r#"{"queues": [{"vhost": "/", "name": "q", "arguments": [1]}]}"#,
        "invalid type: sequence, expected an object of arguments",
    ),
    (
        r#"{"queues": [{"vhost": "/", "name": "q"}, {"vhost": "/", "name": "q", "durable": false}]}"#,
        r#"queues[1] "q": PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"#,
    ),
    (
        r#"{"exchanges": [{"vhost": "/", "name": "x", "type": "topic"}, {"vhost": "/", "name": "x", "type": "direct"}]}"#,
        r#"exchanges[1] "x": PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'direct' but current is 'topic'"#,
    ),
    (
        r#"{"queues": [{"vhost": "/", "name": "q", "arguments": {"x-retain-messages": 5}}]}"#,
        r#"queues[0] "q": PRECONDITION_FAILED - unknown argument 'x-retain-messages' for queue 'q' in vhost '/'"#,
    ),
    (
        r#"{"vhosts": [{"name": "/"}, {"name": "other"}]}"#,
        r#"vhosts[1]: there is no virtual host "other"; name it in the setting virtual_hosts"#,
    ),
    ("{", "line 1, column 1: EOF while parsing an object"),
    (
        "[]",
        "line 1, column 1: a JSON object is wanted here, as RabbitMQ exports it",
    ),
    (
        r#"{"queues": [{"vhost": "/", "name": 5}]}"#,
        "line 1, column 36: invalid type: integer `5`, expected a string",
    ),
    (
        r#"{"queues": [{"name": "q"}]}"#,
        r#"queues[0] "q": it names no virtual host"#,
    ),
    (
        r#"{"queues": [{"vhost": "/", "name": "a"}, {"vhost": "/", "name": "q", "arguments": {"x-max-length": -1}}]}"#,
        r#"queues[1] "q": PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 'q' in vhost '/': {value_negative,-1}"#,
    ),
    (
        r#"{"queues": [{"vhost": "other", "name": "q"}]}"#,
        r#"queues[0] "q": there is no virtual host "other""#,
    ),
    (
        r#"{"exchanges": [{"vhost": "/", "name": "x", "type": "odd"}]}"#,
        r#"exchanges[0] "x": PRECONDITION_FAILED - unknown exchange type 'odd'"#,
    ),
    (
        r#"{"queues": [{"vhost": "/", "name": "q"}], "bindings": [{"vhost": "/", "source": "none", "destination": "q", "destination_type": "queue"}]}"#,
        r#"bindings[0] "none -> q": NOT_FOUND - no exchange 'none' in vhost '/'"#,
    ),
    (
        r#"{"bindings": [{"vhost": "/", "source": "amq.topic", "destination": "none", "destination_type": "queue"}]}"#,
        r#"bindings[0] "amq.topic -> none": NOT_FOUND - no queue 'none' in vhost '/'"#,
    ),
    (
        r#"{"bindings": [{"vhost": "/", "source": "amq.topic", "destination": "q", "destination_type": "dog"}]}"#,
        r#"destination_type is "dog""#,
    ),
    (
        r#"{"queues": [{"vhost": "/", "name": "q"}], "policies": [{"vhost": "/", "name": "p", "pattern": "[", "definition": {"max-length": -1}}]}"#,
        r#"policies[0] "p": Validation failed: -1 is not a valid maximum length; pattern should be regular expression"#,
    ),
    (
        r#"{"parameters": [{"vhost": "/", "component": "operator_policy", "name": "p", "value": {"pattern": "", "definition": {"dead-letter-exchange": "x"}}}]}"#,
        r#"parameters[0] "p": Validation failed: [{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings"#,
    ),
    (
        r#"{"queues": [{"vhost": "/", "name": "q", "arguments": {"x": 18446744073709551615}}]}"#,
        r#"queues[0] "q": x: 18446744073709551615 is too large"#,
    ),
];

#[test]
fn a_file_with_a_mistake_changes_nothing_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = data.to_str().unwrap();
    let server = Server::start(&data, &[]);
    for (number, (content, told)) in WRONG.into_iter().enumerate() {
        let file = write(folder.path(), &format!("{number}.json"), content);
        let output = run(&["definitions", "import", &file, "--data-dir", path]);
        assert_eq!(output.status.code(), Some(1), "{content}");
        let error = text(&output.stderr);
        assert!(error.contains(told) && error.contains(&file), "{error}");
        assert_eq!(objects(path), [7, 0, 0, 0], "{content}");
    }
    let (status, _) = server.stop();
    assert!(status.success());
    for (number, (_, told)) in WRONG.into_iter().enumerate() {
        let file = folder.path().join(format!("{number}.json"));
        let mut command = menzil(&[
            "server",
            "--amqp",
            "127.0.0.1:0",
            "--mqtt",
            "off",
            "--data-dir",
            path,
        ]);
        let output = command.arg("--definitions").arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(error.contains(told), "{error}");
    }
    let server = Server::start(&data, &[]);
    assert_eq!(objects(path), [7, 0, 0, 0]);
    server.kill();
}

/// Exit code and log of a start that ends by itself.
fn start(data: &Path, file: &str, words: &[&str]) -> (Option<i32>, String) {
    let mut command = menzil(&[
        "server",
        "--amqp",
        "127.0.0.1:0",
        "--mqtt",
        "off",
        "--data-dir",
    ]);
    command.arg(data).args(["--definitions", file]).args(words);
    let output = command.output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_start_that_is_refused_for_its_file_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (number, (content, told)) in WRONG.into_iter().enumerate() {
        let file = write(folder.path(), &format!("{number}.json"), content);
        let (code, error) = start(&data, &file, &[]);
        assert!(code == Some(1) && error.contains(told), "{error}");
        assert!(!data.exists(), "{content}");
    }
    let server = Server::start(&data, &[]);
    server.kill();
    // What it would bind is there, but not where it says.
    let wrong = r#"{"bindings": [{"vhost": "new", "source": "amq.topic", "destination": "none",
        "destination_type": "queue"}]}"#;
    let file = write(folder.path(), "wrong.json", wrong);
    let hosts = ["--set", r#"virtual_hosts=["/", "new"]"#];
    let (code, error) = start(&data, &file, &hosts);
    assert_eq!(code, Some(1));
    assert!(
        error.contains(r#"bindings[0] "amq.topic -> none": NOT_FOUND - no queue 'none'"#),
        "{error}"
    );
    let server = Server::start(&data, &[]);
    let stats = run(&["stats", "--json", "--data-dir", data.to_str().unwrap()]);
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert_eq!(stats["virtual_hosts"].as_array().unwrap().len(), 1);
    server.kill();
    let right = wrong.replace("none", "q").replace(
        "{\"bindings\"",
        r#"{"queues": [{"vhost": "new", "name": "q"}], "bindings""#,
    );
    let file = write(folder.path(), "right.json", &right);
    let server = Server::start(&data, &[&["--definitions", &file], &hosts[..]].concat());
    server.kill();
}

#[test]
fn what_is_there_must_be_what_the_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = data.to_str().unwrap();
    let first = r#"{"queues": [{"name": "q", "arguments": {"x-max-length": 5}}],
        "exchanges": [{"name": "x", "type": "topic"}]}"#;
    let first = write(folder.path(), "first.json", first);
    let server = Server::start(&data, &[]);
    let import = |file: &str| {
        let words = [
            "definitions",
            "import",
            file,
            "--vhost",
            "/",
            "--data-dir",
            path,
        ];
        run(&words)
    };
    let done = import(&first);
    assert_eq!(
        text(&done.stdout),
        "2 new, 0 kept\n",
        "{}",
        text(&done.stderr)
    );
    for (content, told) in [
        (
            r#"{"queues": [{"name": "new"}, {"name": "q"}]}"#,
            r#"queues[1] "q": PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the value '5' of type 'long'; delete it first, or let the file say what is there"#,
        ),
        (
            r#"{"queues": [{"name": "new"}], "exchanges": [{"name": "x", "type": "fanout"}]}"#,
            r#"exchanges[0] "x": PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'fanout' but current is 'topic'"#,
        ),
        (
            r#"{"queues": 5}"#,
            "invalid type: integer `5`, expected a sequence",
        ),
    ] {
        let refused = import(&write(folder.path(), "other.json", content));
        assert_eq!(refused.status.code(), Some(1));
        assert!(
            text(&refused.stderr).contains(told),
            "{}",
            text(&refused.stderr)
        );
        assert_eq!(objects(path), [8, 1, 0, 0], "nothing has changed");
    }
    assert_eq!(text(&import(&first).stdout), "0 new, 2 kept\n");
    server.kill();
}

#[test]
fn a_server_and_its_file_explain_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = data.to_str().unwrap();
    let file = write(folder.path(), "routes.json", ROUTES);
    let server = Server::start(&data, &["--definitions", &file]);
    let keys = write(
        folder.path(),
        "keys",
        "order.created.eu\nlater\tk\norder.nope\nnone\tk\n",
    );
    for words in [
        &["--exchange", "orders", "--key", "order.created.eu"][..],
        &["--exchange", "orders", "--key", "nothing"],
        &["--exchange", "biz.low", "--key", "k"],
        &["--exchange", "biz.high", "--key", "k"],
        &["--exchange", "plain.high", "--key", "k"],
        &[
            "--exchange",
            "later",
            "--key",
            "k",
            "--header",
            "x-delay:=5000",
        ],
        &["--exchange", "later", "--key", "k"],
        &[
            "--exchange",
            "docs",
            "--header",
            "n:=5",
            "--header",
            "f:=1.5",
        ],
        &["--exchange", "docs", "--header", "n=5"],
        &["--exchange", "spread", "--header", "customer=a"],
        &["--exchange", "replayed", "--key", "k"],
        &["--exchange", "orderz", "--key", "k"],
        &["--key", "audit"],
        &["--vhost", "nope", "--key", "audit"],
        &["--exchange", "orders", "--keys", &keys],
    ] {
        let explain = |which: [&str; 2]| {
            let output = run(&[&["explain", "route"][..], words, &which].concat());
            let errors = text(&output.stderr).replace(&format!("{file}: "), "");
            (output.status.code(), text(&output.stdout), errors)
        };
        let live = explain(["--data-dir", path]);
        assert_eq!(live, explain(["--definitions", &file]), "{words:?}");
        assert!(
            !live.2.contains("panicked") && live.0 != Some(2),
            "{live:?}"
        );
    }
    let words = [
        "explain",
        "route",
        "--data-dir",
        path,
        "--exchange",
        "biz.low",
        "--key",
        "k",
    ];
    let told = run(&words);
    // The layered policy says nothing of it, and the one below does.
    assert!(
        text(&told.stdout).contains("the alternate of 'biz.low'"),
        "{}",
        text(&told.stdout)
    );
    server.kill();
}

/// Alternate exchanges by policies of two layers and not, beside operator policies; every type.
const ROUTES: &str = r#"{
  "vhosts": [{"name": "/"}],
  "parameters": [
    {"vhost": "/", "component": "operator_policy", "name": "cap",
     "value": {"pattern": "", "apply-to": "all", "priority": 9, "definition": {"max-length": 2}}}
  ],
  "policies": [
    {"vhost": "/", "name": "top", "pattern": "^(?!plain)", "apply-to": "exchanges", "priority": 9,
     "definition": {"layered": true, "max-length": 5}},
    {"vhost": "/", "name": "biz", "pattern": "^biz\\.", "apply-to": "all", "priority": 5,
     "definition": {"alternate-exchange": "unrouted"}},
    {"vhost": "/", "name": "high", "pattern": "high$", "priority": 7,
     "definition": {"alternate-exchange": "notify"}},
    {"vhost": "/", "name": "queues", "pattern": "", "apply-to": "queues", "priority": 99,
     "definition": {"message-ttl": 5}}
  ],
  "queues": [
    {"vhost": "/", "name": "audit", "arguments": {"x-queue-type": "quorum"}},
    {"vhost": "/", "name": "billing", "arguments": {"x-expires": 3600000}},
    {"vhost": "/", "name": "mail", "durable": false}
  ],
  "exchanges": [
    {"vhost": "/", "name": "orders", "type": "topic", "arguments": {"alternate-exchange": "unrouted"}},
    {"vhost": "/", "name": "biz.low", "type": "direct"},
    {"vhost": "/", "name": "biz.high", "type": "direct"},
    {"vhost": "/", "name": "plain.high", "type": "direct"},
    {"vhost": "/", "name": "later", "type": "x-delayed-message", "arguments": {"x-delayed-type": "direct"}},
    {"vhost": "/", "name": "docs", "type": "headers"},
    {"vhost": "/", "name": "spread", "type": "x-consistent-hash", "arguments": {"hash-header": "customer"}},
    {"vhost": "/", "name": "replayed", "type": "topic", "arguments": {"x-retain-messages": 5}},
    {"vhost": "/", "name": "notify", "type": "fanout"},
    {"vhost": "/", "name": "unrouted", "type": "fanout"}
  ],
  "bindings": [
    {"vhost": "/", "source": "orders", "destination": "audit", "destination_type": "queue", "routing_key": "order.#"},
    {"vhost": "/", "source": "orders", "destination": "notify", "destination_type": "exchange", "routing_key": "order.created.*"},
    {"vhost": "/", "source": "later", "destination": "mail", "destination_type": "queue", "routing_key": "k"},
    {"vhost": "/", "source": "docs", "destination": "audit", "destination_type": "queue", "arguments": {"n": 5, "f": 1.5}},
    {"vhost": "/", "source": "docs", "destination": "mail", "destination_type": "queue", "arguments": {"n": null, "x-match": "any"}},
    {"vhost": "/", "source": "spread", "destination": "audit", "destination_type": "queue", "routing_key": "1"},
    {"vhost": "/", "source": "spread", "destination": "mail", "destination_type": "queue", "routing_key": "3"},
    {"vhost": "/", "source": "replayed", "destination": "mail", "destination_type": "queue", "routing_key": "k", "arguments": {"x-replay-from": "first"}},
    {"vhost": "/", "source": "notify", "destination": "mail", "destination_type": "queue"},
    {"vhost": "/", "source": "unrouted", "destination": "audit", "destination_type": "queue"}
  ]
}"#;

/// What a script reads it may set again: nothing is escaped but as JSON does it.
#[test]
fn a_listed_policy_has_the_pattern_that_was_set() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let server = Server::start(folder.path(), &[]);
    let pattern = r#"^shop\.\d+"\\$"#;
    let set = run(&[
        "policy",
        "set",
        r#"we"ird\x"#,
        pattern,
        r#"{"dead-letter-routing-key": "a\\b"}"#,
        "--data-dir",
        path,
    ]);
    assert!(set.status.success(), "{}", text(&set.stderr));
    let listed = run(&["policy", "list", "--json", "--data-dir", path]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["pattern"], pattern);
    assert_eq!(listed["name"], r#"we"ird\x"#);
    assert_eq!(listed["definition"]["dead-letter-routing-key"], r"a\b");
    server.kill();
}

#[test]
fn policies_are_set_cleared_and_listed_on_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let path = data.to_str().unwrap();
    let server = Server::start(data, &[]);
    let policy = |words: &[&str]| {
        let mut all = vec!["policy"];
        all.extend(words);
        all.extend(["--data-dir", path]);
        run(&all)
    };
    let set = policy(&[
        "set",
        "short",
        "^q",
        r#"{"max-length": 5}"#,
        "--priority",
        "-3",
    ]);
    assert!(set.status.success(), "{}", text(&set.stderr));
    assert_eq!(
        text(&set.stdout),
        "policy 'short' (priority -3) in virtual host '/' gives max-length=5 to queues that match \
         '^q'\n"
    );
    let nothing = policy(&["set", "old", r"^s\.", r#"{"max-age": "7D"}"#]);
    assert_eq!(
        text(&nothing.stdout),
        "policy 'old' (priority 0) in virtual host '/' is set, and applies to nothing: \
         max-age=7D, and no exchange and no queue acts on that\n"
    );
    let table = text(&policy(&["list"]).stdout);
    assert!(
        table.contains(r"  'old'           0  all  '^s\.'   max-age=7D"),
        "{table}"
    );
    assert!(policy(&["clear", "old"]).status.success());
    let operator = [
        "set",
        "cap",
        "",
        r#"{"max-length": 2}"#,
        "--apply-to",
        "queues",
    ];
    let set = policy(&[&operator[..], &["--operator"]].concat());
    assert_eq!(
        text(&set.stdout),
        "operator policy 'cap' (priority 0) in virtual host '/' gives max-length=2 to queues that \
         match ''\n"
    );
    let expected = concat!(
        r#"{"apply-to":"all","definition":{"max-length":5},"name":"short","operator":false,"#,
        r#""pattern":"^q","priority":-3,"vhost":"/"}"#,
        "\n",
        r#"{"apply-to":"queues","definition":{"max-length":2},"name":"cap","operator":true,"#,
        r#""pattern":"","priority":0,"vhost":"/"}"#,
        "\n"
    );
    assert_eq!(text(&policy(&["list", "--json"]).stdout), expected);
    server.kill();
    let server = Server::start(data, &[]);
    assert_eq!(text(&policy(&["list", "--json"]).stdout), expected);
    let absent = policy(&["clear", "cap"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(text(&absent.stderr).contains(r#"there is no policy "cap" in virtual host "/""#));
    let cleared = policy(&["clear", "cap", "--operator"]);
    assert_eq!(
        text(&cleared.stdout),
        "operator policy 'cap' cleared in virtual host '/'\n"
    );
    assert!(policy(&["clear", "short"]).status.success());
    server.kill();
    let server = Server::start(data, &[]);
    assert_eq!(text(&policy(&["list", "--json"]).stdout), "");
    let nothing = policy(&["effective", "amq.topic", "--exchange"]);
    assert_eq!(
        text(&nothing.stdout),
        "exchange 'amq.topic' in virtual host '/': no argument and no policy says anything of it\n"
    );
    // As in RabbitMQ: a name may be empty, and an empty pattern matches every name.
    let empty = ["set", "", "", r#"{"alternate-exchange": "a"}"#];
    assert!(policy(&empty).status.success());
    let told = policy(&["effective", "amq.topic", "--exchange"]);
    assert!(
        text(&told.stdout).contains("\n  alternate-exchange  a      policy ''\n"),
        "{}",
        text(&told.stdout)
    );
    assert!(policy(&["clear", ""]).status.success());
    for (words, told) in [
        (
            &["set", "p", "x", "{"][..],
            "the definition is no JSON object",
        ),
        (
            &["set", "p", "x", "{}"],
            r#"menzil: the definition is empty: it needs a key and its value, such as {"max-length": 1000}"#,
        ),
        (
            &["set", "p", "x", "[5]"],
            "menzil: the definition is a list, and must be a JSON object of keys and values",
        ),
        (
            &["set", "p", "x", r#"{"expires": 0}"#],
            "menzil: expires is 0, and must be milliseconds, a whole number from 1 on\n",
        ),
        (
            &["set", "p", "x", r#"{"overflow": "drop"}"#],
            r#"menzil: overflow is "drop", and must be "drop-head", "reject-publish" or"#,
        ),
        (
            &["set", "p", "x", r#"{"max-lenght": 5}"#],
            "menzil: policies do not have max-lenght: max-length may be meant\n",
        ),
        (
            &[
                "set",
                "p",
                "(",
                r#"{"max-length": 5}"#,
                "--apply-to",
                "dogs",
            ],
            "menzil: apply-to is \"dogs\", and must be all, exchanges, queues, classic_queues, \
             quorum_queues or streams; the pattern \"(\" is no regular expression",
        ),
        (
            &["set", "p", "^q(?=x)", r#"{"max-length": 5}"#],
            "the one that is, is ^(?!…) or ^(?=…) at the beginning",
        ),
        (
            &["set", "p", "x", r#"{"expires": 1}"#, "--vhost", "v"],
            r#"no virtual host "v""#,
        ),
        (
            &["effective", "none"],
            "there is no queue 'none' in virtual host '/'",
        ),
        (
            &["effective", "none", "--exchange"],
            "there is no exchange 'none' in virtual host '/'",
        ),
    ] {
        let output = policy(words);
        assert!(!output.status.success());
        assert!(
            text(&output.stderr).contains(told),
            "{}",
            text(&output.stderr)
        );
    }
    assert_eq!(text(&policy(&["list", "--json"]).stdout), "");
    server.kill();
    let nobody = policy(&["list"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("is a server running on this data folder?"));
}
