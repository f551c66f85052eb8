//! Logs and counts each job that exceeds its time limit, once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::handler::Handler;
use crate::id::{Fence, JobId};
use crate::job::Job;
use crate::metrics::KindMetrics;
use crate::worker::state::WorkerState;

/// How often to check for overdue jobs.
const INTERVAL: Duration = Duration::from_secs(1);

/// The running jobs that have a time limit.
pub(in crate::worker) struct Overdue {
    kinds: Arc<[KindMetrics]>,
    running: Mutex<HashMap<(JobId, Fence), TimeLimit>>,
}

struct TimeLimit {
    /// The index of the job's handler.
    handler: usize,
    kind: Option<Arc<str>>,
    limit: Duration,
    deadline: Instant,
    is_reported: bool,
}

/// A job that has exceeded its time limit: the index of its handler, its kind and its limit.
type OverdueJob = ((JobId, Fence), usize, Option<Arc<str>>, Duration);

/// A running job; it is removed when this is dropped.
pub(in crate::worker) struct Watched<'a> {
    overdue: &'a Overdue,
    key: (JobId, Fence),
    /// The deadline of the run.
    pub(in crate::worker) deadline: Instant,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.overdue.running.lock().remove(&self.key);
    }
}

impl Overdue {
    pub(in crate::worker) fn new(kinds: Arc<[KindMetrics]>) -> Overdue {
        Overdue { kinds, running: Mutex::default() }
    }

    /// Records a start, if the job or its handler has a time limit.
    pub(in crate::worker) fn watch(
        &self,
        job: &Job,
        place: usize,
        handler: &Handler,
        started_at: Instant,
    ) -> Option<Watched<'_>> {
        let limit = job.time_limit().or(handler.options.time_limit)?;
        let (key, deadline) = ((job.id(), job.fence()), started_at + limit);
        let kind = handler.kind().cloned();
        self.running.lock().insert(key, TimeLimit { handler: place, kind, limit, deadline, is_reported: false });
        Some(Watched { overdue: self, key, deadline })
    }

    /// Reports overdue jobs, repeatedly. Never returns.
    pub(in crate::worker) async fn keep_reporting(self: Arc<Overdue>, state: Arc<WorkerState>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            self.report(&state);
        }
    }

    /// Reports jobs that have exceeded their time limit and were not reported before.
    fn report(&self, state: &WorkerState) {
        for ((job_id, fence), handler, kind, limit) in self.take_overdue() {
            tracing::warn!(%job_id, %fence, kind = kind.as_deref(), ?limit, "a job exceeded its time limit");
            state.tally.overdue();
            self.kinds[handler].overdue.increment(1);
        }
    }

    /// Returns jobs that have exceeded their time limit and were not returned before. (They are reported without the
    /// lock, which each job takes when it starts and when it finishes: a subscriber or a recorder may be slow.)
    fn take_overdue(&self) -> Vec<OverdueJob> {
        let now = Instant::now();
        let mut taken = Vec::new();
        for (job, limited) in self.running.lock().iter_mut() {
            if limited.deadline <= now && !std::mem::replace(&mut limited.is_reported, true) {
                taken.push((*job, limited.handler, limited.kind.clone(), limited.limit));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkerConfig;
    use crate::log_capture;

    #[test]
    fn jobs_start_and_end_while_an_overdue_one_is_reported() {
        let state = WorkerState::for_test(WorkerConfig::default());
        let overdue = Arc::new(Overdue::new([KindMetrics::new("work", "")].into()));
        let (limit, deadline) = (Duration::ZERO, Instant::now());
        let late = TimeLimit { handler: 0, kind: None, limit, deadline, is_reported: false };
        overdue.running.lock().insert((JobId(1), Fence(1)), late);
        let observed = overdue.clone();
        let is_free = move || observed.running.try_lock_for(Duration::from_secs(5)).is_some();
        let seen = log_capture::seen(is_free, || {
            overdue.report(&state);
            overdue.report(&state);
        });
        assert_eq!(seen, [true], "one report, and the lock was free");
    }
}
