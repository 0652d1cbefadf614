//! Named loads: each is a kind of run and the options it stands for, parsed before the user's own.

/// What is done in a run, in outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages flow for a time, or until so many went through; with `--offline` into sessions that
    /// are away, which then come back.
    Flow,
    /// Retained messages are set, and perhaps read by one subscriber of all.
    Retained(Then),
    /// Connections that do nothing.
    IdleConnections,
    /// Durable sessions that nobody is connected to.
    IdleSessions,
    /// Durable sessions that all come back.
    Storm,
    /// Publishes one by one without and with a durable session they are stored for.
    Puback,
}

/// What happens to retained messages that were set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Clear,
    Read,
}

/// A name for a kind of run with its options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Options as a user would write them.
    pub(crate) words: &'static str,
    /// One line for `--help`.
    pub(crate) summary: &'static str,
}

const fn scenario(
    name: &'static str,
    kind: Kind,
    words: &'static str,
    summary: &'static str,
) -> Scenario {
    Scenario {
        name,
        kind,
        words,
        summary,
    }
}

impl Scenario {
    /// What runs where none is named.
    pub(crate) const FREE: Self = scenario("load", Kind::Flow, "", "");

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name == name)
    }

    pub(crate) const ALL: &'static [Self] = &[
        scenario(
            "qos0",
            Kind::Flow,
            "--qos 0",
            "one publisher, one subscriber",
        ),
        scenario(
            "qos1",
            Kind::Flow,
            "--qos 1 --window 100",
            "the same, 100 on their way to be acknowledged",
        ),
        scenario(
            "qos2",
            Kind::Flow,
            "--qos 2 --window 20",
            "the same, each exactly once",
        ),
        scenario(
            "fanout0",
            Kind::Flow,
            "--qos 0 --subscribers 100 --backlog 100k",
            "each message to 100 subscribers",
        ),
        scenario(
            "fanout1",
            Kind::Flow,
            "--qos 1 --window 20 --subscribers 100 --backlog 100k",
            "the same, acknowledged by each",
        ),
        scenario(
            "fanin",
            Kind::Flow,
            "--qos 0 --publishers 100 --topics 100",
            "100 publishers and topics, one subscriber of all",
        ),
        scenario(
            "shared",
            Kind::Flow,
            "--version 5 --qos 1 --window 100 --subscribers 10 --shared 1",
            "ten members of one group share the messages",
        ),
        scenario(
            "latency",
            Kind::Flow,
            "--qos 1 --window 100 --rate 1000 --stamp",
            "from publish to delivery at a calm rate",
        ),
        scenario(
            "offline",
            Kind::Flow,
            "--offline --qos 1 --window 100",
            "into a durable session that is away; then it comes back for them",
        ),
        scenario(
            "drain",
            Kind::Flow,
            "--offline --qos 1 --window 100 --messages 500k",
            "the same with half a million messages",
        ),
        scenario(
            "puback",
            Kind::Puback,
            "--qos 1 --messages 500",
            "500 publishes one by one, without and with an offline durable session that gets them",
        ),
        scenario(
            "retained-load",
            Kind::Retained(Then::Clear),
            "--retained 1M --qos 1 --window 100",
            "set a million retained topics and weigh the broker",
        ),
        scenario(
            "retained-read",
            Kind::Retained(Then::Read),
            "--retained 1M --qos 1 --window 100",
            "the same; then a subscriber of `#` gets them all",
        ),
        scenario(
            "idle-connections",
            Kind::IdleConnections,
            "--connections 1000",
            "connections, weighed",
        ),
        scenario(
            "idle-sessions",
            Kind::IdleSessions,
            "--sessions 10k --qos 1",
            "durable sessions with a subscription each that nobody is connected to, weighed",
        ),
        scenario(
            "storm",
            Kind::Storm,
            "--connections 5000 --ramp 500 --qos 1",
            "5,000 clients of durable sessions lose their connections and come back in 10 s",
        ),
    ];
}
