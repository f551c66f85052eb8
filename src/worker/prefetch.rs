//! The prefetcher: keeps as many jobs claimed as the cores will want before the next claim can bring more, and no more than that.
//!
//! ```text
//! SQL Server ──claim──▶ prefetcher ──submit──▶ executor
//!                           ▲ woken when half of what is wanted is used up, when a thread is idle, when results were acknowledged
//! ```
//!
//! How much is wanted follows Little's law, `jobs = rate x time`: the rate is what the threads can do at the run times measured so far,
//! the time is what a claim takes (twice, for safety), and at least [`MIN_HORIZON`] so that short jobs come in large batches. Long jobs
//! give a product below one: then only idle threads get a job, and nothing is hoarded that another worker could run. Where short jobs were
//! expected and long ones came, what was claimed too far ahead is given back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use crate::config::WorkerConfig;
use crate::error::Error;
use crate::metrics::WorkerMetrics;
use crate::queue::claim::ClaimAnswer;
use crate::queue::connection::Lane;

use super::backoff::Backoff;
use super::counts::{Counts, RunTimes};
use super::executor::{Claimed, Executor};
use super::lease::Registration;
use super::occupancy::{Limit, Occupancy};
use super::shutdown::{Phase, StopHandle};
use super::watcher::WatchSender;

/// For how much time jobs are kept in memory, at least: ten claims a second at the most when jobs are short.
const MIN_HORIZON: Duration = Duration::from_millis(100);

/// For how long after a lost answer the claim may still arrive at the server: TCP gives up sending what is not acknowledged after some
/// 15 minutes (Linux: `tcp_retries2`, 924.6 s by default).
const LAST_LOOK: Duration = Duration::from_secs(925);

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
        let mut limit = self.config.batch_size;
        while self.stop.is_running() {
            let holds_nothing = self.counts.in_flight() == 0;
            let room = if holds_nothing || !alone.wants_all_to_end() { self.room(&mut demand).min(limit) } else { 0 };
            if room == 0 {
                self.occupancy.begin(self.limit_without_room());
                self.wait_for_room(&mut demand).await;
                continue;
            }
            let registration = self.registration.borrow_and_update().clone();
            let started_at = Instant::now();
            self.occupancy.begin(self.limit_while_claiming());
            self.enqueued.mark_unchanged(); // the claim sees what was enqueued until now
            match self.claim(&registration, room, holds_nothing, &mut strays).await {
                Ok((jobs, alone_waits)) => {
                    let claimed = jobs.len();
                    let patience = Duration::from_millis(self.config.lease_ms);
                    alone.answered(alone_waits, holds_nothing && claimed > 0, patience);
                    let took = started_at.elapsed();
                    demand.claimed(took);
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
                    limit = self.config.batch_size;
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
                    if error.leaves_open() {
                        strays.answer_lost();
                    }
                    if matches!(error, Error::TimedOut { .. }) {
                        limit = (limit / 2).max(1); // payloads may be too large for so many in one answer
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
    ) -> Result<(Vec<Claimed>, bool), Error> {
        let worker_id = registration.worker_id;
        if strays.are_due() {
            self.give_back_strays(registration, strays).await?;
        }
        let order = registration.settings.claim_order;
        let ClaimAnswer { jobs, alone_waits } = self.lane.claim(&self.queue, worker_id, order, room, alone).await?;
        registration.hold(jobs.iter().map(|job| (job.id(), job.fence())));
        let claimed_at = Instant::now();
        let with_registration =
            jobs.into_iter().map(|job| Claimed { job, registration: registration.clone(), claimed_at }).collect();
        Ok((with_registration, alone_waits))
    }

    /// How many jobs to claim now; 0: none, until something changes.
    fn room(&self, demand: &mut Demand) -> usize {
        if self.counts.in_flight() == 0 {
            demand.holds_nothing(self.counts.run_times());
        }
        let unstarted = self.counts.unstarted();
        let idle_threads = self.executor.threads().saturating_sub(self.counts.running());
        let ahead = demand.ahead(self.counts.run_times());
        self.executor.set_low_water(ahead / 2);
        let half_is_free = unstarted <= ahead / 2;
        if !half_is_free && unstarted >= idle_threads {
            return 0;
        }
        let wanted = (idle_threads + ahead).saturating_sub(unstarted);
        let allowed = self.config.max_in_flight.saturating_sub(self.counts.in_flight());
        wanted.min(allowed).min(self.config.batch_size)
    }

    /// What idle threads would be idle for while there is no room.
    fn limit_without_room(&self) -> Limit {
        let holds_no_more = self.counts.in_flight() >= self.config.max_in_flight;
        if holds_no_more && self.counts.unstarted() == 0 { Limit::Finish } else { Limit::Cpu }
    }

    /// What idle threads would be idle for while a claim is under way.
    fn limit_while_claiming(&self) -> Limit {
        // When most of what may be held waits for its acknowledgement, only crumbs are claimed, however fast claims are.
        if self.counts.awaiting_finish() > self.config.max_in_flight / 2 { Limit::Finish } else { Limit::Claim }
    }

    fn claim_failed(&self) {
        self.counts.last_claim_succeeded.store(false, Ordering::Release);
        self.occupancy.begin(Limit::Claim);
    }

    async fn wait_for_room(&self, demand: &mut Demand) {
        tokio::select! {
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
        tracing::debug!(
            surplus,
            unstarted,
            "jobs take much longer than those before; giving back what was claimed too far ahead"
        );
        self.executor.give_back(surplus);
    }

    /// Waits until there may be jobs to claim, after a claim that got fewer than it asked for.
    async fn wait_for_jobs(&mut self, claimed: usize, empty: &mut Backoff, demand: &mut Demand) {
        let pause = empty.next();
        if claimed == 0 {
            self.watcher.watch(pause);
        }
        // Where a few came, more may follow soon; where none came, the watcher says when.
        let more_may_follow = async {
            match claimed {
                0 => std::future::pending().await,
                _ => tokio::time::sleep(pause).await,
            }
        };
        tokio::pin!(more_may_follow);
        loop {
            tokio::select! {
                () = &mut more_may_follow => return,
                () = self.arrived.notified() => return,
                Ok(()) = self.enqueued.changed() => return empty.reset(),
                () = self.stop.reached(Phase::Stopping) => return,
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
    }

    async fn wait_for_registration(&mut self) {
        tokio::select! {
            _ = self.registration.changed() => {}
            () = self.stop.reached(Phase::Stopping) => {}
        }
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
    next_look: Option<StrayLook>,
}

struct StrayLook {
    at: Instant,
    /// How long after the answer was lost.
    age: Duration,
}

impl Strays {
    fn answer_lost(&mut self) {
        self.next_look = Some(StrayLook { at: Instant::now(), age: Duration::ZERO });
    }

    fn are_due(&self) -> bool {
        self.next_look.as_ref().is_some_and(|look| Instant::now() >= look.at)
    }

    /// Notes that they were looked for just now; the first distance is `command_timeout`, then it doubles.
    fn recovered(&mut self, command_timeout: Duration) {
        self.next_look = self.next_look.take().filter(|look| look.age < LAST_LOOK).map(|look| {
            let distance = look.age.max(command_timeout);
            StrayLook { at: Instant::now() + distance, age: look.age + distance }
        });
    }
}

/// The most jobs beyond those for idle threads: the fixed buffer, or two full batches, so that one is claimed while the other runs.
fn most_ahead(config: &WorkerConfig) -> usize {
    if config.buffer > 0 { config.buffer } else { 2 * config.batch_size }
}

/// How many jobs are wanted beyond those for idle threads.
struct Demand {
    threads: usize,
    most: usize,
    fixed: bool,
    seen: RunTimes,
    mean_run: Option<Duration>,
    claim_time: Duration,
    /// When `seen` last changed.
    seen_at: Instant,
    look: Look,
    /// The first of the looks that said that too much is held, up to now.
    too_much_since: Option<Look>,
}

impl Demand {
    fn new(config: &WorkerConfig, threads: usize) -> Demand {
        Demand {
            threads,
            most: most_ahead(config),
            fixed: config.buffer > 0,
            seen: RunTimes::default(),
            mean_run: None,
            claim_time: Duration::ZERO,
            seen_at: Instant::now(),
            look: Look { at: Instant::now(), jobs: 0 },
            too_much_since: None,
        }
    }

    /// For how much time jobs are kept in memory.
    fn horizon(&self) -> Duration {
        (2 * self.claim_time).max(MIN_HORIZON)
    }

    /// How long more may be held than is wanted: ten times the time that it was claimed for.
    fn patience(&self) -> Duration {
        // A buffer of a fixed size is what was asked for, however long its jobs wait.
        if self.fixed { Duration::MAX } else { 10 * self.horizon() }
    }

    /// Looks, once in a horizon, at how many jobs have ended since the look before. Where that says that too much is held, and has said so
    /// for as long as patience lasts, returns how many are wanted.
    fn wanted_at_last(&mut self, now: RunTimes, unstarted: usize, all_busy: bool) -> Option<usize> {
        let last = self.look;
        if last.at.elapsed() < self.horizon() {
            return None;
        }
        self.look = Look { at: Instant::now(), jobs: now.jobs };
        if !all_busy || unstarted <= self.jobs_in_horizon_at(last.mean_run(now, self.threads)) {
            self.too_much_since = None;
            return None;
        }
        let since = *self.too_much_since.get_or_insert(last);
        if since.at.elapsed() < self.patience() {
            return None;
        }
        self.too_much_since = None;
        let mean_run = since.mean_run(now, self.threads);
        self.mean_run = Some(mean_run);
        self.seen = now;
        Some(self.jobs_in_horizon_at(mean_run))
    }

    /// Nothing is held. After a time without a job, whatever comes may be of another kind: one for each idle thread will tell.
    fn holds_nothing(&mut self, now: RunTimes) {
        if now.jobs == self.seen.jobs && self.seen_at.elapsed() >= self.patience() {
            self.mean_run = None;
        }
    }

    fn claimed(&mut self, took: Duration) {
        self.claim_time = if self.claim_time.is_zero() { took } else { (self.claim_time + took) / 2 };
    }

    fn ahead(&mut self, now: RunTimes) -> usize {
        if self.fixed {
            return self.most;
        }
        self.notice(now);
        // Before one has ended: one job for each idle thread will tell.
        self.mean_run.map_or(0, |mean_run| self.jobs_in_horizon_at(mean_run))
    }

    /// Learns from the jobs that have ended since the last time.
    fn notice(&mut self, now: RunTimes) {
        let jobs = now.jobs - self.seen.jobs;
        if jobs > 0 {
            let mean = (now.total - self.seen.total).div_f64(jobs as f64);
            self.mean_run = Some(self.mean_run.map_or(mean, |before| (before + mean) / 2));
            self.seen = now;
            self.seen_at = Instant::now();
        }
    }

    fn jobs_in_horizon_at(&self, mean_run: Duration) -> usize {
        let jobs_per_second = self.threads as f64 / mean_run.as_secs_f64().max(1e-9);
        let jobs = jobs_per_second * self.horizon().as_secs_f64();
        (jobs as usize).min(self.most)
    }
}

/// How many jobs had ended at a time.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    jobs: u64,
}

impl Look {
    /// How long jobs have taken since, at least, where all threads were busy: those that run now count as if they had ended.
    fn mean_run(&self, now: RunTimes, threads: usize) -> Duration {
        let jobs = (now.jobs - self.jobs) as usize + threads;
        (self.at.elapsed() * threads as u32).div_f64(jobs as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(mean_run: Duration, claim: Duration) -> usize {
        let mut demand = Demand::new(&WorkerConfig::default(), 8);
        demand.claimed(claim);
        demand.ahead(RunTimes { jobs: 100, total: mean_run * 100 })
    }

    #[test]
    fn nothing_is_wanted_ahead_before_a_run_time_is_known() {
        let mut demand = Demand::new(&WorkerConfig::default(), 8);
        assert_eq!(demand.ahead(RunTimes::default()), 0);
    }

    #[test]
    fn short_jobs_are_wanted_in_full_batches_and_long_jobs_not_at_all() {
        let claim = Duration::from_millis(5);
        assert_eq!(ahead(Duration::from_micros(1), claim), 1_000, "two batches");
        assert_eq!(ahead(Duration::from_millis(10), claim), 80, "0.1 s of 8 threads");
        assert_eq!(ahead(Duration::from_secs(60), claim), 0);
    }

    #[test]
    fn a_slow_claim_is_covered_twice() {
        assert_eq!(ahead(Duration::from_millis(100), Duration::from_millis(500)), 80);
    }

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

    #[test]
    fn long_jobs_after_short_ones_lower_the_demand_before_one_of_them_has_ended() {
        let mut demand = Demand::new(&WorkerConfig::default(), 2);
        demand.claimed(Duration::from_millis(1));
        let short = RunTimes { jobs: 1_000, total: Duration::from_millis(1) };
        assert_eq!(demand.ahead(short), 1_000);
        demand.look.at -= Duration::from_secs(60);
        assert_eq!(demand.wanted_at_last(short, 1_000, false), None, "a thread is idle");
        demand.look = Look { at: Instant::now() - Duration::from_secs(60), jobs: 1_000 };
        assert_eq!(demand.wanted_at_last(short, 1_000, true), Some(0), "two threads, two jobs, a minute");
        assert_eq!(demand.ahead(short), 0, "and it stays so while none ends");
    }

    #[test]
    fn after_a_time_without_jobs_what_was_known_of_them_is_forgotten() {
        let mut demand = Demand::new(&WorkerConfig::default(), 2);
        let short = RunTimes { jobs: 1_000, total: Duration::from_millis(1) };
        assert_eq!(demand.ahead(short), 1_000);
        demand.holds_nothing(short);
        assert_eq!(demand.ahead(short), 1_000, "they have just ended");
        demand.seen_at -= Duration::from_secs(60);
        demand.holds_nothing(short);
        assert_eq!(demand.ahead(short), 0);
    }

    #[test]
    fn a_fixed_buffer_is_what_is_wanted() {
        let config = WorkerConfig { buffer: 7, ..WorkerConfig::default() };
        assert_eq!(Demand::new(&config, 8).ahead(RunTimes::default()), 7);
    }
}
