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
};

pub(crate) const QUEUES: [QueueSpec; 9] = [
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
];

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

pub(crate) const ROUTES: [Route; 20] = [
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
];

const EXCHANGES: [(&str, &str); 5] = [
    ("fan", "fanout"),
    ("direct", "direct"),
    ("topic", "topic"),
    ("atom", "fanout"),
    ("fan2", "fanout"),
];

const BINDINGS: [(&str, &str, QueueNumber); 23] = [
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
];

/// The queue of that name.
pub(crate) fn queue_number(name: &[u8]) -> Option<QueueNumber> {
    QUEUES
        .iter()
        .position(|queue| queue.name.as_bytes() == name)
}

/// Everything that sets the catalogue up; it may be asked again at any time.
pub(crate) fn declarations() -> Vec<Request> {
    let mut all = Vec::new();
    for (name, kind) in EXCHANGES {
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
        QUEUES
            .iter()
            .map(|queue| Request::QueueDeclare(declare(queue))),
    );
    for (exchange, key, queue) in BINDINGS {
        all.push(Request::QueueBind(QueueBind {
            queue: Name::from(QUEUES[queue].name),
            exchange: Name::from(exchange),
            routing_key: Name::from(key),
            nowait: false,
            arguments: Table::empty(),
        }));
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
