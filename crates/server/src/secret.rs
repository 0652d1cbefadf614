//! Text that must never reach a log, an error or a `Debug` print.

use std::fmt;

/// A password, or what proves one. Its bytes are asked for by name; printing shows none of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Hides `bytes`.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for the one place that checks them.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Drop for Secret {
    /// Best effort: the optimiser may drop these writes, a core dump is then less clean.
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_a_secret_shows_nothing_of_it() {
        let text = format!("{:?}", Some(Secret::new("hunter2")));
        assert!(!text.contains("hunter2"), "{text}");
    }
}
