//! Jobs that are suspected: of crashing their worker, or of a payload that does not arrive.
//!
//! Workers were lost while they held the first kind, and if one more is, these jobs are dead. So that no innocent job
//! dies for another's crash, they go only to a worker that holds nothing, and while one is held nothing else is
//! claimed. A worker that is always busy would never get one. So when one has waited for about a lease, nothing more is
//! claimed until all that is held has ended. The time is drawn at random between one lease and two, so that not all
//! workers stop for the same job.
//!
//! The second kind would come with each claim again, and nothing else would run. When claims of one job were not
//! answered in time, it is claimed without its payload, to learn which it is, and released. When that happens again
//! with the same job, it is acknowledged as a failed attempt: it comes back later, and is dead after its last.

use std::time::{Duration, Instant};

use crate::id::JobId;
use crate::procedures::worker::ClaimedUnseen;

/// What a worker knows about jobs that must run alone.
#[derive(Default)]
pub(in crate::worker) struct CrashSuspects {
    /// This worker holds one.
    held: bool,
    /// When the patience with one that waits ends.
    due_at: Option<Instant>,
}

impl CrashSuspects {
    /// Whether nothing more is to be claimed until all that is held has ended.
    pub(in crate::worker) fn wants_all_to_end(&self) -> bool {
        self.held || self.due_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Notes the answer to a claim: whether such a job waited, and whether this worker held nothing and got a job.
    pub(in crate::worker) fn answered(&mut self, waits: bool, got_one: bool, patience: Duration) {
        self.held = waits && got_one;
        if !waits || self.held {
            self.due_at = None;
        } else if self.due_at.is_none() {
            self.due_at = Some(Instant::now() + patience.mul_f64(1.0 + fastrand::f64()));
        }
    }
}

/// After how many claims of one job that were not answered in time its payload is looked into.
const PAYLOAD_TRIES: u32 = 3;

/// From which size on a payload is taken for the reason that a claim was not answered in time: the size that the driver
/// calls large. A network that does not carry so much within `command_timeout_ms` (1 s at the least) is of no use.
const LARGE_PAYLOAD: u64 = 65_535;

/// What is known of a payload that does not arrive.
#[derive(Default)]
pub(in crate::worker) struct UndeliverablePayload {
    /// How many claims of one job were not answered in time, one after the other.
    claims: u32,
    suspect: Option<JobId>,
}

impl UndeliverablePayload {
    /// A claim of one job was not answered in time.
    pub(in crate::worker) fn timed_out(&mut self) {
        self.claims += 1;
    }

    /// A claim was answered.
    pub(in crate::worker) fn answered(&mut self) {
        self.claims = 0;
    }

    /// Whether the next job is to be claimed without its payload.
    pub(in crate::worker) fn is_suspected(&self) -> bool {
        self.claims >= PAYLOAD_TRIES
    }

    /// The error with which the job fails; `None`: it is not to blame, or not yet.
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
            format!("its payload of {bytes} bytes could not be delivered in {tries} tries of {} ms", limit.as_millis());
        tracing::warn!(job_id = %job.job_id, attempt = job.attempt, error, "a payload could not be delivered");
        Some(error)
    }
}
