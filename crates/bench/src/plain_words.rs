//! The command lines of `disk` and `loopback`, which have a few options each: `--name value` or
//! `--name=value`.

use crate::BenchError;

/// The words of a command line, one option after the other.
#[derive(Debug)]
pub(crate) struct PlainWords {
    rest: std::vec::IntoIter<String>,
    name: String,
    value: Option<String>,
}

impl PlainWords {
    pub(crate) fn new(args: Vec<String>) -> Self {
        Self {
            rest: args.into_iter(),
            name: String::new(),
            value: None,
        }
    }

    /// The name of the next option, dashes included.
    pub(crate) fn next_name(&mut self) -> Option<String> {
        let word = self.rest.next()?;
        (self.name, self.value) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        Some(self.name.clone())
    }

    /// The value of that option, which the error calls `called`.
    pub(crate) fn value(&mut self, called: &str) -> Result<String, BenchError> {
        let value = self.value.take().or_else(|| self.rest.next());
        value.ok_or_else(|| {
            let name = &self.name;
            BenchError::Usage(format!("{name} lacks its value; write {name} {called}"))
        })
    }
}
