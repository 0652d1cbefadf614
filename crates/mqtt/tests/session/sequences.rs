//! The packet sequences of the Eclipse Mosquitto project, all of each: what a client sends, what
//! it gets, and whether its connection stays. They are not ours and stay out of the repository:
//! `MENZIL_MQTT_SEQUENCES` names the folder with their JSON files, and without it nothing is
//! tested here.

use std::sync::Arc;

use menzil_mqtt::MqttConfig;
use serde_json::Value;

use crate::world::World;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn field(bytes: &[u8]) -> Vec<u8> {
    let mut out = (bytes.len() as u16).to_be_bytes().to_vec();
    out.extend_from_slice(bytes);
    out
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    assert!(body.len() < 0x4000);
    let mut out = vec![first];
    if body.len() < 0x80 {
        out.push(body.len() as u8);
    } else {
        out.extend([body.len() as u8 | 0x80, (body.len() >> 7) as u8]);
    }
    out.extend_from_slice(body);
    out
}

fn connect_packet(client_id: &str, level: u8) -> Vec<u8> {
    let mut body = field(if level == 3 { b"MQIsdp" } else { b"MQTT" });
    body.extend([level, 2, 0, 60]);
    if level == 5 {
        body.push(0);
    }
    body.extend(field(client_id.as_bytes()));
    packet(0x10, &body)
}

/// A CONNACK is as wanted if flag and code are.
fn is_as_wanted(got: &[u8], wanted: &[u8]) -> bool {
    if wanted.first() == Some(&0x20) && got.first() == Some(&0x20) {
        let behind = |packet: &[u8]| {
            let at = packet.iter().skip(1).position(|byte| *byte < 0x80).unwrap() + 2;
            packet.get(at..at + 2).map(<[u8]>::to_vec)
        };
        return behind(got) == behind(wanted);
    }
    got == wanted
}

/// Takes the first packet of what came.
fn first_packet(came: &mut Vec<u8>) -> Vec<u8> {
    let (mut length, mut at) = (0, 1);
    loop {
        let Some(digit) = came.get(at) else {
            return std::mem::take(came);
        };
        length |= usize::from(digit & 0x7F) << (7 * (at - 1));
        at += 1;
        if digit & 0x80 == 0 {
            break;
        }
    }
    let end = (at + length).min(came.len());
    came.drain(..end).collect()
}

struct Player {
    world: World,
    config: Arc<MqttConfig>,
    peer: u64,
    came: Vec<u8>,
}

impl Player {
    fn send(&mut self, bytes: &[u8], size: usize) {
        for piece in bytes.chunks(size) {
            self.world.send(self.peer, piece);
        }
    }

    fn expect(&mut self, wanted: &[u8], what: &str) -> Result<(), String> {
        self.came.extend(self.world.take(self.peer));
        // More than one packet may be wanted at once.
        let mut rest = wanted.to_vec();
        while !rest.is_empty() {
            let wanted = first_packet(&mut rest);
            let got = first_packet(&mut self.came);
            if !is_as_wanted(&got, &wanted) {
                return Err(format!("{what}: got {got:02X?}, wanted {wanted:02X?}"));
            }
        }
        Ok(())
    }

    fn helper_publish(&mut self, step: &Value) {
        let qos = step["qos"].as_u64().unwrap() as u8;
        let helper = self.world.accept(&self.config);
        self.world.send(helper, &connect_packet("helper", 4));
        let mut body = field(step["topic"].as_str().unwrap().as_bytes());
        if qos > 0 {
            body.extend([0, 1]);
        }
        body.extend(step["payload"].as_str().unwrap().bytes());
        self.world.send(helper, &packet(0x30 | qos << 1, &body));
        if qos == 2 {
            self.world.send(helper, &[0x62, 2, 0, 1]);
        }
        let expected: &[u8] = match qos {
            0 => &[],
            1 => &[0x40, 2, 0, 1],
            _ => &[0x50, 2, 0, 1, 0x70, 2, 0, 1],
        };
        let got = self.world.take(helper);
        assert_eq!(got, [&[0x20, 2, 0, 0], expected].concat(), "the helper");
        self.world.hang_up(helper);
    }
}

/// Plays one, with what the client sends in pieces of that size.
fn play(name: &str, test: &Value, size: usize) -> Result<(), String> {
    let level = test["ver"].as_u64().unwrap_or(4) as u8;
    // What the sequences take for granted; docs/compatibility.md.
    let config = Arc::new(MqttConfig {
        reason_strings: false,
        optional_codes: false,
        lets_subscription_ids_pass: true,
        ..MqttConfig::default()
    });
    let mut world = World::new();
    let peer = world.accept(&config);
    let mut player = Player {
        world,
        config,
        peer,
        came: Vec::new(),
    };
    if test["connect"].as_bool().unwrap_or(true) {
        player.send(&connect_packet(name, level), size);
        player.expect(&[0x20, 2, 0, 0], "CONNACK")?;
    }
    for step in test["msgs"].as_array().unwrap() {
        let payload = || hex(step["payload"].as_str().unwrap());
        match step["type"].as_str().unwrap() {
            "publish" => player.helper_publish(step),
            "send" => player.send(&payload(), size),
            _ => player.expect(&payload(), step["comment"].as_str().unwrap_or("reply"))?,
        }
    }
    let should_close = test["expect_disconnect"].as_bool().unwrap_or(true);
    if should_close {
        player.came.extend(player.world.take(peer));
        if !player.came.is_empty() {
            return Err(format!("more came: {:02X?}", player.came));
        }
        if !player.world.is_closed(peer) {
            return Err("still open".to_owned());
        }
        return Ok(());
    }
    player.send(&[0xC0, 0], size);
    player.expect(&[0xD0, 0], "PINGRESP")
}

#[test]
fn all_are_as_in_mosquitto() {
    let Ok(folder) = std::env::var("MENZIL_MQTT_SEQUENCES") else {
        eprintln!("skipped: MENZIL_MQTT_SEQUENCES names no folder");
        return;
    };
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    let (mut played, mut wrong) = (0, Vec::new());
    for file in files {
        let groups: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for group in groups.as_array().unwrap() {
            if group["disable"].as_bool().unwrap_or(false) {
                continue;
            }
            for test in group["tests"].as_array().unwrap() {
                let name = |of: &Value, what: &str| of[what].as_str().unwrap().to_owned();
                let name = format!("{} {}", name(group, "group"), name(test, "name"));
                for size in [usize::MAX, 1] {
                    if let Err(what) = play(&name, test, size) {
                        wrong.push(format!("{} | {name} | {what}", file.display()));
                        break;
                    }
                }
                played += 1;
            }
        }
    }
    assert!(played > 1000, "{played} played");
    let list = wrong.join("\n");
    assert!(wrong.is_empty(), "{} of {played}:\n{list}", wrong.len());
}
