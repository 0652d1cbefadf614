//! Columns of numbers in which neighbours are often equal.
//!
//! ```text
//! column := group*
//! group  := varint(count << 1)     varint(symbol)          the symbol, count times
//!         | varint(count << 1 | 1) varint(symbol) × count  one after the other
//! ```

use crate::wire::{Reader, Writer};
use smallvec::SmallVec;

/// Equal neighbours that are worth a group of their own.
const RUN_LEAST: u64 = 3;

/// A column that is being gathered.
#[derive(Debug, Default)]
pub(super) struct Runs(SmallVec<[(u64, u64); 4]>);

impl Runs {
    /// Adds a symbol.
    #[inline]
    pub(super) fn push(&mut self, symbol: u64) {
        match self.0.last_mut() {
            Some((last, times)) if *last == symbol => *times += 1,
            _ => self.0.push((symbol, 1)),
        }
    }

    /// Adds the last symbol again, and says which it is.
    pub(super) fn repeat(&mut self, times: u64) -> u64 {
        self.0.last_mut().map_or(0, |(symbol, count)| {
            *count += times;
            *symbol
        })
    }

    /// Appends the column.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut literals: &[(u64, u64)] = &[];
        let mut rest = self.0.as_slice();
        while let Some(((symbol, times), behind)) = rest.split_first() {
            if *times >= RUN_LEAST {
                write_literals(literals, out);
                out.put_varint(times << 1);
                out.put_varint(*symbol);
                literals = &[];
            } else {
                // `literals` and this one lie side by side.
                let end = self.0.len() - behind.len();
                let start = end - 1 - literals.len();
                literals = self.0.get(start..end).unwrap_or_default();
            }
            rest = behind;
        }
        write_literals(literals, out);
    }
}

fn write_literals(runs: &[(u64, u64)], out: &mut Vec<u8>) {
    let count: u64 = runs.iter().map(|(_, times)| times).sum();
    if count == 0 {
        return;
    }
    out.put_varint(count << 1 | 1);
    for (symbol, times) in runs {
        for _ in 0..*times {
            out.put_varint(*symbol);
        }
    }
}

/// A place in a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    reader: Reader<'a>,
    symbol: u64,
    left: u64,
    literal: bool,
}

impl<'a> Column<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(bytes),
            symbol: 0,
            left: 0,
            literal: false,
        }
    }

    /// The next symbol and how often it follows, once for each of literal ones; `None` at the
    /// end, or where the bytes are no column.
    #[inline]
    pub(super) fn next_run(&mut self) -> Option<(u64, u64)> {
        self.fill()?;
        let count = if self.literal { 1 } else { self.left };
        self.left -= count;
        Some((self.symbol, count))
    }

    /// The next symbol.
    #[inline]
    pub(super) fn next_symbol(&mut self) -> Option<u64> {
        self.fill()?;
        self.left -= 1;
        Some(self.symbol)
    }

    /// Has a symbol that is not used up.
    #[inline]
    fn fill(&mut self) -> Option<()> {
        if self.left == 0 {
            let header = self.reader.varint().ok()?;
            self.left = header >> 1;
            self.literal = header & 1 == 1;
            if self.left == 0 {
                return None;
            }
            if !self.literal {
                self.symbol = self.reader.varint().ok()?;
            }
        }
        if self.literal {
            self.symbol = self.reader.varint().ok()?;
        }
        Some(())
    }

    /// Nothing follows.
    pub(super) fn is_at_end(&self) -> bool {
        self.left == 0 && self.reader.is_empty()
    }
}

/// A signed difference as a small number.
#[inline]
pub(super) fn zigzag(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from);
    let sign = (difference >> 63).wrapping_neg();
    (difference << 1) ^ sign
}

/// What [`zigzag`] was of, added to `from`.
#[inline]
pub(super) fn unzigzag(from: u64, symbol: u64) -> u64 {
    let sign = (symbol & 1).wrapping_neg();
    from.wrapping_add((symbol >> 1) ^ sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn symbol() -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0..3_u64, 1 => any::<u64>()]
    }

    fn column(symbols: &[u64]) -> Runs {
        let mut runs = Runs::default();
        for symbol in symbols {
            runs.push(*symbol);
        }
        runs
    }

    proptest! {
        #[test]
        fn a_column_comes_back(symbols in prop::collection::vec(symbol(), 0..60)) {
            let mut bytes = Vec::new();
            column(&symbols).write(&mut bytes);
            let mut one_by_one = Column::new(&bytes);
            let read: Vec<u64> = std::iter::from_fn(|| one_by_one.next_symbol()).collect();
            prop_assert_eq!(&read, &symbols);
            prop_assert!(one_by_one.is_at_end());
            let mut by_runs = Column::new(&bytes);
            let runs = std::iter::from_fn(|| by_runs.next_run());
            let read: Vec<u64> = runs
                .flat_map(|(symbol, count)| std::iter::repeat_n(symbol, usize::try_from(count).unwrap()))
                .collect();
            prop_assert_eq!(read, symbols);
        }

        #[test]
        fn a_difference_comes_back(from: u64, to: u64) {
            prop_assert_eq!(unzigzag(from, zigzag(from, to)), to);
        }
    }

    #[test]
    fn equal_symbols_take_two_bytes() {
        let mut bytes = Vec::new();
        let mut runs = column(&[7; 50]);
        assert_eq!(runs.repeat(10), 7);
        runs.write(&mut bytes);
        assert_eq!(bytes, [120, 7]);
    }
}
