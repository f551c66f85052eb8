//! Suspect jobs: jobs that may have crashed their worker, and jobs whose payload does not arrive.
//!
//! A crash suspect is a job that lost workers held, and that has one attempt left. If one more worker is lost with it,
//! the job becomes dead. A suspect therefore goes only to a worker that holds no other job, and that worker claims
//! nothing else meanwhile: no innocent job dies with the suspect. A worker that is always busy would never get a
//! suspect. When a suspect has waited for one to two leases, the worker therefore claims nothing more until all its
//! jobs have finished. The exact time is random, so that not all workers stop for the same job.
//!
//! If a payload does not arrive, each claim would return its job again, and no other job would run. After claims of a
//! single job have timed out, the worker claims the job without its payload, to learn which job it is, and releases it.
//! If the same job causes this again, its attempt is reported as failed: the job is retried later, and becomes dead
//! after its last attempt.

use std::time::{Duration, Instant};

use crate::id::JobId;
use crate::procedures::worker::ClaimedUnseen;

/// A worker's knowledge about jobs that must run alone.
#[derive(Default)]
pub(in crate::worker) struct CrashSuspects {
    /// Whether this worker holds a suspect.
    held: bool,
    /// When the worker's patience with a waiting suspect ends.
    due_at: Option<Instant>,
}

impl CrashSuspects {
    /// Returns whether to claim nothing more until all jobs held have finished.
    pub(in crate::worker) fn wants_all_to_end(&self) -> bool {
        self.held || self.due_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Records the result of a claim: whether a suspect is waiting, and whether this worker held nothing and got a job.
    pub(in crate::worker) fn answered(&mut self, waits: bool, got_one: bool, patience: Duration) {
        self.held = waits && got_one;
        if !waits || self.held {
            self.due_at = None;
        } else if self.due_at.is_none() {
            self.due_at = Some(Instant::now() + patience.mul_f64(1.0 + fastrand::f64()));
        }
    }
}

/// After how many timed-out claims of a single job its payload is suspected.
const PAYLOAD_TRIES: u32 = 3;

/// A payload larger than this, which the driver calls large, is considered the reason for a claim's timeout. A network
/// that cannot carry this much within `command_timeout_ms` (at least 1 s) is not usable.
const LARGE_PAYLOAD: u64 = 65_535;

/// Finds a payload that does not arrive.
#[derive(Default)]
pub(in crate::worker) struct UndeliverablePayload {
    /// How many consecutive claims of a single job timed out.
    claims: u32,
    suspect: Option<JobId>,
}

impl UndeliverablePayload {
    /// Records that a claim of a single job timed out.
    pub(in crate::worker) fn timed_out(&mut self) {
        self.claims += 1;
    }

    /// Records that a claim returned.
    pub(in crate::worker) fn answered(&mut self) {
        self.claims = 0;
    }

    /// Returns whether to claim the next job without its payload.
    pub(in crate::worker) fn is_suspected(&self) -> bool {
        self.claims >= PAYLOAD_TRIES
    }

    /// Returns the error with which the job fails, or `None` if the job is not to blame, or not to blame yet.
    pub(in crate::worker) fn judge(&mut self, job: &ClaimedUnseen, limit: Duration) -> Option<String> {
        // A small payload is not the reason: this is another job, or the network was down.
        let is_large = job.payload_bytes > LARGE_PAYLOAD;
        let was_suspected = self.suspect.replace(job.job_id) == Some(job.job_id);
        if !is_large || !was_suspected {
            return None;
        }
        self.suspect = None;
        let (bytes, tries) = (job.payload_bytes, 2 * PAYLOAD_TRIES);
        let error =
            format!("the payload of {bytes} bytes could not be delivered in {tries} tries of {} ms", limit.as_millis());
        tracing::warn!(job_id = %job.job_id, attempt = job.attempt, error, "a payload could not be delivered");
        Some(error)
    }
}
