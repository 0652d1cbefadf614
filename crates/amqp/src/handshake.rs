//! What is said and checked between the protocol header and `connection.open`
//! (AMQP 0-9-1 §1.4.2, §2.2.4).

use menzil_model::table::{Fields, TableBuilder};
use menzil_model::{Name, Value};

use crate::action::OpenError;
use crate::config::SessionConfig;
use crate::frame::{FRAME_BYTES_MIN, METHOD, write_frame};
use crate::methods::{ConnectionStart, ConnectionTune, ConnectionTuneOk};
use crate::violation::{Code, Violation};

/// What clients of 0-9-1 send first.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";
/// The same of 0-9, which RabbitMQ treats alike.
pub const PROTOCOL_HEADER_0_9: [u8; 8] = *b"AMQP\x01\x01\x00\x09";

/// What a client announced that it understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) cancel_notify: bool,
    pub(crate) blocked_notify: bool,
    pub(crate) authentication_failure_close: bool,
}

impl Capabilities {
    /// Those of the client properties in `connection.start-ok`.
    pub(crate) fn of(properties: &[u8]) -> Self {
        let capabilities = Fields::of(properties).find(|(name, _)| *name == b"capabilities");
        let Some((_, Value::Table(fields))) = capabilities else {
            return Self::default();
        };
        let has = |wanted: &[u8]| {
            let mut fields = fields;
            let field = fields.find(|(name, _)| *name == wanted);
            matches!(field, Some((_, Value::Bool(true))))
        };
        Self {
            cancel_notify: has(b"consumer_cancel_notify"),
            blocked_notify: has(b"connection.blocked"),
            authentication_failure_close: has(b"authentication_failure_close"),
        }
    }
}

/// The frame of `connection.start`.
pub(crate) fn start(config: &SessionConfig) -> Vec<u8> {
    let capabilities = CAPABILITIES
        .iter()
        .fold(TableBuilder::new(), |table, name| {
            table.field(name, Value::Bool(true))
        })
        .build();
    let properties = TableBuilder::new()
        .field("capabilities", Value::Table(capabilities.fields()))
        .field("cluster_name", text(&config.cluster_name))
        .field("copyright", text(&config.copyright))
        .field("information", text(&config.information))
        .field("platform", text(&config.platform))
        .field("product", text(&config.product))
        .field("version", text(&config.version))
        .build();
    let mechanisms: Vec<&str> = config.mechanisms.iter().map(|one| one.name()).collect();
    let mechanisms = mechanisms.join(" ");
    let start = ConnectionStart {
        version_major: 0,
        version_minor: 9,
        server_properties: properties.as_bytes(),
        mechanisms: mechanisms.as_bytes(),
        locales: b"en_US",
    };
    let mut out = Vec::new();
    write_frame(&mut out, METHOD, 0, |out| start.write(out));
    out
}

fn text(text: &str) -> Value<'_> {
    Value::LongString(text.as_bytes())
}

/// The frame of `connection.tune`.
pub(crate) fn tune(config: &SessionConfig) -> Vec<u8> {
    let tune = ConnectionTune {
        channel_max: config.channel_max,
        frame_max: config.frame_bytes_max,
        heartbeat: config.heartbeat_seconds,
    };
    let mut out = Vec::new();
    write_frame(&mut out, METHOD, 0, |out| tune.write(out));
    out
}

/// Checks what the client makes of the proposal. Zero would be "no limit", which this broker
/// does not offer.
pub(crate) fn check_tune(config: &SessionConfig, tune: ConnectionTuneOk) -> Result<(), Violation> {
    check_limit(
        "frame_max",
        tune.frame_max,
        FRAME_BYTES_MIN,
        config.frame_bytes_max,
        "",
    )?;
    let channel_max = tune.channel_max.into();
    check_limit(
        "channel_max",
        channel_max,
        1,
        config.channel_max.into(),
        " (no limit)",
    )
}

fn check_limit(name: &str, value: u32, min: u32, max: u32, of_zero: &str) -> Result<(), Violation> {
    let detail = if value == 0 { of_zero } else { "" };
    let text = if value != 0 && value < min {
        format!("is lower than the minimum allowed value ({min})")
    } else if value == 0 || value > max {
        format!("is higher than the maximum allowed value ({max})")
    } else {
        return Ok(());
    };
    let text = format!("negotiated {name} = {value}{detail} {text}");
    Err(Violation::new(Code::NotAllowed, text).by(ConnectionTune::ID))
}

/// What a client whose login failed is told, if it can be told at all.
pub(crate) fn login_refused(mechanism: &str) -> Violation {
    let text = format!(
        "Login was refused using authentication mechanism {mechanism}. For details see the broker \
         logfile."
    );
    Violation::new(Code::AccessRefused, text)
}

/// Why `connection.open` fails.
pub(crate) fn open_refused(error: OpenError, vhost: &Name, user: &Name) -> Violation {
    let (vhost, user) = (vhost.as_bytes(), user.as_bytes());
    let access = [
        b"access to vhost '",
        vhost,
        b"' refused for user '",
        user,
        b"'",
    ]
    .concat();
    let (code, text) = match error {
        OpenError::NotFound => (Code::NotAllowed, [b"vhost ", vhost, b" not found"].concat()),
        OpenError::Refused => (Code::NotAllowed, access),
        OpenError::Down => (
            Code::InternalError,
            [&access, &b": vhost '"[..], vhost, b"' is down"].concat(),
        ),
        OpenError::VhostLimit(limit) => (
            Code::NotAllowed,
            [
                &access[..],
                format!(": connection limit ({limit}) is reached").as_bytes(),
            ]
            .concat(),
        ),
        OpenError::UserLimit(limit) => (
            Code::NotAllowed,
            [
                b"connection refused for user '",
                user,
                format!("': user connection limit ({limit}) is reached").as_bytes(),
            ]
            .concat(),
        ),
        OpenError::NodeLimit(limit) => (
            Code::NotAllowed,
            format!("connection refused: node connection limit ({limit}) is reached").into_bytes(),
        ),
    };
    Violation::new(code, text)
}

/// Exactly what this broker has.
const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn tune(channel_max: u16, frame_max: u32) -> Result<(), String> {
        let tune = ConnectionTuneOk {
            channel_max,
            frame_max,
            heartbeat: 0,
        };
        check_tune(&SessionConfig::default(), tune)
            .map_err(|violation| String::from_utf8(violation.text()).unwrap())
    }

    #[test]
    fn a_client_may_lower_the_limits_but_not_lift_them() {
        for (channel_max, frame_max) in [(2047, 131_072), (1, 4096), (100, 8192)] {
            assert_eq!(tune(channel_max, frame_max), Ok(()));
        }
        let table = [
            (
                (4096, 8192),
                "negotiated channel_max = 4096 is higher than the maximum allowed value (2047)",
            ),
            (
                (0, 8192),
                "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value \
                 (2047)",
            ),
            (
                (1, 0),
                "negotiated frame_max = 0 is higher than the maximum allowed value (131072)",
            ),
            (
                (1, 131_073),
                "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
            ),
            (
                (1, 4095),
                "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)",
            ),
        ];
        for ((channel_max, frame_max), text) in table {
            assert_eq!(
                tune(channel_max, frame_max),
                Err(format!("NOT_ALLOWED - {text}"))
            );
        }
    }
}
