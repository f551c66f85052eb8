//! Jobs that run longer than they may: each is logged and counted once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::ids::{Fence, JobId};
use crate::job::Job;

use super::shared::Shared;

/// How often they are looked for.
const INTERVAL: Duration = Duration::from_secs(1);

/// The jobs that run and have a time limit.
#[derive(Default)]
pub(super) struct Overdue {
    running: Mutex<HashMap<(JobId, Fence), TimeLimit>>,
}

struct TimeLimit {
    limit: Duration,
    /// `None`: it was reported.
    deadline: Option<Instant>,
}

/// A job that runs; it has ended when this is dropped.
pub(super) struct Watched<'a> {
    overdue: &'a Overdue,
    key: (JobId, Fence),
    /// Until when it may run.
    pub(super) deadline: Instant,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.overdue.running.lock().remove(&self.key);
    }
}

impl Overdue {
    /// Notes a start.
    pub(super) fn watch(&self, job: &Job, started_at: Instant, limit: Duration) -> Watched<'_> {
        let (key, deadline) = ((job.id(), job.fence()), started_at + limit);
        self.running.lock().insert(key, TimeLimit { limit, deadline: Some(deadline) });
        Watched { overdue: self, key, deadline }
    }

    /// Reports them; never returns.
    pub(super) async fn keep_reporting(self: Arc<Overdue>, shared: Arc<Shared>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            for (job_id, fence, limit) in self.newly_overdue() {
                tracing::warn!(%job_id, %fence, ?limit, "a job runs longer than its time limit");
                shared.tally.overdue();
                shared.metrics.overdue.increment(1);
            }
        }
    }

    /// Those whose time is over and that were not returned before.
    fn newly_overdue(&self) -> Vec<(JobId, Fence, Duration)> {
        let now = Instant::now();
        let mut running = self.running.lock();
        let overdue = running.iter_mut().filter_map(|((job_id, fence), limited)| {
            limited.deadline.take_if(|at| *at <= now).map(|_| (*job_id, *fence, limited.limit))
        });
        overdue.collect()
    }
}
