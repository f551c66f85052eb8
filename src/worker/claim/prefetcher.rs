//! The prefetcher claims jobs ahead of the threads: as many as the cores will need before the next claim can bring
//! more, and no more than that.
//!
//! ```text
//! SQL Server ──claim──▶ prefetcher ──submit──▶ executor
//!                           ▲ woken when half of the wanted jobs are used up, a thread is idle, or jobs were confirmed
//! ```
//!
//! [`Demand`] decides how many jobs are wanted, and when too many are held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::connection::Session;
use crate::error::Error;
use crate::handler::JobError;
use crate::job::{Delivery, Job};
use crate::procedures::worker::{ClaimAnswer, ClaimEnd, ClaimRequest, UnreadableJob, Withheld};
use crate::time::Pauses;
use crate::worker::lease::{Behind, Claimed, HeldJob, Lease, Registration};
use crate::worker::run::{Executor, KeepsFree, Load};
use crate::worker::state::{Bottleneck, CallSize, Phase, WorkerState};

use super::bottlenecks;
use super::demand::Demand;
use super::fetched::Fetched;
use super::lost_answers::LostAnswers;
use super::put_off_budget::PutOffBudget;
use super::recall::recall;
use super::suspects::{CrashSuspects, UndeliverablePayload};
use super::watcher::WatchSender;

/// How long a worker that has postponed jobs for others lets these go first: longer than the default of `poll_max_ms`,
/// at which they notice jobs.
const OTHERS_FIRST: Duration = Duration::from_millis(250);

/// A claim that has cancelled so many expired jobs ends with that.
const EXPIRED_AT_ONCE: u32 = 1_000;

/// When an idle worker claims regardless of the watcher.
const CLAIM_ANYWAY: Duration = Duration::from_secs(300);

/// How many groups a claim reaches, for each thread, before it takes further jobs of these groups.
const GROUPS_PER_THREAD: usize = 4;

/// After this many consecutive unreadable responses, single jobs are not to blame. The worker stops, because otherwise
/// it would make the whole queue dead, job by job.
const UNREADABLE_CLAIMS: u32 = 3;

pub(in crate::worker) struct Prefetcher {
    state: Arc<WorkerState>,
    session: Session,
    lease: Lease,
    executor: Executor,
    watcher: WatchSender,
    /// Changes when jobs were enqueued through the same [`Queue`](crate::queue::Queue).
    enqueued: watch::Receiver<()>,
    /// Whether an operator has asked to claim nothing.
    quiet: watch::Receiver<bool>,
    demand: Demand,
    put_offs: PutOffBudget,
    alone: CrashSuspects,
    lost_answers: LostAnswers,
    undelivered: UndeliverablePayload,
    /// How many consecutive claims had an unreadable response for which a job was blamed.
    unreadable: u32,
    limit: CallSize,
    /// Where the last claim ended.
    seen: Option<ClaimEnd>,
    /// The growing pauses between claims of an empty queue.
    empty: Pauses,
    failed: Pauses,
    failures: u32,
}

impl Prefetcher {
    pub(in crate::worker) fn new(
        state: &Arc<WorkerState>,
        lease: Lease,
        executor: Executor,
        watcher: WatchSender,
        enqueued: watch::Receiver<()>,
    ) -> Prefetcher {
        let config = &state.config;
        let (poll_min, poll_max) = (config.poll_min, config.poll_max);
        Prefetcher {
            state: state.clone(),
            session: state.session(),
            lease,
            executor,
            watcher,
            enqueued,
            quiet: state.quiet.subscribe(),
            demand: Demand::new(config, state.threads(), Instant::now()),
            put_offs: PutOffBudget::new(Instant::now()),
            alone: CrashSuspects::default(),
            lost_answers: LostAnswers::default(),
            undelivered: UndeliverablePayload::default(),
            unreadable: 0,
            limit: CallSize::new(config.batch_size),
            seen: None,
            empty: Pauses::new(poll_min, poll_max),
            failed: Pauses::for_errors(),
            failures: 0,
        }
    }

    /// Claims until the worker stops.
    pub(in crate::worker) async fn run(mut self) {
        let state = self.state.clone();
        while state.stop.is_running() {
            if self.quiet.has_changed().unwrap_or_default() && *self.quiet.borrow_and_update() {
                self.recall_all().await; // other workers run them
            }
            let holds_nothing = state.in_flight.jobs() == 0;
            let room = if holds_nothing || !self.alone.wants_all_to_end() { self.room() } else { 0 };
            if room == 0 && !self.lost_answers.are_due() {
                state.limited_by.begin(bottlenecks::without_room(&state, &self.demand, &self.executor));
                if (*state.quiet.borrow() || self.executor.is_short_of_memory()) && state.in_flight.jobs() == 0 {
                    state.arrivals.found_nothing(); // a drain looks at the queue itself
                }
                self.wait_for_room().await;
                continue;
            }
            let pause = self.put_offs.wait(state.tally.put_off_jobs(), state.tally.run_times().jobs, Instant::now());
            if !pause.is_zero() {
                state.limited_by.begin(bottlenecks::of_short_claims(&self.state, &self.executor));
                state.stop.pause(pause).await;
                continue;
            }
            state.limited_by.begin(bottlenecks::while_claiming(&state, &self.demand));
            self.enqueued.mark_unchanged(); // the claim sees what was enqueued until now
            let registration = self.lease.registration();
            let claimed = match room {
                0 => self.give_back_unknown_jobs(&registration).await.map(|()| None),
                _ => self.claim(&registration, room, holds_nothing).await,
            };
            match claimed {
                Ok(None) => self.failed.reset(), // the free capacity must be checked again
                Ok(Some(answer)) => self.answered(answer, room, holds_nothing, &registration).await,
                Err(Error::LeaseLost) => {
                    self.claim_failed();
                    tokio::select! {
                        () = self.lease.replaced(&registration) => {}
                        () = state.stop.reached(Phase::Stopping) => {}
                    }
                }
                Err(error) if error.is_transient() => self.repeat_later(room, error).await,
                Err(error @ Error::UnreadableText { .. })
                    if room > 0 && registration.settings.delivery == Delivery::AtLeastOnce =>
                {
                    self.search_unreadable(room, error, &registration).await;
                }
                Err(error) => {
                    self.lost_answers.answer_lost(); // as in `repeat_later`
                    state.stop.fail(error);
                }
            }
        }
        self.recall_all().await; // others may have room, and so may this worker when it starts again
        let registration = self.lease.registration();
        if self.lost_answers.are_possible() {
            // If these jobs were left to the reaper, their attempt would be counted.
            if let Err(error) = self.give_back_unknown_jobs(&registration).await {
                tracing::warn!(%error, "could not look up the jobs of a claim whose response was lost; the lease will expire");
            }
        }
    }

    async fn recall_all(&mut self) {
        let registration = self.lease.registration();
        if let Err(error) = recall(&mut self.session, &self.executor, &self.state.queue, &registration, true).await {
            tracing::warn!(%error, "could not recall postponed jobs; they come back when they are due");
        }
    }

    /// Makes one claim. If the response to an earlier claim was lost, first releases the jobs that the claim may have
    /// taken. Returns `None` if no claim was made, because the job at the head of the queue was dealt with instead.
    async fn claim(
        &mut self,
        registration: &Arc<Registration>,
        room: usize,
        alone: bool,
    ) -> Result<Option<Fetched>, Error> {
        if self.lost_answers.are_due() {
            self.give_back_unknown_jobs(registration).await?;
        }
        let state = self.state.clone();
        recall(&mut self.session, &self.executor, &state.queue, registration, false).await?;
        let request = ClaimRequest {
            queue: &state.queue,
            worker: registration.worker_id,
            max: room,
            max_payload_bytes: self.demand.max_payload_bytes(room, &state.in_flight),
            passes: self.demand.lets_pass(&state.in_flight, Instant::now()),
            at_once: GROUPS_PER_THREAD * state.threads(),
            run: self.run_length(),
            alone,
            seen: self.seen.take(),
        };
        // A claim that deletes the row cannot be undone: the operator must act.
        if self.undelivered.is_suspected() && registration.settings.delivery == Delivery::AtLeastOnce {
            let unseen = self.session.claim_unseen(request).await?;
            self.undelivered.answered();
            if let Some(job) = unseen {
                let error = self.undelivered.judge(&job, self.session.command_timeout());
                registration.hold(std::iter::once((job.job_id, job.fence)));
                let run = (job.job_id, job.fence);
                self.executor.not_delivered(registration, run, job.attempt, error.map(JobError::retry));
                return Ok(None);
            }
        }
        let asked_at = Instant::now();
        let ClaimAnswer { jobs, mut behind, withheld, unreadable, alone_waits, limited, expired, end } =
            self.session.claim(request).await?;
        state.expired(expired.into());
        if expired >= EXPIRED_AT_ONCE {
            // The claim has only cancelled jobs, and there may be more.
            self.answers_again();
            return Ok(None);
        }
        self.seen = end;
        for UnreadableJob { job_id, fence, attempt, error } in unreadable {
            tracing::warn!(%job_id, attempt, error, "cannot read a job; it becomes dead");
            registration.hold(std::iter::once((job_id, fence)));
            self.executor.not_delivered(registration, (job_id, fence), attempt, Some(JobError::dead(error)));
        }
        registration.hold(jobs.iter().chain(behind.values().flatten()).map(|job| (job.id(), job.fence())));
        let claimed_at = Instant::now();
        let hold = |jobs| HeldJob::claimed(registration, &state.in_flight, jobs).into_iter();
        let with_run = |(job, held): (Job, HeldJob)| {
            let run = behind.remove(&job.id());
            let behind = run.map(|jobs| Box::new(Behind::new(hold(jobs))));
            Claimed::new(job, held, claimed_at, behind)
        };
        let jobs = hold(jobs).map(with_run).collect();
        Ok(Some(Fetched { jobs, withheld, alone_waits, limited, took: claimed_at - asked_at }))
    }

    /// Learns from a claim's result, hands the jobs over, and waits if there were fewer jobs than requested.
    async fn answered(&mut self, answer: Fetched, room: usize, held_nothing: bool, registration: &Registration) {
        let WorkerState { config, in_flight, limited_by, arrivals, metrics, .. } = &*self.state.clone();
        self.limit.answered(answer.jobs_sent());
        let is_full = answer.fills_beside_withheld(room);
        let Fetched { jobs, withheld, alone_waits, limited, took } = answer;
        let claimed = jobs.iter().map(Claimed::jobs).sum();
        arrivals.set_limited(limited);
        let too_few = if limited.is_some() {
            Bottleneck::QueueLimit
        } else {
            bottlenecks::of_short_claims(&self.state, &self.executor)
        };
        self.alone.answered(alone_waits, held_nothing && claimed > 0, config.lease);
        let now = Instant::now();
        self.demand.claimed(took, now);
        self.demand.claimed_payloads(jobs.iter().map(|claimed| claimed.held.bytes()).max());
        self.demand.withheld(withheld.as_ref().map(|withheld| withheld.bytes), is_full, now);
        metrics.claimed(claimed, took);
        if claimed < room && withheld.is_none() {
            limited_by.correct(too_few);
        } else if in_flight.unstarted() > claimed {
            limited_by.correct(Bottleneck::Busy); // the threads have not waited for this claim
        }
        self.answers_again();
        self.undelivered.answered();
        self.unreadable = 0;
        self.failed.reset();
        if claimed > 0 {
            tracing::debug!(batch = claimed, asked = room, ?took, "claimed");
            self.executor.submit(jobs);
            self.empty.reset();
        } else if in_flight.jobs() == 0 && withheld.is_none() {
            arrivals.found_nothing();
        }
        if let Some(withheld) = withheld {
            return self.give_back_withheld(withheld, registration).await;
        }
        // A claim that returns a job that must run alone returns no other.
        if claimed < room && !(held_nothing && alone_waits && claimed > 0) {
            limited_by.begin(too_few);
            self.wait_for_jobs(claimed, limited.is_some()).await;
        }
    }

    /// Notes that SQL Server has answered a claim.
    fn answers_again(&mut self) {
        self.state.tally.claimed(true);
        self.state.outage.answered("claim");
        self.failures = 0;
    }

    /// Handles a failed claim of `room` jobs, and waits before the next.
    async fn repeat_later(&mut self, room: usize, error: Error) {
        // This also holds after an error of SQL Server itself: a claim has one statement per priority, and earlier
        // statements may have taken effect.
        self.lost_answers.answer_lost();
        if error.is_time_out_of("claim") || error.is_time_out_of("checkpoints") {
            self.failed.reset(); // the call has already waited long enough
            self.limit.timed_out(room); // the payloads may be too large for this many jobs in one response
            if room == 1 {
                self.undelivered.timed_out();
            }
        }
        self.claim_failed();
        self.failures += 1;
        let pause = self.failed.next();
        if !self.state.outage.tells_of("claim", &error) {
            let (attempt, sql_error) = (self.failures, error.sql_number());
            tracing::warn!(batch = room, attempt, sql_error, %error, retry_in = ?pause, "claim failed; retrying");
        }
        self.state.stop.pause(pause).await;
    }

    /// Handles an unreadable response to a claim of `room` jobs. One of the jobs is to blame: claims are halved until
    /// that job is claimed alone, and then it becomes dead. (If claims delete the rows, each try would lose jobs, so
    /// the worker stops instead.)
    async fn search_unreadable(&mut self, room: usize, error: Error, registration: &Arc<Registration>) {
        self.lost_answers.answer_lost();
        self.limit.timed_out(room);
        self.claim_failed();
        if room > 1 {
            tracing::warn!(batch = room, %error, "cannot read the response to a claim; claiming fewer jobs");
            return;
        }
        let known = registration.held();
        match self.session.unknown_jobs(&self.state.queue, registration.worker_id, &known).await {
            Ok(unknown) => {
                let [run] = unknown[..] else {
                    let (jobs, pause) = (unknown.len(), self.failed.next());
                    tracing::warn!(jobs, %error, retry_in = ?pause, "cannot read the response to a claim of one job, which did not claim exactly one; retrying");
                    self.state.stop.pause(pause).await;
                    return;
                };
                self.unreadable += 1;
                if self.unreadable == UNREADABLE_CLAIMS {
                    return self.state.stop.fail(error);
                }
                registration.hold(std::iter::once(run));
                let error = JobError::dead(format!("it cannot be read: {error}"));
                self.executor.not_delivered(registration, run, 0, Some(error)); // its attempt is not known
                self.failed.reset();
            }
            Err(error) if error.is_transient() => self.repeat_later(room, error).await,
            Err(error) => self.state.stop.fail(error),
        }
    }

    /// Releases claimed jobs that do not fit into memory. They may fit into another worker's memory, and this worker's
    /// next claim asks for smaller payloads.
    async fn give_back_withheld(&mut self, withheld: Withheld, registration: &Registration) {
        let Withheld { bytes, jobs } = withheld;
        tracing::debug!(jobs = jobs.len(), bytes, "payloads do not fit into the free memory; releasing their jobs");
        if jobs.is_empty() {
            return;
        }
        if let Err(error) = self.session.release(registration.worker_id, &jobs).await {
            self.lost_answers.answer_lost(); // they are claimed, and this process does not hold them
            tracing::warn!(%error, "could not release jobs whose payloads are too long; retrying");
        }
    }

    async fn give_back_unknown_jobs(&mut self, registration: &Registration) -> Result<(), Error> {
        let known = registration.held();
        let released = self.session.recover(&self.state.queue, registration.worker_id, &known).await?;
        self.lost_answers.recovered(self.session.command_timeout());
        if released > 0 {
            tracing::info!(released, "released the jobs of a claim whose response was lost");
        }
        Ok(())
    }

    /// Returns how many jobs to claim now, or 0 to claim nothing until something changes.
    fn room(&mut self) -> usize {
        if *self.quiet.borrow() || self.executor.is_short_of_memory() {
            return 0;
        }
        let WorkerState { in_flight, tally, .. } = &*self.state;
        let (run_times, now) = (tally.run_times(), Instant::now());
        if in_flight.jobs() == 0 {
            self.demand.holds_nothing(run_times, now);
        }
        let load = self.executor.load();
        self.demand.has_threads(load.usable);
        let to_fill = self.threads_to_fill(&load);
        self.demand.room(run_times, in_flight, to_fill, now).min(self.limit.jobs())
    }

    /// Returns how many jobs of a group a claim may take: at most half of those that fit, so that other groups' jobs find
    /// room beside them.
    fn run_length(&self) -> usize {
        let WorkerState { in_flight, config, run_length, .. } = &*self.state;
        let fit = self.demand.jobs_that_fit(in_flight, Instant::now());
        let fit = fit.min(config.max_in_flight.saturating_sub(in_flight.jobs()));
        run_length.jobs().min(fit / 2).max(1)
    }

    /// Returns how many threads could start a job that they do not have.
    fn idle_threads(&self, load: &Load) -> usize {
        if load.keeps_free != KeepsFree::None || self.executor.is_short_of_memory() {
            return 0;
        }
        // The worker's own jobs are counted exactly; a turn ends a little after its last job.
        let own = self.state.in_flight.busy_threads();
        let in_use = if load.is_shared { load.in_use.all().max(own) } else { own + load.in_use.taken };
        self.state.threads().saturating_sub(in_use)
    }

    /// Returns how many threads must have a job, in addition to the jobs claimed ahead.
    fn threads_to_fill(&self, load: &Load) -> usize {
        if load.keeps_free == KeepsFree::ForIt {
            return 0; // the next to start is the job for which they are kept
        }
        // A worker with fewer threads than its share keeps a job waiting for the next free thread; otherwise the other
        // workers would keep all threads.
        let own = self.state.in_flight.busy_threads() + load.taken;
        self.idle_threads(load).max(usize::from(own < load.share))
    }

    fn claim_failed(&self) {
        self.state.tally.claimed(false);
        self.state.limited_by.begin(Bottleneck::Claim);
    }

    async fn wait_for_room(&mut self) {
        tokio::select! {
            never = self.session.close_when_idle() => match never {},
            () = self.state.in_flight.demand() => {}
            Ok(()) = self.quiet.changed() => {}
            () = self.state.stop.reached(Phase::Stopping) => {}
            () = tokio::time::sleep(self.demand.horizon()) => {}
            () = self.lost_answers.due() => {}
        }
        self.give_back_surplus();
    }

    /// Releases jobs that were claimed when jobs were much shorter, so that other workers can run them. Keeps the jobs
    /// that are wanted at the present pace.
    fn give_back_surplus(&mut self) {
        let WorkerState { in_flight, tally, .. } = &*self.state;
        let load = self.executor.load();
        // If a thread is idle, the other jobs are not waiting for the running jobs.
        let all_busy = self.idle_threads(&load) == 0;
        // Jobs that wait for a thread of this worker's share are not surplus: they would be claimed again immediately.
        let unstarted = in_flight.startable().saturating_sub(self.threads_to_fill(&load));
        self.demand.has_threads(load.usable);
        let Some(wanted) = self.demand.wanted_at_last(tally.run_times(), unstarted, all_busy, Instant::now()) else {
            return;
        };
        let surplus = unstarted.saturating_sub(wanted);
        if surplus > 0 {
            tracing::debug!(
                surplus,
                unstarted,
                "jobs take much longer than before; releasing jobs that were claimed too far ahead"
            );
            self.executor.give_back(surplus);
        }
    }

    /// Waits until there may be jobs to claim, after a claim that got fewer than it asked for.
    async fn wait_for_jobs(&mut self, claimed: usize, limited: bool) {
        let state = self.state.clone();
        let WorkerState { in_flight, tally, arrivals, stop, .. } = &*state;
        let watches = claimed == 0 && !limited;
        let pause = self.empty.next();
        if claimed > 0 {
            self.empty.reset(); // only claims that find nothing make the interval grow
        }
        if watches {
            self.watcher.begin(pause);
        }
        // If a few jobs came, more may follow soon. If none came, the watcher reports new jobs, and `CLAIM_ANYWAY` is
        // the fallback. If the queue's limits are used up, the watcher would see jobs immediately, and only a claim can
        // tell whether the limits permit more.
        let more_may_follow = tokio::time::sleep(if watches { CLAIM_ANYWAY } else { pause });
        tokio::pin!(more_may_follow);
        loop {
            tokio::select! {
                () = &mut more_may_follow => break,
                never = self.session.close_when_idle() => match never {},
                () = arrivals.expected() => break,
                Ok(()) = self.quiet.changed() => break,
                Ok(()) = self.enqueued.changed(), if !limited => {
                    self.empty.reset();
                    self.watcher.end();
                    return; // not a job that was postponed
                }
                () = stop.reached(Phase::Stopping) => break,
                () = self.lost_answers.due() => break,
                // The queue may be empty only because this worker holds jobs that another worker could run.
                () = tokio::time::sleep(self.demand.horizon()), if in_flight.unstarted() > 0 => self.give_back_surplus(),
                // The last job in flight has finished: a drain need not wait for another claim.
                () = in_flight.demand() => {
                    self.demand.notice(tally.run_times(), Instant::now());
                    if claimed == 0 && in_flight.jobs() == 0 {
                        arrivals.found_nothing();
                    }
                    if !self.executor.recallable(false).is_empty() {
                        break;
                    }
                }
            }
        }
        self.watcher.end();
        self.let_others_go_first().await;
    }

    /// Waits a moment if jobs that this worker has postponed and cannot run now may be ready again. Otherwise the worker
    /// that promotes them would be the first to claim them, each time, although another has room for them.
    async fn let_others_go_first(&self) {
        let WorkerState { config, arrivals, stop, .. } = &*self.state;
        if arrivals.has_left_within(config.unknown_kind_delay + 2 * config.promote_interval)
            || self.executor.has_postponed_what_does_not_fit()
        {
            stop.pause(OTHERS_FIRST).await;
        }
    }
}
