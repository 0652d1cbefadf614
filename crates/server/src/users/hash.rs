//! A stored password hash: argon2id in PHC form.

use std::fmt;

use argon2::Argon2;
use argon2::password_hash::phc;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
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
    pub fn matches(&self, password: &Secret) -> bool {
        phc::PasswordHash::new(&self.0).is_ok_and(|hash| {
            Argon2::default()
                .verify_password(password.reveal(), &hash)
                .is_ok()
        })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
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
        let params = argon2::Params::try_from(&hash)
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
        assert!(hash.matches(&Secret::new("päss")));
        assert!(!hash.matches(&Secret::new("pass")));
        assert!(!hash.matches(&Secret::new("")));
        let text = String::from(hash.clone());
        assert!(text.starts_with("$argon2id$v=19$"), "{text}");
        assert_eq!(PasswordHash::try_from(text), Ok(hash));
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
