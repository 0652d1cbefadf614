//! The packet sequences of the Eclipse Mosquitto project, as far as a codec alone can know. They
//! are not ours and stay out of the repository: `MENZIL_MQTT_SEQUENCES` names the folder with
//! their JSON files, and without it nothing is tested here.
//!
//! A sequence whose connection stays open has only packets that read. Of one that is closed the
//! codec refuses a packet with the reason that the DISCONNECT has, or what closed it takes memory
//! and is the protocol session's: those are named below.
#![cfg(test)]

use menzil_mqtt::codec::{Decoded, ReasonCode, Rules, Version, Violation, decode, decode_connect};
use serde_json::Value;

/// What happened to what a client sends in one sequence.
#[derive(Debug, PartialEq)]
enum Outcome {
    AllRead,
    Refused(Violation),
    Unfinished,
}

struct Sequence {
    name: String,
    /// `None` until CONNECT.
    version: Option<Version>,
    sent: Vec<Vec<u8>>,
    /// The reason of the DISCONNECT, the code of the CONNACK where it is refused, or 0.
    expected: u8,
    is_closed: bool,
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn sequence(group: &Value, test: &Value) -> Sequence {
    let version = match test["ver"].as_u64().unwrap_or(4) {
        3 => Version::V3_1,
        4 => Version::V3_1_1,
        _ => Version::V5,
    };
    let (mut sent, mut expected) = (Vec::new(), 0);
    for step in test["msgs"].as_array().unwrap() {
        let payload = || hex(step["payload"].as_str().unwrap());
        match step["type"].as_str().unwrap() {
            "send" => sent.push(payload()),
            "recv" => match payload().as_slice() {
                [0xE0, 1, code] => expected = *code,
                [0x20, _, _, code, ..] if *code > 0 => expected = *code,
                _ => {}
            },
            _ => {}
        }
    }
    Sequence {
        name: format!(
            "{} {}",
            group["group"].as_str().unwrap().trim(),
            test["name"].as_str().unwrap()
        ),
        version: test["connect"].as_bool().unwrap_or(true).then_some(version),
        sent,
        expected,
        is_closed: test["expect_disconnect"].as_bool().unwrap_or(true),
    }
}

/// Reads all that is sent, in pieces of that many bytes.
fn play(sequence: &Sequence, size: usize) -> Outcome {
    let rules = Rules::default();
    let bytes: Vec<u8> = sequence.sent.concat();
    let (mut version, mut kept) = (sequence.version, Vec::new());
    for piece in bytes.chunks(size) {
        kept.extend_from_slice(piece);
        loop {
            let (taken, now) = match version {
                None => match decode_connect(&kept, &rules) {
                    Ok(Decoded::Packet(connect, taken)) => (taken, Some(connect.version)),
                    Ok(Decoded::Incomplete(needed)) => {
                        assert!(needed > kept.len());
                        break;
                    }
                    Err(violation) => return Outcome::Refused(violation),
                },
                Some(of) => match decode(&kept, of, &rules) {
                    Ok(Decoded::Packet(_, taken)) => (taken, version),
                    Ok(Decoded::Incomplete(needed)) => {
                        assert!(needed > kept.len());
                        break;
                    }
                    Err(violation) => return Outcome::Refused(violation),
                },
            };
            version = now;
            kept.drain(..taken);
        }
    }
    if kept.is_empty() {
        Outcome::AllRead
    } else {
        Outcome::Unfinished
    }
}

/// What is wrong with an outcome; `Ok(false)` where the session has to do the rest.
fn judge(sequence: &Sequence, outcome: &Outcome) -> Result<bool, String> {
    match outcome {
        Outcome::AllRead if !sequence.is_closed => Ok(true),
        Outcome::AllRead => Ok(false),
        Outcome::Unfinished => Err("unfinished".to_owned()),
        Outcome::Refused(violation) if !sequence.is_closed => Err(format!("refused: {violation}")),
        Outcome::Refused(violation) => {
            let is_before_connect = violation.version.is_none() || sequence.version.is_none();
            let told = violation.reason();
            let is_right = match (violation.version, sequence.expected) {
                (_, 0) if is_before_connect => true,
                (None, 1) => told == ReasonCode::UnsupportedVersion,
                (Some(Version::V5), 0) => !violation.wants_answer(),
                (Some(Version::V5), code) => violation.wants_answer() && told.number() == code,
                (_, code) => code == 0,
            };
            if is_right {
                Ok(true)
            } else {
                Err(format!(
                    "0x{:02X} meant, {:02X} told: {violation}",
                    sequence.expected,
                    told.number()
                ))
            }
        }
    }
}

/// What takes memory of what came before, or an opinion on what is allowed.
const OF_THE_SESSION: &[&str] = &[
    " FLOW QoS ",
    "topic alias > max topic alias",
    " DISCONNECT E0 long",
    " DISCONNECT E0 valid",
    " DISCONNECT E0 RC=0x",
    " DISCONNECT E0 non-zero session expiry",
    " DISCONNECT ALLOWED PROPERTIES E0 with ",
    " CONNECT 10 empty client ID",
    " CONNECT tiny max packet",
    " unsupported authentication method",
];

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read data")]
fn every_sequence_reads_or_is_refused_as_its_answer_says() {
    let Ok(folder) = std::env::var("MENZIL_MQTT_SEQUENCES") else {
        eprintln!("left out: MENZIL_MQTT_SEQUENCES does not name the folder of the sequences");
        return;
    };
    let (mut count, mut refused, mut rest, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        let groups: Value = serde_json::from_slice(&text).unwrap();
        for group in groups.as_array().unwrap() {
            if group["disable"].as_bool().unwrap_or(false) {
                continue;
            }
            for test in group["tests"].as_array().unwrap() {
                let sequence = sequence(group, test);
                let outcome = play(&sequence, usize::MAX);
                count += 1;
                refused += usize::from(matches!(outcome, Outcome::Refused(_)));
                for size in [1, 2, 5] {
                    assert_eq!(
                        outcome,
                        play(&sequence, size),
                        "{} by {size}",
                        sequence.name
                    );
                }
                match judge(&sequence, &outcome) {
                    Ok(true) => {}
                    Ok(false) => rest.push(sequence.name),
                    Err(why) => wrong.push(format!("{}: {why}", sequence.name)),
                }
            }
        }
    }
    eprintln!(
        "{count} sequences, {refused} refused, {} for the session",
        rest.len()
    );
    assert!(
        wrong.is_empty(),
        "{} are judged wrongly:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    rest.retain(|name| !OF_THE_SESSION.iter().any(|part| name.contains(part)));
    assert!(
        rest.is_empty(),
        "{} are left to the session:\n{}",
        rest.len(),
        rest.join("\n")
    );
}
