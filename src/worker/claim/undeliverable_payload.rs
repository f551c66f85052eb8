//! The search for a job whose payload does not arrive: it would come with each claim again, and nothing else would run.
//!
//! When claims of one job were not answered in time, it is claimed without its payload, to learn which it is, and
//! released. When that happens again with the same job, it is acknowledged as a failed attempt: it comes back later,
//! and is dead after its last.

use std::time::Duration;

use crate::ids::JobId;
use crate::queue::claim::ClaimedUnseen;

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
