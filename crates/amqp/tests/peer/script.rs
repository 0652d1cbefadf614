//! Random input: mostly what clients send, some of it broken.

use menzil_amqp::frame::{BODY, HEADER, HEARTBEAT, METHOD};
use menzil_amqp::methods::*;
use proptest::prelude::*;

use super::*;

/// A piece of input: some whole frames, a broken one, or noise.
pub(crate) fn piece() -> impl Strategy<Value = Vec<u8>> {
    let channel = 1_u16..5;
    prop_oneof![
        8 => (channel.clone(), 0_usize..400, 1_usize..200)
            .prop_map(|(channel, size, frame)| publish(channel, &vec![7; size], frame)),
        6 => alike(),
        4 => channel.clone().prop_map(channel_open),
        2 => channel.clone().prop_map(channel_close),
        1 => channel.clone().prop_map(channel_close_ok),
        6 => (channel.clone(), any::<u64>()).prop_map(|(channel, seed)| request(channel, seed)),
        2 => Just(raw(HEARTBEAT, 0, b"")),
        1 => (channel.clone(), 0_u64..900).prop_map(|(channel, size)| header(channel, size)),
        1 => (channel.clone(), 0_usize..90).prop_map(|(channel, size)| body(channel, &vec![8; size])),
        1 => channel.clone().prop_map(|channel| publish_method(channel, false)),
        1 => Just(connection_close()),
        1 => Just(connection_close_ok()),
        1 => Just(handshake()),
        1 => Just(method(0, &Method::ConnectionUpdateSecret(ConnectionUpdateSecret {
            new_secret: b"new",
            reason: b"",
        }))),
        1 => (0_u8..10, 0_u16..6, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(kind, channel, payload)| raw(kind, channel, &payload)),
        1 => (prop::sample::select(vec![METHOD, HEADER, BODY]), channel, 0_u16..130, any::<u8>())
            .prop_map(|(kind, channel, number, byte)| {
                raw(kind, channel, &[0, 60, 0, number.to_be_bytes()[1], byte, 0, 0, 0, 0, 0, 0, 0])
            }),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

/// Publishes or acknowledgements that are alike and follow each other, perhaps with one byte
/// that is not.
fn alike() -> impl Strategy<Value = Vec<u8>> {
    let odd = prop::option::of((any::<prop::sample::Index>(), any::<u8>()));
    (1_u16..3, any::<bool>(), 0_usize..70, 2_u8..8, odd).prop_map(
        |(channel, publishes, size, count, odd)| {
            let one = |number: u8| {
                if publishes {
                    return publish(channel, &vec![number; size], 200);
                }
                let ack = BasicAck {
                    delivery_tag: number.into(),
                    multiple: number == 7,
                };
                method(channel, &Method::BasicAck(ack))
            };
            let mut bytes: Vec<u8> = (1..=count).flat_map(one).collect();
            if let Some((at, byte)) = odd {
                *at.get_mut(&mut bytes) = byte;
            }
            bytes
        },
    )
}

/// A request by number.
fn request(channel: u16, seed: u64) -> Vec<u8> {
    let (flag, tag) = (seed & 1 == 1, seed >> 8);
    let (ticket, arguments) = (0, &b""[..]);
    method(
        channel,
        &match seed % 9 {
            0 => Method::QueueDeclare(QueueDeclare {
                ticket,
                queue: b"q\r\n",
                passive: flag,
                durable: true,
                exclusive: false,
                auto_delete: false,
                nowait: flag,
                arguments,
            }),
            1 => Method::BasicConsume(BasicConsume {
                ticket,
                queue: b"q",
                consumer_tag: b"",
                no_local: false,
                no_ack: flag,
                exclusive: false,
                nowait: false,
                arguments,
            }),
            2 => Method::BasicAck(BasicAck {
                delivery_tag: tag,
                multiple: flag,
            }),
            3 => Method::BasicNack(BasicNack {
                delivery_tag: tag,
                multiple: flag,
                requeue: true,
            }),
            4 => Method::ConfirmSelect(ConfirmSelect { nowait: flag }),
            5 => Method::ChannelFlow(ChannelFlow { active: true }),
            6 => Method::BasicGet(BasicGet {
                ticket,
                queue: b"q",
                no_ack: flag,
            }),
            7 => Method::TxCommit(TxCommit {}),
            _ => Method::ExchangeBind(ExchangeBind {
                ticket,
                destination: b"d",
                source: b"s",
                routing_key: b"#",
                nowait: flag,
                arguments: b"\x01kS\0\0\0\x01v",
            }),
        },
    )
}

/// Several pieces, mostly behind a good handshake.
pub(crate) fn script() -> impl Strategy<Value = Vec<u8>> {
    (
        prop::bool::weighted(0.9),
        prop::collection::vec(piece(), 0..20),
    )
        .prop_map(|(is_polite, pieces)| {
            let mut bytes = Vec::new();
            if is_polite {
                bytes.extend(handshake());
                bytes.extend(channel_open(1));
            }
            bytes.extend(pieces.concat());
            bytes
        })
}
