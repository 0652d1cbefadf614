//! What a long backlog costs: memory per entry, and the time of what is done with all of it.
//!
//! `cargo run --release -p menzil-core --example footprint [MESSAGES]`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::cast_precision_loss,
    reason = "it measures and tells"
)]

use std::time::Instant;

use bytes::Bytes;
use menzil_core::{ChannelKey, Command, Effect, Log, Publish, QueueDeclare, Request, Shard};
use menzil_model::{ChannelId, ConnectionId, Fact, Name, Properties, Table};

/// Counts, and keeps nothing.
#[derive(Default)]
struct Nowhere {
    index: u64,
    released: u64,
}

impl Log for Nowhere {
    fn append(&mut self, _: &Fact, _: u32) -> u64 {
        self.index += 1;
        self.index
    }

    fn append_lazy(&mut self, fact: &Fact) -> u64 {
        self.append(fact, 0)
    }

    fn has_room(&self, _: u64) -> bool {
        true
    }

    fn release(&mut self, _: u64, count: u32) {
        self.released += u64::from(count);
    }

    fn retain_run(&mut self, _: u64, _: u64) {}

    fn release_run(&mut self, _: u64, count: u64) {
        self.released += count;
    }
}

struct World {
    shard: Shard,
    log: Nowhere,
    effects: Vec<Effect>,
    key: ChannelKey,
}

impl World {
    fn new() -> Option<Self> {
        let connection = ConnectionId(1);
        let mut world = Self {
            shard: Shard::new(menzil_core::ShardSettings::default()),
            log: Nowhere::default(),
            effects: Vec::new(),
            key: ChannelKey {
                connection,
                channel: ChannelId::new(1)?,
            },
        };
        world.shard.start(1, &Name::from("/"), &mut world.log);
        world.execute(Command::ConnectionOpened {
            connection,
            user: Name::from("guest"),
            cancel_notify: true,
        });
        world.execute(Command::ChannelOpened(world.key));
        Some(world)
    }

    fn execute(&mut self, command: Command) {
        self.shard
            .execute(1, command, &mut self.log, &mut self.effects);
        self.effects.clear();
    }

    fn request(&mut self, request: Request) {
        let channel = self.key;
        self.execute(Command::Request { channel, request });
    }

    fn declare(&mut self, queue: &Name) {
        self.request(Request::QueueDeclare(QueueDeclare {
            queue: queue.clone(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            nowait: false,
            arguments: Table::empty(),
            entropy: 1,
        }));
    }
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1);
    pages
        .and_then(|pages| pages.parse::<u64>().ok())
        .unwrap_or(0)
        * 4096
}

fn backlog(what: &str, messages: u64, size: impl Fn(u64) -> usize) {
    let Some(mut world) = World::new() else {
        return;
    };
    let queue = Name::from("q");
    world.declare(&queue);
    let mut properties = Vec::new();
    let persistent = Properties {
        delivery_mode: Some(2),
        ..Properties::default()
    };
    persistent.write(&mut properties);
    let properties = Bytes::from(properties);
    let body = Bytes::from(vec![b'x'; 16 << 10]);
    let before = resident();
    let started = Instant::now();
    for number in 0..messages {
        world.request(Request::Publish(Publish {
            exchange: Name::empty(),
            routing_key: queue.clone(),
            mandatory: false,
            properties: properties.clone(),
            body: vec![body.slice(..size(number))],
        }));
        if number % 500 == 0 {
            world.shard.finish(&mut world.log);
        }
    }
    world.shard.finish(&mut world.log);
    let grown = resident().saturating_sub(before);
    println!(
        "{what}: {messages} messages, {:.0} ns each, memory grew by {:.1} MiB, {:.2} bytes each",
        started.elapsed().as_nanos() as f64 / messages as f64,
        grown as f64 / 1_048_576.0,
        grown as f64 / messages as f64,
    );
    let timed = Instant::now();
    let frozen = world.shard.freeze();
    let freeze = timed.elapsed();
    let timed = Instant::now();
    let mut facts = Vec::new();
    let mut bytes = 0;
    frozen.write(&mut |fact| {
        let mut one = Vec::new();
        fact.encode(&mut one);
        bytes += one.len();
        facts.push(one);
    });
    println!(
        "  frozen in {freeze:?}, written in {:?}, {bytes} bytes",
        timed.elapsed()
    );
    let timed = Instant::now();
    let mut again = Shard::new(menzil_core::ShardSettings::default());
    for fact in &facts {
        if let Ok(fact) = Fact::decode(fact, menzil_model::fact::Content::Skip) {
            again.apply(world.log.index, fact);
        }
    }
    let applied = timed.elapsed();
    let mut needed = 0;
    again.needs(&mut |_, count, _| needed += count);
    println!(
        "  recovered in {applied:?}, with needs {:?} ({needed})",
        timed.elapsed()
    );
    let timed = Instant::now();
    world.request(Request::QueuePurge {
        queue,
        nowait: false,
    });
    let purged = timed.elapsed();
    let (mut slices, mut longest) = (0, std::time::Duration::ZERO);
    loop {
        let slice = Instant::now();
        world.shard.finish(&mut world.log);
        longest = longest.max(slice.elapsed());
        slices += 1;
        if world.shard.deadline().is_none() {
            break;
        }
    }
    println!(
        "  purged in {purged:?}; {} released in {slices} slices, the longest {longest:?}, all in {:?}",
        world.log.released,
        timed.elapsed(),
    );
}

fn idle_queues(count: u64) {
    let Some(mut world) = World::new() else {
        return;
    };
    let before = resident();
    let started = Instant::now();
    for number in 0..count {
        world.declare(&Name::cut(format!("an idle queue {number}").as_bytes()));
    }
    let grown = resident().saturating_sub(before);
    println!(
        "{count} idle queues: {:?}, {:.0} bytes each",
        started.elapsed(),
        grown as f64 / count as f64
    );
    let timed = Instant::now();
    let frozen = world.shard.freeze();
    println!("  frozen in {:?}", timed.elapsed());
    frozen.write(&mut |_| {});
    println!("  and written in {:?}", timed.elapsed());
}

fn main() {
    let messages = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let messages = messages.unwrap_or(1_000_000);
    backlog("100 bytes each", messages, |_| 100);
    backlog("mixed sizes", messages, |number| {
        usize::try_from(number.wrapping_mul(7919) % 5000).unwrap_or(0)
    });
    idle_queues(100_000);
}
