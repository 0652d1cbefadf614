//! A set of small numbers that is emptied in one step and never shrinks, so that routing
//! allocates nothing once it has seen the largest number.

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    round: u64,
    seen: Vec<u64>,
}

impl Marks {
    /// Empties the set.
    pub(crate) fn clear(&mut self) {
        self.round += 1;
    }

    /// Whether a number is there.
    pub(crate) fn has(&self, number: usize) -> bool {
        self.seen.get(number) == Some(&self.round)
    }

    /// Adds a number; true if it was not there.
    #[inline]
    pub(crate) fn add(&mut self, number: usize) -> bool {
        if number >= self.seen.len() {
            self.seen.resize(number + 1, 0);
        }
        match self.seen.get_mut(number) {
            Some(seen) if *seen != self.round => {
                *seen = self.round;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once_a_round() {
        let mut marks = Marks::default();
        for _ in 0..3 {
            marks.clear();
            assert!(marks.add(5));
            assert!(marks.add(0));
            assert!(!marks.add(5));
        }
    }
}
