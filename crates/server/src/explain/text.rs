//! Explanations as people read them.

use std::fmt::Write as _;

use menzil_core::explain::{Arrival, ChosenBy, Explanation, Miss, Near, Taken, Visit, Wait};
use menzil_core::{Object, Refusal};
use menzil_model::fact::ExchangeKind;
use menzil_model::{Escaped, Name, Value};

/// The whole way of one message.
pub(super) fn whole(explanation: &Explanation) -> String {
    let mut out = String::new();
    for visit in &explanation.visits {
        put_visit(&mut out, visit);
        out.push('\n');
    }
    // Why it ends with a failure is told apart, once.
    if explanation.refusal.is_none() && !explanation.is_unroutable() {
        let _ = writeln!(out, "{}", outcome(explanation));
    } else if !explanation.is_cut {
        // Nothing follows the last exchange.
        out.pop();
    }
    if explanation.is_cut {
        out.push_str("There is more than is listed here.\n");
    }
    out
}

/// One key of many: what becomes of it, and where nothing does, what may have been meant.
pub(super) fn line(explanation: &Explanation, key: &str, vhost: &str) -> String {
    let key = Escaped(key.as_bytes());
    if let Some(why) = &explanation.refusal {
        let why = refusal(why, &explanation.similar, vhost);
        return format!("LOST  {key}: {why}\n");
    }
    if explanation.is_unroutable() {
        let near = explanation
            .visits
            .iter()
            .flat_map(|visit| &visit.near)
            .next();
        let near = near.map(|near| format!(", nearly {}", near_text(near)));
        return format!("LOST  {key}{}\n", near.unwrap_or_default());
    }
    let by_alternate = explanation
        .visits
        .iter()
        .find_map(|visit| match &visit.from {
            Arrival::AlternateOf(exchange) => Some(format!(", by the alternate of '{exchange}'")),
            Arrival::Publisher | Arrival::Exchange(_) => None,
        });
    let queues = queues(explanation, QUEUES_OF_LINE);
    format!(
        "ok    {key} → {queues}{}\n",
        by_alternate.unwrap_or_default()
    )
}

/// Why the message would be refused.
pub(super) fn refusal(refusal: &Refusal, similar: &[Name], vhost: &str) -> String {
    if let Refusal::NotFound(Object::Exchange(name)) = refusal {
        let similar: Vec<String> = similar.iter().map(|name| format!("'{name}'")).collect();
        let similar = match similar.as_slice() {
            [] => String::new(),
            [one] => format!("; is {one} meant?"),
            more => format!("; is one of these meant: {}?", more.join(", ")),
        };
        return format!("there is no exchange '{name}' in virtual host '{vhost}'{similar}");
    }
    if let Refusal::InternalExchange(name) = refusal {
        return format!("exchange '{name}' is internal: nobody can publish to it");
    }
    format!("the message would be refused: {refusal:?}")
}

fn outcome(explanation: &Explanation) -> String {
    let count = explanation.queues.len();
    let queues = queues(explanation, usize::MAX);
    let by_chance = explanation
        .queues
        .iter()
        .filter(|reach| reach.by_chance)
        .count();
    match (count, by_chance) {
        (1, 0) => format!("The message reaches 1 queue: {queues}"),
        (_, 0) => format!("The message reaches {count} queues: {queues}"),
        _ => format!("The message may reach, by chance where it says so: {queues}"),
    }
}

fn queues(explanation: &Explanation, most: usize) -> String {
    let names = explanation.queues.iter().take(most).map(|reach| {
        let perhaps = if reach.by_chance { " (by chance)" } else { "" };
        format!("{}{perhaps}", reach.queue)
    });
    let mut text = names.collect::<Vec<_>>().join(", ");
    let left = explanation.queues.len().saturating_sub(most);
    if left > 0 {
        let _ = write!(text, " and {left} more");
    }
    text
}

fn put_visit(out: &mut String, visit: &Visit) {
    let name = if visit.exchange.is_empty() {
        "the default exchange".to_owned()
    } else {
        format!("exchange '{}'", visit.exchange)
    };
    let (one, many) = if visit.exchange.is_empty() {
        ("queue", "queues")
    } else {
        ("binding", "bindings")
    };
    let counted = if visit.bindings == 1 { one } else { many };
    let kind = if visit.kind == visit.routes_as {
        visit.kind.name().to_owned()
    } else {
        format!("{} as {}", visit.kind.name(), visit.routes_as.name())
    };
    let from = match &visit.from {
        Arrival::Publisher => String::new(),
        Arrival::Exchange(from) => format!(", bound to '{from}'"),
        Arrival::AlternateOf(from) => format!(", the alternate of '{from}'"),
    };
    let _ = writeln!(out, "{name} ({kind}, {} {counted}){from}", visit.bindings);
    if let Some(wait) = visit.wait {
        let _ = writeln!(out, "  {}", wait_text(wait));
    }
    if let Some(choice) = &visit.choice {
        let _ = writeln!(
            out,
            "  chooses one of {} {}",
            choice.of,
            chosen_by(&choice.by)
        );
    }
    if visit.matched.is_empty() && visit.exchange.is_empty() {
        out.push_str("  there is no queue of that name\n");
    } else if visit.matched.is_empty() {
        out.push_str("  no binding takes the message\n");
    }
    let of_kind = |taken: &Taken| condition(visit.routes_as, taken);
    let rows = visit.matched.iter().map(of_kind);
    let near_rows = visit.near.iter().map(|near| of_kind(&near.binding));
    let width = rows.chain(near_rows).map(|row| row.chars().count()).max();
    let width = width.unwrap_or_default().min(WIDTH_MAX);
    for taken in &visit.matched {
        let _ = writeln!(
            out,
            "  ✓ {:width$}  → {}",
            of_kind(taken),
            object(&taken.to)
        );
    }
    let left = visit.matched_count - visit.matched.len();
    if left > 0 {
        let _ = writeln!(out, "  ✓ and {left} more");
    }
    if !visit.near.is_empty() {
        out.push_str("  nearly:\n");
    }
    for near in &visit.near {
        let to = object(&near.binding.to);
        let _ = writeln!(out, "  ✗ {:width$}  → {to}", of_kind(&near.binding));
        for miss in &near.misses {
            let _ = writeln!(out, "      {}", miss_text(miss));
        }
    }
    if let Some(alternate) = &visit.alternate {
        let name = &alternate.exchange;
        let text = match (alternate.is_taken, alternate.is_missing) {
            (true, _) => format!("so it goes to the alternate exchange '{name}'"),
            (false, true) => format!("its alternate exchange '{name}' does not exist"),
            (false, false) => format!("its alternate exchange '{name}' is not needed"),
        };
        let _ = writeln!(out, "  {text}");
    }
}

fn wait_text(wait: Wait) -> String {
    match wait {
        Wait::For(milliseconds) => {
            format!("the message waits here for {milliseconds} ms, and when it is due goes on:")
        }
        Wait::NotAsked => {
            "it delays, but there is no x-delay of 1 to 4294967295 ms: it goes on at once"
                .to_owned()
        }
        Wait::Before => "it delays, but the message has waited on its way before".to_owned(),
    }
}

fn chosen_by(by: &ChosenBy) -> String {
    let absent = |is_absent: &bool| {
        if *is_absent {
            ", which the message has not: all such messages go to one place"
        } else {
            ""
        }
    };
    match by {
        ChosenBy::RoutingKey => "by a hash of the routing key".to_owned(),
        ChosenBy::RoutingKeys => "by a hash of the routing keys".to_owned(),
        ChosenBy::Header { header, is_absent } => {
            format!("by a hash of the header '{header}'{}", absent(is_absent))
        }
        ChosenBy::Property {
            property,
            is_absent,
        } => format!("by a hash of {property}{}", absent(is_absent)),
        ChosenBy::Chance => "by chance".to_owned(),
    }
}

/// What a binding asks for, in the terms of its exchange.
fn condition(kind: ExchangeKind, taken: &Taken) -> String {
    if kind != ExchangeKind::Headers {
        return if taken.key.is_empty() {
            "(no key)".to_owned()
        } else {
            taken.key.to_string()
        };
    }
    let fields = taken.arguments.fields().map(|(name, value)| {
        let name = Escaped(name);
        if let Value::LongString(text) = value {
            format!("{name}={}", Escaped(text))
        } else if matches!(value, Value::Void) {
            format!("{name} present")
        } else if let Some(number) = value.as_integer() {
            format!("{name}={number}")
        } else {
            format!("{name}={value:?}")
        }
    });
    let text = fields.collect::<Vec<_>>().join(", ");
    if text.is_empty() {
        "(no headers)".to_owned()
    } else {
        text
    }
}

fn near_text(near: &Near) -> String {
    let misses: Vec<String> = near.misses.iter().map(miss_text).collect();
    let key = &near.binding.key;
    let key = if key.is_empty() {
        String::new()
    } else {
        format!("'{key}' → ")
    };
    format!("{key}{}: {}", object(&near.binding.to), misses.join("; "))
}

fn miss_text(miss: &Miss) -> String {
    match miss {
        Miss::Word {
            place,
            wanted,
            given,
        } => format!("word {place} is '{given}', not '{wanted}'"),
        Miss::WordMore { place, given } => {
            format!("one word too many: word {place}, '{given}'")
        }
        Miss::WordLess { place, wanted } => match wanted.as_bytes() {
            b"*" => format!("one word too few: any one as word {place}"),
            _ => format!("one word too few: '{wanted}' as word {place}"),
        },
        Miss::HeaderAbsent {
            header,
            wanted,
            similar,
        } => {
            let wanted = wanted
                .as_ref()
                .map(|wanted| format!(" ({wanted} is wanted)"));
            let similar = similar
                .as_ref()
                .map(|similar| format!(", but there is '{similar}'"));
            format!(
                "no header '{header}'{}{}",
                wanted.unwrap_or_default(),
                similar.unwrap_or_default()
            )
        }
        Miss::HeaderValue {
            header,
            wanted,
            given,
        } => format!("header '{header}' is {given}, not {wanted}"),
    }
}

fn object(object: &Object) -> String {
    match object {
        Object::Queue(name) => format!("queue '{name}'"),
        Object::Exchange(name) => format!("exchange '{name}'"),
    }
}

/// Of the columns of conditions.
const WIDTH_MAX: usize = 48;
/// Queues that are named behind one key of many.
const QUEUES_OF_LINE: usize = 8;
