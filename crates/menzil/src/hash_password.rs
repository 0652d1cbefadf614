//! `menzil hash-password`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use menzil_server::config::{User, users_to_toml};
use menzil_server::{PasswordHash, Secret};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

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

fn ask(prompt: &str) -> Result<Secret, Failure> {
    let terminal = std::io::stdin();
    let before = tcgetattr(&terminal).map_err(Failure::new)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    // A prompt on stderr leaves stdout for the entry.
    let _ = write!(std::io::stderr(), "{prompt}");
    tcsetattr(&terminal, OptionalActions::Flush, &silent).map_err(Failure::new)?;
    let line = read_line();
    let restored = tcsetattr(&terminal, OptionalActions::Flush, &before);
    let _ = writeln!(std::io::stderr());
    restored.map_err(Failure::new)?;
    line
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
