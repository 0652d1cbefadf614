//! What is done to the virtual host: random operations that mean something whatever went before,
//! so that some can be left out of a list that fails.

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Mostly nothing.
    fn some<T: Copy>(&mut self, one_in: u64, all: &[T]) -> Option<T> {
        self.one_in(one_in).then(|| self.pick(all))
    }
}

/// What a queue does with what is over its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Overflow {
    #[default]
    DropHead,
    Reject,
    /// Refused, and dead-lettered.
    RejectDead,
}

impl Overflow {
    const EVERY: [Self; 3] = [Self::DropHead, Self::Reject, Self::RejectDead];
}

/// Which of what comes back rests before it is delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Retry {
    #[default]
    Disabled,
    All,
    Failed,
    Returned,
}

impl Retry {
    const EVERY: [Self; 4] = [Self::Disabled, Self::All, Self::Failed, Self::Returned];
}

/// An exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exchange {
    Default,
    Fanout,
    Direct,
    Missing,
    /// A direct exchange of the type that delays, with the fanout exchange as its alternate.
    Later,
    /// A fanout exchange that was asked to delay.
    Slow,
}

impl Exchange {
    /// Those that queues are bound to.
    pub(crate) const BOUND: [Self; 4] = [Self::Fanout, Self::Direct, Self::Later, Self::Slow];

    /// Those that keep what says so until it is due.
    pub(crate) const DELAYING: [Self; 2] = [Self::Later, Self::Slow];

    /// The key that stands for a number where it routes.
    pub(crate) fn key(self, number: u8) -> String {
        match self {
            Self::Default => format!("q{number}"),
            Self::Fanout | Self::Direct | Self::Missing | Self::Later | Self::Slow => {
                (number % 3).to_string()
            }
        }
    }
}

/// Where what dies goes. The key is that of a queue, or of the direct exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) exchange: Exchange,
    pub(crate) key: Option<u8>,
    /// What no queue takes stays.
    pub(crate) at_least_once: Option<bool>,
}

/// The arguments of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Arguments {
    pub(crate) length: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) overflow: Overflow,
    pub(crate) ttl: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) priorities: Option<u8>,
    pub(crate) single_active: bool,
    /// Size and age.
    pub(crate) once: Option<(u64, u64)>,
    pub(crate) dead: Option<Dead>,
    pub(crate) groups: bool,
    /// Failures that are allowed.
    pub(crate) failures: Option<u64>,
    /// How long consumers may leave a delivery unsettled; 0 is for ever.
    pub(crate) timeout: Option<u64>,
    pub(crate) retry: Option<Retry>,
    pub(crate) retry_min: Option<u64>,
    /// Not below the least.
    pub(crate) retry_max: Option<u64>,
}

/// Which queues a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    All,
    /// Those below 3.
    Low,
    One(u8),
}

/// A policy, or an operator policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) name: u8,
    pub(crate) is_operator: bool,
    pub(crate) pattern: Pattern,
    pub(crate) apply_to: &'static str,
    pub(crate) priority: i8,
    pub(crate) is_layered: bool,
    pub(crate) says: Says,
}

/// What a policy says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Says {
    pub(crate) length: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) overflow: Option<Overflow>,
    pub(crate) ttl: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) dead_exchange: Option<Exchange>,
    pub(crate) dead_key: Option<&'static str>,
    pub(crate) at_least_once: Option<bool>,
    /// Below 0 is no limit.
    pub(crate) failures: Option<i64>,
    /// How long consumers may leave a delivery unsettled; 0 is for ever.
    pub(crate) timeout: Option<u64>,
    pub(crate) retry: Option<Retry>,
    pub(crate) retry_min: Option<u64>,
    /// Not below the least.
    pub(crate) retry_max: Option<u64>,
}

impl Says {
    fn random(random: &mut Random, is_operator: bool) -> Self {
        let mut says = Self::default();
        for _ in 0..=random.below(3) {
            match random.below(if is_operator { 9 } else { 13 }) {
                0 => says.length = Some(random.pick(&[0, 1, 3])),
                1 => says.bytes = Some(random.pick(&[0, 15, 30])),
                2 => says.overflow = Some(random.pick(&Overflow::EVERY)),
                3 => says.ttl = Some(random.pick(&[0, 2, 15])),
                4 => says.expires = Some(random.pick(&[15, 50])),
                5 => says.failures = Some(random.pick(&[-1, 0, 1, 2])),
                6 => says.retry = Some(Retry::Disabled),
                7 => says.retry_min = Some(random.pick(&[1, 3])),
                8 => says.retry_max = Some(random.pick(&[3, 8])),
                9 => says.at_least_once = Some(random.one_in(2)),
                10 => says.dead_key = Some(random.pick(&["q0", "q1", "q4", "0", "2"])),
                _ => {
                    let exchanges = [
                        Exchange::Default,
                        Exchange::Fanout,
                        Exchange::Direct,
                        Exchange::Later,
                    ];
                    says.dead_exchange = Some(random.pick(&exchanges));
                }
            }
        }
        says
    }
}

impl Policy {
    fn random(random: &mut Random) -> Self {
        let is_operator = random.one_in(3);
        Self {
            name: random.below(3) as u8,
            is_operator,
            pattern: random.pick(&[Pattern::All, Pattern::Low, Pattern::One(3)]),
            apply_to: random.pick(&["all", "queues", "classic_queues", "quorum_queues"]),
            priority: random.pick(&[0, 0, 1, 2]),
            is_layered: random.one_in(3),
            says: Says::random(random, is_operator),
        }
    }
}

/// The features that take part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) priorities: bool,
    pub(crate) consumer_priorities: bool,
    pub(crate) single_active: bool,
    pub(crate) dead_letters: bool,
    pub(crate) groups: bool,
    pub(crate) failures: bool,
}

impl Arguments {
    fn random(random: &mut Random, features: Features) -> Self {
        let mut arguments = Self::of_any(random, features);
        if arguments.groups {
            // A group waits for what rests of it, which is not followed here.
            arguments.retry = None;
        }
        if features.dead_letters && random.one_in(3) {
            let exchange = [
                Exchange::Default,
                Exchange::Default,
                Exchange::Fanout,
                Exchange::Direct,
                Exchange::Missing,
                Exchange::Later,
                Exchange::Slow,
            ];
            arguments.dead = Some(Dead {
                exchange: random.pick(&exchange),
                key: random.some(2, &[0, 1, 2, 3, 4]),
                at_least_once: random.some(3, &[true, true, false]),
            });
            let overflows = [
                Overflow::DropHead,
                Overflow::DropHead,
                Overflow::DropHead,
                Overflow::RejectDead,
                Overflow::Reject,
            ];
            arguments.overflow = random.pick(&overflows);
        }
        arguments
    }

    fn of_any(random: &mut Random, features: Features) -> Self {
        Self {
            length: random.some(3, &[0, 1, 2, 4]),
            bytes: random.some(6, &[0, 10, 25]),
            overflow: random.pick(&[Overflow::DropHead, Overflow::Reject]),
            ttl: random.some(4, &[0, 1, 5, 20]),
            expires: random.some(12, &[10, 40]),
            priorities: features
                .priorities
                .then(|| random.some(3, &[1, 3, 255]))
                .flatten(),
            single_active: features.single_active && random.one_in(4),
            once: random.some(4, &[(1, 100), (3, 10), (100, 1000)]),
            dead: None,
            groups: features.groups && random.one_in(3),
            failures: features
                .failures
                .then(|| random.some(3, &[0, 1, 2]))
                .flatten(),
            // What `basic.get` took has that of the queue too, and costs its channel.
            timeout: None,
            retry: random.some(4, &Retry::EVERY),
            retry_min: random.some(2, &[1, 4]),
            retry_max: random.some(2, &[4, 9]),
        }
    }
}

/// Where a message is published to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Queue(u8),
    Fanout,
    Direct(u8),
    Later(u8),
    Slow,
}

/// A message to be published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mail {
    pub(crate) to: To,
    pub(crate) persistent: bool,
    pub(crate) mandatory: bool,
    pub(crate) padding: u8,
    pub(crate) priority: Option<u8>,
    pub(crate) expiration: Option<u64>,
    pub(crate) id: Option<u8>,
    pub(crate) group: Option<u8>,
    /// How long exchanges that delay are to keep it.
    pub(crate) delay: Option<u8>,
}

impl Mail {
    fn random(random: &mut Random) -> Self {
        Self {
            to: match random.below(12) {
                0..3 => To::Fanout,
                3..5 => To::Direct(random.below(3) as u8),
                5 => To::Later(random.below(3) as u8),
                6 => To::Slow,
                _ => To::Queue(random.below(QUEUES.into()) as u8),
            },
            persistent: random.one_in(2),
            mandatory: random.one_in(3),
            padding: random.below(12) as u8,
            priority: random.some(2, &[0, 1, 2, 3, 4, 255]),
            expiration: random.some(4, &[0, 1, 7, 30]),
            id: random.some(2, &[1, 2, 3, 4, 5]),
            group: random.some(2, &[1, 2, 3]),
            delay: random.some(3, &[0, 1, 3, 3, 10, 60]),
        }
    }
}

/// What becomes of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Acknowledge,
    Requeue,
    /// Given back, which counts.
    Fail,
    Reject,
}

/// One thing that is done. Numbers that name something that is there are taken modulo how much is.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Declare {
        queue: u8,
        durable: bool,
        arguments: Arguments,
    },
    Delete {
        queue: u8,
    },
    Purge {
        queue: u8,
    },
    Bind {
        queue: u8,
        exchange: Exchange,
        key: u8,
    },
    Unbind {
        queue: u8,
        exchange: Exchange,
        key: u8,
    },
    Publish {
        channel: u16,
        mail: Mail,
    },
    Transaction {
        mails: Vec<Mail>,
        commit: bool,
    },
    Consume {
        channel: u16,
        queue: u8,
        tag: u32,
        no_ack: bool,
        prefetch: u16,
        priority: i8,
        timeout: Option<u64>,
    },
    Cancel {
        nth: u64,
    },
    Qos {
        channel: u16,
        count: u16,
    },
    Get {
        channel: u16,
        queue: u8,
        no_ack: bool,
    },
    Settle {
        channel: u16,
        nth: u64,
        multiple: bool,
        verdict: Verdict,
    },
    Recover {
        channel: u16,
    },
    Reopen {
        channel: u16,
    },
    Wait {
        milliseconds: u64,
    },
    /// One of those that wait in an exchange is taken back.
    CancelDelay {
        nth: u64,
    },
    SetPolicy(Policy),
    ClearPolicy {
        name: u8,
        is_operator: bool,
    },
    Checkpoint,
    /// So many steps are lost.
    Crash {
        lost: u64,
    },
    Stop,
}

/// Queues that may be there.
pub(crate) const QUEUES: u8 = 5;

/// Channels that are open; the last one is transactional, the first one confirms.
pub(crate) const CHANNELS: u16 = 4;

pub(crate) fn plan(seed: u64, steps: usize, features: Features) -> Vec<Step> {
    let mut random = Random(seed);
    (0..steps).map(|_| step(&mut random, features)).collect()
}

fn step(random: &mut Random, features: Features) -> Step {
    let queue = random.below(QUEUES.into()) as u8;
    let channel = 1 + random.below(u64::from(CHANNELS) - 1) as u16;
    let key = random.below(3) as u8;
    match random.below(100) {
        0..8 => Step::Declare {
            queue,
            durable: !random.one_in(4),
            arguments: Arguments::random(random, features),
        },
        8 => Step::Delete { queue },
        9 => Step::Purge { queue },
        10 => Step::CancelDelay { nth: random.next() },
        11..15 => Step::Bind {
            queue,
            exchange: random.pick(&Exchange::BOUND),
            key,
        },
        15 => Step::Unbind {
            queue,
            exchange: random.pick(&Exchange::BOUND),
            key,
        },
        16..46 => Step::Publish {
            channel,
            mail: Mail::random(random),
        },
        46..49 => Step::Transaction {
            mails: (0..=random.below(5))
                .map(|_| Mail::random(random))
                .collect(),
            commit: !random.one_in(4),
        },
        49..56 => Step::Consume {
            channel,
            queue,
            tag: random.below(1000) as u32,
            no_ack: random.one_in(4),
            prefetch: random.pick(&[0, 1, 2, 5]),
            priority: if features.consumer_priorities {
                random.pick(&[0, 0, 0, 1, 5, -1])
            } else {
                0
            },
            timeout: random.some(6, &[0, 3, 15]),
        },
        56 => Step::Cancel { nth: random.next() },
        57 => Step::SetPolicy(Policy::random(random)),
        58 => Step::ClearPolicy {
            name: random.below(3) as u8,
            is_operator: random.one_in(3),
        },
        59 => Step::Qos {
            channel,
            count: random.pick(&[0, 1, 3]),
        },
        60..66 => Step::Get {
            channel,
            queue,
            no_ack: random.one_in(2),
        },
        66..84 => Step::Settle {
            channel,
            nth: random.next(),
            multiple: random.one_in(4),
            verdict: random.pick(&[
                Verdict::Acknowledge,
                Verdict::Requeue,
                Verdict::Fail,
                Verdict::Fail,
                Verdict::Reject,
            ]),
        },
        84 => Step::Recover { channel },
        85 => Step::Reopen { channel },
        86..95 => Step::Wait {
            milliseconds: random.pick(&[1, 2, 5, 10, 50]),
        },
        95 => Step::Checkpoint,
        96..99 => Step::Crash {
            lost: random.pick(&[0, 0, 1, 2, 5]),
        },
        _ => Step::Stop,
    }
}
