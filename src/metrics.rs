//! Every metric of a worker: name, unit and meaning, in one place.
//!
//! They go to whatever recorder the program has installed for the [`metrics`] facade; without one they cost next to nothing. Each has
//! the label `queue`. Times are histograms in seconds.

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::error::Error;
use crate::queue::finish::FinishOutcome;
use crate::worker::WorkerStats;

/// A metric's name, unit and help text.
struct Description {
    name: &'static str,
    unit: Unit,
    help: &'static str,
}

const fn description(name: &'static str, unit: Unit, help: &'static str) -> Description {
    Description { name, unit, help }
}

const COUNTERS: [Description; 12] = [
    description("readpast_claims_total", Unit::Count, "Claims that SQL Server answered"),
    description("readpast_claims_empty_total", Unit::Count, "Claims that found no job"),
    description("readpast_claimed_jobs_total", Unit::Count, "Jobs that were claimed"),
    description("readpast_panics_total", Unit::Count, "Jobs whose handler panicked"),
    description("readpast_finished_jobs_total", Unit::Count, "Jobs that were acknowledged"),
    description("readpast_finish_retries_total", Unit::Count, "Acknowledgements that failed and were repeated"),
    description("readpast_dead_jobs_total", Unit::Count, "Jobs that used up their attempts or failed for good"),
    description(
        "readpast_lost_jobs_total",
        Unit::Count,
        "Jobs that were no longer this worker's when they ended or were to start",
    ),
    description("readpast_lease_renewals_total", Unit::Count, "Renewals of the lease"),
    description("readpast_leases_lost_total", Unit::Count, "Times that SQL Server called this worker lost"),
    description("readpast_promoted_jobs_total", Unit::Count, "Scheduled jobs that this worker made ready"),
    description("readpast_reaped_jobs_total", Unit::Count, "Jobs of lost workers that this worker gave back"),
];

const ERRORS: Description = description(
    "readpast_errors_total",
    Unit::Count,
    "Failed calls, by procedure and SQL Server's error number (0: the connection)",
);

const HISTOGRAMS: [Description; 7] = [
    description("readpast_claim_seconds", Unit::Seconds, "How long a claim took"),
    description("readpast_claim_batch_jobs", Unit::Count, "Jobs of a claim"),
    description("readpast_buffer_wait_seconds", Unit::Seconds, "From the claim of a job to its start"),
    description("readpast_run_seconds", Unit::Seconds, "How long the handler ran, by outcome"),
    description("readpast_finish_seconds", Unit::Seconds, "How long an acknowledgement took, repeats included"),
    description("readpast_finish_batch_jobs", Unit::Count, "Jobs of an acknowledgement"),
    description("readpast_job_age_seconds", Unit::Seconds, "From enqueue to acknowledgement of a job that is done"),
];

const GAUGES: [Description; 3] = [
    description("readpast_buffer_jobs", Unit::Count, "Claimed jobs that have not started"),
    description("readpast_running_jobs", Unit::Count, "Jobs that run"),
    description("readpast_finish_waiting_jobs", Unit::Count, "Ended jobs that are not acknowledged yet"),
];

/// The handles of one worker, registered once.
pub(crate) struct WorkerMetrics {
    queue: String,
    claims: Counter,
    claims_empty: Counter,
    claimed_jobs: Counter,
    claim_seconds: Histogram,
    claim_batch_jobs: Histogram,
    buffer_jobs: Gauge,
    pub(crate) buffer_wait: Histogram,
    running_jobs: Gauge,
    run_done: Histogram,
    run_retry: Histogram,
    run_dead: Histogram,
    pub(crate) panics: Counter,
    finish_waiting_jobs: Gauge,
    finished_jobs: Counter,
    finish_seconds: Histogram,
    finish_batch_jobs: Histogram,
    pub(crate) finish_retries: Counter,
    pub(crate) dead: Counter,
    lost_jobs: Counter,
    pub(crate) lease_renewals: Counter,
    pub(crate) leases_lost: Counter,
    pub(crate) promoted: Counter,
    pub(crate) reaped: Counter,
    pub(crate) job_age_at_end: Histogram,
}

impl WorkerMetrics {
    pub(crate) fn new(queue: &str) -> WorkerMetrics {
        for counter in COUNTERS.iter().chain([&ERRORS]) {
            describe_counter!(counter.name, counter.unit, counter.help);
        }
        for histogram in &HISTOGRAMS {
            describe_histogram!(histogram.name, histogram.unit, histogram.help);
        }
        for gauge in &GAUGES {
            describe_gauge!(gauge.name, gauge.unit, gauge.help);
        }
        let queue = queue.to_owned();
        let of = |name: &'static str| counter!(name, "queue" => queue.clone());
        let times = |name: &'static str| histogram!(name, "queue" => queue.clone());
        let level = |name: &'static str| gauge!(name, "queue" => queue.clone());
        let run =
            |outcome: &'static str| histogram!("readpast_run_seconds", "queue" => queue.clone(), "outcome" => outcome);
        WorkerMetrics {
            claims: of("readpast_claims_total"),
            claims_empty: of("readpast_claims_empty_total"),
            claimed_jobs: of("readpast_claimed_jobs_total"),
            claim_seconds: times("readpast_claim_seconds"),
            claim_batch_jobs: times("readpast_claim_batch_jobs"),
            buffer_jobs: level("readpast_buffer_jobs"),
            buffer_wait: times("readpast_buffer_wait_seconds"),
            running_jobs: level("readpast_running_jobs"),
            run_done: run("done"),
            run_retry: run("retry"),
            run_dead: run("dead"),
            panics: of("readpast_panics_total"),
            finish_waiting_jobs: level("readpast_finish_waiting_jobs"),
            finished_jobs: of("readpast_finished_jobs_total"),
            finish_seconds: times("readpast_finish_seconds"),
            finish_batch_jobs: times("readpast_finish_batch_jobs"),
            finish_retries: of("readpast_finish_retries_total"),
            dead: of("readpast_dead_jobs_total"),
            lost_jobs: of("readpast_lost_jobs_total"),
            lease_renewals: of("readpast_lease_renewals_total"),
            leases_lost: of("readpast_leases_lost_total"),
            promoted: of("readpast_promoted_jobs_total"),
            reaped: of("readpast_reaped_jobs_total"),
            job_age_at_end: times("readpast_job_age_seconds"),
            queue,
        }
    }

    pub(crate) fn claimed(&self, jobs: usize, took: Duration) {
        self.claims.increment(1);
        self.claim_seconds.record(took);
        if jobs == 0 {
            self.claims_empty.increment(1);
            return;
        }
        self.claimed_jobs.increment(jobs as u64);
        self.claim_batch_jobs.record(jobs as f64);
    }

    pub(crate) fn run_ended(&self, outcome: &FinishOutcome, run: Duration) {
        let by_outcome = match outcome {
            FinishOutcome::Done { .. } => &self.run_done,
            FinishOutcome::Retry { .. } => &self.run_retry,
            FinishOutcome::Dead { .. } => &self.run_dead,
        };
        by_outcome.record(run);
    }

    pub(crate) fn finished(&self, jobs: usize, took: Duration) {
        self.finished_jobs.increment(jobs as u64);
        self.finish_seconds.record(took);
        self.finish_batch_jobs.record(jobs as f64);
    }

    pub(crate) fn levels(&self, stats: &WorkerStats) {
        self.buffer_jobs.set(stats.buffered as f64);
        self.running_jobs.set(stats.running as f64);
        self.finish_waiting_jobs.set(stats.awaiting_finish as f64);
    }

    pub(crate) fn lost(&self, jobs: usize) {
        self.lost_jobs.increment(jobs as u64);
    }

    /// Counts a failed call. The labels are bounded: the procedures are ours, the numbers are SQL Server's few transient ones and
    /// whatever ended the worker.
    pub(crate) fn error(&self, procedure: &'static str, error: &Error) {
        let number = error.sql_number().unwrap_or(0).to_string();
        counter!(ERRORS.name, "queue" => self.queue.clone(), "procedure" => procedure, "number" => number).increment(1);
    }
}
