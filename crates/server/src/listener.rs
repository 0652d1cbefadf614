//! Accepts connections, and survives what accepting can fail of.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use menzil_model::ConnectionId;
use tokio::net::{TcpListener, TcpStream};

use crate::connection;
use crate::driver::Node;
use crate::log;

/// Binds `HOST:PORT`; the error names what to do.
pub(crate) async fn bind(address: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = if error.kind() == io::ErrorKind::AddrInUse {
            "another program listens there: stop it, or choose another port with --amqp ADDR \
             or MENZIL_AMQP, such as 127.0.0.1:5673 (port 0 picks a free one)"
        } else {
            "choose an address of this machine and a port that may be used with --amqp ADDR or \
             MENZIL_AMQP"
        };
        format!("cannot listen on {address}: {error}; {advice}")
    })
}

/// Accepts until the server stops.
pub(crate) async fn accept_loop(node: Arc<Node>, listener: TcpListener) {
    let mut stopping = node.stopping.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        match accepted {
            Ok((stream, peer)) => admit(&node, stream, peer),
            Err(error) => {
                // Mostly the process has too many files open: connections wait in the
                // kernel's list meanwhile. One that was reset before it was accepted is normal.
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    log::warn("cannot accept a connection", &[("why", &error)]);
                    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                }
            }
        }
    }
}

fn admit(node: &Arc<Node>, stream: TcpStream, peer: SocketAddr) {
    let number = node.connections_accepted.fetch_add(1, Ordering::Relaxed) + 1;
    if node.links.lock().len() >= node.settings.connections_max {
        let refused = node.connections_refused.fetch_add(1, Ordering::Relaxed);
        if refused.is_multiple_of(LOG_EVERY) {
            log::warn(
                "connection refused: there are as many as connections_max allows; raise it, or \
                 see who opens so many",
                &[
                    ("peer", &peer),
                    ("connections_max", &node.settings.connections_max),
                ],
            );
        }
        return;
    }
    // Frames are written as batches already; waiting for more would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        log::debug(
            "connection lost at once",
            &[("peer", &peer), ("why", &error)],
        );
        return;
    }
    let connection = connection::Connection::new(node, ConnectionId(number), stream, peer);
    tokio::spawn(connection.run());
}

const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);
const LOG_EVERY: u64 = 1000;
