//! Why a request failed, in the core's own words. Each protocol maps these to its codes in one
//! table; texts for people are made there.

use menzil_model::{ChannelId, DeliveryTag, Name};

/// The two kinds of named things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A queue by name.
    Queue(Name),
    /// An exchange by name.
    Exchange(Name),
}

/// A property or argument as it was asked for, or as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// It is absent.
    Absent,
    /// A flag of the method.
    Flag(bool),
    /// A text: an exchange type, or a value as RabbitMQ prints it, and the type of the field
    /// value.
    Value {
        /// The value.
        text: String,
        /// The field type's name, such as `long`.
        kind: &'static str,
    },
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No queue, or no exchange, of that name.
    NotFound(Object),
    /// An empty queue name, and none was declared on the channel.
    NoQueueDeclared,
    /// The default exchange cannot be declared, deleted, bound or unbound.
    DefaultExchange,
    /// A new object's name starts with `amq.`, or it is a queue of MQTT sessions.
    ReservedPrefix(Object),
    /// A predeclared exchange cannot be deleted.
    SystemExchange(Name),
    /// An internal exchange takes no publishes.
    InternalExchange(Name),
    /// An exclusive consumer has the queue, or others have and exclusivity was asked for.
    ExclusiveUse(Name),
    /// `basic.get` on a quorum queue with a single active consumer.
    SingleActiveConsumer(Name),
    /// An exclusive queue of another connection.
    Locked(Name),
    /// Redeclared otherwise than it is.
    Inequivalent {
        /// What was declared.
        object: Object,
        /// The property or argument.
        argument: Name,
        /// What was asked for.
        received: Given,
        /// What it is.
        current: Given,
    },
    /// `if-unused` does not hold.
    InUse(Object),
    /// `if-empty` does not hold.
    NotEmpty(Name),
    /// No such delivery is outstanding on the channel.
    UnknownDeliveryTag(DeliveryTag),
    /// No such exchange type.
    UnknownExchangeType(Name),
    /// An exchange type that exists elsewhere and is not built yet.
    UnsupportedExchangeType(Name),
    /// An argument's value cannot be.
    InvalidArgument {
        /// What was declared.
        object: Object,
        /// The argument.
        argument: Name,
        /// Why, as RabbitMQ's term.
        reason: String,
    },
    /// `x-delayed-type` is missing, or no text.
    DelayedType,
    /// `x-delayed-type` is `x-delayed-message`.
    DelayedTwice,
    /// `x-recent-history-length` is no positive integer.
    InvalidHistoryLength {
        /// The value, as Erlang prints it.
        value: String,
    },
    /// An argument that exists elsewhere and is not built yet.
    UnsupportedArgument {
        /// What was declared, bound or consumed.
        object: Object,
        /// The argument.
        argument: Name,
    },
    /// An argument that begins as this broker's own do and is none of them.
    UnknownArgument {
        /// What was declared, bound or consumed.
        object: Object,
        /// The argument.
        argument: Name,
        /// Who has which, in words.
        known: &'static str,
    },
    /// A queue of its type cannot be that.
    InvalidProperty {
        /// What was declared.
        object: Object,
        /// The property, in RabbitMQ's word.
        property: &'static str,
    },
    /// An argument's value has a type that cannot be.
    InvalidType {
        /// What was declared.
        object: Object,
        /// The argument.
        argument: Name,
        /// The field type's name.
        kind: &'static str,
    },
    /// An argument that queues of this type do not have.
    ArgumentOfOtherType {
        /// What was declared.
        object: Object,
        /// The argument.
        argument: Name,
        /// The queue's type.
        kind: &'static str,
    },
    /// A queue of that type needs a name.
    ServerNamed {
        /// The queue's type.
        kind: &'static str,
    },
    /// The `x-name-prefix` of a name that is to be made up takes more than 64 bytes.
    NamePrefixTooLong(Name),
    /// The `user_id` property names somebody else.
    UserId {
        /// The property.
        given: Name,
        /// Who is logged in.
        user: Name,
    },
    /// A binding's `x-match` is none of the four.
    InvalidMatch {
        /// The value as RabbitMQ prints it.
        value: String,
    },
    /// A binding's `x-match` is no text.
    InvalidMatchType {
        /// The field type's name.
        kind: &'static str,
        /// The value as RabbitMQ prints it.
        value: String,
    },
    /// The binding key of a consistent hash exchange is no number.
    WeightText {
        /// The key as RabbitMQ prints it.
        key: String,
    },
    /// The binding key of a consistent hash exchange is zero or less.
    WeightTooLow,
    /// The binding key of a consistent hash exchange is too large a number.
    WeightTooHigh {
        /// The largest weight.
        weight_max: u16,
    },
    /// Both `hash-header` and `hash-property`.
    HashTwice,
    /// A property that cannot be hashed.
    HashProperty(Name),
    /// A binding key where there can be none.
    BindingKey(Name),
    /// An exchange that only queues can be bound to.
    NoQueue,
    /// The `expiration` property is no number of milliseconds in range.
    InvalidExpiration {
        /// The value.
        value: Name,
        /// Why, as RabbitMQ's term.
        reason: String,
    },
    /// A `CC` or `BCC` header is no array.
    InvalidHeader {
        /// `CC` or `BCC`.
        header: &'static str,
        /// The field type's name.
        kind: &'static str,
        /// The value as RabbitMQ prints it.
        value: String,
    },
    /// `confirm.select` on a transactional channel.
    ConfirmOnTransactional,
    /// `tx.select` on a confirm channel.
    TransactionOnConfirm,
    /// Commit or rollback without `tx.select`.
    NotTransactional,
    /// A queue refused a message of the transaction; nothing of it was stored.
    TransactionRefused,
    /// The transaction holds more than the setting allows.
    TransactionTooLarge {
        /// Bytes it would hold.
        bytes: u64,
        /// The setting.
        bytes_max: u64,
    },
    /// A consumer of that tag is on the channel. Hard.
    ConsumerTagInUse(Name),
    /// `prefetch-size` is not implemented. Hard.
    PrefetchSize(u32),
    /// `requeue=false` of recover is not implemented. Hard.
    RecoverWithoutRequeue,
    /// The channel has a consumer of direct replies.
    ReplyConsumerExists,
    /// A consumer of direct replies wants to acknowledge.
    ReplyConsumerAcknowledges,
    /// Nobody but the channel that has it may consume from the name that replies go to.
    ReplyQueueConsumer(Name),
    /// `basic.get` from the name that replies go to. Hard.
    ReplyQueueGet(Name),
    /// The name that replies go to cannot be bound.
    ReplyQueueBinding,
    /// A delivery was left unsettled for too long, by a client that does not understand a
    /// consumer's cancellation.
    ConsumerTimeout {
        /// The channel.
        channel: ChannelId,
        /// Milliseconds that it had.
        timeout: u64,
    },
    /// A publish asks for direct replies, and its channel has no consumer of them.
    NoReplyConsumer,
    /// The disk is full: nothing durable can be declared or bound.
    NoRoom,
    /// A bound of this broker is reached: what, and how many.
    LimitReached {
        /// What there are too many of.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
}

impl Refusal {
    /// True where the whole connection ends, not only the channel.
    pub fn is_hard(&self) -> bool {
        matches!(
            self,
            Self::ConsumerTagInUse(_)
                | Self::PrefetchSize(_)
                | Self::RecoverWithoutRequeue
                | Self::ReplyQueueGet(_)
        )
    }
}
