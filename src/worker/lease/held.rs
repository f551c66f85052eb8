//! What a job in memory hangs on to: the registration under which it was claimed, its place among the jobs in flight,
//! and its share of `worker.max_in_flight_bytes`.
//!
//! ```text
//! claim ──▶ Held: unstarted, payload and checkpoint ──▶ running ──▶ awaiting its finish, the output ──▶ confirmed, or lost: dropped
//! ```
//!
//! What it counts for is given back when it is dropped, so that no way out of memory can forget it.

use std::sync::Arc;
use std::time::Instant;

use crate::handler::Permit;
use crate::id::Fence;
use crate::job::Job;
use crate::worker::state::{InFlight, Stage};

use super::registration::Registration;

/// A job in memory, as the prefetcher hands it over.
pub(in crate::worker) struct Claimed {
    pub(in crate::worker) job: Job,
    pub(in crate::worker) held: Held,
    pub(in crate::worker) claimed_at: Instant,
    /// Of its kind's limit, where that has one.
    pub(in crate::worker) permit: Option<Permit>,
}

impl Claimed {
    /// False for a job of an `at_most_once` queue: its claim has deleted the row, and it cannot be given back.
    pub(in crate::worker) fn has_row(&self) -> bool {
        self.job.fence() != Fence::NONE
    }
}

/// What the jobs of one claim have in common, so that each of them needs one pointer only.
struct OfClaim {
    registration: Arc<Registration>,
    in_flight: Arc<InFlight>,
}

/// The place of one job in memory.
pub(in crate::worker) struct Held {
    source: Arc<OfClaim>,
    stage: Stage,
    bytes: usize,
}

/// From which unused rest on a payload is copied to a place of its own size. The driver reads into buffers that double,
/// and a large payload may have used little more than half of its own.
const WASTE: usize = 64 << 10;

/// What a job brings into memory.
fn bytes_of(job: &Job) -> usize {
    job.payload.len() + job.checkpoint().map_or(0, <[u8]>::len)
}

impl Held {
    /// Holds the unstarted jobs of one claim.
    pub(in crate::worker) fn claimed(
        registration: &Arc<Registration>,
        in_flight: &Arc<InFlight>,
        jobs: Vec<Job>,
    ) -> Vec<(Job, Held)> {
        let source = Arc::new(OfClaim { registration: registration.clone(), in_flight: in_flight.clone() });
        in_flight.enter(Stage::Unstarted, jobs.len());
        in_flight.grow(jobs.iter().map(bytes_of).sum());
        let hold = |mut job: Job| {
            if job.payload.capacity() - job.payload.len() >= WASTE {
                job.payload.shrink_to_fit();
            }
            let held = Held { source: source.clone(), stage: Stage::Unstarted, bytes: bytes_of(&job) };
            (job, held)
        };
        jobs.into_iter().map(hold).collect()
    }

    /// Holds a claimed job whose payload is not in memory.
    pub(in crate::worker) fn unseen(registration: &Arc<Registration>, in_flight: &Arc<InFlight>) -> Held {
        let source = Arc::new(OfClaim { registration: registration.clone(), in_flight: in_flight.clone() });
        in_flight.enter(Stage::Unstarted, 1);
        Held { source, stage: Stage::Unstarted, bytes: 0 }
    }

    /// How many it holds.
    pub(in crate::worker) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(in crate::worker) fn registration(&self) -> &Arc<Registration> {
        &self.source.registration
    }

    /// The job waits for others of its kind.
    pub(in crate::worker) fn parked(&mut self) {
        self.moves_to(Stage::Parked);
    }

    /// The job runs from now on.
    pub(in crate::worker) fn started(&mut self) {
        self.moves_to(Stage::Running);
    }

    /// The job has ended, or is given back: its payload is gone, and an output of `bytes` waits to be confirmed.
    pub(in crate::worker) fn ended(&mut self, bytes: usize) {
        self.holds(bytes);
        if bytes > 0 {
            self.source.in_flight.hold_output(bytes);
        }
        self.moves_to(Stage::AwaitingFinish);
    }

    fn moves_to(&mut self, stage: Stage) {
        self.source.in_flight.enter(stage, 1); // first, so that nobody takes the job for gone
        self.source.in_flight.leave(self.stage);
        self.stage = stage;
    }

    fn holds(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.source.in_flight.grow(more),
            None => self.source.in_flight.shrink(self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.stage == Stage::AwaitingFinish && self.bytes > 0 {
            self.source.in_flight.drop_output(self.bytes);
        }
        self.holds(0);
        self.source.in_flight.leave(self.stage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::NewJob;
    use crate::worker::lease::validity::LeaseValidity;

    #[test]
    fn a_checkpoint_counts_as_long_as_the_payload_does() {
        let in_flight = Arc::<InFlight>::default();
        let registration = Arc::new(Registration::for_test(Arc::new(LeaseValidity::default())));
        let job = Job::for_test(NewJob::bytes(vec![1; 100])).with_checkpoint(vec![2; 60_000]);
        let (job, mut held) = Held::claimed(&registration, &in_flight, vec![job]).remove(0);
        assert_eq!((held.bytes(), in_flight.bytes()), (60_100, 60_100));
        drop(job);
        held.ended(0);
        assert_eq!(in_flight.bytes(), 0);
    }
}
