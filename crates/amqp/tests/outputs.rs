//! What leaves: in the decided order, never before its commit, in frames of the agreed size.
#![cfg(test)]

mod peer;

use std::sync::Arc;

use bytes::Bytes;
use menzil_amqp::frame::{BODY, HEADER, METHOD, Split, split};
use menzil_amqp::method::MethodId;
use menzil_amqp::methods::*;
use menzil_amqp::{AmqpSession, Outgoing, SessionConfig};
use menzil_core::{Effect, Output, Refusal, Reply, credit_bytes};
use menzil_model::{DeliveryTag, Message, Name};
use peer::*;
use proptest::prelude::*;

fn session(frame_bytes_max: u32) -> AmqpSession {
    let mut session = AmqpSession::new(Arc::new(SessionConfig::default()), CONNECTION, 0);
    session.send(Outgoing::Tuned {
        frame_bytes_max,
        heartbeat_seconds: 0,
        blocked_notify: true,
    });
    session.send(Outgoing::Opened {
        vhost: Name::from("/"),
    });
    session.poll_transmit(0);
    session
}

fn message(parts: Vec<Bytes>, inline_bytes_max: usize) -> Arc<Message> {
    let (exchange, key) = (Name::from("x"), Name::from("key"));
    Arc::new(Message::new(
        &exchange,
        &key,
        b"\x10\0\x02",
        parts,
        inline_bytes_max,
    ))
}

fn deliver(tag: u64, message: &Arc<Message>) -> Output {
    Output::Deliver {
        consumer_tag: Name::from("ctag"),
        delivery_tag: DeliveryTag(tag),
        redelivered: false,
        properties: None,
        message: Arc::clone(message),
    }
}

fn numbered(number: u32) -> Output {
    Output::Reply(Reply::QueuePurgeOk {
        message_count: number,
    })
}

fn put(session: &mut AmqpSession, channel: u16, after: u64, output: Output) {
    session.handle(Effect::Channel {
        to: key(channel),
        after,
        output,
    });
}

fn said(session: &mut AmqpSession) -> Vec<(u16, String)> {
    describe(&session.poll_transmit(0).0)
}

#[test]
fn a_waiting_output_holds_back_its_channel_and_no_other() {
    let mut session = session(4096);
    let small = message(vec![Bytes::from_static(b"abc")], 100);
    put(&mut session, 1, 5, numbered(1));
    put(&mut session, 1, 0, deliver(1, &small));
    put(&mut session, 2, 0, deliver(1, &small));
    let expected = [
        (2, "deliver 1".to_owned()),
        (2, "header 3".to_owned()),
        (2, "body 3".to_owned()),
    ];
    assert_eq!(said(&mut session), expected);
    assert_eq!(session.outbound.waits_for(), Some(5));
    session.committed(4);
    assert_eq!(said(&mut session), []);
    session.committed(5);
    let now = said(&mut session);
    assert_eq!(
        texts(&now),
        ["queue.purge-ok", "deliver 1", "header 3", "body 3"]
    );
    assert_eq!(session.outbound.waits_for(), None);
}

#[test]
fn verdicts_are_overtaken_but_overtake_nothing() {
    let mut session = session(4096);
    let small = message(vec![], 100);
    put(
        &mut session,
        1,
        3,
        Output::Confirm {
            sequence: 1,
            accepted: true,
        },
    );
    put(&mut session, 1, 0, deliver(1, &small));
    assert_eq!(texts(&said(&mut session)), ["deliver 1", "header 0"]);
    // A return stands before the verdict of the same publish.
    put(&mut session, 1, 6, numbered(1));
    put(
        &mut session,
        1,
        0,
        Output::Return {
            message: Arc::clone(&small),
        },
    );
    put(
        &mut session,
        1,
        0,
        Output::Confirm {
            sequence: 2,
            accepted: true,
        },
    );
    session.committed(3);
    assert_eq!(texts(&said(&mut session)), ["ack 1 false"]);
    session.committed(6);
    let now = said(&mut session);
    assert_eq!(
        texts(&now),
        ["queue.purge-ok", "basic.return", "header 0", "ack 2 false"]
    );
}

#[test]
fn one_cumulative_ack_for_a_commit() {
    let mut session = session(4096);
    for sequence in 1..=1000 {
        put(
            &mut session,
            1,
            sequence,
            Output::Confirm {
                sequence,
                accepted: true,
            },
        );
    }
    session.committed(600);
    assert_eq!(texts(&said(&mut session)), ["ack 600 true"]);
    assert_eq!(session.outbound.waits_for(), Some(601));
    session.committed(1000);
    assert_eq!(texts(&said(&mut session)), ["ack 1000 true"]);
}

#[test]
fn an_error_closes_after_what_was_decided_before_it() {
    let mut session = session(4096);
    put(&mut session, 1, 2, numbered(1));
    put(
        &mut session,
        1,
        4,
        Output::Confirm {
            sequence: 1,
            accepted: true,
        },
    );
    let refusal = Refusal::NoQueueDeclared;
    put(
        &mut session,
        1,
        0,
        Output::Refused {
            refusal,
            method: (60, 70),
        },
    );
    let small = message(vec![], 100);
    put(&mut session, 1, 0, deliver(9, &small));
    put(
        &mut session,
        1,
        0,
        Output::Confirm {
            sequence: 2,
            accepted: true,
        },
    );
    assert_eq!(session.poll_transmit(0), (vec![], credit_bytes(&small)));
    session.committed(2);
    assert_eq!(texts(&said(&mut session)), ["queue.purge-ok"]);
    session.committed(4);
    let words = "channel.close 404 NOT_FOUND - no previously declared queue [60.70]";
    assert_eq!(texts(&said(&mut session)), ["ack 1 false", words]);
    // The next channel on the number counts its publishes from 1.
    put(&mut session, 1, 0, Output::Reply(Reply::ChannelOpened));
    for sequence in 1..=2 {
        put(
            &mut session,
            1,
            0,
            Output::Confirm {
                sequence,
                accepted: true,
            },
        );
    }
    assert_eq!(
        texts(&said(&mut session)),
        ["channel.open-ok", "ack 2 true"]
    );
}

#[test]
fn a_channel_opened_ahead_waits_behind_the_close_of_the_old_one() {
    let mut session = session(4096);
    put(
        &mut session,
        1,
        7,
        Output::Confirm {
            sequence: 1,
            accepted: true,
        },
    );
    put(&mut session, 1, 0, Output::Reply(Reply::ChannelClosed));
    put(&mut session, 1, 0, Output::Reply(Reply::ChannelOpened));
    put(
        &mut session,
        1,
        8,
        Output::Confirm {
            sequence: 1,
            accepted: false,
        },
    );
    assert_eq!(said(&mut session), []);
    session.committed(7);
    let now = said(&mut session);
    assert_eq!(
        texts(&now),
        ["ack 1 false", "channel.close-ok", "channel.open-ok"]
    );
    session.committed(8);
    assert_eq!(texts(&said(&mut session)), ["nack 1 true"]);
}

#[test]
fn nothing_follows_a_hard_error() {
    let mut session = session(4096);
    let small = message(vec![], 100);
    put(&mut session, 2, 9, deliver(1, &small));
    put(
        &mut session,
        1,
        0,
        Output::Refused {
            refusal: Refusal::PrefetchSize(1),
            method: (60, 10),
        },
    );
    put(&mut session, 2, 0, numbered(1));
    session.committed(9);
    let (bytes, credit) = session.poll_transmit(0);
    let words = "connection.close 540 NOT_IMPLEMENTED - prefetch_size!=0 (1) [60.10]";
    assert_eq!(texts(&describe(&bytes)), [words]);
    assert_eq!(credit, credit_bytes(&small));
    assert_eq!(session.outbound.waits_for(), None);
}

#[test]
fn a_header_that_no_frame_can_hold_ends_this_connection_only() {
    let mut broker = Broker::new(SessionConfig::default());
    broker.receive(
        &[
            menzil_amqp::PROTOCOL_HEADER.to_vec(),
            start_ok(&ALL, "PLAIN", b"\0guest\0guest"),
            tune_ok(10, 4096, 0),
            connection_open("/"),
            channel_open(1),
        ]
        .concat(),
    );
    let mut properties = vec![
        0x20, 0, 0, 0, 0x10, 6, 3, b'k', b'e', b'y', b'x', 0, 0, 0x0f, 0xfd,
    ];
    properties.resize(6 + 0x1006, 0);
    let name = Name::from("x");
    let wide = Arc::new(Message::new(&name, &name, &properties, vec![], 100));
    broker.output(1, 0, deliver(1, &wide));
    broker.output(1, 0, deliver(2, &wide));
    assert_eq!(broker.said(), []);
    let violation = broker.session.outbound.failure().unwrap().clone();
    let mut out = Vec::new();
    broker.session.inbound.fail(0, violation, &mut out);
    broker.carry_out(out);
    let now = broker.said();
    let words = "connection.close 501 FRAME_ERROR - content header of 4128 bytes does not fit into \
                 the negotiated frame_max (4096): negotiate a larger one [60.60]";
    assert_eq!(texts(&now), [words]);
}

/// Puts the frames of one delivery together again.
fn reassemble(mut bytes: &[u8], frame_max: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut properties, mut content) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let Split::Whole(frame, length) = split(bytes, u32::MAX - 8) else {
            panic!("not a frame");
        };
        assert!(length <= frame_max);
        match frame.kind {
            METHOD => assert!(properties.is_empty()),
            HEADER => properties.extend_from_slice(&frame.payload[12..]),
            BODY => content.extend_from_slice(frame.payload),
            other => panic!("{other}"),
        }
        bytes = &bytes[length..];
    }
    (properties, content)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_body_of_any_size_in_any_parts_comes_whole(
        sizes in prop::collection::vec(prop_oneof![0_usize..20, 4000_usize..4200, 0_usize..40_000], 0..5),
        frame_max in prop_oneof![Just(4096_u32), 4097_u32..10_000, Just(131_072)],
        inline in prop_oneof![Just(0_usize), Just(1000), Just(1 << 20)],
    ) {
        let parts: Vec<Bytes> = (0_u8..)
            .zip(&sizes)
            .map(|(fill, size)| Bytes::from(vec![fill; *size]))
            .collect();
        let content = parts.concat();
        let message = message(parts, inline);
        let mut session = session(frame_max);
        put(&mut session, 1, 0, deliver(1, &message));
        let (bytes, credit) = session.poll_transmit(0);
        let (properties, received) = reassemble(&bytes, frame_max as usize);
        prop_assert_eq!(properties, message.properties());
        prop_assert!(received == content);
        prop_assert_eq!(credit, credit_bytes(&message));
    }
}

/// One thing that the core decides in the model below.
#[derive(Clone, Debug)]
enum Step {
    Output {
        channel: u16,
        after: u64,
    },
    Confirm {
        channel: u16,
        after: u64,
        accepted: bool,
    },
    Commit(u64),
    Poll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_u16..4, 0_u64..30).prop_map(|(channel, after)| Step::Output { channel, after }),
        3 => (1_u16..4, 0_u64..30, any::<bool>())
            .prop_map(|(channel, after, accepted)| Step::Confirm { channel, after, accepted }),
        2 => (0_u64..30).prop_map(Step::Commit),
        2 => Just(Step::Poll),
    ]
}

/// A decided output, or the verdict of a publish, of one channel.
#[derive(Debug)]
struct Decided {
    after: u64,
    /// The verdict; `None` for an output.
    verdict: Option<bool>,
    number: u64,
}

#[derive(Default)]
struct Model {
    /// By channel: what was decided and has not been seen, in order.
    pending: [Vec<Decided>; 4],
    counts: [[u64; 2]; 4],
    committed: u64,
}

impl Model {
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else was decided")]
    /// Checks one frame against what may be seen now, and takes it off.
    fn see(&mut self, channel: u16, method: Method<'_>) {
        let committed = self.committed;
        let pending = &mut self.pending[usize::from(channel)];
        match method {
            Method::QueuePurgeOk(m) => {
                let first = pending
                    .iter()
                    .position(|one| one.verdict.is_none())
                    .unwrap();
                let decided = pending.remove(first);
                assert_eq!(decided.number, u64::from(m.message_count));
                assert!(decided.after <= committed);
            }
            Method::BasicAck(m) => {
                take_verdicts(pending, committed, true, m.delivery_tag, m.multiple);
            }
            Method::BasicNack(m) => {
                take_verdicts(pending, committed, false, m.delivery_tag, m.multiple);
            }
            _ => panic!("{method:?}"),
        }
    }
}

fn take_verdicts(
    pending: &mut Vec<Decided>,
    committed: u64,
    accepted: bool,
    tag: u64,
    multiple: bool,
) {
    let covers = |one: &Decided| {
        one.verdict.is_some() && (one.number == tag || multiple && one.number < tag)
    };
    assert!(pending.iter().any(covers), "a verdict about nothing");
    let first_output = pending.iter().position(|one| one.verdict.is_none());
    let mut index = 0;
    pending.retain(|one| {
        let place = index;
        index += 1;
        if !covers(one) {
            return true;
        }
        assert_eq!(one.verdict, Some(accepted));
        assert!(one.after <= committed);
        assert!(
            first_output.is_none_or(|output| place < output),
            "overtook an output"
        );
        false
    });
}

fn see_all(model: &mut Model, session: &mut AmqpSession) {
    let (bytes, _) = session.poll_transmit(0);
    let mut rest = &bytes[..];
    while let Split::Whole(frame, length) = split(rest, 4096) {
        let number = |at: usize| u16::from_be_bytes([frame.payload[at], frame.payload[at + 1]]);
        let id = MethodId {
            class: number(0),
            method: number(2),
        };
        let method = Method::decode(id, &frame.payload[4..]).unwrap();
        model.see(frame.channel, method);
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
}

proptest! {
    #[test]
    fn outputs_keep_their_order_and_verdicts_come_once(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let (mut model, mut session) = (Model::default(), session(4096));
        for step in steps.into_iter().chain([Step::Commit(30), Step::Poll]) {
            match step {
                Step::Output { channel, after } => {
                    let count = &mut model.counts[usize::from(channel)][0];
                    *count += 1;
                    let number = *count;
                    model.pending[usize::from(channel)].push(Decided { after, verdict: None, number });
                    put(&mut session, channel, after, numbered(u32::try_from(number).unwrap()));
                }
                Step::Confirm { channel, after, accepted } => {
                    let count = &mut model.counts[usize::from(channel)][1];
                    *count += 1;
                    let sequence = *count;
                    let verdict = Some(accepted);
                    model.pending[usize::from(channel)].push(Decided { after, verdict, number: sequence });
                    put(&mut session, channel, after, Output::Confirm { sequence, accepted });
                }
                Step::Commit(index) => {
                    model.committed = model.committed.max(index);
                    session.committed(index);
                }
                Step::Poll => see_all(&mut model, &mut session),
            }
            let waits = session.outbound.waits_for();
            prop_assert!(waits.is_none_or(|index| index > model.committed));
        }
        prop_assert!(model.pending.iter().all(Vec::is_empty));
        prop_assert_eq!(session.outbound.waits_for(), None);
    }
}
