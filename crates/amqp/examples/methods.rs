//! Prints `src/methods.rs` as generated from `methods.txt`.

use std::io::Write as _;

#[expect(clippy::unwrap_used, reason = "a broken table stops the generator")]
#[path = "../generator/methods.rs"]
mod generator;

fn main() -> std::io::Result<()> {
    let source = generator::generate(include_str!("../methods.txt"));
    std::io::stdout().write_all(source.as_bytes())
}
