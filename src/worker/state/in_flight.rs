//! How many jobs a worker holds, by stage, and the signals that go with it: to the prefetcher that there is demand for
//! more, and to the shutdown that all have ended.
//!
//! Each job in memory counts itself by its [`Held`](crate::worker::lease::Held), which is the only writer: it moves
//! from stage to stage and leaves when it is dropped, so that no panic and no early return leaves a job counted.

use tokio::sync::Notify;

use crate::sync::{AtomicUsize, Ordering};

/// Where a job in memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum Stage {
    /// Claimed, not started.
    Unstarted,
    /// Claimed, and waiting for others of its kind to end.
    Parked,
    Running,
    /// Ended, and SQL Server has not confirmed it.
    AwaitingFinish,
}

/// The expected output follows a larger one at once. One that is smaller lowers it by this part of the difference: of a
/// large output a fifth is still expected after fifty jobs that had none.
const FORGETTING: usize = 32;

/// The jobs in memory.
#[derive(Debug, Default)]
pub(in crate::worker) struct InFlight {
    /// In the order of [`Stage`].
    jobs: [AtomicUsize; 4],
    /// Payloads, checkpoints and outputs of all of them.
    bytes: AtomicUsize,
    /// Of these, the outputs.
    output_bytes: AtomicUsize,
    /// How large the next output may be, estimated from earlier ones.
    expected_output: AtomicUsize,
    /// Jobs that are to start, or run: room is kept for the output of each.
    started: AtomicUsize,
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
    pub(in crate::worker) fn unstarted(&self) -> usize {
        self.at(Stage::Unstarted)
    }

    /// Claimed jobs that wait for others of their kind to end. No thread could take them.
    pub(in crate::worker) fn parked(&self) -> usize {
        self.at(Stage::Parked)
    }

    pub(in crate::worker) fn running(&self) -> usize {
        self.at(Stage::Running)
    }

    /// Ended jobs that SQL Server has not confirmed.
    pub(in crate::worker) fn awaiting_finish(&self) -> usize {
        self.at(Stage::AwaitingFinish)
    }

    /// All that this process holds. A job that moves on is counted twice for a moment, and never not at all.
    pub(in crate::worker) fn jobs(&self) -> usize {
        self.unstarted() + self.parked() + self.running() + self.awaiting_finish()
    }

    /// Payloads, checkpoints and outputs of all that this process holds.
    pub(in crate::worker) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Of these, the outputs.
    pub(in crate::worker) fn output_bytes(&self) -> usize {
        self.output_bytes.load(Ordering::Acquire)
    }

    /// How large the next output may be.
    pub(in crate::worker) fn expected_output(&self) -> usize {
        self.expected_output.load(Ordering::Acquire)
    }

    /// Jobs that run, or are to run.
    fn unended(&self) -> usize {
        self.unstarted() + self.parked() + self.running()
    }

    /// Whether there is all the room that there can be. Ended jobs without an output need none, however long SQL Server
    /// does not confirm them: a transaction may keep their rows locked.
    pub(in crate::worker) fn takes_no_memory(&self) -> bool {
        self.unended() == 0 && self.output_bytes() == 0 // in this order: a job's output is held before the job has ended
    }

    /// By how much a job may grow when it ends, and its output takes the place of its payload.
    fn growth(&self) -> usize {
        let payloads = self.bytes().saturating_sub(self.output_bytes());
        self.expected_output().saturating_sub(payloads / self.unended().max(1))
    }

    /// How many bytes more may be held, beside what those that have not ended may grow.
    pub(in crate::worker) fn free_bytes(&self, max_bytes: u64) -> u64 {
        let held = self.bytes() + self.growth().saturating_mul(self.unended());
        max_bytes.saturating_sub(held as u64)
    }

    /// Whether one more job may start: not if its output may exceed the limit together with what is held. One may
    /// always run while no output is held.
    pub(in crate::worker) fn may_start(&self, max_bytes: u64) -> bool {
        self.has_room_for(self.started.load(Ordering::Acquire) + 1, max_bytes)
    }

    /// Keeps room for the output of a job that starts, until the value is dropped. `None`: it [may not
    /// start](Self::may_start).
    pub(in crate::worker) fn start(&self, max_bytes: u64) -> Option<Started<'_>> {
        let mut started = self.started.load(Ordering::Acquire);
        while self.has_room_for(started + 1, max_bytes) {
            match self.started.compare_exchange(started, started + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(Started(self)),
                Err(by_now) => started = by_now,
            }
        }
        None
    }

    fn has_room_for(&self, started: usize, max_bytes: u64) -> bool {
        let bytes = self.bytes().saturating_add(self.growth().saturating_mul(started));
        bytes as u64 <= max_bytes || (started == 1 && self.output_bytes() == 0)
    }

    /// A job has run and left so many bytes.
    pub(in crate::worker) fn learn_output(&self, bytes: usize) {
        if bytes == 0 && self.expected_output() == 0 {
            return; // as most jobs
        }
        let learn = |expected: usize| match expected.checked_sub(bytes) {
            Some(0) => None,
            Some(less) => Some(expected - less.div_ceil(FORGETTING)),
            None => Some(bytes),
        };
        let _ = self.expected_output.fetch_update(Ordering::AcqRel, Ordering::Acquire, learn);
    }

    /// A job has ended and left an output.
    pub(in crate::worker) fn hold_output(&self, bytes: usize) {
        self.output_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// An output was confirmed, or is dropped.
    pub(in crate::worker) fn drop_output(&self, bytes: usize) {
        self.output_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Sets at how many unstarted jobs the prefetcher is to be woken.
    pub(in crate::worker) fn set_low_water(&self, jobs: usize) {
        self.low_water.store(jobs, Ordering::Release);
    }

    /// Returns when there may be demand for more jobs, or room for them. For the prefetcher alone.
    pub(in crate::worker) async fn demand(&self) {
        self.demand.notified().await;
    }

    /// Returns when no job is running or waiting to run.
    pub(in crate::worker) async fn idle(&self) {
        // In the order of a job's way: one that moves on meanwhile is met at its next stage.
        self.until(|| self.unstarted() == 0 && self.parked() == 0 && self.running() == 0).await;
    }

    /// Returns when every ended job is confirmed.
    pub(in crate::worker) async fn flushed(&self) {
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
    pub(in crate::worker) fn confirmed(&self) {
        self.emptied.notify_waiters();
        self.demand.notify_one();
    }

    pub(in crate::worker) fn enter(&self, stage: Stage, jobs: usize) {
        self.jobs[stage as usize].fetch_add(jobs, Ordering::AcqRel);
    }

    /// One job less is in this stage. It stands in the next one already, if there is one.
    pub(in crate::worker) fn leave(&self, stage: Stage) {
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

    pub(in crate::worker) fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(in crate::worker) fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// A job that is to start, or runs.
#[derive(Debug)]
pub(in crate::worker) struct Started<'a>(&'a InFlight);

impl Drop for Started<'_> {
    fn drop(&mut self) {
        self.0.started.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_start_keeps_room_for_its_output_from_others() {
        let in_flight = InFlight::default();
        in_flight.learn_output(400);
        let first = in_flight.start(1_000).expect("nothing is held");
        let second = in_flight.start(1_000).expect("two outputs fit");
        assert!(!in_flight.may_start(1_000) && in_flight.start(1_000).is_none(), "three do not, though none runs yet");
        drop(first);
        assert!(in_flight.start(1_000).is_some());
        drop(second);
        in_flight.grow(1_500);
        let only = in_flight.start(1_000).expect("one may always run");
        assert!(in_flight.start(1_000).is_none());
        drop(only);
        in_flight.hold_output(1);
        assert!(in_flight.start(1_000).is_none(), "another's output is held");
    }

    #[test]
    fn an_ended_job_without_output_keeps_none_from_running_while_its_row_is_locked() {
        let in_flight = InFlight::default();
        in_flight.enter(Stage::AwaitingFinish, 1);
        assert!(in_flight.takes_no_memory());
        in_flight.enter(Stage::Unstarted, 250);
        in_flight.grow(250 << 20);
        in_flight.learn_output(10 << 20);
        let only = in_flight.start(256 << 20).expect("one may always run");
        assert!(!in_flight.may_start(256 << 20), "the output of a second one may not fit");
        drop(only);
    }

    #[test]
    fn the_expected_output_grows_at_once_and_shrinks_with_each_job() {
        let in_flight = InFlight::default();
        let expected = [(0, 0), (1_000, 1_000), (1_000, 1_000), (360, 980), (0, 949)];
        for (output, expected) in expected {
            in_flight.learn_output(output);
            assert_eq!(in_flight.expected_output(), expected);
        }
        (0..1_000).for_each(|_| in_flight.learn_output(0));
        assert_eq!(in_flight.expected_output(), 0);
    }

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
