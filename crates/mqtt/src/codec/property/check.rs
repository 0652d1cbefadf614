//! The check of properties: whether they read, and whether they may stand there.

use menzil_model::wire::Reader;

use super::id::{Kind, Place, PropertyId};
use super::{Properties, field};
use crate::codec::header::read_integer;
use crate::codec::text::{TextPolicy, check_text};
use crate::codec::violation::Rule;

/// Checks all. What does not read goes before what should not be there (§1.2: a packet that cannot
/// be parsed is malformed, whatever else it is).
///
/// # Errors
/// The first of each kind.
pub(in crate::codec) fn check(
    bytes: &[u8],
    place: Place,
    policy: TextPolicy,
) -> Result<Properties<'_>, Rule> {
    let mut rest = Reader::new(bytes);
    let mut seen = 0;
    let mut flaw = None;
    while !rest.is_empty() {
        let id = id(&mut rest)?;
        let value = value(id, &mut rest, policy)?;
        let misplaced = if !id.is_allowed(place) {
            Some(Rule::PropertyMisplaced(id))
        } else if seen & id.bit() != 0 && !id.may_repeat(place) {
            Some(Rule::PropertyTwice(id))
        } else {
            value
        };
        flaw = flaw.or(misplaced);
        seen |= id.bit();
    }
    let needs_method = seen & PropertyId::AuthenticationData.bit() != 0;
    if needs_method && seen & PropertyId::AuthenticationMethod.bit() == 0 {
        flaw = flaw.or(Some(Rule::AuthWithoutMethod));
    }
    flaw.map_or(Ok(Properties { bytes, seen }), Err)
}

fn id(rest: &mut Reader<'_>) -> Result<PropertyId, Rule> {
    let number = read_integer(rest)?;
    PropertyId::new(number).ok_or(Rule::PropertyUnknown(number))
}

/// Reads a value; what is wrong with it though it reads.
fn value(id: PropertyId, rest: &mut Reader<'_>, policy: TextPolicy) -> Result<Option<Rule>, Rule> {
    let is_good = match id.kind() {
        Kind::Flag => rest.u8().map_err(|_| Rule::Truncated)? <= 1,
        Kind::Short => is_in_range(id, u32::from(rest.u16().map_err(|_| Rule::Truncated)?)),
        Kind::Long => is_in_range(id, rest.u32().map_err(|_| Rule::Truncated)?),
        Kind::Variable => is_in_range(id, read_integer(rest)?),
        Kind::Text => is_good_text(id, text(rest, policy)?),
        Kind::Binary => {
            field(rest).ok_or(Rule::Truncated)?;
            true
        }
        Kind::Pair => {
            text(rest, policy)?;
            text(rest, policy)?;
            true
        }
    };
    Ok((!is_good).then_some(Rule::PropertyValue(id)))
}

fn is_in_range(id: PropertyId, value: u32) -> bool {
    value != 0 || !id.is_never_zero()
}

/// A response topic is a topic name (MQTT-3.3.2-14).
fn is_good_text(id: PropertyId, text: &[u8]) -> bool {
    id != PropertyId::ResponseTopic
        || (!text.is_empty() && !text.iter().any(|byte| b"+#".contains(byte)))
}

fn text<'a>(rest: &mut Reader<'a>, policy: TextPolicy) -> Result<&'a [u8], Rule> {
    let text = field(rest).ok_or(Rule::Truncated)?;
    check_text(text, policy)?;
    Ok(text)
}
