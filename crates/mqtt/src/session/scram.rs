//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side, as an authentication method of MQTT 5.0
//! (§4.12): the password never comes, and what is stored of it does not let anybody in.
//!
//! ```text
//! CONNECT  n,,n=USER,r=NONCE              ─> ScramFirst::read
//! AUTH     r=NONCE+OURS,s=SALT,i=COUNT    <─ ScramFirst::answer
//! AUTH     c=biws,r=NONCE+OURS,p=PROOF    ─> ScramExchange::finish
//! CONNACK  v=SIGNATURE                    <─
//! ```
//!
//! It lacks channel binding, which needs TLS, and other identities to act as. User names are taken
//! as they come without `SASLprep`.

use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

/// The method's name.
pub const SCRAM_SHA_256: &[u8] = b"SCRAM-SHA-256";

/// What is stored of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredentials {
    /// Random bytes of this user.
    pub salt: Vec<u8>,
    /// How often the password was hashed; at least 4096 (RFC 7677 §4).
    pub iterations: u32,
    /// The hash of the key that a client proves to have.
    pub stored_key: [u8; 32],
    /// What the server proves to have.
    pub server_key: [u8; 32],
}

/// Shows no keys.
impl std::fmt::Debug for ScramCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScramCredentials")
    }
}

impl ScramCredentials {
    /// Of a password (RFC 5802 §3). Takes as long as there are iterations.
    pub fn derive(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let mut block = hmac(password, &[salt, &1_u32.to_be_bytes()]);
        let mut salted = block;
        for _ in 1..iterations {
            block = hmac(password, &[&block]);
            salted = xor(&salted, &block);
        }
        Self {
            salt: salt.to_vec(),
            iterations,
            stored_key: hash(&hmac(&salted, &[b"Client Key"])),
            server_key: hmac(&salted, &[b"Server Key"]),
        }
    }

    /// For a user who is not there: the same answer each time, and no proof that fits. The secret
    /// is the server's own.
    pub fn made_up(secret: &[u8], user: &[u8], iterations: u32) -> Self {
        let [salt, stored_key, server_key] =
            [&b"salt"[..], b"stored", b"server"].map(|what| hmac(secret, &[what, b" of ", user]));
        let (salt, _) = salt.split_at(16);
        Self {
            salt: salt.to_vec(),
            iterations,
            stored_key,
            server_key,
        }
    }
}

/// Why an exchange does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramError {
    /// It does not read, or wants what is not there: channel binding, or another identity.
    Malformed,
    /// The proof is none.
    WrongProof,
}

/// The client's first message.
#[derive(Clone, Debug)]
pub struct ScramFirst {
    user: Vec<u8>,
    /// What stands before the rest: whether channels are bound.
    header: Vec<u8>,
    /// The message without that.
    bare: Vec<u8>,
    nonce: Vec<u8>,
}

impl ScramFirst {
    /// Reads it.
    ///
    /// # Errors
    /// [`ScramError::Malformed`].
    pub fn read(message: &[u8]) -> Result<Self, ScramError> {
        let rest = [&b"n,"[..], b"y,"]
            .iter()
            .find_map(|start| message.strip_prefix(*start));
        let bare = rest
            .and_then(|rest| rest.strip_prefix(b","))
            .ok_or(ScramError::Malformed)?;
        let mut fields = bare.split(|byte| *byte == b',');
        let user = field(fields.next(), b"n=")?;
        let nonce = field(fields.next(), b"r=")?;
        let is_printable = nonce.iter().all(u8::is_ascii_graphic);
        if nonce.is_empty() || nonce.len() > NONCE_BYTES_MAX || !is_printable {
            return Err(ScramError::Malformed);
        }
        let (header, _) = message.split_at(message.len() - bare.len());
        Ok(Self {
            user: unescape(user).ok_or(ScramError::Malformed)?,
            header: header.to_vec(),
            bare: bare.to_vec(),
            nonce: nonce.to_vec(),
        })
    }

    /// Who says to be; nothing is proved.
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// The server's first message, and what the client's second one is checked with. The entropy
    /// is to be new each time.
    pub fn answer(self, credentials: ScramCredentials, entropy: u128) -> (ScramExchange, Vec<u8>) {
        let nonce = [&self.nonce[..], format!("{entropy:032x}").as_bytes()].concat();
        let salt = Base64::encode_string(&credentials.salt);
        let rest = format!(",s={salt},i={}", credentials.iterations);
        let message = [b"r=", &nonce[..], rest.as_bytes()].concat();
        let exchange = ScramExchange {
            user: self.user,
            binding: Base64::encode_string(&self.header).into_bytes(),
            said: [&self.bare[..], b",", &message].concat(),
            nonce,
            credentials,
        };
        (exchange, message)
    }
}

/// An exchange whose last word of the client is to come.
#[derive(Clone, Debug)]
pub struct ScramExchange {
    user: Vec<u8>,
    binding: Vec<u8>,
    /// Both first messages.
    said: Vec<u8>,
    nonce: Vec<u8>,
    credentials: ScramCredentials,
}

impl ScramExchange {
    /// Who says to be.
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// Checks the client's proof. Returns the server's, its last message.
    ///
    /// # Errors
    /// The message does not read or is not of this exchange, or the proof is wrong.
    pub fn finish(self, message: &[u8]) -> Result<Vec<u8>, ScramError> {
        let proof_at = message.windows(3).rposition(|three| three == b",p=");
        let (unproved, proof) = proof_at
            .and_then(|at| message.split_at_checked(at))
            .ok_or(ScramError::Malformed)?;
        let mut fields = unproved.split(|byte| *byte == b',');
        let binding = field(fields.next(), b"c=")?;
        let nonce = field(fields.next(), b"r=")?;
        if binding != self.binding || nonce != self.nonce {
            return Err(ScramError::Malformed);
        }
        let mut decoded = [0; 32];
        let proof = field(Some(proof), b",p=")?;
        let proof = Base64::decode(proof, &mut decoded);
        let proof = proof.ok().and_then(<[u8]>::first_chunk);
        let proof: &[u8; 32] = proof.ok_or(ScramError::Malformed)?;
        let said = [&self.said[..], b",", unproved];
        let signature = hmac(&self.credentials.stored_key, &said);
        let key = hash(&xor(proof, &signature));
        if !is_same(&key, &self.credentials.stored_key) {
            return Err(ScramError::WrongProof);
        }
        let signature = hmac(&self.credentials.server_key, &said);
        Ok(format!("v={}", Base64::encode_string(&signature)).into_bytes())
    }
}

fn field<'a>(field: Option<&'a [u8]>, name: &[u8]) -> Result<&'a [u8], ScramError> {
    field
        .and_then(|field| field.strip_prefix(name))
        .ok_or(ScramError::Malformed)
}

/// `=2C` is a comma, `=3D` an equals sign, and no other `=` may be there (RFC 5802 §5.1).
fn unescape(user: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(user.len());
    let mut rest = user;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'=' {
            out.push(byte);
        } else if let Some(behind) = rest.strip_prefix(b"2C") {
            out.push(b',');
            rest = behind;
        } else {
            out.push(b'=');
            rest = rest.strip_prefix(b"3D")?;
        }
    }
    (!out.is_empty()).then_some(out)
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // Keys of any length are taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return [0; 32];
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn xor(a: &[u8; 32], b: &[u8; 32]) -> [u8; 32] {
    let mut out = *a;
    for (place, byte) in out.iter_mut().zip(b) {
        *place ^= byte;
    }
    out
}

/// Takes the same time wherever they differ.
fn is_same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let differs = xor(a, b).iter().fold(0, |all, byte| all | byte);
    std::hint::black_box(differs) == 0
}

const NONCE_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677 §3, whose server has a nonce of its own.
    fn rfc_exchange() -> ScramExchange {
        let first = ScramFirst::read(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        assert_eq!(first.user(), b"user");
        let mut salt = [0; 16];
        Base64::decode("W22ZaJ0SNY7soEsUEjb6gQ==", &mut salt).unwrap();
        let credentials = ScramCredentials::derive(b"pencil", &salt, 4096);
        let nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_vec();
        let server = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (exchange, message) = first.answer(credentials, 1);
        assert!(message.starts_with(b"r=rOprNGfwEbeRWgbNEkqO0000"));
        assert!(message.ends_with(b"1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
        ScramExchange {
            said: [&b"n=user,r=rOprNGfwEbeRWgbNEkqO,"[..], server].concat(),
            nonce,
            ..exchange
        }
    }

    const FINAL: &[u8] = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                           p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    #[test]
    fn the_example_of_rfc_7677_works() {
        let last = rfc_exchange().finish(FINAL).unwrap();
        assert_eq!(last, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn another_proof_another_nonce_or_another_header_is_refused() {
        let with = |at: usize, byte: u8| {
            let mut message = FINAL.to_vec();
            message[at] = byte;
            rfc_exchange().finish(&message)
        };
        let proof_at = FINAL.len() - 44;
        assert_eq!(with(proof_at, b'A'), Err(ScramError::WrongProof));
        assert_eq!(with(10, b'X'), Err(ScramError::Malformed), "the nonce");
        assert_eq!(with(3, b'X'), Err(ScramError::Malformed), "the header");
        for bad in [&b""[..], b"c=biws", b"c=biws,r=x,p=", b",p=", b",p=,p="] {
            assert_eq!(rfc_exchange().finish(bad), Err(ScramError::Malformed));
        }
    }

    #[test]
    fn a_user_who_is_not_there_looks_like_one_who_is() {
        let made_up = |user: &[u8]| ScramCredentials::made_up(b"secret", user, 4096);
        assert_eq!(made_up(b"a"), made_up(b"a"));
        assert_ne!(made_up(b"a").salt, made_up(b"b").salt);
        let exchange = ScramExchange {
            credentials: made_up(b"user"),
            ..rfc_exchange()
        };
        assert_eq!(exchange.finish(FINAL), Err(ScramError::WrongProof));
    }

    #[test]
    fn first_messages_that_do_not_read_are_refused() {
        let user = |message: &[u8]| ScramFirst::read(message).map(|first| first.user);
        assert_eq!(user(b"y,,n=a=2Cb=3D,r=x"), Ok(b"a,b=".to_vec()));
        for bad in [
            &b""[..],
            b"n",
            b"n,,",
            b"n,,n=a",
            b"n,,n=a,r=",
            b"n,,n=,r=x",
            b"n,,n=a=,r=x",
            b"n,,m=ext,n=a,r=x",
            b"n,a=other,n=a,r=x",
            b"p=tls-unique,,n=a,r=x",
            b"n,,n=a,r=\x01",
        ] {
            assert_eq!(user(bad), Err(ScramError::Malformed), "{bad:?}");
        }
    }
}
