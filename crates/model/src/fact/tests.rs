//! Facts there and back.

use super::*;
use crate::TableBuilder;
use crate::{StorePurpose, Value};
use proptest::prelude::*;
use smallvec::smallvec;

fn page() -> Packed {
    let entry = StoredEntry {
        sequence: Sequence(5),
        origin: Origin { index: 77, part: 3 },
        extent: Extent {
            body_bytes: 1,
            total_bytes: 2,
            chunks: Chunks {
                first: 75,
                count: 2,
            },
        },
        expires_at: None,
    };
    Packed::pack(std::iter::once(entry)).unwrap()
}

fn samples() -> Vec<Fact> {
    let arguments = TableBuilder::new()
        .field("x-max-length", Value::I32(5))
        .build();
    let binding = |destination| Binding {
        source: ExchangeId(3),
        destination,
        key: Name::from("a.#"),
        arguments: arguments.clone(),
    };
    let parts = vec![Bytes::from_static(b"body")];
    let message = Message::new(
        &Name::from("x"),
        &Name::from("k"),
        b"\x10\x00\x02",
        parts,
        100,
    );
    let published = Published {
        extent: Extent {
            body_bytes: 4,
            total_bytes: message.total_bytes(),
            chunks: Chunks::default(),
        },
        message: Some(Arc::new(message)),
        entries: smallvec![
            Entry {
                queue: QueueId(9),
                sequence: Sequence(70_000),
                expires_at: Some(1 << 41),
                durable: true
            },
            Entry {
                queue: QueueId(10),
                sequence: Sequence(1),
                expires_at: None,
                durable: true
            },
        ],
        keys: None,
    };
    let keys = Keys {
        at: 1 << 40,
        of: smallvec![(QueueId(10), MessageKey(7 << 99))],
    };
    let keyed = Published {
        keys: Some(Box::new(keys)),
        ..published.clone()
    };
    let mut noted = published.clone();
    noted.message = Some(Arc::new(
        Message::copied(b"x", b"k", b"\0\0", b"body").with_notes(b"noted"),
    ));
    let settled = Fact::Settled {
        queue: QueueId(9),
        ranges: smallvec![
            Range {
                first: Sequence(1),
                last: Sequence(5)
            },
            Range {
                first: Sequence(9),
                last: Sequence(9)
            },
        ],
        why: Why::Overflow,
    };
    vec![
        Fact::VirtualHostCreated {
            name: Name::from("/"),
        },
        Fact::PolicySet(PolicyDefinition {
            name: Name::from("limits"),
            is_operator: true,
            pattern: b"^orders\\.".to_vec(),
            apply_to: ApplyTo::ClassicQueues,
            priority: -7,
            definition: arguments.clone(),
        }),
        Fact::PolicyCleared {
            name: Name::from("limits"),
            is_operator: true,
        },
        Fact::ExchangeDeclared(ExchangeDefinition {
            id: ExchangeId(3),
            name: Name::from("x"),
            kind: ExchangeKind::Headers,
            durable: true,
            auto_delete: false,
            internal: true,
            arguments: arguments.clone(),
        }),
        Fact::ExchangeDeleted { id: ExchangeId(3) },
        Fact::QueueDeclared(QueueDefinition {
            id: QueueId(9),
            name: Name::from("q"),
            durable: true,
            exclusive: false,
            auto_delete: true,
            arguments: arguments.clone(),
        }),
        Fact::QueueDeleted { id: QueueId(9) },
        Fact::Bound(binding(Destination::Queue(QueueId(9)))),
        Fact::Unbound(binding(Destination::Exchange(ExchangeId(4)))),
        Fact::Chunk(Bytes::from_static(b"part")),
        Fact::Published(published.clone()),
        Fact::Published(noted.clone()),
        Fact::Group(vec![Fact::Published(noted), settled.clone()]),
        Fact::Published(keyed.clone()),
        settled.clone(),
        Fact::Delivering {
            queue: QueueId(9),
            below: Sequence(4096),
        },
        Fact::Group(vec![
            Fact::Published(published),
            settled,
            Fact::Published(keyed),
        ]),
        Fact::Returned {
            queue: QueueId(9),
            entries: vec![
                Returned {
                    sequence: Sequence(7),
                    failed: 2,
                    acquired: u16::MAX,
                    ready_at: Some(1 << 41),
                    group: None,
                },
                Returned {
                    sequence: Sequence(3),
                    failed: 0,
                    acquired: 1,
                    ready_at: None,
                    group: None,
                },
            ],
        },
        Fact::Returned {
            queue: QueueId(9),
            entries: vec![
                Returned {
                    sequence: Sequence(7),
                    failed: 2,
                    acquired: u16::MAX,
                    ready_at: Some(1 << 41),
                    group: Some(u64::MAX),
                },
                Returned {
                    sequence: Sequence(3),
                    failed: 0,
                    acquired: 1,
                    ready_at: None,
                    group: None,
                },
            ],
        },
        Fact::Dying {
            queue: QueueId(9),
            why: Why::DeliveryLimit,
            ranges: [(3, 3), (7, 900)]
                .map(|(first, last)| Range {
                    first: Sequence(first),
                    last: Sequence(last),
                })
                .into_iter()
                .collect(),
        },
        Fact::Numbering {
            exchange: 12,
            queue: 900,
        },
        Fact::QueueState {
            queue: QueueId(9),
            next: Sequence(8),
            below: Sequence(3),
        },
        Fact::Page {
            queue: QueueId(9),
            entries: page(),
        },
        Fact::Seen {
            queue: QueueId(9),
            keys: [(1, 50), (u128::MAX, 40), (2, 60)]
                .map(|(key, at)| SeenKey {
                    key: MessageKey(key),
                    at,
                })
                .to_vec(),
        },
        Fact::Copied {
            queue: QueueId::store_of(ExchangeId(3), StorePurpose::Retention),
            entries: page(),
        },
    ]
    .into_iter()
    .chain(of_sessions())
    .collect()
}

fn of_sessions() -> Vec<Fact> {
    let topic = || Bytes::from_static("s\u{f6}/+/\u{feff}".as_bytes());
    let will = Will {
        message: Arc::new(Message::copied(b"", b"", b"", &[0, 255]).with_notes(b"topic")),
        qos: 2,
        retain: true,
        delay: 30,
        expiry: Some(u32::MAX),
    };
    let changes = vec![
        SessionChange::Opened {
            client_id: topic(),
            user: Name::from("u"),
            durable: true,
        },
        SessionChange::Ended,
        SessionChange::State(SessionState::default()),
        SessionChange::State(SessionState {
            expiry: u32::MAX,
            left_at: Some(1 << 41),
            will: Some(Box::new(will)),
        }),
        SessionChange::Subscribed(Subscription {
            filter: topic(),
            options: 0x2e,
            id: 268_435_455,
        }),
        SessionChange::Unsubscribed { filter: topic() },
        SessionChange::PacketReceived { packet_id: 65_535 },
        SessionChange::PacketReleased { packet_id: 1 },
        SessionChange::DeliveryReceived {
            sequence: Sequence(1 << 50),
        },
        SessionChange::Lent {
            group: QueueId(4),
            entries: vec![
                Lent {
                    here: Sequence(1 << 40),
                    there: Sequence(33),
                },
                Lent {
                    here: Sequence(65),
                    there: Sequence(2),
                },
            ],
        },
        SessionChange::GivenBack {
            entries: [true, false]
                .map(|was_sent| GivenBack {
                    sequence: Sequence(1 << 40),
                    was_sent,
                })
                .to_vec(),
        },
        SessionChange::RetainedBehind {
            filter: topic(),
            options: 2,
            topic: topic(),
        },
        SessionChange::RetainedCame { filter: topic() },
    ];
    let kept = Kept {
        origin: Origin { index: 0, part: 3 },
        extent: Extent {
            body_bytes: 1,
            total_bytes: 2,
            chunks: Chunks { first: 7, count: 1 },
        },
        expires_at: Some(1 << 41),
        qos: 2,
    };
    let retained = [None, Some(kept)].map(|kept| Fact::Retained {
        topic: topic(),
        kept,
    });
    let session = QueueId(77);
    let changes = changes.into_iter();
    changes
        .map(|change| Fact::Session { session, change })
        .chain(retained)
        .collect()
}

#[test]
fn every_fact_comes_back() {
    for fact in samples() {
        let mut bytes = Vec::new();
        fact.encode(&mut bytes);
        assert_eq!(Fact::decode(&bytes, Content::Keep), Ok(fact.clone()));
        for cut in 0..bytes.len() {
            let decoded = Fact::decode(&bytes[..cut], Content::Keep);
            assert_ne!(decoded, Ok(fact.clone()), "cut at {cut}");
        }
    }
}

#[test]
fn transient_entries_are_not_written_and_neither_are_their_keys() {
    let entry = |queue, durable| Entry {
        queue: QueueId(queue),
        sequence: Sequence(1),
        expires_at: None,
        durable,
    };
    let of = |queues: &[u64]| {
        let of = queues.iter().map(|id| (QueueId(*id), MessageKey(5)));
        Some(Box::new(Keys {
            at: 9,
            of: of.collect(),
        }))
    };
    let read = |keys| {
        let published = Published {
            message: None,
            extent: Extent::default(),
            entries: smallvec![entry(1, true), entry(2, false)],
            keys,
        };
        let mut bytes = Vec::new();
        Fact::Published(published).encode(&mut bytes);
        let Ok(Fact::Published(read)) = Fact::decode(&bytes, Content::Skip) else {
            panic!()
        };
        (read, bytes)
    };
    let (plain, bytes) = read(None);
    assert_eq!(plain.entries.as_slice(), [entry(1, true)]);
    assert_eq!(read(of(&[2])), (plain.clone(), bytes));
    let (keyed, _) = read(of(&[1, 2]));
    assert_eq!(keyed.keys, of(&[1]));
    assert_eq!(keyed.entries, plain.entries);
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let error = Fact::decode(&[9, 1, 0], Content::Keep).unwrap_err();
    assert_eq!(error, FactError::Version(9));
    assert!(error.to_string().contains("newer menzil"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_fact_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut versioned = vec![FORMAT_VERSION];
        versioned.extend(&bytes);
        if let Ok(fact) = Fact::decode(&versioned, Content::Keep) {
            let mut again = Vec::new();
            fact.encode(&mut again);
            prop_assert!(Fact::decode(&again, Content::Keep).is_ok());
        }
    }
}

fn entry() -> impl Strategy<Value = Entry> {
    let expires_at = prop::option::of(any::<u64>());
    (any::<u64>(), any::<u64>(), expires_at, any::<bool>()).prop_map(
        |(queue, sequence, expires_at, durable)| Entry {
            queue: QueueId(queue),
            sequence: Sequence(sequence),
            expires_at,
            durable,
        },
    )
}

proptest! {
    #[test]
    fn a_message_is_written_the_same_from_where_it_lies(
        exchange in prop::collection::vec(any::<u8>(), 0..=255),
        routing_key in prop::collection::vec(any::<u8>(), 0..=255),
        properties in prop::collection::vec(any::<u8>(), 0..99),
        notes in prop::collection::vec(any::<u8>(), 0..9),
        body in prop::collection::vec(any::<u8>(), 0..300),
        entries in prop::collection::vec(entry(), 0..5),
    ) {
        let entries = Entries::from_vec(entries);
        let sizes = [&exchange, &routing_key, &properties, &body].map(|part| part.len() as u64);
        let published = PublishedRef {
            exchange: &exchange,
            routing_key: &routing_key,
            properties: &properties,
            notes: &notes,
            body: &body,
            extent: Extent {
                body_bytes: body.len() as u64,
                total_bytes: sizes.iter().sum(),
                chunks: Chunks::default(),
            },
            entries: &entries,
        };
        let (mut lying, mut owned) = (Vec::new(), Vec::new());
        published.encode(&mut lying);
        published.to_fact().encode(&mut owned);
        prop_assert_eq!(lying, owned);
    }
}

/// Read with memory to reuse and without, the message or the error is that of the long way.
fn reads_the_same(record: &[u8], part: u32) {
    let long = read_message(record, part, Vec::new());
    assert_eq!(read_short_message(record, part, None), long);
    for body in [&b"spare"[..], &[7; 400]] {
        let spare = Message::copied(b"exchange", b"key", b"\0\0", body);
        assert_eq!(
            read_short_message(record, part, Some(Arc::new(spare))),
            long
        );
    }
}

#[test]
fn a_message_is_read_the_same_into_memory_that_was_another_s() {
    let mut records = samples();
    records.push(Fact::Group(samples().into_iter().take(20).collect()));
    for fact in records {
        let mut record = Vec::new();
        fact.encode(&mut record);
        for part in 0..20 {
            reads_the_same(&record, part);
        }
        for end in 0..record.len() {
            reads_the_same(&record[..end], 0);
        }
    }
}

#[test]
fn memory_that_somebody_holds_is_left_alone() {
    let held = Arc::new(Message::copied(b"x", b"k", b"\0\0", b"held"));
    let fact = samples()
        .into_iter()
        .find(|fact| matches!(fact, Fact::Published(_)));
    let mut record = Vec::new();
    fact.unwrap().encode(&mut record);
    let read = read_short_message(&record, 0, Some(Arc::clone(&held))).unwrap();
    assert_eq!(
        (read.inline_body(), held.inline_body()),
        (&b"body"[..], &b"held"[..])
    );
}
