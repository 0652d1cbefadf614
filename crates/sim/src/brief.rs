//! Commands, effects and speech in a line of the trace.

use bytes::Bytes;
use menzil_core::{Command, Effect, Output, Request};
use menzil_model::Message;

use crate::body;
use crate::speech::{Say, What};

pub(crate) fn of_say(say: &Say) -> String {
    match say {
        Say::OpenChannel(channel) => format!("opens {channel}"),
        Say::CloseChannel(channel) => format!("closes {channel}"),
        Say::Request(channel, request) => format!("on {channel}: {}", of_request(request)),
        Say::Bye => "closes the connection".to_owned(),
    }
}

pub(crate) fn of_command(command: &Command) -> String {
    match command {
        Command::Request { channel, request } => format!(
            "{}.{} {}",
            channel.connection,
            channel.channel.number(),
            of_request(request)
        ),
        Command::Fetched { queue, messages } => {
            let read = messages.iter().map(|(sequence, message)| {
                let message = message.as_deref().map(of_message);
                format!("{sequence} {message:?}")
            });
            let read: Vec<String> = read.collect();
            format!("fetched for {queue}: {}", read.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn of_request(request: &Request) -> String {
    match request {
        Request::Publish(publish) => format!(
            "publish {} to '{}' '{}' {:?}",
            of_body(&publish.body),
            publish.exchange,
            publish.routing_key,
            publish.properties.last(),
        ),
        other => format!("{other:?}"),
    }
}

pub(crate) fn of_effect(effect: &Effect) -> String {
    match effect {
        Effect::Channel { to, after, output } => format!(
            "{}.{} after {after}: {}",
            to.connection,
            to.channel.number(),
            of_output(output)
        ),
        other => format!("{other:?}"),
    }
}

fn of_output(output: &Output) -> String {
    match output {
        Output::Deliver {
            consumer_tag,
            delivery_tag,
            redelivered,
            message,
            properties: _,
        } => format!(
            "deliver {} to {consumer_tag} as {delivery_tag}, redelivered: {redelivered}",
            of_message(message)
        ),
        Output::GetOk {
            delivery_tag,
            redelivered,
            message,
            ..
        } => format!(
            "get-ok {} as {delivery_tag}, redelivered: {redelivered}",
            of_message(message)
        ),
        Output::Return { message } => format!("return {}", of_message(message)),
        other => format!("{other:?}"),
    }
}

pub(crate) fn of_what(what: &What) -> String {
    match what {
        What::Content {
            delivery_tag,
            redelivered,
            body,
            ..
        } => format!("message {} as {delivery_tag} {redelivered}", of_body(body)),
        What::Returned { body } => format!("{} back", of_body(body)),
        other => format!("{other:?}"),
    }
}

fn of_message(message: &Message) -> String {
    of_body(&message.body_parts().collect::<Vec<_>>())
}

fn of_body(parts: &[Bytes]) -> String {
    match body::number(parts) {
        Ok((number, length)) => format!("{number} ({length} bytes)"),
        Err(why) => why,
    }
}
