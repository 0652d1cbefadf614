//! SUBSCRIBE and UNSUBSCRIBE (§3.8, §3.10).

use menzil_model::wire::{Reader, Writer};

use super::decode::{Rules, read_bytes, read_field, read_packet_id, read_properties, read_u8};
use super::encode::put_field;
use super::packet::{PacketId, Version};
use super::property::{Place, Properties};
use super::publish::Qos;
use super::text::TextPolicy;
use super::topic::TopicFilter;
use super::violation::Rule;

/// A client wants messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// For the SUBACK.
    pub packet_id: PacketId,
    /// Empty before 5.0.
    pub properties: Properties<'a>,
    /// At least one.
    pub subscriptions: Subscriptions<'a>,
}

/// A client wants no more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// For the UNSUBACK.
    pub packet_id: PacketId,
    /// Empty before 5.0.
    pub properties: Properties<'a>,
    /// At least one.
    pub filters: Filters<'a>,
}

/// A filter and how its messages are to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// What is wanted.
    pub filter: TopicFilter<'a>,
    /// How.
    pub options: SubscriptionOptions,
}

impl Subscription<'_> {
    /// Appends it as SUBSCRIBE has it. Before 5.0 only the QoS is told.
    pub fn write(&self, version: Version, out: &mut Vec<u8>) {
        put_field(out, self.filter.as_bytes());
        out.put_u8(if version.is_5() {
            self.options.to_byte()
        } else {
            self.options.qos.number()
        });
    }
}

/// Subscription options (§3.8.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// The most that messages may have.
    pub qos: Qos,
    /// Not what this client has published.
    pub no_local: bool,
    /// RETAIN stays as it was published.
    pub retain_as_published: bool,
    /// What of the retained messages.
    pub retain_handling: RetainHandling,
}

/// Which retained messages come when a subscription is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RetainHandling {
    /// All.
    Send = 0,
    /// All, if the subscription was not there.
    SendIfNew = 1,
    /// None.
    Keep = 2,
}

impl SubscriptionOptions {
    /// What 3.1.1 has: the QoS alone.
    #[inline]
    pub fn of(qos: Qos) -> Self {
        Self {
            qos,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Send,
        }
    }

    /// From the byte on the wire.
    ///
    /// # Errors
    /// Reserved bits, QoS 3, retain handling 3 (MQTT-3.8.3-5; MQTT 3.1.1 MQTT-3-8.3-4).
    pub fn from_byte(byte: u8, version: Version) -> Result<Self, Rule> {
        let reserved = if version.is_5() {
            0b1100_0000
        } else {
            0b1111_1100
        };
        let qos = Qos::new(byte & 0b11).ok_or(Rule::SubscriptionOptions)?;
        let retain_handling = match byte >> 4 & 0b11 {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::Keep,
            _ => return Err(Rule::SubscriptionOptions),
        };
        if byte & reserved != 0 {
            return Err(Rule::SubscriptionOptions);
        }
        Ok(Self {
            qos,
            no_local: byte & 0b100 != 0,
            retain_as_published: byte & 0b1000 != 0,
            retain_handling,
        })
    }

    /// The byte on the wire (5.0).
    pub fn to_byte(self) -> u8 {
        self.qos.number()
            | u8::from(self.no_local) << 2
            | u8::from(self.retain_as_published) << 3
            | (self.retain_handling as u8) << 4
    }
}

/// Checked subscriptions in the bytes they came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriptions<'a> {
    bytes: &'a [u8],
    count: usize,
    version: Version,
}

impl<'a> Subscriptions<'a> {
    /// Checks them, as SUBSCRIBE has them behind its properties.
    ///
    /// # Errors
    /// None at all (MQTT-3.8.3-2), or one that is wrong.
    pub fn parse(bytes: &'a [u8], version: Version, rules: &Rules) -> Result<Self, Rule> {
        let mut reader = Reader::new(bytes);
        let mut count = 0;
        while !reader.is_empty() {
            read_subscription(&mut reader, version, rules.text, rules.topic_levels_max)?;
            count += 1;
        }
        if count == 0 {
            return Err(Rule::NoFilters);
        }
        Ok(Self {
            bytes,
            count,
            version,
        })
    }

    /// How many, at least 1.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = Subscription<'a>> + Clone + use<'a> {
        let mut reader = Reader::new(self.bytes);
        let version = self.version;
        std::iter::from_fn(move || {
            read_subscription(&mut reader, version, TextPolicy::Any, u16::MAX).ok()
        })
    }

    /// As on the wire.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

fn read_subscription<'a>(
    reader: &mut Reader<'a>,
    version: Version,
    policy: TextPolicy,
    levels_max: u16,
) -> Result<Subscription<'a>, Rule> {
    let filter = read_field(reader)?;
    let options = read_u8(reader)?;
    let filter = TopicFilter::parse(filter, policy, levels_max)?;
    let options = SubscriptionOptions::from_byte(options, version)?;
    if options.no_local && filter.group().is_some() {
        return Err(Rule::SharedNoLocal);
    }
    Ok(Subscription { filter, options })
}

/// Checked filters in the bytes they came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filters<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Filters<'a> {
    /// Checks them, as UNSUBSCRIBE has them behind its properties.
    ///
    /// # Errors
    /// None at all (MQTT-3.10.3-2), or one that is wrong.
    pub fn parse(bytes: &'a [u8], rules: &Rules) -> Result<Self, Rule> {
        let mut reader = Reader::new(bytes);
        let mut count = 0;
        while !reader.is_empty() {
            let filter = read_field(&mut reader)?;
            TopicFilter::parse(filter, rules.text, rules.topic_levels_max)?;
            count += 1;
        }
        if count == 0 {
            return Err(Rule::NoFilters);
        }
        Ok(Self { bytes, count })
    }

    /// How many, at least 1.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = TopicFilter<'a>> + Clone + use<'a> {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || {
            let filter = read_field(&mut reader).ok()?;
            TopicFilter::parse(filter, TextPolicy::Any, u16::MAX).ok()
        })
    }

    /// As on the wire.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

pub(super) fn read_subscribe<'a>(
    reader: &mut Reader<'a>,
    version: Version,
    rules: &Rules,
) -> Result<Subscribe<'a>, Rule> {
    let packet_id = read_packet_id(reader)?;
    let properties = read_properties(reader, Place::Subscribe, version, rules)?;
    let bytes = read_bytes(reader, reader.rest().len())?;
    Ok(Subscribe {
        packet_id,
        properties,
        subscriptions: Subscriptions::parse(bytes, version, rules)?,
    })
}

pub(super) fn read_unsubscribe<'a>(
    reader: &mut Reader<'a>,
    version: Version,
    rules: &Rules,
) -> Result<Unsubscribe<'a>, Rule> {
    let packet_id = read_packet_id(reader)?;
    let properties = read_properties(reader, Place::Unsubscribe, version, rules)?;
    let bytes = read_bytes(reader, reader.rest().len())?;
    Ok(Unsubscribe {
        packet_id,
        properties,
        filters: Filters::parse(bytes, rules)?,
    })
}
