//! What an ordinary client library sees of a broker: confirms pipelined and one by one, on one
//! connection and on eight, and the way from end to end.
//!
//! ```text
//! menzil-bench-lapin amqp://guest:guest@127.0.0.1:5672/%2f [SECONDS] [QUEUE-TYPE]
//! ```
//! Prints one JSON object. The client is most of the cost here: compare brokers, and do not take
//! the rates for what a broker can do.

use futures_lite::StreamExt as _;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Confirms on their way per connection, as few clients allow more.
const WINDOW: usize = 1000;
/// Messages published and not delivered yet.
const BACKLOG: usize = 10_000;
const BODY: [u8; 100] = [b'm'; 100];
const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Load {
    uri: String,
    time: Duration,
    queue_type: Option<String>,
    queue: ShortString,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let uri = words
        .next()
        .unwrap_or_else(|| "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned());
    let seconds = words.next().map_or(Ok(3.0), |text| text.parse())?;
    let load = Arc::new(Load {
        uri,
        time: Duration::try_from_secs_f64(seconds)?,
        queue_type: words.next(),
        queue: format!("bench.lapin.{}", std::process::id()).into(),
    });
    let setup = load.channel().await?;
    load.declare(&setup).await?;
    let figures = load.clone().measure().await;
    let options = QueueDeleteOptions::default();
    setup.queue_delete(load.queue.clone(), options).await?;
    let texts: Vec<String> = figures?
        .iter()
        .map(|(name, value)| format!("\"{name}\": {value:.1}"))
        .collect();
    println!("{{{}}}", texts.join(", "));
    Ok(())
}

impl Load {
    async fn measure(self: Arc<Self>) -> Result<Vec<(&'static str, f64)>, Failure> {
        let end_to_end = self.end_to_end_p50().await?;
        Ok(vec![
            ("end_to_end_p50_us", end_to_end),
            ("end_to_end_per_second", self.end_to_end_rate().await?),
            ("confirm_p50_us", self.confirm_p50().await?),
            (
                "pipelined_confirms_per_second",
                self.clone().confirm_rate(1, TRANSIENT).await?,
            ),
            (
                "durable_1_per_second",
                self.clone().confirm_rate(1, PERSISTENT).await?,
            ),
            (
                "durable_8_per_second",
                self.clone().confirm_rate(8, PERSISTENT).await?,
            ),
        ])
    }

    async fn channel(&self) -> Result<Channel, Failure> {
        let connection = Connection::connect(&self.uri, ConnectionProperties::default()).await?;
        Ok(connection.create_channel().await?)
    }

    async fn declare(&self, channel: &Channel) -> Result<(), Failure> {
        let mut arguments = FieldTable::default();
        if let Some(kind) = &self.queue_type {
            let kind = AMQPValue::LongString(kind.as_str().into());
            arguments.insert("x-queue-type".into(), kind);
        }
        let options = QueueDeclareOptions::durable();
        channel
            .queue_declare(self.queue.clone(), options, arguments)
            .await?;
        Ok(())
    }

    async fn confirming(&self) -> Result<Channel, Failure> {
        let channel = self.channel().await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(channel)
    }

    async fn publish(
        &self,
        channel: &Channel,
        mode: u8,
    ) -> Result<lapin::PublisherConfirm, Failure> {
        Ok(channel
            .basic_publish(
                "".into(),
                self.queue.clone(),
                BasicPublishOptions::default(),
                &BODY,
                BasicProperties::default().with_delivery_mode(mode),
            )
            .await?)
    }

    /// Confirmed messages per second, pipelined on each of so many connections.
    async fn confirm_rate(self: Arc<Self>, connections: u32, mode: u8) -> Result<f64, Failure> {
        let mut channels = Vec::new();
        for _ in 0..connections {
            channels.push(self.confirming().await?);
        }
        let start = Instant::now();
        let tasks: Vec<_> = channels
            .into_iter()
            .map(|channel| tokio::spawn(self.clone().pipeline(channel, mode, start)))
            .collect();
        let mut confirmed = 0;
        for task in tasks {
            confirmed += task.await??;
        }
        Ok(f64::from(confirmed) / start.elapsed().as_secs_f64())
    }

    async fn pipeline(
        self: Arc<Self>,
        channel: Channel,
        mode: u8,
        start: Instant,
    ) -> Result<u32, Failure> {
        let mut open = VecDeque::new();
        let mut confirmed = 0;
        while start.elapsed() < self.time {
            open.push_back(self.publish(&channel, mode).await?);
            if open.len() >= WINDOW
                && let Some(oldest) = open.pop_front()
            {
                confirmed += acknowledged(oldest.await?)?;
            }
        }
        for rest in open {
            confirmed += acknowledged(rest.await?)?;
        }
        Ok(confirmed)
    }

    /// From publish to confirm of a durable message, one at a time; µs.
    async fn confirm_p50(&self) -> Result<f64, Failure> {
        let channel = self.confirming().await?;
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed() < self.time {
            let sent = Instant::now();
            acknowledged(self.publish(&channel, PERSISTENT).await?.await?)?;
            times.push(sent.elapsed());
        }
        median_micros(times)
    }

    async fn consumer(&self) -> Result<lapin::Consumer, Failure> {
        let options = BasicConsumeOptions {
            no_ack: true,
            ..BasicConsumeOptions::default()
        };
        let channel = self.channel().await?;
        Ok(channel
            .basic_consume(
                self.queue.clone(),
                "c".into(),
                options,
                FieldTable::default(),
            )
            .await?)
    }

    /// From publish to delivery on another connection, one at a time; µs.
    async fn end_to_end_p50(&self) -> Result<f64, Failure> {
        let mut consumer = self.consumer().await?;
        let channel = self.channel().await?;
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed() < self.time {
            let sent = Instant::now();
            let _unconfirmed = self.publish(&channel, TRANSIENT).await?;
            consumer
                .next()
                .await
                .ok_or("the consumer was cancelled")??;
            times.push(sent.elapsed());
        }
        median_micros(times)
    }

    /// Delivered messages per second, published on one connection and consumed on another.
    async fn end_to_end_rate(self: &Arc<Self>) -> Result<f64, Failure> {
        let mut consumer = self.consumer().await?;
        let channel = self.channel().await?;
        let room = Arc::new(Semaphore::new(BACKLOG));
        let (load, taken) = (self.clone(), room.clone());
        let publisher = tokio::spawn(async move {
            while let Ok(place) = taken.acquire().await {
                place.forget();
                let _unconfirmed = load.publish(&channel, TRANSIENT).await?;
            }
            Ok::<(), Failure>(())
        });
        let (start, mut delivered) = (Instant::now(), 0u32);
        while start.elapsed() < self.time {
            consumer
                .next()
                .await
                .ok_or("the consumer was cancelled")??;
            delivered += 1;
            room.add_permits(1);
        }
        let rate = f64::from(delivered) / start.elapsed().as_secs_f64();
        room.close();
        publisher.await??;
        Ok(rate)
    }
}

fn acknowledged(confirmation: Confirmation) -> Result<u32, Failure> {
    match confirmation {
        Confirmation::Ack(_) => Ok(1),
        Confirmation::Nack(_) | Confirmation::NotRequested => Err("a message was refused".into()),
    }
}

fn median_micros(mut times: Vec<Duration>) -> Result<f64, Failure> {
    times.sort_unstable();
    let middle = times.get(times.len() / 2).ok_or("nothing was measured")?;
    Ok(middle.as_secs_f64() * 1e6)
}
