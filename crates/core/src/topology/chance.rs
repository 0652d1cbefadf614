//! Numbers for exchanges that pick by chance. The core has no randomness: where they begin is an
//! argument, and the same beginning gives the same numbers.

/// A counter, and what mixing makes of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Begins at a number.
    pub(crate) fn from(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `count`, each as likely as any other; 0 where there is none below.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        let scaled = (u128::from(mixed) * count as u128) >> 64;
        usize::try_from(scaled).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_as_often_as_any_other() {
        let mut chance = Chance::from(7);
        let mut counts = [0_u32; 5];
        for _ in 0..50_000 {
            counts[chance.below(5)] += 1;
        }
        assert!(
            counts.iter().all(|count| (9_600..10_400).contains(count)),
            "{counts:?}"
        );
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.below(1), 0);
    }

    #[test]
    fn one_beginning_gives_one_order() {
        let numbers = |seed| {
            let mut chance = Chance::from(seed);
            (0..20).map(|_| chance.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(3), numbers(3));
        assert_ne!(numbers(3), numbers(4));
    }
}
