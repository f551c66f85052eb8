//! The lease: how this process stays alive in SQL Server's eyes.
//!
//! A task with a connection of its own renews the lease by one row update, so that neither a slow claim nor full cores can starve it. A
//! renewal may take as long as the lease lasts: [`Renewals`].
//! A renewal that SQL Server refuses means that the worker was marked lost: whatever it holds may run elsewhere. The [`Registration`]
//! is then marked lost, its unstarted jobs are dropped, and the worker registers anew under a new id.
//!
//! SQL Server's clock alone decides. The only thing decided here by the local clock is a refusal: when the last renewal is longer ago
//! than the lease, the lease is in doubt and no further job is started until SQL Server has answered. That clock runs on while the machine
//! is suspended ([`BootClock`]), as SQL Server's does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::boot_clock::BootClock;
use crate::config::WorkerConfig;
use crate::error::Error;
use crate::handler::Cancellation;
use crate::ids::{Fence, JobId, WorkerId};
use crate::metrics::WorkerMetrics;
use crate::queue::lane::Lane;
use crate::queue::schema::check_compatible;
use crate::queue::workers::QueueSettings;

use super::backoff::Backoff;
use super::duties::Duties;
use super::renewals::{Answer, Renewals};
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

/// Until when the lease is certainly held, by the local clock. Counted from before the renewal was sent, so that it is never later than
/// what SQL Server believes.
#[derive(Debug, Default)]
pub(crate) struct LeaseClock {
    clock: BootClock,
    renewed_ns: AtomicU64,
    held_until_ns: AtomicU64,
}

impl LeaseClock {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn renewed(&self, sent_at: Duration, lease: Duration) {
        self.renewed_ns.store(sent_at.as_nanos() as u64, Ordering::Release);
        self.held_until_ns.store((sent_at + lease).as_nanos() as u64, Ordering::Release);
    }

    /// Since the last renewal that SQL Server has confirmed was sent.
    pub(crate) fn age(&self) -> Duration {
        self.now().saturating_sub(Duration::from_nanos(self.renewed_ns.load(Ordering::Acquire)))
    }

    /// Whether the lease may have run out: nothing new is started then.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.now().as_nanos() as u64 >= self.held_until_ns.load(Ordering::Acquire)
    }

    /// Returns at that time, or within [`LONGEST_SLEEP`] of the end of a suspension during which it came: timers sleep with the machine.
    async fn reaches(&self, time: Duration) {
        loop {
            let left = time.saturating_sub(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
        }
    }
}

/// How long the keeper sleeps at the most before it looks at the clock again.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Registers the worker and keeps its lease.
pub(crate) struct LeaseKeeper {
    renewals: Renewals,
    queue: String,
    config: WorkerConfig,
    clock: Arc<LeaseClock>,
    current: watch::Sender<Arc<Registration>>,
    /// The prefetcher's word that SQL Server refused a claim because the worker is lost.
    refused: Arc<Notify>,
    duties: Arc<Duties>,
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
        duties: Arc<Duties>,
        metrics: Arc<WorkerMetrics>,
    ) -> Result<LeaseKeeper, Error> {
        let clock = Arc::new(LeaseClock::default());
        let registration = register_once(&mut lane, &queue, &config, config.take_over, &clock).await?;
        let (current, _) = watch::channel(Arc::new(registration));
        // An answer that comes when the lease has run out is worth something still: perhaps nobody has reaped the worker. An interval is
        // added for that.
        let renewals = Renewals::new(lane, Duration::from_millis(config.lease_ms + config.heartbeat_interval_ms));
        Ok(LeaseKeeper { renewals, queue, config, clock, current, refused: Arc::default(), duties, metrics })
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
        let mut backoff = Backoff::new(Duration::from_millis(50), interval.min(LONGEST_SLEEP));
        let clock = self.clock.clone();
        let mut due_at = clock.now() + interval;
        loop {
            let worker_id = self.current.borrow().worker_id;
            let Answer { sent_at, result } = tokio::select! {
                answer = self.renewals.next() => answer,
                () = clock.reaches(due_at), if self.renewals.may_send() => {
                    if !self.renewals.is_quiet() {
                        tracing::warn!(%worker_id, "the heartbeat is not answered; another is sent on another connection");
                    }
                    self.renewals.send(worker_id, clock.now());
                    due_at = clock.now() + interval;
                    continue;
                }
                () = self.refused.notified() => {
                    due_at = clock.now();
                    continue;
                }
                () = stop.reached(Phase::StoppingNow) => return,
            };
            match result {
                Ok(heartbeat) => {
                    clock.renewed(sent_at, lease);
                    self.duties.heard(&heartbeat);
                    // A newer release was installed: what runs may end, and the lease is kept for it.
                    if let Err(too_new) = check_compatible(heartbeat.min_compatible)
                        && stop.is_running()
                    {
                        stop.fail(too_new);
                    }
                    self.metrics.lease_renewals.increment(1);
                    resumed();
                    backoff.reset();
                    // Not from the answer on: where answers are slow, the lease would run out between them.
                    due_at = self.renewals.last_sent_at().unwrap_or(sent_at) + interval;
                }
                Err(Error::LeaseLost) => {
                    self.renewals.give_up();
                    self.replace_registration(&stop).await;
                    resumed();
                    due_at = clock.now() + interval;
                }
                Err(error) if error.is_transient() => {
                    let pause = backoff.next();
                    due_at = clock.now() + pause;
                    let sql_error = error.sql_number();
                    tracing::warn!(%worker_id, sql_error, %error, retry_in = ?pause, "the lease could not be renewed");
                }
                Err(error) => {
                    stop.fail(error);
                    // The jobs that still run want their lease: go on trying while the worker stops.
                    due_at = clock.now() + interval;
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
        let mut lane = self.renewals.lane();
        while stop.is_running() {
            match register_once(&mut lane, &self.queue, &self.config, false, &self.clock).await {
                Ok(registration) => {
                    tracing::info!(worker_id = %registration.worker_id, "registered anew");
                    self.current.send_replace(Arc::new(registration));
                    break;
                }
                Err(error) if error.is_transient() => {
                    tracing::warn!(sql_error = error.sql_number(), %error, "could not register anew, trying again");
                    stop.pause(backoff.next()).await;
                }
                Err(error) => {
                    stop.fail(error);
                    break;
                }
            }
        }
        self.renewals.put_back(lane);
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
    let sent_at = clock.now();
    let name = config.worker_name();
    let settings = lane.within(lease).register_worker(queue, worker_id, &name, lease, take_over).await?;
    clock.renewed(sent_at, lease);
    tracing::debug!(%worker_id, ?settings, "registered");
    Ok(Registration::new(worker_id, settings, clock.clone()))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::completion::Completion as CompletionStage;
    use super::super::counts::Counts;
    use super::super::executor::{Claimed, Executor};
    use super::super::held::Held;
    use super::*;
    use crate::handler::{Context, Handlers, Surroundings};
    use crate::job::{Job, NewJob};
    use crate::queue::{ClaimOrder, CompletionPolicy, Delivery};

    const LEASE: Duration = Duration::from_secs(60);

    #[test]
    fn a_lease_is_in_doubt_before_the_first_renewal_and_after_it_ran_out() {
        let clock = LeaseClock::default();
        assert!(clock.is_in_doubt());
        clock.renewed(clock.now(), LEASE);
        assert!(!clock.is_in_doubt());
        clock.renewed(clock.now(), Duration::ZERO);
        assert!(clock.is_in_doubt());
    }

    #[tokio::test]
    async fn after_a_suspension_nothing_is_started_until_a_heartbeat_was_answered() {
        let clock = Arc::new(LeaseClock::default());
        clock.renewed(clock.now(), LEASE);
        let (executor, starts) = counting_executor(&clock);
        let settings = QueueSettings {
            claim_order: ClaimOrder::Fifo,
            completion: CompletionPolicy::Delete,
            delivery: Delivery::AtLeastOnce,
            max_attempts: 5,
            paused: false,
            taken_over: 0,
        };
        let registration = Arc::new(Registration::new(WorkerId::new(), settings, clock.clone()));
        assert!(registration.is_held());

        clock.clock.shift(LEASE);
        assert!(!registration.is_held() && clock.is_in_doubt(), "at once, without a look at SQL Server");
        assert!(clock.age() >= LEASE);
        let counts = Arc::default();
        let held = Held::payloads(&registration, &counts, vec![Job::for_test(NewJob::text(""))]);
        executor.submit(held.map(|(job, held)| Claimed { job, held, claimed_at: Instant::now() }).collect());
        executor.pump();
        tokio::time::sleep(Duration::from_millis(20)).await; // a start would take microseconds
        assert_eq!(starts.load(Ordering::Acquire), 0);

        clock.renewed(clock.now(), LEASE);
        executor.pump();
        executor.idle().await;
        assert_eq!(starts.load(Ordering::Acquire), 1);
    }

    #[tokio::test]
    async fn a_heartbeat_that_fell_due_during_a_suspension_is_sent_soon_after_it() {
        let clock = LeaseClock::default();
        let due_at = clock.now() + LEASE;
        let started_at = Instant::now();
        let resumes = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            clock.clock.shift(LEASE);
        };
        tokio::join!(clock.reaches(due_at), resumes);
        assert!(started_at.elapsed() < LONGEST_SLEEP + Duration::from_secs(4), "{:?}", started_at.elapsed());
    }

    fn counting_executor(clock: &Arc<LeaseClock>) -> (Executor, Arc<AtomicU64>) {
        let config = WorkerConfig::default();
        let (wake, counts) = (Arc::<Notify>::default(), Arc::<Counts>::default());
        let metrics = Arc::new(WorkerMetrics::new("suspended"));
        let stop = StopHandle::new();
        let (ended, _) =
            CompletionStage::new("q".into(), &config, stop.clone(), wake.clone(), counts.clone(), metrics.clone());
        let starts = Arc::new(AtomicU64::new(0));
        let counted = starts.clone();
        let handler = move |_: &Job, _: &Context| {
            counted.fetch_add(1, Ordering::AcqRel);
            Ok(())
        };
        let clock = clock.clone();
        let handlers = Handlers::any(handler).checked(&config).unwrap();
        let executor =
            Executor::new(&config, 1, 1, handlers, clock, Surroundings::default(), wake, ended, counts, metrics);
        (executor.unwrap(), starts)
    }
}
