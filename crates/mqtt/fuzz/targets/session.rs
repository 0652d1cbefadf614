//! Three clients of a shard, who say what they like: each step is a byte that says which client
//! and what happens, a length, and so many bytes that it sends.
#![no_main]

#[path = "../../tests/session/world.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod world;

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use menzil_mqtt::MqttConfig;
use world::World;

fuzz_target!(|input: &[u8]| {
    let config = Arc::new(MqttConfig {
        chunk_bytes: 64,
        ..MqttConfig::default()
    });
    let mut world = World::new();
    let mut peers = [0; 3].map(|_: u8| world.accept(&config));
    let mut rest = input;
    while let [what, length, behind @ ..] = rest {
        let (bytes, left) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = left;
        let peer = &mut peers[usize::from(what % 3)];
        match what / 3 % 8 {
            0 => {
                world.hang_up(*peer);
                *peer = world.accept(&config);
            }
            1 => world.pass(u64::from(*length) * 100),
            2 => world.commits = !world.commits,
            3 => world.commit(),
            _ => {}
        }
        world.send(*peer, bytes);
    }
});
