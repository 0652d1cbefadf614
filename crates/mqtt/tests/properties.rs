//! Properties against a reader that is as plain as can be.
#![cfg(test)]

use menzil_mqtt::codec::{Decoded, Packet, Rules, Version, decode};
use proptest::prelude::*;

fn field(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes()[..], bytes].concat()
}

fn publish(properties: &[u8]) -> Vec<u8> {
    let length = u8::try_from(properties.len()).unwrap();
    let body = [&[0, 1, b'a', length][..], properties, b"payload"].concat();
    [&[0x30, u8::try_from(body.len()).unwrap()][..], &body].concat()
}

/// Identifier and value of each property of a PUBLISH, or the reason code that is due.
fn plainly(mut bytes: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, u8> {
    let mut all: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut due = 0;
    while let Some((&id, rest)) = bytes.split_first() {
        let pair = |at: usize| -> Option<usize> {
            Some(at + 2 + usize::from(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?])))
        };
        let integer = || {
            let end = rest.iter().take(4).position(|byte| byte & 0x80 == 0)?;
            (end == 0 || rest[end] != 0).then_some(end + 1)
        };
        let length = match id {
            1 | 23 | 25 | 36 | 37 | 40 | 41 | 42 => Some(1),
            19 | 33 | 34 | 35 => Some(2),
            2 | 17 | 24 | 39 => Some(4),
            11 => integer(),
            3 | 8 | 9 | 18 | 21 | 22 | 26 | 28 | 31 => pair(0),
            38 => pair(0).and_then(pair),
            _ => None,
        };
        let value = rest.get(..length.ok_or(0x81)?).ok_or(0x81)?;
        let texts: &[&[u8]] = match id {
            3 | 8 | 18 | 21 | 26 | 28 | 31 => &[&value[2..]],
            38 => &[&value[2..pair(0).unwrap()], &value[pair(0).unwrap() + 2..]],
            _ => &[],
        };
        for text in texts {
            let text = str::from_utf8(text).map_err(|_| 0x81)?;
            let is_odd = |c: char| {
                c.is_control()
                    || u32::from(c) & 0xFFFE == 0xFFFE
                    || ('\u{FDD0}'..='\u{FDEF}').contains(&c)
            };
            if text.chars().any(is_odd) {
                return Err(0x81);
            }
        }
        let is_zero = value.iter().all(|byte| *byte == 0);
        let flaw = if ![1, 2, 3, 8, 9, 11, 35, 38].contains(&id)
            || (id != 38 && all.iter().any(|(of, _)| *of == id))
            || (id == 1 && value[0] > 1)
            || (id == 8 && (value.len() == 2 || value[2..].iter().any(|byte| b"+#".contains(byte))))
        {
            0x82
        } else if id == 35 && is_zero {
            0x94
        } else if id == 11 && is_zero {
            0x81
        } else {
            0
        };
        if due == 0 {
            due = flaw;
        }
        all.push((id, value.to_vec()));
        bytes = &rest[value.len()..];
    }
    if due == 0 && all.iter().any(|(id, _)| *id == 22) {
        due = 0x82;
    }
    if due == 0 { Ok(all) } else { Err(due) }
}

/// Bytes that are often properties.
fn near_properties() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..4).prop_map(|bytes| field(&bytes));
    let plain = || "[a-c+#é]{0,3}".prop_map(|text| field(text.as_bytes()));
    let some = prop_oneof![
        (0..45_u8, bytes()).prop_map(|(id, value)| [vec![id], value].concat()),
        (prop::sample::select(vec![3, 8, 9]), plain())
            .prop_map(|(id, value)| [vec![id], value].concat()),
        (plain(), plain()).prop_map(|(name, value)| [vec![38], name, value].concat()),
        (0..3_u8).prop_map(|value| vec![1, value]),
        (0..2_u8).prop_map(|value| vec![35, 0, value]),
        any::<[u8; 4]>().prop_map(|value| [vec![2], value.to_vec()].concat()),
        proptest::collection::vec(prop::sample::select(vec![0, 1, 0x7F, 0x80, 0xFF]), 1..6)
            .prop_map(|value| [vec![11], value].concat()),
        proptest::collection::vec(any::<u8>(), 0..5),
    ];
    proptest::collection::vec(some, 0..5).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn properties_read_as_a_plain_reader_reads_them(bytes in near_properties()) {
        let packet = publish(&bytes);
        match (decode(&packet, Version::V5, &Rules::default()), plainly(&bytes)) {
            (Ok(Decoded::Packet(Packet::Publish(read), _)), Ok(plain)) => {
                let mut walked = Vec::new();
                for property in &read.properties {
                    let mut written = Vec::new();
                    property.write(&mut written);
                    walked.push((written.remove(0), written));
                }
                prop_assert_eq!(walked, plain);
            }
            (Err(violation), Err(code)) => {
                prop_assert_eq!(violation.reason().number(), code, "{}", violation);
            }
            (read, plain) => panic!("{bytes:02x?}: {read:?} against {plain:02x?}"),
        }
    }
}
