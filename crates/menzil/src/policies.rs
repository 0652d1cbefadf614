//! Policies as people read them.

use serde_json::Value;

use crate::stats::tables::{aligned, shown};

/// What a policy is called that is for operators, or not.
pub(crate) fn kind(is_operator: bool) -> &'static str {
    if is_operator {
        "operator policy"
    } else {
        "policy"
    }
}

/// What holds now that a policy was set.
pub(crate) fn line(policy: &Value) -> String {
    let priority = policy.get("priority").and_then(Value::as_i64);
    let set = format!(
        "{} '{}' (priority {}) in virtual host '{}'",
        kind(is(policy, "operator")),
        shown(text(policy, "name")),
        priority.unwrap_or_default(),
        shown(text(policy, "vhost")),
    );
    let pairs = pairs(policy);
    let of_queues = match text(policy, "apply-to") {
        narrow @ ("classic_queues" | "quorum_queues") => narrow.replace('_', " "),
        _ => "queues".to_owned(),
    };
    let of_what = match (is(policy, "exchanges"), is(policy, "queues")) {
        (true, true) => format!("exchanges and {of_queues}"),
        (true, false) => "exchanges".to_owned(),
        (false, true) => of_queues,
        (false, false) => {
            let whom = match text(policy, "apply-to") {
                "streams" => "there are no streams".to_owned(),
                "all" => "no exchange and no queue acts on that".to_owned(),
                other => format!("no {} act on that", other.replace('_', " ")),
            };
            return format!("{set} is set, and applies to nothing: {pairs}, and {whom}\n");
        }
    };
    let pattern = shown(text(policy, "pattern"));
    format!("{set} gives {pairs} to {of_what} that match '{pattern}'\n")
}

/// All of them, a line for each.
pub(crate) fn table(policies: Option<&Vec<Value>>) -> String {
    let policies = policies.map(Vec::as_slice).unwrap_or_default();
    if policies.is_empty() {
        return "there are no policies\n".to_owned();
    }
    let titles = [
        "virtual host",
        "policy",
        "priority",
        "for",
        "pattern",
        "gives",
    ];
    let row = |policy: &Value| {
        let operator = if is(policy, "operator") {
            " (operator)"
        } else {
            ""
        };
        let priority = policy.get("priority").and_then(Value::as_i64);
        [
            text(policy, "vhost").to_owned(),
            format!("'{}'{operator}", text(policy, "name")),
            priority.unwrap_or_default().to_string(),
            text(policy, "apply-to").replace('_', " "),
            format!("'{}'", text(policy, "pattern")),
            pairs(policy),
        ]
        .to_vec()
    };
    let rows = std::iter::once(titles.map(str::to_owned).to_vec());
    let rows: Vec<Vec<String>> = rows.chain(policies.iter().map(row)).collect();
    aligned(&rows, &[0, 1, 3, 4, 5])
}

fn text<'a>(policy: &'a Value, key: &str) -> &'a str {
    policy.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is(policy: &Value, key: &str) -> bool {
    policy.get(key).and_then(Value::as_bool) == Some(true)
}

/// Keys and values.
fn pairs(policy: &Value) -> String {
    let definition = policy.get("definition").and_then(Value::as_object);
    let pairs = definition.into_iter().flatten().map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), shown);
        format!("{key}={value}")
    });
    pairs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(apply_to: &str, definition: &Value, acts: [bool; 2]) -> Value {
        json!({
            "vhost": "/", "name": "p", "operator": false, "pattern": r"^q\.", "priority": 3,
            "apply-to": apply_to, "definition": definition,
            "exchanges": acts[0], "queues": acts[1],
        })
    }

    #[test]
    fn what_was_set_is_told_with_whom_it_reaches() {
        let (length, age) = (json!({"max-length": 5}), json!({"max-age": "7D"}));
        let set = r"policy 'p' (priority 3) in virtual host '/'";
        for (apply_to, definition, acts, told) in [
            (
                "all",
                &length,
                [false, true],
                r"gives max-length=5 to queues that match '^q\.'",
            ),
            (
                "all",
                &length,
                [true, true],
                r"gives max-length=5 to exchanges and queues that match '^q\.'",
            ),
            (
                "quorum_queues",
                &length,
                [false, true],
                r"gives max-length=5 to quorum queues that match '^q\.'",
            ),
            (
                "exchanges",
                &length,
                [false, false],
                "is set, and applies to nothing: max-length=5, and no exchanges act on that",
            ),
            (
                "all",
                &age,
                [false, false],
                "is set, and applies to nothing: max-age=7D, and no exchange and no queue acts on \
                 that",
            ),
            (
                "streams",
                &length,
                [false, false],
                "is set, and applies to nothing: max-length=5, and there are no streams",
            ),
        ] {
            let line = line(&policy(apply_to, definition, acts));
            assert_eq!(line, format!("{set} {told}\n"));
        }
    }

    #[test]
    fn the_list_has_a_line_for_each() {
        let one = policy("all", &json!({"max-length": 5}), [false, true]);
        let mut other = policy("queues", &json!({"expires": 7}), [false, true]);
        other["operator"] = json!(true);
        let list = vec![one, other];
        assert_eq!(
            table(Some(&list)),
            r"  virtual host  policy          priority  for     pattern  gives
  /             'p'                    3  all     '^q\.'   max-length=5
  /             'p' (operator)         3  queues  '^q\.'   expires=7
"
        );
        assert_eq!(table(None), "there are no policies\n");
    }
}
