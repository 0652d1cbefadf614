//! A whole conversation of one side, at once and in pieces; what reads is written and reads again.
#![no_main]

#[path = "../../tests/walk/mod.rs"]
mod walk;

use libfuzzer_sys::fuzz_target;
use walk::walk;

fuzz_target!(|input: &[u8]| {
    assert_eq!(walk(input, input.len()), walk(input, 1 + input.len() % 5));
});
