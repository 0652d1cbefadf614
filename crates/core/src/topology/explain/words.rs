//! How near a key comes to a pattern that does not match it: one word that is misspelt or another,
//! one word more, or one less. What needs two such changes is not near.

use std::cmp::Reverse;

use menzil_model::Name;

use super::Miss;

/// What may be spent on looking for what is near, counted in pairs of words or letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget(pub(super) u64);

impl Budget {
    /// Takes as much; false where it is used up.
    pub(super) fn spend(&mut self, pairs: usize) -> bool {
        let left = self.0.checked_sub(pairs as u64);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

/// The one change, and what it costs: the nearest has the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    cost: u32,
    kind: Kind,
    /// Places in pattern and key, from 0; of several that are as good the last one.
    place: Reverse<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Misspelt,
    More,
    Less,
    Other,
}

/// The change that makes the pattern match the key, and its cost; `None` where it is not near, or
/// where the budget is used up.
pub(super) fn near(
    pattern: &[u8],
    key: &[u8],
    has_wildcards: bool,
    budget: &mut Budget,
) -> Option<(u32, Miss)> {
    let (pattern, key) = (words(pattern), words(key));
    let is_many = |word: &[u8]| has_wildcards && word == b"#";
    let is_one = |word: &[u8]| has_wildcards && word == b"*";
    let is_literal = |word: &[u8]| !is_many(word) && !is_one(word);
    // Something of the pattern must be left when the change is made: else everything is near.
    let literals = pattern.iter().filter(|word| is_literal(word)).count();
    let manies = pattern.iter().filter(|word| is_many(word)).count();
    let (least, most) = (
        pattern.len() - manies,
        if manies > 0 {
            usize::MAX
        } else {
            pattern.len()
        },
    );
    if key.len() + 1 < least || key.len().saturating_sub(1) > most {
        return None;
    }
    if !budget.spend((pattern.len() + 1) * (key.len() + 1)) {
        return None;
    }
    // By key words consumed: reached without a change, and reached with the cheapest one.
    let mut row: Vec<(bool, Option<Change>)> = vec![(false, None); key.len() + 1];
    if let Some(start) = row.first_mut() {
        start.0 = true;
    }
    for (at, word) in pattern.iter().enumerate() {
        across(&mut row, at, &key, literals);
        let mut next: Vec<(bool, Option<Change>)> = vec![(false, None); key.len() + 1];
        let mut many = (false, None);
        for (place, (clean, changed)) in row.iter().copied().enumerate() {
            if is_many(word) {
                many = (many.0 || clean, cheapest(many.1, changed));
                if let Some(here) = next.get_mut(place) {
                    *here = many;
                }
                continue;
            }
            // One word less than the pattern asks for.
            let is_left = literals > usize::from(is_literal(word));
            let less = (clean && is_left).then_some(Change {
                cost: COST_COUNT + u32::from(is_literal(word)),
                kind: Kind::Less,
                place: Reverse((at, place)),
            });
            if let Some(here) = next.get_mut(place) {
                here.1 = cheapest(here.1, less);
            }
            let (Some(given), Some(there)) = (key.get(place), next.get_mut(place + 1)) else {
                continue;
            };
            if is_one(word) || word == given {
                there.0 |= clean;
                there.1 = cheapest(there.1, changed);
            } else if clean {
                let change = substitution(word, given, literals > 1, budget);
                let change = change.map(|(cost, kind)| Change {
                    cost,
                    kind,
                    place: Reverse((at, place)),
                });
                there.1 = cheapest(there.1, change);
            }
        }
        row = next;
    }
    across(&mut row, pattern.len(), &key, literals);
    let change = row.last()?.1?;
    let Reverse((in_pattern, in_key)) = change.place;
    let wanted = pattern.get(in_pattern).copied().unwrap_or_default();
    let given = key.get(in_key).copied().unwrap_or_default();
    let (place, wanted, given) = (in_key + 1, Name::cut(wanted), Name::cut(given));
    let miss = match change.kind {
        Kind::Misspelt | Kind::Other => Miss::Word {
            place,
            wanted,
            given,
        },
        Kind::More => Miss::WordMore { place, given },
        Kind::Less => Miss::WordLess { place, wanted },
    };
    Some((change.cost, miss))
}

/// One word more than the pattern asks for.
fn across(row: &mut [(bool, Option<Change>)], at: usize, key: &[&[u8]], literals: usize) {
    if literals == 0 {
        return;
    }
    for place in 0..key.len() {
        let more = row.get(place).is_some_and(|here| here.0).then_some(Change {
            cost: COST_COUNT,
            kind: Kind::More,
            place: Reverse((at, place)),
        });
        if let Some(there) = row.get_mut(place + 1) {
            there.1 = cheapest(there.1, more);
        }
    }
}

fn cheapest(left: Option<Change>, right: Option<Change>) -> Option<Change> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    }
}

fn substitution(
    wanted: &[u8],
    given: &[u8],
    may_be_other: bool,
    budget: &mut Budget,
) -> Option<(u32, Kind)> {
    match letters_apart(wanted, given, budget) {
        Some(letters) => Some((letters, Kind::Misspelt)),
        None => may_be_other.then_some((COST_OTHER, Kind::Other)),
    }
}

/// How many letters two texts are apart, if that is few enough for a slip of the pen: letters that
/// are missing, too many, others, or two that changed places.
pub(super) fn letters_apart(left: &[u8], right: &[u8], budget: &mut Budget) -> Option<u32> {
    let longer = left.len().max(right.len());
    if left.eq_ignore_ascii_case(right) {
        return Some(1);
    }
    if longer > LETTERS_MAX || left.len().abs_diff(right.len()) > SLIPS_MAX as usize {
        return None;
    }
    if !budget.spend(left.len() * right.len()) {
        return None;
    }
    let mut before: Vec<u32> = Vec::new();
    let mut row: Vec<u32> = (0..).take(right.len() + 1).collect();
    for (at, letter) in left.iter().enumerate() {
        let mut next = vec![row.first().map_or(0, |cost| cost + 1)];
        for (place, other) in right.iter().enumerate() {
            let cost = |row: &[u32], place: usize| row.get(place).copied().unwrap_or(u32::MAX / 2);
            let changed = cost(&row, place) + u32::from(letter != other);
            let mut best = changed
                .min(cost(&row, place + 1) + 1)
                .min(cost(&next, place) + 1);
            if let (Some(last), Some(last_other)) = (
                at.checked_sub(1).and_then(|at| left.get(at)),
                place.checked_sub(1).and_then(|place| right.get(place)),
            ) && last == other
                && letter == last_other
            {
                best = best.min(cost(&before, place - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    let apart = row.last().copied()?;
    // Two of four letters are another word.
    (apart <= SLIPS_MAX && apart as usize * 3 <= longer).then_some(apart)
}

/// As topic exchanges see them.
fn words(text: &[u8]) -> Vec<&[u8]> {
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == b'.').collect()
}

/// Slips of the pen in one word.
const SLIPS_MAX: u32 = 2;
/// Longer words are the same or others.
const LETTERS_MAX: usize = 64;
const COST_COUNT: u32 = 3;
const COST_OTHER: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pattern: &str, key: &str) -> String {
        let mut budget = Budget(1 << 20);
        match near(pattern.as_bytes(), key.as_bytes(), true, &mut budget) {
            None => "far".to_owned(),
            Some((
                _,
                Miss::Word {
                    place,
                    wanted,
                    given,
                },
            )) => format!("{place}: {given} for {wanted}"),
            Some((_, Miss::WordMore { place, given })) => format!("{place}: {given} too many"),
            Some((_, Miss::WordLess { place, wanted })) => format!("{place}: {wanted} missing"),
            Some((_, other)) => format!("{other:?}"),
        }
    }

    #[test]
    fn one_word_may_be_misspelt_other_too_many_or_missing() {
        for (pattern, key, what) in [
            ("order.created", "orders.created", "1: orders for order"),
            (
                "order.created.*",
                "orders.created.eu",
                "1: orders for order",
            ),
            ("order.*.eu", "order.created.us", "3: us for eu"),
            ("order.#", "orders.created.eu", "1: orders for order"),
            ("#.error", "payment.eror", "2: eror for error"),
            ("order.created", "order.craeted", "2: craeted for created"),
            ("order.created", "Order.created", "1: Order for order"),
            ("order.created", "order.created.eu", "3: eu too many"),
            ("order.*.eu", "order.eu", "2: * missing"),
            ("order.created.*", "order.created", "3: * missing"),
            ("order.*.eu", "order.created.eu.retry", "4: retry too many"),
            ("files.cn.*.store", "files.cn.store", "3: * missing"),
            ("files.cn.*.store", "files.cn.hz.sz.store", "4: sz too many"),
            ("order.created", "invoice.created", "1: invoice for order"),
            ("order.created", "order", "2: created missing"),
            ("order", "ordre", "1: ordre for order"),
        ] {
            assert_eq!(said(pattern, key), what, "{pattern} and {key}");
        }
    }

    #[test]
    fn what_needs_more_than_one_change_is_far() {
        for (pattern, key) in [
            ("order.#", "invoice.paid"),
            ("order.created", "invoice.paid"),
            ("order.created.eu", "order"),
            ("order", "payment"),
            ("order", ""),
            ("", "order"),
            ("*", "order.created"),
            ("*.*", "order"),
            ("eu", "us"),
            ("order.created", "order.created.eu.retry"),
            ("order.*.eu", "orders.created.us"),
        ] {
            assert_eq!(said(pattern, key), "far", "{pattern} and {key}");
        }
    }

    #[test]
    fn looking_ends_with_the_budget() {
        let pattern = "#.a.".repeat(40);
        let key = "b.".repeat(120);
        let mut budget = Budget(5000);
        for _ in 0..10 {
            near(pattern.as_bytes(), key.as_bytes(), true, &mut budget);
        }
        assert_eq!(budget.0, 0);
        assert_eq!(near(b"order", b"orders", true, &mut budget), None);
    }
}
