//! The elected worker's tasks for the whole queue: make scheduled jobs ready when they are due, return the jobs of lost
//! workers to the queue, fire schedules, sample the depth, and delete expired rows. Each task except firing schedules
//! has a timer with jitter. Schedules are fired when promote reports that one is due. The tasks have a connection of
//! their own. Workers that are not elected wait here without a connection ([`Election`]).
//!
//! A failed task stops no worker (`state/duty_failures.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::connection::Session;
use crate::error::Error;
use crate::procedures::worker::{LostWorker, Promoted};
use crate::time::jittered;
use crate::worker::lease::{Election, Lease};
use crate::worker::state::{Duty, Phase, WorkerState};

use super::adaptive_timeout::AdaptiveTimeout;
use super::fire_schedules::fire_schedules;

/// The most jobs that one call promotes, returns to the queue or deletes, and the most workers that it marks lost.
const BATCH: usize = 1_000;

/// How often expired rows are deleted.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

pub(in crate::worker) struct Maintenance {
    state: Arc<WorkerState>,
    session: Session,
    lease: Lease,
    duties: Arc<Election>,
    patience: AdaptiveTimeout,
}

struct Timer {
    every: Duration,
    due_at: Instant,
}

impl Timer {
    fn due_now(every: Duration) -> Timer {
        Timer { every, due_at: Instant::now() }
    }

    /// Returns whether the timer is due. If so, restarts it.
    fn rings(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.due_at;
        if is_due {
            self.due_at = now + jittered(self.every);
        }
        is_due
    }

    fn again_if(&mut self, more: bool) {
        if more {
            self.due_at = Instant::now();
        }
    }
}

impl Maintenance {
    pub(in crate::worker) fn new(state: &Arc<WorkerState>, lease: Lease, duties: Arc<Election>) -> Maintenance {
        let session = state.session();
        let patience = AdaptiveTimeout::up_to(session.command_timeout());
        Maintenance { state: state.clone(), session, lease, duties, patience }
    }

    /// Does the maintenance while this worker is elected, until it stops.
    pub(in crate::worker) async fn run(mut self) {
        let stop = self.state.stop.clone();
        // The first worker of a queue is elected immediately. Later ones ask once; then their heartbeats tell them.
        while stop.is_running() {
            self.while_elected().await;
            self.state.duty_failures.are_another_s();
            self.session.disconnect();
            tokio::select! {
                () = self.duties.elected() => {}
                () = stop.reached(Phase::Stopping) => {}
            }
        }
    }

    /// Does the tasks. Returns when another worker is elected or this one stops.
    async fn while_elected(&mut self) {
        let WorkerState { queue, config, stop, metrics, duty_failures: failures, .. } = &*self.state.clone();
        let mut promote = Timer::due_now(config.promote_interval);
        let mut reap = Timer::due_now(config.reap_interval);
        let mut sample = Timer::due_now(config.sample_interval);
        let mut expire = Timer { every: EXPIRE_EVERY, due_at: Instant::now() };
        while stop.is_running() {
            // If a call leaves work, the rest follows in the next turn, so that no task waits long for another, and
            // promote can renew the election.
            if promote.rings() {
                match self.promote_due().await {
                    Ok(Promoted { elected: false, .. }) => return,
                    Ok(Promoted { jobs, schedules_due, expired, error, .. }) => {
                        match error {
                            Some(error) => failures.failed_for_all(Duty::Promote, error, None, metrics),
                            None => failures.succeeded(Duty::Promote),
                        }
                        let more_schedules =
                            schedules_due && fire_schedules(&self.state, &mut self.session, &mut self.patience).await;
                        promote.again_if(jobs.max(expired) as usize >= BATCH || more_schedules);
                    }
                    Err(error) => {
                        failures.failed(Duty::Promote, &error, metrics);
                        // In this case only the heartbeat can report that another worker was elected.
                        if failures.yields() && !self.duties.is_elected() {
                            return;
                        }
                    }
                }
            }
            if reap.rings() {
                let reaped = self.reap_lost().await;
                reap.again_if(self.noted(Duty::Reap, reaped).unwrap_or(false));
            }
            if sample.rings() {
                let sampled = self.sample().await;
                self.noted(Duty::Sample, sampled);
            }
            if expire.rings() {
                let asked_at = Instant::now();
                let expired = self.session.within(self.patience.limit()).expire(queue, BATCH).await;
                self.patience.after(asked_at.elapsed(), &expired);
                expire.again_if(self.noted(Duty::Expire, expired).is_some_and(|expired| expired as usize >= BATCH));
            }
            let next = promote.due_at.min(reap.due_at).min(sample.due_at).min(expire.due_at);
            stop.pause(next.saturating_duration_since(Instant::now())).await;
        }
    }

    async fn promote_due(&mut self) -> Result<Promoted, Error> {
        let worker_id = self.lease.registration().worker_id;
        let asked_at = Instant::now();
        let promoted = self.session.within(self.patience.limit()).promote(&self.state.queue, worker_id, BATCH).await;
        self.patience.after(asked_at.elapsed(), &promoted);
        let promoted = promoted?;
        if promoted.jobs > 0 {
            self.state.metrics.promoted.increment(u64::from(promoted.jobs));
            self.state.arrivals.expect();
        }
        self.state.expired(promoted.expired.into());
        Ok(promoted)
    }

    async fn sample(&mut self) -> Result<(), Error> {
        let max_age = self.state.config.sample_interval / 2;
        let asked_at = Instant::now();
        let sample = self.session.within(self.patience.limit()).sample(&self.state.queue, max_age).await;
        self.patience.after(asked_at.elapsed(), &sample);
        if let Some(sample) = sample? {
            self.duties.sampled(sample);
        }
        Ok(())
    }

    /// Returns the jobs of lost workers to the queue. Returns whether there are more.
    async fn reap_lost(&mut self) -> Result<bool, Error> {
        let asked_at = Instant::now();
        let reaped = self.session.within(self.patience.limit()).reap(&self.state.queue, BATCH).await;
        self.patience.after(asked_at.elapsed(), &reaped);
        let reaped = reaped?;
        let jobs = (reaped.jobs_ready + reaped.jobs_dead) as usize;
        self.state.metrics.reaped(reaped.lost.len() as u32, reaped.jobs_ready, reaped.jobs_dead);
        for LostWorker { worker, name } in &reaped.lost {
            tracing::warn!(lost_worker = name, lost_worker_id = %worker, "a worker was lost: its lease expired");
        }
        if jobs > 0 {
            tracing::warn!(
                ready = reaped.jobs_ready,
                dead = reaped.jobs_dead,
                "returned the jobs of lost workers to the queue"
            );
            self.state.arrivals.expect();
        }
        Ok(jobs >= BATCH || reaped.lost.len() >= BATCH)
    }

    /// Records whether a task succeeded.
    fn noted<T>(&self, duty: Duty, done: Result<T, Error>) -> Option<T> {
        let WorkerState { duty_failures, metrics, .. } = &*self.state;
        match done {
            Ok(done) => {
                duty_failures.succeeded(duty);
                Some(done)
            }
            Err(error) => {
                duty_failures.failed(duty, &error, metrics);
                None
            }
        }
    }
}
