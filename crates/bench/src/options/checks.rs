//! What an option may be, alone and beside others. Every refusal says what to write.

use super::words::refuse;
use super::{Acks, ExchangeKind, Options};
use crate::BenchError;
use crate::consumer::ORDER_BYTES;
use crate::publisher::STAMP_BYTES;
use crate::scenario::{Churned, Declared, Kind, Then};

const LINKS_MAX: u64 = 2000;
const CONNECTIONS_MAX: u64 = 60_000;
const DECLARED_MAX: u64 = 2_000_000;
/// The header is a signed number of 32 bits.
const DELAY_MAX: u64 = (1 << 31) - 1;

impl Options {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        self.check_ranges()?;
        if self.measured.is_zero() {
            return refuse("--seconds 0 measures nothing: write how long, such as 3 or 0.5");
        }
        if let Some(missing) = self.data_dir.as_ref().filter(|dir| !dir.is_dir()) {
            return refuse(format!(
                "--data-dir {} is no folder: name the broker's data folder",
                missing.display()
            ));
        }
        self.check_consuming()?;
        self.check_topology()?;
        self.check_kind()
    }

    fn check_ranges(&self) -> Result<(), BenchError> {
        for (name, value, least, most) in [
            ("publishers", self.publisher_count, 1, LINKS_MAX),
            ("consumers", self.consumer_count, 0, LINKS_MAX),
            (
                "connections",
                self.connection_count.unwrap_or(1),
                1,
                CONNECTIONS_MAX,
            ),
            ("queues", self.queue_count, 1, DECLARED_MAX),
            ("dead-queues", self.dead_queue_count, 0, 1000),
            ("hold", self.held_count, 0, 60_000),
            ("bindings", self.binding_count, 0, DECLARED_MAX),
            ("size", crate::numbers::count(self.body_bytes), 0, 128 << 20),
            ("confirm", self.window.unwrap_or(1), 1, 10_000_000),
            ("rate", self.rate.unwrap_or(1), 1, 1_000_000_000),
            ("backlog", self.backlog_max, 1, 1_000_000_000),
            ("delay", self.delay.map_or(1, |span| span.0), 1, DELAY_MAX),
            ("delay", self.delay.map_or(1, |span| span.1), 1, DELAY_MAX),
            (
                "messages",
                self.message_count.unwrap_or(1),
                1,
                1_000_000_000_000,
            ),
            (
                "pid",
                u64::from(self.pid.unwrap_or(1)),
                1,
                u64::from(u32::MAX),
            ),
        ] {
            if value < least || value > most {
                if name == "consumers" && self.consumer_count == self.queue_count {
                    return refuse(format!(
                        "a consumer for each of {value} queues is too much; write --consumers N \
                         with N up to {most}, and they share the queues"
                    ));
                }
                return refuse(format!("--{name} is {least} to {most}, not {value}"));
            }
        }
        Ok(())
    }

    fn check_consuming(&self) -> Result<(), BenchError> {
        if let Acks::Every(batch) = self.acks {
            let prefetch = u64::from(self.prefetch_count);
            if batch == 0 {
                return refuse("--ack-batch is at least 1; write --ack auto for none at all");
            }
            if prefetch > 0 && batch > prefetch {
                return refuse(format!(
                    "--ack-batch {batch} is never reached with --prefetch {prefetch}; write \
                     --prefetch {batch} or more"
                ));
            }
        }
        if (self.stamped || self.order_checked) && self.consumer_count == 0 {
            return refuse("--stamp and --check-order are read by consumers; write --consumers 1");
        }
        if self.order_checked && self.consumer_count < self.queue_count {
            return refuse(format!(
                "--check-order wants a consumer for each queue; write --consumers {}",
                self.queue_count
            ));
        }
        if self.order_checked && self.body_bytes < ORDER_BYTES {
            return refuse(format!("--check-order needs --size {ORDER_BYTES} or more"));
        }
        if self.stamped && self.body_bytes < STAMP_BYTES {
            return refuse(format!("--stamp needs --size {STAMP_BYTES} or more"));
        }
        Ok(())
    }

    fn check_topology(&self) -> Result<(), BenchError> {
        if self.binding_count != self.queue_count && !self.exchange.has_others() {
            return refuse(
                "--bindings beyond one for each queue need others to match; write --exchange \
                 topic, --exchange headers or --exchange direct",
            );
        }
        if self.apart && self.exchange != ExchangeKind::Topic {
            return refuse("--apart is about words; write --exchange topic");
        }
        if self.reach != 1 && self.exchange != ExchangeKind::Direct {
            return refuse("--reach is about equal keys; write --exchange direct");
        }
        if self.reach == 0 || self.reach > self.queue_count {
            return refuse(format!(
                "--reach is 1 to {}, the --queues there are",
                self.queue_count
            ));
        }
        if self.binding_count < self.queue_count {
            return refuse(format!(
                "{} queues have a binding each; write --bindings {} or more",
                self.queue_count, self.queue_count
            ));
        }
        if self.exchange.copies() && self.queue_count > 10_000 {
            return refuse("one message to more than 10000 queues is too much; write --queues 32");
        }
        if self.expiration.is_some() && self.queue_count > 256 {
            return refuse("--expiration goes with --queues 256 or fewer");
        }
        if self.delay.is_some() && self.exchange == ExchangeKind::Default {
            return refuse("the default exchange cannot --delay; write --exchange direct");
        }
        if self.dead_queue_count > 0 && !self.exchange.copies() {
            return refuse("--dead-queues get copies of each message; write --exchange fanout");
        }
        if self.existing && self.name.is_none() {
            return refuse("--existing needs the --name that a run with --keep used");
        }
        if self.name.as_ref().is_some_and(|name| name.len() > 100) {
            return refuse("--name is at most 100 bytes");
        }
        Ok(())
    }

    fn check_kind(&self) -> Result<(), BenchError> {
        match self.scenario.kind {
            Kind::Flow => Ok(()),
            Kind::Deletion => {
                if self.window.is_none() || self.consumer_count > 0 || !self.exchange.has_others() {
                    return refuse(
                        "what is asked is the time to a confirm while an exchange with bindings \
                         goes; write --confirm 1 --exchange topic without --consumers",
                    );
                }
                Ok(())
            }
            Kind::Backlog(then) => {
                if then == Then::Drain && self.consumer_count == 0 {
                    return refuse("a drain needs --consumers 1 or more");
                }
                if self.window.is_none() {
                    return refuse("a backlog is counted by its confirms; write --confirm 1000");
                }
                if self.message_count.is_none() {
                    return refuse("a backlog needs its size; write --messages 1M");
                }
                Ok(())
            }
            Kind::IdleConnections
            | Kind::Declare(Declared::Queues | Declared::Bindings)
            | Kind::Churn(
                Churned::Connections | Churned::Channels | Churned::Queues | Churned::Bindings,
            ) => {
                if self.publisher_count > 1 || self.consumer_count > 0 {
                    return refuse(format!(
                        "{} moves no messages; leave --publishers and --consumers out",
                        self.scenario.name
                    ));
                }
                Ok(())
            }
        }
    }
}
