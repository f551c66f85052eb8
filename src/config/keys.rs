//! Every key by its name: what the file and the environment may set, and of which type it is.

use std::str::FromStr;

use super::config::Config;

/// One key.
pub(super) struct Key {
    /// As in the TOML file, with its section: `worker.lease_ms`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Sets it from text; says whether the text is a value of its type.
    pub(super) set: fn(&mut Config, &str) -> bool,
}

/// What a value is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Truth,
}

impl Key {
    /// The values that are of the key's type, for a message.
    pub(super) fn allowed(&self) -> &'static str {
        match (self.name, self.kind) {
            ("metrics.port_in_use", _) => "warn or next",
            (_, Kind::Text) => "a text in quotes",
            (_, Kind::Number) => "a whole number from 0 on",
            (_, Kind::Truth) => "true or false",
        }
    }
}

/// In the order of the file.
pub(super) const KEYS: &[Key] = &[
    text("connection.url", |config, value| put(&mut config.connection.url, value)),
    text("connection.password_file", |config, value| put(&mut config.connection.password_file, value)),
    text("connection.schema", |config, value| put(&mut config.connection.schema, value)),
    number("connection.connect_timeout_ms", |config, value| put(&mut config.connection.connect_timeout_ms, value)),
    number("connection.command_timeout_ms", |config, value| put(&mut config.connection.command_timeout_ms, value)),
    number("connection.packet_size", |config, value| put(&mut config.connection.packet_size, value)),
    text("queue.name", |config, value| put(&mut config.queue.name, value)),
    text("worker.name", |config, value| put(&mut config.worker.name, value)),
    number("worker.threads", |config, value| put(&mut config.worker.threads, value)),
    number("worker.batch_size", |config, value| put(&mut config.worker.batch_size, value)),
    number("worker.buffer", |config, value| put(&mut config.worker.buffer, value)),
    number("worker.max_in_flight", |config, value| put(&mut config.worker.max_in_flight, value)),
    number("worker.max_in_flight_bytes", |config, value| put(&mut config.worker.max_in_flight_bytes, value)),
    number("worker.look_ahead", |config, value| put(&mut config.worker.look_ahead, value)),
    number("worker.poll_min_ms", |config, value| put(&mut config.worker.poll_min_ms, value)),
    number("worker.poll_max_ms", |config, value| put(&mut config.worker.poll_max_ms, value)),
    number("worker.waiting_sessions", |config, value| put(&mut config.worker.waiting_sessions, value)),
    number("worker.promote_interval_ms", |config, value| put(&mut config.worker.promote_interval_ms, value)),
    number("worker.reap_interval_ms", |config, value| put(&mut config.worker.reap_interval_ms, value)),
    number("worker.sample_interval_ms", |config, value| put(&mut config.worker.sample_interval_ms, value)),
    number("worker.lease_ms", |config, value| put(&mut config.worker.lease_ms, value)),
    number("worker.heartbeat_interval_ms", |config, value| put(&mut config.worker.heartbeat_interval_ms, value)),
    truth("worker.take_over", |config, value| put(&mut config.worker.take_over, value)),
    number("worker.finish_batch_size", |config, value| put(&mut config.worker.finish_batch_size, value)),
    number("worker.finish_linger_ms", |config, value| put(&mut config.worker.finish_linger_ms, value)),
    number("worker.job_time_limit_ms", |config, value| put(&mut config.worker.job_time_limit_ms, value)),
    number("worker.unknown_kind_delay_ms", |config, value| put(&mut config.worker.unknown_kind_delay_ms, value)),
    number("worker.unknown_kind_keep_ms", |config, value| put(&mut config.worker.unknown_kind_keep_ms, value)),
    number("worker.shutdown_deadline_ms", |config, value| put(&mut config.worker.shutdown_deadline_ms, value)),
    number("worker.retry.base_ms", |config, value| put(&mut config.worker.retry.base_ms, value)),
    number("worker.retry.max_ms", |config, value| put(&mut config.worker.retry.max_ms, value)),
    text("metrics.listen", |config, value| put(&mut config.metrics.listen, value)),
    text("metrics.port_in_use", |config, value| put(&mut config.metrics.port_in_use, value)),
];

const fn text(name: &'static str, set: fn(&mut Config, &str) -> bool) -> Key {
    Key { name, kind: Kind::Text, set }
}

const fn number(name: &'static str, set: fn(&mut Config, &str) -> bool) -> Key {
    Key { name, kind: Kind::Number, set }
}

const fn truth(name: &'static str, set: fn(&mut Config, &str) -> bool) -> Key {
    Key { name, kind: Kind::Truth, set }
}

fn put<T: FromStr>(field: &mut T, value: &str) -> bool {
    match value.parse() {
        Ok(value) => {
            *field = value;
            true
        }
        Err(_) => false,
    }
}

/// The key of this name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Whether keys stand below this name.
pub(super) fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// What a name was probably meant to be, if anything: of the pairs, the second part of the one whose first part is like
/// it.
pub(super) fn nearest<'a, T>(name: &str, candidates: impl Iterator<Item = (&'a str, T)>) -> Option<T> {
    // So that `lease` is taken for `lease_ms`, and `colour` for nothing.
    const LIKENESS: f64 = 0.85;
    candidates
        .map(|(candidate, meant)| (strsim::jaro_winkler(name, candidate), meant))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, meant)| meant)
}

/// A key's section, and its name there.
pub(super) fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}
