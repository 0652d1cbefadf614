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
}

impl QueueSpec {
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
};

pub(crate) static QUEUES: [QueueSpec; 22] = [
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
];

/// Queues from here on are of the later features.
pub(crate) const PLAIN_QUEUES: usize = 9;

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

pub(crate) static ROUTES: [Route; 31] = [
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
];

const EXCHANGES: [(&str, &str); 7] = [
    ("fan", "fanout"),
    ("direct", "direct"),
    ("topic", "topic"),
    ("atom", "fanout"),
    ("fan2", "fanout"),
    ("mix", "direct"),
    (DEAD_LETTERS, "direct"),
];

/// The dead-letter exchange; its keys are the names of the queues that letters come from.
const DEAD_LETTERS: &str = "dead";

const BINDINGS: [(&str, &str, QueueNumber); 34] = [
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
];

/// How many exchanges and bindings the first queues have.
const PLAIN_EXCHANGES: usize = 5;
const PLAIN_BINDINGS: usize = 23;

/// The queues of a run.
pub(crate) fn queues(later: bool) -> &'static [QueueSpec] {
    if later {
        &QUEUES
    } else {
        &QUEUES[..PLAIN_QUEUES]
    }
}

/// The routes of a run.
pub(crate) fn routes(later: bool) -> &'static [Route] {
    if later {
        &ROUTES
    } else {
        &ROUTES[..PLAIN_ROUTES]
    }
}

/// The queue of that name.
pub(crate) fn queue_number(name: &[u8]) -> Option<QueueNumber> {
    QUEUES
        .iter()
        .position(|queue| queue.name.as_bytes() == name)
}

/// Everything that sets the catalogue up; it may be asked again at any time.
pub(crate) fn declarations(later: bool) -> Vec<Request> {
    let mut all = Vec::new();
    let exchanges = if later {
        EXCHANGES.len()
    } else {
        PLAIN_EXCHANGES
    };
    for (name, kind) in EXCHANGES.into_iter().take(exchanges) {
        let arguments = if name == "atom" {
            TableBuilder::new()
                .field("atomic-routing", Value::Bool(true))
                .build()
        } else {
            Table::empty()
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
        queues(later)
            .iter()
            .map(|queue| Request::QueueDeclare(declare(queue))),
    );
    let bindings = if later {
        BINDINGS.len()
    } else {
        PLAIN_BINDINGS
    };
    for (exchange, key, queue) in BINDINGS.into_iter().take(bindings) {
        all.push(bind(exchange, key, queue));
    }
    for queue in queues(later) {
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
