//! What of a file an import passes over: said, and never silent.

use serde::Serialize;

/// Some of a section, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PassedOver {
    /// The section of the file, and which part of it.
    pub(crate) what: String,
    /// How many of them.
    pub(crate) count: usize,
    /// Why, in plain words.
    pub(crate) why: &'static str,
}

impl PassedOver {
    /// A whole section that is none of those that are imported.
    pub(super) fn section((name, count): (String, usize)) -> Self {
        let why = match name.as_str() {
            "users" => "not imported yet; see menzil hash-password",
            "permissions" | "topic_permissions" => "not imported yet; users have all rights",
            "global_parameters" => NO_READER,
            _ => "no section of that name is known",
        };
        Self {
            what: name,
            count,
            why,
        }
    }

    /// A parameter of a component that is not there.
    pub(super) fn parameter(component: &str) -> Self {
        let why = match component {
            "federation-upstream" | "federation-upstream-set" => "there is no federation yet",
            "shovel" => "there are no shovels yet",
            "vhost-limits" => "virtual hosts have no limits yet",
            _ => NO_READER,
        };
        Self {
            what: format!("parameters of {component}"),
            count: 1,
            why,
        }
    }

    /// The type of queues that say none; it is the same for all here.
    pub(super) fn default_queue_type(kind: &str) -> Self {
        Self {
            what: format!("default_queue_type {kind} of vhosts"),
            count: 1,
            why: "a queue is what its x-queue-type says: declare queues with it",
        }
    }

    /// An object of the broker's own.
    pub(super) fn own(section: &str) -> Self {
        Self {
            what: section.to_owned(),
            count: 1,
            why: "names that begin with amq. are the broker's own",
        }
    }

    /// A binding that there is without being made, or that leads to what is passed over.
    pub(super) fn binding(is_of_default: bool) -> Self {
        let why = if is_of_default {
            "the default exchange has every queue by its name"
        } else {
            "their queues are passed over"
        };
        Self {
            what: "bindings".to_owned(),
            count: 1,
            why,
        }
    }
}

const NO_READER: &str = "nothing here reads them";

/// Adds one to a list in which each kind stands once.
pub(super) fn add(list: &mut Vec<PassedOver>, one: PassedOver) {
    let same = |other: &&mut PassedOver| other.what == one.what && other.why == one.why;
    match list.iter_mut().find(same) {
        Some(other) => other.count += one.count,
        None => list.push(one),
    }
}
