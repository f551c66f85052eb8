//! Every knob: what it does, its default, its unit and its range.
//!
//! TOML file ─▶ environment (`READPAST_…`) ─▶ the program's own changes ─▶ [`Config::validate`]
//!
//! The first two are [`Config::load`]; each overrides what came before it. `examples/readpast.toml` has every key with
//! its default, and is where the environment's names and types are taken from. The table in the README is made from the
//! comments of this file.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::connection_string::ConnectionString;
use crate::error::Error;

/// All settings.
///
/// ```
/// use readpast::Config;
///
/// # fn main() -> Result<(), readpast::Error> {
/// let mut config = Config::from_toml("[worker]\nbatch_size = 200\n")?;
/// config.connection.url = "Server=db1;Database=work;User ID=app;Password=s3cret".into();
/// config.validate()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How to reach SQL Server.
    pub connection: ConnectionConfig,
    /// Which queue.
    pub queue: QueueConfig,
    /// How a worker works. Producers do not need it.
    pub worker: WorkerConfig,
    /// Where metrics are served.
    pub metrics: MetricsConfig,
}

/// How to reach SQL Server: section `connection`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionConfig {
    /// The ADO.NET connection string; see [`ConnectionString`] for its keys. Never shown in logs and errors.
    ///
    /// Default: none. Range: must be set.
    pub url: ConnectionString,

    /// The schema of the database in which readpast is installed.
    ///
    /// Default: `readpast`. Range: 1 to 100 of A-Z, a-z, 0-9 and _, not beginning with a digit, no reserved word of
    /// T-SQL.
    pub schema: String,

    /// How long making a connection may take, login included. At most `worker.lease_ms`.
    ///
    /// Default: `15000`. Range: 100 to 600000 ms.
    pub connect_timeout_ms: u64,

    /// How long one call may take. A call that takes longer fails, and its connection is dropped, which makes SQL
    /// Server undo what was not committed. At most `worker.lease_ms`.
    ///
    /// Default: `30000`. Range: 1000 to 3600000 ms.
    pub command_timeout_ms: u64,

    /// The size of the packets of the TDS protocol. A larger one makes claims and acknowledgements of many jobs
    /// cheaper; SQL Server may give less. One packet must fit into one TLS record.
    ///
    /// Default: `16000`. Range: 512 to 16383 bytes.
    pub packet_size: u32,
}

/// Which queue: section `queue`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueConfig {
    /// The queue's name. Names compare by code point: `Mail` and `mail` are two queues.
    ///
    /// Default: `default`. Range: 1 to 128 characters (UTF-16), without spaces at its ends.
    pub name: String,
}

/// How a worker works: section `worker`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerConfig {
    /// The worker's name in the `workers` table and in error texts; the same at each start. Empty: the host's name.
    ///
    /// Default: empty. Range: up to 128 characters.
    pub name: String,

    /// How many jobs run at once, each on a thread of its own. 0: one per core.
    ///
    /// Default: `0`. Range: 0 to 1024.
    pub threads: usize,

    /// The most jobs one claim takes. More makes claims of short jobs cheaper.
    ///
    /// Default: `500`. Range: 1 to 1000 jobs.
    pub batch_size: usize,

    /// How many claimed jobs wait for a thread. 0: as many as the measured run and claim times ask for, so that long
    /// jobs are left to other workers and short ones come in full batches.
    ///
    /// Default: `0`. Range: 0 to `max_in_flight` jobs.
    pub buffer: usize,

    /// The most jobs this process holds: waiting, running, and run but not yet acknowledged. Bounds memory, and what is
    /// repeated after a crash.
    ///
    /// Default: `10000`. Range: 1 to 1000000 jobs.
    pub max_in_flight: usize,

    /// The most bytes of payloads and outputs this process holds. Claims take as many jobs as fit by the mean of those
    /// seen so far; one job is always allowed, however large. Beside it, the driver needs room for one call at a time.
    ///
    /// Default: `268435456`. Range: 1048576 (1 MiB) to 1099511627776 (1 TiB) bytes.
    pub max_in_flight_bytes: u64,

    /// How many jobs are handed to the thread pool beyond the running ones, so that no thread waits for the next. 0: as
    /// many as there are threads.
    ///
    /// Default: `0`. Range: 0 to 1024 jobs.
    pub look_ahead: usize,

    /// The pause after the first claim that found nothing, before the next look; it doubles up to `poll_max_ms`.
    ///
    /// Default: `10`. Range: 1 to 60000 ms.
    pub poll_min_ms: u64,

    /// The longest pause between looks while the queue is empty: how long a job that another process enqueues may go
    /// unnoticed. SQL Server itself looks, in a call that waits, for up to 32 idle workers of a queue; further ones look
    /// every ten seconds. Shorter costs it more index seeks, but no more calls.
    ///
    /// Default: `200`. Range: 1 to 3600000 ms.
    pub poll_max_ms: u64,

    /// How often scheduled jobs whose time has come are made ready, by one worker of the queue: how late a delayed job or a retry may start.
    ///
    /// Default: `1000`. Range: 10 to 1000 ms.
    pub promote_interval_ms: u64,

    /// How often the jobs of workers whose lease ran out are given back.
    ///
    /// Default: `5000`. Range: 100 to 3600000 ms.
    pub reap_interval_ms: u64,

    /// How often the queue's depth is sampled for the metrics, by one of its workers at a time.
    ///
    /// Default: `10000`. Range: 1000 to 3600000 ms.
    pub sample_interval_ms: u64,

    /// How long SQL Server believes this worker alive after its last sign of life. Longer: a crashed worker's jobs wait
    /// longer. Shorter: a worker whose network hangs that long loses its jobs to others.
    ///
    /// Default: `30000`. Range: 1000 to 86400000 ms.
    pub lease_ms: u64,

    /// How often the lease is renewed. Less than half of `lease_ms`, so that one renewal may fail.
    ///
    /// Default: `10000`. Range: 100 to 43200000 ms.
    pub heartbeat_interval_ms: u64,

    /// At the start, take the jobs of an earlier worker of the same name at once instead of waiting for its lease to
    /// run out. Only where no two processes have the same name.
    ///
    /// Default: `false`. Range: true or false.
    pub take_over: bool,

    /// The most jobs one acknowledgement ends.
    ///
    /// Default: `500`. Range: 1 to 1000 jobs.
    pub finish_batch_size: usize,

    /// How long an acknowledgement waits for more jobs to go with it.
    ///
    /// Default: `50`. Range: 0 to 10000 ms.
    pub finish_linger_ms: u64,

    /// After this long, a job's handler is told that it is cancelled; it must look. A job that still runs then is logged
    /// and counted. 0: never.
    ///
    /// Default: `0`. Range: 0 to 86400000 ms.
    pub job_time_limit_ms: u64,

    /// How long a job is put off whose kind this worker has no handler for, without a counted attempt, so that a worker that knows its kind
    /// can have it: while a deployment rolls, both claim from one queue. Less up to half of it at random.
    ///
    /// Default: `10000`. Range: 100 to 3600000 ms.
    pub unknown_kind_delay_ms: u64,

    /// From how long after it was enqueued on such a job is dead instead; the default is a day. On a queue with delivery `at_most_once` it is dead at once.
    ///
    /// Default: `86400000`. Range: 0 to 315360000000 ms.
    pub unknown_kind_keep_ms: u64,

    /// How long a shutdown waits for running jobs. Those that still run then are cancelled, and given back at once without a counted attempt,
    /// which takes 4 s at the most.
    ///
    /// Default: `30000`. Range: 0 to 86400000 ms.
    pub shutdown_deadline_ms: u64,

    /// When failed jobs are tried again.
    pub retry: RetryConfig,
}

/// When failed jobs are tried again: section `worker.retry`. The delay is `base_ms`, doubled with each attempt up to
/// `max_ms`, less up to a quarter at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// The delay after the first attempt.
    ///
    /// Default: `1000`. Range: 0 to 315360000000 ms (ten years).
    pub base_ms: u64,

    /// The longest delay.
    ///
    /// Default: `3600000`. Range: 0 to 315360000000 ms (ten years).
    pub max_ms: u64,
}

/// Where metrics are served: section `metrics`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsConfig {
    /// The address and port at which this process serves `/metrics` for Prometheus, `/healthz` and `/readyz`. Empty: nowhere; the
    /// metrics go to the recorder that the program has installed, if any.
    ///
    /// Default: empty. Range: an address and a port, such as `127.0.0.1:9464`; port 0 is one of the system's choice.
    pub listen: String,
}

impl Default for ConnectionConfig {
    fn default() -> ConnectionConfig {
        ConnectionConfig {
            url: ConnectionString::default(),
            schema: "readpast".to_string(),
            connect_timeout_ms: 15_000,
            command_timeout_ms: 30_000,
            packet_size: 16_000,
        }
    }
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        QueueConfig { name: "default".to_string() }
    }
}

impl Default for WorkerConfig {
    fn default() -> WorkerConfig {
        WorkerConfig {
            name: String::new(),
            threads: 0,
            batch_size: 500,
            buffer: 0,
            max_in_flight: 10_000,
            max_in_flight_bytes: 256 << 20,
            look_ahead: 0,
            poll_min_ms: 10,
            poll_max_ms: 200,
            promote_interval_ms: 1_000,
            reap_interval_ms: 5_000,
            sample_interval_ms: 10_000,
            lease_ms: 30_000,
            heartbeat_interval_ms: 10_000,
            take_over: false,
            finish_batch_size: 500,
            finish_linger_ms: 50,
            job_time_limit_ms: 0,
            unknown_kind_delay_ms: 10_000,
            unknown_kind_keep_ms: DAY_MS,
            shutdown_deadline_ms: 30_000,
            retry: RetryConfig::default(),
        }
    }
}

impl Default for RetryConfig {
    fn default() -> RetryConfig {
        RetryConfig { base_ms: 1_000, max_ms: 3_600_000 }
    }
}

/// SQL Server takes packets of 512 to 32,767 bytes; one that is encrypted must fit into one TLS record (16,384 bytes).
pub(crate) const PACKET_SIZES: RangeInclusive<u32> = 512..=16_383;

/// The widest name of a queue or a worker: `nvarchar(128)`.
const MAX_NAME_UNITS: usize = 128;

/// The longest schema name. SQL Server allows 128 characters; the roles are named after the schema and need room.
const MAX_SCHEMA_LENGTH: usize = 100;

/// A day.
const DAY_MS: u64 = 86_400_000;

/// Ten years: the longest delay that the procedures take.
const TEN_YEARS_MS: u64 = 315_360_000_000;

/// The file with every key and its default.
const ANNOTATED: &str = include_str!("../examples/readpast.toml");

/// Every variable of the environment that begins with this is a setting, or an error.
const VARIABLE_PREFIX: &str = "READPAST_";

impl Config {
    /// Reads the settings from TOML text. Keys that are not there keep their defaults.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigSyntax`] for text that is no TOML, unknown keys and values of the wrong type. Ranges are the
    /// business of [`validate`](Config::validate), because the program may still change the settings.
    pub fn from_toml(text: &str) -> Result<Config, Error> {
        from_table(parse_table(text)?)
    }

    /// Reads the settings from a TOML file, if there is one, and then from the environment.
    ///
    /// A variable's name is `READPAST_`, the section, `_` and the key, in capitals: `READPAST_WORKER_LEASE_MS`,
    /// `READPAST_WORKER_RETRY_BASE_MS`. Three have short names: `READPAST_URL`, `READPAST_SCHEMA` and `READPAST_QUEUE`.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigFile`] when the file cannot be read; otherwise as [`from_toml`](Config::from_toml), and
    /// [`Error::Config`] for a variable that begins with `READPAST_` and is no setting, or whose value has the wrong
    /// type.
    pub fn load(path: Option<&Path>) -> Result<Config, Error> {
        let text = match path {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|source| Error::ConfigFile { path: path.to_path_buf(), source })?,
            None => String::new(),
        };
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            name.starts_with(VARIABLE_PREFIX).then(|| (name, value.to_string_lossy().into_owned()))
        });
        Config::from_file_and_variables(&text, variables)
    }

    fn from_file_and_variables(text: &str, variables: impl Iterator<Item = (String, String)>) -> Result<Config, Error> {
        let mut table = parse_table(text)?;
        let settings = settings();
        for (name, value) in variables {
            let setting = settings.iter().find(|setting| setting.variable == name).ok_or_else(|| Error::Config {
                key: name.clone(),
                value: "set in the environment".to_string(),
                allowed: format!("unset, or one of {}", known_variables(&settings)),
            })?;
            insert(&mut table, &setting.path, setting.typed(&value)?)?;
        }
        from_table(table)
    }

    /// Checks every value against its range, and the values against each other.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] or [`Error::ConnectionString`] for the first one that is wrong.
    pub fn validate(&self) -> Result<(), Error> {
        self.connection.validate()?;
        self.queue.validate()?;
        self.worker.validate()?;
        self.worker.check_timeouts(self.connection.timeouts()?)?;
        self.metrics.address().map(|_| ())
    }
}

/// The time limits of a connection, wherever they were set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) command: Duration,
}

impl ConnectionConfig {
    /// Checks this section alone.
    ///
    /// # Errors
    ///
    /// As [`Config::validate`].
    pub fn validate(&self) -> Result<(), Error> {
        if self.url.is_empty() {
            return Err(refused("connection.url", "empty", "a connection string (READPAST_URL in the environment)"));
        }
        self.url.parse()?;
        check_schema(&self.schema)?;
        check_range("connection.connect_timeout_ms", self.connect_timeout_ms, 100..=600_000)?;
        check_range("connection.command_timeout_ms", self.command_timeout_ms, 1_000..=3_600_000)?;
        check_range("connection.packet_size", self.packet_size, PACKET_SIZES)
    }

    /// The time limits: those of the connection string before those of this section.
    pub(crate) fn timeouts(&self) -> Result<Timeouts, Error> {
        let options = self.url.parse()?;
        Ok(Timeouts {
            connect: options.connect_timeout.unwrap_or(Duration::from_millis(self.connect_timeout_ms)),
            command: options.command_timeout.unwrap_or(Duration::from_millis(self.command_timeout_ms)),
        })
    }
}

impl QueueConfig {
    /// Checks this section alone.
    ///
    /// # Errors
    ///
    /// As [`Config::validate`].
    pub fn validate(&self) -> Result<(), Error> {
        let is_trimmed = self.name.trim() == self.name; // SQL Server takes 'mail' and 'mail ' for equal
        if self.name.is_empty() || !is_trimmed || self.name.encode_utf16().count() > MAX_NAME_UNITS {
            let allowed = "1 to 128 characters (UTF-16), without spaces at its ends";
            return Err(refused("queue.name", format!("'{}'", self.name), allowed));
        }
        Ok(())
    }
}

impl MetricsConfig {
    /// Where to listen, if anywhere.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for what is no address with a port.
    pub(crate) fn address(&self) -> Result<Option<SocketAddr>, Error> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        match self.listen.parse() {
            Ok(address) => Ok(Some(address)),
            Err(_) => Err(refused(
                "metrics.listen",
                format!("'{}'", self.listen),
                "empty, or an address and a port, such as 127.0.0.1:9464",
            )),
        }
    }
}

impl WorkerConfig {
    /// Checks this section alone.
    ///
    /// # Errors
    ///
    /// As [`Config::validate`].
    pub fn validate(&self) -> Result<(), Error> {
        if self.name.encode_utf16().count() > MAX_NAME_UNITS {
            return Err(refused("worker.name", format!("'{}'", self.name), "128 characters at most"));
        }
        check_range("worker.threads", self.threads, 0..=1_024)?;
        check_range("worker.batch_size", self.batch_size, 1..=1_000)?;
        check_range("worker.max_in_flight", self.max_in_flight, 1..=1_000_000)?;
        check_range("worker.max_in_flight_bytes", self.max_in_flight_bytes, 1 << 20..=1 << 40)?;
        check_range("worker.look_ahead", self.look_ahead, 0..=1_024)?;
        check_range("worker.poll_min_ms", self.poll_min_ms, 1..=60_000)?;
        check_range("worker.poll_max_ms", self.poll_max_ms, 1..=3_600_000)?;
        check_range("worker.promote_interval_ms", self.promote_interval_ms, 10..=1_000)?;
        check_range("worker.reap_interval_ms", self.reap_interval_ms, 100..=3_600_000)?;
        check_range("worker.sample_interval_ms", self.sample_interval_ms, 1_000..=3_600_000)?;
        check_range("worker.lease_ms", self.lease_ms, 1_000..=DAY_MS)?;
        check_range("worker.heartbeat_interval_ms", self.heartbeat_interval_ms, 100..=DAY_MS / 2)?;
        check_range("worker.finish_batch_size", self.finish_batch_size, 1..=1_000)?;
        check_range("worker.finish_linger_ms", self.finish_linger_ms, 0..=10_000)?;
        check_range("worker.job_time_limit_ms", self.job_time_limit_ms, 0..=DAY_MS)?;
        check_range("worker.unknown_kind_delay_ms", self.unknown_kind_delay_ms, 100..=3_600_000)?;
        check_range("worker.unknown_kind_keep_ms", self.unknown_kind_keep_ms, 0..=TEN_YEARS_MS)?;
        check_range("worker.shutdown_deadline_ms", self.shutdown_deadline_ms, 0..=DAY_MS)?;
        check_range("worker.retry.base_ms", self.retry.base_ms, 0..=TEN_YEARS_MS)?;
        check_range("worker.retry.max_ms", self.retry.max_ms, 0..=TEN_YEARS_MS)?;

        check_at_most("worker.poll_min_ms", self.poll_min_ms, "worker.poll_max_ms", self.poll_max_ms)?;
        check_at_most("worker.retry.base_ms", self.retry.base_ms, "worker.retry.max_ms", self.retry.max_ms)?;
        for (key, jobs) in [
            ("worker.batch_size", self.batch_size),
            ("worker.buffer", self.buffer),
            ("worker.finish_batch_size", self.finish_batch_size),
        ] {
            check_at_most(key, jobs, "worker.max_in_flight", self.max_in_flight)?;
        }
        if self.heartbeat_interval_ms * 2 >= self.lease_ms {
            return Err(refused(
                "worker.heartbeat_interval_ms",
                self.heartbeat_interval_ms,
                format!("less than half of worker.lease_ms ({})", self.lease_ms),
            ));
        }
        Ok(())
    }

    /// Checks the time limits of the connection against the lease. A claim whose answer does not come is noticed after the command
    /// time-out and given back then; if that were longer than the lease, jobs would wait longer for a worker with a bad network than for
    /// a dead one. And a connection that takes longer to make than the lease lasts cannot keep it.
    pub(crate) fn check_timeouts(&self, timeouts: Timeouts) -> Result<(), Error> {
        for (key, timeout) in
            [("connection.connect_timeout_ms", timeouts.connect), ("connection.command_timeout_ms", timeouts.command)]
        {
            check_at_most(key, timeout.as_millis(), "worker.lease_ms", u128::from(self.lease_ms))?;
        }
        Ok(())
    }

    /// The worker's name: the one that is set, or the host's.
    pub(crate) fn worker_name(&self) -> Cow<'_, str> {
        if !self.name.is_empty() {
            return Cow::Borrowed(&self.name);
        }
        let host = hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if host.is_empty() { Cow::Borrowed("unnamed") } else { Cow::Owned(host) }
    }
}

pub(crate) fn check_range<T: PartialOrd + Display>(key: &str, value: T, range: RangeInclusive<T>) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(refused(key, value, format!("{} to {}", range.start(), range.end())))
}

fn check_at_most<T: PartialOrd + Display>(key: &str, value: T, limit_key: &str, limit: T) -> Result<(), Error> {
    if value <= limit {
        return Ok(());
    }
    Err(refused(key, value, format!("at most {limit_key} ({limit})")))
}

pub(crate) fn refused(key: &str, value: impl Display, allowed: impl Display) -> Error {
    Error::Config { key: key.to_string(), value: value.to_string(), allowed: allowed.to_string() }
}

/// The schema's name goes into SQL text: into the scripts in brackets, and into the names of the table types without
/// them, because the protocol has no brackets there. Hence neither special characters nor reserved words.
pub(crate) fn check_schema(schema: &str) -> Result<(), Error> {
    let begins_well = schema.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on_well = schema.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    let is_reserved = RESERVED_WORDS.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case(schema));
    if begins_well && goes_on_well && schema.len() <= MAX_SCHEMA_LENGTH && !is_reserved {
        return Ok(());
    }
    Err(refused(
        "connection.schema",
        format!("'{schema}'"),
        "1 to 100 of A-Z, a-z, 0-9 and _, not beginning with a digit, and no reserved word of T-SQL",
    ))
}

/// From "Reserved keywords (Transact-SQL)" in Microsoft's documentation.
const RESERVED_WORDS: &str = "
    add all alter and any as asc authorization backup begin between break browse bulk by cascade case check checkpoint close clustered
    coalesce collate column commit compute constraint contains containstable continue convert create cross current current_date
    current_time current_timestamp current_user cursor database dbcc deallocate declare default delete deny desc disk distinct
    distributed double drop dump else end errlvl escape except exec execute exists exit external fetch file fillfactor for foreign
    freetext freetexttable from full function goto grant group having holdlock identity identity_insert identitycol if in index inner
    insert intersect into is join key kill left like lineno load merge national nocheck nonclustered not null nullif of off offsets on
    open opendatasource openquery openrowset openxml option or order outer over percent pivot plan precision primary print proc
    procedure public raiserror read readtext reconfigure references replication restore restrict return revert revoke right rollback
    rowcount rowguidcol rule save schema securityaudit select semantickeyphrasetable semanticsimilaritydetailstable
    semanticsimilaritytable session_user set setuser shutdown some statistics system_user table tablesample textsize then to top tran
    transaction trigger truncate try_convert tsequal union unique unpivot update updatetext use user values varying view waitfor when
    where while with within writetext";

/// One key of the configuration, as the environment sees it.
struct Setting {
    path: Vec<String>,
    variable: String,
    default: toml::Value,
}

impl Setting {
    /// The variable's text as a value of the setting's type.
    fn typed(&self, text: &str) -> Result<toml::Value, Error> {
        let typed = match &self.default {
            toml::Value::Integer(_) => text.trim().parse().ok().map(toml::Value::Integer),
            toml::Value::Boolean(_) => text.trim().parse().ok().map(toml::Value::Boolean),
            _ => Some(toml::Value::String(text.to_string())),
        };
        typed.ok_or_else(|| {
            let allowed = if self.default.is_integer() { "a whole number" } else { "true or false" };
            refused(&self.variable, format!("'{text}'"), allowed)
        })
    }
}

/// All settings, from the annotated file.
fn settings() -> Vec<Setting> {
    let annotated = ANNOTATED.parse::<toml::Table>().expect("a test reads examples/readpast.toml");
    let mut settings = Vec::new();
    collect_settings(&annotated, &mut Vec::new(), &mut settings);
    settings
}

fn collect_settings(table: &toml::Table, path: &mut Vec<String>, settings: &mut Vec<Setting>) {
    for (key, value) in table {
        path.push(key.clone());
        match value {
            toml::Value::Table(section) => collect_settings(section, path, settings),
            default => {
                settings.push(Setting { path: path.clone(), variable: variable(path), default: default.clone() })
            }
        }
        path.pop();
    }
}

fn variable(path: &[String]) -> String {
    match path.join(".").as_str() {
        "connection.url" => "READPAST_URL".to_string(),
        "connection.schema" => "READPAST_SCHEMA".to_string(),
        "queue.name" => "READPAST_QUEUE".to_string(),
        _ => format!("{VARIABLE_PREFIX}{}", path.join("_").to_ascii_uppercase()),
    }
}

fn known_variables(settings: &[Setting]) -> String {
    let names: Vec<&str> = settings.iter().map(|setting| setting.variable.as_str()).collect();
    names.join(", ")
}

fn insert(table: &mut toml::Table, path: &[String], value: toml::Value) -> Result<(), Error> {
    let (key, sections) = path.split_last().expect("a setting has a key");
    let mut section = table;
    for name in sections {
        let entry = section.entry(name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        section = entry.as_table_mut().ok_or_else(|| refused(name, "a single value", "a section"))?;
    }
    section.insert(key.clone(), value);
    Ok(())
}

fn parse_table(text: &str) -> Result<toml::Table, Error> {
    text.parse::<toml::Table>().map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        Error::ConfigSyntax { message: format!("line {line}: {}", error.message()) }
    })
}

fn from_table(table: toml::Table) -> Result<Config, Error> {
    let mut secrets = Vec::new();
    collect_secrets(&toml::Value::Table(table.clone()), false, &mut secrets);
    // Without the text there is no line that the message could quote, but it does quote values.
    table.try_into().map_err(|error: toml::de::Error| {
        let mut message = error.to_string().trim_end().replace('\n', " ");
        for secret in secrets {
            message = message.replace(&format!("{secret:?}"), "that is not shown");
        }
        Error::ConfigSyntax { message }
    })
}

/// The texts that no message may quote: all of section `connection`, and whatever looks like a connection string elsewhere.
fn collect_secrets(value: &toml::Value, is_connection: bool, secrets: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => {
            let lower = text.to_lowercase();
            if is_connection || lower.contains("password") || lower.contains("pwd") {
                secrets.push(text.clone());
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| collect_secrets(value, is_connection, secrets)),
        toml::Value::Table(table) => {
            for (key, value) in table {
                collect_secrets(value, is_connection || key == "connection", secrets);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "Server=s;User ID=u;Password=hunter2";

    fn valid() -> Config {
        let mut config = Config::default();
        config.connection.url = URL.into();
        config
    }

    fn with_variables(text: &str, variables: &[(&str, &str)]) -> Result<Config, Error> {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Config::from_file_and_variables(text, variables)
    }

    #[test]
    fn the_annotated_file_has_every_key_with_its_default() {
        let mut annotated = Config::from_toml(ANNOTATED).unwrap();
        annotated.connection.url = ConnectionString::default();
        assert_eq!(annotated, Config::default());

        let in_the_file: Vec<String> = settings().iter().map(|setting| setting.path.join(".")).collect();
        let in_the_source: Vec<String> = documented().into_iter().map(|row| row.key).collect();
        let sorted = |mut keys: Vec<String>| {
            keys.sort();
            keys
        };
        assert_eq!(sorted(in_the_file), sorted(in_the_source));
    }

    #[test]
    fn the_defaults_are_valid_but_for_the_connection_string() {
        valid().validate().unwrap();
        let message = Config::default().validate().unwrap_err().to_string();
        assert!(message.starts_with("connection.url is empty; it must be"), "{message}");
    }

    #[test]
    fn the_environment_overrides_the_file() {
        let text = "[worker]\nlease_ms = 60000\nbatch_size = 7\n[queue]\nname = 'mail'\n";
        let variables = [
            ("READPAST_URL", URL),
            ("READPAST_WORKER_LEASE_MS", "90000"),
            ("READPAST_WORKER_TAKE_OVER", "true"),
            ("READPAST_WORKER_RETRY_BASE_MS", "5"),
            ("READPAST_SCHEMA", "jobs2"),
        ];
        let config = with_variables(text, &variables).unwrap();
        assert_eq!((config.worker.lease_ms, config.worker.batch_size, config.worker.retry.base_ms), (90_000, 7, 5));
        assert!(config.worker.take_over);
        assert_eq!((config.queue.name.as_str(), config.connection.schema.as_str()), ("mail", "jobs2"));
        config.validate().unwrap();
    }

    #[test]
    fn what_is_unknown_or_of_the_wrong_type_is_named() {
        let message = |text: &str| Config::from_toml(text).unwrap_err().to_string();
        assert!(message("[worker]\nlease = 1").contains("unknown field `lease`"));
        assert!(message("[workers]").contains("unknown field `workers`"));
        let wrong_type = message("[worker]\nbatch_size = 'many'");
        assert!(wrong_type.contains("batch_size") && wrong_type.contains("many"), "{wrong_type}");

        let message = |variable: (&str, &str)| with_variables("", &[variable]).unwrap_err().to_string();
        assert!(
            message(("READPAST_LEASE", "1")).starts_with("READPAST_LEASE is set in the environment; it must be unset")
        );
        assert_eq!(
            message(("READPAST_WORKER_THREADS", "all")),
            "READPAST_WORKER_THREADS is 'all'; it must be a whole number"
        );
    }

    #[test]
    fn no_message_quotes_the_connection_string() {
        for text in [
            "[connection]\nurl = 'PWD=hunter2",
            "[connection]\nurl = 'PWD=hunter2' x",
            "[connection]\nurl = ['hunter2']",
            "connection = 'hunter2'",
            "[connection]\npacket_size = 'hunter2'",
            "[worker]\nthreads = 'Server=s;PWD=hunter2'",
        ] {
            let error = Config::from_toml(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let mut config = valid();
        assert!(!format!("{config:?}").contains("hunter2"));
        config.connection.url = "Server=s;Password=hunter2".into();
        assert!(!config.validate().unwrap_err().to_string().contains("hunter2"));
    }

    #[test]
    fn ranges_and_settings_that_cannot_work_together_are_refused() {
        let message = |change: fn(&mut Config)| {
            let mut config = valid();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert_eq!(message(|c| c.worker.batch_size = 1_001), "worker.batch_size is 1001; it must be 1 to 1000");
        assert_eq!(
            message(|c| c.worker.heartbeat_interval_ms = 15_000),
            "worker.heartbeat_interval_ms is 15000; it must be less than half of worker.lease_ms (30000)"
        );
        assert_eq!(
            message(|c| c.worker.poll_min_ms = 300),
            "worker.poll_min_ms is 300; it must be at most worker.poll_max_ms (200)"
        );
        assert_eq!(
            message(|c| c.worker.lease_ms = 25_000),
            "connection.command_timeout_ms is 30000; it must be at most worker.lease_ms (25000)"
        );
        assert_eq!(
            message(|c| c.connection.url = format!("{URL};Connect Timeout=31").into()),
            "connection.connect_timeout_ms is 31000; it must be at most worker.lease_ms (30000)"
        );
        assert!(message(|c| c.worker.retry.base_ms = 4_000_000).contains("at most worker.retry.max_ms"));
        assert!(message(|c| c.worker.buffer = 20_000).contains("at most worker.max_in_flight (10000)"));
        assert!(message(|c| c.worker.max_in_flight = 100).contains("worker.batch_size is 500"));
        assert!(message(|c| c.queue.name = " ".into()).contains("queue.name is ' '"));
        assert!(
            message(|c| c.metrics.listen = "9464".into()).contains("metrics.listen is '9464'; it must be empty, or")
        );
        assert!(message(|c| c.connection.packet_size = 32_767).contains("512 to 16383"));
    }

    #[test]
    fn a_schema_is_a_plain_name() {
        for good in ["readpast", "_x", "Jobs_2"] {
            check_schema(good).unwrap();
        }
        for bad in ["", "2x", "a-b", "a]b", "a b", "order", "USER", "ü", &"x".repeat(101)] {
            assert!(check_schema(bad).is_err(), "{bad}");
        }
    }

    /// One row of the README's table.
    struct Row {
        key: String,
        default: String,
        effect: String,
    }

    /// Reads the rows from the comments of this file.
    fn documented() -> Vec<Row> {
        let sections = [
            ("ConnectionConfig", "connection"),
            ("QueueConfig", "queue"),
            ("WorkerConfig", "worker"),
            ("RetryConfig", "worker.retry"),
            ("MetricsConfig", "metrics"),
        ];
        let mut rows = Vec::new();
        let mut section = None;
        let mut comment: Vec<&str> = Vec::new();
        for line in include_str!("config.rs").lines() {
            if let Some(name) = line.strip_prefix("pub struct ") {
                section = sections.iter().find(|(of, _)| name.starts_with(of)).map(|(_, section)| *section);
            } else if line == "}" {
                section = None;
            } else if let Some(text) = line.strip_prefix("    ///") {
                comment.push(text.trim());
            } else if let Some((field, kind)) = line.strip_prefix("    pub ").and_then(|field| field.split_once(": ")) {
                let text = comment.join(" ");
                comment.clear();
                if let Some(section) = section.filter(|_| !kind.ends_with("Config,")) {
                    let (effect, rest) = text.split_once(" Default: ").expect("each field has a default");
                    let (default, range) = rest.split_once(". Range: ").expect("each field has a range");
                    let effect = effect.trim_end().replace("[`ConnectionString`]", "`ConnectionString`");
                    rows.push(Row {
                        key: format!("{section}.{field}"),
                        default: default.to_string(),
                        effect: format!("{effect} Range: {range}"),
                    });
                }
            } else {
                comment.clear();
            }
        }
        rows
    }

    #[test]
    fn every_comment_names_the_default_that_holds() {
        let annotated = settings();
        for row in documented() {
            let setting =
                annotated.iter().find(|setting| setting.path.join(".") == row.key).expect("each key is in the file");
            let default = match &setting.default {
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
    fn the_readme_has_the_table_of_all_settings() {
        let rows: Vec<String> =
            documented().iter().map(|row| format!("| `{}` | {} | {} |", row.key, row.default, row.effect)).collect();
        let table = format!("| key | default | what it does |\n|---|---|---|\n{}\n", rows.join("\n"));
        let readme = include_str!("../README.md");
        assert!(readme.contains(&table), "README.md must have this table:\n{table}");
    }
}
