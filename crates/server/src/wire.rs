//! A connection's socket as its own task has it, of any protocol: reading, whether to read on,
//! and going away so that the peer gets the last word.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{Instant, Sleep};

use crate::driver::Node;
use crate::driver::link::Link;
use crate::driver::shard_driver::Touched;
use crate::log;

/// See the module.
pub(crate) struct Wire {
    pub(crate) node: Arc<Node>,
    pub(crate) link: Arc<Link>,
    reader: OwnedReadHalf,
    /// Kept between batches for its memory.
    pub(crate) touched: Touched,
    assembling_bytes: u64,
}

thread_local! {
    /// Bytes on their way from a socket into a session. One per thread, so that ten thousand
    /// idle connections hold none.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// Lends the thread's read buffer.
pub(crate) fn with_buffer<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    READ.with_borrow_mut(|buffer| work(buffer))
}

/// Moves the timer forward only when it must ring earlier: one that rings early costs less
/// than moving it with every batch.
pub(crate) fn arm(timer: Pin<&mut Sleep>, deadline: Instant) {
    if deadline < timer.deadline() || timer.is_elapsed() {
        timer.reset(deadline);
    }
}

impl Wire {
    /// The node knows the link from now on, until this is dropped.
    pub(crate) fn new(node: &Arc<Node>, link: Link, reader: OwnedReadHalf) -> Self {
        let link = Arc::new(link);
        node.links.lock().insert(link.id, Arc::clone(&link));
        Self {
            node: Arc::clone(node),
            link,
            reader,
            touched: Touched::new(),
            assembling_bytes: 0,
        }
    }

    /// Reads once into the buffer. An error says why the peer is gone.
    pub(crate) fn poll_read<'b>(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &'b mut [u8],
    ) -> Poll<Result<&'b mut [u8], String>> {
        let mut read = ReadBuf::new(buffer);
        if let Err(error) = ready!(Pin::new(&mut self.reader).poll_read(cx, &mut read)) {
            return Poll::Ready(Err(error.to_string()));
        }
        let count = read.filled().len();
        if count == 0 {
            return Poll::Ready(Err("closed by the peer".to_owned()));
        }
        self.link
            .bytes_in
            .fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(buffer.get_mut(..count).unwrap_or_default()))
    }

    /// False while what is read could not be taken further.
    pub(crate) fn has_room(&self) -> bool {
        let link = &self.link;
        if link.pending_bytes.load(Ordering::Acquire) > self.node.outbox_bytes_max()
            || link.parked.load(Ordering::Acquire)
        {
            return false;
        }
        if !link.publisher.load(Ordering::Relaxed) {
            return true;
        }
        self.node.why_blocked().is_none() && !self.node.hold_back(link)
    }

    /// Writes what it has to, and what others have through what it did.
    pub(crate) fn flush(&mut self) {
        self.touched.push(Arc::clone(&self.link));
        self.node.flush(&mut self.touched);
    }

    /// Keeps the sum of half-received messages of all connections bounded, of which this one has
    /// so many bytes. False where it is to be dropped.
    pub(crate) fn count_assembling(&mut self, bytes: u64) -> bool {
        let before = std::mem::replace(&mut self.assembling_bytes, bytes);
        let all = &self.node.assembling_bytes;
        if bytes < before {
            all.fetch_sub(before - bytes, Ordering::Relaxed);
        } else if bytes > before {
            let now = all.fetch_add(bytes - before, Ordering::Relaxed) + (bytes - before);
            if now > self.node.settings.assembling_bytes_per_node.0 {
                log::warn(
                    "connection dropped: half-received messages of all connections are over \
                     assembling_bytes_per_node",
                    &[("connection", &self.link.id), ("peer", &self.link.peer)],
                );
                return false;
            }
        }
        true
    }

    /// Sends what is left, closes our side, and reads on for a moment: a socket that is closed
    /// with unread bytes in it takes back what the peer has not read yet.
    pub(crate) async fn linger(&mut self) {
        let link = Arc::clone(&self.link);
        let sent = async {
            while link.pending_bytes.load(Ordering::Acquire) > 0
                && !link.broken.load(Ordering::Acquire)
            {
                tokio::select! {
                    _ = link.socket().writable(), if link.blocked.load(Ordering::Acquire) => {
                        link.blocked.store(false, Ordering::Release);
                        link.flush(&self.node);
                    }
                    () = link.wake.notified() => {}
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
        };
        let _ = tokio::time::timeout(LINGER_MAX, sent).await;
        let socket = link.socket().as_ref();
        if rustix::net::shutdown(socket, rustix::net::Shutdown::Write).is_err() {
            return;
        }
        let rest = poll_fn(|cx| self.poll_discard(cx));
        let _ = tokio::time::timeout(DISCARD_MAX, rest).await;
    }

    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        with_buffer(|buffer| {
            loop {
                let mut read = ReadBuf::new(buffer);
                match ready!(Pin::new(&mut self.reader).poll_read(cx, &mut read)) {
                    Ok(()) if !read.filled().is_empty() => {}
                    Ok(()) | Err(_) => return Poll::Ready(()),
                }
            }
        })
    }
}

impl Drop for Wire {
    /// However the task ends, by a panic or with the runtime too, nobody keeps anything of it.
    fn drop(&mut self) {
        let (node, link) = (&self.node, &self.link);
        node.assembling_bytes
            .fetch_sub(self.assembling_bytes, Ordering::Relaxed);
        node.links.lock().remove(&link.id);
        let add = |sum: &AtomicU64, part: &AtomicU64| {
            sum.fetch_add(part.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        add(&node.bytes_in, &link.bytes_in);
        add(&node.bytes_out, &link.bytes_out);
    }
}

const READ_BYTES: usize = 64 * 1024;
const LINGER_MAX: Duration = Duration::from_secs(30);
const DISCARD_MAX: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);
