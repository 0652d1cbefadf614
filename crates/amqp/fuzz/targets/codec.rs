//! Frames and methods: what reads comes back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use menzil_amqp::frame::{METHOD, Split, split, write_frame};
use menzil_amqp::method::MethodId;
use menzil_amqp::methods::Method;

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while let Split::Whole(frame, length) = split(rest, 131_072) {
        rest = &rest[length..];
        if frame.kind != METHOD || frame.payload.len() < 4 {
            continue;
        }
        let number = |at: usize| u16::from_be_bytes([frame.payload[at], frame.payload[at + 1]]);
        let id = MethodId {
            class: number(0),
            method: number(2),
        };
        if let Ok(method) = Method::decode(id, &frame.payload[4..]) {
            let mut written = Vec::new();
            write_frame(&mut written, METHOD, frame.channel, |out| method.write(out));
            let Split::Whole(again, _) = split(&written, 131_072) else {
                panic!("not a frame");
            };
            assert_eq!(Method::decode(id, &again.payload[4..]), Ok(method));
        }
    }
});
