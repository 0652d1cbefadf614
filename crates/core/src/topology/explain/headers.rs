//! How near a message's headers come to a binding that does not match them.

use menzil_model::table::Fields;
use menzil_model::{Name, Table, Value};

use super::super::canonical::{Side, put_canonical};
use super::super::carbon_copy::BCC;
use super::super::criteria::{Criteria, Mode};
use super::super::term::Term;
use super::words::{Budget, letters_apart};
use super::{Miss, TEXT_BYTES_MAX};

/// What the headers lack for that binding, with what it costs; `None` where it is not near.
pub(super) fn near(
    arguments: &Table,
    headers: Fields<'_>,
    budget: &mut Budget,
) -> Option<(u32, Vec<Miss>)> {
    let criteria = Criteria::of(arguments);
    let mut met = 0;
    let mut missed = Vec::new();
    for (name, wanted) in criteria.conditions() {
        if !budget.spend(1 + headers.rest().len()) {
            return None;
        }
        match missing(name, wanted, headers, budget) {
            None => met += 1,
            Some(miss) => missed.push(miss),
        }
    }
    missed.sort_by_key(|(cost, _)| *cost);
    let alone = if met == 0 { COST_ALONE } else { 0 };
    match criteria.mode {
        // The nearest of them would have been enough.
        Mode::Any => {
            let (cost, miss) = missed.into_iter().next()?;
            (cost < COST_ABSENT).then(|| (cost + alone, vec![miss]))
        }
        Mode::All => {
            let cost: u32 = missed.iter().map(|(cost, _)| *cost).sum();
            let is_near = missed.len() == 1 || cost <= COST_SUM_MAX;
            let misses = missed.into_iter().map(|(_, miss)| miss).collect();
            (is_near && cost > 0).then_some((cost + alone, misses))
        }
    }
}

/// Why a condition does not hold, if it does not.
fn missing(
    name: &[u8],
    wanted: Value<'_>,
    headers: Fields<'_>,
    budget: &mut Budget,
) -> Option<(u32, Miss)> {
    let mut given = headers.filter(|(other, _)| *other == name && *other != BCC);
    let header = Name::cut(name);
    let wanted_text = (!matches!(wanted, Value::Void)).then(|| shown(wanted));
    let Some((_, given)) = given.by_ref().last() else {
        let mut similar: Option<(u32, Name)> = None;
        for (other, _) in headers.filter(|(other, _)| *other != BCC) {
            if let Some(apart) = letters_apart(name, other, budget)
                && similar.as_ref().is_none_or(|(best, _)| apart < *best)
            {
                similar = Some((apart, Name::cut(other)));
            }
        }
        let cost = similar.as_ref().map_or(COST_ABSENT, |(apart, _)| *apart);
        return Some((
            cost,
            Miss::HeaderAbsent {
                header,
                wanted: wanted_text,
                similar: similar.map(|(_, name)| name),
            },
        ));
    };
    let wanted_text = wanted_text?;
    if canonical(wanted, Side::Binding) == canonical(given, Side::Message)
        && !matches!(given, Value::Void)
    {
        return None;
    }
    let given_text = shown(given);
    let is_close = match (wanted, given) {
        (Value::LongString(wanted), Value::LongString(given)) => {
            letters_apart(wanted, given, budget).is_some()
        }
        // A number and its digits.
        _ => wanted_text.trim_matches('"') == given_text.trim_matches('"'),
    };
    let cost = if is_close { 1 } else { COST_VALUE };
    Some((
        cost,
        Miss::HeaderValue {
            header,
            wanted: wanted_text,
            given: given_text,
        },
    ))
}

fn canonical(value: Value<'_>, side: Side) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_canonical(&mut bytes, value, side);
    bytes
}

/// A value for people, cut where it is long.
pub(crate) fn shown(value: Value<'_>) -> String {
    let text = if let Value::LongString(bytes) | Value::Binary(bytes) = value {
        format!("\"{}\"", menzil_model::Escaped(bytes))
    } else if matches!(value, Value::Void) {
        "void".to_owned()
    } else {
        Term(value).to_string()
    };
    match text.char_indices().nth(TEXT_BYTES_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

const COST_VALUE: u32 = 2;
const COST_ABSENT: u32 = 3;
/// Nothing at all of the binding holds.
const COST_ALONE: u32 = 2;
const COST_SUM_MAX: u32 = 3;
