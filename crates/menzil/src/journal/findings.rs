//! What verifying and repairing found, and what it means for who runs the broker.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use menzil_journal::{Dumped, OpenError, OsDisk, Quarantined, Report};
use menzil_model::fact::Content;
use menzil_model::wire::Reader;
use menzil_model::{Class, Fact, Name, ShardId};

use super::fact_line::class_word;

/// The virtual host of each shard whose creation can still be read.
pub(crate) type VirtualHosts = BTreeMap<ShardId, Name>;

/// Reads the folder for the names, where there is something to name.
pub(crate) fn virtual_hosts(disk: &OsDisk, report: &Report) -> Result<VirtualHosts, OpenError> {
    let mut names = VirtualHosts::new();
    if report.quarantined.is_empty() {
        return Ok(names);
    }
    menzil_journal::dump(disk, &mut |dumped| {
        if let Dumped::Checkpoint { shard, payload, .. } = dumped {
            let mut reader = Reader::new(payload);
            while let Ok(bytes) = reader.long_string() {
                note(&mut names, *shard, bytes);
            }
        } else if let Dumped::Record {
            position, payload, ..
        } = dumped
            && position.index <= CREATED_WITHIN
        {
            note(&mut names, position.shard, payload);
        }
    })?;
    Ok(names)
}

fn note(names: &mut VirtualHosts, shard: ShardId, bytes: &[u8]) {
    if let Ok(Fact::VirtualHostCreated { name }) = Fact::decode(bytes, Content::Skip) {
        names.insert(shard, name);
    }
}

/// What was found, one line each, and what it means.
pub(crate) fn describe(report: &Report, names: &VirtualHosts) -> String {
    let mut text = format!(
        "{} segments, {} batches, {} records ({} bytes), {} dropped by earlier repairs, \
         {} checkpoints\n",
        report.segments,
        report.batches,
        report.records,
        report.bytes,
        report.dropped,
        report.checkpoints.len()
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
    for damage in &report.harmless {
        tell(format!("{damage}; no record is lost by it"));
    }
    for quarantined in &report.quarantined {
        tell(damaged(quarantined, names));
    }
    for class in [Class::Topology, Class::Message, Class::Session] {
        if report.quarantined.iter().any(|one| one.class == class) {
            tell(format!("effect: {}", effect(class)));
        }
    }
    for refusal in &report.refusals {
        tell(format!("keeps a server from starting: {refusal}"));
    }
    for action in &report.actions {
        tell(format!("done: {action}"));
    }
    text
}

fn damaged(quarantined: &Quarantined, names: &VirtualHosts) -> String {
    let Quarantined {
        position,
        class,
        damage,
    } = quarantined;
    let mut text = format!("{} record {position}", class_word(*class));
    let _ = match names.get(&position.shard) {
        Some(name) => write!(text, " of virtual host \"{name}\""),
        None => write!(text, " of shard {} (name unknown)", position.shard),
    };
    let _ = write!(text, " is damaged: {damage}");
    text
}

fn effect(class: Class) -> &'static str {
    match class {
        Class::Topology => {
            "of each damaged topology record an exchange, a queue with its messages, a binding, \
             or the deletion of one is lost"
        }
        Class::Message => {
            "of each damaged message record one message is lost, from every queue it was in; or, \
             where the record held acknowledgements, their messages come once more. A server \
             starts all the same and names it in its log"
        }
        Class::Session => "of each damaged session record what a session kept is lost",
    }
}

/// The first records of a shard, among which its name is.
const CREATED_WITHIN: u64 = 8;

#[cfg(test)]
mod tests {
    use menzil_journal::{Damage, DamageKind};
    use menzil_model::Position;

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
        let text = describe(&report, &names);
        for part in [
            "message record 1:12 of virtual host \"shop\" is damaged: damaged record header in",
            "message record 2:12 of shard 2 (name unknown) is damaged",
            "effect: of each damaged message record one message is lost",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(text.matches("effect:").count(), 1);
    }
}
