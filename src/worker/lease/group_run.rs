//! A run: jobs of one group that one claim took, to be run one after the other (sql/229_claim_runs.sql).
//!
//! ```text
//! claim ──▶ Claimed: the first job, and those behind it ──▶ runs, is done ──▶ the next one, and those behind it
//!                                                          └──any other outcome──▶ those behind it are released
//! ```
//!
//! Later jobs run before earlier ones are confirmed. So that no job runs again after a later one was confirmed, a result
//! is sent only in the same call as the earlier ones of its run, or after it. If a result cannot be confirmed in its
//! place, because another transaction locks its row or a sink that the queue has just got rejects it, the run is broken:
//! the later jobs are released, whether they have run or not. The broken run's own failure is reported only when none of
//! its jobs is running any more, because the failed job could start again at once.
//!
//! The rules stand in tests/model/runs.rs, where each is seen to be needed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::job::Job;

use super::held_job::HeldJob;

/// What all jobs of a run share.
#[derive(Debug, Default)]
pub(in crate::worker) struct GroupRun {
    is_broken: AtomicBool,
    has_stopped: AtomicBool,
}

impl GroupRun {
    /// Breaks the run.
    pub(in crate::worker) fn break_up(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    pub(in crate::worker) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// Whether no job of the run is running or will be started.
    pub(in crate::worker) fn has_stopped(&self) -> bool {
        self.has_stopped.load(Ordering::Acquire)
    }
}

/// The jobs of a run that wait for the one before them.
pub(in crate::worker) struct Behind {
    pub(in crate::worker) run: Arc<GroupRun>,
    pub(in crate::worker) jobs: VecDeque<(Job, HeldJob)>,
}

impl Behind {
    /// Makes these jobs wait for the first job of their run.
    pub(in crate::worker) fn new(jobs: impl Iterator<Item = (Job, HeldJob)>) -> Behind {
        let wait = |(job, mut held): (Job, HeldJob)| {
            held.waits_behind();
            (job, held)
        };
        Behind { run: Arc::default(), jobs: jobs.map(wait).collect() }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.run.has_stopped.store(true, Ordering::Release);
    }
}
