//! Carries out what a connection's input asks for, as the protocol session comes upon it.
//!
//! As with AMQP the shard is taken with the first request and held until the end of the read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use menzil_core::{Command, SessionRequest, TopicPublish};
use menzil_mqtt::{Action, CloseReason, Login, Outgoing, Permission, Sink};

use super::rights::Rights;
use crate::driver::Node;
use crate::driver::link::Link;
use crate::driver::shard_driver::{Batch, Touched};

/// See the module.
pub(super) struct Executor<'a> {
    node: &'a Node,
    link: &'a Arc<Link>,
    rights: &'a Rights,
    batch: Option<Batch<'a>>,
    said_something: bool,
    done: Done,
}

/// What is left when it is through.
#[derive(Default)]
pub(super) struct Done {
    pub(super) touched: Touched,
    pub(super) login: Option<Box<Login>>,
    pub(super) end: Option<CloseReason>,
    /// Publishes that were denied, and the topic of the last.
    pub(super) denied: u64,
    pub(super) denied_topic: bytes::Bytes,
}

impl<'a> Executor<'a> {
    pub(super) fn new(
        node: &'a Node,
        link: &'a Arc<Link>,
        rights: &'a Rights,
        touched: Touched,
    ) -> Self {
        Self {
            node,
            link,
            rights,
            batch: None,
            said_something: false,
            done: Done {
                touched,
                ..Done::default()
            },
        }
    }

    /// Whether nothing that still comes matters.
    pub(super) fn is_over(&self) -> bool {
        self.done.end.is_some()
    }

    /// Lets the shard go.
    pub(super) fn finish(self) -> Done {
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

    fn send(&mut self, outgoing: Outgoing) {
        self.said_something = true;
        match &mut self.batch {
            Some(batch) => {
                let outbound = batch.outbound(self.link, &mut self.done.touched);
                if let Some(outbound) = outbound.and_then(|outbound| outbound.mqtt()) {
                    outbound.send(outgoing);
                }
            }
            None => {
                if let Some(outbound) = self.link.outbound().mqtt() {
                    outbound.send(outgoing);
                }
            }
        }
    }
}

impl Sink for Executor<'_> {
    fn action(&mut self, action: Action) {
        match action {
            Action::Authenticate(login) => self.done.login = Some(login),
            Action::Request(request) => self.request(request),
            Action::Publish(publish) => self.publish(&publish.borrowed()),
            Action::Send(outgoing) => self.send(outgoing),
            Action::Denied { topic, .. } => {
                self.done.denied += 1;
                self.done.denied_topic = topic;
            }
            Action::Close { reason } => self.done.end = Some(reason),
        }
    }

    fn request(&mut self, request: SessionRequest) {
        let link = self.link;
        let connection = link.id;
        let Some((batch, touched)) = self.batch() else {
            return;
        };
        if let SessionRequest::Open(_) = &request {
            batch.enter(link);
        }
        let command = Command::Session {
            connection,
            request,
        };
        batch.execute(command, touched);
    }

    fn publish(&mut self, publish: &TopicPublish<'_>) {
        let link = self.link;
        if let Some((batch, touched)) = self.batch() {
            link.publisher.store(true, Ordering::Relaxed);
            batch.publish_topic(link.id, publish, touched);
        }
    }

    fn may_publish(&mut self, topic: &[u8]) -> bool {
        self.rights.may_publish(topic)
    }

    fn may_subscribe(&mut self, filter: &[u8]) -> Permission {
        self.rights.may_subscribe(filter)
    }

    fn answered(&mut self) -> u64 {
        if let Some(batch) = &mut self.batch {
            let outbound = batch.outbound(self.link, &mut self.done.touched);
            let outbound = outbound.and_then(|outbound| outbound.mqtt());
            return outbound.map_or(0, |outbound| outbound.answered());
        }
        let mut outbound = self.link.outbound();
        outbound.mqtt().map_or(0, |outbound| outbound.answered())
    }
}
