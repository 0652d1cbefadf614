//! The protocol state of one connection: almost none, since a message is only taken once it lies
//! in the read buffer whole.

use crate::shard::{ConnectionId, Shard};
use crate::wire::{Message, put_method, short, split_frame};

pub struct Session {
    id: ConnectionId,
    greeted: bool,
    closing: bool,
    /// The queue of the last routing key: publishers rarely change it.
    last: (Vec<u8>, Option<usize>),
}

impl Session {
    pub fn new(id: ConnectionId) -> Self {
        Self {
            id,
            greeted: false,
            closing: false,
            last: (Vec::new(), None),
        }
    }

    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Handles every whole message and method in `bytes`; returns how many bytes that were.
    pub fn receive<H: Clone>(&mut self, shard: &mut Shard<H>, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        if !self.greeted {
            let Some((_, after)) = rest.split_at_checked(8) else {
                return 0;
            };
            rest = after;
            self.greeted = true;
            let empty_table = [0; 4];
            let start = [
                &[0, 9][..],
                &empty_table,
                b"\0\0\0\x05PLAIN",
                b"\0\0\0\x05en_US",
            ];
            shard.reply(self.id, |out| put_method(out, 0, 10, 10, &start));
        }
        self.last.1 = shard.queue_of(&self.last.0);
        loop {
            let mut ahead = rest;
            let Some(method) = split_frame(&mut ahead) else {
                break;
            };
            if method.kind != 1 {
                rest = ahead;
                continue;
            }
            let (ids, mut arguments) = method.payload.split_at(4);
            if ids == [0, 60, 0, 40] {
                let Some(header) = split_frame(&mut ahead) else {
                    break;
                };
                let size = u64::from_be_bytes(header.payload[4..12].try_into().expect("eight"));
                let mut body = &[][..];
                if size > 0 {
                    let Some(frame) = split_frame(&mut ahead) else {
                        break;
                    };
                    assert_eq!(
                        frame.payload.len() as u64,
                        size,
                        "one body frame per message"
                    );
                    body = frame.payload;
                }
                let after_ticket = &arguments[2..];
                arguments = after_ticket;
                short(&mut arguments);
                let key = short(&mut arguments);
                let envelope = &after_ticket[..after_ticket.len() - arguments.len()];
                if self.last.0 != key {
                    self.last = (key.to_vec(), shard.queue_of(key));
                }
                if let Some(queue) = self.last.1 {
                    shard.publish(
                        queue,
                        Message {
                            envelope,
                            header: header.payload,
                            body,
                        },
                    );
                }
            } else {
                self.method(shard, method.channel, ids, arguments);
            }
            rest = ahead;
        }
        bytes.len() - rest.len()
    }

    fn method<H: Clone>(
        &mut self,
        shard: &mut Shard<H>,
        channel: u16,
        ids: &[u8],
        mut arguments: &[u8],
    ) {
        let mut reply = |class, method, arguments: &[&[u8]]| {
            shard.reply(self.id, |out| {
                put_method(out, channel, class, method, arguments)
            });
        };
        match (ids[1], ids[3]) {
            // start-ok → tune; tune-ok; open → open-ok; close → close-ok
            (10, 11) => reply(
                10,
                30,
                &[&2047u16.to_be_bytes(), &131_072u32.to_be_bytes(), &[0, 0]],
            ),
            (10, 31) => {}
            (10, 40) => reply(10, 41, &[&[0]]),
            (10, 50) => {
                reply(10, 51, &[]);
                self.closing = true;
            }
            // channel.open, basic.qos, confirm.select
            (20, 10) => reply(20, 11, &[&[0; 4]]),
            (60, 10) => reply(60, 11, &[]),
            // queue.declare, queue.delete
            (50, 10) => {
                arguments = &arguments[2..];
                let name = short(&mut arguments);
                reply(50, 11, &[&[name.len() as u8], name, &[0; 8]]);
                shard.declare(name);
            }
            (50, 40) => {
                arguments = &arguments[2..];
                let name = short(&mut arguments);
                reply(50, 41, &[&[0; 4]]);
                shard.delete(name);
            }
            // basic.consume
            (60, 20) => {
                arguments = &arguments[2..];
                let name = short(&mut arguments);
                let start = arguments;
                let tag = start[..=short(&mut arguments).len()].to_vec();
                reply(60, 21, &[&tag]);
                shard.consume(name, self.id, channel, tag);
            }
            other => panic!("method {other:?} is not in this spike"),
        }
    }
}
