//! How long the protocol session takes for a publish in and a delivery out, alone in memory:
//! `cargo run --release -p menzil-amqp --example speed [MiB of work per line] [body bytes]...`

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement needs a clock"
)]

use std::io::{IoSlice, Write as _};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use menzil_amqp::frame::{BODY, HEADER, METHOD, write_frame};
use menzil_amqp::methods::{
    BasicPublish, ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, Method,
};
use menzil_amqp::{Action, Inbound, Outbound, Outgoing, PROTOCOL_HEADER, SessionConfig};
use menzil_core::{ChannelKey, Effect, Output};
use menzil_model::{ChannelId, ConnectionId, DeliveryTag, Message, Name};

const CONNECTION: ConnectionId = ConnectionId(1);
const READ_BYTES: usize = 64 << 10;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok());
    let work_bytes: usize = numbers.next().unwrap_or(256) << 20;
    let mut sizes: Vec<usize> = numbers.collect();
    if sizes.is_empty() {
        sizes = vec![16, 100, 1000, 16_000, 200_000];
    }
    for body_bytes in sizes {
        let count = (work_bytes / (body_bytes + 200)).clamp(100, 1_000_000);
        let published = publishes(body_bytes, count);
        let delivered = deliveries(body_bytes, count);
        writeln!(
            out,
            "{body_bytes:>7} B  publish in {published:>8.1} ns  delivery out {delivered:>8.1} ns"
        )?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a rounded figure for people")]
fn nanoseconds_each(start: Instant, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

fn publishes(body_bytes: usize, count: usize) -> f64 {
    let mut one = Vec::new();
    let publish = BasicPublish {
        ticket: 0,
        exchange: b"amq.topic",
        routing_key: b"some.routing.key",
        mandatory: false,
        immediate: false,
    };
    method(&mut one, 1, Method::BasicPublish(publish));
    write_frame(&mut one, HEADER, 1, |out| {
        out.extend([0, 60, 0, 0]);
        out.extend((body_bytes as u64).to_be_bytes());
        out.extend(b"\x90\x00\x0atext/plain\x02");
    });
    let body = vec![7; body_bytes];
    for part in body.chunks(131_064) {
        write_frame(&mut one, BODY, 1, |out| out.extend_from_slice(part));
    }
    let batch = one.repeat((1 << 20) / one.len() + 1);
    let in_batch = batch.len() / one.len();
    let mut inbound = running();
    let (mut actions, mut seen) = (Vec::new(), 0);
    let start = Instant::now();
    while seen < count {
        for read in batch.chunks(READ_BYTES) {
            inbound.receive(0, read, &mut || 0, &mut actions);
            actions.clear();
        }
        seen += in_batch;
    }
    nanoseconds_each(start, seen)
}

fn deliveries(body_bytes: usize, count: usize) -> f64 {
    let mut outbound = Outbound::new(0);
    outbound.send(Outgoing::Tuned {
        frame_bytes_max: 131_072,
        heartbeat_seconds: 60,
        blocked_notify: true,
    });
    let (exchange, key) = (Name::from("amq.topic"), Name::from("some.routing.key"));
    let parts = vec![Bytes::from(vec![7; body_bytes])];
    let message = Arc::new(Message::new(&exchange, &key, b"\x10\0\x02", parts, 4096));
    let consumer_tag = Name::from("ctag1.0123456789abcdef");
    let Some(channel) = ChannelId::new(1) else {
        return 0.0;
    };
    let to = ChannelKey {
        connection: CONNECTION,
        channel,
    };
    let start = Instant::now();
    for tag in 1..=count as u64 {
        let output = Output::Deliver {
            consumer_tag: consumer_tag.clone(),
            delivery_tag: DeliveryTag(tag),
            redelivered: false,
            properties: None,
            message: Arc::clone(&message),
        };
        outbound.handle(Effect::Channel {
            to,
            after: 0,
            output,
        });
        if outbound.pending_bytes() > READ_BYTES {
            drain(&mut outbound);
        }
    }
    drain(&mut outbound);
    nanoseconds_each(start, count)
}

/// Sends everything to nowhere.
fn drain(outbound: &mut Outbound) {
    outbound.flush();
    while outbound.pending_bytes() > 0 {
        let mut slices: Vec<IoSlice<'_>> = Vec::new();
        outbound.transmit(&mut slices);
        let sent = slices.iter().map(|slice| slice.len()).sum();
        outbound.advance(0, sent);
    }
}

/// A connection with channel 1 open.
fn running() -> Inbound {
    let mut inbound = Inbound::new(Arc::new(SessionConfig::default()), CONNECTION, 0);
    let mut bytes = PROTOCOL_HEADER.to_vec();
    let start = ConnectionStartOk {
        client_properties: b"",
        mechanism: b"PLAIN",
        response: b"\0guest\0guest",
        locale: b"en_US",
    };
    method(&mut bytes, 0, Method::ConnectionStartOk(start));
    let tune = ConnectionTuneOk {
        channel_max: 2047,
        frame_max: 131_072,
        heartbeat: 60,
    };
    method(&mut bytes, 0, Method::ConnectionTuneOk(tune));
    let open = ConnectionOpen {
        virtual_host: b"/",
        capabilities: b"",
        insist: false,
    };
    method(&mut bytes, 0, Method::ConnectionOpen(open));
    method(
        &mut bytes,
        1,
        Method::ChannelOpen(ChannelOpen { out_of_band: b"" }),
    );
    let mut actions: Vec<Action> = Vec::new();
    inbound.receive(0, &bytes, &mut || 0, &mut actions);
    inbound.authenticated(0, Ok(Name::from("guest")), &mut actions);
    inbound.receive(0, &[], &mut || 0, &mut actions);
    inbound.opened(0, Ok(()), &mut actions);
    inbound.receive(0, &[], &mut || 0, &mut actions);
    inbound
}

fn method(out: &mut Vec<u8>, channel: u16, method: Method<'_>) {
    write_frame(out, METHOD, channel, |out| method.write(out));
}
