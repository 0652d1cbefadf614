//! `menzil explain`: where messages would go, and why.

use std::io::{Read as _, Write as _};
use std::path::Path;

use menzil_server::explain::{Answer, Question, of_definitions};
use serde_json::Value as Json;

use crate::cli::{ExplainCommand, RouteArguments};
use crate::{Failure, control, print};

pub(crate) fn run(command: &ExplainCommand) -> Result<(), Failure> {
    let ExplainCommand::Route(arguments) = command;
    let mut question = question(arguments).map_err(Failure::usage)?;
    question.check().map_err(Failure::usage)?;
    if let Some(file) = &arguments.keys {
        question.keys = Some(text(file)?);
    }
    let answer = ask(arguments, &question)?;
    for note in &answer.notes {
        // Apart from the answer, which a program may read.
        let _ = writeln!(std::io::stderr(), "menzil: note: {note}");
    }
    print(&answer.text);
    answer.failure.map_or(Ok(()), |why| Err(Failure::new(why)))
}

fn ask(arguments: &RouteArguments, question: &Question) -> Result<Answer, Failure> {
    if let Some(file) = &arguments.definitions {
        let told = of_definitions(&read(file)?, question);
        return told.map_err(|why| Failure::new(format!("{}: {why}", file.display())));
    }
    let content = serde_json::to_vec(question).map_err(Failure::new)?;
    let answer = control::asked(&arguments.data_dir, "explain", &content)?;
    serde_json::from_value(answer)
        .map_err(|error| Failure::new(format!("the server's answer does not read: {error}")))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let read = if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    read.map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

fn text(file: &Path) -> Result<String, Failure> {
    String::from_utf8(read(file)?)
        .map_err(|_| Failure::new(format!("{}: it is no UTF-8 text", file.display())))
}

/// The message that the command line describes.
fn question(arguments: &RouteArguments) -> Result<Question, String> {
    let mut question = Question {
        vhost: arguments.vhost.clone(),
        exchange: arguments.exchange.clone(),
        key: arguments.key.clone(),
        cc: arguments.cc.clone(),
        ..Question::default()
    };
    for header in &arguments.headers {
        question.headers.push(field(header)?);
    }
    for property in &arguments.properties {
        let (name, value) = property
            .split_once('=')
            .ok_or_else(|| format!("--property {property}: NAME=VALUE is wanted"))?;
        match name {
            "message_id" => question.message_id = Some(value.to_owned()),
            "correlation_id" => question.correlation_id = Some(value.to_owned()),
            "timestamp" => {
                let why = |_| format!("--property timestamp={value}: not whole seconds");
                question.timestamp = Some(value.parse().map_err(why)?);
            }
            other => {
                return Err(format!(
                    "--property {other}: routing looks at message_id, correlation_id and \
                     timestamp only"
                ));
            }
        }
    }
    Ok(question)
}

/// `NAME=VALUE`, a text, or `NAME:=JSON`.
fn field(header: &str) -> Result<(String, Json), String> {
    let wanted = || format!("--header {header}: NAME=VALUE or NAME:=JSON is wanted");
    let (name, value) = header.split_once('=').ok_or_else(wanted)?;
    let Some(name) = name.strip_suffix(':') else {
        return Ok((name.to_owned(), Json::String(value.to_owned())));
    };
    let value = serde_json::from_str(value).map_err(|_| {
        format!("--header {header}: after := comes a JSON value, such as 5, true or null")
    })?;
    Ok((name.to_owned(), value))
}
