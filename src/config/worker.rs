//! Section `worker`: how a worker works.

use std::borrow::Cow;

use super::connection::Timeouts;
use super::ranges::{check_at_most, check_range, refused, refused_text};
use crate::error::Error;
use crate::maximums::{MAX_NAME_UNITS, TEN_YEARS};

/// How a worker works: section `worker`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
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

    /// The most bytes of payloads, checkpoints and outputs this process holds. A claim never brings more payloads than
    /// fit, and no job starts while its output may not fit; one job is always allowed, however large. A job that does
    /// not fit beside what is held stays first in the queue; while it waits for room, those behind it wait and pass it
    /// in turns. Beside the limit, the driver needs room for two copies of the largest output.
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
    /// unnoticed. SQL Server itself looks, in a call that waits, for as many idle workers as `waiting_sessions` allows;
    /// further ones look every ten seconds. Shorter costs it more index seeks, but no more calls.
    ///
    /// Default: `200`. Range: 1 to 3600000 ms.
    pub poll_max_ms: u64,

    /// How many idle workers wait in SQL Server at once, of all queues and schemas of the database; half of them may be
    /// of one queue. Each holds a worker thread of SQL Server. 0: as many as the server has room for: 64, fewer if `max
    /// worker threads` is set below 256, and 6 to 50 in Azure SQL Database, by the service objective.
    ///
    /// Default: `0`. Range: 0 to 1000 sessions.
    pub waiting_sessions: usize,

    /// How often scheduled jobs whose time has come are made ready, by one worker of the queue: how late a delayed job
    /// or a retry may start.
    ///
    /// Default: `1000`. Range: 10 to 1000 ms.
    pub promote_interval_ms: u64,

    /// How often the jobs of workers whose lease ran out are given back.
    ///
    /// Default: `5000`. Range: 100 to 3600000 ms.
    pub reap_interval_ms: u64,

    /// How often the queue's depth is sampled for the metrics and the history, by one of its workers at a time.
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
    /// run out. Only where no two processes have the same name. (What another login has registered under this name is
    /// left alone.)
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

    /// After this long, a job's handler is told that it is cancelled; it must look. A job that still runs then is
    /// logged and counted. 0: never. A limit of the job's own wins over that of its kind, and both over this one.
    ///
    /// Default: `0`. Range: 0 to 86400000 ms.
    pub job_time_limit_ms: u64,

    /// For how long a worker puts off a job whose kind it has no handler for, without a counted attempt, so that a
    /// worker that knows its kind can have it: while a deployment rolls, both claim from one queue. Less up to half of
    /// it at random.
    ///
    /// Default: `10000`. Range: 100 to 3600000 ms.
    pub unknown_kind_delay_ms: u64,

    /// For how long a worker puts off a job whose kind it has no handler for, from the first time on; then the job is
    /// dead. Each worker has a time of its own, which begins anew when it restarts: where all restart more often than
    /// that, such jobs stay. The default is a day. On a queue with delivery `at_most_once` it is dead at once.
    ///
    /// Default: `86400000`. Range: 0 to 315360000000 ms.
    pub unknown_kind_keep_ms: u64,

    /// How long a shutdown waits for running jobs. Those that still run then are cancelled, and given back at once
    /// without a counted attempt, which takes 4 s at the most: the default ends within the 30 s that containers are
    /// given.
    ///
    /// Default: `25000`. Range: 0 to 86400000 ms.
    pub shutdown_deadline_ms: u64,

    /// When failed jobs are tried again.
    pub retry: RetryConfig,
}

/// When failed jobs are tried again: section `worker.retry`. The delay is `base_ms`, doubled with each attempt up to
/// `max_ms`, less up to a quarter at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
            waiting_sessions: 0,
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
            shutdown_deadline_ms: 25_000,
            retry: RetryConfig::default(),
        }
    }
}

impl Default for RetryConfig {
    fn default() -> RetryConfig {
        RetryConfig { base_ms: 1_000, max_ms: 3_600_000 }
    }
}

/// A day.
const DAY_MS: u64 = 86_400_000;

const TEN_YEARS_MS: u64 = TEN_YEARS.as_secs() * 1_000;

impl WorkerConfig {
    /// Checks this section alone.
    ///
    /// # Errors
    ///
    /// As [`Config::validate`](crate::Config::validate).
    pub fn validate(&self) -> Result<(), Error> {
        if self.name.encode_utf16().count() > MAX_NAME_UNITS {
            return Err(refused_text("worker.name", &self.name, "128 characters at most"));
        }
        check_range("worker.threads", self.threads, 0..=1_024)?;
        check_range("worker.batch_size", self.batch_size, 1..=1_000)?;
        check_range("worker.max_in_flight", self.max_in_flight, 1..=1_000_000)?;
        check_range("worker.max_in_flight_bytes", self.max_in_flight_bytes, 1 << 20..=1 << 40)?;
        check_range("worker.look_ahead", self.look_ahead, 0..=1_024)?;
        check_range("worker.poll_min_ms", self.poll_min_ms, 1..=60_000)?;
        check_range("worker.poll_max_ms", self.poll_max_ms, 1..=3_600_000)?;
        check_range("worker.waiting_sessions", self.waiting_sessions, 0..=1_000)?;
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

    /// Checks the time limits of the connection against the lease. A claim whose answer does not come is noticed after
    /// the command time-out and given back then; if that were longer than the lease, jobs would wait longer for a
    /// worker with a bad network than for a dead one. And a connection that takes longer to make than the lease lasts
    /// cannot keep it.
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
