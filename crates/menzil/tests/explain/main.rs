//! `menzil explain route` with definitions from a file: what it prints, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs it with the definitions beside this file: exit code, output, errors.
fn explain(words: &[&str], input: &str) -> (i32, String, String) {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain/definitions.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_menzil"))
        .args(["explain", "route", "--definitions"])
        .arg(definitions)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who does not read it may have ended by now.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let done = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap(),
        text(done.stdout),
        text(done.stderr),
    )
}

#[test]
fn a_message_that_is_wanted() {
    let words = ["--exchange", "orders", "--key", "order.created.eu"];
    let (code, out, err) = explain(&words, "");
    assert_eq!(
        out,
        "\
exchange 'orders' (topic, 3 bindings)
  ✓ order.*.eu       → queue 'eu-billing'
  ✓ order.#          → queue 'audit'
  ✓ order.created.*  → exchange 'notify'
  its alternate exchange 'unrouted' is not needed

exchange 'notify' (fanout, 2 bindings), bound to 'orders'
  ✓ (no key)  → queue 'email'
  ✓ (no key)  → queue 'push'

The message reaches 4 queues: audit, email, eu-billing, push
"
    );
    assert_eq!(code, 0);
    assert!(err.contains("note: exchange 'jms' is left out: type 'x-jms-topic' is not known here"));
}

#[test]
fn a_key_that_was_renamed() {
    let (code, out, err) = explain(&["--exchange", "plain", "--key", "orders.created"], "");
    assert_eq!(
        out,
        "\
exchange 'plain' (topic, 2 bindings)
  no binding takes the message
  nearly:
  ✗ order.created  → queue 'audit'
      word 1 is 'orders', not 'order'

The message reaches no queue.
"
    );
    assert_eq!(code, 1);
    assert!(err.ends_with("menzil: the message would reach no queue\n"));
}

#[test]
fn headers_by_their_types() {
    let wanted = [
        "--exchange",
        "docs",
        "--header",
        "retries:=5",
        "--header",
        "seen=x",
    ];
    let (code, out, _) = explain(&wanted, "");
    assert_eq!(code, 0);
    assert!(
        out.ends_with("The message reaches 1 queue: email\n"),
        "{out}"
    );
    let other = [
        "--exchange",
        "docs",
        "--header",
        "retries=5",
        "--header",
        "seen=x",
    ];
    let (code, out, _) = explain(&other, "");
    assert_eq!(code, 1);
    assert!(out.contains("header 'retries' is \"5\", not 5"), "{out}");
}

#[test]
fn the_alternate_exchange_of_a_policy_is_asked() {
    let (code, out, _) = explain(&["--exchange", "biz.orders", "--key", "k"], "");
    assert_eq!(code, 0);
    assert!(out.contains("exchange 'unrouted' (fanout, 1 binding), the alternate of 'biz.orders'"));
}

#[test]
fn keys_of_a_file_are_checked_for_a_pipeline() {
    let keys = "order.created.eu\norders.created\ninvoice.paid\norders\tinvoice.paid\n";
    let (code, out, err) = explain(&["--exchange", "plain", "--keys", "-"], keys);
    assert_eq!(
        out,
        "\
ok    order.created.eu → eu-billing
LOST  orders.created, nearly 'order.created' → queue 'audit': word 1 is 'orders', not 'order'
LOST  invoice.paid
ok    orders\\tinvoice.paid → unrouted-capture, by the alternate of 'orders'
"
    );
    assert_eq!(code, 1);
    assert!(err.ends_with("menzil: 2 of 4 keys would reach no queue\n"));
    let (code, out, _) = explain(
        &["--exchange", "orders", "--keys", "-"],
        "order.created.eu\nx\n",
    );
    assert_eq!(code, 0);
    assert!(out.ends_with("2 keys, each reaches a queue\n"));
}

#[test]
fn what_is_chosen_by_chance_says_so() {
    let (code, out, _) = explain(&["--exchange", "lucky"], "");
    assert_eq!(code, 0);
    assert!(out.contains("chooses one of 2 by chance"), "{out}");
    assert!(
        out.contains("audit (by chance), email (by chance), push (by chance)"),
        "{out}"
    );
}

#[test]
fn what_cannot_be_asked_is_refused() {
    for (words, code, why) in [
        (
            &["--exchange", "inner"][..],
            1,
            "exchange 'inner' is internal",
        ),
        (
            &["--exchange", "no"],
            1,
            "there is no exchange 'no' in virtual host '/'",
        ),
        (
            &["--vhost", "nope"],
            1,
            "no virtual host 'nope'; there is '/'",
        ),
        (&["--header", "h"], 2, "NAME=VALUE or NAME:=JSON is wanted"),
        (&["--header", "h:=x"], 2, "after := comes a JSON value"),
        (&["--header", "CC=x"], 2, "use --cc"),
        (
            &["--property", "app_id=x"],
            2,
            "message_id, correlation_id and timestamp only",
        ),
        (&["--property", "timestamp=x"], 2, "not whole seconds"),
        (&["--key", "k", "--keys", "-"], 2, "cannot be used with"),
        (&["--keys", "no/such/file"], 1, "no/such/file"),
    ] {
        let (ended, _, err) = explain(words, "");
        assert_eq!(ended, code, "{words:?}: {err}");
        assert!(err.contains(why), "{words:?}: {err}");
    }
}
