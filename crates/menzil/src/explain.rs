//! `menzil explain`: where messages would go, and why.

mod definitions;
mod message;
mod text;

use std::io::{Read as _, Write as _};
use std::path::Path;

use menzil_core::explain::Explanation;
use menzil_core::{RoutingKeys, Topology};
use menzil_model::Name;

use self::definitions::Loaded;
use self::message::Message;
use crate::cli::{ExplainCommand, RouteArguments};
use crate::{Failure, control, print};

pub(crate) fn run(command: &ExplainCommand) -> Result<(), Failure> {
    let ExplainCommand::Route(arguments) = command;
    let message = Message::new(arguments).map_err(Failure::usage)?;
    let Loaded { topology, notes } = load(arguments)?;
    for note in notes {
        // Apart from the answer, which a program may read.
        let _ = writeln!(std::io::stderr(), "menzil: note: {note}");
    }
    match &arguments.keys {
        None => one(&topology, arguments, &message),
        Some(file) => many(&topology, arguments, &message, file),
    }
}

fn load(arguments: &RouteArguments) -> Result<Loaded, Failure> {
    let (text, whence) = if let Some(file) = &arguments.definitions {
        (read(file)?, file.display().to_string())
    } else {
        let question = format!("definitions {}", arguments.vhost);
        let answer = control::ask(&arguments.data_dir, &question, b"")?;
        (answer, "the server".to_owned())
    };
    Loaded::from_json(&text, &arguments.vhost)
        .map_err(|why| Failure::new(format!("{whence}: {why}")))
}

fn read(file: &Path) -> Result<String, Failure> {
    let read = if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

fn one(topology: &Topology, arguments: &RouteArguments, message: &Message) -> Result<(), Failure> {
    let exchange = name_of(&arguments.exchange)?;
    let explanation = explain(topology, &exchange, &arguments.key, message)?;
    print(&text::whole(&explanation));
    match &explanation.refusal {
        Some(refusal) => Err(Failure::new(text::refusal(refusal, &arguments.vhost))),
        None if explanation.is_unroutable() => {
            Err(Failure::new("the message would reach no queue"))
        }
        None => Ok(()),
    }
}

fn many(
    topology: &Topology,
    arguments: &RouteArguments,
    message: &Message,
    file: &Path,
) -> Result<(), Failure> {
    let lines = read(file)?;
    let (mut count, mut lost) = (0, 0);
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let (exchange, key) = line
            .split_once('\t')
            .unwrap_or((arguments.exchange.as_str(), line));
        let explanation = explain(topology, &name_of(exchange)?, key, message)?;
        count += 1;
        lost += usize::from(explanation.is_unroutable());
        print(&text::line(&explanation, line, &arguments.vhost));
    }
    if lost == 0 {
        print(&format!("{count} keys, each reaches a queue\n"));
        return Ok(());
    }
    Err(Failure::new(format!(
        "{lost} of {count} keys would reach no queue"
    )))
}

fn explain(
    topology: &Topology,
    exchange: &Name,
    key: &str,
    message: &Message,
) -> Result<Explanation, Failure> {
    name_of(key)?;
    let properties = message.properties();
    let keys = RoutingKeys::new(key.as_bytes(), &properties)
        .map_err(|_| Failure::usage("--header CC and BCC are lists: use --cc"))?;
    Ok(topology.explain(exchange, &keys, &properties))
}

fn name_of(text: &str) -> Result<Name, Failure> {
    Name::new(text.as_bytes())
        .ok_or_else(|| Failure::usage(format!("{text:.40}…: longer than 255 bytes")))
}
