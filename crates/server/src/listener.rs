//! Accepts connections, and survives what accepting can fail of.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use menzil_model::ConnectionId;
use tokio::net::{TcpListener, TcpStream};

use crate::config::Address;
use crate::connection;
use crate::driver::Node;
use crate::driver::link::Protocol;
use crate::log;
use crate::mqtt;

/// What is spoken where a listener listens.
#[derive(Clone)]
pub(crate) enum Speaks {
    /// AMQP 0-9-1.
    Amqp,
    /// MQTT, over TCP or over WebSocket.
    Mqtt(Arc<mqtt::Service>, Protocol),
}

/// Binds the address of that setting, where it has one; the error names what to do.
pub(crate) async fn bind(setting: &str, address: &Address) -> Result<Option<TcpListener>, String> {
    let Some(address) = address.host_and_port() else {
        return Ok(None);
    };
    let error = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(Some(listener)),
        Err(error) => error,
    };
    let flag = setting.replace('_', "-");
    let variable = setting.to_ascii_uppercase();
    let advice = if error.kind() == io::ErrorKind::AddrInUse {
        let next = address.rsplit_once(':').and_then(|(host, port)| {
            let next = port.parse::<u16>().ok()?.checked_add(1)?;
            Some(format!(", such as {host}:{next}"))
        });
        format!(
            "another program listens there: stop it, or choose another port with --{flag} ADDR \
             or MENZIL_{variable}{} (port 0 picks a free one, off listens nowhere)",
            next.unwrap_or_default()
        )
    } else {
        format!(
            "choose an address of this machine and a port that may be used with --{flag} ADDR or \
             MENZIL_{variable}"
        )
    };
    Err(format!("cannot listen on {address}: {error}; {advice}"))
}

/// Accepts until the server stops.
pub(crate) async fn accept_loop(node: Arc<Node>, listener: TcpListener, speaks: Speaks) {
    let mut stopping = node.stopping.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        match accepted {
            Ok((stream, peer)) => admit(&node, &speaks, stream, peer),
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

fn admit(node: &Arc<Node>, speaks: &Speaks, stream: TcpStream, peer: SocketAddr) {
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
    let id = ConnectionId(number);
    match speaks {
        Speaks::Amqp => {
            let connection = connection::Connection::new(node, id, stream, peer);
            tokio::spawn(connection.run());
        }
        Speaks::Mqtt(service, protocol) => {
            let id = (id, *protocol);
            let connection = mqtt::Connection::new(node, service, id, stream, peer);
            tokio::spawn(connection.run());
        }
    }
}

const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);
const LOG_EVERY: u64 = 1000;
