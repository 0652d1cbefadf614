//! The table of properties (§2.2.2.2): identifiers, types and where each may stand.

/// Where properties stand. Each has its own set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Place {
    /// In CONNECT.
    Connect = 1,
    /// Before the will's topic in CONNECT.
    Will = 2,
    /// In CONNACK.
    ConnAck = 4,
    /// In a PUBLISH to a server: one subscription identifier at most.
    PublishFromClient = 8,
    /// In a PUBLISH to a client: a subscription identifier for each subscription that matched.
    PublishFromServer = 16,
    /// In PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK and UNSUBACK.
    Ack = 32,
    /// In SUBSCRIBE.
    Subscribe = 64,
    /// In UNSUBSCRIBE.
    Unsubscribe = 128,
    /// In DISCONNECT.
    Disconnect = 256,
    /// In AUTH.
    Auth = 512,
}

const CONNECT: u16 = Place::Connect as u16;
const WILL: u16 = Place::Will as u16;
const CONNACK: u16 = Place::ConnAck as u16;
const PUBLISH: u16 = Place::PublishFromClient as u16 | Place::PublishFromServer as u16;
const ACK: u16 = Place::Ack as u16;
const SUBSCRIBE: u16 = Place::Subscribe as u16;
const DISCONNECT: u16 = Place::Disconnect as u16;
const AUTH: u16 = Place::Auth as u16;
const EVERYWHERE: u16 = 0x3FF;

/// Types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A byte that is 0 or 1: no property has another byte.
    Flag,
    /// Two bytes.
    Short,
    /// Four bytes.
    Long,
    /// A variable byte integer.
    Variable,
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
    /// Two strings.
    Pair,
}

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $text:literal, $kind:ident, $places:expr, $clause:literal;)*) => {
        /// Identifiers of properties.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum PropertyId {
            $($(#[$doc])* $name = $id,)*
        }

        impl PropertyId {
            /// `None` where the standard has no such property.
            #[inline]
            pub fn new(id: u32) -> Option<Self> {
                match id {
                    $($id => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The standard's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The clause that gives its range.
            pub fn clause(self) -> &'static str {
                match self {
                    $(Self::$name => $clause,)*
                }
            }

            #[inline]
            pub(super) fn kind(self) -> Kind {
                match self {
                    $(Self::$name => Kind::$kind,)*
                }
            }

            #[inline]
            fn places(self) -> u16 {
                match self {
                    $(Self::$name => $places,)*
                }
            }
        }
    };
}

properties! {
    /// 1: the payload is UTF-8.
    PayloadFormatIndicator = 1, "Payload Format Indicator", Flag, PUBLISH | WILL, "§3.3.2.3.2";
    /// Seconds that a message may wait.
    MessageExpiryInterval = 2, "Message Expiry Interval", Long, PUBLISH | WILL, "§3.3.2.3.3";
    /// What the payload is.
    ContentType = 3, "Content Type", Text, PUBLISH | WILL, "§3.3.2.3.9";
    /// Where an answer goes.
    ResponseTopic = 8, "Response Topic", Text, PUBLISH | WILL, "MQTT-3.3.2-14";
    /// What an answer is to.
    CorrelationData = 9, "Correlation Data", Binary, PUBLISH | WILL, "§3.3.2.3.6";
    /// The number that a client gave a subscription.
    SubscriptionIdentifier = 11, "Subscription Identifier", Variable, PUBLISH | SUBSCRIBE, "§3.8.2.1.2";
    /// Seconds that a session outlives its connection.
    SessionExpiryInterval = 17, "Session Expiry Interval", Long, CONNECT | CONNACK | DISCONNECT, "§3.1.2.11.2";
    /// The name that the server gave.
    AssignedClientIdentifier = 18, "Assigned Client Identifier", Text, CONNACK, "§3.2.2.3.7";
    /// Seconds, in place of the client's.
    ServerKeepAlive = 19, "Server Keep Alive", Short, CONNACK, "§3.2.2.3.14";
    /// Name of the authentication's method.
    AuthenticationMethod = 21, "Authentication Method", Text, CONNECT | CONNACK | AUTH, "§3.1.2.11.9";
    /// What the method has to say.
    AuthenticationData = 22, "Authentication Data", Binary, CONNECT | CONNACK | AUTH, "§3.1.2.11.10";
    /// 0: reason strings and user properties only where they must be.
    RequestProblemInformation = 23, "Request Problem Information", Flag, CONNECT, "§3.1.2.11.7";
    /// Seconds between the end of a connection and its will.
    WillDelayInterval = 24, "Will Delay Interval", Long, WILL, "§3.1.3.2.2";
    /// 1: response information is wanted.
    RequestResponseInformation = 25, "Request Response Information", Flag, CONNECT, "§3.1.2.11.6";
    /// What response topics are made of.
    ResponseInformation = 26, "Response Information", Text, CONNACK, "§3.2.2.3.15";
    /// Where to go instead.
    ServerReference = 28, "Server Reference", Text, CONNACK | DISCONNECT, "§3.2.2.3.16";
    /// For people.
    ReasonString = 31, "Reason String", Text, CONNACK | ACK | DISCONNECT | AUTH, "§3.2.2.3.9";
    /// Messages of QoS 1 and 2 in flight at once.
    ReceiveMaximum = 33, "Receive Maximum", Short, CONNECT | CONNACK, "§3.1.2.11.3";
    /// The greatest alias.
    TopicAliasMaximum = 34, "Topic Alias Maximum", Short, CONNECT | CONNACK, "§3.1.2.11.5";
    /// A number in place of a topic name.
    TopicAlias = 35, "Topic Alias", Short, PUBLISH, "MQTT-3.3.2-8";
    /// 0 or 1; without it 2.
    MaximumQos = 36, "Maximum QoS", Flag, CONNACK, "§3.2.2.3.4";
    /// 0: no retained messages.
    RetainAvailable = 37, "Retain Available", Flag, CONNACK, "§3.2.2.3.5";
    /// A name and a value; as many as one likes.
    UserProperty = 38, "User Property", Pair, EVERYWHERE, "§3.1.2.11.8";
    /// Bytes of a whole packet.
    MaximumPacketSize = 39, "Maximum Packet Size", Long, CONNECT | CONNACK, "§3.1.2.11.4";
    /// 0: no wildcards.
    WildcardSubscriptionAvailable = 40, "Wildcard Subscription Available", Flag, CONNACK, "§3.2.2.3.11";
    /// 0: no subscription identifiers.
    SubscriptionIdentifierAvailable = 41, "Subscription Identifier Available", Flag, CONNACK, "§3.2.2.3.12";
    /// 0: no shared subscriptions.
    SharedSubscriptionAvailable = 42, "Shared Subscription Available", Flag, CONNACK, "§3.2.2.3.13";
}

impl PropertyId {
    /// A bit of its own.
    #[inline]
    pub(super) const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// True where it may stand there.
    #[inline]
    pub fn is_allowed(self, place: Place) -> bool {
        self.places() & place as u16 != 0
    }

    /// True where it may stand there more than once.
    #[inline]
    pub fn may_repeat(self, place: Place) -> bool {
        self == Self::UserProperty
            || (self == Self::SubscriptionIdentifier && place == Place::PublishFromServer)
    }

    /// True where 0 is no value of it.
    #[inline]
    pub(super) fn is_never_zero(self) -> bool {
        matches!(
            self,
            Self::ReceiveMaximum
                | Self::TopicAlias
                | Self::MaximumPacketSize
                | Self::SubscriptionIdentifier
        )
    }
}
