//! Topic aliases that the client sets (§3.3.2.3.4). They end with the connection.

use crate::codec::{Property, PropertyId, Publish, ReasonCode};
use crate::session::fault::Fault;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct TopicAliases {
    /// By alias, 0 stays empty.
    topics: Vec<Box<[u8]>>,
}

impl TopicAliases {
    /// Aliases up to the greatest that was set, and 0.
    pub(super) fn len(&self) -> usize {
        self.topics.len()
    }

    /// The topic of a PUBLISH, which may set or use an alias.
    ///
    /// # Errors
    /// The alias is greater than the server allows (MQTT-3.3.2-9), or stands for nothing.
    #[inline]
    pub(super) fn topic_of<'a>(
        &'a mut self,
        publish: &Publish<'a>,
        most: u16,
    ) -> Result<&'a [u8], Fault> {
        let topic = publish.topic;
        let Some(Property::Short(_, alias)) = publish.properties.find(PropertyId::TopicAlias)
        else {
            return Ok(topic.as_bytes());
        };
        if topic.is_aliased() {
            return self.topic(alias, most);
        }
        self.set(alias, topic.as_bytes(), most)?;
        Ok(topic.as_bytes())
    }

    /// The alias stands for that topic from now on.
    fn set(&mut self, alias: u16, topic: &[u8], most: u16) -> Result<(), Fault> {
        check(alias, most)?;
        let at = usize::from(alias);
        if self.topics.len() <= at {
            self.topics.resize_with(at + 1, Box::default);
        }
        if let Some(place) = self.topics.get_mut(at)
            && **place != *topic
        {
            *place = topic.into();
        }
        Ok(())
    }

    /// What it stands for; nothing is a protocol error (§3.3.2.3.4).
    fn topic(&self, alias: u16, most: u16) -> Result<&[u8], Fault> {
        check(alias, most)?;
        let topic = self.topics.get(usize::from(alias));
        let topic = topic.filter(|topic| !topic.is_empty());
        topic.map(AsRef::as_ref).ok_or_else(|| {
            Fault::protocol("PUBLISH: the topic alias stands for nothing [§3.3.2.3.4]")
        })
    }
}

fn check(alias: u16, most: u16) -> Result<(), Fault> {
    if alias == 0 || alias > most {
        let text = format!("PUBLISH: topic alias {alias}, the maximum is {most} [MQTT-3.3.2-9]");
        return Err(Fault::new(ReasonCode::TopicAliasInvalid, &text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason<T>(result: Result<T, Fault>) -> Option<ReasonCode> {
        result.err().map(|fault| fault.reason)
    }

    #[test]
    fn an_alias_stands_for_the_topic_that_it_was_set_with_last() {
        let mut aliases = TopicAliases::default();
        assert_eq!(reason(aliases.topic(1, 2)), Some(ReasonCode::ProtocolError));
        aliases.set(2, b"a", 2).unwrap();
        aliases.set(1, b"b", 2).unwrap();
        assert_eq!(aliases.topic(2, 2), Ok(&b"a"[..]));
        aliases.set(2, b"c", 2).unwrap();
        assert_eq!(aliases.topic(2, 2), Ok(&b"c"[..]));
        for wrong in [0, 3, u16::MAX] {
            let invalid = Some(ReasonCode::TopicAliasInvalid);
            assert_eq!(reason(aliases.set(wrong, b"a", 2)), invalid);
            assert_eq!(reason(aliases.topic(wrong, 2)), invalid);
        }
    }
}
