//! Compares what is said of the settings: the sections' comments, the defaults, the annotated file, the guide's table
//! and the list of keys.

use super::config::Config;
use super::connection::ConnectionConfig;
use super::keys::KEYS;

/// The file with every key and its default.
const ANNOTATED: &str = include_str!("../../examples/readpast.toml");

const SECTIONS: [(&str, &str, &str); 5] = [
    ("ConnectionConfig", "connection", include_str!("connection.rs")),
    ("QueueConfig", "queue", include_str!("queue.rs")),
    ("WorkerConfig", "worker", include_str!("worker.rs")),
    ("RetryConfig", "worker.retry", include_str!("worker.rs")),
    ("MetricsConfig", "metrics", include_str!("metrics.rs")),
];

/// One row of the guide's table.
struct Row {
    key: String,
    default: String,
    effect: String,
}

/// Reads the rows from the comments.
fn documented() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, section, source) in SECTIONS {
        let start = format!("pub struct {name} {{");
        let fields = source.lines().skip_while(|line| *line != start).take_while(|line| *line != "}");
        let mut comment: Vec<&str> = Vec::new();
        for line in fields {
            if let Some(text) = line.strip_prefix("    ///") {
                comment.push(text.trim());
            } else if let Some((field, kind)) = line.strip_prefix("    pub ").and_then(|field| field.split_once(": ")) {
                let text = comment.join(" ");
                comment.clear();
                // Sections, and what only code can set.
                if kind.ends_with("Config,") || kind == "Option<TokenSource>," {
                    continue;
                }
                let (effect, rest) = text.split_once(" Default: ").expect("each field has a default");
                let (default, range) = rest.split_once(". Range: ").expect("each field has a range");
                let effect = effect.trim_end().replace("[`ConnectionString`]", "`ConnectionString`");
                rows.push(Row {
                    key: format!("{section}.{field}"),
                    default: default.to_string(),
                    effect: format!("{effect} Range: {range}"),
                });
            }
        }
    }
    rows
}

/// The value that the annotated file has for a key.
fn annotated(key: &str) -> Option<toml::Value> {
    let mut value = toml::Value::Table(ANNOTATED.parse().expect("the file is TOML"));
    for part in key.split('.') {
        value = value.as_table_mut()?.remove(part)?;
    }
    Some(value)
}

fn count_values(table: &toml::Table) -> usize {
    table.values().map(|value| value.as_table().map_or(1, count_values)).sum()
}

#[test]
fn every_field_is_a_key_and_stands_in_the_annotated_file() {
    let fields: Vec<String> = documented().into_iter().map(|row| row.key).collect();
    let keys: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(keys, fields, "keys.rs lists the fields in their order");
    for key in &keys {
        assert!(annotated(key).is_some(), "examples/readpast.toml has {key}");
    }
    assert_eq!(count_values(&ANNOTATED.parse().unwrap()), keys.len(), "and nothing else");
}

#[test]
fn the_annotated_file_has_the_defaults() {
    let mut config = Config::from_toml(ANNOTATED).unwrap();
    config.connection.url = ConnectionConfig::default().url;
    assert_eq!(config, Config::default());
}

/// Each key sets its own field: one that is changed differs from the default, and from what every other key makes of
/// it.
#[test]
fn every_key_sets_a_field_of_its_own() {
    let mut seen = vec![Config::default()];
    for key in KEYS {
        let mut config = Config::default();
        let value = if key.name == "metrics.port_in_use" { "next" } else { "12321" };
        assert!((key.set)(&mut config, value) || (key.set)(&mut config, "true"), "{}", key.name);
        assert!(!seen.contains(&config), "{}", key.name);
        seen.push(config);
    }
}

#[test]
fn every_comment_names_the_default_that_holds() {
    for row in documented() {
        let default = match annotated(&row.key).expect("each key is in the file") {
            toml::Value::String(text) if text.is_empty() => "empty".to_string(),
            toml::Value::String(_) if row.key == "connection.url" => "none".to_string(),
            toml::Value::String(text) => format!("`{text}`"),
            toml::Value::Integer(number) => format!("`{number}`"),
            toml::Value::Boolean(truth) => format!("`{truth}`"),
            other => panic!("{other:?}"),
        };
        assert_eq!(row.default, default, "{}", row.key);
    }
}

#[test]
fn the_guide_has_the_table_of_all_settings() {
    let rows: Vec<String> =
        documented().iter().map(|row| format!("| `{}` | {} | {} |", row.key, row.default, row.effect)).collect();
    let table = format!("| key | default | what it does |\n|---|---|---|\n{}\n", rows.join("\n"));
    let page = include_str!("../../docs/configuration.md");
    assert!(page.contains(&table), "docs/configuration.md must have this table:\n{table}");
}
