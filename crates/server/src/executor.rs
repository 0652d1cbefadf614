//! Carries out what a connection's input asks for, as the protocol session comes upon it.
//!
//! The shard is taken with the first command and held until the end of the read: one lock for
//! all that it brought.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use menzil_amqp::{Action, Outgoing, Sink};
use menzil_core::{ChannelKey, Command, PublishRef, Request};
use menzil_model::{DeliveryTag, Name};

use crate::Secret;
use crate::connection::End;
use crate::driver::Node;
use crate::driver::link::Link;
use crate::driver::shard_driver::{Batch, Touched};

/// See the module.
pub(crate) struct Executor<'a> {
    node: &'a Node,
    link: &'a Arc<Link>,
    batch: Option<Batch<'a>>,
    said_something: bool,
    /// What follows is not carried out yet: the client is to take some output first.
    holds: bool,
    done: Done,
}

/// What is left when it is through.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) touched: Touched,
    /// What is to be carried out later, in order.
    pub(crate) held: Vec<Action>,
    pub(crate) is_closing: bool,
    pub(crate) question: Option<Question>,
    pub(crate) end: Option<End>,
}

/// What only the driver can answer.
pub(crate) enum Question {
    Login { user: Vec<u8>, password: Secret },
    Open { virtual_host: Name },
}

impl<'a> Executor<'a> {
    pub(crate) fn new(node: &'a Node, link: &'a Arc<Link>, touched: Touched) -> Self {
        Self {
            node,
            link,
            batch: None,
            said_something: false,
            holds: false,
            done: Done {
                touched,
                ..Done::default()
            },
        }
    }

    /// Lets the shard go.
    pub(crate) fn finish(self) -> Done {
        let Self {
            batch, mut done, ..
        } = self;
        drop(batch);
        if self.said_something && self.link.touch() {
            done.touched.push(Arc::clone(self.link));
        }
        done
    }

    /// The shard, from now on held; with what the link has sent given back to it.
    fn batch(&mut self) -> Option<(&mut Batch<'a>, &mut Touched)> {
        let touched = &mut self.done.touched;
        if self.batch.is_none() {
            let mut batch = self.link.shard()?.batch(self.node);
            batch.give_back(self.link, touched);
            self.batch = Some(batch);
        }
        self.batch.as_mut().map(|batch| (batch, touched))
    }

    fn command(&mut self, command: Command) {
        let (node, link) = (self.node, self.link);
        let last = matches!(command, Command::ConnectionClosed { .. });
        let asks_for_content = is_get(&command);
        let Some((batch, touched)) = self.batch() else {
            return;
        };
        if let Command::ConnectionOpened { .. } = &command {
            batch.enter(link);
        }
        batch.execute(command, touched);
        batch.park(link);
        if asks_for_content
            && let Some(outbound) = batch.outbound(link, touched)
            && node.is_over(outbound.pending_bytes(), link)
        {
            // A few bytes ask for a whole message: what else was read waits until the client
            // has taken some.
            self.holds = true;
        } else if last {
            batch.leave(link.id);
        }
    }

    fn send(&mut self, outgoing: Outgoing) {
        self.done.is_closing |= matches!(outgoing, Outgoing::ConnectionException { .. });
        self.said_something = true;
        match &mut self.batch {
            Some(batch) => {
                let outbound = batch.outbound(self.link, &mut self.done.touched);
                if let Some(outbound) = outbound.and_then(|outbound| outbound.amqp()) {
                    outbound.send(outgoing);
                }
            }
            None => {
                if let Some(outbound) = self.link.outbound().amqp() {
                    outbound.send(outgoing);
                }
            }
        }
    }
}

impl Sink for Executor<'_> {
    fn action(&mut self, action: Action) {
        if self.holds {
            self.done.held.push(action);
            return;
        }
        match action {
            Action::Command(Command::Request {
                channel,
                request: Request::Publish(publish),
            }) => self.publish(channel, &publish.borrowed()),
            Action::Command(command) => self.command(command),
            Action::Send(outgoing) => self.send(outgoing),
            Action::Authenticate { user, password, .. } => {
                let password = Secret::new(password.as_bytes());
                self.done.question = Some(Question::Login { user, password });
            }
            Action::Open { vhost } => {
                self.done.question = Some(Question::Open {
                    virtual_host: vhost,
                });
            }
            Action::Close { reason } => self.done.end = Some(End::Closed(reason)),
        }
    }

    fn publish(&mut self, channel: ChannelKey, publish: &PublishRef<'_>) {
        if self.holds {
            let request = Request::Publish(publish.to_owned());
            let command = Command::Request { channel, request };
            self.done.held.push(Action::Command(command));
            return;
        }
        let link = self.link;
        if let Some((batch, touched)) = self.batch() {
            link.publisher.store(true, Ordering::Relaxed);
            batch.publish(channel, publish, touched);
            batch.park(link);
        }
    }

    fn acknowledge(&mut self, channel: ChannelKey, delivery_tags: &[DeliveryTag]) {
        if self.holds {
            let held = &mut self.done.held;
            return held.acknowledge(channel, delivery_tags);
        }
        let link = self.link;
        if let Some((batch, touched)) = self.batch() {
            batch.acknowledge(channel, delivery_tags, touched);
            batch.park(link);
        }
    }

    fn has_foresight(&self) -> bool {
        self.batch.as_ref().is_some_and(Batch::has_foresight)
    }

    fn foresee(&mut self, keys: &[(&[u8], &[u8])]) {
        if let Some(batch) = &self.batch {
            batch.foresee(keys);
        }
    }
}

fn is_get(command: &Command) -> bool {
    let Command::Request { request, .. } = command else {
        return false;
    };
    matches!(request, Request::Get { .. })
}
