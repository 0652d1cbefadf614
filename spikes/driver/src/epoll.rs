//! (a) One thread, epoll, everything its own: the floor.

use crate::Settings;
use crate::session::Session;
use crate::shard::{ConnectionId, Shard};
use rustix::event::epoll;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};

const LISTENER: u64 = u64::MAX;

struct Connection {
    stream: TcpStream,
    session: Session,
    /// Bytes that the session could not use yet.
    input: Vec<u8>,
    filled: usize,
    /// What the socket did not take, and from where on.
    blocked: Option<(Vec<u8>, usize)>,
}

pub fn serve(listener: &TcpListener, settings: Settings) -> Result<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    listener.set_nonblocking(true)?;
    epoll::add(
        &poll,
        listener,
        epoll::EventData::new_u64(LISTENER),
        epoll::EventFlags::IN,
    )?;
    let mut shard = Shard::new(settings);
    let mut connections = HashMap::<ConnectionId, Connection>::new();
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let (data, flags) = (event.data, event.flags);
            if data.u64() == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let id = shard.connect(|id| id);
                    epoll::add(
                        &poll,
                        &stream,
                        epoll::EventData::new_u64(id as u64),
                        epoll::EventFlags::IN,
                    )?;
                    let input = vec![0; settings.read_bytes];
                    let session = Session::new(id);
                    connections.insert(
                        id,
                        Connection {
                            stream,
                            session,
                            input,
                            filled: 0,
                            blocked: None,
                        },
                    );
                }
                continue;
            }
            let id = data.u64() as ConnectionId;
            if flags.contains(epoll::EventFlags::OUT)
                && let Some((bytes, at)) = connections.get_mut(&id).and_then(|it| it.blocked.take())
            {
                let connection = connections.get_mut(&id).expect("just seen");
                watch(&poll, &connection.stream, id, epoll::EventFlags::IN)?;
                flush(&poll, &mut shard, connection, id, bytes, at)?;
            }
            if flags
                .intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
            {
                let Some(connection) = connections.get_mut(&id) else {
                    continue;
                };
                let open = read(&mut shard, connection);
                let mut dirty = Vec::new();
                shard.take_dirty(|_, id, bytes| dirty.push((id, bytes)));
                for (id, bytes) in dirty {
                    if let Some(connection) = connections.get_mut(&id) {
                        flush(&poll, &mut shard, connection, id, bytes, 0)?;
                    }
                }
                if !open {
                    connections.remove(&id);
                    shard.disconnect(id);
                }
            }
        }
    }
}

fn watch(
    poll: &impl std::os::fd::AsFd,
    stream: &TcpStream,
    id: ConnectionId,
    flags: epoll::EventFlags,
) -> Result<()> {
    Ok(epoll::modify(
        poll,
        stream,
        epoll::EventData::new_u64(id as u64),
        flags,
    )?)
}

/// One read, processed. `false` when the connection is over.
fn read(shard: &mut Shard<ConnectionId>, connection: &mut Connection) -> bool {
    match connection
        .stream
        .read(&mut connection.input[connection.filled..])
    {
        Ok(0) => false,
        Ok(size) => {
            connection.filled += size;
            let used = connection
                .session
                .receive(shard, &connection.input[..connection.filled]);
            connection.input.copy_within(used..connection.filled, 0);
            connection.filled -= used;
            !connection.session.is_closing()
        }
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

/// Writes until nothing is left anywhere or the socket takes no more.
fn flush(
    poll: &impl std::os::fd::AsFd,
    shard: &mut Shard<ConnectionId>,
    connection: &mut Connection,
    id: ConnectionId,
    mut bytes: Vec<u8>,
    mut at: usize,
) -> Result<()> {
    loop {
        while at < bytes.len() {
            match connection.stream.write(&bytes[at..]) {
                Ok(size) => at += size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    connection.blocked = Some((bytes, at));
                    return watch(
                        poll,
                        &connection.stream,
                        id,
                        epoll::EventFlags::IN | epoll::EventFlags::OUT,
                    );
                }
                // The read side will see the connection's end.
                Err(_) => return Ok(()),
            }
        }
        match shard.written(id, bytes) {
            Some(more) => (bytes, at) = (more, 0),
            None => return Ok(()),
        }
    }
}
