//! The queues and routes that every run has and that nobody deletes: what the oracle knows by
//! heart. What is declared and deleted at random is `chaos`.

use menzil_core::{ExchangeDeclare, QueueBind, QueueDeclare, Request};
use menzil_model::table::TableBuilder;
use menzil_model::{Name, Table, Value};

/// A queue that every run has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSpec {
    pub(crate) name: &'static str,
    pub(crate) durable: bool,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) length_max: Option<u64>,
    pub(crate) bytes_max: Option<u64>,
    /// `reject-publish` instead of `drop-head`.
    pub(crate) rejects: bool,
    /// Where its dead letters go: nobody publishes there, and they come from here alone.
    pub(crate) letters: &'static [QueueNumber],
    /// A letter that a target refuses stays.
    pub(crate) at_least_once: bool,
    pub(crate) priority_max: u8,
    /// Delayed messages come there, in the order in which they are due.
    pub(crate) is_late: bool,
    /// `x-delivery-limit`.
    pub(crate) delivery_limit: Option<u64>,
    /// By the header [`GROUP_HEADER`].
    pub(crate) is_grouped: bool,
    /// By `message_id`.
    pub(crate) deduplicates: bool,
    /// The lowest length limit that a policy sets on it now and then.
    pub(crate) policy_max: Option<u64>,
}

impl QueueSpec {
    /// Whether messages of one channel stand there as they were published. Delayed ones stand as
    /// they are due, and what was lost and published again stands where it came then.
    pub(crate) fn is_ordered(&self) -> bool {
        !self.is_late && !self.deduplicates
    }

    pub(crate) fn dead_letters(&self) -> bool {
        !self.letters.is_empty()
    }
}

/// Index of a queue in [`QUEUES`].
pub(crate) type QueueNumber = usize;

const PLAIN: QueueSpec = QueueSpec {
    name: "",
    durable: true,
    ttl_ms: None,
    length_max: None,
    bytes_max: None,
    rejects: false,
    letters: &[],
    at_least_once: false,
    priority_max: 0,
    is_late: false,
    delivery_limit: None,
    is_grouped: false,
    deduplicates: false,
    policy_max: None,
};

pub(crate) static QUEUES: [QueueSpec; 33] = [
    QueueSpec {
        name: "d0",
        ..PLAIN
    },
    QueueSpec {
        name: "d1",
        ..PLAIN
    },
    QueueSpec {
        name: "d2",
        ..PLAIN
    },
    QueueSpec {
        name: "t0",
        durable: false,
        ..PLAIN
    },
    QueueSpec {
        name: "ttl0",
        ttl_ms: Some(400),
        ..PLAIN
    },
    QueueSpec {
        name: "lim0",
        length_max: Some(6),
        ..PLAIN
    },
    QueueSpec {
        name: "limb",
        bytes_max: Some(6000),
        ..PLAIN
    },
    QueueSpec {
        name: "rej0",
        length_max: Some(12),
        rejects: true,
        ..PLAIN
    },
    QueueSpec {
        name: "t1",
        durable: false,
        length_max: Some(10),
        ..PLAIN
    },
    QueueSpec {
        name: "e0",
        ttl_ms: Some(400),
        letters: &[15],
        ..PLAIN
    },
    QueueSpec {
        name: "m0",
        length_max: Some(6),
        letters: &[16],
        ..PLAIN
    },
    QueueSpec {
        name: "r0",
        letters: &[17, 18],
        ..PLAIN
    },
    QueueSpec {
        name: "s0",
        ttl_ms: Some(300),
        letters: &[19],
        at_least_once: true,
        ..PLAIN
    },
    QueueSpec {
        name: "p0",
        priority_max: 4,
        ..PLAIN
    },
    QueueSpec {
        name: "p1",
        priority_max: 2,
        letters: &[20],
        ..PLAIN
    },
    QueueSpec {
        name: "g0",
        ttl_ms: Some(500),
        letters: &[21],
        ..PLAIN
    },
    QueueSpec {
        name: "g1",
        ..PLAIN
    },
    QueueSpec {
        name: "g2",
        ..PLAIN
    },
    QueueSpec {
        name: "g3",
        ..PLAIN
    },
    QueueSpec {
        name: "g4",
        length_max: Some(3),
        rejects: true,
        ..PLAIN
    },
    QueueSpec {
        name: "g5",
        priority_max: 2,
        ..PLAIN
    },
    QueueSpec {
        name: "g6",
        ..PLAIN
    },
    QueueSpec {
        name: "l0",
        is_late: true,
        ..PLAIN
    },
    QueueSpec {
        name: "l1",
        is_late: true,
        ..PLAIN
    },
    QueueSpec {
        name: "l2",
        is_late: true,
        length_max: Some(4),
        rejects: true,
        ..PLAIN
    },
    QueueSpec {
        name: "v0",
        delivery_limit: Some(1),
        letters: &[30],
        ..PLAIN
    },
    QueueSpec {
        name: "k0",
        is_grouped: true,
        ..PLAIN
    },
    QueueSpec {
        name: "k1",
        is_grouped: true,
        delivery_limit: Some(2),
        letters: &[31],
        ..PLAIN
    },
    QueueSpec {
        name: DEDUPLICATED,
        deduplicates: true,
        ..PLAIN
    },
    QueueSpec {
        name: "q0",
        policy_max: Some(2),
        letters: &[32],
        ..PLAIN
    },
    QueueSpec {
        name: "g7",
        ..PLAIN
    },
    QueueSpec {
        name: "g8",
        ..PLAIN
    },
    QueueSpec {
        name: "g9",
        ..PLAIN
    },
];

/// The queue that deduplicates.
pub(crate) const DEDUPLICATED: &str = "u0";

/// Messages with the same value of it are in one group.
pub(crate) const GROUP_HEADER: &str = "group";

/// Exchanges that delay.
pub(crate) const DELAYING: [&str; 2] = ["late", "slow"];

/// Queues from here on are of the later features.
pub(crate) const PLAIN_QUEUES: usize = 9;

/// How many queues, routes, exchanges and bindings there are on each level.
const QUEUE_COUNTS: [usize; 3] = [PLAIN_QUEUES, 22, QUEUES.len()];
const ROUTE_COUNTS: [usize; 3] = [PLAIN_ROUTES, 31, ROUTES.len()];
const EXCHANGE_COUNTS: [usize; 3] = [5, 7, EXCHANGES.len()];
const BINDING_COUNTS: [usize; 3] = [23, 34, BINDINGS.len()];

/// Where a publish may go and which queues it reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) exchange: &'static str,
    pub(crate) key: &'static str,
    pub(crate) queues: &'static [QueueNumber],
    /// One refusal and no queue has it.
    pub(crate) atomic: bool,
}

const fn route(exchange: &'static str, key: &'static str, queues: &'static [usize]) -> Route {
    Route {
        exchange,
        key,
        queues,
        atomic: false,
    }
}

/// Routes to the first queues.
pub(crate) const PLAIN_ROUTES: usize = 20;

pub(crate) static ROUTES: [Route; 45] = [
    route("", "d0", &[0]),
    route("", "d1", &[1]),
    route("", "d2", &[2]),
    route("", "t0", &[3]),
    route("", "ttl0", &[4]),
    route("", "lim0", &[5]),
    route("", "lim0", &[5]),
    route("", "limb", &[6]),
    route("", "rej0", &[7]),
    route("", "t1", &[8]),
    route("fan", "any", &[0, 1, 2, 3]),
    route("fan", "", &[0, 1, 2, 3]),
    route("direct", "l", &[0, 5]),
    route("direct", "r", &[1, 7]),
    route("direct", "all", &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
    route("topic", "a.b", &[1, 2, 4]),
    route("topic", "a.x", &[1]),
    route("topic", "x.b", &[2, 4]),
    Route {
        atomic: true,
        ..route("atom", "k", &[2, 7])
    },
    route("fan2", "x", &[0, 1, 2, 3, 4]),
    route("", "e0", &[9]),
    route("", "m0", &[10]),
    route("", "r0", &[11]),
    route("", "s0", &[12]),
    route("", "p0", &[13]),
    route("", "p0", &[13]),
    route("", "p1", &[14]),
    route("", "m0", &[10]),
    route("mix", "x", &[0, 9, 10]),
    route("mix", "y", &[11, 12]),
    route("mix", "z", &[9, 10, 11, 12, 13, 14]),
    route("late", "a", &[22]),
    route("late", "b", &[23, 24]),
    route("late", "c", &[22, 23, 24]),
    route("slow", "", &[22, 24]),
    route("", "l0", &[22]),
    route("", "v0", &[25]),
    route("", "k0", &[26]),
    route("", "k0", &[26]),
    route("", "k1", &[27]),
    route("", DEDUPLICATED, &[28]),
    route("", DEDUPLICATED, &[28]),
    route("", "q0", &[29]),
    route("", "q0", &[29]),
    route("mix", "w", &[1, 25, 26, 27, 29]),
];

const EXCHANGES: [(&str, &str); 9] = [
    ("fan", "fanout"),
    ("direct", "direct"),
    ("topic", "topic"),
    ("atom", "fanout"),
    ("fan2", "fanout"),
    ("mix", "direct"),
    (DEAD_LETTERS, "direct"),
    (DELAYING[0], "x-delayed-message"),
    (DELAYING[1], "fanout"),
];

/// The dead-letter exchange; its keys are the names of the queues that letters come from.
const DEAD_LETTERS: &str = "dead";

const BINDINGS: [(&str, &str, QueueNumber); 47] = [
    ("fan", "", 0),
    ("fan", "", 1),
    ("fan", "", 2),
    ("fan", "", 3),
    ("direct", "l", 0),
    ("direct", "l", 5),
    ("direct", "r", 1),
    ("direct", "r", 7),
    ("direct", "all", 0),
    ("direct", "all", 1),
    ("direct", "all", 2),
    ("direct", "all", 3),
    ("direct", "all", 4),
    ("direct", "all", 5),
    ("direct", "all", 6),
    ("direct", "all", 7),
    ("direct", "all", 8),
    ("topic", "a.#", 1),
    ("topic", "*.b", 2),
    ("topic", "#.b", 4),
    ("atom", "", 2),
    ("atom", "", 7),
    ("fan2", "", 4),
    ("mix", "x", 0),
    ("mix", "x", 9),
    ("mix", "x", 10),
    ("mix", "y", 11),
    ("mix", "y", 12),
    ("mix", "z", 9),
    ("mix", "z", 10),
    ("mix", "z", 11),
    ("mix", "z", 12),
    ("mix", "z", 13),
    ("mix", "z", 14),
    ("late", "a", 22),
    ("late", "b", 23),
    ("late", "b", 24),
    ("late", "c", 22),
    ("late", "c", 23),
    ("late", "c", 24),
    ("slow", "", 22),
    ("slow", "", 24),
    ("mix", "w", 1),
    ("mix", "w", 25),
    ("mix", "w", 26),
    ("mix", "w", 27),
    ("mix", "w", 29),
];

/// How much of the catalogue takes part, from 0 to 2.
pub(crate) type Level = usize;

/// The queues of a run.
pub(crate) fn queues(level: Level) -> &'static [QueueSpec] {
    &QUEUES[..QUEUE_COUNTS[level]]
}

/// The routes of a run.
pub(crate) fn routes(level: Level) -> &'static [Route] {
    &ROUTES[..ROUTE_COUNTS[level]]
}

/// The queue of that name.
pub(crate) fn queue_number(name: &[u8]) -> Option<QueueNumber> {
    QUEUES
        .iter()
        .position(|queue| queue.name.as_bytes() == name)
}

/// Everything that sets the catalogue up; it may be asked again at any time.
pub(crate) fn declarations(level: Level) -> Vec<Request> {
    let mut all = Vec::new();
    for (name, kind) in EXCHANGES.into_iter().take(EXCHANGE_COUNTS[level]) {
        let (argument, value) = match name {
            "atom" => ("atomic-routing", Value::Bool(true)),
            "late" => ("x-delayed-type", Value::LongString(b"direct")),
            "slow" => ("x-delayed", Value::Bool(true)),
            _ => ("", Value::Void),
        };
        let arguments = if argument.is_empty() {
            Table::empty()
        } else {
            TableBuilder::new().field(argument, value).build()
        };
        all.push(Request::ExchangeDeclare(ExchangeDeclare {
            exchange: Name::from(name),
            kind: Name::from(kind),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            nowait: false,
            arguments,
        }));
    }
    all.extend(
        queues(level)
            .iter()
            .map(|queue| Request::QueueDeclare(declare(queue))),
    );
    for (exchange, key, queue) in BINDINGS.into_iter().take(BINDING_COUNTS[level]) {
        all.push(bind(exchange, key, queue));
    }
    for queue in queues(level) {
        for target in queue.letters {
            all.push(bind(DEAD_LETTERS, queue.name, *target));
        }
    }
    all.push(Request::ExchangeBind(menzil_core::ExchangeBind {
        destination: Name::from("fan"),
        source: Name::from("fan2"),
        routing_key: Name::empty(),
        nowait: false,
        arguments: Table::empty(),
    }));
    all
}

fn bind(exchange: &'static str, key: &'static str, queue: QueueNumber) -> Request {
    Request::QueueBind(QueueBind {
        queue: Name::from(QUEUES[queue].name),
        exchange: Name::from(exchange),
        routing_key: Name::from(key),
        nowait: false,
        arguments: Table::empty(),
    })
}

/// The queue whose dead letters come there.
pub(crate) fn source_of(target: QueueNumber) -> Option<QueueNumber> {
    QUEUES
        .iter()
        .position(|queue| queue.letters.contains(&target))
}

fn declare(queue: &QueueSpec) -> QueueDeclare {
    let mut arguments = TableBuilder::new();
    let number = |value: u64| Value::I64(i64::try_from(value).unwrap_or(i64::MAX));
    if let Some(ttl) = queue.ttl_ms {
        arguments = arguments.field("x-message-ttl", number(ttl));
    }
    if let Some(length) = queue.length_max {
        arguments = arguments.field("x-max-length", number(length));
    }
    if let Some(bytes) = queue.bytes_max {
        arguments = arguments.field("x-max-length-bytes", number(bytes));
    }
    if queue.rejects {
        arguments = arguments.field("x-overflow", Value::LongString(b"reject-publish"));
    }
    if queue.dead_letters() {
        arguments = arguments
            .field(
                "x-dead-letter-exchange",
                Value::LongString(DEAD_LETTERS.as_bytes()),
            )
            .field(
                "x-dead-letter-routing-key",
                Value::LongString(queue.name.as_bytes()),
            );
    }
    if queue.at_least_once {
        arguments = arguments.field(
            "x-dead-letter-strategy",
            Value::LongString(b"at-least-once"),
        );
    }
    if let Some(limit) = queue.delivery_limit {
        arguments = arguments.field("x-delivery-limit", number(limit));
    }
    if queue.is_grouped {
        arguments = arguments.field("x-group-header", Value::LongString(GROUP_HEADER.as_bytes()));
    }
    if queue.deduplicates {
        arguments = arguments.field("x-deduplication", Value::Bool(true));
    }
    if queue.priority_max > 0 {
        arguments = arguments.field("x-max-priority", number(queue.priority_max.into()));
    }
    QueueDeclare {
        queue: Name::from(queue.name),
        passive: false,
        durable: queue.durable,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: arguments.build(),
        entropy: 0,
    }
}
