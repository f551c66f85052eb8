//! Which runs of a worker are to end early, and the flag that tells them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::id::{Fence, JobId};

/// Of the jobs that were claimed under one registration: whether all are lost, and which of them somebody has asked to
/// cancel. A running handler asks it again and again, so that the usual answer costs two loads.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    lease_lost: AtomicBool,
    any_asked: AtomicBool,
    asked: Mutex<HashSet<(JobId, Fence)>>,
}

impl Cancellations {
    /// SQL Server has said that the worker is lost, and all its jobs with it.
    pub(crate) fn lose_lease(&self) {
        self.lease_lost.store(true, Ordering::Release);
    }

    pub(crate) fn is_lease_lost(&self) -> bool {
        self.lease_lost.load(Ordering::Acquire)
    }

    /// Somebody has asked to cancel a job.
    pub(crate) fn ask(&self, job_id: JobId, fence: Fence) {
        self.asked.lock().insert((job_id, fence));
        self.any_asked.store(true, Ordering::Release);
    }

    /// Whether somebody has asked to cancel the job.
    pub(crate) fn is_asked(&self, job_id: JobId, fence: Fence) -> bool {
        self.any_asked.load(Ordering::Acquire) && self.asked.lock().contains(&(job_id, fence))
    }

    /// The job has ended.
    pub(crate) fn forget(&self, job_id: JobId, fence: Fence) {
        if self.any_asked.load(Ordering::Acquire) {
            self.asked.lock().remove(&(job_id, fence));
        }
    }
}

/// Set once, never cleared. Clones are the same flag.
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
