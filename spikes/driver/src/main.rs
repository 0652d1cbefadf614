//! A bare AMQP server under one of several shard drivers, to be measured: see README.md.
//!
//! Handshake, queues declared and deleted, publish to the default exchange, consume with auto-ack.
//! No routing, no limits, no robustness: everything that all drivers share is as small as it gets,
//! so that the drivers' own cost shows.

mod epoll;
mod locked;
mod owner;
mod session;
mod shard;
mod store;
mod wire;

use std::net::TcpListener;

const DRIVERS: &str = "epoll | mutex | mutex-wake | owner | owner-writes";

/// Settings of one run.
#[derive(Clone, Copy)]
pub struct Settings {
    pub read_bytes: usize,
    /// Bytes encoded for a consumer's connection and not yet taken by its socket, at most.
    pub credit_bytes: usize,
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str, default: usize| {
        let at = args.iter().position(|word| word == name);
        at.map_or(default, |at| args[at + 1].parse().expect("a number"))
    };
    let driver = args.first().map_or("", String::as_str);
    let settings = Settings {
        read_bytes: value("--read-kib", 64) * 1024,
        credit_bytes: value("--credit-kib", 256) * 1024,
    };
    let cores = std::thread::available_parallelism()?.get();
    let workers = value("--workers", cores);
    let listener = TcpListener::bind(("127.0.0.1", value("--port", 0) as u16))?;
    println!(
        "ready {} {} pid={}",
        driver,
        listener.local_addr()?,
        std::process::id()
    );
    match driver {
        "epoll" => epoll::serve(&listener, settings),
        "mutex" => on_tokio(
            workers,
            locked::serve(listener, settings, locked::Flush::SameTask),
        ),
        "mutex-wake" => on_tokio(
            workers,
            locked::serve(listener, settings, locked::Flush::Wake),
        ),
        "owner" => on_tokio(
            workers,
            owner::serve(listener, settings, owner::Flush::Mailbox),
        ),
        "owner-writes" => on_tokio(
            workers,
            owner::serve(listener, settings, owner::Flush::Owner),
        ),
        _ => panic!(
            "usage: driver-spike {DRIVERS} [--port N] [--workers N (0: current_thread)] [--read-kib N] [--credit-kib N]"
        ),
    }
}

fn on_tokio(
    workers: usize,
    server: impl Future<Output = std::io::Result<()>>,
) -> std::io::Result<()> {
    let mut builder = if workers == 0 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    builder
        .worker_threads(workers.max(1))
        .enable_io()
        .build()?
        .block_on(server)
}
