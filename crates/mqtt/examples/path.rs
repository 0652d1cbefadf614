//! What a PUBLISH costs in memory alone: read from a full buffer, or written for many. Count the
//! instructions with `valgrind --tool=callgrind`, or take the time:
//! `cargo run --release -p menzil-mqtt --example path [case] [messages] [payload bytes]`
//! where the case is `decode`, `encode` or `template`, with `3`, `5` (no properties) or `5p` (five
//! of them) behind it, and `q` behind that for QoS 1: `decode5pq`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement needs a clock"
)]

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use menzil_mqtt::codec::{
    Decoded, Delivery, Packet, PacketId, Payload, Property, PropertyId, PropertyList, Publish,
    PublishTemplate, Qos, Rules, TextPolicy, TopicName, Version, decode,
};

const READ_BYTES: usize = 64 << 10;

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let case = words.next().unwrap_or_else(|| "decode3".to_owned());
    let mut numbers = words.filter_map(|word| word.parse().ok());
    let count: usize = numbers.next().unwrap_or(10_000_000);
    let payload = vec![7; numbers.next().unwrap_or(100)];
    let version = if case.contains('5') {
        Version::V5
    } else {
        Version::V3_1_1
    };
    let list = if case.contains('p') {
        five_properties()
    } else {
        PropertyList::default()
    };
    let qos = if case.ends_with('q') {
        Qos::AtLeastOnce
    } else {
        Qos::AtMostOnce
    };
    let publish = Publish {
        dup: false,
        qos,
        retain: false,
        topic: TopicName::parse(b"sensors/17/temp", TextPolicy::Plain, 200)
            .unwrap_or(TopicName::ALIASED),
        packet_id: PacketId::new(7).filter(|_| qos != Qos::AtMostOnce),
        properties: list.as_properties(),
        payload: &payload,
    };
    let mut buffer = Vec::with_capacity(2 * READ_BYTES);
    let start = Instant::now();
    if case.starts_with("decode") {
        decode_all(&publish, version, count, &mut buffer);
    } else if case.starts_with("encode") {
        encode_all(&publish, version, count, &mut buffer);
    } else {
        template_all(&publish, version, count, &mut buffer);
    }
    let each = nanoseconds_each(start, count);
    writeln!(
        std::io::stdout(),
        "{case}, {} bytes: {each:.1} ns a message",
        payload.len()
    )
}

#[expect(clippy::cast_precision_loss, reason = "a rounded figure for people")]
fn nanoseconds_each(start: Instant, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

/// Some of each type, and two that are the sender's own.
fn five_properties() -> PropertyList {
    let mut list = PropertyList::default();
    list.push(Property::Flag(PropertyId::PayloadFormatIndicator, true))
        .push(Property::Long(PropertyId::MessageExpiryInterval, 3600))
        .push(Property::Text(PropertyId::ContentType, b"application/json"))
        .push(Property::User {
            name: b"device",
            value: b"17",
        })
        .push(Property::User {
            name: b"unit",
            value: b"celsius",
        });
    list
}

/// As many as fit into a read, again and again.
fn decode_all(publish: &Publish<'_>, version: Version, count: usize, buffer: &mut Vec<u8>) {
    while buffer.len() < READ_BYTES {
        if publish.encode(version, buffer).is_err() {
            return;
        }
    }
    let rules = Rules::default();
    let mut rest: &[u8] = &[];
    for _ in 0..count {
        if rest.is_empty() {
            rest = buffer;
        }
        match decode(rest, version, &rules) {
            Ok(Decoded::Packet(Packet::Publish(ref read), taken)) => {
                black_box(read);
                rest = rest.get(taken..).unwrap_or_default();
            }
            _ => return,
        }
    }
}

fn encode_all(publish: &Publish<'_>, version: Version, count: usize, buffer: &mut Vec<u8>) {
    for _ in 0..count {
        if buffer.len() > READ_BYTES {
            buffer.clear();
        }
        if black_box(publish.encode(version, buffer)).is_err() {
            return;
        }
    }
}

fn template_all(publish: &Publish<'_>, version: Version, count: usize, buffer: &mut Vec<u8>) {
    let mut template = PublishTemplate::default();
    let has_id = publish.packet_id.is_some();
    let properties = [publish.properties.as_bytes()];
    let payload = Payload::Inside(publish.payload);
    if template
        .prepare(version, publish.topic, has_id, &properties, payload)
        .is_err()
    {
        return;
    }
    let delivery = Delivery {
        dup: false,
        qos: publish.qos,
        retain: false,
        packet_id: publish.packet_id,
    };
    for _ in 0..count {
        if buffer.len() > READ_BYTES {
            buffer.clear();
        }
        template.write(black_box(delivery), buffer);
    }
}
