//! What `menzil bench mqtt --help` prints.

use super::scenario::{Kind, Scenario};
use crate::usage::listed;
use std::fmt::Write as _;

const HEAD: &str = "\
Load any MQTT broker, by 3.1.1 or 5.0, and tell what it costs.

  menzil bench mqtt [--scenario NAME] [options]

Without --scenario: one publisher and one subscriber of one topic, QoS 0,
messages of 100 bytes, as fast as it goes for three seconds. A scenario is a
name for some options; your own words override them.
";

const OPTIONS: &str = "
Numbers of things may end in k or M: 10k is 10,000. Sizes count in 1024s: --size
2k is 2,048 bytes. An option that would do nothing is refused with the reason.

Where
  --connect HOST:PORT   (127.0.0.1:1883)
  --user NAME, --password TEXT
  --version 3.1.1|5     (3.1.1)

Who
  --publishers N        (1)
  --subscribers N       (1) each gets every message
  --topics N            taken in turn by the publishers (1); with more than one
                        the subscribers' filter is bench/NAME/#
  --apart               the topics are shared out: each subscriber subscribes to
                        its part of them by name
  --shared N            the subscribers are members of N groups ($share), and
                        each message goes to one member of each
  --filters N           further filters of each subscriber or session, matching
                        nothing (0); of idle connections all there are

What is sent
  --qos 0|1|2           of publishes and of subscriptions (0)
  --pub-qos, --sub-qos  of one of them
  --size BYTES          of a payload (100)
  --window N            QoS 1, 2: publishes per publisher that are not
                        acknowledged to the end (100); a broker of 5.0 may allow
                        less, and the row says what it was
  --rate N              messages per second, over all publishers (no limit)
  --backlog N           deliveries missing before publishers pause (10000). If
                        then nothing comes for a second, they are taken for lost
  --stamp               latency from publish to delivery, by a time in the
                        payload; else from publish to its last acknowledgement
  --offline             the subscribers are durable sessions: they subscribe and
                        leave, messages are published, and they come back

Things that are there
  --retained N          retained topics to set
  --connections N       to be opened; --sessions N to be stored
  --ramp N              connections that begin in a second (at most 64 at once)

How long
  --seconds S           measured time (3), after --warmup S (0.5)
  --messages N          end after N messages instead

What is looked at
  --pid PID             the broker's process: CPU and memory
  --data-dir DIR        the broker's data folder: its size at the end and at its
                        peak, and what was written to the disk it lies on, by
                        whomever: see that all else is quiet
  --json                JSON instead of a table
  --quiet               no progress line

What stays
  --name NAME           part of all topics and client identifiers (random)
  --keep                sessions and retained messages are not deleted

Columns
  done, /s          deliveries, acknowledged publishes, connections … in the
                    measured time, and per second. Where nobody subscribes a
                    publish counts when it is acknowledged; with QoS 0 when sent
  s/M               CPU seconds the broker used per million of these. It repeats
                    where /s does not
  p50, p99, p99.9,  µs from publish to its last acknowledgement, or with --stamp
  max               to delivery; of a connection from its begin to the CONNACK
  RSS               MiB of the broker's memory at the end, and its growth
  KiB each          growth per connection, session, message
  lost              deliveries of the whole run that did not come though nothing
                    more was sent and a few seconds were waited; or publishes
                    without acknowledgement; or clients that were refused
  own CPU           % of a core that this generator used, µs of it per one done
  no core           % of the time that it was ready to run and had no core
  void              not empty: the row tells more about this generator or a busy
                    machine than about the broker. saturated: it used 90 % of a
                    core; starved: it would have used it
";

pub(crate) fn mqtt() -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for scenario in Scenario::ALL {
        let title = section_of(scenario.kind);
        if title != section {
            let _infallible = writeln!(text, "\n{title}");
            section = title;
        }
        text.push_str(&listed(scenario.name, scenario.summary, scenario.words));
    }
    text + OPTIONS
}

fn section_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Flow | Kind::Puback => "Scenarios: messages that flow",
        Kind::Retained(_) => "Scenarios: messages that lie",
        Kind::IdleConnections | Kind::IdleSessions | Kind::Storm => {
            "Scenarios: clients that come and stay"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_scenario_and_fits_a_terminal() {
        let text = mqtt();
        for scenario in Scenario::ALL {
            assert!(text.contains(&format!("\n  {} ", scenario.name)));
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
