//! MQTT sessions: what clients see, and what is left of it after a crash.

use std::fmt::Write as _;

use bytes::Bytes;
use menzil_core::{
    Body, Command, Effect, Filter, Options, Publish, Request, SessionOpen, SessionOutput,
    SessionRequest, ShardSettings, TopicNotes, TopicPublish, Verdict,
};
use menzil_model::fact::Will;
use menzil_model::{ConnectionId, Message, Properties, Value};
use std::sync::Arc;

use crate::support::{Crash, Seen, World, arguments, body_of, name};

/// Clients of a world, each with a connection of the number that it is named by.
pub(crate) struct Clients {
    pub(crate) world: World,
}

/// How a client connects.
#[derive(Clone)]
pub(crate) struct Connect {
    clean: bool,
    expiry: u32,
    receive_max: u16,
    will: Option<Box<Will>>,
}

pub(crate) fn clean() -> Connect {
    Connect {
        clean: true,
        expiry: 0,
        receive_max: 20,
        will: None,
    }
}

pub(crate) fn lasting() -> Connect {
    Connect {
        clean: false,
        expiry: 1000,
        ..clean()
    }
}

impl Connect {
    pub(crate) fn receives(self, receive_max: u16) -> Self {
        Self {
            receive_max,
            ..self
        }
    }

    fn will(self, topic: &str, delay: u32) -> Self {
        let notes = TopicNotes {
            qos: 1,
            topic: topic.as_bytes(),
            others: b"",
            properties: b"",
        };
        let mut bytes = Vec::new();
        notes.write(&mut bytes);
        let message = Message::copied(b"", b"", b"", b"will").with_notes(&bytes);
        let will = Will {
            message: Arc::new(message),
            qos: 1,
            retain: false,
            delay,
            expiry: None,
        };
        Self {
            will: Some(Box::new(will)),
            ..self
        }
    }
}

/// What a client, by the number of its connection, gets, in one line.
fn line(effect: &Effect) -> Option<String> {
    let Effect::Session { to, output, .. } = effect else {
        return None;
    };
    let text = match output {
        SessionOutput::Opened { session_present } => format!("open {session_present}"),
        SessionOutput::Copy(copy) => {
            let notes = TopicNotes::read(copy.message.notes()).unwrap();
            let mut flags = String::new();
            if copy.dup {
                flags += " dup";
            }
            if copy.retain {
                flags += " retain";
            }
            if !copy.ids.is_empty() {
                let _ = write!(flags, " ids {:?}", copy.ids);
            }
            if let Some(expiry) = copy.expiry {
                let _ = write!(flags, " expiry {expiry}");
            }
            let topic = String::from_utf8_lossy(notes.topic).into_owned();
            let body = body_of(&copy.message);
            format!(
                "copy q{} #{} {topic} {body}{flags}",
                copy.qos, copy.packet_id
            )
        }
        SessionOutput::Published {
            packet_id,
            qos,
            verdict,
        } => {
            let word = if *qos == 1 { "puback" } else { "pubrec" };
            let verdict = match verdict {
                Verdict::Accepted => "",
                Verdict::NoMatch => " no match",
                Verdict::Full => " full",
            };
            format!("{word} {packet_id}{verdict}")
        }
        SessionOutput::Release {
            packet_id,
            is_known,
        } => format!(
            "pubrel {packet_id}{}",
            if *is_known { "" } else { " unknown" }
        ),
        SessionOutput::Completed {
            packet_id,
            is_known,
        } => format!(
            "pubcomp {packet_id}{}",
            if *is_known { "" } else { " unknown" }
        ),
        SessionOutput::Subscribed { packet_id, codes } => format!("suback {packet_id} {codes:?}"),
        SessionOutput::Unsubscribed {
            packet_id,
            were_there,
        } => format!("unsuback {packet_id} {were_there:?}"),
        SessionOutput::Ended(reason) => format!("ended {reason:?}"),
    };
    Some(format!("{to}: {text}"))
}

pub(crate) fn lines(effects: &[Effect]) -> Vec<String> {
    effects.iter().filter_map(line).collect()
}

impl Clients {
    pub(crate) fn new() -> Self {
        Self::with(ShardSettings::default())
    }

    pub(crate) fn with(settings: ShardSettings) -> Self {
        Self {
            world: World::with(settings),
        }
    }

    pub(crate) fn request(&mut self, client: u64, request: SessionRequest) -> Vec<String> {
        let connection = ConnectionId(client);
        let effects = self.world.execute(Command::Session {
            connection,
            request,
        });
        lines(&effects)
    }

    /// The client's identifier is `c` and its number, less hundreds.
    pub(crate) fn connect(&mut self, client: u64, connect: Connect) -> Vec<String> {
        let open = SessionOpen {
            client_id: Bytes::from(format!("c{}", client % 100)),
            user: name("guest"),
            clean_start: connect.clean,
            expiry: connect.expiry,
            receive_max: connect.receive_max,
            will: connect.will,
        };
        self.request(client, SessionRequest::Open(Box::new(open)))
    }

    pub(crate) fn leave(&mut self, client: u64, with_will: bool) -> Vec<String> {
        let expiry = None;
        self.request(client, SessionRequest::Leave { with_will, expiry })
    }

    pub(crate) fn subscribe_as(
        &mut self,
        client: u64,
        filter: &str,
        options: u8,
        id: u32,
    ) -> Vec<String> {
        let filter = Filter {
            filter: Bytes::copy_from_slice(filter.as_bytes()),
            options: Options(options),
            refused: None,
        };
        let (packet_id, filters) = (1, vec![filter]);
        self.request(
            client,
            SessionRequest::Subscribe {
                packet_id,
                id,
                filters,
            },
        )
    }

    pub(crate) fn subscribe(&mut self, client: u64, filter: &str, qos: u8) {
        let seen = self.subscribe_as(client, filter, qos, 0);
        assert_eq!(seen, [format!("{client}: suback 1 [{qos}]")]);
    }

    pub(crate) fn publish(&mut self, client: u64, qos: u8, topic: &str, body: &str) -> Vec<String> {
        self.publish_as(
            client,
            (qos, u16::from(qos > 0) * 7),
            topic,
            body,
            (false, None),
        )
    }

    pub(crate) fn publish_as(
        &mut self,
        client: u64,
        (qos, packet_id): (u8, u16),
        topic: &str,
        body: &str,
        (retain, expiry): (bool, Option<u32>),
    ) -> Vec<String> {
        let publish = TopicPublish {
            packet_id,
            qos,
            retain,
            topic: topic.as_bytes(),
            properties: b"",
            expiry,
            payload: Body::Whole(body.as_bytes()),
        };
        let world = &mut self.world;
        let mut effects = Vec::new();
        let connection = ConnectionId(client);
        (world.shard).publish_topic(
            world.now,
            connection,
            &publish,
            &mut world.log,
            &mut effects,
        );
        world.shard.finish(&mut world.log);
        world.shard.check_invariants();
        lines(&world.answered(effects))
    }

    pub(crate) fn puback(&mut self, client: u64, packet_id: u16) -> Vec<String> {
        self.request(client, SessionRequest::Acknowledge { packet_id })
    }

    pub(crate) fn pubrec(&mut self, client: u64, packet_id: u16) -> Vec<String> {
        let is_refused = false;
        self.request(
            client,
            SessionRequest::Received {
                packet_id,
                is_refused,
            },
        )
    }

    pub(crate) fn pubrel(&mut self, client: u64, packet_id: u16) -> Vec<String> {
        self.request(client, SessionRequest::Release { packet_id })
    }

    pub(crate) fn pubcomp(&mut self, client: u64, packet_id: u16) -> Vec<String> {
        self.request(client, SessionRequest::Complete { packet_id })
    }

    pub(crate) fn pass(&mut self, milliseconds: u64) -> Vec<String> {
        lines(&self.world.pass_time(milliseconds))
    }

    /// Kills the process after everything was synced, with and without a checkpoint before.
    pub(crate) fn each_restart(&mut self, round: usize) {
        if round == 0 {
            self.world.restart();
        } else {
            self.world.restart_from_checkpoint();
        }
    }
}

#[test]
fn a_message_comes_with_the_lower_quality_of_service() {
    let mut clients = Clients::new();
    assert_eq!(clients.connect(2, clean()), ["2: open false"]);
    clients.connect(3, clean());
    for qos in 0..3 {
        clients.subscribe(2, "a/+", qos);
        assert_eq!(clients.publish(3, 0, "a/b", "x"), ["2: copy q0 #0 a/b x"]);
        let seen = clients.publish(3, 1, "a/b", "y");
        assert_eq!(
            seen.last().unwrap(),
            &format!("2: copy q{} #{} a/b y", qos.min(1), packet(&seen))
        );
        assert_eq!(seen[0], "3: puback 7");
        let id = packet(&seen);
        clients.puback(2, id);
        let seen = clients.publish(3, 2, "a/b", "z");
        assert_eq!(seen[0], "3: pubrec 7");
        let id = packet(&seen);
        assert_eq!(seen[1], format!("2: copy q{qos} #{id} a/b z"));
        assert_eq!(clients.pubrel(3, 7), ["3: pubcomp 7"]);
        match qos {
            1 => assert!(clients.puback(2, id).is_empty()),
            2 => {
                assert_eq!(clients.pubrec(2, id), [format!("2: pubrel {id}")]);
                assert!(clients.pubcomp(2, id).is_empty());
            }
            _ => {}
        }
    }
    assert_eq!(clients.publish(3, 1, "b", "y"), ["3: puback 7 no match"]);
    let session = &clients.world.shard.sessions()[0];
    assert_eq!((session.ready, session.in_flight), (0, 0));
    assert!(
        clients.world.log.records.len() < 12,
        "nothing of it is durable"
    );
}

/// The packet identifier of the last copy.
pub(crate) fn packet(seen: &[String]) -> u16 {
    let copy = seen
        .iter()
        .rev()
        .find(|line| line.contains("copy"))
        .unwrap();
    let id = copy.split('#').nth(1).unwrap().split(' ').next().unwrap();
    id.parse().unwrap()
}

#[test]
fn overlapping_subscriptions_bring_one_copy_with_the_highest_quality_and_all_identifiers() {
    let mut clients = Clients::new();
    clients.connect(2, clean());
    clients.connect(3, clean());
    for (filter, qos, id) in [("a/#", 0, 5), ("a/b", 2, 9), ("+/b", 1, 5), ("c", 2, 7)] {
        clients.subscribe_as(2, filter, qos, id);
    }
    let seen = clients.publish(3, 2, "a/b", "x");
    assert_eq!(seen[1], "2: copy q2 #1 a/b x ids [5, 9]");
    assert_eq!(seen.len(), 2);
}

#[test]
fn what_waits_comes_after_a_crash_in_order_and_only_what_went_out_is_flagged() {
    for round in 0..2 {
        let mut clients = Clients::new();
        clients.connect(2, lasting().receives(2));
        clients.subscribe(2, "s/#", 2);
        clients.connect(3, clean());
        for (number, qos) in (1..).zip([1, 2, 1, 1, 2]) {
            let seen = clients.publish(3, qos, &format!("s/{number}"), "x");
            assert_eq!(seen.len(), if number < 3 { 2 } else { 1 }, "{seen:?}");
            clients.pubrel(3, 7);
        }
        clients.each_restart(round);
        let seen = clients.connect(102, lasting().receives(3));
        let expected = [
            "102: open true",
            "102: copy q1 #2 s/1 x dup",
            "102: copy q2 #3 s/2 x dup",
            "102: copy q1 #4 s/3 x",
        ];
        assert_eq!(
            seen.iter().map(String::as_str).collect::<Vec<_>>(),
            fixed(&seen, &expected)
        );
        // The third went out now; the fourth never did.
        clients.each_restart(round);
        let seen = clients.connect(202, lasting());
        let flags: Vec<bool> = seen[1..].iter().map(|line| line.ends_with("dup")).collect();
        assert_eq!(flags, [true, true, true, false, false], "{seen:?}");
    }
}

/// The expected lines with packet identifiers as seen: that they stay the same is another test.
fn fixed<'a>(seen: &'a [String], expected: &[&str]) -> Vec<&'a str> {
    let without = |line: &str| -> String {
        line.split(' ')
            .filter(|word| !word.starts_with('#'))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let same = seen.len() == expected.len()
        && seen
            .iter()
            .zip(expected)
            .all(|(a, b)| without(a) == without(b));
    assert!(same, "{seen:#?} is not {expected:#?}");
    seen.iter().map(String::as_str).collect()
}

#[test]
fn packet_identifiers_stay_over_a_restart() {
    let mut clients = Clients::new();
    clients.connect(2, lasting());
    clients.subscribe(2, "#", 2);
    clients.connect(3, clean());
    let before: Vec<u16> = (0..5)
        .map(|_| packet(&clients.publish(3, 1, "t", "x")))
        .collect();
    clients.world.restart();
    let seen = clients.connect(102, lasting());
    let after: Vec<u16> = seen[1..]
        .iter()
        .map(|line| packet(std::slice::from_ref(line)))
        .collect();
    assert_eq!(after, before);
    // And over one of the connection alone.
    clients.puback(102, after[1]);
    clients.leave(102, false);
    let seen = clients.connect(202, lasting());
    let again: Vec<u16> = seen[1..]
        .iter()
        .map(|line| packet(std::slice::from_ref(line)))
        .collect();
    assert_eq!(again, [before[0], before[2], before[3], before[4]]);
    assert!(seen[1..].iter().all(|line| line.ends_with("dup")));
}

#[test]
fn a_message_of_quality_two_comes_once_whatever_crashes_between() {
    for round in 0..2 {
        let mut clients = Clients::new();
        clients.connect(2, lasting());
        clients.subscribe(2, "t", 2);
        clients.connect(3, lasting());
        let seen = clients.publish(3, 2, "t", "x");
        let id = packet(&seen);
        clients.each_restart(round);
        // The publisher did not hear of it, and says it again.
        clients.connect(103, lasting());
        assert_eq!(clients.publish(103, 2, "t", "x"), ["103: pubrec 7"]);
        clients.each_restart(round);
        clients.connect(203, lasting());
        assert_eq!(clients.pubrel(203, 7), ["203: pubcomp 7"]);
        clients.each_restart(round);
        clients.connect(303, lasting());
        assert_eq!(clients.pubrel(303, 7), ["303: pubcomp 7 unknown"]);
        // The subscriber has it, and then only the release.
        let seen = clients.connect(102, lasting());
        assert_eq!(
            seen,
            [
                "102: open true".to_owned(),
                format!("102: copy q2 #{id} t x dup")
            ]
        );
        assert_eq!(clients.pubrec(102, id), [format!("102: pubrel {id}")]);
        clients.each_restart(round);
        let seen = clients.connect(202, lasting());
        assert_eq!(
            seen,
            ["202: open true".to_owned(), format!("202: pubrel {id}")]
        );
        clients.pubcomp(202, id);
        clients.each_restart(round);
        assert_eq!(clients.connect(302, lasting()), ["302: open true"]);
        // Its identifier is free for another message.
        clients.connect(403, lasting());
        assert_eq!(clients.publish(403, 2, "t", "y").len(), 2);
    }
}

#[test]
fn one_record_holds_the_message_and_its_packet_identifier() {
    let mut clients = Clients::new();
    clients.connect(2, lasting());
    clients.subscribe(2, "t", 2);
    clients.leave(2, false);
    clients.connect(3, lasting());
    let before = clients.world.log.records.len();
    clients.publish(3, 2, "t", "x");
    assert_eq!(clients.world.log.records.len(), before + 1);
    // Whatever the crash leaves: both, or none.
    for kept in [before, before + 1] {
        let mut again = Clients::new();
        again.world.log = clients.world.log.clone();
        let checkpoint = None;
        again.world.crash(Crash { kept, checkpoint });
        again.connect(103, lasting());
        let seen = again.publish(103, 2, "t", "x");
        assert_eq!(seen, ["103: pubrec 7"]);
        let seen = again.connect(102, lasting());
        assert_eq!(seen.len(), 2, "once: {seen:?}");
    }
}

#[test]
fn a_session_ends_when_its_time_is_over_and_not_before_also_through_a_restart() {
    for round in 0..2 {
        let mut clients = Clients::new();
        clients.connect(2, lasting());
        clients.subscribe(2, "t", 1);
        clients.leave(2, false);
        clients.pass(600_000);
        clients.each_restart(round);
        clients.pass(399_000);
        assert_eq!(clients.world.shard.sessions().len(), 1);
        clients.pass(1_000);
        assert_eq!(clients.world.shard.sessions().len(), 0);
        clients.each_restart(round);
        assert_eq!(clients.connect(102, lasting()), ["102: open false"]);
        assert_eq!(clients.world.shard.subscription_count(), 0);
    }
}

#[test]
fn a_client_that_comes_again_takes_its_session_over() {
    let mut clients = Clients::new();
    clients.connect(2, lasting());
    clients.subscribe(2, "t", 1);
    let seen = clients.connect(102, lasting());
    assert_eq!(seen, ["2: ended TakenOver", "102: open true"]);
    clients.connect(3, clean());
    assert_eq!(clients.publish(3, 0, "t", "x"), ["102: copy q0 #0 t x"]);
    assert!(
        clients.publish(2, 1, "t", "x").is_empty(),
        "the old one goes nowhere"
    );
    let seen = clients.connect(202, clean());
    assert_eq!(seen, ["102: ended TakenOver", "202: open false"]);
    assert!(clients.publish(3, 0, "t", "x").is_empty());
}

#[test]
fn a_will_is_published_where_the_client_is_lost_and_when_its_delay_is_over() {
    let mut clients = Clients::new();
    clients.connect(3, clean());
    clients.subscribe(3, "w/#", 1);
    let will = "3: copy q1 #";
    let gone = |clients: &mut Clients, seen: Vec<String>| {
        let is_it = seen.len() == 1 && seen[0].starts_with(will) && seen[0].contains("w/1 will");
        if is_it {
            let id = packet(&seen);
            clients.puback(3, id);
        }
        is_it
    };
    clients.connect(2, clean().will("w/1", 0));
    assert!(clients.leave(2, false).is_empty(), "DISCONNECT");
    clients.connect(2, clean().will("w/1", 0));
    let seen = clients.leave(2, true);
    assert!(gone(&mut clients, seen));
    // A delay: the end of the session comes first, or the client.
    clients.connect(2, clean().will("w/1", 10));
    let seen = clients.leave(2, true);
    assert!(gone(&mut clients, seen), "its session ended");
    clients.connect(2, lasting().will("w/1", 10));
    assert!(clients.leave(2, true).is_empty());
    assert!(clients.pass(9_999).is_empty());
    let seen = clients.pass(1);
    assert!(gone(&mut clients, seen));
    clients.connect(2, lasting().will("w/1", 10));
    clients.leave(2, true);
    clients.connect(102, lasting());
    assert!(clients.pass(20_000).is_empty(), "it came back");
}

#[test]
fn a_will_survives_a_crash_also_of_a_session_that_does_not() {
    for round in 0..2 {
        for (connect, later) in [(clean(), 0), (lasting(), 5_000)] {
            let mut clients = Clients::new();
            clients.connect(3, lasting());
            clients.subscribe(3, "w/#", 1);
            clients.connect(2, connect.will("w/1", 5));
            clients.each_restart(round);
            clients.connect(103, lasting());
            clients.pass(later);
            let seen = clients.connect(203, lasting());
            assert!(
                seen.last().unwrap().contains("w/1 will"),
                "{round} {later} {seen:?}"
            );
        }
    }
}

#[test]
fn retained_messages_come_at_a_subscription_also_after_a_restart() {
    for round in 0..2 {
        let mut clients = Clients::new();
        clients.connect(3, clean());
        for (topic, body) in [
            ("r/a", "1"),
            ("r/b", "2"),
            ("r/a/c", "3"),
            ("q", "4"),
            ("r/b", ""),
        ] {
            clients.publish_as(3, (1, 7), topic, body, (true, None));
        }
        clients.each_restart(round);
        clients.connect(2, lasting());
        let seen = clients.subscribe_as(2, "r/#", 2, 0);
        assert_eq!(
            seen,
            [
                "2: suback 1 [2]",
                "2: copy q1 #2 r/a 1 retain",
                "2: copy q1 #3 r/a/c 3 retain"
            ]
            .map(|line| seen.iter().find(|other| same(other, line)).unwrap().clone())
        );
        assert_eq!(clients.world.shard.retained_count(), 3);
        // Only if it is new, and never.
        assert_eq!(clients.subscribe_as(2, "r/#", 0x12, 0), ["2: suback 1 [2]"]);
        assert_eq!(clients.subscribe_as(2, "q", 0x22, 0), ["2: suback 1 [2]"]);
        // What is published while it is subscribed has no flag, unless it asks for it.
        clients.connect(103, clean());
        let seen = clients.publish_as(103, (0, 0), "q", "5", (true, None));
        assert_eq!(seen, ["2: copy q0 #0 q 5"]);
        clients.subscribe_as(2, "q", 0x28, 0);
        let seen = clients.publish_as(103, (0, 0), "q", "6", (true, None));
        assert_eq!(seen, ["2: copy q0 #0 q 6 retain"]);
    }
}

fn same(a: &str, b: &str) -> bool {
    let without = |line: &str| -> String {
        line.split(' ')
            .filter(|word| !word.starts_with('#'))
            .collect::<Vec<_>>()
            .join(" ")
    };
    without(a) == without(b)
}

#[test]
fn a_subscription_to_all_gets_every_retained_message_as_its_client_takes_them() {
    let mut clients = Clients::new();
    clients.world.checks_each = false;
    clients.connect(3, clean());
    for number in 0..3000 {
        let topic = format!("t/{number:04}");
        clients.publish_as(3, (0, 0), &topic, "x", (true, None));
    }
    for connect in [clean(), lasting()] {
        clients.connect(2, connect);
        let mut seen = clients.subscribe_as(2, "#", 1, 0);
        let mut most = 0;
        loop {
            let session = clients.world.shard.sessions();
            most = most.max(session[0].ready + session[0].in_flight);
            let effects = clients.world.execute(Command::Drained {
                connection: ConnectionId(2),
                bytes: 1 << 20,
            });
            let more = lines(&effects);
            if more.is_empty() {
                break;
            }
            seen.extend(more);
        }
        let copies: Vec<_> = seen.iter().filter(|line| line.contains("copy")).collect();
        assert_eq!(copies.len(), 3000);
        assert!(copies.is_sorted_by_key(|line| line.split(' ').nth(4).map(str::to_owned)));
        assert!(most <= 600, "{most} waited at once");
        clients.leave(2, false);
    }
}

#[test]
fn a_message_ends_by_its_expiry_and_what_is_left_of_it_goes_with_the_copy() {
    let mut clients = Clients::new();
    clients.connect(2, lasting());
    clients.subscribe(2, "t", 1);
    clients.leave(2, false);
    clients.connect(3, clean());
    clients.publish_as(3, (1, 7), "t", "short", (true, Some(5)));
    clients.publish_as(3, (1, 7), "t", "long", (true, Some(60)));
    clients.pass(9_200);
    let seen = clients.connect(102, lasting());
    assert!(seen[1].ends_with("t long expiry 51"), "{seen:?}");
    assert_eq!(seen.len(), 2);
    assert_eq!(clients.world.shard.retained_count(), 1);
    clients.pass(60_000);
    assert_eq!(clients.world.shard.retained_count(), 0);
}

#[test]
fn a_session_has_no_more_than_its_limit_and_keeps_the_newest_also_after_a_crash() {
    let mut settings = ShardSettings::default();
    settings.sessions.messages_max = 3;
    for round in 0..2 {
        let mut clients = Clients::with(settings.clone());
        clients.connect(2, lasting());
        clients.subscribe(2, "t", 1);
        clients.leave(2, false);
        clients.connect(3, clean());
        for number in 0..10 {
            clients.publish(3, 1, "t", &number.to_string());
        }
        assert_eq!(clients.world.shard.sessions()[0].dropped, 7);
        clients.each_restart(round);
        let seen = clients.connect(102, lasting());
        let bodies: Vec<_> = seen[1..]
            .iter()
            .map(|line| line.split(' ').nth(5).unwrap())
            .collect();
        assert_eq!(bodies, ["7", "8", "9"]);
    }
}

#[test]
fn queues_of_amqp_and_sessions_share_a_record() {
    let mut clients = Clients::new();
    clients.world.declare("q");
    clients.world.bind("q", "amq.topic", "a.*");
    clients.connect(2, lasting());
    clients.subscribe(2, "a/+", 1);
    clients.leave(2, false);
    clients.connect(3, clean());
    let before = clients.world.log.records.len();
    assert_eq!(clients.publish(3, 1, "a/b", "x"), ["3: puback 7"]);
    assert_eq!(clients.world.log.records.len(), before + 1);
    clients.world.restart();
    let got = clients.world.get("q");
    assert!(
        matches!(got.as_slice(), [Seen::Got { body, .. }] if body == "x"),
        "{got:?}"
    );
    assert_eq!(clients.connect(102, lasting()).len(), 2);
}

/// Publishes to the exchange that MQTT meets AMQP at, with a header or without.
fn publish_amqp(clients: &mut Clients, key: &str, body: &str, header: Option<&str>) -> Vec<String> {
    let headers = header.map(|name| arguments(&[(name, Value::Bool(true)), ("k", Value::I32(7))]));
    let properties = Properties {
        delivery_mode: Some(2),
        headers: headers.as_ref().map(menzil_model::Table::as_bytes),
        ..Properties::default()
    };
    let mut bytes = Vec::new();
    properties.write(&mut bytes);
    let publish = Publish {
        exchange: name("amq.topic"),
        routing_key: name(key),
        mandatory: true,
        properties: bytes.into(),
        body: vec![Bytes::copy_from_slice(body.as_bytes())],
    };
    let request = Request::Publish(publish);
    let effects = clients.world.execute(Command::Request {
        channel: key_of_amqp(),
        request,
    });
    let seen = crate::support::seen(&effects);
    let other = seen.iter().filter(|seen| !matches!(seen, Seen::Acked(_)));
    other
        .map(|seen| format!("{seen:?}"))
        .chain(lines(&effects))
        .collect()
}

fn key_of_amqp() -> menzil_core::ChannelKey {
    crate::support::key(1, 1)
}

#[test]
fn what_amqp_publishes_reaches_subscribers_and_counts_as_routed() {
    let mut clients = Clients::new();
    clients.connect(2, lasting());
    clients.subscribe(2, "a/+/c", 2);
    assert_eq!(
        publish_amqp(&mut clients, "a.b.c", "x", None),
        ["2: copy q1 #1 a/b/c x"]
    );
    let returned = publish_amqp(&mut clients, "a.b", "x", None);
    assert!(returned[0].contains("Returned"), "{returned:?}");
    // With a queue beside, in one record; the same after a crash.
    clients.world.declare("q");
    clients.world.bind("q", "amq.topic", "#");
    clients.leave(2, false);
    let before = clients.world.log.records.len();
    publish_amqp(&mut clients, "a.d.c", "y", None);
    assert_eq!(clients.world.log.records.len(), before + 1);
    clients.world.restart();
    let seen = clients.connect(102, lasting());
    assert_eq!(
        seen,
        [
            "102: open true",
            "102: copy q1 #1 a/b/c x dup",
            "102: copy q1 #2 a/d/c y"
        ]
    );
    let got = clients.world.get("q");
    assert!(
        matches!(got.as_slice(), [Seen::Got { body, .. }] if body == "y"),
        "{got:?}"
    );
}

#[test]
fn a_header_sets_a_message_of_amqp_as_the_retained_one() {
    let mut clients = Clients::new();
    let seen = publish_amqp(&mut clients, "r.s", "x", Some("x-mqtt-retain"));
    assert!(
        seen.iter().all(|line| line.contains("Returned")),
        "nobody gets it now: {seen:?}"
    );
    clients.world.restart();
    assert_eq!(clients.world.shard.retained_count(), 1);
    clients.connect(2, clean());
    let seen = clients.subscribe_as(2, "#", 1, 0);
    assert_eq!(seen, ["2: suback 1 [1]", "2: copy q1 #1 r/s x retain"]);
    publish_amqp(&mut clients, "r.s", "", Some("x-mqtt-retain"));
    assert_eq!(clients.world.shard.retained_count(), 0);
}

#[test]
fn dead_letters_and_due_messages_reach_subscribers() {
    let mut clients = Clients::new();
    clients.connect(2, clean());
    clients.subscribe(2, "#", 1);
    let dlx = arguments(&[
        ("x-dead-letter-exchange", Value::LongString(b"amq.topic")),
        (
            "x-dead-letter-routing-key",
            Value::LongString(b"dead.letter"),
        ),
        ("x-message-ttl", Value::I32(50)),
    ]);
    clients.world.declare_with("q", true, dlx);
    clients.world.publish("", "q", "x");
    let seen = clients.pass(60);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].contains("dead/letter x"), "{seen:?}");
    // Through an exchange that delays, bound to the bridge's.
    let delayed = arguments(&[("x-delayed-type", Value::LongString(b"topic"))]);
    clients
        .world
        .declare_exchange("d", "x-delayed-message", delayed);
    let bind = menzil_core::ExchangeBind {
        destination: name("amq.topic"),
        source: name("d"),
        routing_key: name("#"),
        nowait: false,
        arguments: menzil_model::Table::empty(),
    };
    clients
        .world
        .request(key_of_amqp(), Request::ExchangeBind(bind));
    let headers = arguments(&[("x-delay", Value::I32(1000))]);
    let properties = Properties {
        delivery_mode: Some(2),
        headers: Some(headers.as_bytes()),
        ..Properties::default()
    };
    let mut bytes = Vec::new();
    properties.write(&mut bytes);
    let publish = Publish {
        exchange: name("d"),
        routing_key: name("later.on"),
        mandatory: false,
        properties: bytes.into(),
        body: vec![Bytes::from_static(b"z")],
    };
    clients
        .world
        .request(key_of_amqp(), Request::Publish(publish));
    assert!(clients.pass(900).is_empty());
    let seen = clients.pass(200);
    assert!(
        seen.len() == 1 && seen[0].contains("later/on z"),
        "{seen:?}"
    );
}

#[test]
fn a_message_for_queues_has_its_properties_in_their_words() {
    let mut clients = Clients::new();
    clients.world.declare("q");
    clients.world.bind("q", "amq.topic", "v1%2E0.x");
    clients.connect(2, clean());
    clients.subscribe(2, "v1.0/+", 1);
    clients.connect(3, clean());
    let seen = clients.publish_as(3, (1, 7), "v1.0/x", "x", (false, Some(60)));
    assert_eq!(seen, ["3: puback 7", "2: copy q1 #1 v1.0/x x expiry 60"]);
    let effects = clients.world.execute(Command::Request {
        channel: key_of_amqp(),
        request: Request::Get {
            queue: name("q"),
            no_ack: true,
        },
    });
    let message = effects.iter().find_map(|effect| match effect {
        Effect::Channel {
            output: menzil_core::Output::GetOk { message, .. },
            ..
        } => Some(message),
        _ => None,
    });
    let message = message.unwrap();
    assert_eq!(
        (message.exchange(), message.routing_key()),
        (&b"amq.topic"[..], &b"v1%2E0.x"[..])
    );
    let properties = Properties::parse(message.properties()).unwrap();
    assert_eq!(properties.delivery_mode, Some(2));
    assert_eq!(properties.expiration, Some(&b"60000"[..]));
    // A topic that no routing key can hold goes to sessions only, and is counted.
    clients.subscribe(2, "#", 1);
    let long = "x".repeat(300);
    assert_eq!(clients.publish(3, 0, &long, "x").len(), 1);
    assert_eq!(clients.world.shard.counters().topics_without_key, 1);
}

#[test]
fn a_queue_that_refuses_is_told_to_the_publisher_and_others_have_the_message() {
    let mut clients = Clients::new();
    let full = arguments(&[
        ("x-max-length", Value::I32(0)),
        ("x-overflow", Value::LongString(b"reject-publish")),
    ]);
    clients.world.declare_with("full", true, full);
    clients.world.bind("full", "amq.topic", "t");
    clients.connect(2, lasting());
    clients.subscribe(2, "t", 2);
    clients.connect(3, lasting());
    let seen = clients.publish(3, 2, "t", "x");
    assert_eq!(seen, ["3: pubrec 7 full", "2: copy q2 #1 t x"]);
    // Its identifier is free at once.
    assert_eq!(clients.pubrel(3, 7), ["3: pubcomp 7 unknown"]);
    clients.world.log.full = true;
    assert_eq!(clients.publish(3, 1, "t", "x"), ["3: puback 7 full"]);
    // What needs no record goes on.
    assert_eq!(clients.publish(3, 0, "t", "x"), ["2: copy q0 #0 t x"]);
}

#[test]
fn retained_messages_on_their_way_to_a_subscription_go_on_after_a_crash_each_once() {
    let mut clients = Clients::new();
    clients.world.checks_each = false;
    clients.connect(3, clean());
    for number in 0..700 {
        let topic = format!("t/{number:04}");
        clients.publish_as(3, (2, 7), &topic, &number.to_string(), (true, None));
        clients.pubrel(3, 7);
    }
    clients.connect(2, lasting().receives(50));
    let mut out: Vec<u16> = Vec::new();
    let ids = |seen: &[String]| -> Vec<u16> {
        let copies = seen.iter().filter(|line| line.contains("copy"));
        copies
            .map(|line| packet(std::slice::from_ref(line)))
            .collect()
    };
    out.extend(ids(&clients.subscribe_as(2, "t/+", 2, 0)));
    let mut done = 0;
    for round in 0..4_u64 {
        // Some are received, and then the process dies.
        for _ in 0..150 {
            let Some(id) = out.pop() else {
                break;
            };
            clients.pubrec(2 + 100 * round, id);
            done += 1;
            out.extend(ids(&clients.pubcomp(2 + 100 * round, id)));
        }
        clients.each_restart(round as usize % 2);
        let seen = clients.connect(2 + 100 * (round + 1), lasting().receives(50));
        out = ids(&seen);
    }
    while let Some(id) = out.pop() {
        clients.pubrec(402, id);
        done += 1;
        out.extend(ids(&clients.pubcomp(402, id)));
    }
    assert_eq!(done, 700);
    clients.world.shard.check_invariants();
}

#[test]
fn messages_of_quality_0_for_a_client_that_is_away_are_dropped_and_counted_or_kept() {
    for keeps in [false, true] {
        let mut settings = ShardSettings::default();
        settings.sessions.queue_qos0 = keeps;
        let mut clients = Clients::with(settings);
        clients.connect(2, lasting());
        clients.subscribe(2, "t", 1);
        clients.leave(2, false);
        clients.connect(3, clean());
        clients.publish(3, 0, "t", "x");
        let session = &clients.world.shard.sessions()[0];
        assert_eq!(session.dropped_offline, u64::from(!keeps));
        let counters = clients.world.shard.counters();
        assert_eq!(counters.session_offline_dropped, u64::from(!keeps));
        let seen = clients.connect(102, lasting());
        assert_eq!(seen.len(), 1 + usize::from(keeps), "{seen:?}");
    }
}

#[test]
fn what_was_sent_stays_until_it_is_acknowledged_past_its_time_and_any_limit() {
    for round in 0..2 {
        let mut settings = ShardSettings::default();
        settings.sessions.messages_max = 2;
        let mut clients = Clients::with(settings);
        clients.connect(2, lasting().receives(2));
        clients.subscribe(2, "t", 2);
        clients.connect(3, clean());
        for number in 0..3 {
            clients.publish_as(3, (2, 7), "t", &number.to_string(), (false, Some(5)));
            clients.pubrel(3, 7);
        }
        clients.pubrec(2, 2);
        clients.leave(2, false);
        clients.each_restart(round);
        clients.pass(10_000);
        clients.connect(103, clean());
        for number in 3..6 {
            clients.publish(103, 2, "t", &number.to_string());
            clients.pubrel(103, 7);
        }
        let seen = clients.connect(102, lasting());
        // The first was received, the second may have been; the third never started.
        assert!(seen[1].starts_with("102: copy q2 #1 t 0"), "{seen:?}");
        assert_eq!(seen[2], "102: pubrel 2");
        assert!(!seen.iter().any(|line| line.contains("t 2")), "{seen:?}");
    }
}

#[test]
fn a_copy_of_quality_two_does_not_leave_before_its_record() {
    let mut clients = Clients::new();
    clients.connect(2, lasting());
    clients.subscribe(2, "t", 2);
    clients.connect(3, clean());
    let world = &mut clients.world;
    let publish = TopicPublish {
        packet_id: 7,
        qos: 2,
        retain: false,
        topic: b"t",
        properties: b"",
        expiry: None,
        payload: Body::Whole(b"x"),
    };
    let mut effects = Vec::new();
    let (now, from) = (world.now, ConnectionId(3));
    (world.shard).publish_topic(now, from, &publish, &mut world.log, &mut effects);
    let index = world.log.records.len() as u64;
    let waits = effects.iter().find_map(|effect| match effect {
        Effect::Session {
            after,
            output: SessionOutput::Copy(_),
            ..
        } => Some(*after),
        _ => None,
    });
    assert_eq!(waits, Some(index));
}

#[test]
fn a_copy_of_quality_zero_does_not_come_again_after_a_crash() {
    for filter in ["t", "$share/g/t"] {
        let mut clients = Clients::new();
        clients.connect(2, lasting());
        clients.subscribe(2, filter, 0);
        // It is in the journal for this one.
        clients.connect(4, lasting());
        clients.subscribe(4, "t", 1);
        clients.connect(3, clean());
        let before = clients.world.log.records.len();
        assert_eq!(clients.publish(3, 1, "t", "x").len(), 3);
        for kept in before..=clients.world.log.records.len() {
            let mut again = Clients::new();
            again.world.log = clients.world.log.clone();
            let checkpoint = None;
            again.world.crash(Crash { kept, checkpoint });
            let seen = again.connect(102, lasting());
            // What went out of the group waited for the record that says so.
            let may_come = filter != "t" && kept == before + 1;
            assert_eq!(seen.len(), 1 + usize::from(may_come), "{filter} {kept}");
        }
    }
}

#[test]
fn a_session_goes_on_when_its_connection_has_room_again() {
    let settings = ShardSettings {
        credit_bytes: 100,
        ..ShardSettings::default()
    };
    let mut clients = Clients::with(settings);
    clients.connect(2, clean());
    clients.subscribe(2, "t", 1);
    clients.connect(3, clean());
    let mut got = 0;
    for _ in 0..5 {
        let seen = clients.publish(3, 1, "t", "x");
        got += seen.iter().filter(|line| line.contains("copy")).count();
    }
    assert!(got < 5);
    for _ in 0..5 {
        let drained = Command::Drained {
            connection: ConnectionId(2),
            bytes: 1000,
        };
        got += lines(&clients.world.execute(drained)).len();
    }
    assert_eq!(got, 5);
}

#[test]
fn a_retained_message_that_the_disk_has_no_room_for_is_not_acknowledged_as_kept() {
    let mut clients = Clients::new();
    clients.connect(3, clean());
    let publish =
        |clients: &mut Clients, body| clients.publish_as(3, (1, 7), "r", body, (true, None));
    assert_eq!(publish(&mut clients, "before"), ["3: puback 7"]);
    clients.world.log.full = true;
    for body in ["after", ""] {
        assert_eq!(publish(&mut clients, body), ["3: puback 7 full"], "{body}");
        assert_eq!(clients.world.shard.retained_count(), 1);
    }
}
