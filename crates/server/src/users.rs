//! Who may log in. Passwords are checked against argon2id hashes, a bounded number at once, by
//! turns and off the connection tasks; a keyed in-memory cache of logins that passed keeps a reconnect
//! storm cheap.
//!
//! A wrong password and an unknown user cost the same work and give the same answer.

mod checks;
mod hash;

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use blake2::Blake2bMac512;
use blake2::digest::{FixedOutput, KeyInit, Update};
use parking_lot::Mutex;

pub use hash::PasswordHash;

use checks::{Answer, Checks};
use hash::Memory;

use crate::Secret;
use crate::config::Settings;

/// The user table and what was verified since the start.
pub struct Users {
    stored: Arc<Stored>,
    guest: bool,
    loopback_only: HashSet<Vec<u8>>,
    verified: Mutex<HashSet<Proof>>,
    cache_key: [u8; 64],
    checks: Arc<Checks>,
}

/// Hashes by user.
struct Stored {
    hashes: BTreeMap<Vec<u8>, PasswordHash>,
    /// Taken in place of an unknown user's hash, so that both cost the same.
    nobody: PasswordHash,
}

/// A keyed digest of user, stored hash and password.
type Proof = [u8; 64];

/// Logins that are remembered; when there are more, all are forgotten and checked again.
const VERIFIED_MAX: usize = 10_000;

/// What an unknown user is checked against, of a password that was thrown away. It costs what
/// `menzil hash-password` makes cost; whether it matches is never asked.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$3d0JyGTPYwr3tjgapM4p+A$SJoQBxEjDQn6tsoXeZ1NYdL3fbHA+6wu8iNJhRuNzsI";

/// Why a login was refused. For the log: the client is told one thing for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefused {
    /// Unknown user or wrong password.
    Credentials,
    /// This user may come over loopback addresses only.
    NotLoopback,
    /// Nobody looked: too many other logins wait for their check.
    Busy,
}

impl LoginRefused {
    /// The reason and what to do, for the log.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Credentials => "unknown user or wrong password",
            Self::Busy => {
                "too many logins wait for their password check, most of them this peer's: if \
                 they are wanted, raise password_checks_max"
            }
            Self::NotLoopback => {
                "this user may log in over loopback only: add a user of your own with \
                 `menzil hash-password`, or take it out of loopback_users"
            }
        }
    }
}

impl Users {
    /// The users of these settings.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        let mut cache_key = [0; 64];
        getrandom::fill(&mut cache_key).map_err(|error| format!("no randomness: {error}"))?;
        let stored = Arc::new(Stored {
            hashes: settings
                .users
                .iter()
                .map(|(name, user)| (name.clone().into_bytes(), user.password_hash.clone()))
                .collect(),
            nobody: PasswordHash::try_from(NOBODY.to_owned())?,
        });
        let hashes = Arc::clone(&stored);
        let work = move |user: &[u8], password: &Secret, memory: &mut Memory| {
            hashes.matches(user, password, memory)
        };
        Ok(Self {
            stored,
            guest: settings.guest && !settings.users.contains_key("guest"),
            loopback_only: settings
                .loopback_users
                .iter()
                .map(|name| name.clone().into_bytes())
                .collect(),
            verified: Mutex::default(),
            cache_key,
            checks: Arc::new(Checks::new(settings.password_checks_max, Box::new(work))),
        })
    }

    /// Whether this user may come in with that password from that address. Waits for its turn
    /// where many come at once; dropping the future gives the turn up.
    pub async fn login(
        &self,
        user: &[u8],
        password: Secret,
        from: IpAddr,
    ) -> Result<(), LoginRefused> {
        let proof = self.proof(user, &password);
        let known = if self.guest && user == b"guest" {
            self.proof(user, &Secret::new("guest")) == proof
        } else {
            let cached = self.verified.lock().contains(&proof);
            cached || self.check(user, password, proof, from).await?
        };
        if !known {
            return Err(LoginRefused::Credentials);
        }
        if self.loopback_only.contains(user) && !is_loopback(from) {
            return Err(LoginRefused::NotLoopback);
        }
        Ok(())
    }

    /// The slow check, once it is its turn.
    async fn check(
        &self,
        user: &[u8],
        password: Secret,
        proof: Proof,
        from: IpAddr,
    ) -> Result<bool, LoginRefused> {
        match self.checks.ask(proof, user, password, from).await {
            Answer::Refused => return Err(LoginRefused::Busy),
            Answer::Wrong => return Ok(false),
            Answer::Right => {}
        }
        let mut verified = self.verified.lock();
        if verified.len() >= VERIFIED_MAX {
            verified.clear();
        }
        verified.insert(proof);
        Ok(true)
    }

    /// Nobody without the key of this process can make one, so that finding it in the set
    /// tells by its timing nothing about the password.
    fn proof(&self, user: &[u8], password: &Secret) -> Proof {
        let stored = self
            .stored
            .hashes
            .get(user)
            .map_or(&[][..], PasswordHash::as_bytes);
        let Ok(mut mac) = Blake2bMac512::new_from_slice(&self.cache_key) else {
            // The key has the length that the type asks for.
            return [0; 64];
        };
        for part in [user, stored, password.reveal()] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize_fixed().into()
    }
}

impl Stored {
    fn matches(&self, user: &[u8], password: &Secret, memory: &mut Memory) -> bool {
        let stored = self.hashes.get(user);
        stored.unwrap_or(&self.nobody).matches(password, memory) && stored.is_some()
    }
}

/// Whether it is this machine's own.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::User;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn users(guest: bool) -> Arc<Users> {
        let mut settings = Settings {
            guest,
            ..Settings::default()
        };
        let password_hash = PasswordHash::of(&Secret::new("pw")).unwrap();
        settings.users.insert(
            "ada".to_owned(),
            User {
                password_hash,
                tags: vec![],
            },
        );
        Arc::new(Users::new(&settings).unwrap())
    }

    async fn login(
        users: &Arc<Users>,
        user: &str,
        password: &str,
        from: IpAddr,
    ) -> Result<(), LoginRefused> {
        users
            .login(user.as_bytes(), Secret::new(password), from)
            .await
    }

    #[tokio::test]
    async fn the_right_password_passes_again_and_again_from_anywhere() {
        let users = users(true);
        assert_eq!(login(&users, "ada", "pw", AWAY).await, Ok(()));
        assert_eq!(users.verified.lock().len(), 1);
        assert_eq!(login(&users, "ada", "pw", AWAY).await, Ok(()));
        assert_eq!(users.verified.lock().len(), 1);
    }

    #[tokio::test]
    async fn wrong_passwords_and_unknown_users_are_refused_alike_and_not_remembered() {
        let users = users(true);
        for (user, password) in [("ada", "PW"), ("ada", ""), ("bob", "pw"), ("", "")] {
            let refused = login(&users, user, password, HERE).await;
            assert_eq!(refused, Err(LoginRefused::Credentials), "{user} {password}");
        }
        assert!(users.verified.lock().is_empty());
    }

    #[tokio::test]
    async fn guest_comes_over_loopback_only_and_can_be_dropped() {
        let with = users(true);
        assert_eq!(login(&with, "guest", "guest", HERE).await, Ok(()));
        let mapped = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(login(&with, "guest", "guest", mapped).await, Ok(()));
        assert_eq!(
            login(&with, "guest", "guest", AWAY).await,
            Err(LoginRefused::NotLoopback)
        );
        assert_eq!(
            login(&with, "guest", "other", AWAY).await,
            Err(LoginRefused::Credentials)
        );
        let without = users(false);
        assert_eq!(
            login(&without, "guest", "guest", HERE).await,
            Err(LoginRefused::Credentials)
        );
    }
}
