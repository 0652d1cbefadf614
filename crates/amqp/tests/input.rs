//! Any input, split anywhere, in any order with everything else that happens: the same actions,
//! no panic, bounded memory.
#![cfg(test)]

mod peer;

use std::sync::Arc;

use bytes::Bytes;
use menzil_amqp::{AuthError, OpenError, SessionConfig};
use menzil_core::{Effect, Output, Refusal, Reply};
use menzil_model::{ChannelId, DeliveryTag, Message, Name};
use peer::script::{piece, script};
use peer::*;
use proptest::prelude::*;

fn config() -> SessionConfig {
    SessionConfig {
        message_bytes_max: 300,
        assembling_bytes_max: 1200,
        chunk_bytes: 64,
        ..SessionConfig::default()
    }
}

/// What a broker does and says when the input comes in chunks of those sizes, in turn.
fn run(input: &[u8], sizes: &[usize]) -> (Vec<String>, Vec<(u16, String)>) {
    let mut broker = Broker::new(config());
    broker.hides_closes = true;
    let (mut rest, mut said) = (input, Vec::new());
    for size in sizes.iter().cycle() {
        let (chunk, left) = rest.split_at((*size).min(rest.len()));
        said.extend(broker.receive(chunk));
        broker.session.inbound.check_invariants();
        broker.session.outbound.check_invariants();
        rest = left;
        if rest.is_empty() {
            break;
        }
    }
    (broker.log, said)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn split_anywhere_is_the_same(
        input in script(),
        sizes in prop::collection::vec(1_usize..60, 1..5),
    ) {
        let whole = run(&input, &[input.len().max(1)]);
        prop_assert_eq!(&whole, &run(&input, &[1]));
        prop_assert_eq!(&whole, &run(&input, &sizes));
    }

    #[test]
    fn noise_is_survived(input in prop::collection::vec(any::<u8>(), 0..600)) {
        run(&input, &[input.len().max(1)]);
        let behind = [handshake(), input].concat();
        run(&behind, &[17]);
    }
}

/// Everything that can happen to a connection, in any order.
#[derive(Clone, Debug)]
enum Step {
    Receive(Vec<u8>),
    /// As `Receive`, without an answer to what the session asks.
    ReceiveOnly(Vec<u8>),
    ChannelRefused(u16),
    ConnectionRefused,
    Authenticated(bool),
    Opened(bool),
    Close,
    Hold(bool),
    Pass(u64),
    Disconnected,
    Deliver {
        channel: u16,
        after: u64,
        bytes: usize,
    },
    Reply {
        channel: u16,
        after: u64,
        which: u8,
    },
    Confirm {
        channel: u16,
        after: u64,
        sequence: u64,
        accepted: bool,
    },
    Refuse {
        channel: u16,
        after: u64,
        is_hard: bool,
    },
    Commit(u64),
    Send(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (channel, after) = (1_u16..5, 0_u64..40);
    let to = (channel.clone(), after.clone());
    prop_oneof![
        200 => piece().prop_map(Step::Receive),
        40 => piece().prop_map(Step::ReceiveOnly),
        20 => channel.prop_map(Step::ChannelRefused),
        1 => Just(Step::ConnectionRefused),
        20 => any::<bool>().prop_map(Step::Authenticated),
        20 => any::<bool>().prop_map(Step::Opened),
        1 => Just(Step::Close),
        20 => any::<bool>().prop_map(Step::Hold),
        40 => (0_u64..20_000).prop_map(Step::Pass),
        1 => Just(Step::Disconnected),
        80 => (to.clone(), 0_usize..9000)
            .prop_map(|((channel, after), bytes)| Step::Deliver { channel, after, bytes }),
        40 => (to.clone(), 0_u8..4)
            .prop_map(|((channel, after), which)| Step::Reply { channel, after, which }),
        80 => (to.clone(), 0_u64..20, any::<bool>()).prop_map(|((channel, after), sequence, accepted)| {
            Step::Confirm { channel, after, sequence, accepted }
        }),
        20 => (to, any::<bool>())
            .prop_map(|((channel, after), is_hard)| Step::Refuse { channel, after, is_hard }),
        60 => after.prop_map(Step::Commit),
        80 => (0_usize..5000).prop_map(Step::Send),
    ]
}

fn take(broker: &mut Broker, step: Step, sent: &mut Vec<u8>) {
    let mut out = Vec::new();
    let now = broker.now;
    match step {
        Step::Receive(bytes) => {
            broker.feed(&bytes);
        }
        Step::ReceiveOnly(bytes) => {
            broker.session.receive(now, &bytes, &mut || 1, &mut out);
        }
        Step::ChannelRefused(channel) => {
            let channel = ChannelId::new(channel).unwrap();
            broker.session.inbound.channel_refused(channel);
        }
        Step::ConnectionRefused => broker.session.inbound.connection_refused(),
        Step::Authenticated(is_right) => {
            let login = if is_right {
                Ok(Name::from("u"))
            } else {
                Err(AuthError::NotLocal)
            };
            broker.session.inbound.authenticated(now, login, &mut out);
        }
        Step::Opened(is_right) => {
            let opened = if is_right {
                Ok(())
            } else {
                Err(OpenError::Down)
            };
            broker.session.inbound.opened(now, opened, &mut out);
        }
        Step::Close => broker.session.inbound.close(now, "shutdown", &mut out),
        Step::Hold(is_held) => broker.session.inbound.hold(now, is_held),
        Step::Pass(ms) => {
            broker.now += ms;
            broker.session.inbound.timeout(broker.now, &mut out);
            broker.session.outbound.heartbeat(broker.now);
        }
        Step::Disconnected => {
            let _ = broker.session.inbound.disconnected();
        }
        Step::Deliver {
            channel,
            after,
            bytes,
        } => {
            let name = Name::from("x");
            let parts = vec![Bytes::from(vec![1; bytes])];
            let output = Output::Deliver {
                consumer_tag: Name::from("t"),
                delivery_tag: DeliveryTag(1),
                redelivered: true,
                properties: None,
                message: Arc::new(Message::new(&name, &name, b"\0\0", parts, 1000)),
            };
            broker.output(channel, after, output);
        }
        Step::Reply {
            channel,
            after,
            which,
        } => {
            let reply = match which {
                0 => Reply::ChannelOpened,
                1 => Reply::ChannelClosed,
                2 => Reply::QosOk,
                _ => Reply::GetEmpty,
            };
            broker.output(channel, after, Output::Reply(reply));
        }
        Step::Confirm {
            channel,
            after,
            sequence,
            accepted,
        } => {
            broker.output(channel, after, Output::Confirm { sequence, accepted });
        }
        Step::Refuse {
            channel,
            after,
            is_hard,
        } => {
            let refusal = if is_hard {
                Refusal::PrefetchSize(1)
            } else {
                Refusal::NoQueueDeclared
            };
            let output = Output::Refused {
                refusal,
                method: (60, 70),
            };
            broker.session.outbound.handle(Effect::Channel {
                to: key(channel),
                after,
                output,
            });
        }
        Step::Commit(index) => broker.session.committed(index),
        Step::Send(bytes) => {
            broker.session.outbound.flush();
            let mut slices = Vec::new();
            broker.session.outbound.transmit(&mut slices);
            let seen: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let count = bytes.min(seen.len());
            sent.extend(&seen[..count]);
            broker.session.outbound.advance(now, count);
        }
    }
    broker.carry_out(out);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn anything_in_any_order_is_survived(
        is_running: bool,
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut broker = if is_running { Broker::running(config()) } else { Broker::new(config()) };
        let mut sent = Vec::new();
        for step in steps {
            take(&mut broker, step, &mut sent);
            broker.session.inbound.check_invariants();
            broker.session.outbound.check_invariants();
        }
        broker.session.committed(u64::MAX);
        sent.extend(broker.session.poll_transmit(broker.now).0);
        // What was sent is whole frames from the first to the last byte.
        describe(&sent);
        prop_assert_eq!(broker.session.outbound.waits_for(), None);
        prop_assert_eq!(broker.session.outbound.pending_bytes(), 0);
    }
}
