//! Jobs that run longer than they may: each is logged and counted once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::handler::Handler;
use crate::ids::{Fence, JobId};
use crate::job::Job;
use crate::metrics::KindMetrics;
use crate::worker::stage_context::StageContext;

/// How often they are looked for.
const INTERVAL: Duration = Duration::from_secs(1);

/// The jobs that run and have a time limit.
pub(in crate::worker) struct Overdue {
    kinds: Arc<[KindMetrics]>,
    running: Mutex<HashMap<(JobId, Fence), TimeLimit>>,
}

struct TimeLimit {
    /// The place of its handler.
    handler: usize,
    kind: Option<Arc<str>>,
    limit: Duration,
    /// `None`: it was reported.
    deadline: Option<Instant>,
}

/// A job that runs; it has ended when this is dropped.
pub(in crate::worker) struct Watched<'a> {
    overdue: &'a Overdue,
    key: (JobId, Fence),
    /// Until when it may run.
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

    /// Notes a start, where there is a time limit: the job's own, or that of its handler.
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
        self.running.lock().insert(key, TimeLimit { handler: place, kind, limit, deadline: Some(deadline) });
        Some(Watched { overdue: self, key, deadline })
    }

    /// Reports them; never returns.
    pub(in crate::worker) async fn keep_reporting(self: Arc<Overdue>, state: Arc<StageContext>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            self.report(|(job_id, fence), job| {
                let (kind, limit) = (job.kind.as_deref(), job.limit);
                tracing::warn!(%job_id, %fence, kind, ?limit, "a job runs longer than its time limit");
                state.tally.overdue();
                self.kinds[job.handler].overdue.increment(1);
            });
        }
    }

    /// Reports those whose time is over and that were not reported before.
    fn report(&self, report: impl Fn(&(JobId, Fence), &TimeLimit)) {
        let now = Instant::now();
        for (job, limited) in self.running.lock().iter_mut() {
            if limited.deadline.take_if(|at| *at <= now).is_some() {
                report(job, limited);
            }
        }
    }
}
