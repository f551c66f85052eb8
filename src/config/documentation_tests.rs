//! Generates the documentation of the settings from the table of settings and the fields' comments: the line with
//! default and range in each field's comment, the tables of docs/configuration.md, and the annotated file.
//! `UPDATE_DOCS=1` writes them.

use super::config::Config;
use super::connection::ConnectionConfig;
use super::settings_table::{Allowed, Setting, Value, settings, split};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/");

const SECTIONS: [(&str, &str, &str); 6] = [
    ("ConnectionConfig", "connection", "src/config/connection.rs"),
    ("QueueConfig", "queue", "src/config/queue.rs"),
    ("WorkerConfig", "worker", "src/config/worker.rs"),
    ("RetryConfig", "worker.retry", "src/config/worker.rs"),
    ("ResourcesConfig", "worker.resources", "src/config/resources.rs"),
    ("MetricsConfig", "metrics", "src/config/metrics.rs"),
];

/// The annotated file's value for the setting without a default.
const SAMPLE_URL: &str = "Server=tcp:localhost,1433;Database=work;User ID=worker;Password=change-me";

/// A field of a section, from its source.
struct Field {
    key: String,
    /// The handwritten part of its comment.
    prose: String,
    /// The comment's lines as found and as they should be.
    found: String,
    made: String,
}

fn fields() -> Vec<Field> {
    let settings = settings::<Config>();
    let mut fields = Vec::new();
    for (name, section, file) in SECTIONS {
        let source = read(file);
        let start = format!("pub struct {name} {{");
        let mut comment: Vec<&str> = Vec::new();
        for line in source.lines().skip_while(|line| *line != start).take_while(|line| *line != "}") {
            if line.starts_with("    ///") {
                comment.push(line);
            } else if let Some((field, kind)) = line.strip_prefix("    pub ").and_then(|field| field.split_once(": ")) {
                let found = comment.join("\n");
                let prose: Vec<&str> = comment.drain(..).take_while(|line| !line.contains("/// Default: ")).collect();
                if kind.ends_with("Config,") || kind == "Option<TokenSource>," || kind.starts_with("BTreeMap<") {
                    continue; // a section, what only code can set, or what has names of the user's
                }
                let unit = if kind == "Duration," { "_ms" } else { "" };
                let key = format!("{section}.{field}{unit}");
                let setting = settings.iter().find(|setting| setting.key == key);
                let setting = setting.unwrap_or_else(|| panic!("the table has no row {key}"));
                let own = prose.join("\n").trim_end_matches("\n    ///").to_owned();
                let facts =
                    format!("Default: {}. Allowed: {}. Key: `{key}`.", default_in_words(setting), allowed(setting));
                let made = format!("{own}\n    ///\n{}", wrapped("    /// ", &facts));
                let prose =
                    own.lines().map(|line| line.trim_start_matches("    ///").trim()).collect::<Vec<_>>().join(" ");
                fields.push(Field { key, prose: prose.replace("[`", "`").replace("`]", "`"), found, made });
            }
        }
    }
    fields
}

fn wrapped(prefix: &str, text: &str) -> String {
    let mut lines = vec![prefix.to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one line at least");
        let space = if *line == prefix { "" } else { " " };
        if line.len() + space.len() + word.len() <= 120 {
            *line = format!("{line}{space}{word}");
        } else {
            lines.push(format!("{prefix}{word}"));
        }
    }
    lines.join("\n")
}

/// A number in the largest unit of which it is a whole number.
fn amount(number: u64, unit: &'static str) -> (u64, &'static str) {
    const TIMES: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    const BYTES: [(u64, &str); 2] = [(1 << 40, "TiB"), (1 << 20, "MiB")];
    let units: &[(u64, &str)] = match unit {
        "ms" => &TIMES,
        "bytes" => &BYTES,
        _ => &[],
    };
    let larger = units.iter().find(|(size, _)| number > 0 && number.is_multiple_of(*size));
    larger.map_or((number, unit), |(size, unit)| (number / size, *unit))
}

fn allowed(setting: &Setting) -> String {
    match &setting.allowed {
        Allowed::Text { rule, .. } => (*rule).to_owned(),
        Allowed::Word(words) => format!("`{}`", words.join("` or `")),
        Allowed::Truth => "true or false".to_owned(),
        Allowed::Size { rule, .. } => rule.replace('"', "`"),
        Allowed::Number { range, unit } => {
            let ((first, first_unit), (last, last_unit)) = (amount(*range.start(), unit), amount(*range.end(), unit));
            if first == 0 || first_unit == last_unit {
                return format!("{first} to {last} {last_unit}");
            }
            format!("{first} {first_unit} to {last} {last_unit}")
        }
    }
}

fn default_in_words(setting: &Setting) -> String {
    match (&setting.default, &setting.allowed) {
        (Value::Text(text), Allowed::Text { is_met, .. }) if !is_met(text) => "none".to_owned(),
        (Value::Text(text), _) if text.is_empty() => "empty".to_owned(),
        (Value::Text(text), _) => format!("`{text}`"),
        (Value::Truth(truth), _) => format!("`{truth}`"),
        (Value::Number(0), _) => "0".to_owned(),
        (Value::Number(number), Allowed::Number { unit, .. }) => {
            let (number, unit) = amount(*number, unit);
            format!("{number} {unit}")
        }
        (Value::Number(number), _) => number.to_string(),
    }
}

fn default_in_toml(setting: &Setting) -> String {
    match &setting.default {
        Value::Text(_) if setting.key == "connection.url" => format!("\"{SAMPLE_URL}\""),
        Value::Text(text) if text == "0" => text.clone(),
        Value::Text(text) => format!("\"{text}\""),
        Value::Number(number) => number.to_string(),
        Value::Truth(truth) => truth.to_string(),
    }
}

fn read(file: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}{file}")).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn check_file(file: &str, made: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(format!("{ROOT}{file}"), made).unwrap();
    }
    assert!(read(file) == made, "{file} is behind: UPDATE_DOCS=1 cargo test -p readpast --lib documentation");
}

/// This is one test, because each file is generated from earlier ones.
#[test]
fn what_is_said_of_the_settings_is_what_the_table_says() {
    every_field_has_its_row_in_the_same_order();
    every_comment_has_the_default_and_the_range_of_the_table();
    the_guide_has_the_tables_of_all_settings();
    the_annotated_file_has_every_setting_with_its_default();
}

fn every_field_has_its_row_in_the_same_order() {
    let fields: Vec<String> = fields().into_iter().map(|field| field.key).collect();
    let keys: Vec<&str> = settings::<Config>().iter().map(|setting| setting.key).collect();
    assert_eq!(keys, fields);
}

fn every_comment_has_the_default_and_the_range_of_the_table() {
    let fields = fields();
    for (_, section, file) in SECTIONS {
        let mut source = read(file);
        for field in fields.iter().filter(|field| split(&field.key).0 == section) {
            source = source.replacen(&field.found, &field.made, 1);
        }
        check_file(file, &source);
    }
}

fn the_guide_has_the_tables_of_all_settings() {
    let fields = fields();
    let table = |is_rare: bool| {
        let settings = settings::<Config>();
        let rows = settings.iter().filter(|setting| setting.is_rare == is_rare).map(|setting| {
            let prose = &fields.iter().find(|field| field.key == setting.key).expect("each has a field").prose;
            let value = default_in_toml(setting);
            let default = match (&setting.default, default_in_words(setting)) {
                (Value::Number(_), words) if words.split(' ').next() != Some(&value) => format!("`{value}` ({words})"),
                (Value::Number(_), _) => format!("`{value}`"),
                (_, words) => words,
            };
            format!("| `{}` | {default} | {} | {prose} |\n", setting.key, allowed(setting))
        });
        format!("| key | default | allowed | what it does |\n|---|---|---|---|\n{}", rows.collect::<String>())
    };
    let page = read("docs/configuration.md");
    let (text, _) = page.split_once("| key |").expect("the page has the table");
    check_file("docs/configuration.md", &format!("{text}{}\n## Rarely needed\n\n{}", table(false), table(true)));
}

const HEAD: &str = "\
# readpast: every setting with its default. Leave out what you do not change.
#
# Read by Config::load. The environment overrides this file: READPAST_<SECTION>_<KEY>, for example
# READPAST_WORKER_LEASE_MS or READPAST_WORKER_RETRY_BASE_MS; READPAST_URL, READPAST_SCHEMA and READPAST_QUEUE stand for
# the three that everybody sets. Keys that do not exist are errors, here and there; what Kubernetes sets for a Service
# named readpast is left alone.
";

const TAIL: &str = "
# A worker's tokens have any name, in quotes if it has dots (section worker.resources):
# gpu = 1
# \"license.abaqus\" = 2

# What the jobs of a kind need while they run; what happens to one that runs out of memory: retry, grow:FACTOR:SIZE (more
# memory for the next attempt) or move:QUEUE; and how long after it was due a job may start. Code takes precedence, and a
# job's own needs over both.
# [kinds.render]
# needs = { memory = \"3 GiB\", threads = 4, gpu = 1 }
# on_out_of_memory = \"grow:2:64GiB\"
# start_within_ms = 300000
";

fn the_annotated_file_has_every_setting_with_its_default() {
    let mut file = HEAD.to_owned();
    let mut section = "";
    let fields = fields();
    for setting in &settings::<Config>() {
        let field = fields.iter().find(|field| field.key == setting.key).expect("each has a field");
        let (its_section, key) = split(setting.key);
        if its_section != section {
            section = its_section;
            file += &format!("\n[{section}]\n");
        }
        let comment = wrapped("# ", &format!("{} Allowed: {}.", field.prose, allowed(setting)));
        file += &format!("{comment}\n{key} = {}\n", default_in_toml(setting));
    }
    file += TAIL;
    check_file("examples/readpast.toml", &file);
    let mut config = Config::from_toml(&file).unwrap();
    assert_eq!(config.connection.url, SAMPLE_URL.into());
    config.connection.url = ConnectionConfig::default().url;
    assert_eq!(config, Config::default());
}

/// Each key sets its own field: a changed field differs from the default, and from the result of every other key.
#[test]
fn every_key_sets_a_field_of_its_own() {
    let mut seen = vec![Config::default()];
    for setting in settings::<Config>() {
        let value = ["next", "all", "12321", "true"].into_iter().find_map(|text| setting.read(text)).expect("one is right");
        let config = super::settings_table::with(&Config::default(), [(setting.key, value)].into());
        assert!(!seen.contains(&config), "{}", setting.key);
        seen.push(config);
    }
}
