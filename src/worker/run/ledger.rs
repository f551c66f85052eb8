//! Who has which part of a worker's memory and tokens, and which jobs wait for them. Nothing in this module reads a clock
//! or runs a job.
//!
//! ```text
//! a job that needs something ──fits──▶ admitted ──ends──▶ given back
//!           └──does not fit──▶ waits here, and those that fit pass it ──▶ after `reserve_after`: others must fit beside it
//!                         └──its turn is further away than HOLD──▶ postponed until about its turn
//! ```
//!
//! The jobs wait in the order in which they came. The first is the only one with a reservation, so two large jobs cannot
//! keep a worker from each other. Memory and tokens are reserved as soon as it has waited long enough; threads only once
//! its memory and tokens are free, because otherwise threads would be idle for as long as another job keeps its memory.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::handler::{HOLD, TurnBookings};

/// The most jobs that wait here, if they can be postponed. Each look at them reads all.
const MOST_WAITING: usize = 1_000;

/// What a job needs of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Need {
    /// Including the one that runs the handler.
    pub(super) threads: usize,
    /// The amount of each resource, by its place in the ledger.
    pub(super) amounts: Vec<(usize, u64)>,
}

/// A job that waits.
struct Waiting<T> {
    job: T,
    need: Need,
    /// The index of the job's handler.
    handler: usize,
    since: Instant,
}

/// A job that a worker is about to start or to make wait.
pub(super) struct Applicant<T> {
    pub(super) job: T,
    pub(super) need: Need,
    pub(super) handler: usize,
    /// Whether the job can be postponed.
    pub(super) has_row: bool,
}

/// The threads of a pool, as the ledger sees them. Called under the ledger's lock.
pub(super) trait Pool {
    /// Takes this many threads for a job whose turn is running, if so many are free and `spare` besides.
    fn take(&self, more: usize, spare: usize) -> bool;
}

/// The resources of one worker.
pub(super) struct Ledger<T> {
    /// How much there is of each resource.
    has: Vec<u64>,
    free: Vec<u64>,
    threads: usize,
    /// The waiting jobs, the longest wait first.
    waiting: VecDeque<Waiting<T>>,
    /// How many admitted jobs have not been given back.
    admitted: usize,
    /// The mean run time of each handler's jobs that needed something.
    mean_runs: Vec<Option<Duration>>,
    /// When something was last taken or given back.
    changed_at: Instant,
    bookings: TurnBookings,
    reserve_after: Duration,
}

impl<T> Ledger<T> {
    pub(super) fn new(has: Vec<u64>, threads: usize, handlers: usize, reserve_after: Duration, now: Instant) -> Self {
        Ledger {
            free: has.clone(),
            has,
            threads,
            waiting: VecDeque::new(),
            admitted: 0,
            mean_runs: vec![None; handlers],
            changed_at: now,
            bookings: TurnBookings::new(now),
            reserve_after,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes what a job needs that does not wait here, if it is free.
    pub(super) fn admit(&mut self, need: &Need, pool: &impl Pool, now: Instant) -> bool {
        let fits = fits_beside(need, self.first_reserved(now), &self.free)
            && takes_threads(pool, need.threads, self.reserved_threads(now));
        if fits {
            self.take(need, now);
        }
        fits
    }

    /// Takes what the first waiting job needs that fits, and returns the job.
    pub(super) fn next(&mut self, pool: &impl Pool, now: Instant) -> Option<(T, Need, usize)> {
        let (first, spare) = (self.first_reserved(now), self.reserved_threads(now));
        let starts = |place: usize, need| match place {
            0 => fits(need, &self.free) && takes_threads(pool, need.threads, 0),
            _ => fits_beside(need, first, &self.free) && takes_threads(pool, need.threads, spare),
        };
        let mut waiting = self.waiting.iter().enumerate();
        let (place, _) = waiting.find(|(place, waiting)| starts(*place, &waiting.need))?;
        let Waiting { job, need, handler, .. } = self.waiting.remove(place)?;
        self.take(&need, now);
        Some((job, need, handler))
    }

    /// How many waiting jobs could start together, in turns that are to begin on `free` threads. A job that needs one
    /// thread starts on any, as jobs that need nothing do, while `is_unlimited`.
    pub(super) fn ready(&self, free: usize, is_unlimited: bool, now: Instant) -> usize {
        let (mut left, mut threads, mut is_unlimited) = (self.free.clone(), free, is_unlimited);
        let (mut jobs, mut first_left): (_, Option<&Waiting<T>>) = (0, None);
        for waiting in &self.waiting {
            if threads == 0 && !is_unlimited {
                break;
            }
            let need = &waiting.need;
            let has_threads = need.threads <= threads || (need.threads == 1 && is_unlimited);
            let reserved = first_left.filter(|first| self.is_due(first, now)).map(|first| &first.need);
            if has_threads && fits_beside(need, reserved, &left) {
                subtract(&mut left, need);
                threads = threads.saturating_sub(need.threads);
                is_unlimited &= need.threads == 1;
                jobs += 1;
            } else {
                first_left = first_left.or(Some(waiting));
            }
        }
        jobs
    }

    /// The threads that the first job is kept from, and only by threads, if it has waited long enough; otherwise 0.
    pub(super) fn reserved_threads(&self, now: Instant) -> usize {
        let first = self.first_reserved(now).filter(|need| need.threads > 1 && fits(need, &self.free));
        first.map_or(0, |need| need.threads)
    }

    /// Since when the first job has waited.
    pub(super) fn since(&self) -> Option<Instant> {
        self.waiting.front().map(|first| first.since)
    }

    /// Makes a job wait that does not fit, or returns it with the time for which it is to be postponed.
    pub(super) fn wait(&mut self, applicant: Applicant<T>, now: Instant) -> Result<(), (T, Duration)> {
        let Applicant { job, need, handler, has_row } = applicant;
        let waits = self.waiting_time(HOLD, now).saturating_add(self.turn_time(&need, handler, HOLD, now));
        let is_soon = waits <= HOLD && self.waiting.len() < MOST_WAITING;
        if self.waiting.is_empty() || is_soon || !has_row {
            self.waiting.push_back(Waiting { job, need, handler, since: now });
            return Ok(());
        }
        Err((job, self.book(&need, handler, now)))
    }

    /// Gives back what a job had. `run` is how long it took, if it ran.
    pub(super) fn give_back(&mut self, need: &Need, handler: usize, run: Option<Duration>, now: Instant) {
        for (place, amount) in &need.amounts {
            self.free[*place] += amount;
        }
        self.admitted -= 1;
        self.changed_at = now;
        if let Some(run) = run {
            let mean = &mut self.mean_runs[handler];
            *mean = Some(mean.map_or(run, |mean| (3 * mean + run) / 4));
        }
        if self.waiting.is_empty() {
            self.bookings.clear(now); // whatever was put off may come
        }
    }

    /// Removes jobs that have to wait much longer than was expected when they came, each with the time for which it is
    /// to be postponed. The first job stays, so that it gets its reservation.
    pub(super) fn take_surplus(&mut self, has_row: impl Fn(&T) -> bool, now: Instant) -> Vec<(T, Duration)> {
        let mut surplus = Vec::new();
        let mut waits = self.waiting_time(HOLD, now);
        while waits > 2 * HOLD && self.waiting.len() > 1 && self.waiting.back().is_some_and(|last| has_row(&last.job)) {
            let Some(Waiting { job, need, handler, .. }) = self.waiting.pop_back() else { break };
            waits = waits.saturating_sub(self.turn_time(&need, handler, HOLD, now));
            surplus.push((job, self.book(&need, handler, now)));
        }
        surplus
    }

    /// Removes the waiting jobs for which `which` holds.
    pub(super) fn take_waiting(&mut self, which: impl Fn(&T) -> bool) -> Vec<T> {
        let (taken, left): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|waiting| which(&waiting.job));
        self.waiting = left.into();
        taken.into_iter().map(|waiting| waiting.job).collect()
    }

    fn take(&mut self, need: &Need, now: Instant) {
        subtract(&mut self.free, need);
        self.admitted += 1;
        self.changed_at = now;
    }

    /// Whether a waiting job gets a reservation if it is the first.
    fn is_due(&self, waiting: &Waiting<T>, now: Instant) -> bool {
        now.saturating_duration_since(waiting.since) >= self.reserve_after
    }

    /// What is reserved for the first job.
    fn first_reserved(&self, now: Instant) -> Option<&Need> {
        self.waiting.front().filter(|first| self.is_due(first, now)).map(|first| &first.need)
    }

    /// How long a job would take if the worker could run it alone with others like it: its run time times its share of
    /// the resource of which it needs most. Until a job has ended, run times are `unknown`: with [`HOLD`], about as many
    /// jobs wait as run together.
    fn turn_time(&self, need: &Need, handler: usize, unknown: Duration, now: Instant) -> Duration {
        // While jobs run on and on, their kind's mean says too little.
        let unchanged = now.saturating_duration_since(self.changed_at);
        let unchanged = if self.admitted > 0 { unchanged } else { Duration::ZERO };
        let run = self.mean_runs[handler].unwrap_or(unknown).max(unchanged);
        let amounts = need.amounts.iter().map(|(place, amount)| (*amount as f64) / (self.has[*place] as f64));
        run.mul_f64(amounts.fold(need.threads as f64 / self.threads as f64, f64::max).min(1.0))
    }

    fn waiting_time(&self, unknown: Duration, now: Instant) -> Duration {
        let times = self.waiting.iter().map(|waiting| self.turn_time(&waiting.need, waiting.handler, unknown, now));
        times.fold(Duration::ZERO, Duration::saturating_add)
    }

    fn book(&mut self, need: &Need, handler: usize, now: Instant) -> Duration {
        let none = Duration::ZERO;
        let (waiting, own) = (self.waiting_time(none, now), self.turn_time(need, handler, none, now));
        self.bookings.book(waiting, own, now)
    }
}

fn fits(need: &Need, free: &[u64]) -> bool {
    need.amounts.iter().all(|(place, amount)| *amount <= free[*place])
}

/// Whether this fits into what is `free`, and leaves what is reserved.
fn fits_beside(need: &Need, reserved: Option<&Need>, free: &[u64]) -> bool {
    let reserved = |place| {
        let amounts = reserved.iter().flat_map(|reserved| &reserved.amounts);
        amounts.filter(|(other, _)| *other == place).map(|(_, amount)| amount).sum::<u64>()
    };
    need.amounts.iter().all(|(place, amount)| amount.saturating_add(reserved(*place)) <= free[*place])
}

fn subtract(free: &mut [u64], need: &Need) {
    for (place, amount) in &need.amounts {
        free[*place] -= amount;
    }
}

/// Takes the threads of a job besides that of its turn.
fn takes_threads(pool: &impl Pool, threads: usize, spare: usize) -> bool {
    threads == 1 || pool.take(threads - 1, spare)
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
