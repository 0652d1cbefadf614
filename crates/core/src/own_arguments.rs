//! Arguments that RabbitMQ does not have: in plain words what is wrong with them.
//!
//! RabbitMQ passes over arguments that it does not know, and so does this broker, save those that
//! begin like its own: a slip of the pen must not cost a feature without a word.

use menzil_model::{Name, Table, Value};

use crate::refusal::{Object, Refusal};
use crate::topology::explain::shown;

/// What arguments are given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Queue,
    Exchange,
    Binding,
    Consumer,
}

/// Arguments that begin alike.
struct Family {
    prefix: &'static [u8],
    /// What they are given to, and their names.
    known: &'static [(Holder, &'static [&'static str])],
    /// For people: who has which.
    list: &'static str,
}

const FAMILIES: [Family; 7] = [
    Family {
        prefix: b"x-deduplication",
        known: &[(
            Holder::Queue,
            &[
                DEDUPLICATION,
                "x-deduplication-header",
                "x-deduplication-size",
                "x-deduplication-age",
            ],
        )],
        list: "queues have x-deduplication, x-deduplication-header, x-deduplication-size and \
               x-deduplication-age",
    },
    Family {
        prefix: b"x-group",
        known: &[(Holder::Queue, &["x-group-header"])],
        list: "queues have x-group-header",
    },
    Family {
        prefix: b"atomic",
        known: &[(Holder::Exchange, &["atomic-routing"])],
        list: "exchanges have atomic-routing",
    },
    Family {
        prefix: b"x-max-w",
        known: &[(Holder::Exchange, &["x-max-weight"])],
        list: "exchanges have x-max-weight",
    },
    Family {
        prefix: b"x-retain",
        known: &[(
            Holder::Exchange,
            &["x-retain-messages", "x-retain-bytes", "x-retain-age"],
        )],
        list: "exchanges have x-retain-messages, x-retain-bytes and x-retain-age",
    },
    Family {
        prefix: b"x-replay",
        known: &[(Holder::Binding, &["x-replay-from"])],
        list: "bindings have x-replay-from",
    },
    Family {
        prefix: b"x-delayed",
        known: &[
            (
                Holder::Queue,
                &[
                    "x-delayed-retry-type",
                    "x-delayed-retry-min",
                    "x-delayed-retry-max",
                ],
            ),
            (Holder::Exchange, &["x-delayed", "x-delayed-type"]),
        ],
        list: "queues have x-delayed-retry-type, -min and -max, exchanges have x-delayed and \
               x-delayed-type",
    },
];

const DEDUPLICATION: &str = "x-deduplication";

/// Refuses what begins like an argument of this broker's own and is none of those that such a
/// thing has; only when something new is made, since what is there was accepted once.
pub(crate) fn check_own(holder: Holder, table: &Table, object: &Object) -> Result<(), Refusal> {
    for (name, _) in table.fields() {
        let Some(family) = FAMILIES.iter().find(|one| name.starts_with(one.prefix)) else {
            continue;
        };
        let known = family.known.iter().filter(|(other, _)| *other == holder);
        let mut known = known.flat_map(|(_, names)| *names);
        if !known.any(|known| known.as_bytes() == name) {
            return Err(Refusal::UnknownArgument {
                object: object.clone(),
                argument: Name::cut(name),
                known: family.list,
            });
        }
    }
    check_switch(table, object)
}

/// How to deduplicate is nothing without the word that it is to be done.
fn check_switch(table: &Table, object: &Object) -> Result<(), Refusal> {
    if table.find(DEDUPLICATION.as_bytes()).is_some() {
        return Ok(());
    }
    let mut names = table.fields().map(|(name, _)| name);
    match names.find(|name| name.starts_with(DEDUPLICATION.as_bytes())) {
        None => Ok(()),
        Some(name) => Err(Refusal::InvalidArgument {
            object: object.clone(),
            argument: Name::cut(name),
            reason: "it does nothing without x-deduplication=true: add that".to_owned(),
        }),
    }
}

/// The value cannot be: what it is, and what it must be.
pub(crate) fn mistaken(
    object: Object,
    argument: &'static str,
    value: Value<'_>,
    wanted: &str,
) -> Refusal {
    Refusal::InvalidArgument {
        object,
        argument: Name::from(argument),
        reason: format!("it is {}, and must be {wanted}", shown(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::TableBuilder;

    fn check(holder: Holder, names: &[&str]) -> Result<(), Refusal> {
        let fields = names.iter().fold(TableBuilder::new(), |table, name| {
            table.field(name, Value::Bool(true))
        });
        check_own(holder, &fields.build(), &Object::Queue(Name::from("q")))
    }

    #[test]
    fn what_each_thing_has_is_known_to_it_alone() {
        for family in &FAMILIES {
            for (holder, names) in family.known {
                for name in *names {
                    let needs = name.starts_with("x-deduplication-");
                    let names = if needs {
                        &[DEDUPLICATION, name][..]
                    } else {
                        &[*name]
                    };
                    assert_eq!(check(*holder, names), Ok(()), "{name}");
                    assert!(check(Holder::Consumer, &[name]).is_err(), "{name}");
                }
            }
        }
    }

    #[test]
    fn slips_of_the_pen_are_named_with_what_is_known() {
        for (holder, name) in [
            (Holder::Queue, "x-deduplication-heder"),
            (Holder::Queue, "x-group-heading"),
            (Holder::Queue, "x-delayed-retry-mim"),
            (Holder::Queue, "x-retain-messages"),
            (Holder::Exchange, "x-retain-message"),
            (Holder::Exchange, "x-delayed-typ"),
            (Holder::Exchange, "atomic-routng"),
            (Holder::Exchange, "x-max-weigth"),
            (Holder::Queue, "atomic-routing"),
            (Holder::Exchange, "x-group-header"),
            (Holder::Binding, "x-replay-form"),
            (Holder::Consumer, "x-replay-from"),
        ] {
            let Err(Refusal::UnknownArgument {
                argument, known, ..
            }) = check(holder, &[name])
            else {
                panic!("{name} was taken")
            };
            assert_eq!(argument, Name::from(name));
            assert!(known.contains(" have "), "{known}");
        }
        for name in [
            "x-whatever",
            "x-message-deduplication",
            "deduplication",
            "x-delay",
        ] {
            assert_eq!(check(Holder::Queue, &[name]), Ok(()));
        }
    }

    #[test]
    fn how_to_deduplicate_needs_the_word_to_do_it() {
        let Err(Refusal::InvalidArgument {
            argument, reason, ..
        }) = check(Holder::Queue, &["x-deduplication-age"])
        else {
            panic!("it was taken")
        };
        assert_eq!(argument, Name::from("x-deduplication-age"));
        assert!(reason.contains("x-deduplication=true"), "{reason}");
        assert_eq!(
            check(Holder::Queue, &["x-deduplication-age", DEDUPLICATION]),
            Ok(())
        );
    }
}
