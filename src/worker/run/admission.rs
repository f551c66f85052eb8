//! Decides whether what a job needs is free: memory, threads and tokens of this worker.
//!
//! ```text
//! channel ──▶ a thread takes a job: does it need anything but its thread?
//!                no ──────────────────────────────────────────────────────────▶ its kind's limit ──▶ runs
//!                yes ──more than the worker has──▶ postponed for another worker        ▲
//!                  └─is it free?──yes: taken until the run ends────────────────────────┘
//!                        └──no──▶ waits in the ledger ──something is given back──▶ a turn begins and asks again
//!                                       └──would wait long──▶ postponed until about its turn ──it would fit──▶ recalled
//! ```
//!
//! | file | decides |
//! |---|---|
//! | `admission` | what a job needs here: its own needs over its kind's, by the names of this worker's tokens |
//! | `ledger` | memory and tokens; who waits; reservations |
//! | `threads_in_use` | threads, which all workers of a pool share |
//! | `kind_limits` | places of a kind; asked last, because a place must not be held by a job that cannot start |
//!
//! A job that waits for its kind holds nothing of the ledger, and one that waits in the ledger holds no place: each asks
//! for both again when it may start. A job could move between the two for ever, so one that has waited `reserve_after` in
//! total keeps its place while it waits in the ledger. No job waits for a place while it holds something of the ledger, so
//! jobs cannot block each other. A job that waits occupies no thread; it counts as parked, and [`Resources::ready`] counts
//! only jobs that could start now, so that the pool begins no turn in vain.
//!
//! Locks: the pool's lock on its members may be held when the ledger's is taken, never the other way round. Under the
//! ledger's lock, threads are taken by one atomic operation. Grants, permits and jobs are dropped under neither.
//!
//! A job that needs nothing pays one atomic load for the ledger, unless jobs wait there that could start on the free
//! threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::id::{Fence, JobId};
use crate::job::{MEMORY, Needs, THREADS};
use crate::worker::lease::{Claimed, Grant};
use crate::worker::state::{MachineMemory, WorkerState};

use super::fair_pool::{FairPool, FurtherThreads};
use super::ledger::{Applicant, Ledger, Need, Pool, Surplus};
use super::worker_turns::MemberId;

/// The decision about a job that is about to start.
pub(in crate::worker) enum Admission {
    Starts(Claimed),
    Waits,
    PutOff(Claimed, Duration),
}

/// The most postponed jobs that are remembered.
const MOST_POSTPONED: usize = 1_000;

/// A job that was postponed, because it would have waited for long. It is remembered until it comes back or is due.
struct Postponed {
    /// Since when it has waited. If it comes back, it waits on, so that it gets its reservation in the end.
    since: Instant,
    due_at: Instant,
    fence: Fence,
    need: Need,
    /// Whether it is ready again, and may come back at once.
    is_recalled: bool,
}

impl Postponed {
    fn can_be_recalled(&self, now: Instant) -> bool {
        !self.is_recalled && self.due_at > now
    }
}

/// The place of the memory in the ledger, before the tokens.
const MEMORY_PLACE: usize = 0;

/// The resources of a worker.
pub(in crate::worker) struct Resources {
    /// What the worker has of each, by places of the ledger; of memory without a limit `u64::MAX`.
    amounts: Vec<u64>,
    /// The tokens, in the order of the ledger.
    tokens: Vec<String>,
    pool: Arc<FairPool>,
    /// How many threads the pool had when the worker started.
    configured_threads: usize,
    /// The worker in its pool.
    member: OnceLock<MemberId>,
    ledger: Mutex<Ledger<Claimed>>,
    /// How many jobs wait in the ledger. Changed under its lock.
    waiting: AtomicUsize,
    /// [`Ledger::fewest_threads`], or `usize::MAX`. Changed under its lock.
    fewest_threads: AtomicUsize,
    postponed: Mutex<HashMap<JobId, Postponed>>,
    /// How long a job waits until what it needs is kept free.
    reserve_after: Duration,
    memory: Arc<MachineMemory>,
    /// The least free memory of the machine with which jobs are started.
    min_free: u64,
    is_short_of_memory: AtomicBool,
    /// Wakes the prefetcher.
    state: Arc<WorkerState>,
}

impl Resources {
    /// Creates the resources of a worker that runs on `pool` and has this many handlers.
    pub(in crate::worker) fn new(state: &Arc<WorkerState>, pool: &Arc<FairPool>, handlers: usize) -> Resources {
        let config = &state.config.resources;
        let limit = state.memory_for_jobs().unwrap_or(u64::MAX);
        let tokens = config.tokens.values().map(|tokens| u64::from(*tokens));
        let amounts: Vec<u64> = std::iter::once(limit).chain(tokens).collect();
        let ledger = Ledger::new(amounts.clone(), pool.threads(), handlers, config.reserve_after, Instant::now());
        Resources {
            amounts,
            tokens: config.tokens.keys().cloned().collect(),
            pool: pool.clone(),
            configured_threads: pool.threads(),
            member: OnceLock::new(),
            ledger: Mutex::new(ledger),
            waiting: AtomicUsize::new(0),
            fewest_threads: AtomicUsize::new(usize::MAX),
            postponed: Mutex::default(),
            reserve_after: config.reserve_after,
            min_free: config.min_free_memory.of(state.memory.usable().unwrap_or_default()),
            memory: state.memory.clone(),
            is_short_of_memory: AtomicBool::new(false),
            state: state.clone(),
        }
    }

    /// Called when the pool's threads have changed.
    pub(super) fn resized(&self) {
        self.change(|ledger| ledger.resized(self.pool.threads()));
    }

    /// Sets the worker that this is in its pool, before the first job comes.
    pub(super) fn joined(&self, member: MemberId) {
        let _ = self.member.set(member);
    }

    /// What jobs use of each resource, if one needs something. `threads` counts their threads.
    pub(super) fn in_use(&self, threads: impl Fn() -> usize) -> Option<Needs> {
        let amounts = self.ledger.lock().in_use()?;
        let in_use = Needs::new().threads(saturated(threads()));
        let has_limit = self.amounts[MEMORY_PLACE] < u64::MAX;
        let in_use = if has_limit { in_use.memory(amounts[MEMORY_PLACE]) } else { in_use };
        let tokens = self.tokens.iter().zip(&amounts[MEMORY_PLACE + 1..]);
        Some(tokens.fold(in_use, |in_use, (name, tokens)| in_use.token(name, saturated(*tokens))))
    }

    /// Translates needs into places of the ledger: `Ok(None)` if they are nothing but one thread.
    ///
    /// # Errors
    ///
    /// The worker has less than this.
    pub(super) fn need(&self, needs: &Needs) -> Result<Option<Need>, TooLarge> {
        let mut need = Need { threads: 1, amounts: Vec::new() };
        for (name, number) in needs.iter() {
            match name {
                THREADS => need.threads = usize::try_from(number).unwrap_or(usize::MAX).max(1),
                MEMORY => need.amounts.push((MEMORY_PLACE, number)),
                _ => {
                    let place = self.tokens.iter().position(|token| token == name).ok_or(TooLarge)?;
                    need.amounts.push((MEMORY_PLACE + 1 + place, number));
                }
            }
        }
        need.amounts.retain(|(_, amount)| *amount > 0);
        let could_fit = need.amounts.iter().all(|(place, amount)| *amount <= self.amounts[*place]);
        let threads = self.pool.threads();
        if !could_fit || need.threads > threads.max(self.configured_threads) {
            return Err(TooLarge);
        }
        // With fewer threads than configured, it gets all of them.
        need.threads = need.threads.min(threads);
        Ok((need.threads > 1 || !need.amounts.is_empty()).then_some(need))
    }

    /// Decides whether a job starts, waits or is postponed. If it starts, it has a grant.
    pub(super) fn admit(self: &Arc<Resources>, handler: usize, need: Need, mut claimed: Claimed) -> Admission {
        let now = Instant::now();
        // (Another worker may have run it since: then it has not waited.)
        let postponed = self.postponed.lock().remove(&claimed.job.id());
        let first_wait = postponed.filter(|job| job.fence.0 == claimed.job.fence().0 - 1).map(|job| job.since);
        if self.change(|ledger| ledger.admit(&need, &self.threads(), now)) {
            claimed.grant = Some(self.grant(need, handler));
            return Admission::Starts(claimed);
        }
        // While it waits, another job may have its place, unless it has waited for long. (Whoever gives something back
        // meanwhile does not see this job, but this thread asks for jobs again.)
        let since = *claimed.waits_since.get_or_insert(first_wait.unwrap_or(now));
        if now.saturating_duration_since(since) < self.reserve_after {
            drop(claimed.permit.take());
        }
        claimed.held.parked();
        let can_be_put_off = can_be_put_off(&claimed);
        let applicant = Applicant { job: claimed, need, handler, since, can_be_put_off };
        match self.change(|ledger| ledger.wait(applicant, now)) {
            None => Admission::Waits,
            Some(surplus) => {
                let (claimed, delay) = self.postpone(surplus, now);
                Admission::PutOff(claimed, delay)
            }
        }
    }

    /// Returns a job that has waited and now has what it needs. It must be started immediately.
    pub(super) fn next(self: &Arc<Resources>) -> Option<Claimed> {
        // The turn in which the job would run has one of the threads already.
        if self.fewest_threads.load(Ordering::Acquire) > self.free_threads() + 1 {
            return None;
        }
        let (mut claimed, need, handler) = self.change(|ledger| ledger.next(&self.threads(), Instant::now()))?;
        claimed.grant = Some(self.grant(need, handler));
        Some(claimed)
    }

    /// Returns how many jobs have waited and could start now, in turns that have not begun.
    pub(super) fn ready(&self) -> usize {
        let fewest = self.fewest_threads.load(Ordering::Acquire);
        let in_use = self.pool.in_use();
        let free = self.pool.threads().saturating_sub(in_use.all());
        let is_unlimited = self.pool.is_unlimited(in_use);
        if fewest > free && (fewest > 1 || !is_unlimited) {
            return 0;
        }
        self.ledger.lock().ready(free, is_unlimited, Instant::now())
    }

    fn free_threads(&self) -> usize {
        self.pool.threads().saturating_sub(self.pool.in_use().all())
    }

    /// Whether jobs wait for resources.
    pub(in crate::worker) fn any_waits(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// The threads that are kept for the first waiting job, and since when it has waited.
    pub(super) fn reserved_threads(&self) -> Option<(usize, Instant)> {
        if self.fewest_threads.load(Ordering::Acquire) == usize::MAX {
            return None; // the first job lacks more than threads
        }
        let ledger = self.ledger.lock();
        let threads = ledger.reserved_threads(Instant::now());
        ledger.since().filter(|_| threads > 0).map(|since| (threads, since))
    }

    /// Removes the jobs that have to wait much longer than was expected when they came, each with the delay until its
    /// turn.
    pub(super) fn take_surplus(&self) -> Vec<(Claimed, Duration)> {
        let now = Instant::now();
        let surplus = self.change(|ledger| ledger.take_surplus(can_be_put_off, now));
        surplus.into_iter().map(|surplus| self.postpone(surplus, now)).collect()
    }

    fn postpone(&self, surplus: Surplus<Claimed>, now: Instant) -> (Claimed, Duration) {
        let Surplus { job: claimed, need, delay } = surplus;
        let mut postponed = self.postponed.lock();
        if postponed.len() == MOST_POSTPONED {
            postponed.retain(|_, job| job.due_at > now);
        }
        if postponed.len() < MOST_POSTPONED {
            let (since, due_at, fence) = (claimed.waits_since.unwrap_or(now), now + delay, claimed.job.fence());
            postponed.insert(claimed.job.id(), Postponed { since, due_at, fence, need, is_recalled: false });
        }
        (claimed, delay)
    }

    /// The postponed jobs, those first that have waited longest.
    fn postponed(&self) -> Vec<((JobId, Fence), Need)> {
        let now = Instant::now();
        let postponed = self.postponed.lock();
        let mut jobs: Vec<_> = postponed.iter().filter(|(_, job)| job.can_be_recalled(now)).collect();
        jobs.sort_unstable_by_key(|(_, job)| job.since);
        jobs.into_iter().map(|(job_id, job)| ((*job_id, job.fence), job.need.clone())).collect()
    }

    /// Whether jobs were postponed that are not due yet.
    pub(in crate::worker) fn has_postponed(&self) -> bool {
        let now = Instant::now();
        self.postponed.lock().values().any(|job| job.can_be_recalled(now))
    }

    /// The postponed jobs, by id and fence, or only those that would fit by now, each beside those before it.
    pub(in crate::worker) fn recallable(&self, all: bool) -> Vec<(JobId, Fence)> {
        let postponed = self.postponed();
        if postponed.is_empty() || all {
            return postponed.into_iter().map(|(job, _)| job).collect();
        }
        let jobs = postponed.iter().map(|(job, need)| (*job, need));
        self.ledger.lock().would_fit(jobs, self.free_threads())
    }

    /// Notes that these jobs were to be recalled, and forgets those that were not: others have them.
    pub(in crate::worker) fn recalled(&self, asked: &[(JobId, Fence)], recalled: &[JobId]) {
        let mut postponed = self.postponed.lock();
        for (job_id, _) in asked {
            match postponed.get_mut(job_id) {
                Some(job) if recalled.contains(job_id) => job.is_recalled = true,
                _ => drop(postponed.remove(job_id)),
            }
        }
    }

    /// Removes the waiting jobs for which `which` holds.
    pub(super) fn take_waiting(&self, which: impl Fn(&Claimed) -> bool) -> Vec<Claimed> {
        self.change(|ledger| ledger.take_waiting(which, Instant::now()))
    }

    /// Logs, once for each job, that threads were kept for it in vain.
    pub(super) fn tell_of_passing(&self) {
        if let Some(threads) = self.ledger.lock().tell_of_passing(Instant::now()) {
            tracing::warn!(
                threads,
                reserve_after = ?self.reserve_after,
                "threads were kept free for a job, but too many are in use by jobs that run for long; letting others start meanwhile"
            );
        }
    }

    /// Whether the machine is so short of memory that nothing is started.
    pub(in crate::worker) fn is_short_of_memory(&self) -> bool {
        self.is_short_of_memory.load(Ordering::Relaxed)
    }

    /// Measures the free memory, if it matters. What cannot be read says nothing, and keeps no job from starting.
    pub(super) fn measure(&self) {
        if self.min_free == 0 {
            return;
        }
        let is_short = self.memory.free().is_some_and(|free| free < self.min_free);
        if self.is_short_of_memory.swap(is_short, Ordering::Relaxed) != is_short {
            let min_free_bytes = self.min_free;
            if is_short {
                tracing::warn!(
                    min_free_bytes,
                    "the machine is short of memory; starting no more jobs until some is free"
                );
            } else {
                tracing::info!(min_free_bytes, "memory is free again; starting jobs");
            }
        }
    }

    fn grant(self: &Arc<Resources>, need: Need, handler: usize) -> Box<dyn Grant> {
        let threads = (need.threads > 1).then(|| self.pool.charge(self.member(), need.threads - 1));
        Box::new(Granted { resources: self.clone(), need, handler, started_at: None, threads })
    }

    fn member(&self) -> MemberId {
        *self.member.get().expect("the worker has joined its pool before a job comes")
    }

    fn threads(&self) -> impl Pool {
        OfPool(&self.pool, self.member())
    }

    /// Changes the ledger, and counts the jobs that wait.
    fn change<T>(&self, change: impl FnOnce(&mut Ledger<Claimed>) -> T) -> T {
        let mut ledger = self.ledger.lock();
        let changed = change(&mut ledger);
        self.waiting.store(ledger.waiting(), Ordering::Release);
        self.fewest_threads.store(ledger.fewest_threads().unwrap_or(usize::MAX), Ordering::Release);
        changed
    }
}

fn saturated(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// Whether a waiting job can be postponed. One that keeps its place would lose it.
fn can_be_put_off(claimed: &Claimed) -> bool {
    claimed.has_row() && claimed.permit.is_none()
}

/// The worker has less than a job needs.
#[derive(Debug)]
pub(super) struct TooLarge;

struct OfPool<'a>(&'a FairPool, MemberId);

impl Pool for OfPool<'_> {
    fn take(&self, more: usize, spare: usize) -> bool {
        self.0.take(self.1, more, spare)
    }
}

/// What a job has of the worker. It is returned on drop.
struct Granted {
    resources: Arc<Resources>,
    need: Need,
    handler: usize,
    started_at: Option<Instant>,
    threads: Option<FurtherThreads>,
}

impl Grant for Granted {
    fn starts(&mut self) {
        self.started_at = Some(Instant::now());
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let Granted { resources, need, handler, started_at, threads } = self;
        let now = Instant::now();
        let run = started_at.map(|at| now.saturating_duration_since(at));
        resources.change(|ledger| ledger.give_back(need, *handler, run, now));
        match threads.take() {
            Some(threads) => drop(threads), // pumps
            None if resources.any_waits() => resources.pool.pump(),
            None => {}
        }
        if resources.has_postponed() {
            resources.state.in_flight.look_again(); // one of them may fit now
        }
    }
}
