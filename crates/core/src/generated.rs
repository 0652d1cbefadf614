//! Names that the broker makes up.

use menzil_model::Name;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `prefix` and 128 bits of randomness in 22 characters that need no escaping in a URL.
pub(crate) fn generated_name(prefix: impl AsRef<[u8]>, entropy: u128) -> Name {
    let mut name = prefix.as_ref().to_vec();
    for place in 0..22 {
        let six = usize::try_from((entropy >> (6 * place)) & 63).unwrap_or_default();
        name.extend(ALPHABET.get(six));
    }
    Name::cut(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_rabbitmqs_shape_and_keep_every_bit() {
        let name = generated_name("amq.gen-", u128::MAX);
        assert_eq!(name.to_string(), "amq.gen-_____________________D");
        assert_ne!(
            generated_name("amq.gen-", 1),
            generated_name("amq.gen-", 1 << 127)
        );
    }
}
