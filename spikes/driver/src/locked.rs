//! (b), (c) tokio, one mutex per shard taken once per socket-read batch by the connection's task.
//!
//! (b) [`Flush::SameTask`]: the task that filled a consumer's outbox writes that consumer's socket
//! after releasing the lock, and passes the duty to the consumer's own task only on `WouldBlock`,
//! or after a few rounds, lest other publishers keep it writing for ever.
//! (c) [`Flush::Wake`]: it wakes the consumer's task, which takes the bytes and writes.

use crate::Settings;
use crate::session::Session;
use crate::shard::{ConnectionId, Shard};
use std::io::{ErrorKind, Result};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;

const ROUNDS_MAX: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    SameTask,
    Wake,
}

struct Connection {
    id: ConnectionId,
    stream: TcpStream,
    /// The duty to flush, on its way to the connection's own task.
    parked: Mutex<Option<Unwritten>>,
    wake: Notify,
}

type Unwritten = (Vec<u8>, usize);
type Shared = Arc<Mutex<Shard<Arc<Connection>>>>;

pub async fn serve(listener: TcpListener, settings: Settings, flush: Flush) -> Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let shard: Shared = Arc::new(Mutex::new(Shard::new(settings)));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let shard = shard.clone();
        tokio::spawn(async move {
            let mut connection = None;
            let id = shard.lock().expect("shard").connect(|id| {
                let made = Connection {
                    id,
                    stream,
                    parked: Mutex::new(None),
                    wake: Notify::new(),
                };
                connection.insert(Arc::new(made)).clone()
            });
            let connection = connection.expect("just made");
            drive(&shard, &connection, settings, flush).await;
            shard.lock().expect("shard").disconnect(id);
        });
    }
}

async fn drive(shard: &Shared, connection: &Arc<Connection>, settings: Settings, flush: Flush) {
    let mut session = Session::new(connection.id);
    let mut input = vec![0; settings.read_bytes];
    let mut filled = 0;
    let mut unwritten: Option<Unwritten> = None;
    let mut dirty = Vec::new();
    loop {
        let interest = match unwritten {
            Some(_) => Interest::READABLE | Interest::WRITABLE,
            None => Interest::READABLE,
        };
        let mut readable = false;
        tokio::select! {
            biased;
            () = connection.wake.notified() => {
                unwritten = connection.parked.lock().expect("parked").take();
            }
            ready = connection.stream.ready(interest) => match ready {
                Ok(ready) => readable = ready.is_readable(),
                Err(_) => return,
            }
        }
        if let Some((bytes, at)) = unwritten.take() {
            unwritten = write(shard, connection, bytes, at, usize::MAX);
        }
        if !readable {
            continue;
        }
        match connection.stream.try_read(&mut input[filled..]) {
            Ok(0) => return,
            Ok(size) => filled += size,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(_) => return,
        }
        let used = {
            let mut shard = shard.lock().expect("shard");
            let used = session.receive(&mut shard, &input[..filled]);
            match flush {
                Flush::SameTask => shard.take_dirty(|to, _, bytes| dirty.push((to, bytes))),
                Flush::Wake => shard.take_dirty_handles(|to| dirty.push((to, Vec::new()))),
            }
            used
        };
        input.copy_within(used..filled, 0);
        filled -= used;
        for (to, bytes) in dirty.drain(..) {
            let rest = match flush {
                Flush::SameTask => write(shard, &to, bytes, 0, ROUNDS_MAX),
                Flush::Wake => Some((bytes, 0)),
            };
            if let Some(rest) = rest {
                *to.parked.lock().expect("parked") = Some(rest);
                to.wake.notify_one();
            }
        }
        if session.is_closing() {
            return;
        }
    }
}

/// Writes until nothing is left (`None`), or until the socket blocks or the rounds are over.
fn write(
    shard: &Shared,
    connection: &Connection,
    mut bytes: Vec<u8>,
    mut at: usize,
    rounds: usize,
) -> Option<Unwritten> {
    for _ in 0..rounds {
        while at < bytes.len() {
            match connection.stream.try_write(&bytes[at..]) {
                Ok(size) => at += size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some((bytes, at)),
                // The connection's own task will see its end.
                Err(_) => return None,
            }
        }
        let more = shard.lock().expect("shard").written(connection.id, bytes);
        bytes = more?;
        at = 0;
    }
    Some((bytes, at))
}
