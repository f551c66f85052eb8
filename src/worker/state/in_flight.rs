//! How many jobs a worker holds in each stage. Signals the prefetcher when there is demand for more, and the shutdown
//! when no job is left.
//!
//! A job's [`HeldJob`](crate::worker::lease::HeldJob) is the only writer: it moves the job from stage to stage, and
//! removes the job when dropped, so that no panic or early return leaves a job counted.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::sync_primitives::{AtomicBool, AtomicUsize, Ordering};

/// The stage of a job in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum Stage {
    /// Claimed, and waiting for the job before it in its run.
    Behind,
    Unstarted,
    /// Claimed, and waiting for other jobs of its kind or for the worker's resources.
    Parked,
    Running,
    /// Has run, but SQL Server has not confirmed its outcome.
    AwaitingFinish,
}

/// A larger output raises the expected output to its size. A smaller one lowers it by the difference divided by this
/// number: after fifty jobs without output, a fifth of a large output is still expected.
const FORGETTING: usize = 32;

#[derive(Debug, Default)]
pub(in crate::worker) struct InFlight {
    /// How many jobs are in each stage, in the order of [`Stage`].
    jobs: [AtomicUsize; 5],
    /// The payloads, checkpoints, outputs and errors of all jobs.
    bytes: AtomicUsize,
    /// The checkpoints that jobs have noted and that are not written yet. Not part of `bytes`.
    noted_bytes: Arc<AtomicUsize>,
    /// The outputs alone.
    output_bytes: AtomicUsize,
    /// The size of the next output, estimated from earlier ones.
    expected_output: AtomicUsize,
    /// Jobs that are starting or running: memory is reserved for the output of each.
    started: AtomicUsize,
    /// Running jobs that share their thread with another one, so that there are as many fewer busy threads.
    further: AtomicUsize,
    /// The number of unstarted jobs at which there is demand for more.
    low_water: AtomicUsize,
    /// Whether there is also demand when no job is left that a free thread could take.
    wants_startable: AtomicBool,
    demand: Notify,
    emptied: Notify,
}

impl InFlight {
    fn at(&self, stage: Stage) -> usize {
        self.jobs[stage as usize].load(Ordering::Acquire)
    }

    /// Jobs that have not started, whether they could now or wait for the one before them in their run.
    pub(in crate::worker) fn unstarted(&self) -> usize {
        self.at(Stage::Behind) + self.startable() // in this order: a job moves from one to the other
    }

    /// Jobs that a free thread could take.
    pub(in crate::worker) fn startable(&self) -> usize {
        self.at(Stage::Unstarted)
    }

    /// Jobs that wait for other jobs of their kind or for resources, and that no thread can take.
    pub(in crate::worker) fn parked(&self) -> usize {
        self.at(Stage::Parked)
    }

    pub(in crate::worker) fn running(&self) -> usize {
        self.at(Stage::Running)
    }

    /// Threads that run jobs. A handler may run several at the same time.
    pub(in crate::worker) fn busy_threads(&self) -> usize {
        self.running().saturating_sub(self.further.load(Ordering::Acquire))
    }

    /// Records that a running job shares its thread, until [`no_longer_shares`](Self::no_longer_shares).
    pub(in crate::worker) fn shares_thread(&self) {
        self.further.fetch_add(1, Ordering::AcqRel);
    }

    pub(in crate::worker) fn no_longer_shares(&self) {
        self.further.fetch_sub(1, Ordering::AcqRel);
    }

    /// Jobs that have run, but that SQL Server has not confirmed.
    pub(in crate::worker) fn awaiting_finish(&self) -> usize {
        self.at(Stage::AwaitingFinish)
    }

    /// All jobs in memory. A job that changes its stage may briefly be counted twice, but is never missed.
    pub(in crate::worker) fn jobs(&self) -> usize {
        self.unstarted() + self.parked() + self.running() + self.awaiting_finish()
    }

    pub(in crate::worker) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire) + self.noted_bytes.load(Ordering::Acquire)
    }

    /// The counter of the bytes of noted checkpoints.
    pub(in crate::worker) fn noted_bytes(&self) -> Arc<AtomicUsize> {
        self.noted_bytes.clone()
    }

    pub(in crate::worker) fn output_bytes(&self) -> usize {
        self.output_bytes.load(Ordering::Acquire)
    }

    pub(in crate::worker) fn expected_output(&self) -> usize {
        self.expected_output.load(Ordering::Acquire)
    }

    /// Jobs that are running or still to run.
    fn unended(&self) -> usize {
        self.unstarted() + self.parked() + self.running()
    }

    /// Whether the whole memory limit is free. Unconfirmed jobs without output take none, however long a transaction
    /// keeps their rows locked.
    pub(in crate::worker) fn takes_no_memory(&self) -> bool {
        self.unended() == 0 && self.holds_no_results() // in this order: a job's output is counted before the job leaves its stage
    }

    /// Whether no job holds an output or a noted checkpoint, which outlast the run.
    fn holds_no_results(&self) -> bool {
        self.output_bytes() == 0 && self.noted_bytes.load(Ordering::Acquire) == 0
    }

    /// How much a job may grow when its output replaces its payload.
    fn growth(&self) -> usize {
        let expected = self.expected_output();
        if expected == 0 {
            return 0; // as mostly
        }
        let payloads = self.bytes.load(Ordering::Acquire).saturating_sub(self.output_bytes());
        expected.saturating_sub(payloads / self.unended().max(1))
    }

    /// How many more bytes may be held, with the growth of unfinished jobs reserved.
    pub(in crate::worker) fn free_bytes(&self, max_bytes: u64) -> u64 {
        let held = self.bytes() + self.growth().saturating_mul(self.unended());
        max_bytes.saturating_sub(held as u64)
    }

    /// Whether one more job may start: its output must fit the limit. One job may always run while neither an output
    /// nor a noted checkpoint is held.
    pub(in crate::worker) fn may_start(&self, max_bytes: u64) -> bool {
        self.has_room_for(self.started.load(Ordering::Acquire) + 1, max_bytes)
    }

    /// Reserves memory for the output of a job until the value is dropped, or returns `None` if it [may not
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
        bytes as u64 <= max_bytes || (started == 1 && self.holds_no_results())
    }

    /// Records the size of a job's output.
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

    pub(in crate::worker) fn hold_output(&self, bytes: usize) {
        self.output_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(in crate::worker) fn drop_output(&self, bytes: usize) {
        self.output_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Sets the number of unstarted jobs at which the prefetcher is woken. If it `wants_startable`, it is also woken once
    /// when no startable job is left.
    pub(in crate::worker) fn set_low_water(&self, jobs: usize, wants_startable: bool) {
        self.low_water.store(jobs, Ordering::Release);
        self.wants_startable.store(wants_startable, Ordering::Release);
    }

    /// Returns when there may be demand or capacity for more jobs. Only the prefetcher calls it.
    pub(in crate::worker) async fn demand(&self) {
        self.demand.notified().await;
    }

    /// Returns when no job is running or waiting to run.
    pub(in crate::worker) async fn idle(&self) {
        // In the order of the stages: a job that moves on meanwhile is seen at its next stage.
        self.until(|| self.unstarted() == 0 && self.parked() == 0 && self.running() == 0).await;
    }

    /// Returns when every job that has run is confirmed.
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

    /// Wakes the prefetcher.
    pub(in crate::worker) fn look_again(&self) {
        self.demand.notify_one();
    }

    /// Signals that jobs were confirmed and have left memory.
    pub(in crate::worker) fn confirmed(&self) {
        self.emptied.notify_waiters();
        self.look_again();
    }

    pub(in crate::worker) fn enter(&self, stage: Stage, jobs: usize) {
        self.jobs[stage as usize].fetch_add(jobs, Ordering::AcqRel);
    }

    /// Removes a job from this stage, after it has entered the next one, if any.
    pub(in crate::worker) fn leave(&self, stage: Stage) {
        let left = self.jobs[stage as usize].fetch_sub(1, Ordering::AcqRel) - 1;
        match stage {
            Stage::Behind | Stage::Unstarted => {
                let behind = self.at(if stage == Stage::Behind { Stage::Unstarted } else { Stage::Behind });
                let is_last = left == 0 && stage == Stage::Unstarted;
                if left + behind <= self.low_water.load(Ordering::Acquire)
                    || (is_last && self.wants_startable.swap(false, Ordering::AcqRel))
                {
                    self.demand.notify_one();
                }
                if left == 0 {
                    self.emptied.notify_waiters(); // it may have been released while no job is running
                }
            }
            // A thread may be free and need a job, or this was the last job.
            Stage::Running if self.startable() == 0 => {
                self.demand.notify_one();
                self.emptied.notify_waiters();
            }
            Stage::Parked if left == 0 => self.emptied.notify_waiters(), // it may have been released, too
            Stage::Running | Stage::Parked => {}
            Stage::AwaitingFinish => {} // confirmed() signals once for many jobs
        }
    }

    pub(in crate::worker) fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(in crate::worker) fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// A job that is starting or running.
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
