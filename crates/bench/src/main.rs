//! The load generator as a program of its own, for use without the broker's binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    match menzil_bench::run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("menzil-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
