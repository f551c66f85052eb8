//! Records the runs of a worker that must end early.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::id::{Fence, JobId};

/// Whether the jobs that were claimed under one registration are lost, and which of them must be cancelled. A running
/// handler checks this repeatedly, so a check that finds nothing costs only two loads.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    lease_lost: AtomicBool,
    any_asked: AtomicBool,
    asked: Mutex<HashSet<(JobId, Fence)>>,
}

impl Cancellations {
    /// Records that SQL Server has marked the worker lost, and with it all its jobs.
    pub(crate) fn lose_lease(&self) {
        self.lease_lost.store(true, Ordering::Release);
    }

    pub(crate) fn is_lease_lost(&self) -> bool {
        self.lease_lost.load(Ordering::Acquire)
    }

    /// Records a request to cancel a job.
    pub(crate) fn ask(&self, job_id: JobId, fence: Fence) {
        self.asked.lock().insert((job_id, fence));
        self.any_asked.store(true, Ordering::Release);
    }

    /// Whether the job must be cancelled.
    pub(crate) fn is_asked(&self, job_id: JobId, fence: Fence) -> bool {
        self.any_asked.load(Ordering::Acquire) && self.asked.lock().contains(&(job_id, fence))
    }

    /// Forgets the job, whose run has finished.
    pub(crate) fn forget(&self, job_id: JobId, fence: Fence) {
        if self.any_asked.load(Ordering::Acquire) {
            self.asked.lock().remove(&(job_id, fence));
        }
    }
}

/// A flag that is set once and never cleared. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
