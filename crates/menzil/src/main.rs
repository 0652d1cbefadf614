//! The Menzil broker.

fn main() {}
