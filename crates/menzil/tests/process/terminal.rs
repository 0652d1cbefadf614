//! What the binary does to the terminal that it is used at.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::common::{PATIENCE, menzil, text};

/// The side of a person, and the side of the program.
fn terminal() -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let program = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    (person.into(), program.into())
}

fn is_silent(terminal: &File) -> bool {
    let modes = tcgetattr(terminal).unwrap().local_modes;
    !modes.contains(LocalModes::ECHO)
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "nothing happens");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn asking(program: &File) -> Child {
    let mut command = menzil(&["hash-password", "ada"]);
    command.stdin(program.try_clone().unwrap());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until(|| is_silent(program));
    child
}

#[test]
fn a_terminal_shows_again_what_is_typed_after_the_password_prompt_was_interrupted() {
    let (_person, program) = terminal();
    assert!(!is_silent(&program));
    for signal in ["-INT", "-TERM"] {
        let mut child = asking(&program);
        let sent = Command::new("/bin/kill")
            .args([signal, &child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        wait_until(|| child.try_wait().unwrap().is_some());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "");
        assert!(!is_silent(&program), "{signal}");
    }
}

#[test]
fn a_password_typed_twice_makes_an_entry_and_is_not_shown() {
    let (mut person, program) = terminal();
    let mut child = asking(&program);
    person.write_all(b"s3cret\n").unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let mut prompts = Vec::new();
    while !prompts.ends_with(b"Again: ") {
        let mut byte = [0];
        stderr.read_exact(&mut byte).unwrap();
        prompts.extend_from_slice(&byte);
    }
    wait_until(|| is_silent(&program));
    person.write_all(b"s3cret\n").unwrap();
    wait_until(|| child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("[users.ada]"));
    assert!(!is_silent(&program));
}
