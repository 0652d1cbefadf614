//! The core's refusals as reply codes and texts, word for word those of RabbitMQ 4.3 where it
//! has the case. The one place where they are made.

use menzil_core::{Given, Object, Refusal};

use crate::violation::{Code, Violation};

/// Code and text of a refusal in that virtual host.
pub fn violation(refusal: &Refusal, vhost: &[u8]) -> Violation {
    let named = |object: &Object| resource(object, vhost);
    let queue = |name: &menzil_model::Name| resource(&Object::Queue(name.clone()), vhost);
    let exchange = |name: &menzil_model::Name| resource(&Object::Exchange(name.clone()), vhost);
    let (code, text) = match refusal {
        Refusal::NotFound(object) => (Code::NotFound, join(&[b"no ", &named(object)])),
        Refusal::NoQueueDeclared => (Code::NotFound, b"no previously declared queue".to_vec()),
        Refusal::DefaultExchange => (
            Code::AccessRefused,
            b"operation not permitted on the default exchange".to_vec(),
        ),
        Refusal::ReservedPrefix(object) => {
            let (kind, name) = kind_and_name(object);
            let quoted = join(&[kind, b" name '", name, b"' "]);
            let prefix: &[u8] = if name.starts_with(b"amq.") {
                b"amq.*"
            } else {
                b"mqtt.share/*"
            };
            (
                Code::AccessRefused,
                join(&[&quoted, b"contains reserved prefix '", prefix, b"'"]),
            )
        }
        Refusal::SystemExchange(name) => (
            Code::AccessRefused,
            join(&[b"deletion of system ", &exchange(name), b" not allowed"]),
        ),
        Refusal::InternalExchange(name) => (
            Code::AccessRefused,
            join(&[b"cannot publish to internal ", &exchange(name)]),
        ),
        Refusal::ExclusiveUse(name) => (
            Code::AccessRefused,
            join(&[&queue(name), b" in exclusive use"]),
        ),
        Refusal::SingleActiveConsumer(name) => (
            Code::ResourceLocked,
            join(&[b"cannot obtain access to locked ", &queue(name), NO_GET]),
        ),
        Refusal::Locked(name) => (
            Code::ResourceLocked,
            join(&[LOCKED_BEFORE, &queue(name), LOCKED_AFTER]),
        ),
        Refusal::Inequivalent {
            object,
            argument,
            received,
            current,
        } => {
            let what = join(&[b"'", argument.as_bytes(), b"' for ", &named(object)]);
            let received_text = given(received, current);
            let current_text = given(current, received);
            (
                Code::PreconditionFailed,
                join(&[
                    b"inequivalent arg ",
                    &what,
                    b": received ",
                    received_text.as_bytes(),
                    b" but current is ",
                    current_text.as_bytes(),
                ]),
            )
        }
        Refusal::InUse(object) => (
            Code::PreconditionFailed,
            join(&[&named(object), b" in use"]),
        ),
        Refusal::NotEmpty(name) => (
            Code::PreconditionFailed,
            join(&[&queue(name), b" not empty"]),
        ),
        Refusal::UnknownDeliveryTag(tag) => failed(format!("unknown delivery tag {tag}")),
        Refusal::UnknownExchangeType(kind) if kind.is_empty() => {
            failed("invalid exchange type ''".to_owned())
        }
        Refusal::UnknownExchangeType(kind) => (
            Code::PreconditionFailed,
            join(&[b"unknown exchange type '", kind.as_bytes(), b"'"]),
        ),
        Refusal::UnsupportedExchangeType(kind) => (
            Code::PreconditionFailed,
            join(&[
                b"exchange type '",
                kind.as_bytes(),
                b"' is not supported here: use another one, such as topic",
            ]),
        ),
        Refusal::InvalidArgument {
            object,
            argument,
            reason,
        } => {
            let what = join(&[b"'", argument.as_bytes(), b"' for ", &named(object)]);
            (
                Code::PreconditionFailed,
                join(&[b"invalid arg ", &what, b": ", reason.as_bytes()]),
            )
        }
        Refusal::UnsupportedArgument { object, argument } => {
            let what = join(&[b"'", argument.as_bytes(), b"' for ", &named(object)]);
            (
                Code::PreconditionFailed,
                join(&[
                    b"argument ",
                    &what,
                    b" is not supported by this broker: leave it out",
                ]),
            )
        }
        Refusal::UnknownArgument {
            object,
            argument,
            known,
        } => {
            let what = join(&[b"'", argument.as_bytes(), b"' for ", &named(object)]);
            (
                Code::PreconditionFailed,
                join(&[b"unknown argument ", &what, b": ", known.as_bytes()]),
            )
        }
        Refusal::InvalidProperty { object, property } => (
            Code::PreconditionFailed,
            join(&[
                b"invalid property '",
                property.as_bytes(),
                b"' for ",
                &named(object),
            ]),
        ),
        Refusal::InvalidType {
            object,
            argument,
            kind,
        } => {
            let what = join(&[b"'", argument.as_bytes(), b"' in ", &named(object)]);
            (
                Code::PreconditionFailed,
                join(&[b"invalid type '", kind.as_bytes(), b"' for arg ", &what]),
            )
        }
        Refusal::ArgumentOfOtherType {
            object,
            argument,
            kind,
        } => {
            let what = join(&[b"'", argument.as_bytes(), b"' for ", &named(object)]);
            let kind = format!(" of queue type rabbit_{kind}_queue");
            (
                Code::PreconditionFailed,
                join(&[b"invalid arg ", &what, kind.as_bytes()]),
            )
        }
        Refusal::DelayedType => failed(
            "Invalid argument, 'x-delayed-type' must be an existing exchange type".to_owned(),
        ),
        Refusal::DelayedTwice => failed(
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'".to_owned(),
        ),
        Refusal::InvalidHistoryLength { value } => failed(format!(
            "Invalid argument {value}, 'x-recent-history-length' must be a positive integer"
        )),
        Refusal::ServerNamed { kind } => failed(format!(
            "Cannot declare a server-named queue for type rabbit_{kind}_queue"
        )),
        Refusal::NamePrefixTooLong(prefix) => (
            Code::PreconditionFailed,
            join(&[
                b"Queue name prefix '",
                prefix.as_bytes(),
                b"' exceeds the 64-byte limit",
            ]),
        ),
        Refusal::UserId { given, user } => (
            Code::PreconditionFailed,
            join(&[
                b"user_id property set to '",
                given.as_bytes(),
                b"' but authenticated user was '",
                user.as_bytes(),
                b"'",
            ]),
        ),
        Refusal::InvalidMatchType { kind, value } => failed(format!(
            "Invalid x-match field type {kind} (value {value}); expected longstr"
        )),
        Refusal::InvalidMatch { value } => failed(format!(
            "Invalid x-match field value {value}; expected all, any, all-with-x, or any-with-x"
        )),
        Refusal::WeightText { key } => failed(format!("The binding key must be an integer: {key}")),
        Refusal::WeightTooLow => failed("The binding key must be greater than 0".to_owned()),
        Refusal::WeightTooHigh { weight_max } => {
            failed(format!("The binding key must not exceed {weight_max}"))
        }
        Refusal::HashTwice => {
            failed("hash-header and hash-property are mutually exclusive".to_owned())
        }
        Refusal::HashProperty(property) => (
            Code::PreconditionFailed,
            join(&[b"Unsupported property: ", property.as_bytes()]),
        ),
        Refusal::BindingKey(key) => (
            Code::PreconditionFailed,
            join(&[
                b"Non empty binding '",
                key.as_bytes(),
                b"' key not permitted",
            ]),
        ),
        Refusal::NoQueue => failed("Destination not found".to_owned()),
        Refusal::InvalidExpiration { value, reason } => (
            Code::PreconditionFailed,
            join(&[
                b"invalid expiration '",
                value.as_bytes(),
                b"': ",
                reason.as_bytes(),
            ]),
        ),
        Refusal::InvalidHeader { header, kind, .. } => failed(format!(
            "invalid message: {{unacceptable_type_in_header,\"{header}\",{kind}}}"
        )),
        Refusal::ConfirmOnTransactional => {
            failed("cannot switch from tx to confirm mode".to_owned())
        }
        Refusal::TransactionOnConfirm => failed("cannot switch from confirm to tx mode".to_owned()),
        Refusal::NotTransactional => failed("channel is not transactional".to_owned()),
        Refusal::TransactionRefused => failed("partial tx completion".to_owned()),
        Refusal::TransactionTooLarge { bytes, bytes_max } => failed(format!(
            "transaction of {bytes} bytes is larger than configured max size {bytes_max}: commit \
             more often"
        )),
        Refusal::ConsumerTagInUse(tag) => (
            Code::NotAllowed,
            join(&[b"attempt to reuse consumer tag '", tag.as_bytes(), b"'"]),
        ),
        Refusal::PrefetchSize(size) => (
            Code::NotImplemented,
            format!("prefetch_size!=0 ({size})").into_bytes(),
        ),
        Refusal::RecoverWithoutRequeue => (Code::NotImplemented, b"requeue=false".to_vec()),
        Refusal::ReplyConsumerExists => failed("reply consumer already set".to_owned()),
        Refusal::ReplyConsumerAcknowledges => {
            failed("reply consumer cannot acknowledge".to_owned())
        }
        Refusal::ReplyQueueConsumer(name) => (
            Code::PreconditionFailed,
            join(&[b"only creator channel may consume from ", &queue(name)]),
        ),
        Refusal::ReplyQueueGet(name) => (
            Code::NotImplemented,
            join(&[b"basic.get not supported by volatile ", &queue(name)]),
        ),
        Refusal::ReplyQueueBinding => (
            Code::AccessRefused,
            b"cannot bind or unbind to a volatile (direct reply-to) queue".to_vec(),
        ),
        Refusal::ConsumerTimeout { channel, timeout } => failed(format!(
            "delivery acknowledgement on channel {} timed out. Timeout value used: {timeout} ms. \
             This timeout value can be configured, see consumers doc guide to learn more",
            channel.number()
        )),
        Refusal::NoReplyConsumer => failed("fast reply consumer does not exist".to_owned()),
        Refusal::NoRoom => failed(
            "the disk is full: free some space, or let consumers drain their queues".to_owned(),
        ),
        Refusal::LimitReached { what, limit } => failed(format!(
            "number of {what} has reached the maximum ({limit})"
        )),
    };
    Violation::new(code, text)
}

fn failed(text: String) -> (Code, Vec<u8>) {
    (Code::PreconditionFailed, text.into_bytes())
}

/// `queue 'q' in vhost '/'`
fn resource(object: &Object, vhost: &[u8]) -> Vec<u8> {
    let (kind, name) = kind_and_name(object);
    join(&[kind, b" '", name, b"' in vhost '", vhost, b"'"])
}

fn kind_and_name(object: &Object) -> (&'static [u8], &[u8]) {
    match object {
        Object::Queue(name) => (b"queue", name.as_bytes()),
        Object::Exchange(name) => (b"exchange", name.as_bytes()),
    }
}

/// One side of an inequivalence. RabbitMQ names the type only where the other side is absent.
fn given(side: &Given, other: &Given) -> String {
    match side {
        Given::Flag(flag) => format!("'{flag}'"),
        Given::Value { text, kind } if *other == Given::Absent => {
            format!("the value '{text}' of type '{kind}'")
        }
        // RabbitMQ's word for what is absent, and for a void beside a value.
        Given::Absent | Given::Value { kind: "void", .. } => "none".to_owned(),
        Given::Value { text, .. } => format!("'{text}'"),
    }
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// RabbitMQ prints the type as an Erlang term.
const NO_GET: &[u8] = b". basic.get operations are not supported by <<\"quorum\">> queues with \
single active consumer";
const LOCKED_BEFORE: &[u8] = b"cannot obtain exclusive access to locked ";
const LOCKED_AFTER: &[u8] = b". It could be originally declared on another connection or the \
exclusive property value does not match that of the original declaration.";

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::{ChannelId, DeliveryTag, Name};

    fn text(refusal: &Refusal) -> String {
        let violation = violation(refusal, b"/");
        assert_eq!(violation.code.is_hard(), refusal.is_hard(), "{refusal:?}");
        let text = String::from_utf8(violation.text()).unwrap();
        format!("{} {text}", violation.code.number())
    }

    fn queue() -> Object {
        Object::Queue(Name::from("q"))
    }

    #[test]
    fn every_refusal_has_its_words() {
        let value = |text: &str| Given::Value {
            text: text.to_owned(),
            kind: "long",
        };
        let inequivalent =
            |argument: &'static str, received: Given, current: Given| Refusal::Inequivalent {
                object: queue(),
                argument: Name::from(argument),
                received,
                current,
            };
        let exchange = || Object::Exchange(Name::from("x"));
        let table = [
            (
                Refusal::NotFound(queue()),
                "404 NOT_FOUND - no queue 'q' in vhost '/'",
            ),
            (
                Refusal::NotFound(exchange()),
                "404 NOT_FOUND - no exchange 'x' in vhost '/'",
            ),
            (
                Refusal::NoQueueDeclared,
                "404 NOT_FOUND - no previously declared queue",
            ),
            (
                Refusal::DefaultExchange,
                "403 ACCESS_REFUSED - operation not permitted on the default exchange",
            ),
            (
                Refusal::ReservedPrefix(Object::Exchange(Name::from("amq.x"))),
                "403 ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'",
            ),
            (
                Refusal::SystemExchange(Name::from("amq.direct")),
                "403 ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not \
                 allowed",
            ),
            (
                Refusal::InternalExchange(Name::from("x")),
                "403 ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'",
            ),
            (
                Refusal::ExclusiveUse(Name::from("q")),
                "403 ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use",
            ),
            (
                Refusal::SingleActiveConsumer(Name::from("q")),
                "405 RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. \
                 basic.get operations are not supported by <<\"quorum\">> queues with single \
                 active consumer",
            ),
            (
                Refusal::Locked(Name::from("q")),
                "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost \
                 '/'. It could be originally declared on another connection or the exclusive \
                 property value does not match that of the original declaration.",
            ),
            (
                inequivalent("durable", Given::Flag(true), Given::Flag(false)),
                "406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': \
                 received 'true' but current is 'false'",
            ),
            (
                inequivalent("x-max-length", value("5"), value("6")),
                "406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost \
                 '/': received '5' but current is '6'",
            ),
            (
                inequivalent("x-max-length", Given::Absent, value("5")),
                "406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost \
                 '/': received none but current is the value '5' of type 'long'",
            ),
            (
                Refusal::InUse(queue()),
                "406 PRECONDITION_FAILED - queue 'q' in vhost '/' in use",
            ),
            (
                Refusal::NotEmpty(Name::from("q")),
                "406 PRECONDITION_FAILED - queue 'q' in vhost '/' not empty",
            ),
            (
                Refusal::UnknownDeliveryTag(DeliveryTag(7)),
                "406 PRECONDITION_FAILED - unknown delivery tag 7",
            ),
            (
                Refusal::UnknownExchangeType(Name::from("t")),
                "406 PRECONDITION_FAILED - unknown exchange type 't'",
            ),
            (
                Refusal::UnsupportedExchangeType(Name::from("x-jms-topic")),
                "406 PRECONDITION_FAILED - exchange type 'x-jms-topic' is not supported here: \
                 use another one, such as topic",
            ),
            (
                Refusal::InvalidArgument {
                    object: queue(),
                    argument: Name::from("x-message-ttl"),
                    reason: "{value_negative,-1}".to_owned(),
                },
                "406 PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q' in vhost '/': \
                 {value_negative,-1}",
            ),
            (
                Refusal::UnknownArgument {
                    object: exchange(),
                    argument: Name::from("x-retain-mesages"),
                    known: "exchanges have x-retain-messages",
                },
                "406 PRECONDITION_FAILED - unknown argument 'x-retain-mesages' for exchange 'x' \
                 in vhost '/': exchanges have x-retain-messages",
            ),
            (
                Refusal::InvalidType {
                    object: exchange(),
                    argument: Name::from("alternate-exchange"),
                    kind: "signedint",
                },
                "406 PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' \
                 in exchange 'x' in vhost '/'",
            ),
            (
                Refusal::InvalidProperty {
                    object: queue(),
                    property: "auto-delete",
                },
                "406 PRECONDITION_FAILED - invalid property 'auto-delete' for queue 'q' in vhost \
                 '/'",
            ),
            (
                Refusal::ArgumentOfOtherType {
                    object: queue(),
                    argument: Name::from("x-max-age"),
                    kind: "classic",
                },
                "406 PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost '/' of \
                 queue type rabbit_classic_queue",
            ),
            (
                Refusal::ServerNamed { kind: "quorum" },
                "406 PRECONDITION_FAILED - Cannot declare a server-named queue for type \
                 rabbit_quorum_queue",
            ),
            (
                Refusal::NamePrefixTooLong(Name::from("long")),
                "406 PRECONDITION_FAILED - Queue name prefix 'long' exceeds the 64-byte limit",
            ),
            (
                Refusal::UserId {
                    given: Name::from("a"),
                    user: Name::from("b"),
                },
                "406 PRECONDITION_FAILED - user_id property set to 'a' but authenticated user was \
                 'b'",
            ),
            (
                Refusal::InvalidMatchType {
                    kind: "signedint",
                    value: "5".to_owned(),
                },
                "406 PRECONDITION_FAILED - Invalid x-match field type signedint (value 5); \
                 expected longstr",
            ),
            (
                Refusal::UnknownExchangeType(Name::empty()),
                "406 PRECONDITION_FAILED - invalid exchange type ''",
            ),
            (
                Refusal::UnsupportedArgument {
                    object: queue(),
                    argument: Name::from("x-max-age"),
                },
                "406 PRECONDITION_FAILED - argument 'x-max-age' for queue 'q' in vhost '/' is not \
                 supported by this broker: leave it out",
            ),
            (
                Refusal::InvalidMatch {
                    value: "<<\"some\">>".to_owned(),
                },
                "406 PRECONDITION_FAILED - Invalid x-match field value <<\"some\">>; expected all, \
                 any, all-with-x, or any-with-x",
            ),
            (
                Refusal::WeightText {
                    key: "<<\"abc\">>".to_owned(),
                },
                "406 PRECONDITION_FAILED - The binding key must be an integer: <<\"abc\">>",
            ),
            (
                Refusal::WeightTooLow,
                "406 PRECONDITION_FAILED - The binding key must be greater than 0",
            ),
            (
                Refusal::WeightTooHigh { weight_max: 10_000 },
                "406 PRECONDITION_FAILED - The binding key must not exceed 10000",
            ),
            (
                Refusal::HashTwice,
                "406 PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive",
            ),
            (
                Refusal::HashProperty(Name::from("app_id")),
                "406 PRECONDITION_FAILED - Unsupported property: app_id",
            ),
            (
                Refusal::BindingKey(Name::from("k")),
                "406 PRECONDITION_FAILED - Non empty binding 'k' key not permitted",
            ),
            (
                Refusal::NoQueue,
                "406 PRECONDITION_FAILED - Destination not found",
            ),
            (
                Refusal::InvalidExpiration {
                    value: Name::from("abc"),
                    reason: "no_integer".to_owned(),
                },
                "406 PRECONDITION_FAILED - invalid expiration 'abc': no_integer",
            ),
            (
                Refusal::InvalidHeader {
                    header: "CC",
                    kind: "longstr",
                    value: "<<\"q\">>".to_owned(),
                },
                "406 PRECONDITION_FAILED - invalid message: \
                 {unacceptable_type_in_header,\"CC\",longstr}",
            ),
            (
                Refusal::ConfirmOnTransactional,
                "406 PRECONDITION_FAILED - cannot switch from tx to confirm mode",
            ),
            (
                Refusal::TransactionOnConfirm,
                "406 PRECONDITION_FAILED - cannot switch from confirm to tx mode",
            ),
            (
                Refusal::NotTransactional,
                "406 PRECONDITION_FAILED - channel is not transactional",
            ),
            (
                Refusal::TransactionRefused,
                "406 PRECONDITION_FAILED - partial tx completion",
            ),
            (
                Refusal::TransactionTooLarge {
                    bytes: 9,
                    bytes_max: 8,
                },
                "406 PRECONDITION_FAILED - transaction of 9 bytes is larger than configured max \
                 size 8: commit more often",
            ),
            (
                Refusal::ConsumerTagInUse(Name::from("t")),
                "530 NOT_ALLOWED - attempt to reuse consumer tag 't'",
            ),
            (
                Refusal::PrefetchSize(3),
                "540 NOT_IMPLEMENTED - prefetch_size!=0 (3)",
            ),
            (
                Refusal::RecoverWithoutRequeue,
                "540 NOT_IMPLEMENTED - requeue=false",
            ),
            (
                Refusal::NoReplyConsumer,
                "406 PRECONDITION_FAILED - fast reply consumer does not exist",
            ),
            (
                Refusal::ReplyConsumerExists,
                "406 PRECONDITION_FAILED - reply consumer already set",
            ),
            (
                Refusal::ReplyConsumerAcknowledges,
                "406 PRECONDITION_FAILED - reply consumer cannot acknowledge",
            ),
            (
                Refusal::ReplyQueueConsumer(Name::from("r")),
                "406 PRECONDITION_FAILED - only creator channel may consume from queue 'r' in \
                 vhost '/'",
            ),
            (
                Refusal::ReplyQueueGet(Name::from("r")),
                "540 NOT_IMPLEMENTED - basic.get not supported by volatile queue 'r' in vhost '/'",
            ),
            (
                Refusal::ReplyQueueBinding,
                "403 ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue",
            ),
            (
                Refusal::ConsumerTimeout {
                    channel: ChannelId::new(3).unwrap(),
                    timeout: 60_000,
                },
                "406 PRECONDITION_FAILED - delivery acknowledgement on channel 3 timed out. \
                 Timeout value used: 60000 ms. This timeout value can be configured, see consumers \
                 doc guide to learn more",
            ),
            (
                Refusal::LimitReached {
                    what: "bindings",
                    limit: 5,
                },
                "406 PRECONDITION_FAILED - number of bindings has reached the maximum (5)",
            ),
        ];
        for (refusal, words) in &table {
            assert_eq!(text(refusal), *words);
        }
    }
}
