//! The definitions of all metrics.

use std::sync::OnceLock;

/// A metric's unit, from the [`metrics`](https://docs.rs/metrics) facade.
pub use metrics::Unit;
use metrics::{Counter, Gauge, IntoF64, Key, Label, Level, Metadata, Recorder, with_recorder};

use super::labels::{
    BY_DUTY, BY_ERROR, BY_KIND, BY_KIND_AND_OUTCOME, BY_LIMIT, BY_PROCEDURE, BY_REASON, BY_STATE, Labels, QUEUE,
};

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A value that only grows while its process runs.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution in fixed buckets. Never a summary, because quantiles cannot be added up across processes.
    Histogram,
}

/// The definition of a metric.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Metric {
    /// The metric's name in Prometheus.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// A base unit: seconds, bytes, a count, or a ratio from 0 to 1 (`Percent`).
    pub unit: Unit,
    /// The label `queue` first, then the others with all their values.
    pub labels: &'static [(&'static str, &'static [&'static str])],
    /// The metric's meaning.
    pub help: &'static str,
    /// The upper bounds of a histogram's buckets; empty for other kinds.
    pub buckets: &'static [f64],
}

/// Calls: half a millisecond is a round trip in one rack, 30 s is twice the default command timeout.
const CALL_BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Jobs: ten microseconds to an hour.
const RUN_BUCKETS: &[f64] =
    &[0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0];

/// CPU time: from the shortest measured run, a millisecond, to a day.
const CPU_BUCKETS: &[f64] =
    &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0];

/// Memory of a job: 4 MiB to 256 GiB, each twice or four times the one before.
const MEMORY_BUCKETS: &[f64] = &[
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    134_217_728.0,
    268_435_456.0,
    536_870_912.0,
    1_073_741_824.0,
    2_147_483_648.0,
    4_294_967_296.0,
    8_589_934_592.0,
    17_179_869_184.0,
    34_359_738_368.0,
    68_719_476_736.0,
    274_877_906_944.0,
];

/// Waiting in memory: a tenth of a millisecond to ten minutes.
const WAIT_BUCKETS: &[f64] = &[0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 600.0];

/// From enqueue to finish: five milliseconds to a day.
const AGE_BUCKETS: &[f64] =
    &[0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0];

/// Batches: up to the maximum of 1,000.
const BATCH_BUCKETS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0];

pub(super) const fn counter(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, unit: Unit::Count, labels, help, buckets: &[] }
}

pub(super) const fn jobs(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit: Unit::Count, labels, help, buckets: &[] }
}

const fn bytes(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit: Unit::Bytes, labels, help, buckets: &[] }
}

pub(super) const fn age(name: &'static str, labels: Labels, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit: Unit::Seconds, labels, help, buckets: &[] }
}

const fn times(name: &'static str, labels: Labels, buckets: &'static [f64], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, unit: Unit::Seconds, labels, help, buckets }
}

const fn batches(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, unit: Unit::Count, labels: QUEUE, help, buckets: BATCH_BUCKETS }
}

pub(super) const ENQUEUED_JOBS: Metric =
    counter("readpast_enqueued_jobs_total", QUEUE, "Jobs that this process enqueued");

pub(super) const ENQUEUE_DUPLICATES: Metric = counter(
    "readpast_enqueue_duplicates_total",
    QUEUE,
    "Jobs that were not enqueued, because an unfinished job had the same deduplication key",
);

pub(super) const ENQUEUE_SECONDS: Metric = times(
    "readpast_enqueue_seconds",
    QUEUE,
    CALL_BUCKETS,
    "How long an enqueue took: one call, with one job or one chunk of many",
);

pub(super) const ENQUEUE_BATCH_JOBS: Metric = batches("readpast_enqueue_batch_jobs", "Jobs per enqueue");

pub(super) const CLAIMS: Metric = counter("readpast_claims_total", QUEUE, "Claims that SQL Server answered");

pub(super) const CLAIMS_EMPTY: Metric = counter("readpast_claims_empty_total", QUEUE, "Claims that found no job");

pub(super) const CLAIMED_JOBS: Metric = counter("readpast_claimed_jobs_total", QUEUE, "Claimed jobs");

pub(super) const CLAIM_SECONDS: Metric = times("readpast_claim_seconds", QUEUE, CALL_BUCKETS, "How long a claim took");

pub(super) const CLAIM_BATCH_JOBS: Metric =
    batches("readpast_claim_batch_jobs", "Jobs per claim, without empty claims");

pub(super) const BUFFER_JOBS: Metric = jobs("readpast_buffer_jobs", QUEUE, "Claimed jobs that have not started");

pub(super) const BUFFER_CAPACITY_JOBS: Metric =
    jobs("readpast_buffer_capacity_jobs", QUEUE, "Maximum number of jobs in the buffer");

pub(super) const BUFFER_WAIT_SECONDS: Metric =
    times("readpast_buffer_wait_seconds", QUEUE, WAIT_BUCKETS, "Time from a job's claim to its start");

pub(super) const RELEASED_JOBS: Metric = counter(
    "readpast_released_jobs_total",
    QUEUE,
    "Jobs that were released, without using up an attempt: claimed too far ahead, unstarted at a shutdown, or unfinished at its deadline",
);

pub(super) const RUNNING_JOBS: Metric = jobs("readpast_running_jobs", QUEUE, "Running jobs");

pub(super) const RUN_THREADS: Metric =
    jobs("readpast_run_threads", QUEUE, "Maximum running jobs; 0 after the worker has stopped");

pub(super) const RUN_SECONDS: Metric =
    times("readpast_run_seconds", BY_KIND_AND_OUTCOME, RUN_BUCKETS, "How long the handler ran, by what it returned");

pub(super) const JOB_CPU_SECONDS: Metric = times(
    "readpast_job_cpu_seconds",
    BY_KIND,
    CPU_BUCKETS,
    "CPU time of a run: that of the handler's thread, or as the handler reported it; only runs of a millisecond or more, and reported ones",
);

pub(super) const JOB_PEAK_MEMORY_BYTES: Metric = Metric {
    name: "readpast_job_peak_memory_bytes",
    kind: Kind::Histogram,
    unit: Unit::Bytes,
    labels: BY_KIND,
    help: "Most memory that a run had resident at once; only runs whose handler reported it, as readpast work does",
    buckets: MEMORY_BUCKETS,
};

pub(super) const PANICS: Metric =
    counter("readpast_panics_total", BY_KIND, "Jobs whose handler panicked; they also count as retry");

pub(super) const OVERDUE_JOBS: Metric =
    counter("readpast_overdue_jobs_total", BY_KIND, "Jobs that ran longer than their time limit");

pub(super) const DEFERRED_JOBS: Metric = counter(
    "readpast_deferred_jobs_total",
    BY_REASON,
    "Jobs that were postponed without running and without using up an attempt: the worker has no handler for their kind (unknown_kind), runs the maximum of that kind (kind_limit), has less than they need (too_large), or has it in use (resources)",
);

pub(super) const FINISH_WAITING_JOBS: Metric =
    jobs("readpast_finish_waiting_jobs", QUEUE, "Jobs that have run and that SQL Server has not confirmed yet");

pub(super) const IN_FLIGHT_LIMIT_JOBS: Metric = jobs(
    "readpast_in_flight_limit_jobs",
    QUEUE,
    "worker.max_in_flight: maximum number of jobs that are buffered, running or waiting for their finish",
);

pub(super) const IN_FLIGHT_BYTES: Metric = bytes(
    "readpast_in_flight_bytes",
    QUEUE,
    "Payloads, checkpoints and outputs of jobs that are buffered, running or waiting for their finish",
);

pub(super) const IN_FLIGHT_LIMIT_BYTES: Metric = bytes(
    "readpast_in_flight_limit_bytes",
    QUEUE,
    "worker.max_in_flight_bytes: maximum number of bytes of all jobs in flight",
);

pub(super) const FINISHED_JOBS: Metric = counter(
    "readpast_finished_jobs_total",
    QUEUE,
    "Jobs whose outcome SQL Server has confirmed: done, dead, cancelled, to be retried, moved, snoozed or postponed; in an at_most_once queue, where nothing is confirmed, jobs that have run",
);

pub(super) const FINISH_SECONDS: Metric =
    times("readpast_finish_seconds", QUEUE, CALL_BUCKETS, "How long a finish call took, including retries");

pub(super) const FINISH_BATCH_JOBS: Metric = batches("readpast_finish_batch_jobs", "Jobs per finish call");

pub(super) const FOLLOW_UPS: Metric =
    counter("readpast_follow_ups_total", QUEUE, "Follow-ups enqueued, including duplicates");

pub(super) const REFUSED_RESULTS: Metric = counter(
    "readpast_refused_results_total",
    QUEUE,
    "Jobs whose result the sink rejected, or whose follow-up could not be enqueued; their attempt failed",
);

pub(super) const FINISH_RETRIES: Metric =
    counter("readpast_finish_retries_total", QUEUE, "Finish calls that failed and were retried");

pub(super) const DEAD_JOBS: Metric = counter(
    "readpast_dead_jobs_total",
    QUEUE,
    "Jobs that ran out of attempts or failed for good, including those of reaped workers",
);

pub(super) const CANCELLED_JOBS: Metric = counter(
    "readpast_cancelled_jobs_total",
    QUEUE,
    "Jobs that were cancelled while this worker ran them, and that are not done",
);

pub(super) const EXPIRED_JOBS: Metric = counter(
    "readpast_expired_jobs_total",
    QUEUE,
    "Jobs that this worker did not start, or found not started, in time, and that are cancelled",
);

pub(super) const LOST_JOBS: Metric = counter(
    "readpast_lost_jobs_total",
    QUEUE,
    "Jobs that no longer belonged to this worker when they were to start or had run; they run again elsewhere",
);

pub(super) const JOB_AGE_SECONDS: Metric =
    times("readpast_job_age_seconds", QUEUE, AGE_BUCKETS, "Time from enqueue to finish of a job that is done");

pub(super) const LIMITED_RATIO: Metric = Metric {
    name: "readpast_limited_ratio",
    kind: Kind::Gauge,
    unit: Unit::Percent,
    labels: BY_LIMIT,
    help: "What limited the workers of this process in the last seconds, as fractions of the time that add up to 1: too few jobs (idle), claims (claim), busy threads (busy), finish calls (finish), the queue's limits (queue_limit), the worker's resources (resources) or too little free memory (memory)",
    buckets: &[],
};

pub(super) const LEASE_RENEWALS: Metric = counter("readpast_lease_renewals_total", QUEUE, "Renewals of the lease");

pub(super) const LEASE_AGE_SECONDS: Metric = age(
    "readpast_lease_age_seconds",
    QUEUE,
    "Age of the lease: time since the last confirmed renewal was sent. With several workers, that of the lease closest to expiry",
);

pub(super) const LEASE_SECONDS: Metric =
    age("readpast_lease_seconds", QUEUE, "worker.lease_ms of the same worker: the age at which the lease expires");

pub(super) const DRAINING: Metric = jobs(
    "readpast_draining",
    QUEUE,
    "1 if the worker stops by itself when the queue is empty, or has done so; otherwise 0",
);

pub(super) const LEASES_LOST: Metric =
    counter("readpast_leases_lost_total", QUEUE, "How often SQL Server marked this worker lost");

pub(super) const PROMOTED_JOBS: Metric =
    counter("readpast_promoted_jobs_total", QUEUE, "Scheduled jobs that this worker made ready");

pub(super) const SCHEDULE_FIRES: Metric = counter(
    "readpast_schedule_fires_total",
    QUEUE,
    "Times of schedules that this worker fired: one job each, unless an unfinished job has the same key",
);

pub(super) const SCHEDULE_SKIPS: Metric =
    counter("readpast_schedule_skips_total", QUEUE, "How often a schedule had missed more times than it makes up for");

pub(super) const SCHEDULE_FAILURES: Metric = counter(
    "readpast_schedule_failures_total",
    QUEUE,
    "How often this worker could not fire a schedule; it retries every ten seconds",
);

pub(super) const DUTY_FAILURES: Metric = counter(
    "readpast_duty_failures_total",
    BY_DUTY,
    "How often one of the queue's duties failed in this worker. It is retried, or another worker takes over",
);

pub(super) const REAPED_WORKERS: Metric = counter(
    "readpast_reaped_workers_total",
    QUEUE,
    "Workers that this worker marked lost, because their lease had expired or worker.take_over was set",
);

pub(super) const REAPED_JOBS: Metric =
    counter("readpast_reaped_jobs_total", QUEUE, "Jobs of lost workers that this worker returned to the queue");

pub(super) const CALL_SECONDS: Metric = times(
    "readpast_call_seconds",
    BY_PROCEDURE,
    CALL_BUCKETS,
    "How long a successful call took, including the network",
);

pub(super) const CALL_ERRORS: Metric =
    counter("readpast_call_errors_total", BY_ERROR, "Failed calls, by SQL Server's error number or another cause");

pub(super) const CONNECTIONS: Metric = counter("readpast_connections_total", QUEUE, "Connections opened");

pub(super) const RECONNECTS: Metric =
    counter("readpast_reconnects_total", QUEUE, "Connections that replaced a failed or timed-out one");

pub(super) const QUEUE_JOBS: Metric = jobs(
    "readpast_queue_jobs",
    BY_STATE,
    "Jobs in SQL Server, as last sampled by any worker. Ready jobs are an estimate beyond 10,000 of a priority; the other counts stop at 100,000",
);

pub(super) const QUEUE_OLDEST_READY_SECONDS: Metric = age(
    "readpast_queue_oldest_ready_seconds",
    QUEUE,
    "How long the oldest ready job has been due, since it was enqueued or its delay passed. Returning it to the queue does not restart the time; 0 if no job is ready",
);

pub(super) const QUEUE_OPEN_BATCHES: Metric = jobs(
    "readpast_queue_open_batches",
    QUEUE,
    "Batches with unfinished jobs or not sealed, whose follow-ups go to the queue, as last sampled; stops at 100,000",
);

pub(super) const QUEUE_WORKERS: Metric =
    jobs("readpast_queue_workers", QUEUE, "Workers that hold a lease, as last sampled");

pub(super) const QUEUE_PAUSED: Metric =
    jobs("readpast_queue_paused", QUEUE, "1 while the queue is paused, otherwise 0");

pub(super) const QUEUE_SAMPLE_AGE_SECONDS: Metric =
    age("readpast_queue_sample_age_seconds", QUEUE, "Age of the sample from which the readpast_queue_ metrics come");

/// Stages of a job, with their metrics, as in the documentation and the dashboard.
pub(crate) const STAGES: [(&str, &[Metric]); 9] = [
    ("Enqueue", &[ENQUEUED_JOBS, ENQUEUE_DUPLICATES, ENQUEUE_SECONDS, ENQUEUE_BATCH_JOBS]),
    (
        "Queue",
        &[
            QUEUE_JOBS,
            QUEUE_OLDEST_READY_SECONDS,
            QUEUE_OPEN_BATCHES,
            QUEUE_WORKERS,
            QUEUE_PAUSED,
            QUEUE_SAMPLE_AGE_SECONDS,
            PROMOTED_JOBS,
            SCHEDULE_FIRES,
            SCHEDULE_SKIPS,
            SCHEDULE_FAILURES,
            DUTY_FAILURES,
        ],
    ),
    ("Claim", &[CLAIMS, CLAIMS_EMPTY, CLAIMED_JOBS, CLAIM_SECONDS, CLAIM_BATCH_JOBS]),
    ("Buffer", &[BUFFER_JOBS, BUFFER_CAPACITY_JOBS, BUFFER_WAIT_SECONDS, RELEASED_JOBS]),
    (
        "Run",
        &[
            RUNNING_JOBS,
            RUN_THREADS,
            RUN_SECONDS,
            JOB_CPU_SECONDS,
            JOB_PEAK_MEMORY_BYTES,
            PANICS,
            OVERDUE_JOBS,
            DEFERRED_JOBS,
        ],
    ),
    (
        "Finish",
        &[
            FINISH_WAITING_JOBS,
            IN_FLIGHT_LIMIT_JOBS,
            IN_FLIGHT_BYTES,
            IN_FLIGHT_LIMIT_BYTES,
            FINISHED_JOBS,
            FINISH_SECONDS,
            FINISH_BATCH_JOBS,
            FOLLOW_UPS,
            REFUSED_RESULTS,
            FINISH_RETRIES,
            DEAD_JOBS,
            CANCELLED_JOBS,
            EXPIRED_JOBS,
            LOST_JOBS,
            JOB_AGE_SECONDS,
        ],
    ),
    ("What limits", &[LIMITED_RATIO]),
    ("SQL Server", &[CALL_SECONDS, CALL_ERRORS, CONNECTIONS, RECONNECTS]),
    (
        "Workers",
        &[DRAINING, LEASE_RENEWALS, LEASE_AGE_SECONDS, LEASE_SECONDS, LEASES_LOST, REAPED_WORKERS, REAPED_JOBS],
    ),
];

/// Returns every metric, in the order of a job's stages.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    STAGES.iter().flat_map(|(_, metrics)| metrics.iter())
}

pub(super) const METADATA: Metadata<'static> = Metadata::new("readpast", Level::INFO, Some("readpast"));

impl Metric {
    pub(super) fn key(&self, values: &[&str]) -> Key {
        debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
        // To Prometheus, a label with an empty value does not exist.
        let given = self.labels.iter().zip(values).filter(|(_, value)| !value.is_empty());
        let labels: Vec<Label> = given.map(|((label, _), value)| Label::new(*label, value.to_string())).collect();
        Key::from_parts(self.name, labels)
    }

    fn describe(&self, recorder: &dyn Recorder) {
        let (name, unit, help) = (self.name.into(), Some(self.unit), self.help.into());
        match self.kind {
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram => recorder.describe_histogram(name, unit, help),
        }
    }

    /// `values` are in the order of the labels.
    pub(super) fn counter(&self, values: &[&str]) -> Counter {
        with_recorder(|recorder| recorder.register_counter(&self.key(values), &METADATA))
    }

    pub(super) fn gauge(&self, values: &[&str]) -> Gauge {
        with_recorder(|recorder| recorder.register_gauge(&self.key(values), &METADATA))
    }
}

pub(super) fn describe_all() {
    with_recorder(|recorder| all().for_each(|metric| metric.describe(recorder)));
}

/// A histogram that is registered with its first value. Without a value, it would add some twenty empty lines to every
/// scrape, for each procedure, kind and outcome that never occurs.
#[derive(Debug)]
pub(super) struct Histogram {
    key: Key,
    registered: OnceLock<metrics::Histogram>,
}

impl Histogram {
    pub(super) fn new(metric: &Metric, values: &[&str]) -> Histogram {
        Histogram { key: metric.key(values), registered: OnceLock::new() }
    }

    pub(super) fn record(&self, value: impl IntoF64) {
        let register = || with_recorder(|recorder| recorder.register_histogram(&self.key, &METADATA));
        self.registered.get_or_init(register).record(value);
    }
}
