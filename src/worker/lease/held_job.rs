//! The resources that a job in memory holds: the registration under which it was claimed, its entry in the in-flight
//! counts, and its share of `worker.max_in_flight_bytes`.
//!
//! ```text
//! claim ──▶ Held: unstarted, payload and checkpoint ──▶ running ──▶ awaiting its finish, the output ──▶ confirmed, or lost: dropped
//! ```
//!
//! A dropped `HeldJob` removes its job from the counts, so the counts stay right however the job leaves memory.

use std::sync::Arc;
use std::time::Instant;

use crate::handler::Permit;
use crate::id::Fence;
use crate::job::Job;
use crate::worker::state::{InFlight, Stage};

use super::group_run::Behind;
use super::registration::Registration;

/// What a job has of its worker's resources. It is returned on drop.
pub(in crate::worker) trait Grant: Send + Sync {
    /// Records the start of the job.
    fn starts(&mut self);
}

/// A job in memory, as the prefetcher passes it on.
pub(in crate::worker) struct Claimed {
    pub(in crate::worker) job: Job,
    pub(in crate::worker) held: HeldJob,
    pub(in crate::worker) claimed_at: Instant,
    /// The permit, if the job's kind has a limit.
    pub(in crate::worker) permit: Option<Permit>,
    /// What the job has of the worker's resources, if it needs any and they were free.
    pub(in crate::worker) grant: Option<Box<dyn Grant>>,
    /// Since when the job has waited for its kind or for resources, if it had to.
    pub(in crate::worker) waits_since: Option<Instant>,
    /// The rest of its run, if the job belongs to one.
    pub(in crate::worker) behind: Option<Box<Behind>>,
}

impl Claimed {
    pub(in crate::worker) fn new(job: Job, held: HeldJob, claimed_at: Instant, behind: Option<Box<Behind>>) -> Claimed {
        Claimed { job, held, claimed_at, permit: None, grant: None, waits_since: None, behind }
    }

    /// Whether the job has a row. It has none in an `at_most_once` queue: the claim deleted the row, so the job cannot
    /// be released.
    pub(in crate::worker) fn has_row(&self) -> bool {
        self.job.fence() != Fence::NONE
    }

    /// How many jobs these are: the job, and the rest of its run.
    pub(in crate::worker) fn jobs(&self) -> usize {
        1 + self.behind.as_ref().map_or(0, |behind| behind.jobs.len())
    }
}

/// The data that the jobs of one claim share, so that each job needs only one pointer.
struct OfClaim {
    registration: Arc<Registration>,
    in_flight: Arc<InFlight>,
}

/// The resources of one job in memory.
pub(in crate::worker) struct HeldJob {
    source: Arc<OfClaim>,
    stage: Stage,
    bytes: usize,
    /// How many of these bytes are the output's.
    output_bytes: usize,
}

/// If at least this much of a buffer is unused, the payload is copied to a buffer of its own size. The driver doubles
/// its buffers while it reads, so a large payload may use little more than half of its buffer.
const WASTE: usize = 64 << 10;

/// The memory that a claimed job uses.
fn bytes_of(job: &Job) -> usize {
    job.payload.len() + job.checkpoint().map_or(0, <[u8]>::len)
}

impl HeldJob {
    /// Holds the unstarted jobs of one claim.
    pub(in crate::worker) fn claimed(
        registration: &Arc<Registration>,
        in_flight: &Arc<InFlight>,
        jobs: Vec<Job>,
    ) -> Vec<(Job, HeldJob)> {
        let source = Arc::new(OfClaim { registration: registration.clone(), in_flight: in_flight.clone() });
        in_flight.enter(Stage::Unstarted, jobs.len());
        in_flight.grow(jobs.iter().map(bytes_of).sum());
        let hold = |mut job: Job| {
            if job.payload.capacity() - job.payload.len() >= WASTE {
                job.payload.shrink_to_fit();
            }
            let held =
                HeldJob { source: source.clone(), stage: Stage::Unstarted, bytes: bytes_of(&job), output_bytes: 0 };
            (job, held)
        };
        jobs.into_iter().map(hold).collect()
    }

    /// Holds a claimed job whose payload is not in memory.
    pub(in crate::worker) fn unseen(registration: &Arc<Registration>, in_flight: &Arc<InFlight>) -> HeldJob {
        let source = Arc::new(OfClaim { registration: registration.clone(), in_flight: in_flight.clone() });
        in_flight.enter(Stage::Unstarted, 1);
        HeldJob { source, stage: Stage::Unstarted, bytes: 0, output_bytes: 0 }
    }

    /// How many bytes this value holds.
    pub(in crate::worker) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(in crate::worker) fn registration(&self) -> &Arc<Registration> {
        &self.source.registration
    }

    /// Moves the job to the stage in which it waits for the one before it in its run.
    pub(in crate::worker) fn waits_behind(&mut self) {
        self.moves_to(Stage::Behind);
    }

    /// Moves the job back to the stage in which it can start: the one before it is done.
    pub(in crate::worker) fn is_next(&mut self) {
        self.moves_to(Stage::Unstarted);
    }

    /// Moves the job to the stage in which it waits for others of its kind or for resources.
    pub(in crate::worker) fn parked(&mut self) {
        self.moves_to(Stage::Parked);
    }

    /// Moves the job to the stage in which it runs.
    pub(in crate::worker) fn started(&mut self) {
        self.moves_to(Stage::Running);
    }

    /// Records that the job has run or is being released: its payload is gone, and an output or an error is waiting to
    /// be confirmed. (Unlike a large output, an error never keeps other jobs from running.)
    pub(in crate::worker) fn ended(&mut self, output_bytes: usize, error_bytes: usize) {
        self.holds(output_bytes + error_bytes);
        self.output_bytes = output_bytes;
        if output_bytes > 0 {
            self.source.in_flight.hold_output(output_bytes);
        }
        self.moves_to(Stage::AwaitingFinish);
    }

    fn moves_to(&mut self, stage: Stage) {
        self.source.in_flight.enter(stage, 1); // first, so that the job is counted at every moment
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

impl Drop for HeldJob {
    fn drop(&mut self) {
        if self.output_bytes > 0 {
            self.source.in_flight.drop_output(self.output_bytes);
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
        let (job, mut held) = HeldJob::claimed(&registration, &in_flight, vec![job]).remove(0);
        assert_eq!((held.bytes(), in_flight.bytes()), (60_100, 60_100));
        drop(job);
        held.ended(0, 10);
        assert_eq!((in_flight.bytes(), in_flight.takes_no_memory()), (10, true));
        drop(held);
        assert_eq!(in_flight.bytes(), 0);
    }
}
