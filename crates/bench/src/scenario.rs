//! Named loads: each is a kind of run and the options it stands for.
//!
//! A scenario holds nothing that a command line could not say: its words are parsed before the
//! user's own, so that every one of them can be overridden.

/// What is done in a run, in outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages flow for a time, or until so many went through.
    Flow,
    /// Messages are stored first; then something is done with them.
    Backlog(Then),
    /// Connections with a channel each that do nothing.
    IdleConnections,
    /// Queues, exchanges and bindings are declared, pipelined.
    Declare(Declared),
    /// An exchange with many bindings goes while messages flow past it.
    Deletion,
    /// Something is opened and closed, or declared and deleted, over and over.
    Churn(Churned),
}

/// What happens to a stored backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Delete,
    Drain,
    Purge,
}

/// What a declaring run counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declared {
    Queues,
    Bindings,
}

/// What comes and goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Churned {
    Connections,
    Channels,
    Queues,
    Bindings,
}

impl Churned {
    /// In the plural, for tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Channels => "channels",
            Self::Queues => "queues",
            Self::Bindings => "bindings",
        }
    }
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

impl Scenario {
    /// What runs where none is named.
    pub(crate) const FREE: Self = Self {
        name: "load",
        kind: Kind::Flow,
        words: "",
        summary: "",
    };

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|scenario| scenario.name == name)
    }

    const fn flow(name: &'static str, words: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Flow,
            words,
            summary,
        }
    }

    const fn other(
        name: &'static str,
        kind: Kind,
        words: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            words,
            summary,
        }
    }

    pub(crate) const ALL: &'static [Self] = &[
        Self::flow("transient", "", "publish and consume, auto-ack"),
        Self::flow(
            "manual-ack",
            "--ack-batch 1 --prefetch 200",
            "the same, each message acknowledged by the consumer",
        ),
        Self::flow(
            "confirm",
            "--persistent --confirm 1000 --consumers 0",
            "persistent messages, 1000 on their way to be confirmed",
        ),
        Self::flow(
            "confirm-one",
            "--persistent --confirm 1 --consumers 0",
            "one at a time: publish, wait for the confirm",
        ),
        Self::flow(
            "spread",
            "--persistent --confirm 1000 --consumers 0 --queues 100",
            "confirm, over many queues in turn",
        ),
        Self::flow(
            "latency",
            "--rate 1000 --stamp",
            "from publish to delivery at a calm rate",
        ),
        Self::flow(
            "delays",
            "--delay 2000 --rate 10000 --stamp --persistent --backlog 1M --warmup 4 --seconds 10",
            "how late delayed messages come that are due at a calm rate",
        ),
        Self::flow(
            "confirm-latency",
            "--rate 1000 --persistent --confirm 1000 --exchange fanout --queues 6 --consumers 0",
            "from publish to confirm at a calm rate, each message to several queues",
        ),
        Self::flow(
            "fanout",
            "--exchange fanout --queues 10",
            "each message to ten queues with a consumer each",
        ),
        Self::flow(
            "topic",
            "--exchange topic --bindings 10000",
            "10,000 bindings of mixed patterns, one of which matches",
        ),
        Self::flow(
            "headers",
            "--exchange headers --bindings 1000",
            "1,000 bindings of mixed headers, one of which matches",
        ),
        Self::other(
            "backlog",
            Kind::Backlog(Then::Delete),
            "--persistent --confirm 1000 --messages 1000000",
            "store a million messages and weigh the broker",
        ),
        Self::other(
            "drain",
            Kind::Backlog(Then::Drain),
            "--persistent --confirm 1000 --messages 1000000 --ack-batch 1 --prefetch 200",
            "store a million, then consume them",
        ),
        Self::other(
            "purge",
            Kind::Backlog(Then::Purge),
            "--persistent --confirm 1000 --messages 1000000",
            "store a million, then purge the queue",
        ),
        Self::other(
            "idle-connections",
            Kind::IdleConnections,
            "--connections 1000",
            "connections with one channel each, weighed",
        ),
        Self::other(
            "idle-queues",
            Kind::Declare(Declared::Queues),
            "--queues 10000",
            "durable queues, declared pipelined and weighed; --exchange direct binds each",
        ),
        Self::other(
            "bindings",
            Kind::Declare(Declared::Bindings),
            "--exchange topic --bindings 10000",
            "bindings of mixed patterns, declared pipelined",
        ),
        Self::other(
            "delete-exchange",
            Kind::Deletion,
            "--exchange topic --bindings 100000 --persistent --confirm 1 --consumers 0",
            "confirms one by one while an exchange is deleted that has 100,000 bindings and \
             nothing to do with them",
        ),
        Self::other(
            "churn-connections",
            Kind::Churn(Churned::Connections),
            "",
            "open a connection with a channel, close it, again",
        ),
        Self::other(
            "churn-channels",
            Kind::Churn(Churned::Channels),
            "",
            "open a channel, close it, again",
        ),
        Self::other(
            "churn-queues",
            Kind::Churn(Churned::Queues),
            "",
            "declare a durable queue, delete it, again",
        ),
        Self::other(
            "churn-bindings",
            Kind::Churn(Churned::Bindings),
            "--exchange topic",
            "bind, unbind, again",
        ),
    ];
}
