//! Every file of `corpus/` is survived, however it is split. Fuzzing starts from these files
//! and leaves its finds there.
#![cfg(test)]

mod peer;

use menzil_amqp::SessionConfig;
use peer::*;

fn log(input: &[u8], size: usize) -> Vec<String> {
    let mut broker = Broker::new(SessionConfig::default());
    broker.hides_closes = true;
    for chunk in input.chunks(size) {
        broker.feed(chunk);
        broker.session.inbound.check_invariants();
        broker.session.outbound.check_invariants();
    }
    describe(&broker.session.poll_transmit(0).0);
    broker.log
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read its own data")]
fn every_file_is_survived_however_it_is_split() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        let whole = log(&input, input.len().max(1));
        assert!(!whole.is_empty(), "{} does nothing", path.display());
        for size in [1, 7, 64] {
            assert_eq!(whole, log(&input, size), "{} by {size}", path.display());
        }
        files += 1;
    }
    assert!(files >= 20, "{files} files in {folder}");
}
