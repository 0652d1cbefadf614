//! `menzil hash-password`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use menzil_server::config::{User, users_to_toml};
use menzil_server::{PasswordHash, Secret};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::HashPasswordArguments;
use crate::{Failure, print};

pub(crate) fn run(arguments: &HashPasswordArguments) -> Result<(), Failure> {
    let password = read_password()?;
    let user = User {
        password_hash: PasswordHash::of(&password).map_err(Failure::new)?,
        tags: arguments.tags.clone(),
    };
    print(&users_to_toml(&BTreeMap::from([(
        arguments.user.clone(),
        user,
    )])));
    Ok(())
}

/// The first line of standard input; a person is asked twice and sees nothing.
fn read_password() -> Result<Secret, Failure> {
    if !std::io::stdin().is_terminal() {
        return read_line();
    }
    let first = ask("Password: ")?;
    if ask("Again: ")? != first {
        return Err(Failure::new("the two passwords differ: nothing was made"));
    }
    Ok(first)
}

/// Reads a line that is not shown. The terminal shows again what is typed however this ends.
fn ask(prompt: &str) -> Result<Secret, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::new)?;
    let terminal = std::io::stdin();
    let before = tcgetattr(&terminal).map_err(Failure::new)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    let line = runtime.block_on(async {
        // Before the terminal is silent: a signal from here on is ours.
        let mut interruption = Interruption::new().map_err(Failure::new)?;
        // A prompt on stderr leaves stdout for the entry.
        let _ = write!(std::io::stderr(), "{prompt}");
        tcsetattr(&terminal, OptionalActions::Flush, &silent).map_err(Failure::new)?;
        let (done, line) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || done.send(read_line()));
        tokio::select! {
            line = line => line.map_err(Failure::new)?,
            () = interruption.next() => Err(Failure::interrupted("interrupted: nothing was made")),
        }
    });
    let restored = tcsetattr(&terminal, OptionalActions::Flush, &before);
    let _ = writeln!(std::io::stderr());
    restored.map_err(Failure::new)?;
    line
}

/// The signals that end a program at its prompt.
struct Interruption([Signal; 3]);

impl Interruption {
    fn new() -> std::io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::quit())?,
        ]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, quit] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

fn read_line() -> Result<Secret, Failure> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Failure::new(format!("cannot read the password: {error}")))?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::usage(
            "the password is empty: type it, or pipe it in as one line",
        ));
    }
    Ok(Secret::new(password))
}
