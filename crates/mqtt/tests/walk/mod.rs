//! Reads a whole conversation of one side, as corpus, mutations and the fuzzer do.
//!
//! The first byte says who speaks what: 0 begins with CONNECT; 3, 4 and 5 are levels behind it,
//! with 0x80 what a server sends. Whatever reads is written, and has to read the same again.

use menzil_mqtt::codec::{
    Decoded, Packet, Peer, Rules, Version, decode, decode_connect, decode_publish_start,
};

/// What came of it, in words, with the input in pieces of that many bytes.
pub(crate) fn walk(input: &[u8], size: usize) -> Vec<String> {
    let Some((&head, input)) = input.split_first() else {
        return Vec::new();
    };
    let rules = Rules {
        peer: if head & 0x80 == 0 {
            Peer::Client
        } else {
            Peer::Server
        },
        packet_bytes_max: 1 << 20,
        has_auth: true,
        ..Rules::default()
    };
    let level = head & 0x7F;
    let version = Version::ALL
        .into_iter()
        .find(|version| version.level() == level);
    let mut walk = Walk {
        version,
        rules,
        kept: Vec::new(),
        log: Vec::new(),
    };
    for piece in input.chunks(size.max(1)) {
        walk.kept.extend_from_slice(piece);
        if !walk.advance() {
            return walk.log;
        }
    }
    walk.log.push(format!("{} bytes left", walk.kept.len()));
    walk.log
}

struct Walk {
    version: Option<Version>,
    rules: Rules,
    kept: Vec<u8>,
    log: Vec<String>,
}

impl Walk {
    /// Reads what is whole; false where the connection ends.
    fn advance(&mut self) -> bool {
        loop {
            let Self {
                version,
                rules,
                kept,
                log,
            } = self;
            let step = match *version {
                None => connect(kept, rules, version, log),
                Some(version) => packet(kept, version, rules, log),
            };
            match step {
                Ok(Some(taken)) => drop(self.kept.drain(..taken)),
                Ok(None) => return true,
                Err(why) => {
                    self.log.push(why);
                    return false;
                }
            }
        }
    }
}

fn connect(
    kept: &[u8],
    rules: &Rules,
    version: &mut Option<Version>,
    log: &mut Vec<String>,
) -> Result<Option<usize>, String> {
    let (connect, taken) = match decode_connect(kept, rules).map_err(|why| why.to_string())? {
        Decoded::Packet(connect, taken) => (connect, taken),
        Decoded::Incomplete(needed) => {
            assert!(needed > kept.len());
            return Ok(None);
        }
    };
    let mut again = Vec::new();
    connect.encode(&mut again).unwrap();
    assert_eq!(
        decode_connect(&again, rules),
        Ok(Decoded::Packet(connect, again.len()))
    );
    *version = Some(connect.version);
    log.push(format!("{connect:?}"));
    Ok(Some(taken))
}

fn packet(
    kept: &[u8],
    version: Version,
    rules: &Rules,
    log: &mut Vec<String>,
) -> Result<Option<usize>, String> {
    let start = decode_publish_start(kept, version, rules);
    match decode(kept, version, rules) {
        Ok(Decoded::Packet(packet, taken)) => {
            if let Packet::Publish(publish) = packet {
                let Ok(Decoded::Packet(start, head_bytes)) = start else {
                    panic!("{start:?} of a whole packet");
                };
                assert_eq!(start.publish, publish);
                assert_eq!(head_bytes + start.payload_bytes, taken);
                assert_eq!(start.payload_bytes, publish.payload.len());
            }
            let mut again = Vec::new();
            assert_eq!(packet.encode(version, &mut again), Ok(again.len()));
            let read = decode(&again, version, rules);
            assert_eq!(read, Ok(Decoded::Packet(packet.clone(), again.len())));
            log.push(describe(&packet));
            Ok(Some(taken))
        }
        Ok(Decoded::Incomplete(needed)) => {
            assert!(needed > kept.len());
            match start {
                Ok(Decoded::Packet(start, _)) => {
                    assert!(start.publish.payload.len() < start.payload_bytes);
                }
                Ok(Decoded::Incomplete(needed)) => assert!(needed > kept.len()),
                // Refused before its end has come; the log is of what a whole packet says.
                Err(_) => {}
            }
            Ok(None)
        }
        Err(why) => {
            if start != Err(why) {
                assert!(
                    kept.first().is_some_and(|first| first >> 4 != 3),
                    "{why} against {start:?}"
                );
            }
            Err(format!("{} {why}", why.reason().name()))
        }
    }
}

/// With everything that iterators give.
fn describe(packet: &Packet<'_>) -> String {
    let mut inside = String::new();
    if let Packet::Subscribe(packet) = packet {
        let all: Vec<_> = packet.subscriptions.iter().collect();
        assert_eq!(all.len(), packet.subscriptions.count());
        inside = format!("{all:?}");
    } else if let Packet::Unsubscribe(packet) = packet {
        let all: Vec<_> = packet.filters.iter().collect();
        assert_eq!(all.len(), packet.filters.count());
        inside = format!("{all:?}");
    } else if let Packet::Publish(packet) = packet {
        let all: Vec<_> = packet.properties.iter().collect();
        let mut written = Vec::new();
        for property in &all {
            property.write(&mut written);
        }
        assert_eq!(written, packet.properties.as_bytes());
        inside = format!("{all:?}");
    }
    format!("{packet:?} {inside}")
}
