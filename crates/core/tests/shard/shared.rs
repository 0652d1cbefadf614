//! Shared subscriptions of MQTT sessions (MQTT 5.0 §4.8.2).

use menzil_core::{Command, Request, ShardSettings};
use menzil_model::{ConnectionId, Table};

use crate::sessions::{Clients, clean, lasting, packet};
use crate::support::{Crash, Seen, key};

/// Members 2 and on, and client 1 hundred that publishes.
fn members(connects: &[bool]) -> Clients {
    let mut clients = Clients::new();
    clients.connect(50, clean());
    for (number, lasts) in (2..).zip(connects) {
        clients.connect(number, if *lasts { lasting() } else { clean() });
        clients.subscribe(number, "$share/g/t/#", 2);
    }
    clients
}

/// The client that each copy went to, and its body.
fn copies(seen: &[String]) -> Vec<(u64, String)> {
    let copies = seen.iter().filter(|line| line.contains("copy"));
    copies
        .map(|line| {
            let (to, rest) = line.split_once(':').unwrap();
            let body = rest.split(' ').nth(5).unwrap();
            (to.parse().unwrap(), body.to_owned())
        })
        .collect()
}

#[test]
fn each_message_goes_to_one_member_in_turn() {
    for lasts in [false, true] {
        for qos in 0..3 {
            let mut clients = members(&[lasts, lasts, lasts]);
            let mut got = Vec::new();
            for number in 0..6 {
                let seen = clients.publish(50, qos, "t/x", &number.to_string());
                clients.pubrel(50, 7);
                got.extend(copies(&seen).into_iter().map(|(to, _)| to));
            }
            assert_eq!(got, [2, 3, 4, 2, 3, 4]);
        }
    }
}

#[test]
fn a_session_has_its_own_copy_beside_that_of_its_group_with_the_identifier_of_each() {
    let mut clients = members(&[]);
    clients.connect(2, clean());
    clients.subscribe_as(2, "$share/g/t", 1, 5);
    clients.subscribe_as(2, "t", 1, 6);
    let mut seen = clients.publish(50, 1, "t", "x");
    seen.sort();
    assert!(seen[0].ends_with("ids [6]"), "{seen:?}");
    assert!(seen[1].ends_with("ids [5]"), "{seen:?}");
}

#[test]
fn a_member_that_takes_nothing_does_not_hoard() {
    let mut clients = members(&[]);
    for number in [2, 3] {
        clients.connect(number, clean().receives(2));
        clients.subscribe(number, "$share/g/t/#", 1);
    }
    let mut got = Vec::new();
    for number in 0..10 {
        let seen = clients.publish(50, 1, "t/x", &number.to_string());
        got.extend(copies(&seen));
        // Only the second one acknowledges.
        let own = seen.iter().filter(|line| line.starts_with("3: copy"));
        let mut ids: Vec<u16> = own.map(|line| packet(std::slice::from_ref(line))).collect();
        while let Some(id) = ids.pop() {
            let seen = clients.puback(3, id);
            got.extend(copies(&seen));
            ids.extend(seen.iter().map(|line| packet(std::slice::from_ref(line))));
        }
    }
    assert_eq!(got.len(), 10);
    let of_slow = got.iter().filter(|(to, _)| *to == 2).count();
    assert_eq!(of_slow, 2, "{got:?}");
    let bodies: Vec<String> = got.into_iter().map(|(_, body)| body).collect();
    assert!(bodies.is_sorted());
}

#[test]
fn what_nobody_takes_waits_for_whoever_comes_first_also_through_a_crash() {
    for round in 0..2 {
        let mut clients = members(&[true, true]);
        clients.leave(2, false);
        clients.leave(3, false);
        for number in 0..4 {
            let seen = clients.publish(50, 1 + number % 2, "t/x", &number.to_string());
            assert_eq!(copies(&seen), []);
            clients.pubrel(50, 7);
        }
        clients.publish(50, 0, "t/x", "of QoS 0");
        assert_eq!(clients.world.shard.counters().session_offline_dropped, 1);
        clients.each_restart(round);
        let seen = clients.connect(103, lasting());
        let all = ["0", "1", "2", "3"].map(|body| (103, body.to_owned()));
        assert_eq!(copies(&seen), all);
        assert!(!seen.iter().any(|line| line.ends_with("dup")), "{seen:?}");
    }
}

#[test]
fn packet_identifiers_of_what_was_lent_stay_over_a_restart_and_nobody_else_gets_it() {
    for round in 0..2 {
        let mut clients = members(&[true, true]);
        let mut before = Vec::new();
        for number in 0..4 {
            let seen = clients.publish(50, 2, "t/x", &number.to_string());
            clients.pubrel(50, 7);
            before.push((copies(&seen)[0].clone(), packet(&seen)));
        }
        clients.each_restart(round);
        for client in [2, 3] {
            let seen = clients.connect(100 + client, lasting());
            let seen = &seen[1..];
            let own = before.iter().filter(|((to, _), _)| *to == client);
            let own: Vec<_> = own.map(|((_, body), id)| (body.clone(), *id)).collect();
            let got = copies(seen).into_iter().zip(seen);
            let got: Vec<_> = got
                .map(|((_, body), line)| (body, packet(std::slice::from_ref(line))))
                .collect();
            assert_eq!(got, own);
            assert!(seen.iter().all(|line| line.ends_with("dup")), "{seen:?}");
            for (_, id) in own {
                clients.pubrec(100 + client, id);
                clients.pubcomp(100 + client, id);
            }
        }
        clients.each_restart(round);
        assert_eq!(clients.connect(202, lasting()).len(), 1);
        assert_eq!(clients.connect(203, lasting()).len(), 1);
        let queue = clients.world.shard.queue_summary(b"mqtt.share/g/t/#");
        let queue = queue.unwrap();
        assert_eq!((queue.ready, queue.unsettled), (0, 0));
    }
}

#[test]
fn when_a_session_ends_the_others_get_what_it_did_not_acknowledge_first() {
    for (lasts, round) in [(false, 0), (true, 0), (true, 1)] {
        let mut clients = members(&[]);
        clients.connect(2, if lasts { lasting() } else { clean() });
        clients.subscribe(2, "$share/g/t/#", 2);
        for (number, qos) in (0..).zip([1, 1, 2]) {
            clients.publish(50, qos, "t/x", &number.to_string());
            clients.pubrel(50, 7);
        }
        clients.connect(3, lasting().receives(1));
        clients.subscribe(3, "$share/g/t/#", 2);
        let seen = clients.publish(50, 1, "t/x", "3");
        assert_eq!(copies(&seen), [(2, "3".to_owned())]);
        let seen = clients.publish(50, 1, "t/x", "4");
        assert_eq!(copies(&seen), [(3, "4".to_owned())]);
        let last = packet(&seen);
        let seen = clients.publish(50, 1, "t/x", "5");
        assert_eq!(copies(&seen), [(2, "5".to_owned())]);
        if lasts {
            clients.each_restart(round);
            clients.connect(102, clean());
            let seen = clients.connect(103, lasting().receives(1));
            assert_eq!(copies(&seen)[0], (103, "4".to_owned()));
        } else {
            assert_eq!(copies(&clients.leave(2, false)), []);
        }
        let client = if lasts { 103 } else { 3 };
        let mut id = last;
        let mut got = Vec::new();
        loop {
            let seen = clients.puback(client, id);
            let Some((_, body)) = copies(&seen).pop() else {
                break;
            };
            assert!(!seen[0].ends_with("dup"), "to this client it is new");
            got.push(body);
            id = packet(&seen);
        }
        // Without the one of QoS 2, which was sent (MQTT-4.8.2-5).
        assert_eq!(got, ["0", "1", "3", "5"]);
    }
}

#[test]
fn a_group_ends_with_its_last_member_and_its_queue_with_what_is_in_it() {
    for round in 0..2 {
        let mut clients = members(&[true, false]);
        clients.leave(2, false);
        clients.request(
            3,
            menzil_core::SessionRequest::Unsubscribe {
                packet_id: 1,
                filters: vec!["$share/g/t/#".into()],
            },
        );
        clients.publish(50, 1, "t/x", "0");
        let queue = || b"mqtt.share/g/t/#";
        assert_eq!(clients.world.shard.queue_summary(queue()).unwrap().ready, 1);
        clients.each_restart(round);
        clients.connect(150, clean());
        clients.connect(102, clean());
        assert_eq!(clients.world.shard.queue_summary(queue()), None);
        assert_eq!(
            clients.publish(150, 1, "t/x", "0"),
            ["150: puback 7 no match"]
        );
        // One that only sessions had which a crash ends goes with them.
        clients.subscribe(102, "$share/g/t/#", 1);
        assert!(clients.world.shard.queue_summary(queue()).is_some());
        clients.each_restart(round);
        assert_eq!(clients.world.shard.queue_summary(queue()), None);
    }
}

#[test]
fn consumers_of_amqp_share_what_waits_and_nobody_else_may_touch_the_queue() {
    let mut clients = members(&[true]);
    clients.leave(2, false);
    clients.publish(50, 1, "t/x", "0");
    clients.publish(50, 1, "t/x", "1");
    let name = "mqtt.share/g/t/#";
    let got = clients.world.get(name);
    assert!(
        matches!(got.as_slice(), [Seen::Got { body, redelivered: false, .. }] if body == "0"),
        "{got:?}"
    );
    clients.world.requeue(key(1, 1), 1);
    let seen = clients.connect(102, lasting());
    assert_eq!(copies(&seen).len(), 2);
    let world = &mut clients.world;
    let ends = (name, "amq.topic", "x");
    let refused = world.bind_with(key(1, 1), ends, Table::empty());
    assert!(matches!(refused.as_slice(), [Seen::Refused(_)]));
    world.open(key(1, 1));
    let refused = world.declare_with("mqtt.share/x", true, Table::empty());
    assert!(matches!(refused.as_slice(), [Seen::Refused(_)]));
    world.open(key(1, 1));
    let delete = Request::QueueDelete {
        queue: crate::support::name(name),
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    let refused = world.request(key(1, 1), delete);
    assert!(matches!(refused.as_slice(), [Seen::Refused(_)]));
    world.open(key(1, 1));
    assert!(clients.world.publish("", name, "x").is_empty());
    let queue = clients.world.shard.queue_summary(name.as_bytes()).unwrap();
    assert_eq!((queue.ready, queue.unsettled), (0, 2));
}

#[test]
fn a_session_that_no_crash_outlives_loses_nothing_of_qos_1_for_the_others() {
    for round in 0..2 {
        let mut clients = members(&[false, true]);
        clients.leave(3, false);
        for (number, qos) in (0..).zip([1, 2, 1]) {
            let seen = clients.publish(50, qos, "t/x", &number.to_string());
            assert_eq!(copies(&seen).len(), 1);
            clients.pubrel(50, 7);
        }
        clients.each_restart(round);
        let seen = clients.connect(103, lasting());
        // That of QoS 2 was sent, and its session is gone.
        let bodies = copies(&seen).into_iter().map(|(_, body)| body);
        assert_eq!(bodies.collect::<Vec<_>>(), ["0", "2"]);
    }
}

#[test]
fn every_prefix_of_the_journal_has_each_message_once() {
    let mut clients = members(&[true, true]);
    clients.leave(2, false);
    clients.leave(3, false);
    let start = clients.world.log.records.len();
    for number in 0..3 {
        clients.publish(50, 2, "t/x", &number.to_string());
        clients.pubrel(50, 7);
    }
    let published = clients.world.log.records.len();
    let seen = clients.connect(102, lasting().receives(2));
    assert_eq!(copies(&seen).len(), 2);
    clients.connect(103, lasting());
    let id = packet(&seen);
    clients.pubrec(102, id);
    let end = clients.world.log.records.len();
    for kept in start..=end {
        let mut again = Clients::new();
        again.world.log = clients.world.log.clone();
        let checkpoint = None;
        again.world.crash(Crash { kept, checkpoint });
        let mut bodies = Vec::new();
        for client in [202, 203] {
            let seen = again.connect(client, lasting());
            bodies.extend(copies(&seen).into_iter().map(|(_, body)| body));
            bodies
                .extend((seen.iter().any(|line| line.contains("pubrel"))).then(|| "1".to_owned()));
        }
        bodies.sort();
        if kept >= published {
            assert_eq!(bodies, ["0", "1", "2"], "{kept}");
        }
        bodies.dedup();
        assert!(bodies.len() <= 3);
    }
}

#[test]
fn a_backlog_that_is_on_disk_is_shared_out() {
    let settings = ShardSettings {
        content_bytes_max: 1,
        index_page_entries: 8,
        ..ShardSettings::default()
    };
    let mut clients = Clients::with(settings);
    clients.world.checks_each = false;
    clients.connect(50, clean());
    for client in [2, 3] {
        clients.connect(client, lasting());
        clients.subscribe(client, "$share/g/t/#", 1);
        clients.leave(client, false);
    }
    for number in 0..500 {
        clients.publish(50, 1, "t/x", &number.to_string());
    }
    clients.world.restart();
    let mut got = Vec::new();
    let mut waiting: Vec<String> = Vec::new();
    for client in [102, 103] {
        waiting.extend(clients.connect(client, lasting()));
    }
    while let Some(line) = waiting.pop() {
        if !line.contains("copy") {
            continue;
        }
        let (to, body) = copies(std::slice::from_ref(&line)).pop().unwrap();
        got.push(body);
        waiting.extend(clients.puback(to, packet(std::slice::from_ref(&line))));
        waiting.extend(crate::sessions::lines(&clients.world.execute(
            Command::Drained {
                connection: ConnectionId(to),
                bytes: 1 << 10,
            },
        )));
    }
    got.sort();
    got.dedup();
    assert_eq!(got.len(), 500);
    clients.world.shard.check_invariants();
}
