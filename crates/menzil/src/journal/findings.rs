//! What verifying and repairing found, and what it means for who runs the broker.

use menzil_journal::{Quarantined, Report};
use menzil_model::{Class, Position, ShardId};

use super::fact_line::class_word;
use super::lost::Lost;
use super::needed::VirtualHosts;

/// What was found, one line each, and what it means.
pub(crate) fn describe(
    report: &Report,
    missing: &[Position],
    names: &VirtualHosts,
    lost: &Lost,
) -> String {
    let damaged_checkpoints = match report.checkpoints_damaged.len() {
        0 => String::new(),
        count => format!(" and {count} damaged"),
    };
    let mut text = format!(
        "{}, {}, {} ({}), {} dropped by earlier repairs, {}{damaged_checkpoints}\n",
        counted(report.segments, "segment"),
        counted(report.batches, "batch"),
        counted(report.records, "record"),
        counted(report.bytes, "byte"),
        report.dropped,
        counted(report.checkpoints.len() as u64, "checkpoint"),
    );
    let mut tell = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    if let Some(torn) = &report.torn {
        tell(torn.to_string());
    }
    for name in &report.checkpoints_damaged {
        tell(format!("{name} is damaged"));
    }
    for line in &report.segments_damaged {
        tell(line.clone());
    }
    for damage in &report.harmless {
        tell(format!("{damage}; no record is lost by it"));
    }
    for quarantined in &report.quarantined {
        tell(damaged(quarantined, names, lost));
    }
    for class in [Class::Topology, Class::Message, Class::Session] {
        if report.quarantined.iter().any(|one| one.class == class) {
            tell(format!("effect: {}", effect(class)));
        }
    }
    for (first, last) in runs(missing) {
        tell(gone(first, last, names));
    }
    if !missing.is_empty() {
        tell(format!(
            "effect: {} that queues need {} missing, gone with a file or taken out by a repair; \
             what each held, a message or all of a transaction, is lost from every queue it \
             was in. A server that starts names and drops it when it is due",
            counted(missing.len() as u64, "record"),
            if missing.len() == 1 { "is" } else { "are" }
        ));
    }
    for refusal in &report.refusals {
        tell(format!("keeps a server from starting: {refusal}"));
    }
    for action in &report.actions {
        tell(format!("done: {action}"));
    }
    for what in &report.unmended {
        tell(format!("cannot be mended: {what}"));
    }
    text
}

/// A number and what it counts.
pub(crate) fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ if what.ends_with('h') => format!("{count} {what}es"),
        _ => format!("{count} {what}s"),
    }
}

fn damaged(quarantined: &Quarantined, names: &VirtualHosts, lost: &Lost) -> String {
    let Quarantined {
        position,
        class,
        damage,
    } = quarantined;
    let host = host(position.shard, names);
    format!(
        "{} record {position} of {host} is damaged: {damage}{}",
        class_word(*class),
        lost.get(position)
            .map_or_else(String::new, |text| format!("; {text}"))
    )
}

fn gone(first: Position, last: Position, names: &VirtualHosts) -> String {
    let host = host(first.shard, names);
    if first == last {
        return format!("message record {first} of {host} is missing");
    }
    format!("message records {first} to {last} of {host} are missing")
}

/// Consecutive positions, each run by its first and last.
fn runs(positions: &[Position]) -> Vec<(Position, Position)> {
    let mut runs: Vec<(Position, Position)> = Vec::new();
    for position in positions {
        match runs.last_mut() {
            Some((_, last)) if last.shard == position.shard && last.index + 1 == position.index => {
                *last = *position;
            }
            _ => runs.push((*position, *position)),
        }
    }
    runs
}

fn host(shard: ShardId, names: &VirtualHosts) -> String {
    names.get(&shard).map_or_else(
        || format!("shard {shard} (name unknown)"),
        |name| format!("virtual host \"{name}\""),
    )
}

fn effect(class: Class) -> &'static str {
    match class {
        Class::Topology => {
            "of each damaged topology record an exchange, a queue with its messages, a binding, \
             or the deletion of one is lost"
        }
        Class::Message => {
            "of each damaged message record the message is lost, from every queue it was in, and \
             all messages of it where it was a transaction; or, where the record held \
             acknowledgements, their messages come once more. A server starts all the same and \
             names it in its log"
        }
        Class::Session => "of each damaged session record what a session kept is lost",
    }
}

#[cfg(test)]
mod tests {
    use menzil_journal::{Damage, DamageKind};
    use menzil_model::Name;

    use super::*;

    #[test]
    fn a_damaged_message_is_named_with_its_virtual_host_and_the_effect() {
        let position = |shard| Position {
            shard: ShardId(shard),
            index: 12,
        };
        let quarantined = |shard| Quarantined {
            position: position(shard),
            class: Class::Message,
            damage: Damage {
                segment: 2,
                offset: 4096,
                length: 7,
                kind: DamageKind::RecordHeader,
            },
        };
        let report = Report {
            quarantined: vec![quarantined(1), quarantined(2)],
            ..Report::default()
        };
        let names = VirtualHosts::from([(ShardId(1), Name::from("shop"))]);
        let missing = [
            position(1),
            Position {
                index: 13,
                ..position(1)
            },
            position(3),
        ];
        let lost = Lost::from([(position(1), "it still reads as a queue".to_owned())]);
        let text = describe(&report, &missing, &names, &lost);
        for part in [
            "message record 1:12 of virtual host \"shop\" is damaged: damaged record header in",
            "message record 2:12 of shard 2 (name unknown) is damaged",
            "it still reads as a queue",
            "effect: of each damaged message record the message is lost",
            "message records 1:12 to 1:13 of virtual host \"shop\" are missing",
            "message record 3:12 of shard 3 (name unknown) is missing",
            "effect: 3 records that queues need are missing",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(text.matches("effect:").count(), 2);
    }
}
