//! What a job in memory hangs on to: the registration under which it was claimed, and its share of `worker.max_in_flight_bytes`.
//!
//! ```text
//! claim ──▶ Held: the payload ──▶ the handler returns ──▶ Held: the output ──▶ confirmed, or lost: dropped, and given back
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::job::Job;

use super::counts::Counts;
use super::lease::Registration;

/// What the jobs of one claim have in common, so that each of them needs one pointer only.
struct Source {
    registration: Arc<Registration>,
    counts: Arc<Counts>,
}

/// The bytes that one job holds. They are given back when this is dropped, so that no way out of memory can forget them.
pub(crate) struct Held {
    source: Arc<Source>,
    bytes: usize,
}

/// From which unused rest on a payload is copied to a place of its own size. The driver reads into buffers that double, and a large
/// payload may have used little more than half of its own.
const WASTE: usize = 64 << 10;

impl Held {
    /// Holds the payloads of the jobs of one claim.
    pub(crate) fn payloads(
        registration: &Arc<Registration>,
        counts: &Arc<Counts>,
        jobs: Vec<Job>,
    ) -> impl Iterator<Item = (Job, Held)> {
        let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
        counts.held_bytes.fetch_add(bytes, Ordering::AcqRel);
        let source = Arc::new(Source { registration: registration.clone(), counts: counts.clone() });
        jobs.into_iter().map(move |mut job| {
            if job.payload.capacity() - job.payload.len() >= WASTE {
                job.payload.shrink_to_fit();
            }
            let held = Held { source: source.clone(), bytes: job.payload.len() };
            (job, held)
        })
    }

    /// Of a job that has left nothing in memory.
    pub(crate) fn nothing(registration: &Arc<Registration>, counts: &Arc<Counts>) -> Held {
        let source = Arc::new(Source { registration: registration.clone(), counts: counts.clone() });
        Held { source, bytes: 0 }
    }

    pub(crate) fn registration(&self) -> &Arc<Registration> {
        &self.source.registration
    }

    /// The job holds `bytes` now, and no longer what it held before.
    pub(crate) fn becomes(&mut self, bytes: usize) {
        let counted = &self.source.counts.held_bytes;
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => {
                counted.fetch_add(more, Ordering::AcqRel);
            }
            None => {
                counted.fetch_sub(self.bytes - bytes, Ordering::AcqRel);
            }
        }
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.becomes(0);
    }
}
