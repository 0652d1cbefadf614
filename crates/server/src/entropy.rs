//! Randomness of the system.

/// For names that are made up.
pub(crate) fn entropy() -> u128 {
    let mut bytes = [0; 16];
    // The system has randomness, or it would have had none for the passwords at the start.
    let _ = getrandom::fill(&mut bytes);
    u128::from_ne_bytes(bytes)
}
