//! How many jobs a worker holds, by stage, and the signals that go with it: to the prefetcher that there is demand for
//! more, and to the shutdown that all have ended.
//!
//! Each job in memory counts itself by its [`Held`](super::held_job::Held), which is the only writer: it moves from
//! stage to stage and leaves when it is dropped, so that no panic and no early return leaves a job counted.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Where a job in memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Claimed, not started.
    Unstarted,
    /// Claimed, and waiting for others of its kind to end.
    Parked,
    Running,
    /// Ended, and SQL Server has not confirmed it.
    AwaitingFinish,
}

/// The jobs in memory.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// In the order of [`Stage`].
    jobs: [AtomicUsize; 4],
    /// Payloads and outputs of all of them.
    bytes: AtomicUsize,
    /// Of these, the outputs.
    output_bytes: AtomicUsize,
    /// How large the next output may be, estimated from earlier ones.
    expected_output: AtomicUsize,
    /// At how many unstarted jobs there is demand for more.
    low_water: AtomicUsize,
    demand: Notify,
    emptied: Notify,
}

impl InFlight {
    fn at(&self, stage: Stage) -> usize {
        self.jobs[stage as usize].load(Ordering::Acquire)
    }

    /// Claimed jobs that have not started.
    pub(super) fn unstarted(&self) -> usize {
        self.at(Stage::Unstarted)
    }

    /// Claimed jobs that wait for others of their kind to end. No thread could take them.
    pub(super) fn parked(&self) -> usize {
        self.at(Stage::Parked)
    }

    pub(super) fn running(&self) -> usize {
        self.at(Stage::Running)
    }

    /// Ended jobs that SQL Server has not confirmed.
    pub(super) fn awaiting_finish(&self) -> usize {
        self.at(Stage::AwaitingFinish)
    }

    /// All that this process holds. A job that moves on is counted twice for a moment, and never not at all.
    pub(super) fn jobs(&self) -> usize {
        self.unstarted() + self.parked() + self.running() + self.awaiting_finish()
    }

    /// Payloads and outputs of all that this process holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Whether one more job may start: not if its output may exceed the limit together with what is held. One may
    /// always run.
    pub(super) fn may_start(&self, max_bytes: u64) -> bool {
        let (running, bytes) = (self.running(), self.bytes());
        let expected = self.expected_output.load(Ordering::Acquire);
        let fits = |growth: usize| (bytes + growth * (running + 1)) as u64 <= max_bytes;
        if fits(expected) {
            return true;
        }
        // Of those that have not ended, the output takes the place of the payload.
        let payloads = bytes.saturating_sub(self.output_bytes.load(Ordering::Acquire));
        let unended = self.unstarted() + self.parked() + running;
        let growth = expected.saturating_sub(payloads / unended.max(1));
        fits(growth) || (running == 0 && self.awaiting_finish() == 0)
    }

    /// A job has ended and left an output.
    pub(super) fn hold_output(&self, bytes: usize) {
        self.output_bytes.fetch_add(bytes, Ordering::AcqRel);
        self.expected_output.fetch_max(bytes, Ordering::AcqRel);
    }

    /// An output was confirmed, or is dropped.
    pub(super) fn drop_output(&self, bytes: usize) {
        self.output_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// More jobs were claimed, whose outputs may be smaller. It takes several claims to forget a large one.
    pub(super) fn expect_smaller_outputs(&self) {
        let expected = self.expected_output.load(Ordering::Acquire);
        // One that is noted meanwhile stays.
        let _ = self.expected_output.compare_exchange(
            expected,
            expected - expected / 4,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// Sets at how many unstarted jobs the prefetcher is to be woken.
    pub(super) fn set_low_water(&self, jobs: usize) {
        self.low_water.store(jobs, Ordering::Release);
    }

    /// Returns when there may be demand for more jobs, or room for them. For the prefetcher alone.
    pub(super) async fn demand(&self) {
        self.demand.notified().await;
    }

    /// Returns when no job is running or waiting to run.
    pub(super) async fn idle(&self) {
        self.until(|| self.parked() == 0 && self.unstarted() == 0 && self.running() == 0).await;
    }

    /// Returns when every ended job is confirmed.
    pub(super) async fn flushed(&self) {
        self.until(|| self.awaiting_finish() == 0).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let emptied = self.emptied.notified();
            if is_so() {
                return;
            }
            emptied.await;
        }
    }

    /// Jobs were confirmed and have left memory.
    pub(super) fn confirmed(&self) {
        self.emptied.notify_waiters();
        self.demand.notify_one();
    }

    pub(super) fn enter(&self, stage: Stage, jobs: usize) {
        self.jobs[stage as usize].fetch_add(jobs, Ordering::AcqRel);
    }

    /// One job less is in this stage. It stands in the next one already, if there is one.
    pub(super) fn leave(&self, stage: Stage) {
        let left = self.jobs[stage as usize].fetch_sub(1, Ordering::AcqRel) - 1;
        match stage {
            Stage::Unstarted => {
                if left <= self.low_water.load(Ordering::Acquire) {
                    self.demand.notify_one();
                }
                if left == 0 {
                    self.emptied.notify_waiters(); // it may have been given back while nothing runs
                }
            }
            // A thread may be free now: it wants a job, or somebody waits for the last one to end.
            Stage::Running if self.unstarted() == 0 => {
                self.demand.notify_one();
                self.emptied.notify_waiters();
            }
            Stage::Parked if left == 0 => self.emptied.notify_waiters(), // as an unstarted one
            Stage::Running | Stage::Parked => {}
            Stage::AwaitingFinish => {} // confirmed() speaks for a whole batch
        }
    }

    pub(super) fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(super) fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_idle_once_the_last_job_that_waits_for_others_leaves() {
        let in_flight = InFlight::default();
        in_flight.enter(Stage::Parked, 2);
        let mut idle = std::pin::pin!(in_flight.idle());
        let is_woken = std::sync::Arc::new(Woken::default());
        let waker = is_woken.clone().into();
        let mut context = std::task::Context::from_waker(&waker);
        assert!(idle.as_mut().poll(&mut context).is_pending());
        in_flight.leave(Stage::Parked);
        in_flight.leave(Stage::Parked);
        assert!(is_woken.0.load(Ordering::Acquire));
        assert!(idle.as_mut().poll(&mut context).is_ready());
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, Ordering::Release);
        }
    }
}
