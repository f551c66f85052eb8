//! The lease: how this process stays alive in SQL Server's eyes.
//!
//! A task with a connection of its own renews the lease by one row update, so that neither a slow claim nor full cores can starve it.
//! A renewal that SQL Server refuses means that the worker was marked lost: whatever it holds may run elsewhere. The [`Registration`]
//! is then marked lost, its unstarted jobs are dropped, and the worker registers anew under a new id.
//!
//! SQL Server's clock alone decides. The only thing decided here by the local (monotonic) clock is a refusal: when the last renewal is
//! longer ago than the lease, the lease is in doubt and no further job is started until SQL Server has answered.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::config::WorkerConfig;
use crate::error::Error;
use crate::handler::Cancellation;
use crate::job::{Fence, JobId};
use crate::metrics::WorkerMetrics;
use crate::queue::WorkerId;
use crate::queue::connection::Lane;
use crate::queue::workers::QueueSettings;

use super::backoff::Backoff;
use super::shutdown::{Phase, StopHandle};

/// One life of this worker in SQL Server: an id, and the jobs that were claimed under it.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) worker_id: WorkerId,
    pub(crate) settings: QueueSettings,
    clock: Arc<LeaseClock>,
    lost: Cancellation,
    held: Mutex<HashMap<JobId, Fence>>,
}

impl Registration {
    fn new(worker_id: WorkerId, settings: QueueSettings, clock: Arc<LeaseClock>) -> Registration {
        Registration { worker_id, settings, clock, lost: Cancellation::default(), held: Mutex::default() }
    }

    /// Whether the worker is certainly still registered, so that nobody else can have taken its jobs.
    pub(crate) fn is_held(&self) -> bool {
        !self.lost.is_cancelled() && !self.clock.is_in_doubt()
    }

    pub(crate) fn clock(&self) -> &LeaseClock {
        &self.clock
    }

    /// Turns true when SQL Server has said that this worker is lost.
    pub(crate) fn lost(&self) -> &Cancellation {
        &self.lost
    }

    /// Remembers jobs that were claimed.
    pub(crate) fn hold(&self, jobs: impl Iterator<Item = (JobId, Fence)>) {
        self.held.lock().extend(jobs);
    }

    /// Forgets jobs whose finish or release SQL Server has confirmed. A job that was claimed again meanwhile has another fence and stays.
    pub(crate) fn forget(&self, jobs: impl Iterator<Item = (JobId, Fence)>) {
        let mut held = self.held.lock();
        for (job_id, fence) in jobs {
            if let Entry::Occupied(entry) = held.entry(job_id)
                && *entry.get() == fence
            {
                entry.remove();
            }
        }
    }

    /// Everything this process knows that it holds, for `recover`.
    pub(crate) fn held(&self) -> Vec<(JobId, Fence)> {
        self.held.lock().iter().map(|(job_id, fence)| (*job_id, *fence)).collect()
    }
}

/// Until when the lease is certainly held, by the local monotonic clock. Counted from before the renewal was sent, so that it is never
/// later than what SQL Server believes.
#[derive(Debug)]
pub(crate) struct LeaseClock {
    origin: Instant,
    renewed_ns: AtomicU64,
    held_until_ns: AtomicU64,
}

impl LeaseClock {
    fn new() -> LeaseClock {
        LeaseClock { origin: Instant::now(), renewed_ns: AtomicU64::new(0), held_until_ns: AtomicU64::new(0) }
    }

    fn renewed(&self, sent_at: Instant, lease: Duration) {
        self.renewed_ns.store(sent_at.duration_since(self.origin).as_nanos() as u64, Ordering::Release);
        let held_until = (sent_at + lease).duration_since(self.origin);
        self.held_until_ns.store(held_until.as_nanos() as u64, Ordering::Release);
    }

    /// Since the last renewal that SQL Server has confirmed was sent.
    pub(crate) fn age(&self) -> Duration {
        self.origin.elapsed().saturating_sub(Duration::from_nanos(self.renewed_ns.load(Ordering::Acquire)))
    }

    /// Whether the lease may have run out: nothing new is started then.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.origin.elapsed().as_nanos() as u64 >= self.held_until_ns.load(Ordering::Acquire)
    }
}

/// Registers the worker and keeps its lease.
pub(crate) struct LeaseKeeper {
    lane: Lane,
    queue: String,
    config: WorkerConfig,
    clock: Arc<LeaseClock>,
    current: watch::Sender<Arc<Registration>>,
    /// The prefetcher's word that SQL Server refused a claim because the worker is lost.
    refused: Arc<Notify>,
    metrics: Arc<WorkerMetrics>,
}

impl LeaseKeeper {
    /// Registers for the first time.
    ///
    /// # Errors
    ///
    /// Whatever keeps the worker from registering; nothing is retried here, so that a wrong setting is seen at the start.
    pub(crate) async fn register(
        mut lane: Lane,
        queue: String,
        config: WorkerConfig,
        metrics: Arc<WorkerMetrics>,
    ) -> Result<LeaseKeeper, Error> {
        let clock = Arc::new(LeaseClock::new());
        let registration = register_once(&mut lane, &queue, &config, config.take_over, &clock).await?;
        let (current, _) = watch::channel(Arc::new(registration));
        Ok(LeaseKeeper { lane, queue, config, clock, current, refused: Arc::default(), metrics })
    }

    pub(crate) fn clock(&self) -> Arc<LeaseClock> {
        self.clock.clone()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Registration>> {
        self.current.subscribe()
    }

    pub(crate) fn refused(&self) -> Arc<Notify> {
        self.refused.clone()
    }

    /// Renews until the worker is told to stop at once or the task is ended; `resumed` is called after each renewal: the lease
    /// may have been in doubt until then.
    pub(crate) async fn keep(mut self, stop: StopHandle, resumed: impl Fn() + Send + 'static) {
        let interval = Duration::from_millis(self.config.heartbeat_interval_ms);
        let lease = Duration::from_millis(self.config.lease_ms);
        let mut backoff = Backoff::new(Duration::from_millis(50), interval);
        let mut pause = interval;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.refused.notified() => {}
                () = stop.reached(Phase::StoppingNow) => return,
            }
            let worker_id = self.current.borrow().worker_id;
            let sent_at = Instant::now();
            // A call that hangs must not use up the lease: after an interval the connection is given up and the next try makes another.
            match in_time("heartbeat", interval, self.lane.heartbeat(worker_id)).await {
                Ok(()) => {
                    self.clock.renewed(sent_at, lease);
                    self.metrics.lease_renewals.increment(1);
                    resumed();
                    backoff.reset();
                    pause = interval;
                }
                Err(Error::LeaseLost) => {
                    self.replace_registration(&stop).await;
                    resumed();
                    pause = interval;
                }
                Err(error) if error.is_transient() => {
                    if matches!(&error, Error::TimedOut { after, .. } if *after == interval) {
                        self.lane.given_up("heartbeat", &error);
                    }
                    pause = backoff.next();
                    let sql_error = error.sql_number();
                    tracing::warn!(%worker_id, sql_error, %error, retry_in = ?pause, "the lease could not be renewed");
                }
                Err(error) => {
                    stop.fail(error);
                    // The jobs that still run want their lease: go on trying while the worker stops.
                    pause = interval;
                }
            }
        }
    }

    /// Marks the present registration lost and registers anew, until it succeeds or the worker stops.
    async fn replace_registration(&mut self, stop: &StopHandle) {
        let old = self.current.borrow().clone();
        if old.lost().is_cancelled() {
            return; // the worker is stopping and does not register anew
        }
        old.lost().cancel();
        self.metrics.leases_lost.increment(1);
        tracing::warn!(worker_id = %old.worker_id, held = old.held().len(), "the lease was lost");
        let mut backoff =
            Backoff::new(Duration::from_millis(50), Duration::from_millis(self.config.heartbeat_interval_ms));
        while stop.is_running() {
            match register_once(&mut self.lane, &self.queue, &self.config, false, &self.clock).await {
                Ok(registration) => {
                    tracing::info!(worker_id = %registration.worker_id, "registered anew");
                    self.current.send_replace(Arc::new(registration));
                    return;
                }
                Err(error) if error.is_transient() => {
                    tracing::warn!(sql_error = error.sql_number(), %error, "could not register anew, trying again");
                    stop.pause(backoff.next()).await;
                }
                Err(error) => return stop.fail(error),
            }
        }
    }
}

/// A call with a time limit. Dropping the call closes its connection.
async fn in_time<T>(call: &str, limit: Duration, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::TimedOut { call: call.to_owned(), after: limit }),
    }
}

async fn register_once(
    lane: &mut Lane,
    queue: &str,
    config: &WorkerConfig,
    take_over: bool,
    clock: &Arc<LeaseClock>,
) -> Result<Registration, Error> {
    let worker_id = WorkerId::new();
    let lease = Duration::from_millis(config.lease_ms);
    let sent_at = Instant::now();
    let name = config.worker_name();
    let registering = lane.register_worker(queue, worker_id, &name, lease, take_over);
    let settings = in_time("register_worker", lease, registering).await?;
    clock.renewed(sent_at, lease);
    tracing::debug!(%worker_id, ?settings, "registered");
    Ok(Registration::new(worker_id, settings, clock.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_in_doubt_before_the_first_renewal_and_after_it_ran_out() {
        let clock = LeaseClock::new();
        assert!(clock.is_in_doubt());
        clock.renewed(Instant::now(), Duration::from_secs(60));
        assert!(!clock.is_in_doubt());
        clock.renewed(Instant::now(), Duration::ZERO);
        assert!(clock.is_in_doubt());
    }
}
