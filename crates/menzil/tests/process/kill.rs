//! SIGKILL at random moments under load: what was confirmed stays, what was acknowledged before
//! a later confirm stays away, nothing is doubled, order holds.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use menzil_amqp::frame;
use menzil_amqp::methods::Method;

use crate::common::{Client, Server};

const ROUNDS: u64 = 50;
const WINDOW: u64 = 40;

/// What a client saw, over all lives of the server.
#[derive(Default)]
struct Oracle {
    published: u64,
    confirmed: BTreeSet<u64>,
    acknowledged: BTreeSet<u64>,
    /// Acknowledged on the channel at hand, each with the last publish before that.
    acknowledged_here: BTreeMap<u64, u64>,
    /// Acknowledged before a publish that was confirmed: never to come back.
    settled: BTreeSet<u64>,
    delivered: u64,
    redelivered: u64,
}

impl Oracle {
    fn confirm(&mut self, number: u64) {
        self.confirmed.insert(number);
        let settled = self
            .acknowledged_here
            .iter()
            .filter(|(_, last)| **last < number);
        self.settled.extend(settled.map(|(message, _)| *message));
    }

    fn deliver(&mut self, number: u64, redelivered: bool) {
        assert!(number < self.published, "{number} was never published");
        assert!(
            !self.settled.contains(&number),
            "{number} is back from the dead"
        );
        self.delivered += 1;
        self.redelivered += u64::from(redelivered);
    }
}

#[test]
fn fifty_kills_lose_and_double_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut oracle = Oracle::default();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..ROUNDS {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let server = Server::start(dir.path(), &[]);
        let mut client = Client::open(server.port);
        client.declare("q");
        client.confirm_select();
        client.consume("q", 10);
        client.may_end = true;
        let delay = Duration::from_millis(random >> 57);
        let killer = thread::spawn(move || {
            thread::sleep(delay);
            server.kill();
        });
        live(client, &mut oracle);
        killer.join().unwrap();
    }
    let server = Server::start(dir.path(), &[]);
    let mut client = Client::open(server.port);
    let left = client.declare("q");
    client.consume("q", 0);
    let mut found = BTreeSet::new();
    let mut last = None;
    for _ in 0..left {
        let (_, redelivered, body) = client.delivery();
        let number = number(&body);
        oracle.deliver(number, redelivered);
        assert!(found.insert(number), "{number} is there twice");
        assert!(last < Some(number), "{number} comes after {last:?}");
        last = Some(number);
    }
    for number in &oracle.confirmed {
        let gone = oracle.acknowledged.contains(number);
        assert!(
            gone || found.contains(number),
            "{number} was confirmed and is lost"
        );
    }
    println!(
        "{ROUNDS} kills: {} published, {} confirmed, {} delivered, {} redelivered, {} left; \
         lost 0, doubled 0, resurrected 0",
        oracle.published,
        oracle.confirmed.len(),
        oracle.delivered,
        oracle.redelivered,
        left
    );
    assert!(oracle.confirmed.len() > 100);
}

/// Publishes, consumes and acknowledges on one channel until the server is gone.
fn live(mut client: Client, oracle: &mut Oracle) {
    let first = oracle.published;
    // What the server had not read of the last life's acknowledgements may come back.
    oracle.acknowledged_here.clear();
    let mut confirmed = 0;
    let mut here = BTreeSet::new();
    loop {
        while oracle.published - first < confirmed + WINDOW {
            client.publish("q", format!("{} {:0>200}", oracle.published, 0).as_bytes());
            oracle.published += 1;
        }
        let Some(came) = client.next() else { return };
        if let Method::BasicAck(ack) = came.method() {
            let from = if ack.multiple {
                confirmed
            } else {
                ack.delivery_tag - 1
            };
            for sequence in from..ack.delivery_tag {
                oracle.confirm(first + sequence);
            }
            confirmed = confirmed.max(ack.delivery_tag);
            continue;
        }
        let Method::BasicDeliver(deliver) = came.method() else {
            panic!("{came:?}");
        };
        let Some(header) = client.next() else { return };
        assert_eq!(header.kind, frame::HEADER);
        let Some(body) = client.next() else { return };
        let number = number(&body.payload);
        assert!(here.insert(number), "{number} is there twice");
        oracle.deliver(number, deliver.redelivered);
        client.ack(deliver.delivery_tag, false);
        oracle.acknowledged.insert(number);
        let last = oracle.published - 1;
        oracle.acknowledged_here.insert(number, last);
    }
}

fn number(body: &[u8]) -> u64 {
    let text = crate::common::text(body);
    text.split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap()
}
