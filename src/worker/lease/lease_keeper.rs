//! Keeps the lease, by which SQL Server considers this worker alive.
//!
//! A task with a connection of its own renews the lease by updating one row, so that neither a slow claim nor busy
//! cores can starve it. A renewal may take as long as the lease lasts ([`HeartbeatsUnderWay`]). If SQL Server rejects a
//! renewal, the worker was marked lost, and its jobs may be running elsewhere. The [`Registration`] is then marked
//! lost, its unstarted jobs are dropped, and the worker registers again under a new id.
//!
//! Only SQL Server's clock decides whether the lease holds. The local clock ([`LeaseValidity`]) can only withhold jobs:
//! if the last renewal is older than the lease, the lease is in doubt, and no further job starts until SQL Server has
//! responded.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::connection::Session;
use crate::error::Error;
use crate::id::WorkerId;
use crate::job::Needs;
use crate::metrics::LIMITS;
use crate::procedures::check_compatible;
use crate::procedures::worker::{TakenOver, Wishes, Worked, WorkerReport, short_json};
use crate::queue::CancelledHere;
use crate::time::Pauses;
use crate::worker::state::{Phase, WorkerState};

use super::election::Election;
use super::heartbeats_under_way::{HeartbeatsUnderWay, Renewal};
use super::registration::Registration;
use super::validity::{LONGEST_SLEEP, LeaseValidity};

/// The lease as the other stages see it.
#[derive(Clone)]
pub(in crate::worker) struct Lease {
    current: watch::Receiver<Arc<Registration>>,
    refused: Arc<Notify>,
    clock: Arc<LeaseValidity>,
}

impl Lease {
    /// Returns the registration under which the worker currently claims jobs.
    pub(in crate::worker) fn registration(&self) -> Arc<Registration> {
        self.current.borrow().clone()
    }

    /// Returns whether the worker is certainly registered.
    pub(in crate::worker) fn is_held(&self) -> bool {
        self.current.borrow().is_held()
    }

    /// Returns the time since the last confirmed renewal was sent.
    pub(in crate::worker) fn age(&self) -> Duration {
        self.clock.age()
    }

    /// Returns until when the lease is certainly held.
    pub(in crate::worker) fn clock(&self) -> Arc<LeaseValidity> {
        self.clock.clone()
    }

    /// Called when SQL Server has rejected a claim under this registration. Completes when there is a new one.
    pub(in crate::worker) async fn replaced(&mut self, registration: &Registration) {
        self.refused.notify_one();
        let is_another = |current: &Arc<Registration>| current.worker_id != registration.worker_id;
        let _ = self.current.wait_for(is_another).await; // an error: the keeper has stopped, and the worker with it
    }
}

/// Registers the worker and keeps its lease.
pub(in crate::worker) struct LeaseKeeper {
    state: Arc<WorkerState>,
    renewals: HeartbeatsUnderWay,
    clock: Arc<LeaseValidity>,
    current: watch::Sender<Arc<Registration>>,
    /// The prefetcher's signal that SQL Server rejected a claim because the worker is lost.
    refused: Arc<Notify>,
    duties: Arc<Election>,
    /// Running jobs that this process itself has asked to cancel.
    cancelled_here: CancelledHere,
    /// What operators had asked when the worker registered.
    wishes: Wishes,
}

impl LeaseKeeper {
    /// Registers for the first time.
    ///
    /// # Errors
    ///
    /// Any error from registering. Nothing is retried here, so that a wrong setting shows up at startup.
    pub(in crate::worker) async fn register(
        mut session: Session,
        state: &Arc<WorkerState>,
        cancelled_here: CancelledHere,
    ) -> Result<LeaseKeeper, Error> {
        let (config, clock) = (&state.config, Arc::new(LeaseValidity::default()));
        let (registration, wishes) = register_once(&mut session, state, config.take_over, &clock, None).await?;
        let (current, _) = watch::channel(Arc::new(registration));
        // A response is useful even after the lease has expired, because the worker may not have been reaped yet. The
        // limit is therefore longer than the lease by one interval.
        let renewals = HeartbeatsUnderWay::new(session, config.lease + config.heartbeat_interval);
        let (refused, duties) = (Arc::default(), Arc::new(Election::new()));
        let state = state.clone();
        Ok(LeaseKeeper { state, renewals, clock, current, refused, duties, cancelled_here, wishes })
    }

    /// Returns the lease for the other stages.
    pub(in crate::worker) fn lease(&self) -> Lease {
        Lease { current: self.current.subscribe(), refused: self.refused.clone(), clock: self.clock.clone() }
    }

    /// Returns the results of heartbeats apart from the lease.
    pub(in crate::worker) fn duties(&self) -> Arc<Election> {
        self.duties.clone()
    }

    /// Renews the lease until the worker is stopped immediately or the task is dropped. Calls `resumed` after each
    /// renewal, because the lease may have been in doubt until then, and `steer` with what operators ask. `in_use` tells
    /// what jobs use of the worker's resources, if they use more than their threads.
    pub(in crate::worker) async fn keep(
        mut self,
        resumed: impl Fn() + Send + 'static,
        mut steer: impl FnMut(Wishes) + Send + 'static,
        in_use: impl Fn() -> Option<Needs> + Send + 'static,
    ) {
        steer(self.wishes);
        let WorkerState { config, stop, metrics, outage, .. } = &*self.state.clone();
        let interval = config.heartbeat_interval;
        let lease = config.lease;
        let mut pauses = Pauses::new(Duration::from_millis(50), interval.min(LONGEST_SLEEP));
        let clock = self.clock.clone();
        let mut due_at = clock.now() + interval;
        // Whether a claim was rejected. Then the response to a heartbeat that was sent before must not delay the next
        // heartbeat.
        let mut is_refused = false;
        loop {
            let worker_id = self.current.borrow().worker_id;
            let Renewal { sent_at, result } = tokio::select! {
                answer = self.renewals.next() => answer,
                () = clock.reaches(due_at), if self.renewals.may_send() => {
                    if !self.renewals.is_quiet() && !outage.is_on() {
                        tracing::warn!(%worker_id, "no response to the heartbeat; sending another one on a second connection");
                    }
                    let report = report(&self.current.borrow(), &self.state, in_use());
                    self.renewals.send(worker_id, report, clock.now());
                    due_at = clock.now() + interval;
                    is_refused = false;
                    continue;
                }
                () = self.refused.notified() => {
                    due_at = clock.now();
                    is_refused = true;
                    continue;
                }
                // If there are more than the channel keeps, the next heartbeat reports them.
                Ok(jobs) = self.cancelled_here.recv() => {
                    self.current.borrow().cancel(&jobs);
                    continue;
                }
                () = stop.reached(Phase::StoppingNow) => return,
            };
            match result {
                Ok(heartbeat) => {
                    clock.renewed(sent_at, lease);
                    steer(heartbeat.wishes);
                    self.duties.heard(&heartbeat);
                    self.current.borrow().cancel(&heartbeat.cancelled);
                    // A newer release was installed: running jobs may finish, and the lease is kept for them.
                    if let Err(too_new) = check_compatible(heartbeat.min_compatible)
                        && stop.is_running()
                    {
                        stop.fail(too_new);
                    }
                    metrics.lease_renewals.increment(1);
                    outage.answered("heartbeat");
                    resumed();
                    pauses.reset();
                    // The interval is not counted from the response: if responses were slow, the lease would expire
                    // between renewals.
                    if !is_refused {
                        due_at = self.renewals.last_sent_at().unwrap_or(sent_at) + interval;
                    }
                }
                Err(Error::LeaseLost) => {
                    outage.answered("heartbeat");
                    self.renewals.give_up();
                    self.replace_registration().await;
                    resumed();
                    is_refused = false;
                    due_at = clock.now() + interval;
                }
                Err(error) if error.is_transient() => {
                    let pause = pauses.next();
                    due_at = clock.now() + pause;
                    if !outage.tells_of("heartbeat", &error) {
                        let sql_error = error.sql_number();
                        tracing::warn!(%worker_id, sql_error, %error, retry_in = ?pause, "could not renew the lease; retrying");
                    }
                }
                Err(error) => {
                    stop.fail(error);
                    // The running jobs need their lease, so the worker keeps trying while it stops.
                    due_at = clock.now() + interval;
                }
            }
        }
    }

    /// Marks the current registration lost and registers again, until that succeeds or the worker stops.
    async fn replace_registration(&mut self) {
        let WorkerState { config, stop, metrics, outage, .. } = &*self.state.clone();
        let old = self.current.borrow().clone();
        if old.is_lost() {
            return; // the worker is stopping and does not register again
        }
        old.cancellations().lose_lease();
        metrics.leases_lost.increment(1);
        tracing::warn!(worker_id = %old.worker_id, held = old.held().len(), "the worker lost its lease; registering again");
        let mut pauses = Pauses::new(Duration::from_millis(50), config.heartbeat_interval);
        let mut session = self.renewals.session();
        // The lost worker now reports what it did since its last heartbeat; later work counts for the new one.
        let (last, worked) = old.last_report(&self.state.tally);
        while stop.is_running() {
            let registered = async {
                session.unregister_worker(&self.state.queue, old.worker_id, &last).await?;
                let replaced = Some((old.worker_id, worked.clone()));
                register_once(&mut session, &self.state, false, &self.clock, replaced).await
            };
            match registered.await {
                Ok((registration, _)) => {
                    outage.answered("register_worker");
                    tracing::info!(worker_id = %registration.worker_id, "the worker registered again");
                    self.current.send_replace(Arc::new(registration));
                    break;
                }
                Err(error) if error.is_transient() => {
                    if !outage.tells_of("register_worker", &error) {
                        let sql_error = error.sql_number();
                        tracing::warn!(sql_error, %error, "the worker could not register again; retrying");
                    }
                    stop.pause(pauses.next()).await;
                }
                Err(error) => {
                    stop.fail(error);
                    break;
                }
            }
        }
        self.renewals.put_back(session);
    }
}

fn report(registration: &Registration, state: &WorkerState, in_use: Option<Needs>) -> WorkerReport {
    let (_, limit) = state.limited_by.shares();
    WorkerReport {
        running: state.in_flight.running(),
        limited_by: LIMITS[limit as usize],
        yields: state.duty_failures.yields(),
        in_use: in_use.as_ref().and_then(short_json),
        resources: state.changed_resources().as_ref().and_then(short_json),
        work: registration.report(&state.tally),
    }
}

async fn register_once(
    session: &mut Session,
    state: &WorkerState,
    take_over: bool,
    clock: &Arc<LeaseValidity>,
    replaced: Option<(WorkerId, Worked)>,
) -> Result<(Registration, Wishes), Error> {
    let worker_id = WorkerId::new();
    let lease = state.config.lease;
    let sent_at = clock.now();
    let name = state.config.worker_name();
    let mut session = session.within(lease);
    let (replaces, worked_before) = replaced.unzip();
    let resources = state.resources();
    let registered =
        session.register_worker(&state.queue, worker_id, &name, lease, take_over, &resources, replaces).await;
    let (settings, taken_over, wishes) = registered?;
    clock.renewed(sent_at, lease);
    tracing::debug!(%worker_id, ?settings, "registered");
    if let Some(held) = settings.held() {
        tracing::warn!(%worker_id, "nothing is claimed: {held}");
    }
    let TakenOver { workers, jobs_ready, jobs_dead } = taken_over;
    if workers > 0 || jobs_ready > 0 || jobs_dead > 0 {
        tracing::warn!(%worker_id, workers, ready = jobs_ready, dead = jobs_dead, "the worker took over from lost workers");
        state.metrics.reaped(workers, jobs_ready, jobs_dead);
    }
    Ok((Registration::new(worker_id, settings, clock.clone(), worked_before.unwrap_or_default()), wishes))
}
