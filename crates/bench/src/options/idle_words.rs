//! Options that a user wrote and that do nothing in the run they are written for.
//!
//! A scenario's own words are not looked at: they are defaults. What a user wrote and was not
//! done would be read into the figures, so it is refused with the reason.

use super::words::refuse;
use super::{Acks, Options};
use crate::BenchError;
use crate::scenario::{Churned, Declared, Kind, Then};

/// What every run heeds.
const ALWAYS: &[&str] = &["scenario", "uri", "pid", "data-dir", "json", "quiet"];
/// What a run heeds that only declares.
const DECLARED: &[&str] = &[
    "queues",
    "matches",
    "bindings",
    "exchange",
    "queue-type",
    "dead-queues",
    "name",
    "keep",
];

/// What a run heeds that deletes an exchange.
const DELETION: &[&str] = &[
    "publishers",
    "size",
    "persistent",
    "transient",
    "confirm",
    "rate",
    "seconds",
    "warmup",
    "exchange",
    "bindings",
    "queue-type",
];

impl Options {
    /// Refuses the first of the user's words, names with their values, that does nothing.
    pub(super) fn check_idle(&self, words: &[(String, String)]) -> Result<(), BenchError> {
        for (name, value) in words {
            if let Some(reason) = self.idle_reason(name, value, words) {
                return refuse(format!("--{name} would do nothing: {reason}"));
            }
        }
        Ok(())
    }

    fn idle_reason(&self, name: &str, value: &str, words: &[(String, String)]) -> Option<String> {
        if ALWAYS.contains(&name) {
            return None;
        }
        let wrote = |other: &str| words.iter().any(|(name, _)| name == other);
        if matches!(name, "seconds" | "warmup") && wrote("messages") {
            return Some("--messages ends the run; leave one of them out".to_owned());
        }
        if name == "matches" && !self.exchange.has_patterns() {
            return Some(
                "only topic and headers exchanges have bindings that do not match; write \
                 --exchange topic, or --queues N"
                    .to_owned(),
            );
        }
        let scenario = self.scenario.name;
        match self.scenario.kind {
            Kind::Flow => self.idle_in_flow(name, value, wrote("ack-batch")),
            Kind::Deletion => not_among(name, scenario, DELETION),
            Kind::Backlog(then) => {
                let consumes = then == Then::Drain;
                let is_idle = match name {
                    "seconds" | "warmup" | "hold" | "backlog" | "reach" => true,
                    "consumers" | "ack" | "ack-batch" | "prefetch" | "stamp" | "check-order" => {
                        !consumes
                    }
                    _ => false,
                };
                if is_idle {
                    return Some(format!("{scenario} has no use for it; leave it out"));
                }
                self.idle_among_consumers(name, value, wrote("ack-batch"))
            }
            Kind::IdleConnections => not_among(name, scenario, &["connections"]),
            Kind::Declare(Declared::Queues | Declared::Bindings) => {
                not_among(name, scenario, DECLARED)
            }
            Kind::Churn(what) => {
                let heeded: &[&str] = match what {
                    Churned::Connections | Churned::Channels => &["seconds", "messages"],
                    Churned::Queues => &["seconds", "messages", "queue-type", "name"],
                    Churned::Bindings => &[
                        "seconds",
                        "messages",
                        "queue-type",
                        "name",
                        "exchange",
                        "bindings",
                        "queues",
                        "matches",
                    ],
                };
                not_among(name, scenario, heeded)
            }
        }
    }

    fn idle_in_flow(&self, name: &str, value: &str, batched: bool) -> Option<String> {
        if self.consumer_count == 0 && matches!(name, "ack" | "ack-batch" | "prefetch" | "backlog")
        {
            return Some("nobody consumes; write --consumers N".to_owned());
        }
        self.idle_among_consumers(name, value, batched)
    }

    /// Where there are consumers.
    fn idle_among_consumers(&self, name: &str, value: &str, batched: bool) -> Option<String> {
        let contradicts = batched && (self.acks == Acks::Auto || (name, value) == ("ack", "auto"));
        match name {
            "ack" | "ack-batch" if contradicts => Some(
                "--ack auto acknowledges nothing and --ack-batch says how many at once; leave \
                 one of them out"
                    .to_owned(),
            ),
            "prefetch" if self.acks == Acks::Auto => Some(
                "with --ack auto no delivery stays unacknowledged; write --ack manual".to_owned(),
            ),
            _ => None,
        }
    }
}

fn not_among(name: &str, scenario: &str, heeded: &[&str]) -> Option<String> {
    if heeded.contains(&name) {
        return None;
    }
    let all: Vec<String> = heeded.iter().map(|name| format!("--{name}")).collect();
    Some(format!(
        "{scenario} heeds {} alone; leave --{name} out",
        all.join(", ")
    ))
}
