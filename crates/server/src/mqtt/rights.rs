//! What a client may publish and subscribe to.
//!
//! Every user has all rights for now, as over AMQP; only what the server says of itself cannot be
//! said by others.

use menzil_model::Name;
use menzil_mqtt::Permission;

/// The rights of a client that was let in.
#[derive(Debug)]
pub(crate) struct Rights {
    user: Name,
}

impl Rights {
    /// Those of a user.
    pub(crate) fn of(user: Name) -> Self {
        Self { user }
    }

    /// Whose they are.
    pub(crate) fn user(&self) -> &Name {
        &self.user
    }

    /// Whether the topic is the client's to publish to.
    #[expect(clippy::unused_self, reason = "users are alike only for now")]
    pub(crate) fn may_publish(&self, topic: &[u8]) -> bool {
        !is_of_the_server(topic)
    }

    /// Whether the client may have that subscription.
    #[expect(clippy::unused_self, reason = "users are alike only for now")]
    pub(crate) fn may_subscribe(&self, _filter: &[u8]) -> Permission {
        Permission::Granted
    }
}

/// `$SYS` and what is below it (MQTT 5.0 §4.7.2).
fn is_of_the_server(topic: &[u8]) -> bool {
    let rest = topic.strip_prefix(b"$SYS");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_of_itself_nobody_else_says() {
        let rights = Rights::of(Name::empty());
        for topic in ["$SYS", "$SYS/", "$SYS/broker/uptime"] {
            assert!(!rights.may_publish(topic.as_bytes()), "{topic}");
        }
        for topic in ["$SYSTEM", "$sys/x", "a/$SYS", "a"] {
            assert!(rights.may_publish(topic.as_bytes()), "{topic}");
        }
    }
}
