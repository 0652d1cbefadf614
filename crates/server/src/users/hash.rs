//! A stored password hash: argon2id in PHC form.

use std::fmt;

use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde::{Deserialize, Serialize};

use crate::Secret;

/// An argon2id hash in PHC form, such as `$argon2id$v=19$m=19456,t=2,p=1$…$…`. Printing it for
/// debugging shows nothing; the settings file shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PasswordHash(String);

/// Memory that one check may take, so that an entry of the file cannot ask for all of it.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
/// Passes over that memory.
const PASSES_MAX: u32 = 16;

impl PasswordHash {
    /// Hashes a password with a fresh salt.
    pub fn of(password: &Secret) -> Result<Self, String> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|error| format!("no randomness: {error}"))?;
        let hash: phc::PasswordHash = Argon2::default()
            .hash_password_with_salt(password.reveal(), &salt)
            .map_err(|error| error.to_string())?;
        Ok(Self(hash.to_string()))
    }

    /// True where the password is the one. Takes tens of milliseconds and 19 MiB on purpose.
    pub(super) fn matches(&self, password: &Secret, memory: &mut Memory) -> bool {
        self.check(password, memory).unwrap_or(false)
    }

    /// `None` where the hash does not read, which the constructor has ruled out.
    fn check(&self, password: &Secret, memory: &mut Memory) -> Option<bool> {
        let stored = phc::PasswordHash::new(&self.0).ok()?;
        let (salt, wanted) = (stored.salt?, stored.hash?);
        let version = match stored.version {
            Some(number) => Version::try_from(number).ok()?,
            None => Version::default(),
        };
        let params = Params::try_from(&stored).ok()?;
        let blocks = memory.blocks(params.block_count());
        let argon2 = Argon2::new(Algorithm::Argon2id, version, params);
        let mut bytes = [0; phc::Output::MAX_LENGTH];
        let found = bytes.get_mut(..wanted.len())?;
        argon2
            .hash_password_into_with_memory(password.reveal(), &salt, found, blocks)
            .ok()?;
        // This comparison takes the same time wherever they differ.
        Some(phc::Output::new(found).ok()? == wanted)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// What checks are made in, kept from one to the next: freed and asked for anew by ever other
/// threads, the allocator would keep a block for each of them.
#[derive(Default)]
pub(super) struct Memory(Vec<Block>);

impl Memory {
    pub(super) fn blocks(&mut self, count: usize) -> &mut [Block] {
        if self.0.len() < count {
            self.0.resize(count, Block::new());
        }
        &mut self.0
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<String> for PasswordHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        const MAKE_ONE: &str = "`menzil hash-password` makes one";
        let hash = phc::PasswordHash::new(&text)
            .map_err(|_| format!("password_hash is no PHC string: {MAKE_ONE}"))?;
        if hash.algorithm.as_str() != "argon2id" {
            return Err(format!(
                "password_hash uses {}, only argon2id is taken: {MAKE_ONE}",
                hash.algorithm
            ));
        }
        let params = Params::try_from(&hash)
            .map_err(|_| format!("password_hash has parameters that cannot be: {MAKE_ONE}"))?;
        if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX {
            return Err(format!(
                "password_hash asks for m={} t={}, at most m={MEMORY_KIB_MAX} t={PASSES_MAX} \
                 are taken: {MAKE_ONE}",
                params.m_cost(),
                params.t_cost()
            ));
        }
        if hash.salt.is_none() || hash.hash.is_none() {
            return Err(format!("password_hash has no salt or no hash: {MAKE_ONE}"));
        }
        Ok(Self(text))
    }
}

impl From<PasswordHash> for String {
    fn from(hash: PasswordHash) -> Self {
        hash.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_takes_its_own_password_and_no_other() {
        let hash = PasswordHash::of(&Secret::new("päss")).unwrap();
        let mut memory = Memory::default();
        for (password, is_right) in [("päss", true), ("pass", false), ("", false), ("päss", true)]
        {
            assert_eq!(hash.matches(&Secret::new(password), &mut memory), is_right);
        }
        let text = String::from(hash.clone());
        assert!(text.starts_with("$argon2id$v=19$"), "{text}");
        assert_eq!(PasswordHash::try_from(text), Ok(hash));
    }

    #[test]
    fn memory_that_a_larger_check_left_is_no_trouble() {
        const SMALL: &str = "$argon2id$v=19$m=8,t=1,p=1$";
        let password = Secret::new("x");
        let large = PasswordHash::of(&password).unwrap();
        let params = Params::new(8, 1, 1, None).unwrap();
        let small: phc::PasswordHash = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_with_salt(password.reveal(), b"0123456789abcdef")
            .unwrap();
        let small = PasswordHash::try_from(small.to_string()).unwrap();
        assert!(small.0.starts_with(SMALL), "{}", small.0);
        let mut memory = Memory::default();
        for hash in [&small, &large, &small] {
            assert!(hash.matches(&password, &mut memory));
            assert!(!hash.matches(&Secret::new("y"), &mut memory));
        }
    }

    #[test]
    fn two_hashes_of_one_password_differ() {
        let password = Secret::new("x");
        assert_ne!(PasswordHash::of(&password), PasswordHash::of(&password));
    }

    #[test]
    fn other_algorithms_and_greedy_parameters_are_refused() {
        for text in [
            "secret",
            "$argon2i$v=19$m=4096,t=3,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
            "$argon2id$v=19$m=4194304,t=3,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
            "$argon2id$v=19$m=4096,t=3,p=1",
        ] {
            let error = PasswordHash::try_from(text.to_owned()).unwrap_err();
            assert!(error.contains("hash-password"), "{error}");
        }
    }
}
