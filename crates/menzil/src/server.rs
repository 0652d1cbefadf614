//! `menzil server`.

use std::net::SocketAddr;

use menzil_server::config::{self, Flag, Settings, Sources};
use menzil_server::{Ready, Server};

use crate::cli::ServerArguments;
use crate::{Failure, print};

pub(crate) fn run(arguments: &ServerArguments) -> Result<(), Failure> {
    let settings = settings(arguments)?;
    if arguments.print_config {
        print(&settings.to_toml());
        return Ok(());
    }
    menzil_server::log::init(settings.log_level, settings.log_format);
    let server = Server::start(settings).map_err(Failure::new)?;
    server.run(say_ready).map_err(Failure::new)
}

/// The one line on standard output, for scripts that wait for it.
fn say_ready(ready: &Ready) {
    let shown = |address: Option<SocketAddr>| match address {
        Some(address) => address.to_string(),
        None => "off".to_owned(),
    };
    let (amqp, mqtt, mqtt_ws) = (shown(ready.amqp), shown(ready.mqtt), shown(ready.mqtt_ws));
    print(&format!(
        "menzil ready amqp={amqp} mqtt={mqtt} mqtt-ws={mqtt_ws} data={} version={}\n",
        ready.data_dir.display(),
        env!("CARGO_PKG_VERSION")
    ));
}

fn settings(arguments: &ServerArguments) -> Result<Settings, Failure> {
    let named = [
        ("data_dir", &arguments.data_dir),
        ("amqp", &arguments.amqp),
        ("mqtt", &arguments.mqtt),
        ("mqtt_ws", &arguments.mqtt_ws),
        ("definitions", &arguments.definitions),
        ("log_level", &arguments.log_level),
        ("log_format", &arguments.log_format),
    ];
    let mut flags: Vec<Flag> = named
        .into_iter()
        .filter_map(|(key, text)| {
            Some(Flag {
                place: format!("--{}", key.replace('_', "-")),
                key: key.to_owned(),
                text: text.clone()?,
            })
        })
        .collect();
    for pair in &arguments.set {
        let Some((key, text)) = pair.split_once('=') else {
            return Err(Failure::usage(format!(
                "--set {pair}: write --set KEY=VALUE"
            )));
        };
        flags.push(Flag {
            place: format!("--set {key}"),
            key: key.to_owned(),
            text: text.to_owned(),
        });
    }
    let sources = Sources {
        file: arguments.config.clone(),
        environment: std::env::vars_os()
            .filter_map(|(key, text)| {
                // Names that are no text are not ours; a value that is none fails as one.
                let key = key.into_string().ok()?;
                Some((key, text.to_string_lossy().into_owned()))
            })
            .collect(),
        flags,
    };
    config::load(&sources).map_err(Failure::usage)
}
