//! Section `worker`.

use std::borrow::Cow;
use std::time::Duration;

use crate::error::Error;
use crate::text::MAX_NAME_UNITS;
use crate::time::TEN_YEARS;

use super::connection::Timeouts;
use super::range_checks::{check_time_at_most, refused};
use super::resources::ResourcesConfig;
use super::settings_table::{Section, Table, check, defaults};

/// Which attempts' logs stay ([`Context::log`](crate::Context::log)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeepLog {
    /// Those of failed attempts.
    #[default]
    Failed,
    /// Those of all attempts. A queue that deletes its done jobs also deletes their logs.
    All,
    /// None. Running jobs show no log either.
    None,
}

/// Section `worker`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WorkerConfig {
    /// Worker name in the `workers` table and in error messages; the same at each start. Empty: the host name.
    ///
    /// Default: empty. Allowed: at most 128 characters. Key: `worker.name`.
    pub name: String,

    /// Jobs that run at the same time, one thread each. 0: one per core.
    ///
    /// Default: 0. Allowed: 0 to 1024 threads. Key: `worker.threads`.
    pub threads: usize,

    /// Maximum number of jobs per claim. Larger batches make claims of short jobs cheaper.
    ///
    /// Default: 500 jobs. Allowed: 1 to 1000 jobs. Key: `worker.batch_size`.
    pub batch_size: usize,

    /// Claimed jobs waiting for a thread. 0: derived from measured run and claim times, so that long jobs are
    /// left to other workers and short ones arrive in full batches.
    ///
    /// Default: 0. Allowed: 0 to 1000000 jobs. Key: `worker.buffer`.
    pub buffer: usize,

    /// Maximum number of jobs held by this process: unstarted, running, or run but not yet finished in SQL Server.
    /// Bounds memory and what repeats after a crash.
    ///
    /// Default: 10000 jobs. Allowed: 1 to 1000000 jobs. Key: `worker.max_in_flight`.
    pub max_in_flight: usize,

    /// Maximum number of bytes of payloads, checkpoints and outputs held by this process. A claim never brings more
    /// payloads than fit, and no job starts while its output may not fit; one job is always allowed, however large. A
    /// job that does not fit stays first in the queue until it fits; meanwhile the jobs behind it wait and pass it in
    /// turns. The driver needs memory for two more copies of the largest output.
    ///
    /// Default: 256 MiB. Allowed: 1 MiB to 1 TiB. Key: `worker.max_in_flight_bytes`.
    pub max_in_flight_bytes: u64,

    /// Jobs handed to the thread pool beyond the running ones, so that no thread waits for the next. 0: one per
    /// thread.
    ///
    /// Default: 0. Allowed: 0 to 1024 jobs. Key: `worker.look_ahead`.
    pub look_ahead: usize,

    /// Shortest delay between polls of an empty queue, for a worker that is the only idle one in the database. Raise it
    /// if 60 polls a second are too many for the server. Only with a shorter `poll_max_ms` does SQL Server poll more
    /// often: up to 100 times a second.
    ///
    /// Default: 16 ms. Allowed: 1 ms to 1 min. Key: `worker.poll_min_ms`.
    pub poll_min: Duration,

    /// Longest delay between polls of an empty queue: how long a job enqueued by another process may go unnoticed. SQL
    /// Server polls on behalf of idle workers, as many as `waiting_sessions` allows, inside a waiting call; the other
    /// workers poll every ten seconds. The only idle worker of a database polls every 16 ms (`poll_min_ms`); each
    /// further one adds 20 ms to the delay of all. Below 16 ms, lower `poll_min_ms`, too.
    ///
    /// Default: 200 ms. Allowed: 1 ms to 1 h. Key: `worker.poll_max_ms`.
    pub poll_max: Duration,

    /// Maximum idle workers that wait in SQL Server, for all queues and schemas of the database together; one queue may
    /// use half of them. Each holds a worker thread of SQL Server. 0: as many as the server can spare, which is 64,
    /// fewer if `max worker threads` is set below 256, and 6 to 50 in Azure SQL Database, depending on the service
    /// objective.
    ///
    /// Default: 0. Allowed: 0 to 1000 sessions. Key: `worker.waiting_sessions`.
    pub waiting_sessions: usize,

    /// How often one worker of the queue makes due jobs ready: how late a delayed job or a retry may start.
    ///
    /// Default: 1 s. Allowed: 10 ms to 1 s. Key: `worker.promote_interval_ms`.
    pub promote_interval: Duration,

    /// How often jobs of workers with expired leases are returned to the queue.
    ///
    /// Default: 5 s. Allowed: 100 ms to 1 h. Key: `worker.reap_interval_ms`.
    pub reap_interval: Duration,

    /// How often one of the queue's workers samples its depth for metrics and history.
    ///
    /// Default: 10 s. Allowed: 1 s to 1 h. Key: `worker.sample_interval_ms`.
    pub sample_interval: Duration,

    /// How long SQL Server considers this worker alive after its last heartbeat. Longer: jobs of a crashed
    /// worker wait longer. Shorter: a worker whose network hangs that long loses its jobs to others.
    ///
    /// Default: 30 s. Allowed: 1 s to 1 d. Key: `worker.lease_ms`.
    pub lease: Duration,

    /// How often the lease is renewed. Less than half of `lease_ms`, so that one renewal may fail.
    ///
    /// Default: 10 s. Allowed: 100 ms to 12 h. Key: `worker.heartbeat_interval_ms`.
    pub heartbeat_interval: Duration,

    /// At startup, take the jobs of an earlier worker of the same name immediately instead of waiting for its
    /// lease to expire. Only if no two processes share a name. (Workers registered by another login are left
    /// alone.)
    ///
    /// Default: `false`. Allowed: true or false. Key: `worker.take_over`.
    pub take_over: bool,

    /// Maximum number of jobs per finish call.
    ///
    /// Default: 500 jobs. Allowed: 1 to 1000 jobs. Key: `worker.finish_batch_size`.
    pub finish_batch_size: usize,

    /// How long a finish call waits for more jobs.
    ///
    /// Default: 50 ms. Allowed: 0 to 10 s. Key: `worker.finish_linger_ms`.
    pub finish_linger: Duration,

    /// Time limit of a run. After it, the handler is told that the job is cancelled, and must check for it; the
    /// job is logged and counted. 0: none. A job's own limit takes precedence over that of its kind, and both
    /// over this one.
    ///
    /// Default: 0. Allowed: 0 to 1 d. Key: `worker.job_time_limit_ms`.
    pub job_time_limit: Duration,

    /// How long a worker postpones a job for whose kind it has no handler, or which needs more than the worker has,
    /// without using up an attempt, so that another worker can claim it: during a rolling deployment, workers with and
    /// without the handler claim from one queue. Reduced by up to half at random.
    ///
    /// Default: 10 s. Allowed: 100 ms to 1 h. Key: `worker.unknown_kind_delay_ms`.
    pub unknown_kind_delay: Duration,

    /// How long a worker postpones a job for whose kind it has no handler, or which needs more than the worker has,
    /// counted from the first time; then the job is dead. Each worker has its own count, which starts again when the
    /// worker restarts: if all restart more often, such jobs stay. The default is one day. In a queue with delivery
    /// `at_most_once` the job becomes dead immediately.
    ///
    /// Default: 1 d. Allowed: 0 to 3650 d. Key: `worker.unknown_kind_keep_ms`.
    pub unknown_kind_keep: Duration,

    /// How long a shutdown waits for running jobs. Jobs that still run after that are cancelled and released, without
    /// using up an attempt. That takes at most 4 s, so the default fits the 30 s that containers are given.
    ///
    /// Default: 25 s. Allowed: 0 to 1 d. Key: `worker.shutdown_deadline_ms`.
    pub shutdown_deadline: Duration,

    /// Resident memory of this process above which the worker stops gracefully, for handlers that leak. Checked every
    /// second. The worker's summary then has `recycled`, and `readpast work` exits with code 11, so that a new process
    /// is started. 0: never. Other values need Linux.
    ///
    /// Default: 0. Allowed: 0 to 1 TiB. Key: `worker.recycle_above`.
    pub recycle_above: u64,

    /// Which attempts' logs are kept for `readpast job ID --log` and the web UI: `failed`, `all` or `none`. Logs of
    /// successful attempts are kept only with `all`. A queue that deletes its done jobs also deletes their logs. With
    /// `none`, running jobs show no log either.
    ///
    /// Default: `failed`. Allowed: `failed` or `all` or `none`. Key: `worker.keep_log`.
    pub keep_log: KeepLog,

    /// How much of each attempt's log is kept: its end.
    ///
    /// Default: 16384 bytes. Allowed: 1024 to 65536 bytes. Key: `worker.log_bytes`.
    pub log_bytes: u64,

    /// Delays of retries.
    pub retry: RetryConfig,

    /// What the worker has for jobs that state their needs.
    pub resources: ResourcesConfig,
}

/// Delays of retries: section `worker.retry`. The delay is `base_ms`, doubled with each attempt up to `max_ms`, reduced
/// by up to a quarter at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryConfig {
    /// The delay after the first attempt.
    ///
    /// Default: 1 s. Allowed: 0 to 3650 d. Key: `worker.retry.base_ms`.
    pub base: Duration,

    /// The longest delay.
    ///
    /// Default: 1 h. Allowed: 0 to 3650 d. Key: `worker.retry.max_ms`.
    pub max: Duration,
}

impl Default for WorkerConfig {
    fn default() -> WorkerConfig {
        defaults()
    }
}

impl Section for WorkerConfig {
    fn rows(table: &mut Table<'_, WorkerConfig>) -> WorkerConfig {
        WorkerConfig {
            name: table.text("worker.name", |worker| &worker.name, "", "at most 128 characters", is_name),
            threads: table.count("worker.threads", |worker| worker.threads, 0, 0..=1_024, "threads"),
            batch_size: table.count("worker.batch_size", |worker| worker.batch_size, 500, 1..=1_000, "jobs"),
            buffer: table.rare().count("worker.buffer", |worker| worker.buffer, 0, 0..=MAX_IN_FLIGHT, "jobs"),
            max_in_flight: table.count(
                "worker.max_in_flight",
                |worker| worker.max_in_flight,
                10_000,
                1..=MAX_IN_FLIGHT,
                "jobs",
            ),
            max_in_flight_bytes: table.bytes(
                "worker.max_in_flight_bytes",
                |worker| worker.max_in_flight_bytes,
                256 << 20,
                1 << 20..=1 << 40,
            ),
            look_ahead: table.rare().count("worker.look_ahead", |worker| worker.look_ahead, 0, 0..=1_024, "jobs"),
            poll_min: table.rare().time("worker.poll_min_ms", |worker| worker.poll_min, 16, 1..=60_000),
            poll_max: table.time("worker.poll_max_ms", |worker| worker.poll_max, 200, 1..=3_600_000),
            waiting_sessions: table.rare().count(
                "worker.waiting_sessions",
                |worker| worker.waiting_sessions,
                0,
                0..=1_000,
                "sessions",
            ),
            promote_interval: table.rare().time(
                "worker.promote_interval_ms",
                |worker| worker.promote_interval,
                1_000,
                10..=1_000,
            ),
            reap_interval: table.rare().time(
                "worker.reap_interval_ms",
                |worker| worker.reap_interval,
                5_000,
                100..=3_600_000,
            ),
            sample_interval: table.rare().time(
                "worker.sample_interval_ms",
                |worker| worker.sample_interval,
                10_000,
                1_000..=3_600_000,
            ),
            lease: table.time("worker.lease_ms", |worker| worker.lease, 30_000, 1_000..=DAY_MS),
            heartbeat_interval: table.time(
                "worker.heartbeat_interval_ms",
                |worker| worker.heartbeat_interval,
                10_000,
                100..=DAY_MS / 2,
            ),
            take_over: table.truth("worker.take_over", |worker| worker.take_over, false),
            finish_batch_size: table.rare().count(
                "worker.finish_batch_size",
                |worker| worker.finish_batch_size,
                500,
                1..=1_000,
                "jobs",
            ),
            finish_linger: table.rare().time("worker.finish_linger_ms", |worker| worker.finish_linger, 50, 0..=10_000),
            job_time_limit: table.time("worker.job_time_limit_ms", |worker| worker.job_time_limit, 0, 0..=DAY_MS),
            unknown_kind_delay: table.rare().time(
                "worker.unknown_kind_delay_ms",
                |worker| worker.unknown_kind_delay,
                10_000,
                100..=3_600_000,
            ),
            unknown_kind_keep: table.rare().time(
                "worker.unknown_kind_keep_ms",
                |worker| worker.unknown_kind_keep,
                DAY_MS,
                0..=TEN_YEARS_MS,
            ),
            shutdown_deadline: table.time(
                "worker.shutdown_deadline_ms",
                |worker| worker.shutdown_deadline,
                25_000,
                0..=DAY_MS,
            ),
            recycle_above: table.rare().bytes("worker.recycle_above", |worker| worker.recycle_above, 0, 0..=1 << 40),
            keep_log: table.word(
                "worker.keep_log",
                |worker| worker.keep_log,
                &[("failed", KeepLog::Failed), ("all", KeepLog::All), ("none", KeepLog::None)],
            ),
            log_bytes: table.rare().bytes("worker.log_bytes", |worker| worker.log_bytes, 16 << 10, 1 << 10..=64 << 10),
            retry: table.part(|worker| &worker.retry),
            resources: table.part(|worker| &worker.resources),
        }
    }
}

impl Default for RetryConfig {
    fn default() -> RetryConfig {
        defaults()
    }
}

impl Section for RetryConfig {
    fn rows(table: &mut Table<'_, RetryConfig>) -> RetryConfig {
        RetryConfig {
            base: table.time("worker.retry.base_ms", |retry| retry.base, 1_000, 0..=TEN_YEARS_MS),
            max: table.time("worker.retry.max_ms", |retry| retry.max, 3_600_000, 0..=TEN_YEARS_MS),
        }
    }
}

const MAX_IN_FLIGHT: u64 = 1_000_000;

const DAY_MS: u64 = 86_400_000;

const TEN_YEARS_MS: u64 = TEN_YEARS.as_secs() * 1_000;

fn is_name(name: &str) -> bool {
    name.encode_utf16().count() <= MAX_NAME_UNITS
}

impl WorkerConfig {
    pub(crate) fn validate(&self) -> Result<(), Error> {
        check(self)?;
        self.resources.validate()?;
        check_time_at_most("worker.poll_min_ms", self.poll_min, "worker.poll_max_ms", self.poll_max)?;
        check_time_at_most("worker.retry.base_ms", self.retry.base, "worker.retry.max_ms", self.retry.max)?;
        if self.heartbeat_interval * 2 >= self.lease {
            return Err(refused(
                "worker.heartbeat_interval_ms",
                self.heartbeat_interval.as_millis(),
                format!("less than half of worker.lease_ms ({})", self.lease.as_millis()),
            ));
        }
        if cfg!(not(target_os = "linux")) && self.recycle_above > 0 {
            return Err(refused("worker.recycle_above", self.recycle_above, "0 on systems other than Linux"));
        }
        Ok(())
    }

    /// Checks the connection's timeouts against the lease. If a claim gets no response, its jobs are released after the
    /// command timeout. If that were longer than the lease, jobs would wait longer for a worker with a bad network than
    /// for a dead one. And if a connection takes longer to open than the lease lasts, the worker cannot keep its lease.
    pub(crate) fn check_timeouts(&self, timeouts: Timeouts) -> Result<(), Error> {
        for (key, timeout) in
            [("connection.connect_timeout_ms", timeouts.connect), ("connection.command_timeout_ms", timeouts.command)]
        {
            check_time_at_most(key, timeout, "worker.lease_ms", self.lease)?;
        }
        Ok(())
    }

    pub(crate) fn worker_name(&self) -> Cow<'_, str> {
        if !self.name.is_empty() {
            return Cow::Borrowed(&self.name);
        }
        let host = hostname::get().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if host.is_empty() { Cow::Borrowed("unnamed") } else { Cow::Owned(host) }
    }
}
