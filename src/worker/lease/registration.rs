//! One registration of this worker in SQL Server. Claimed jobs belong to it, and are lost with it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::handler::Cancellations;
use crate::id::{Fence, JobId, WorkerId};
use crate::procedures::worker::{QueueSettings, WorkReport, Worked};
use crate::worker::state::Tally;

use super::validity::LeaseValidity;

/// One registration of this worker: an id, and the jobs that were claimed under it.
#[derive(Debug)]
pub(in crate::worker) struct Registration {
    pub(in crate::worker) worker_id: WorkerId,
    pub(in crate::worker) settings: QueueSettings,
    clock: Arc<LeaseValidity>,
    cancellations: Arc<Cancellations>,
    held: Mutex<HashMap<JobId, Claim, BuildHasherDefault<IdHasher>>>,
    /// The work that the worker had done before this registration. The registration's reports count from there.
    worked_before: Worked,
    reports: Mutex<u64>,
}

/// The state of a claimed job.
#[derive(Debug, Clone, Copy)]
struct Claim {
    fence: Fence,
    /// Whether the job has run and failed, so that its attempt counts.
    failed: bool,
}

/// Spreads ids by one multiplication. They are SQL Server's own numbers, so the default's protection against chosen keys
/// would cost each job more than its entry does.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_i64((*byte).into()));
    }

    fn write_i64(&mut self, id: i64) {
        self.0 = (self.0 ^ id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// With the best mixed bits, the highest, in the lowest places, by which the map chooses the entry.
    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }
}

impl Registration {
    pub(in crate::worker) fn new(
        worker_id: WorkerId,
        settings: QueueSettings,
        clock: Arc<LeaseValidity>,
        worked_before: Worked,
    ) -> Registration {
        Registration {
            worker_id,
            settings,
            clock,
            cancellations: Arc::default(),
            held: Mutex::default(),
            worked_before,
            reports: Mutex::default(),
        }
    }

    /// Returns what was done since the registration.
    pub(in crate::worker) fn report(&self, tally: &Tally) -> WorkReport {
        self.last_report(tally).0
    }

    /// Like [`report`](Self::report), and also returns the worker's totals at the same moment, from which the next
    /// registration counts.
    pub(in crate::worker) fn last_report(&self, tally: &Tally) -> (WorkReport, Worked) {
        // The totals are read under the lock, so that a report with a greater number never contains less.
        let mut number = self.reports.lock();
        *number += 1;
        let worked = tally.worked();
        (WorkReport { number: *number, worked: worked.since(&self.worked_before) }, worked)
    }

    /// Returns whether the worker is certainly still registered, so that no other worker can have taken its jobs.
    pub(in crate::worker) fn is_held(&self) -> bool {
        !self.is_lost() && !self.clock.is_in_doubt()
    }

    /// Returns whether SQL Server considers this worker lost.
    pub(in crate::worker) fn is_lost(&self) -> bool {
        self.cancellations.is_lease_lost()
    }

    /// The flag that the runs of its jobs check.
    pub(in crate::worker) fn cancellations(&self) -> &Arc<Cancellations> {
        &self.cancellations
    }

    /// Cancels these jobs on request; jobs that are no longer held are ignored.
    pub(in crate::worker) fn cancel(&self, jobs: &[(JobId, Fence)]) {
        let held = self.held.lock();
        for (job_id, fence) in jobs {
            if held.get(job_id).is_some_and(|claim| claim.fence == *fence) {
                self.cancellations.ask(*job_id, *fence);
            }
        }
    }

    /// Remembers jobs that were claimed.
    pub(in crate::worker) fn hold(&self, jobs: impl Iterator<Item = (JobId, Fence)>) {
        self.held.lock().extend(jobs.map(|(job_id, fence)| (job_id, Claim { fence, failed: false })));
    }

    /// Remembers that a job has failed.
    pub(in crate::worker) fn failed(&self, job_id: JobId, fence: Fence) {
        if let Some(claim) = self.held.lock().get_mut(&job_id)
            && claim.fence == fence
        {
            claim.failed = true;
        }
    }

    /// Forgets jobs whose finish or release SQL Server has confirmed. A job that was claimed again meanwhile has
    /// another fence and stays.
    pub(in crate::worker) fn forget(&self, jobs: impl Iterator<Item = (JobId, Fence)>) {
        let mut held = self.held.lock();
        for (job_id, fence) in jobs {
            if let Entry::Occupied(entry) = held.entry(job_id)
                && entry.get().fence == fence
            {
                entry.remove();
                self.cancellations.forget(job_id, fence);
            }
        }
    }

    /// Whether this process holds a job: SQL Server has not confirmed its finish or its release.
    pub(in crate::worker) fn holds(&self, job_id: JobId, fence: Fence) -> bool {
        self.held.lock().get(&job_id).is_some_and(|claim| claim.fence == fence)
    }

    /// Returns all jobs that this process knows it holds, for `recover`.
    pub(in crate::worker) fn held(&self) -> Vec<(JobId, Fence)> {
        self.held.lock().iter().map(|(job_id, claim)| (*job_id, claim.fence)).collect()
    }

    /// Returns the held jobs that have a row and have not failed. They can be released as if they had not been started.
    pub(in crate::worker) fn not_failed(&self) -> Vec<(JobId, Fence)> {
        let held = self.held.lock();
        let kept = held.iter().filter(|(_, claim)| claim.fence != Fence::NONE && !claim.failed);
        kept.map(|(job_id, claim)| (*job_id, claim.fence)).collect()
    }
}

#[cfg(test)]
impl Registration {
    /// Creates a registration of a worker whose server is never called.
    pub(in crate::worker) fn for_test(clock: Arc<LeaseValidity>) -> Registration {
        let settings = QueueSettings {
            completion: crate::job::CompletionPolicy::Delete,
            delivery: crate::job::Delivery::AtLeastOnce,
            max_attempts: 5,
            paused: false,
            holds: 0,
            has_sink: false,
        };
        Registration::new(WorkerId::new(), settings, clock, Worked::default())
    }
}
