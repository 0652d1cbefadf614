//! The file of definitions that a server starts with: a mistake in it leaves a folder as it was,
//! and no new one.

use std::path::Path;

use menzil_core::ShardSettings;
use menzil_model::{Map, Name};

use super::{ImportError, Nowhere, Parsed, check, new_shard, parse};
use crate::config::Settings;
use crate::driver::recovery::Recovered;

/// The setting's file, if it names one, checked as far as it can be before a folder is opened.
/// Virtual hosts of a folder that is not there yet have nothing but their own exchanges.
pub(crate) fn read(
    settings: &Settings,
    of_shards: impl Fn() -> ShardSettings,
) -> Result<Option<Parsed>, String> {
    let path = &settings.definitions;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parsed = parse(&bytes, None).map_err(|error| told(settings, &error))?;
    if is_new(&settings.data_dir) {
        let names = settings.virtual_hosts.iter();
        let names = names.map(|name| Name::cut(name.as_bytes()));
        let shards: Map<Name, _> = names
            .map(|name| {
                let shard = new_shard(of_shards(), &name, &mut Nowhere::default());
                (name, shard)
            })
            .collect();
        let done = check(&parsed, |vhost, definitions| {
            Some(shards.get(vhost.as_bytes())?.check_definitions(definitions))
        });
        done.map_err(|error| told(settings, &error))?;
    }
    Ok(Some(parsed))
}

/// Checks it against what a folder has, before anything new is written there.
pub(crate) fn check_recovered(
    settings: &Settings,
    parsed: &Parsed,
    recovered: &[Recovered],
    of_shards: impl Fn() -> ShardSettings,
) -> Result<(), String> {
    let done = check(parsed, |vhost, definitions| {
        let mut all = recovered.iter();
        let one = all.find(|one| one.name.as_bytes() == vhost.as_bytes())?;
        Some(if one.is_new {
            let shard = new_shard(of_shards(), &one.name, &mut Nowhere::default());
            shard.check_definitions(definitions)
        } else {
            one.shard.check_definitions(definitions)
        })
    });
    done.map_err(|error| told(settings, &error))
}

/// A mistake, and the file that it is in.
pub(crate) fn told(settings: &Settings, error: &ImportError) -> String {
    format!("{}: {error}", settings.definitions.display())
}

/// Whether a folder has nothing of a journal yet.
fn is_new(data_dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(data_dir) else {
        return true;
    };
    let mut names = entries.flatten().map(|entry| entry.file_name());
    !names.any(|name| {
        let name = name.to_string_lossy();
        name == "format" || menzil_journal::is_own_name(&name)
    })
}
