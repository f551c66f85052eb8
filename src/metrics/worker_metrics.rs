//! The metrics of a worker: its stages, its lease, its duties and each kind of job.

use std::time::Duration;

use metrics::Counter;

use crate::job::{Outcome, Usage};

use super::definitions::{
    BUFFER_WAIT_SECONDS, CANCELLED_JOBS, CLAIM_BATCH_JOBS, CLAIM_SECONDS, CLAIMED_JOBS, CLAIMS, CLAIMS_EMPTY,
    DEAD_JOBS, DEFERRED_JOBS, DUTY_FAILURES, EXPIRED_JOBS, FINISH_BATCH_JOBS, FINISH_RETRIES, FINISH_SECONDS,
    FINISHED_JOBS, FOLLOW_UPS, Histogram, JOB_AGE_SECONDS, JOB_CPU_SECONDS, JOB_PEAK_MEMORY_BYTES, LEASE_RENEWALS,
    LEASES_LOST, LOST_JOBS, OVERDUE_JOBS, PANICS, PROMOTED_JOBS, REAPED_JOBS, REAPED_WORKERS, REFUSED_RESULTS,
    RELEASED_JOBS, RUN_SECONDS, SCHEDULE_FAILURES, SCHEDULE_FIRES, SCHEDULE_SKIPS, describe_all,
};
use super::labels::DUTIES;
use super::worker_levels::{LevelGauges, Scale, WorkerLevels};

/// Metrics of a worker, except those of the single kinds.
#[derive(Debug)]
pub(crate) struct WorkerMetrics {
    claims: Counter,
    claims_empty: Counter,
    claimed_jobs: Counter,
    claim_seconds: Histogram,
    claim_batch_jobs: Histogram,
    buffer_wait: Histogram,
    released_jobs: Counter,
    deferred_unknown_kind: Counter,
    deferred_kind_limit: Counter,
    deferred_too_large: Counter,
    deferred_resources: Counter,
    finished_jobs: Counter,
    finish_seconds: Histogram,
    finish_batch_jobs: Histogram,
    follow_ups: Counter,
    refused_results: Counter,
    pub(crate) finish_retries: Counter,
    pub(crate) dead: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) expired: Counter,
    lost_jobs: Counter,
    job_age: Histogram,
    levels: LevelGauges,
    pub(crate) lease_renewals: Counter,
    pub(crate) leases_lost: Counter,
    pub(crate) promoted: Counter,
    pub(crate) schedule_fires: Counter,
    pub(crate) schedule_skips: Counter,
    pub(crate) schedule_failures: Counter,
    /// One counter for each duty, in the order of [`DUTIES`].
    duty_failures: [Counter; DUTIES.len()],
    reaped_workers: Counter,
    reaped_jobs: Counter,
}

impl WorkerMetrics {
    pub(crate) fn new(queue: &str) -> WorkerMetrics {
        describe_all();
        let own = &[queue];
        WorkerMetrics {
            claims: CLAIMS.counter(own),
            claims_empty: CLAIMS_EMPTY.counter(own),
            claimed_jobs: CLAIMED_JOBS.counter(own),
            claim_seconds: Histogram::new(&CLAIM_SECONDS, own),
            claim_batch_jobs: Histogram::new(&CLAIM_BATCH_JOBS, own),
            buffer_wait: Histogram::new(&BUFFER_WAIT_SECONDS, own),
            released_jobs: RELEASED_JOBS.counter(own),
            deferred_unknown_kind: DEFERRED_JOBS.counter(&[queue, "unknown_kind"]),
            deferred_kind_limit: DEFERRED_JOBS.counter(&[queue, "kind_limit"]),
            deferred_too_large: DEFERRED_JOBS.counter(&[queue, "too_large"]),
            deferred_resources: DEFERRED_JOBS.counter(&[queue, "resources"]),
            finished_jobs: FINISHED_JOBS.counter(own),
            finish_seconds: Histogram::new(&FINISH_SECONDS, own),
            finish_batch_jobs: Histogram::new(&FINISH_BATCH_JOBS, own),
            follow_ups: FOLLOW_UPS.counter(own),
            refused_results: REFUSED_RESULTS.counter(own),
            finish_retries: FINISH_RETRIES.counter(own),
            dead: DEAD_JOBS.counter(own),
            cancelled: CANCELLED_JOBS.counter(own),
            expired: EXPIRED_JOBS.counter(own),
            lost_jobs: LOST_JOBS.counter(own),
            job_age: Histogram::new(&JOB_AGE_SECONDS, own),
            levels: LevelGauges::new(queue),
            lease_renewals: LEASE_RENEWALS.counter(own),
            leases_lost: LEASES_LOST.counter(own),
            promoted: PROMOTED_JOBS.counter(own),
            schedule_fires: SCHEDULE_FIRES.counter(own),
            schedule_skips: SCHEDULE_SKIPS.counter(own),
            schedule_failures: SCHEDULE_FAILURES.counter(own),
            duty_failures: DUTIES.map(|duty| DUTY_FAILURES.counter(&[queue, duty])),
            reaped_workers: REAPED_WORKERS.counter(own),
            reaped_jobs: REAPED_JOBS.counter(own),
        }
    }

    pub(crate) fn begin(&self, scale: Scale) {
        self.levels.begin(scale);
    }

    /// Records that the worker has this many threads from now on.
    pub(crate) fn resized(&self, threads: usize) {
        self.levels.resized(threads);
    }

    /// Records that the worker stops by itself when its queue is empty, so that its absence is no fault.
    pub(crate) fn drains(&self) {
        self.levels.drains();
    }

    /// Removes the levels of the worker, which has stopped. Its process may continue to serve metrics.
    pub(crate) fn end(&self) {
        self.levels.end();
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

    pub(crate) fn started(&self, waited: Duration) {
        self.buffer_wait.record(waited);
    }

    pub(crate) fn deferred_unknown_kind(&self) {
        self.deferred_unknown_kind.increment(1);
    }

    pub(crate) fn deferred_kind_limit(&self) {
        self.deferred_kind_limit.increment(1);
    }

    pub(crate) fn deferred_too_large(&self) {
        self.deferred_too_large.increment(1);
    }

    pub(crate) fn deferred_resources(&self) {
        self.deferred_resources.increment(1);
    }

    /// Records that SQL Server confirmed a job as done. One of the three calls made for each job.
    pub(crate) fn job_done(&self, age: Duration) {
        self.job_age.record(age);
    }

    pub(crate) fn confirmed(&self, jobs: usize, took: Duration) {
        self.finish_seconds.record(took);
        self.finish_batch_jobs.record(jobs as f64);
    }

    pub(crate) fn followed_up(&self, jobs: usize) {
        self.follow_ups.increment(jobs as u64);
    }

    pub(crate) fn refused_results(&self, jobs: usize) {
        self.refused_results.increment(jobs as u64);
    }

    /// Records jobs that are settled: SQL Server has confirmed them, or they have no row.
    pub(crate) fn finished(&self, jobs: usize) {
        self.finished_jobs.increment(jobs as u64);
    }

    pub(crate) fn released(&self, jobs: u64) {
        self.released_jobs.increment(jobs);
    }

    pub(crate) fn levels(&self, levels: &WorkerLevels) {
        self.levels.set(levels);
    }

    pub(crate) fn lost(&self, jobs: usize) {
        self.lost_jobs.increment(jobs as u64);
    }

    /// Records that a duty failed, given by its index in [`DUTIES`].
    pub(crate) fn duty_failed(&self, duty: usize) {
        self.duty_failures[duty].increment(1);
    }

    /// Records lost workers, and jobs of lost workers that are ready again or dead.
    pub(crate) fn reaped(&self, workers: u32, jobs_ready: u32, jobs_dead: u32) {
        self.reaped_workers.increment(u64::from(workers));
        self.reaped_jobs.increment(u64::from(jobs_ready + jobs_dead));
        self.dead.increment(u64::from(jobs_dead));
    }
}

/// Metrics of a worker for each kind with a handler.
#[derive(Debug)]
pub(crate) struct KindMetrics {
    run_done: Histogram,
    run_retry: Histogram,
    run_snooze: Histogram,
    run_moved: Histogram,
    run_dead: Histogram,
    cpu: Histogram,
    peak_memory: Histogram,
    pub(crate) panics: Counter,
    pub(crate) overdue: Counter,
}

impl KindMetrics {
    /// Creates the metrics for one kind. Kinds without a handler of their own share the empty kind.
    pub(crate) fn new(queue: &str, kind: &str) -> KindMetrics {
        let run = |outcome| Histogram::new(&RUN_SECONDS, &[queue, kind, outcome]);
        KindMetrics {
            run_done: run("done"),
            run_retry: run("retry"),
            run_snooze: run("snooze"),
            run_moved: run("moved"),
            run_dead: run("dead"),
            cpu: Histogram::new(&JOB_CPU_SECONDS, &[queue, kind]),
            peak_memory: Histogram::new(&JOB_PEAK_MEMORY_BYTES, &[queue, kind]),
            panics: PANICS.counter(&[queue, kind]),
            overdue: OVERDUE_JOBS.counter(&[queue, kind]),
        }
    }

    pub(crate) fn run_ended(&self, outcome: &Outcome, run: Duration) {
        match outcome {
            Outcome::Done { .. } | Outcome::ByHandler => self.run_done(run),
            Outcome::Retry { .. } => self.run_retry.record(run),
            Outcome::Snooze { .. } => self.run_snooze.record(run),
            Outcome::Move { .. } => self.run_moved.record(run),
            Outcome::Dead { .. } => self.run_dead.record(run),
            Outcome::Expired { .. } => {} // it has not run
        }
    }

    /// Records what a run has used, as far as known.
    pub(crate) fn used(&self, usage: Usage) {
        if let Some(cpu) = usage.cpu {
            self.cpu.record(cpu);
        }
        if let Some(bytes) = usage.peak_memory {
            self.peak_memory.record(bytes as f64);
        }
    }

    /// Records a job that has run and is done. One of the three calls made for each job.
    pub(crate) fn run_done(&self, run: Duration) {
        self.run_done.record(run);
    }
}
