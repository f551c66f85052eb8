//! Reads settings from the environment: `READPAST_WORKER_LEASE_MS` for `worker.lease_ms`. The program chooses the
//! prefix.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::error::Error;

use super::config::Config;
use super::range_checks::{refused, refused_text};
use super::settings_table;
use super::settings_table::{Allowed, Setting, Value, nearest};

pub(super) fn apply(
    config: &mut Config,
    prefix: &str,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<(), Error> {
    let is_plain =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if prefix.len() < 2 || !prefix.ends_with('_') || !is_plain(prefix) {
        return Err(refused_text("the prefix of the environment", prefix, "A-Z, 0-9 and _, with a _ at the end"));
    }
    let settings = settings_table::settings::<Config>();
    let mut values = BTreeMap::new();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(prefix)) else {
            continue;
        };
        let value = value.to_str().ok_or_else(|| refused(name, "not valid Unicode", "text"))?;
        match settings.iter().find(|setting| variable(prefix, setting) == name) {
            Some(setting) => {
                values.insert(setting.key, read(setting, name, value)?);
            }
            None if is_of_kubernetes(&name[prefix.len() - 1..], value) => {}
            None if is_of_a_job(name) || OF_PROGRAMS.contains(&name) => {}
            None => {
                return Err(refused(name, "set in the environment", format!("unset{}", hint(&settings, prefix, name))));
            }
        }
    }
    *config = settings_table::with(config, values);
    Ok(())
}

fn variable(prefix: &str, setting: &Setting) -> String {
    let short = match setting.key {
        "connection.url" => "URL".to_string(),
        "connection.schema" => "SCHEMA".to_string(),
        "queue.name" => "QUEUE".to_string(),
        key => key.replace('.', "_").to_ascii_uppercase(),
    };
    format!("{prefix}{short}")
}

fn read(setting: &Setting, variable: &str, text: &str) -> Result<Value, Error> {
    let text = if let Allowed::Text { .. } = setting.allowed { text } else { text.trim() };
    setting.read(text).ok_or_else(|| refused_text(variable, text, setting.written()))
}

fn hint(settings: &[Setting], prefix: &str, name: &str) -> String {
    let rest = &name[prefix.len()..];
    if rest.starts_with("KINDS_") {
        return "; the options of kinds are set in the file or in code".to_owned();
    }
    if rest.starts_with("WORKER_RESOURCES_") {
        return "; tokens are set in the file or in code, a worker's threads by worker.threads".to_owned();
    }
    let variables: Vec<String> = settings.iter().map(|setting| variable(prefix, setting)).collect();
    let named = variables.iter().map(|variable| (&variable[prefix.len()..], variable));
    match nearest(rest, named) {
        Some(near) => format!("; did you mean {near}?"),
        None => format!(", or one of {}", variables.join(", ")),
    }
}

/// Whether Kubernetes set a variable for a Service whose name begins with the prefix. `rest` is the name after the
/// prefix, with its `_`. The forms, from "Discovering services: environment variables" in Kubernetes' documentation:
/// `…_SERVICE_HOST`, `…_SERVICE_PORT`, `…_SERVICE_PORT_<NAME>`, `…_PORT`, and `…_PORT_<number>_<protocol>`, alone or
/// with `_PROTO`, `_PORT`, `_ADDR`. The value must have the right form, too: `READPAST_PORT=9464` is a user's mistake.
fn is_of_kubernetes(rest: &str, value: &str) -> bool {
    let is_number = |text: &str| text.parse::<u16>().is_ok();
    let is_address = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
    let is_url = |text: &str| {
        let protocol = text.split_once("://").map(|(protocol, _)| protocol);
        protocol.is_some_and(|protocol| ["tcp", "udp", "sctp"].contains(&protocol))
    };
    if rest.ends_with("_SERVICE_HOST") {
        return is_address(value);
    }
    if rest.ends_with("_SERVICE_PORT") || rest.contains("_SERVICE_PORT_") {
        return is_number(value);
    }
    if rest.ends_with("_PORT") && is_url(value) {
        return true;
    }
    let Some((_, link)) = rest.split_once("_PORT_") else {
        return false;
    };
    let parts: Vec<&str> = link.split('_').collect();
    match parts[..] {
        [port, "TCP" | "UDP" | "SCTP", ref what @ ..] if is_number(port) => match what {
            [] => is_url(value),
            ["PROTO"] => ["tcp", "udp", "sctp"].contains(&value),
            ["PORT"] => is_number(value),
            ["ADDR"] => is_address(value),
            _ => false,
        },
        _ => false,
    }
}

/// Variables in which `readpast work` describes a job to a program, besides the headers. They are not settings, but a
/// program that enqueues the next job with readpast may find them in its environment.
const OF_A_JOB: [&str; 11] = [
    "READPAST_ATTEMPT",
    "READPAST_BATCH_ID",
    "READPAST_CORRELATION_ID",
    "READPAST_FENCE",
    "READPAST_GROUP_KEY",
    "READPAST_JOB_ID",
    "READPAST_KIND",
    "READPAST_MAX_ATTEMPTS",
    "READPAST_PARENTS",
    "READPAST_PAYLOAD_TEXT",
    "READPAST_RUN",
];

/// Variables of programs: `readpast web` reads its token from the first, and the Python package the path of `readpast` from
/// the second.
const OF_PROGRAMS: [&str; 2] = ["READPAST_WEB_TOKEN", "READPAST_PROGRAM"];

fn is_of_a_job(name: &str) -> bool {
    OF_A_JOB.contains(&name) || name.starts_with("READPAST_HEADER_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_variables(variables: &[(&str, &str)]) -> Result<Config, Error> {
        let mut config = Config::default();
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        apply(&mut config, "READPAST_", variables).map(|()| config)
    }

    fn refusal(name: &str, value: &str) -> String {
        with_variables(&[(name, value)]).expect_err(name).to_string()
    }

    /// The output of `kubectl exec … env` next to Services named `readpast`, `readpast-worker` and `readpast-6`.
    #[test]
    fn what_kubernetes_says_of_its_services_is_no_setting() {
        let services = [
            ("READPAST_SERVICE_HOST", "10.0.0.11"),
            ("READPAST_SERVICE_PORT", "9464"),
            ("READPAST_SERVICE_PORT_METRICS", "9464"),
            ("READPAST_SERVICE_PORT_HTTP_METRICS", "9464"),
            ("READPAST_PORT", "tcp://10.0.0.11:9464"),
            ("READPAST_PORT_9464_TCP", "tcp://10.0.0.11:9464"),
            ("READPAST_PORT_9464_TCP_PROTO", "tcp"),
            ("READPAST_PORT_9464_TCP_PORT", "9464"),
            ("READPAST_PORT_9464_TCP_ADDR", "10.0.0.11"),
            ("READPAST_PORT_1433_UDP", "udp://[fd00::1]:1433"),
            ("READPAST_WORKER_SERVICE_HOST", "fd00::1"),
            ("READPAST_WORKER_PORT", "tcp://10.0.0.12:9464"),
            ("READPAST_WORKER_PORT_9464_TCP_ADDR", "10.0.0.12"),
        ];
        assert_eq!(with_variables(&services).unwrap(), Config::default());
    }

    #[test]
    fn what_a_program_is_told_about_its_job_is_no_setting() {
        let told = [("READPAST_JOB_ID", "7"), ("READPAST_HEADER_TENANT", "acme"), ("READPAST_RUN", "x")];
        assert_eq!(with_variables(&told).unwrap(), Config::default());
        assert!(refusal("READPAST_JOB", "7").contains("it must be unset"));
    }

    /// The documentation, the help and the deployment files name no variable that would be rejected.
    #[test]
    fn every_variable_that_is_documented_is_known() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
        let mut texts = vec![("README.md".to_owned(), std::fs::read_to_string(format!("{root}README.md")).unwrap())];
        for folder in ["docs", "deploy", "examples"] {
            for entry in walkdir::WalkDir::new(format!("{root}{folder}")) {
                let entry = entry.unwrap();
                if let Ok(text) = std::fs::read_to_string(entry.path()) {
                    texts.push((entry.path().display().to_string(), text));
                }
            }
        }
        // Names that appear because they are rejected: docs/configuration.md mentions Kubernetes' variables, and examples
        // mention tests' own.
        let of_services = |name: &str| name.starts_with("READPAST_PORT") || name.starts_with("READPAST_SERVICE");
        let mut tried = std::collections::BTreeSet::new();
        for (file, text) in &texts {
            for (at, _) in text.match_indices("READPAST_") {
                let rest = &text[at..];
                let is_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                let name = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
                if name.ends_with('_') || of_services(name) || !tried.insert(name.to_owned()) {
                    continue; // `READPAST_HEADER_<NAME>`, `READPAST_WORKER_…`
                }
                if let Err(error) = with_variables(&[(name, "1")]) {
                    assert!(!error.to_string().contains("it must be unset"), "{file}: {error}");
                }
            }
        }
        assert!(tried.contains("READPAST_WEB_TOKEN") && tried.len() > 15, "{tried:?}");
    }

    #[test]
    fn what_only_looks_like_it_is_an_error() {
        for (name, value) in [
            ("READPAST_PORT", "9464"),
            ("READPAST_SERVICE_PORT", "many"),
            ("READPAST_SERVICE_HOST", "db1"),
            ("READPAST_PORT_9464_TCP_NAME", "x"),
            ("READPAST_PORT_X_TCP", "tcp://10.0.0.11:9464"),
            ("READPAST_SERVICE", "x"),
        ] {
            assert!(refusal(name, value).starts_with(&format!("{name} is set in the environment; it must be unset")));
        }
    }

    #[test]
    fn what_is_unknown_or_of_the_wrong_type_is_named() {
        assert_eq!(
            refusal("READPAST_WORKER_BATCH_SZE", "1"),
            "READPAST_WORKER_BATCH_SZE is set in the environment; it must be unset; did you mean READPAST_WORKER_BATCH_SIZE?"
        );
        assert!(
            refusal("READPAST_COLOUR", "1").contains(
                "it must be unset, or one of READPAST_URL, READPAST_CONNECTION_PASSWORD_FILE, READPAST_SCHEMA"
            )
        );
        assert_eq!(
            refusal("READPAST_WORKER_THREADS", "all"),
            "READPAST_WORKER_THREADS is 'all'; it must be a whole number from 0 to 1024"
        );
        assert_eq!(
            refusal("READPAST_METRICS_PORT_IN_USE", "fail"),
            "READPAST_METRICS_PORT_IN_USE is 'fail'; it must be warn or next"
        );
        assert!(!refusal("READPAST_WORKER_THREADS", "Server=s;Pasword=hunter2").contains("hunter2"));
    }

    #[test]
    fn what_the_environment_cannot_set_is_named_with_what_can() {
        let refused = refusal("READPAST_KINDS_RENDER_NEEDS", "{}");
        assert!(
            refused.ends_with("it must be unset; the options of kinds are set in the file or in code"),
            "{refused}"
        );
        assert!(refusal("READPAST_WORKER_RESOURCES_GPU", "1").contains("tokens are set in the file or in code"));
        let config = with_variables(&[("READPAST_WORKER_RESOURCES_MEMORY", "6 GiB")]).unwrap();
        assert_eq!(config.worker.resources.memory, crate::config::MemorySize::Bytes(6 << 30));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_unicode_is_refused_and_not_changed() {
        use std::os::unix::ffi::OsStringExt;
        let variable = ("READPAST_URL".into(), OsString::from_vec(vec![b'p', 0xFF]));
        let error = apply(&mut Config::default(), "READPAST_", [variable].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "READPAST_URL is not valid Unicode; it must be text");
    }

    #[test]
    fn another_prefix_stands_for_the_program_s_own_variables() {
        let mut config = Config::default();
        let variables =
            [("MAILER_QUEUE_WORKER_THREADS", "3"), ("MAILER_QUEUE_URL", "Server=s"), ("READPAST_NONSENSE", "1")];
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        apply(&mut config, "MAILER_QUEUE_", variables.into_iter()).unwrap();
        assert_eq!(config.worker.threads, 3);
        assert_eq!(config.connection.url, "Server=s".into());
        for prefix in ["", "_", "MAILER", "mailer_", "MAIL ER_"] {
            assert!(apply(&mut config, prefix, [].into_iter()).is_err(), "{prefix}");
        }
    }
}
