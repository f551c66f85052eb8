//! The prefetcher: keeps as many jobs claimed as the cores will want before the next claim can bring more, and no more than that.
//!
//! ```text
//! SQL Server ──claim──▶ prefetcher ──submit──▶ executor
//!                           ▲ woken when half of what is wanted is used up, when a thread is idle, when results were acknowledged
//! ```
//!
//! How much is wanted, and when too much is held, is [`Demand`]'s to say.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::config::WorkerConfig;
use crate::error::Error;
use crate::ids::JobId;
use crate::metrics::WorkerMetrics;
use crate::queue::Delivery;
use crate::queue::claim::{ClaimAnswer, ClaimEnd, ClaimRequest, ClaimedUnseen};
use crate::queue::lane::Lane;

use super::backoff::Backoff;
use super::batch_limit::BatchLimit;
use super::completion::is_time_out_of;
use super::counts::Counts;
use super::demand::{Demand, most_ahead};
use super::executor::{Claimed, Executor};
use super::held::Held;
use super::lease::Registration;
use super::occupancy::{Limit, Occupancy};
use super::shutdown::{Phase, StopHandle};
use super::watcher::WatchSender;

/// For how long after a lost answer the claim may still arrive at the server: TCP gives up sending what is not acknowledged after some
/// 15 minutes (Linux: `tcp_retries2`, 924.6 s by default).
const LAST_LOOK: Duration = Duration::from_secs(925);

/// When a worker that waits for jobs claims whatever the watcher says.
const CLAIM_ANYWAY: Duration = Duration::from_secs(300);

/// After how many claims of one job that were not answered in time its payload is looked into.
const PAYLOAD_TRIES: u32 = 3;

/// From which size on a payload is taken for the reason that a claim was not answered in time: the size that the driver calls large. A network
/// that does not carry so much within `command_timeout_ms` (1 s at the least) is of no use.
const LARGE_PAYLOAD: u64 = 65_535;

pub(crate) struct Prefetcher {
    pub(crate) lane: Lane,
    pub(crate) queue: String,
    pub(crate) config: WorkerConfig,
    pub(crate) executor: Executor,
    pub(crate) counts: Arc<Counts>,
    pub(crate) occupancy: Arc<Occupancy>,
    pub(crate) registration: watch::Receiver<Arc<Registration>>,
    pub(crate) lease_refused: Arc<Notify>,
    /// There may be room for more jobs.
    pub(crate) wake: Arc<Notify>,
    /// There may be jobs in a queue that was empty.
    pub(crate) arrived: Arc<Notify>,
    /// Changes when jobs were enqueued through the same [`Queue`](crate::Queue).
    pub(crate) enqueued: watch::Receiver<()>,
    pub(crate) watcher: WatchSender,
    /// Notified when the last claim found nothing and nothing is in flight.
    pub(crate) found_nothing: Arc<Notify>,
    pub(crate) stop: StopHandle,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) undelivered: Undelivered,
}

impl Prefetcher {
    /// How many jobs can wait in the executor's channel at the most.
    pub(crate) fn capacity(config: &WorkerConfig, threads: usize) -> usize {
        most_ahead(config) + threads
    }

    /// Claims until the worker stops.
    pub(crate) async fn run(mut self) {
        let poll_min = Duration::from_millis(self.config.poll_min_ms);
        let poll_max = Duration::from_millis(self.config.poll_max_ms);
        let mut empty = Backoff::new(poll_min, poll_max);
        let mut failed = Backoff::for_errors();
        let mut failures = 0_u32;
        let mut demand = Demand::new(&self.config, self.executor.threads());
        let mut strays = Strays::default();
        let mut alone = Alone::default();
        let mut limit = BatchLimit::new(self.config.batch_size);
        let mut seen = None;
        while self.stop.is_running() {
            let holds_nothing = self.counts.in_flight() == 0;
            let room =
                if holds_nothing || !alone.wants_all_to_end() { self.room(&mut demand).min(limit.jobs()) } else { 0 };
            if room == 0 {
                self.occupancy.begin(self.limit_without_room(&demand));
                self.wait_for_room(&mut demand).await;
                continue;
            }
            let registration = self.registration.borrow_and_update().clone();
            self.occupancy.begin(self.limit_while_claiming(&demand));
            self.enqueued.mark_unchanged(); // the claim sees what was enqueued until now
            match self.claim(&registration, room, holds_nothing, &mut strays, &mut seen).await {
                Ok(Answered::SetAside) => failed.reset(), // what room there is now is to be looked at anew
                Ok(Answered::Jobs { jobs, alone_waits, took }) => {
                    let claimed = jobs.len();
                    let patience = Duration::from_millis(self.config.lease_ms);
                    alone.answered(alone_waits, holds_nothing && claimed > 0, patience);
                    demand.claimed(took);
                    demand.claimed_payloads(claimed, jobs.iter().map(|claimed| claimed.job.payload().len()).sum());
                    self.metrics.claimed(claimed, took);
                    self.counts.last_claim_succeeded.store(true, Ordering::Release);
                    if claimed < room {
                        self.occupancy.correct(Limit::Starved);
                    } else if self.counts.unstarted() > 0 {
                        self.occupancy.correct(Limit::Cpu); // the threads have not waited for this claim
                    }
                    if claimed > 0 {
                        tracing::debug!(batch = claimed, asked = room, ?took, "claimed");
                    }
                    limit.answered(claimed);
                    self.undelivered.claims = 0;
                    failed.reset();
                    failures = 0;
                    if claimed > 0 {
                        self.executor.submit(jobs);
                        empty.reset();
                    } else if self.counts.in_flight() == 0 {
                        self.found_nothing.notify_one();
                    }
                    if claimed < room && !(holds_nothing && alone_waits) {
                        self.occupancy.begin(Limit::Starved);
                        self.wait_for_jobs(claimed, &mut empty, &mut demand).await;
                    }
                }
                Err(Error::LeaseLost) => {
                    self.claim_failed();
                    self.lease_refused.notify_one();
                    self.wait_for_registration().await;
                }
                Err(error) if error.is_transient() => {
                    // Also after an error of SQL Server's own: a claim is a statement for each priority, and those before may have had effect.
                    strays.answer_lost();
                    if is_time_out_of(&error, "claim") {
                        failed.reset(); // it has waited for long enough
                        limit.timed_out(room); // payloads may be too large for so many in one answer
                        self.undelivered.claims += u32::from(room == 1);
                    }
                    self.claim_failed();
                    failures += 1;
                    let pause = failed.next();
                    let (attempt, sql_error) = (failures, error.sql_number());
                    tracing::warn!(batch = room, attempt, sql_error, %error, retry_in = ?pause, "claiming failed and is repeated");
                    self.stop.pause(pause).await;
                }
                Err(error) => return self.stop.fail(error),
            }
        }
        if strays.next_look.is_some() {
            // Left to the reaper, their attempt would count.
            let registration = self.registration.borrow().clone();
            if let Err(error) = self.give_back_strays(&registration, &mut strays).await {
                tracing::warn!(%error, "could not look for the jobs of a claim whose answer was lost; the lease will run out");
            }
        }
    }

    async fn give_back_strays(&mut self, registration: &Registration, strays: &mut Strays) -> Result<(), Error> {
        let released = self.lane.recover(&self.queue, registration.worker_id, &registration.held()).await?;
        strays.recovered(self.lane.command_timeout());
        tracing::info!(released, "gave back the jobs of a claim whose answer was lost");
        Ok(())
    }

    /// One claim; before it, where the answer to an earlier one was lost, what that one may have claimed is given back.
    async fn claim(
        &mut self,
        registration: &Arc<Registration>,
        room: usize,
        alone: bool,
        strays: &mut Strays,
        seen: &mut Option<ClaimEnd>,
    ) -> Result<Answered, Error> {
        let worker_id = registration.worker_id;
        if strays.are_due() {
            self.give_back_strays(registration, strays).await?;
        }
        let order = registration.settings.claim_order;
        let request =
            ClaimRequest { queue: &self.queue, worker: worker_id, order, max: room, alone, seen: seen.take() };
        // A claim that deletes the row cannot be taken back: there the operator must see to it.
        if self.undelivered.claims >= PAYLOAD_TRIES && registration.settings.delivery == Delivery::AtLeastOnce {
            let unseen = self.lane.claim_unseen(request).await?;
            let limit = self.lane.command_timeout();
            self.undelivered.claims = 0;
            if let Some(job) = unseen {
                let error = self.undelivered.judge(&job, limit);
                registration.hold(std::iter::once((job.job_id, job.fence)));
                self.executor.not_delivered(registration, job, error);
                return Ok(Answered::SetAside);
            }
        }
        let asked_at = Instant::now();
        let ClaimAnswer { jobs, alone_waits, end } = self.lane.claim(request).await?;
        *seen = end;
        registration.hold(jobs.iter().map(|job| (job.id(), job.fence())));
        let claimed_at = Instant::now();
        let held = Held::payloads(registration, &self.counts, jobs);
        let jobs = held.map(|(job, held)| Claimed { job, held, claimed_at }).collect();
        Ok(Answered::Jobs { jobs, alone_waits, took: claimed_at - asked_at })
    }

    /// How many jobs to claim now; 0: none, until something changes.
    fn room(&self, demand: &mut Demand) -> usize {
        let run_times = self.counts.run_times();
        if self.counts.in_flight() == 0 {
            demand.holds_nothing(run_times);
        }
        let unstarted = self.counts.unstarted();
        let idle_threads = self.executor.threads().saturating_sub(self.counts.running());
        let ahead = demand.ahead(run_times);
        self.executor.set_low_water(ahead / 2);
        let half_is_free = unstarted <= ahead / 2;
        if !half_is_free && unstarted >= idle_threads {
            return 0;
        }
        let wanted = (idle_threads + ahead).saturating_sub(unstarted);
        let allowed = self.config.max_in_flight.saturating_sub(self.counts.in_flight());
        let fit = demand.jobs_that_fit(&self.counts).unwrap_or(1); // one tells how large they are
        wanted.min(allowed).min(fit).min(self.config.batch_size)
    }

    /// What idle threads would be idle for while there is no room.
    fn limit_without_room(&self, demand: &Demand) -> Limit {
        let is_full = demand.jobs_that_fit(&self.counts) == Some(0);
        let holds_no_more = is_full || self.counts.in_flight() >= self.config.max_in_flight;
        if holds_no_more && self.counts.unstarted() == 0 { Limit::Finish } else { Limit::Cpu }
    }

    /// What idle threads would be idle for while a claim is under way.
    fn limit_while_claiming(&self, demand: &Demand) -> Limit {
        // When most of what may be held waits for its acknowledgement, only crumbs are claimed, however fast claims are.
        let awaiting = self.counts.awaiting_finish();
        let is_most = awaiting > self.config.max_in_flight / 2 || demand.outputs_are_most(awaiting);
        if is_most { Limit::Finish } else { Limit::Claim }
    }

    fn claim_failed(&self) {
        self.counts.last_claim_succeeded.store(false, Ordering::Release);
        self.occupancy.begin(Limit::Claim);
    }

    async fn wait_for_room(&mut self, demand: &mut Demand) {
        tokio::select! {
            never = self.lane.close_when_idle() => match never {},
            () = self.wake.notified() => {}
            () = self.stop.reached(Phase::Stopping) => {}
            () = tokio::time::sleep(demand.horizon()) => {}
        }
        self.give_back_surplus(demand);
    }

    /// Gives back what was claimed for jobs much shorter than those that run now, so that other workers can run it: all but what is
    /// wanted at the present speed.
    fn give_back_surplus(&self, demand: &mut Demand) {
        let unstarted = self.counts.unstarted();
        // Where a thread is idle, it is not the jobs that keep the others waiting.
        let all_busy = self.counts.running() >= self.executor.threads();
        let Some(wanted) = demand.wanted_at_last(self.counts.run_times(), unstarted, all_busy) else { return };
        let surplus = unstarted.saturating_sub(wanted);
        if surplus > 0 {
            tracing::debug!(
                surplus,
                unstarted,
                "jobs take much longer than those before; giving back what was claimed too far ahead"
            );
            self.executor.give_back(surplus);
        }
    }

    /// Waits until there may be jobs to claim, after a claim that got fewer than it asked for.
    async fn wait_for_jobs(&mut self, claimed: usize, empty: &mut Backoff, demand: &mut Demand) {
        let pause = empty.next();
        if claimed == 0 {
            self.watcher.begin(pause);
        }
        // Where a few came, more may follow soon; where none came, the watcher says when, and nobody relies on it alone.
        let more_may_follow = tokio::time::sleep(if claimed > 0 { pause } else { CLAIM_ANYWAY });
        tokio::pin!(more_may_follow);
        loop {
            tokio::select! {
                () = &mut more_may_follow => break,
                never = self.lane.close_when_idle() => match never {},
                () = self.arrived.notified() => break,
                Ok(()) = self.enqueued.changed() => {
                    empty.reset();
                    break;
                }
                () = self.stop.reached(Phase::Stopping) => break,
                // The queue is empty, but perhaps only because this worker holds what another could run.
                () = tokio::time::sleep(demand.horizon()), if self.counts.unstarted() > 0 => self.give_back_surplus(demand),
                // The last of the jobs that were in flight has ended: whoever drains the queue need not wait for another claim.
                () = self.wake.notified() => {
                    demand.notice(self.counts.run_times());
                    if claimed == 0 && self.counts.in_flight() == 0 {
                        self.found_nothing.notify_one();
                    }
                }
            }
        }
        self.watcher.end();
    }

    async fn wait_for_registration(&mut self) {
        tokio::select! {
            _ = self.registration.changed() => {}
            () = self.stop.reached(Phase::Stopping) => {}
        }
    }
}

/// What became of asking for jobs.
enum Answered {
    Jobs {
        jobs: Vec<Claimed>,
        alone_waits: bool,
        took: Duration,
    },
    /// Instead of a claim, the job at the queue's head was taken out of the way.
    SetAside,
}

/// The search for a job whose payload does not arrive: it would come with each claim again, and nothing else would run.
///
/// When claims of one job were not answered in time, it is claimed without its payload, to learn which it is, and released. When that happens
/// again with the same job, it is acknowledged as a failed attempt: it comes back later, and is dead after its last.
#[derive(Default)]
pub(crate) struct Undelivered {
    /// How many claims of one job were not answered in time, one after the other.
    claims: u32,
    suspect: Option<JobId>,
}

impl Undelivered {
    /// The error with which the job fails; `None`: it is not to blame, or not yet.
    fn judge(&mut self, job: &ClaimedUnseen, limit: Duration) -> Option<String> {
        // A small payload is not the reason: this is another job, or the network was down.
        let is_large = job.payload_bytes > LARGE_PAYLOAD;
        let was_suspected = self.suspect.replace(job.job_id) == Some(job.job_id);
        if !is_large || !was_suspected {
            return None;
        }
        self.suspect = None;
        let (bytes, tries) = (job.payload_bytes, 2 * PAYLOAD_TRIES);
        let error =
            format!("its payload of {bytes} bytes could not be delivered in {tries} tries of {} ms", limit.as_millis());
        tracing::warn!(job_id = %job.job_id, attempt = job.attempt, error, "a payload could not be delivered");
        Some(error)
    }
}

/// Jobs that must run alone: workers were lost while they held them, and if one more is, they are dead. So that no innocent job dies
/// for another's crash, they go only to a worker that holds nothing, and while one is held nothing else is claimed.
///
/// A worker that is always busy would never get one. So when one has waited for about a lease, nothing more is claimed until all that
/// is held has ended. By chance between one lease and two, so that not all workers stop for the same job.
#[derive(Default)]
struct Alone {
    /// This worker holds one.
    held: bool,
    /// When the patience with one that waits ends.
    due_at: Option<Instant>,
}

impl Alone {
    fn wants_all_to_end(&self) -> bool {
        self.held || self.due_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Notes the answer to a claim: whether such a job waited, and whether this worker held nothing and got a job.
    fn answered(&mut self, waits: bool, got_one: bool, patience: Duration) {
        self.held = waits && got_one;
        if !waits || self.held {
            self.due_at = None;
        } else if self.due_at.is_none() {
            self.due_at = Some(Instant::now() + patience.mul_f64(1.0 + fastrand::f64()));
        }
    }
}

/// Jobs that are claimed in the table, but that this process does not know of, because the answer was lost.
///
/// They are looked for at once, and again and again at growing distances, because the claim may have been under way to SQL Server when
/// its connection was given up: what the operating system has taken over for sending, it goes on sending for as long as [`LAST_LOOK`].
#[derive(Default)]
struct Strays {
    next_look: Option<Look>,
}

struct Look {
    at: Instant,
    /// How long after the answer was lost.
    age: Duration,
}

impl Strays {
    fn answer_lost(&mut self) {
        self.next_look = Some(Look { at: Instant::now(), age: Duration::ZERO });
    }

    fn are_due(&self) -> bool {
        self.next_look.as_ref().is_some_and(|look| Instant::now() >= look.at)
    }

    /// Notes that they were looked for just now; the first distance is `command_timeout`, then it doubles.
    fn recovered(&mut self, command_timeout: Duration) {
        self.next_look = self.next_look.take().filter(|look| look.age < LAST_LOOK).map(|look| {
            let distance = look.age.max(command_timeout);
            Look { at: Instant::now() + distance, age: look.age + distance }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strays_are_looked_for_until_no_late_claim_can_arrive() {
        let mut strays = Strays::default();
        assert!(!strays.are_due());
        strays.answer_lost();
        assert!(strays.are_due());
        let mut ages = Vec::new();
        while let Some(look) = &strays.next_look {
            ages.push(look.age.as_secs());
            strays.recovered(Duration::from_secs(30));
            assert!(!strays.are_due());
        }
        assert_eq!(ages, [0, 30, 60, 120, 240, 480, 960]);
    }
}
