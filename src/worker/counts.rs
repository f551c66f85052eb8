//! What a worker holds and has done: one set of counters, written by the stages and read by everybody else.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::occupancy::Limit;

/// The counters behind [`WorkerStats`].
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Claimed jobs that have not started.
    pub(crate) unstarted: AtomicUsize,
    pub(crate) running: AtomicUsize,
    /// Ended jobs that SQL Server has not confirmed.
    pub(crate) awaiting_finish: AtomicUsize,
    /// Payloads and outputs of all these; [`Held`](super::held::Held) alone writes it.
    pub(super) held_bytes: AtomicUsize,
    pub(crate) done: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) overdue: AtomicU64,
    /// Run times so far, from which the prefetcher learns how fast jobs go.
    pub(crate) ended_jobs: AtomicU64,
    pub(crate) ended_ns: AtomicU64,
    /// All outputs so far, from which it learns how much room a job's takes.
    pub(crate) output_bytes: AtomicU64,
    pub(crate) last_claim_succeeded: AtomicBool,
}

/// Run times since the worker started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunTimes {
    pub(crate) jobs: u64,
    pub(crate) total: Duration,
    pub(crate) output_bytes: u64,
}

/// What a worker holds and has done, and how it is, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Claimed jobs that have not started.
    pub buffered: usize,
    /// Jobs that run.
    pub running: usize,
    /// Ended jobs that SQL Server has not confirmed yet.
    pub awaiting_finish: usize,
    /// Bytes of payloads and outputs of all these: the payload until the handler has returned, the output until it is confirmed.
    pub held_bytes: usize,
    /// Jobs that are done and confirmed.
    pub done: u64,
    /// Failed attempts that were confirmed and will be repeated.
    pub retried: u64,
    /// Jobs that are dead and confirmed.
    pub dead: u64,
    /// Unstarted jobs that were given back.
    pub released: u64,
    /// Jobs that were no longer this worker's when they ended or were to start: its lease had run out, and they were given to others.
    pub lost: u64,
    /// Jobs that were seen to run longer than `worker.job_time_limit_ms`.
    pub overdue: u64,
    /// What limited the worker in the last seconds.
    pub limited_by: Limit,
    /// Whether SQL Server certainly believes the worker alive. False from when it is told to stop.
    pub lease_held: bool,
    /// Whether the last claim was answered, with jobs or without. False before the first.
    pub last_claim_succeeded: bool,
}

impl Counts {
    /// Claimed jobs that have not started.
    pub(crate) fn unstarted(&self) -> usize {
        self.unstarted.load(Ordering::Acquire)
    }

    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Ended jobs that SQL Server has not confirmed.
    pub(crate) fn awaiting_finish(&self) -> usize {
        self.awaiting_finish.load(Ordering::Acquire)
    }

    /// Everything that this process holds.
    pub(crate) fn in_flight(&self) -> usize {
        self.unstarted() + self.running() + self.awaiting_finish()
    }

    /// Payloads and outputs of everything that this process holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn run_times(&self) -> RunTimes {
        RunTimes {
            jobs: self.ended_jobs.load(Ordering::Relaxed),
            total: Duration::from_nanos(self.ended_ns.load(Ordering::Relaxed)),
            output_bytes: self.output_bytes.load(Ordering::Relaxed),
        }
    }

    /// The counts alone.
    pub(crate) fn stats(&self) -> WorkerStats {
        WorkerStats {
            buffered: self.unstarted(),
            running: self.running(),
            awaiting_finish: self.awaiting_finish(),
            held_bytes: self.held_bytes(),
            done: self.done.load(Ordering::Relaxed),
            retried: self.retried.load(Ordering::Relaxed),
            dead: self.dead.load(Ordering::Relaxed),
            released: self.released.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            overdue: self.overdue.load(Ordering::Relaxed),
            ..WorkerStats::default()
        }
    }
}
