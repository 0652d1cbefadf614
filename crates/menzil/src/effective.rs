//! `menzil policy effective`: what an exchange or queue is set to, and who says so.

use serde_json::{Value, json};

use crate::cli::Which;
use crate::control::{asked, print_each};
use crate::stats::tables::aligned;
use crate::{Failure, print};

pub(crate) fn run(name: &str, kind: &str, as_json: bool, which: &Which) -> Result<(), Failure> {
    let content = json!({"vhost": which.vhost, kind: name}).to_string();
    let answer = asked(&which.data_dir, "effective", content.as_bytes())?;
    let settings = answer.get("settings");
    if as_json {
        print_each(settings);
        return Ok(());
    }
    let settings = settings.and_then(Value::as_array);
    let settings = settings.map(Vec::as_slice).unwrap_or_default();
    let what = format!("{kind} '{name}' in virtual host '{}'", which.vhost);
    print(&text(&what, settings));
    Ok(())
}

fn text(what: &str, settings: &[Value]) -> String {
    if settings.is_empty() {
        return format!("{what}: no argument and no policy says anything of it\n");
    }
    let titles = ["setting", "value", "from"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(titles)
        .chain(settings.iter().map(|setting| row(setting).to_vec()))
        .collect();
    format!("{what}\n{}", aligned(&rows, &[0, 1, 2]))
}

fn row(setting: &Value) -> [String; 3] {
    let text = |name| setting.get(name).and_then(Value::as_str);
    let value = match setting.get("value") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(kind)) => {
            let kind = kind.get("type").and_then(Value::as_str);
            format!("({})", kind.unwrap_or_default())
        }
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let origin = text("origin").unwrap_or_default();
    let from = match text("by") {
        Some(by) => format!("{origin} '{by}'"),
        None => origin.to_owned(),
    };
    [text("key").unwrap_or_default().to_owned(), value, from]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_says_where_it_comes_from() {
        let settings = [
            json!({"key": "max-length", "value": 2, "origin": "operator policy", "by": "cap"}),
            json!({"key": "overflow", "value": "reject-publish", "origin": "policy", "by": "p"}),
            json!({"key": "odd", "value": {"type": "table"}, "origin": "argument", "by": null}),
        ];
        assert_eq!(
            text("queue 'q' in virtual host '/'", &settings),
            "\
queue 'q' in virtual host '/'
  setting     value           from
  max-length  2               operator policy 'cap'
  overflow    reject-publish  policy 'p'
  odd         (table)         argument
"
        );
    }

    #[test]
    fn where_nothing_is_set_there_is_a_line_that_says_so() {
        assert_eq!(
            text("queue 'q' in virtual host '/'", &[]),
            "queue 'q' in virtual host '/': no argument and no policy says anything of it\n"
        );
    }
}
