//! A delivery that is encoded at once leaves as the same bytes as one that is kept as an output.
#![cfg(test)]

use std::io::IoSlice;
use std::sync::Arc;

use menzil_amqp::{Outbound, Outgoing};
use menzil_core::{Body, Carried, ChannelKey, Delivering, Effect, Output, PublishRef, Reply};
use menzil_model::{ChannelId, ConnectionId, DeliveryTag, Message, Name};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Step {
    channel: u16,
    consumer: usize,
    envelope: usize,
    body_bytes: usize,
    redelivered: bool,
    /// From a queue, or as it came.
    stored: bool,
    after: u64,
    /// Then the journal commits up to here.
    committed: Option<u64>,
    /// Something else goes first.
    reply: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let body_bytes = prop_oneof![
        8 => 0_usize..200,
        1 => 4000_usize..5000,
        1 => 9000_usize..12_000,
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let to = (1_u16..3, 0_usize..2, 0_usize..4);
    let committed = prop::option::weighted(0.2, 0_u64..20);
    let after = prop_oneof![4 => Just(0), 1 => 0_u64..20];
    (to, body_bytes, flags, after, committed).prop_map(
        |((channel, consumer, envelope), body_bytes, flags, after, committed)| Step {
            channel,
            consumer,
            envelope,
            body_bytes,
            redelivered: flags.0,
            stored: flags.1,
            after,
            committed,
            reply: flags.2 && body_bytes % 7 == 0,
        },
    )
}

fn outbound() -> Outbound {
    let mut outbound = Outbound::new(0);
    outbound.send(Outgoing::Tuned {
        frame_bytes_max: 8192,
        heartbeat_seconds: 0,
        blocked_notify: false,
    });
    outbound
}

/// Everything that can be sent, and the credit that comes back with it.
fn sent(outbound: &mut Outbound) -> (Vec<u8>, u64) {
    outbound.flush();
    let (mut bytes, mut credit) = (Vec::new(), outbound.advance(0, 0));
    while outbound.pending_bytes() > 0 {
        let mut slices: Vec<IoSlice<'_>> = Vec::new();
        outbound.transmit(&mut slices);
        let before = bytes.len();
        for slice in &slices {
            bytes.extend_from_slice(slice);
        }
        credit += outbound.advance(0, bytes.len() - before);
    }
    (bytes, credit)
}

proptest! {
    #[test]
    fn at_once_is_the_same_as_kept(steps in prop::collection::vec(step(), 1..60)) {
        let consumers = [Name::from("one"), Name::from("another")];
        let long = [&b"\x80\0\xff"[..], &[b'x'; 255]].concat();
        let huge = [&b"\x20\0\0\0\x05\xdc"[..], &b"\x01kt\x01".repeat(375)].concat();
        let envelopes: [(&[u8], &[u8], &[u8]); 4] = [
            (b"", b"queue", b"\0\0"),
            (b"exchange", b"key", b"\x10\0\x02"),
            (b"exchange", b"ke", &long),
            (b"exchange", b"key", &huge),
        ];
        let (mut at_once, mut kept) = (outbound(), outbound());
        for (tag, step) in (1..).zip(steps) {
            let to = ChannelKey {
                connection: ConnectionId(1),
                channel: ChannelId::new(step.channel).unwrap(),
            };
            if step.reply {
                let reply = || Effect::Channel {
                    to,
                    after: step.after,
                    output: Output::Reply(Reply::QosOk),
                };
                at_once.handle(reply());
                kept.handle(reply());
            }
            let (exchange, routing_key, properties) = envelopes[step.envelope];
            let body = vec![7; step.body_bytes];
            let publish = PublishRef {
                exchange,
                routing_key,
                mandatory: false,
                properties,
                body: Body::Whole(&body),
            };
            let message: Arc<Message> = Arc::new(publish.message(usize::MAX));
            let delivery = Delivering {
                to,
                after: step.after,
                consumer_tag: &consumers[step.consumer],
                delivery_tag: DeliveryTag(tag),
                redelivered: step.redelivered,
                properties: None,
                content: if step.stored {
                    Carried::Stored(&message)
                } else {
                    let envelope = step.envelope as u64 + 1;
                    Carried::Passing { publish: &publish, envelope }
                },
            };
            at_once.deliver(&delivery);
            kept.handle(Effect::Channel { to, after: step.after, output: delivery.output() });
            if let Some(index) = step.committed {
                at_once.committed(index);
                kept.committed(index);
                prop_assert_eq!(sent(&mut at_once), sent(&mut kept));
            }
            at_once.check_invariants();
        }
        at_once.committed(u64::MAX);
        kept.committed(u64::MAX);
        prop_assert_eq!(sent(&mut at_once), sent(&mut kept));
    }
}
