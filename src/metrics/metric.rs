//! The definitions of all metrics.

use std::sync::OnceLock;

/// What a metric counts in, from the [`metrics`](https://docs.rs/metrics) facade.
pub use metrics::Unit;
use metrics::{Counter, Gauge, IntoF64, Key, Label, Level, Metadata, Recorder, with_recorder};

use super::labels::{
    BY_DUTY, BY_ERROR, BY_KIND, BY_KIND_AND_OUTCOME, BY_LIMIT, BY_PROCEDURE, BY_REASON, BY_STATE, Labels, QUEUE,
};

/// What a metric is, for a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Only grows, while its process lives.
    Counter,
    /// A level at this moment.
    Gauge,
    /// A distribution in fixed buckets; never a summary, whose quantiles cannot be added up over processes.
    Histogram,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Metric {
    /// As Prometheus has it.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Always a base unit: seconds, bytes, a count or, as `Percent`, a ratio from 0 to 1.
    pub unit: Unit,
    /// The label `queue` first, then others with all the values that they can have.
    pub labels: &'static [(&'static str, &'static [&'static str])],
    /// What it tells.
    pub help: &'static str,
    /// The upper bounds of a histogram's buckets; empty for the others.
    pub buckets: &'static [f64],
}

/// Calls: half a millisecond is a round trip in one rack, 30 s twice the default command time-out.
const CALL_BUCKETS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Jobs: from ten microseconds to an hour.
const RUN_BUCKETS: &[f64] =
    &[0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0];

/// Waiting in memory: from a tenth of a millisecond to ten minutes.
const WAIT_BUCKETS: &[f64] = &[0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 600.0];

/// From enqueue to acknowledgement: from five milliseconds to a day.
const AGE_BUCKETS: &[f64] =
    &[0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0];

/// Batches: up to the cap of 1,000.
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
    "Jobs that were not enqueued, because an unfinished job had the same de-duplication key",
);

pub(super) const ENQUEUE_SECONDS: Metric = times(
    "readpast_enqueue_seconds",
    QUEUE,
    CALL_BUCKETS,
    "How long an enqueue took: one call, of one job or of one chunk of many",
);

pub(super) const ENQUEUE_BATCH_JOBS: Metric = batches("readpast_enqueue_batch_jobs", "Jobs per enqueue");

pub(super) const CLAIMS: Metric = counter("readpast_claims_total", QUEUE, "Claims that SQL Server answered");

pub(super) const CLAIMS_EMPTY: Metric = counter("readpast_claims_empty_total", QUEUE, "Claims that found no job");

pub(super) const CLAIMED_JOBS: Metric = counter("readpast_claimed_jobs_total", QUEUE, "Claimed jobs");

pub(super) const CLAIM_SECONDS: Metric = times("readpast_claim_seconds", QUEUE, CALL_BUCKETS, "How long a claim took");

pub(super) const CLAIM_BATCH_JOBS: Metric =
    batches("readpast_claim_batch_jobs", "Jobs of a claim; claims that found none are not in it");

pub(super) const BUFFER_JOBS: Metric = jobs("readpast_buffer_jobs", QUEUE, "Claimed jobs that have not started");

pub(super) const BUFFER_CAPACITY_JOBS: Metric =
    jobs("readpast_buffer_capacity_jobs", QUEUE, "Maximum jobs in the buffer");

pub(super) const BUFFER_WAIT_SECONDS: Metric =
    times("readpast_buffer_wait_seconds", QUEUE, WAIT_BUCKETS, "From the claim of a job to its start");

pub(super) const RELEASED_JOBS: Metric = counter(
    "readpast_released_jobs_total",
    QUEUE,
    "Jobs that were given back, their attempt not counted: claimed too far ahead, unstarted at a shutdown, or unacknowledged at its deadline",
);

pub(super) const RUNNING_JOBS: Metric = jobs("readpast_running_jobs", QUEUE, "Jobs that run");

pub(super) const RUN_THREADS: Metric =
    jobs("readpast_run_threads", QUEUE, "How many jobs can run at once; 0 when the worker has ended");

pub(super) const RUN_SECONDS: Metric =
    times("readpast_run_seconds", BY_KIND_AND_OUTCOME, RUN_BUCKETS, "How long the handler ran, by what it returned");

pub(super) const PANICS: Metric =
    counter("readpast_panics_total", BY_KIND, "Jobs whose handler panicked; they count as retry too");

pub(super) const OVERDUE_JOBS: Metric =
    counter("readpast_overdue_jobs_total", BY_KIND, "Jobs that were seen to run longer than their time limit");

pub(super) const DEFERRED_JOBS: Metric = counter(
    "readpast_deferred_jobs_total",
    BY_REASON,
    "Jobs that were put off without a run and without a counted attempt: the worker has no handler for their kind, or runs as many of it as it may",
);

pub(super) const FINISH_WAITING_JOBS: Metric =
    jobs("readpast_finish_waiting_jobs", QUEUE, "Ended jobs that SQL Server has not confirmed yet");

pub(super) const IN_FLIGHT_LIMIT_JOBS: Metric = jobs(
    "readpast_in_flight_limit_jobs",
    QUEUE,
    "worker.max_in_flight: how many jobs may be buffered, running and waiting for their finish together",
);

pub(super) const IN_FLIGHT_BYTES: Metric = bytes(
    "readpast_in_flight_bytes",
    QUEUE,
    "Payloads, checkpoints and outputs of the jobs that are buffered, running and waiting for their finish",
);

pub(super) const IN_FLIGHT_LIMIT_BYTES: Metric = bytes(
    "readpast_in_flight_limit_bytes",
    QUEUE,
    "worker.max_in_flight_bytes: how many bytes the jobs in flight may hold together",
);

pub(super) const FINISHED_JOBS: Metric = counter(
    "readpast_finished_jobs_total",
    QUEUE,
    "Jobs whose end SQL Server has confirmed, however they ended: done, dead, cancelled, to be retried, snoozed or put off; in an at_most_once queue, where nothing is confirmed, jobs that have run",
);

pub(super) const FINISH_SECONDS: Metric =
    times("readpast_finish_seconds", QUEUE, CALL_BUCKETS, "How long a finish call took, repeats included");

pub(super) const FINISH_BATCH_JOBS: Metric = batches("readpast_finish_batch_jobs", "Jobs per finish call");

pub(super) const FOLLOW_UPS: Metric =
    counter("readpast_follow_ups_total", QUEUE, "Jobs enqueued while others were finished, duplicates included");

pub(super) const REFUSED_RESULTS: Metric = counter(
    "readpast_refused_results_total",
    QUEUE,
    "Jobs whose result the queue's sink refused, or whose follow-up could not be enqueued; their attempt has failed",
);

pub(super) const FINISH_RETRIES: Metric =
    counter("readpast_finish_retries_total", QUEUE, "Finish calls that failed and were repeated");

pub(super) const DEAD_JOBS: Metric = counter(
    "readpast_dead_jobs_total",
    QUEUE,
    "Jobs that used up their attempts or failed for good, those of reaped workers included",
);

pub(super) const CANCELLED_JOBS: Metric = counter(
    "readpast_cancelled_jobs_total",
    QUEUE,
    "Jobs that this worker ran and was asked to cancel, and that ended without being done",
);

pub(super) const LOST_JOBS: Metric = counter(
    "readpast_lost_jobs_total",
    QUEUE,
    "Jobs that were no longer this worker's when they ended or were to start: they run again elsewhere",
);

pub(super) const JOB_AGE_SECONDS: Metric = times(
    "readpast_job_age_seconds",
    QUEUE,
    AGE_BUCKETS,
    "End to end: from enqueue to acknowledgement of a job that is done",
);

pub(super) const LIMITED_RATIO: Metric = Metric {
    name: "readpast_limited_ratio",
    kind: Kind::Gauge,
    unit: Unit::Percent,
    labels: BY_LIMIT,
    help: "What limited the workers of this process in the last seconds, as shares of the time that add up to 1: too few jobs (idle), claims, busy threads, acknowledgements (finish) or the queue's own limits",
    buckets: &[],
};

pub(super) const LEASE_RENEWALS: Metric = counter("readpast_lease_renewals_total", QUEUE, "Renewals of the lease");

pub(super) const LEASE_AGE_SECONDS: Metric = age(
    "readpast_lease_age_seconds",
    QUEUE,
    "Since the last renewal of the lease was sent that SQL Server confirmed; of several workers in the process, of the one whose lease is nearest to its end",
);

pub(super) const LEASE_SECONDS: Metric =
    age("readpast_lease_seconds", QUEUE, "worker.lease_ms of the same worker: the age at which the lease runs out");

pub(super) const DRAINING: Metric = jobs(
    "readpast_draining",
    QUEUE,
    "1 where the worker is to end by itself when the queue is empty, and after it has; otherwise 0",
);

pub(super) const LEASES_LOST: Metric =
    counter("readpast_leases_lost_total", QUEUE, "Times that SQL Server declared this worker lost");

pub(super) const PROMOTED_JOBS: Metric =
    counter("readpast_promoted_jobs_total", QUEUE, "Scheduled jobs that this worker made ready");

pub(super) const SCHEDULE_FIRES: Metric = counter(
    "readpast_schedule_fires_total",
    QUEUE,
    "Times of schedules that this worker fired: a job each, unless an unfinished one has the schedule's key",
);

pub(super) const SCHEDULE_SKIPS: Metric = counter(
    "readpast_schedule_skips_total",
    QUEUE,
    "How often this worker found that a schedule had missed more of its times than it makes up for",
);

pub(super) const SCHEDULE_FAILURES: Metric = counter(
    "readpast_schedule_failures_total",
    QUEUE,
    "How often this worker could not fire a schedule, which is tried again every ten seconds",
);

pub(super) const DUTY_FAILURES: Metric = counter(
    "readpast_duty_failures_total",
    BY_DUTY,
    "How often one of the queue's duties failed in this worker. It is tried again, and another worker takes the duties over where one can",
);

pub(super) const REAPED_WORKERS: Metric = counter(
    "readpast_reaped_workers_total",
    QUEUE,
    "Workers that this worker found lost, because their lease had run out or worker.take_over was set",
);

pub(super) const REAPED_JOBS: Metric =
    counter("readpast_reaped_jobs_total", QUEUE, "Jobs of lost workers that this worker returned to the queue");

pub(super) const CALL_SECONDS: Metric = times(
    "readpast_call_seconds",
    BY_PROCEDURE,
    CALL_BUCKETS,
    "How long SQL Server took to answer a call, network included, failed calls not",
);

pub(super) const CALL_ERRORS: Metric = counter(
    "readpast_call_errors_total",
    BY_ERROR,
    "Failed calls, by SQL Server's error number or what else went wrong",
);

pub(super) const CONNECTIONS: Metric = counter("readpast_connections_total", QUEUE, "Connections that were made");

pub(super) const RECONNECTS: Metric =
    counter("readpast_reconnects_total", QUEUE, "Connections that replaced a failed or timed-out one");

pub(super) const QUEUE_JOBS: Metric = jobs(
    "readpast_queue_jobs",
    BY_STATE,
    "Jobs in SQL Server, as last sampled by whichever worker; beyond 10,000 of a priority the ready ones are an estimate, the others stop at 100,000",
);

pub(super) const QUEUE_OLDEST_READY_SECONDS: Metric = age(
    "readpast_queue_oldest_ready_seconds",
    QUEUE,
    "How long ago the ready job that has waited longest was due: enqueued, or at the end of its delay; that it was given back since does not begin it anew; 0 when none is ready",
);

pub(super) const QUEUE_OPEN_BATCHES: Metric = jobs(
    "readpast_queue_open_batches",
    QUEUE,
    "Batches that have not ended and whose follow-ups go to the queue, as last sampled; stops at 100,000",
);

pub(super) const QUEUE_WORKERS: Metric =
    jobs("readpast_queue_workers", QUEUE, "Workers of the queue that hold a lease, as last sampled");

pub(super) const QUEUE_PAUSED: Metric =
    jobs("readpast_queue_paused", QUEUE, "1 while the queue is paused, otherwise 0");

pub(super) const QUEUE_SAMPLE_AGE_SECONDS: Metric = age(
    "readpast_queue_sample_age_seconds",
    QUEUE,
    "How old the sample is from which the readpast_queue_ metrics come",
);

/// A stage of the way of a job, as the documentation and the dashboard have it, and its metrics.
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
    ("Run", &[RUNNING_JOBS, RUN_THREADS, RUN_SECONDS, PANICS, OVERDUE_JOBS, DEFERRED_JOBS]),
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

/// Every metric, in the order in which a job meets them.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    STAGES.iter().flat_map(|(_, metrics)| metrics.iter())
}

pub(super) const METADATA: Metadata<'static> = Metadata::new("readpast", Level::INFO, Some("readpast"));

impl Metric {
    pub(super) fn key(&self, values: &[&str]) -> Key {
        debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
        // To Prometheus a label without a value is no label.
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

    /// The values stand in the order of the labels.
    pub(super) fn counter(&self, values: &[&str]) -> Counter {
        with_recorder(|recorder| recorder.register_counter(&self.key(values), &METADATA))
    }

    pub(super) fn gauge(&self, values: &[&str]) -> Gauge {
        with_recorder(|recorder| recorder.register_gauge(&self.key(values), &METADATA))
    }
}

/// Tells the recorder every metric's unit and help text.
pub(super) fn describe_all() {
    with_recorder(|recorder| all().for_each(|metric| metric.describe(recorder)));
}

/// A histogram that is registered with its first value: without one it would be some twenty lines of every scrape that
/// tell nothing, for each procedure, kind and outcome that does not come up.
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
