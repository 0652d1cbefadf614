//! The method table: the generated source is current, and every method comes back.
#![cfg(test)]

use menzil_amqp::method::{MethodError, MethodId, Sender};
use menzil_amqp::methods::{METHODS, Method};
use proptest::prelude::*;

#[path = "../generator/methods.rs"]
mod generator;

#[test]
fn the_source_is_what_the_generator_makes_of_the_table() {
    let generated = generator::generate(include_str!("../methods.txt"));
    assert!(
        generated == include_str!("../src/methods.rs"),
        "src/methods.rs is out of date: see its first lines"
    );
}

#[test]
fn the_table_has_every_method_once() {
    assert_eq!(METHODS.len(), 66);
    for known in &METHODS {
        let same = METHODS.iter().filter(|other| other.id == known.id);
        assert_eq!(same.count(), 1, "{}", known.name);
        assert_eq!(known.id.to_string(), known.name);
    }
    let content: Vec<&str> = METHODS
        .iter()
        .filter(|method| method.content)
        .map(|method| method.name)
        .collect();
    let expected = [
        "basic.publish",
        "basic.return",
        "basic.deliver",
        "basic.get-ok",
    ];
    assert_eq!(content, expected);
    // Who gets an answer that may be an error is the client.
    let asked = METHODS
        .iter()
        .filter(|method| method.synchronous && method.sender == Sender::Server);
    let names: Vec<&str> = asked.map(|method| method.name).collect();
    assert_eq!(
        names,
        ["connection.start", "connection.secure", "connection.tune"]
    );
}

#[test]
fn an_unknown_method_is_an_error() {
    for (class, method) in [(0, 0), (10, 12), (60, 200), (65_535, 65_535)] {
        let decoded = Method::decode(MethodId { class, method }, b"");
        assert_eq!(decoded, Err(MethodError::Unknown));
    }
}

/// Reads a method from bytes as if they were its fields, made valid by the table's own types.
fn fields(known: &str, seed: &mut impl FnMut() -> u64) -> Vec<u8> {
    let line = include_str!("../methods.txt");
    let mut class = "";
    for words in line
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
    {
        match words.as_slice() {
            ["class", _, name] => class = name,
            [_, name, _, rest @ ..] if known == format!("{class}.{name}") => {
                return encode_fields(rest, seed);
            }
            _ => {}
        }
    }
    panic!("no line for {known}");
}

fn encode_fields(words: &[&str], seed: &mut impl FnMut() -> u64) -> Vec<u8> {
    let (mut out, mut bits) = (Vec::new(), 0_u32);
    let mut flags = 0_u8;
    for word in words {
        let Some((_, kind)) = word.split_once(':') else {
            continue;
        };
        if kind == "bit" {
            flags |= u8::from(seed().is_multiple_of(2)) << bits;
            bits += 1;
            continue;
        }
        if bits > 0 {
            out.push(flags);
            (bits, flags) = (0, 0);
        }
        let number = seed().to_be_bytes();
        let text = &b"some text of a field"[..usize::from(number[0] % 20)];
        match kind {
            "octet" => out.extend(&number[..1]),
            "short" => out.extend(&number[..2]),
            "long" => out.extend(&number[..4]),
            "longlong" => out.extend(&number),
            "shortstr" | "text" => {
                out.push(u8::try_from(text.len()).unwrap());
                out.extend(text);
            }
            "longstr" => {
                out.extend([0, 0, 0, u8::try_from(text.len()).unwrap()]);
                out.extend(text);
            }
            "table" => out.extend(b"\0\0\0\x04\x01kt\x01"),
            other => panic!("{other}"),
        }
    }
    if bits > 0 {
        out.push(flags);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_method_comes_back(seed: u64) {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.rotate_right(8)
        };
        for known in &METHODS {
            let fields = fields(known.name, &mut next);
            let method = Method::decode(known.id, &fields).unwrap();
            prop_assert_eq!(method.id(), known.id);
            let mut written = Vec::new();
            method.write(&mut written);
            prop_assert_eq!(&written[4..], &fields);
            let mut longer = fields.clone();
            longer.push(0);
            prop_assert!(Method::decode(known.id, &longer).is_err());
            if !fields.is_empty() {
                prop_assert!(Method::decode(known.id, &fields[..fields.len() - 1]).is_err());
            }
        }
    }

    #[test]
    fn any_bytes_are_a_method_or_an_error(
        index in 0..METHODS.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let id = METHODS[index].id;
        if let Ok(method) = Method::decode(id, &bytes) {
            let mut written = Vec::new();
            method.write(&mut written);
            let again = Method::decode(id, &written[4..]).unwrap();
            prop_assert_eq!(method, again);
        }
    }
}
