//! The counts of a worker since its start. The stages update them, and the stats, the demand and the bottleneck are
//! computed from them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::procedures::worker::Worked;
use crate::time::{BUCKETS, DurationHistogram, bucket};

use super::worker_stats::WorkerStats;

#[derive(Debug, Default)]
pub(in crate::worker) struct Tally {
    done: AtomicU64,
    retried: AtomicU64,
    snoozed: AtomicU64,
    dead: AtomicU64,
    cancelled: AtomicU64,
    expired: AtomicU64,
    released: AtomicU64,
    lost: AtomicU64,
    overdue: AtomicU64,
    unknown_kind: AtomicU64,
    put_off: AtomicU64,
    waited: TimeCounts,
    ran: TimeCounts,
    ended_ns: AtomicU64,
    last_claim_succeeded: AtomicBool,
    longest_turn_ms: AtomicU64,
    snoozed_at: Mutex<Option<Instant>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(in crate::worker) struct RunTimes {
    pub(in crate::worker) jobs: u64,
    pub(in crate::worker) total: Duration,
}

impl Tally {
    /// Counts a started job that had been due for `waited`.
    pub(in crate::worker) fn started(&self, waited: Duration) {
        self.waited.add(waited);
    }

    /// Counts a run that has ended.
    pub(in crate::worker) fn ran(&self, run: Duration) {
        self.ran.add(run);
        add(&self.ended_ns, run.as_nanos() as u64);
    }

    /// Counts a claimed job that was postponed without a run.
    pub(in crate::worker) fn put_off(&self) {
        add(&self.put_off, 1);
    }

    pub(in crate::worker) fn put_off_jobs(&self) -> u64 {
        read(&self.put_off)
    }

    /// Counts a job that SQL Server confirmed as done.
    pub(in crate::worker) fn done(&self) {
        add(&self.done, 1);
    }

    /// Counts a failed job for which SQL Server confirmed the retry.
    pub(in crate::worker) fn retried(&self) {
        add(&self.retried, 1);
    }

    /// Counts a job that SQL Server confirmed as snoozed: it runs again without using up an attempt.
    pub(in crate::worker) fn snoozed(&self) {
        add(&self.snoozed, 1);
        *self.snoozed_at.lock() = Some(Instant::now());
    }

    /// Records that a job is postponed by `delay`, because the limit of its kind is reached.
    pub(in crate::worker) fn waits_for_its_turn(&self, delay: Duration) {
        self.longest_turn_ms.fetch_max(delay.as_millis() as u64, Ordering::Relaxed);
    }

    /// The time until every job postponed because of its kind's limit is due, or zero if there are none. It is counted
    /// from the last confirmation, slightly after SQL Server's own delay began.
    pub(in crate::worker) fn turns_in(&self) -> Duration {
        let longest = Duration::from_millis(self.longest_turn_ms.load(Ordering::Relaxed));
        let snoozed_at = *self.snoozed_at.lock();
        snoozed_at.map_or(Duration::ZERO, |at| longest.saturating_sub(at.elapsed()))
    }

    /// Counts a job that SQL Server confirmed as dead.
    pub(in crate::worker) fn dead(&self) {
        add(&self.dead, 1);
    }

    /// Counts jobs that SQL Server has cancelled because they expired.
    pub(in crate::worker) fn expired(&self, jobs: u64) {
        add(&self.expired, jobs);
    }

    /// Counts a job that SQL Server confirmed as finished, with a requested cancellation and without being done.
    pub(in crate::worker) fn cancelled(&self) {
        add(&self.cancelled, 1);
    }

    pub(in crate::worker) fn released(&self, jobs: u64) {
        add(&self.released, jobs);
    }

    /// Counts jobs that no longer belonged to this worker.
    pub(in crate::worker) fn lost(&self, jobs: u64) {
        add(&self.lost, jobs);
    }

    /// Counts a job that exceeded its time limit.
    pub(in crate::worker) fn overdue(&self) {
        add(&self.overdue, 1);
    }

    /// Counts a job whose kind has no handler.
    pub(in crate::worker) fn unknown_kind(&self) {
        add(&self.unknown_kind, 1);
    }

    /// Records whether the last claim was answered or failed.
    pub(in crate::worker) fn claimed(&self, succeeded: bool) {
        self.last_claim_succeeded.store(succeeded, Ordering::Release);
    }

    /// The run times, from which the prefetcher learns the speed of the jobs.
    pub(in crate::worker) fn run_times(&self) -> RunTimes {
        RunTimes { jobs: self.ran.read().count(), total: Duration::from_nanos(read(&self.ended_ns)) }
    }

    /// The counts for the heartbeat.
    pub(in crate::worker) fn worked(&self) -> Worked {
        let dead = read(&self.dead);
        Worked {
            done: read(&self.done),
            failed: read(&self.retried) + dead,
            dead,
            wait: self.waited.read(),
            run: self.ran.read(),
        }
    }

    /// The counts; all other fields have their defaults.
    pub(in crate::worker) fn stats(&self) -> WorkerStats {
        WorkerStats {
            done: read(&self.done),
            retried: read(&self.retried),
            snoozed: read(&self.snoozed),
            dead: read(&self.dead),
            cancelled: read(&self.cancelled),
            expired: read(&self.expired),
            released: read(&self.released),
            lost: read(&self.lost),
            overdue: read(&self.overdue),
            unknown_kind: read(&self.unknown_kind),
            last_claim_succeeded: self.last_claim_succeeded.load(Ordering::Acquire),
            ..WorkerStats::default()
        }
    }
}

fn add(sum: &AtomicU64, more: u64) {
    sum.fetch_add(more, Ordering::Relaxed);
}

fn read(sum: &AtomicU64) -> u64 {
    sum.load(Ordering::Relaxed)
}

/// Counts that only grow, with one addition per job.
#[derive(Debug, Default)]
pub(crate) struct TimeCounts([AtomicU64; BUCKETS]);

impl TimeCounts {
    pub(crate) fn add(&self, time: Duration) {
        self.0[bucket(time)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> DurationHistogram {
        DurationHistogram::of(std::array::from_fn(|bucket| self.0[bucket].load(Ordering::Relaxed)))
    }
}
