//! What `--help` prints.

use crate::scenario::{Kind, Scenario};
use std::fmt::Write as _;

/// What `menzil bench --help` prints.
pub const USAGE: &str = "\
Load a broker and tell what it costs.

  menzil bench amqp [options]      load any AMQP 0-9-1 broker
  menzil bench mqtt [options]      load any MQTT broker, 3.1.1 or 5.0
  menzil bench disk [options]      the machine's raw sync rate and bandwidth
  menzil bench loopback [options]  the latency that no broker here can beat

Each has its own --help.

A first look, with a broker on this machine:

  menzil bench amqp
  menzil bench amqp --scenario confirm --pid $(pidof menzil)
";

/// What `menzil bench disk --help` prints.
pub(crate) const DISK: &str = "\
What the disk gives: no durable confirm is faster than this.

  menzil bench disk [options]

  --dir DIR       a folder on the disk in question (.); needs room for 4 GiB
  --seconds S     how long to measure each (3)
  --overwrite     the first of the two alone
  --json          JSON instead of a table
  --quiet         no progress line

It overwrites 4 KiB blocks of a 64 MiB file and appends blocks of 1 MiB, an
fdatasync after each.
";

/// What `menzil bench loopback --help` prints.
pub(crate) const LOOPBACK: &str = "\
What the bare machine does with --scenario latency: no broker is faster.

  menzil bench loopback [options]

  --rate N        messages per second (1000)
  --size BYTES    of a body (100)
  --seconds S     how long to measure (3), after --warmup S (0.5)
  --pin E,G       the echo on core E, the generator on core G
  --bandwidth     also what goes the same way as fast as it can, 60 KiB each
  --json          JSON instead of a table
  --quiet         no progress line

An echo in a process of its own reads one TCP connection over loopback and
writes what came to another, one read and one write for each message. The
generator that also loads brokers sends the frames of a message on the first
and takes the time when they come on the second. s/M is the echo's CPU.
";

const HEAD: &str = "\
Load any AMQP 0-9-1 broker and tell what it costs.

  menzil bench amqp [--scenario NAME] [options]

Without --scenario: one publisher and one consumer on one queue, messages of 100
bytes, as fast as it goes for three seconds. A scenario is a name for some
options; your own words override them.
";

const OPTIONS: &str = "
Numbers of things may end in k or M: 10k is 10,000. Sizes count in 1024s: --size
2k is 2,048 bytes. An option that would do nothing is refused with the reason.

Where
  --uri URI             amqp://guest:guest@127.0.0.1:5672/%2f

Who
  --publishers N        (1)
  --consumers N         (one for each queue; a backlog: 1) share the queues
  --connections N       for all publishers and consumers (one each)
  --queues N            durable, taken in turn by the publishers (1)
  --queue-type TYPE     x-queue-type: classic, quorum (none sent)
  --exchange TYPE       default, direct: a message goes to one queue, in turn
                        fanout, topic, headers: each goes to all --queues
  --matches N           topic, headers: the same as --queues
  --bindings N          topic, headers, direct: bindings in all; those beyond
                        --queues do not match
  --apart               topic: those have no word in common with the messages
  --reach N             direct: a message goes to N of the --queues, on average
  --dead-queues N       queues more that get a copy of each message and have no
                        consumer (0)
  --hold N              messages delivered in a queue of their own and never
                        acknowledged (0)

What
  --size BYTES          of a body (100)
  --persistent          messages that must survive; the default is --transient
  --expiration MS-MS    messages may live so many milliseconds, mixed
  --delay MS-MS         messages wait so many milliseconds, mixed, in an
                        x-delayed-message exchange that routes as --exchange
                        (direct); with --stamp latency is how late they come
  --confirm N           publisher confirms, at most N messages unconfirmed per
                        publisher (0: none)
  --ack auto|manual     (auto)
  --ack-batch N         manual, one basic.ack for N deliveries (1)
  --prefetch N          unacknowledged deliveries per consumer (manual: 200;
                        0: no limit)
  --rate N              messages per second over all publishers (0: no limit)
  --backlog N           published and not yet delivered before publishers pause
                        (10000)
  --stamp               latency from publish to delivery, by a time in the body
  --check-order         sender and number in the body; the run fails if order is
                        broken

How long
  --seconds S           measured time (3), after --warmup S (0.5)
  --messages N          end after N messages instead, when all have arrived

What is looked at
  --pid PID             the broker's process: CPU and memory
  --data-dir DIR        the broker's data folder: its size at the end and at its
                        peak, and what was written to the disk it lies on, by
                        whomever: see that all else is quiet
  --json                JSON instead of a table
  --quiet               no progress line

What stays
  --name NAME           first part of all names declared (bench.RANDOM)
  --keep                delete nothing at the end
  --existing            use what a run with --keep left: a drain stores nothing
                        first then

Columns
  done, /s          messages, connections, queues … done in the measured time,
                    and per second. A message counts when it is delivered (from
                    all of a fan-out's queues); where nobody consumes, when it
                    is confirmed; where nothing is confirmed, when sent
  s/M               CPU seconds the broker used per million of these. It repeats
                    where /s does not
  p50, p99, p99.9,  µs from publish to confirm, or with --stamp to delivery, or
  max               with --delay too from when it is due; early counts as 0
  RSS               MiB of the broker's memory at the end, and its growth
  KiB each          growth per connection, queue or stored message
  B/B               bytes written to disk per published byte of body, and
  B each            per one done (both need --data-dir)
  folder            MiB of the data folder at the end, and at its peak
  own CPU           % of a core that this generator used, µs of it per one done
  no core           % of the time that it was ready to run and had no core
  void              not empty: the row tells more about this generator or a busy
                    machine than about the broker. saturated: it used 90 % of a
                    core; starved: it would have used it
";

/// What `menzil bench amqp --help` prints.
pub(crate) fn amqp() -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for scenario in Scenario::ALL {
        let title = section_of(scenario.kind);
        if title != section {
            let _infallible = write!(text, "\n{title}\n");
            section = title;
        }
        text.push_str(&listed(scenario.name, scenario.summary, scenario.words));
    }
    text + OPTIONS
}

/// The lines of one scenario: what it does, and what it stands for.
pub(crate) fn listed(name: &str, summary: &str, words: &str) -> String {
    let mut lines = wrapped(summary.split_whitespace());
    if !words.is_empty() {
        // An option and its value stay together.
        let words = format!("= {words}").replace(" --", "\n--");
        lines.extend(wrapped(words.replacen("=\n", "= ", 1).lines()));
    }
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        let _infallible = writeln!(text, "  {name:<18}  {line}");
    }
    text
}

/// Lines short enough to stand beside a name; none of nothing.
fn wrapped<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= SUMMARY_COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

const SUMMARY_COLUMNS: usize = 58;

fn section_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Flow => "Scenarios: messages that flow",
        Kind::Backlog(_) => "Scenarios: messages that lie",
        Kind::IdleConnections | Kind::Declare(_) => "Scenarios: things that do nothing",
        Kind::Churn(_) | Kind::Deletion => "Scenarios: things that come and go",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_scenario_and_fits_a_terminal() {
        let text = amqp();
        for scenario in Scenario::ALL {
            assert!(text.contains(&format!("\n  {} ", scenario.name)));
        }
        for text in [&text, USAGE, DISK, LOOPBACK] {
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
