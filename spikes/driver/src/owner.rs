//! (d) tokio, an owner task per shard with a mailbox of read batches.
//!
//! [`Flush::Mailbox`]: what a batch produced goes to each consumer's task through its mailbox.
//! [`Flush::Owner`]: the owner writes the sockets itself and passes on only what blocked.
//! Memory is bounded here by the mailbox's length times the read buffer, and by the consumers' byte
//! credit; it takes a message back to the owner per buffer written.

use crate::Settings;
use crate::session::Session;
use crate::shard::{ConnectionId, Shard};
use crate::wire::split_frame;
use std::collections::HashMap;
use std::io::{ErrorKind, Result};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

const MAILBOX_BATCHES: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    Mailbox,
    Owner,
}

enum Letter {
    Connected(
        Arc<TcpStream>,
        mpsc::UnboundedSender<Unwritten>,
        tokio::sync::oneshot::Sender<ConnectionId>,
    ),
    /// A read buffer, of which so many bytes are whole messages.
    Batch(ConnectionId, Vec<u8>, usize),
    Written(ConnectionId, Vec<u8>),
    Gone(ConnectionId),
}

type Unwritten = (Vec<u8>, usize);
type Handle = (Arc<TcpStream>, mpsc::UnboundedSender<Unwritten>);
/// Read buffers that the owner is done with.
type Pool = Arc<Mutex<Vec<Vec<u8>>>>;

pub async fn serve(listener: TcpListener, settings: Settings, flush: Flush) -> Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (mailbox, letters) = mpsc::channel(MAILBOX_BATCHES);
    let pool = Pool::default();
    tokio::spawn(own(letters, settings, flush, pool.clone()));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(drive(
            Arc::new(stream),
            mailbox.clone(),
            settings,
            pool.clone(),
        ));
    }
}

async fn own(mut letters: mpsc::Receiver<Letter>, settings: Settings, flush: Flush, pool: Pool) {
    let mut shard = Shard::<Handle>::new(settings);
    let mut sessions = HashMap::<ConnectionId, Session>::new();
    let mut batch = Vec::new();
    let mut out = Vec::new();
    while letters.recv_many(&mut batch, MAILBOX_BATCHES).await > 0 {
        for letter in batch.drain(..) {
            match letter {
                Letter::Connected(stream, mailbox, answer) => {
                    let id = shard.connect(|_| (stream, mailbox));
                    sessions.insert(id, Session::new(id));
                    let _gone = answer.send(id);
                }
                Letter::Batch(id, bytes, whole) => {
                    if let Some(session) = sessions.get_mut(&id) {
                        session.receive(&mut shard, &bytes[..whole]);
                        pool.lock().expect("pool").push(bytes);
                    }
                }
                Letter::Written(id, buffer) => {
                    if let Some(more) = shard.written(id, buffer)
                        && let Some(handle) = shard.handle(id)
                    {
                        out.push((handle, id, more));
                    }
                }
                Letter::Gone(id) => {
                    sessions.remove(&id);
                    shard.disconnect(id);
                }
            }
        }
        shard.take_dirty(|handle, id, bytes| out.push((handle, id, bytes)));
        for ((stream, mailbox), id, bytes) in out.drain(..) {
            let rest = match flush {
                Flush::Mailbox => Some((bytes, 0)),
                Flush::Owner => write(&mut shard, &stream, id, bytes),
            };
            if let Some(rest) = rest {
                let _gone = mailbox.send(rest);
            }
        }
    }
}

fn write(
    shard: &mut Shard<Handle>,
    stream: &TcpStream,
    id: ConnectionId,
    mut bytes: Vec<u8>,
) -> Option<Unwritten> {
    loop {
        let mut at = 0;
        while at < bytes.len() {
            match stream.try_write(&bytes[at..]) {
                Ok(size) => at += size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some((bytes, at)),
                Err(_) => return None,
            }
        }
        bytes = shard.written(id, bytes)?;
    }
}

async fn drive(
    stream: Arc<TcpStream>,
    owner: mpsc::Sender<Letter>,
    settings: Settings,
    pool: Pool,
) {
    let (mailbox, mut outgoing) = mpsc::unbounded_channel();
    let (answer, id) = tokio::sync::oneshot::channel();
    if owner
        .send(Letter::Connected(stream.clone(), mailbox, answer))
        .await
        .is_err()
    {
        return;
    }
    let Ok(id) = id.await else { return };
    drive_connected(id, &stream, &owner, &mut outgoing, settings, &pool).await;
    let _gone = owner.send(Letter::Gone(id)).await;
}

async fn drive_connected(
    id: ConnectionId,
    stream: &TcpStream,
    owner: &mpsc::Sender<Letter>,
    outgoing: &mut mpsc::UnboundedReceiver<Unwritten>,
    settings: Settings,
    pool: &Pool,
) {
    let mut input = vec![0; settings.read_bytes];
    let mut filled = 0;
    let mut greeted = false;
    let mut unwritten: Option<Unwritten> = None;
    loop {
        let interest = match unwritten {
            Some(_) => Interest::READABLE | Interest::WRITABLE,
            None => Interest::READABLE,
        };
        let mut readable = false;
        tokio::select! {
            biased;
            next = outgoing.recv(), if unwritten.is_none() => unwritten = next,
            ready = stream.ready(interest) => match ready {
                Ok(ready) => readable = ready.is_readable(),
                Err(_) => return,
            }
        }
        if let Some((bytes, mut at)) = unwritten.take() {
            while at < bytes.len() {
                match stream.try_write(&bytes[at..]) {
                    Ok(size) => at += size,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => return,
                }
            }
            if at < bytes.len() {
                unwritten = Some((bytes, at));
            } else if owner.send(Letter::Written(id, bytes)).await.is_err() {
                return;
            }
        }
        if !readable {
            continue;
        }
        match stream.try_read(&mut input[filled..]) {
            Ok(0) => return,
            Ok(size) => filled += size,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(_) => return,
        }
        let whole = whole_messages(&input[..filled], &mut greeted);
        if whole > 0 {
            let spare = pool.lock().expect("pool").pop();
            let mut next = spare.unwrap_or_else(|| vec![0; settings.read_bytes]);
            next[..filled - whole].copy_from_slice(&input[whole..filled]);
            filled -= whole;
            let batch = std::mem::replace(&mut input, next);
            if owner.send(Letter::Batch(id, batch, whole)).await.is_err() {
                return;
            }
        }
    }
}

/// How many bytes of `bytes` are whole methods and messages.
fn whole_messages(bytes: &[u8], greeted: &mut bool) -> usize {
    let mut rest = bytes;
    if !*greeted {
        let Some((_, after)) = rest.split_at_checked(8) else {
            return 0;
        };
        rest = after;
        *greeted = true;
    }
    let mut whole = bytes.len() - rest.len();
    let mut body_left = 0;
    while let Some(frame) = split_frame(&mut rest) {
        match frame.kind {
            1 if frame.payload.starts_with(&[0, 60, 0, 40]) => continue,
            2 => body_left = u64::from_be_bytes(frame.payload[4..12].try_into().expect("eight")),
            3 => body_left -= frame.payload.len() as u64,
            _ => {}
        }
        if body_left == 0 {
            whole = bytes.len() - rest.len();
        }
    }
    whole
}
