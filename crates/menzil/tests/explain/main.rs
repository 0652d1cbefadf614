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
  ✓ order.created.*  → exchange 'notify'
  ✓ order.*.eu       → queue 'eu-billing'
  ✓ order.#          → queue 'audit'
  its alternate exchange 'unrouted' is not needed

exchange 'notify' (fanout, 2 bindings), bound to 'orders'
  ✓ (no key)  → queue 'email'
  ✓ (no key)  → queue 'push'

The message reaches 4 queues: audit, email, eu-billing, push
"
    );
    assert_eq!(code, 0);
    for note in [
        "note: exchanges[7] \"jms\" is left out:\n  exchange type 'x-jms-topic'",
        "note: queues[5] \"log\" counts as a plain queue:\n  argument",
        "note: bindings[18] \"jms -> push\" is left out:\n  no exchange 'jms'",
    ] {
        assert!(err.contains(note), "{err}");
    }
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
"
    );
    assert_eq!(code, 1);
    assert!(err.ends_with("menzil: the message would reach no queue\n"));
}

#[test]
fn a_message_that_waits() {
    let words = ["--exchange", "later", "--key", "a.b"];
    let (code, out, _) = explain(&[&words[..], &["--header", "x-delay:=5000"]].concat(), "");
    assert_eq!(
        out,
        "\
exchange 'later' (x-delayed-message as topic, 2 bindings)
  the message waits here for 5000 ms, and when it is due goes on:
  ✓ #    → exchange 'later.still'
  ✓ a.*  → queue 'audit'

exchange 'later.still' (fanout, 1 binding), bound to 'later'
  it delays, but the message has waited on its way before
  ✓ (no key)  → queue 'push'

The message reaches 2 queues: audit, push
"
    );
    assert_eq!(code, 0);
    let (_, out, _) = explain(&words, "");
    let at_once =
        "  it delays, but there is no x-delay of 1 to 4294967295 ms: it goes on at once\n";
    assert!(out.contains(at_once), "{out}");
    let (_, out, _) = explain(&[&words[..], &["--header", "x-delay=soon"]].concat(), "");
    assert!(out.contains(at_once), "{out}");
    let (_, out, _) = explain(&["--exchange", "later.still", "--header", "x-delay=7"], "");
    assert!(out.contains("the message waits here for 7 ms"), "{out}");
}

#[test]
fn a_misspelt_exchange() {
    for (name, told) in [
        (
            "order",
            "there is no exchange 'order' in virtual host '/'; is 'orders' meant?",
        ),
        ("biz.odrers", "in virtual host '/'; is 'biz.orders' meant?"),
        ("amq.headrs", "in virtual host '/'; is 'amq.headers' meant?"),
        (
            "far.away",
            "there is no exchange 'far.away' in virtual host '/'\n",
        ),
    ] {
        let (code, out, err) = explain(&["--exchange", name], "");
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.contains(told), "{err}");
    }
    let (_, out, _) = explain(&["--keys", "-"], "plan\tk\n");
    let told =
        "LOST  plan\\tk: there is no exchange 'plan' in virtual host '/'; is 'plain' meant?\n";
    assert_eq!(out, told);
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
fn comments_and_empty_lines_of_a_file_of_keys_are_passed_over() {
    let keys = "# of the shop\n\n#\norder.created.eu\r\n\r\norders\t# x\n\t# x\n#x\n";
    let (code, out, _) = explain(&["--exchange", "plain", "--keys", "-"], keys);
    assert_eq!(
        out,
        "\
ok    order.created.eu → eu-billing
ok    orders\\t# x → unrouted-capture, by the alternate of 'orders'
LOST  \\t# x
LOST  #x
"
    );
    assert_eq!(code, 1);
}

#[test]
fn a_file_of_keys_begins_where_its_mark_ends_and_has_one_key_at_least() {
    let words = ["--exchange", "plain", "--keys", "-"];
    let (code, out, _) = explain(&words, "\u{feff}order.created.eu\n");
    assert_eq!((code, out.matches("LOST").count()), (0, 0), "{out}");
    for nothing in ["", "\u{feff}", "# nothing\n\n"] {
        let (code, out, err) = explain(&words, nothing);
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.ends_with(
            "menzil: there are no keys to check: a routing key in each line is wanted\n"
        ));
    }
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
