//! Who has which part of a worker's memory and tokens, and which jobs wait for them. Nothing in this module reads a clock
//! or runs a job.
//!
//! ```text
//! a job that needs something ──fits──▶ admitted ──ends──▶ given back
//!           └──does not fit──▶ waits here, and those that fit pass it ──▶ after `reserve_after`: others must fit beside it
//!                         └──its turn is further away than HOLD──▶ postponed until about its turn, or until it would fit
//! ```
//!
//! The jobs wait in the order in which they came. The first is the only one with a reservation, so two large jobs cannot
//! keep a worker from each other. Memory and tokens are reserved as soon as it has waited long enough; threads only once
//! its memory and tokens are free, because otherwise threads would be idle for as long as another job keeps its memory.
//!
//! A job that runs for hours could keep reserved threads idle for hours. Threads are therefore reserved in turns: in a
//! keeping turn they are kept, in a passing turn other jobs may have them. The turns last one, two, four and then always
//! [`LONGEST_TURN`] times `reserve_after`, so that a keeping turn becomes longer than most jobs take.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::handler::{HOLD, TurnBookings};

/// The most jobs that wait here, if they can be postponed. Each look at them reads all.
const MOST_WAITING: usize = 1_000;

/// The longest turn in which threads are kept, or other jobs pass, in units of the shortest. It is a power of two, because
/// each turn is twice as long as the previous one.
const LONGEST_TURN: u128 = 8;

/// The least duration of the shortest turn: the pool looks at least so often at what has changed by time alone.
const SHORTEST_TURN: Duration = Duration::from_secs(1);

/// How many other workers find jobs that this one has postponed as fast as they run them.
const OTHERS: u32 = 4;

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
    /// Since when it has waited, here or for its kind.
    since: Instant,
}

/// The first job lacks nothing but threads.
struct LacksThreads {
    since: Instant,
    /// Whether the log has said that other jobs pass it.
    is_told: bool,
}

/// A job that a worker is about to start or to make wait.
pub(super) struct Applicant<T> {
    pub(super) job: T,
    pub(super) need: Need,
    pub(super) handler: usize,
    /// Since when it has waited, here or for its kind, with the time for which it was postponed meanwhile.
    pub(super) since: Instant,
    pub(super) can_be_put_off: bool,
}

/// A job that is to be postponed, because it would wait for long.
pub(super) struct Surplus<T> {
    pub(super) job: T,
    pub(super) need: Need,
    /// For how long.
    pub(super) delay: Duration,
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
    lacks_threads: Option<LacksThreads>,
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
            lacks_threads: None,
            admitted: 0,
            mean_runs: vec![None; handlers],
            changed_at: now,
            bookings: TurnBookings::new(now),
            reserve_after,
        }
    }

    /// The pool has this many threads now. A waiting job that needs more gets all of them.
    pub(super) fn resized(&mut self, threads: usize) {
        self.threads = threads;
        self.waiting.iter_mut().for_each(|waiting| waiting.need.threads = waiting.need.threads.min(threads));
    }

    /// How much admitted jobs have of each resource, or `None` if no job is admitted.
    pub(super) fn in_use(&self) -> Option<Vec<u64>> {
        (self.admitted > 0).then(|| self.has.iter().zip(&self.free).map(|(has, free)| has - free).collect())
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The fewest threads that a waiting job needs whose memory and tokens are free: without so many, none can start.
    pub(super) fn fewest_threads(&self) -> Option<usize> {
        let have_the_rest = self.waiting.iter().filter(|waiting| fits(&waiting.need, &self.free));
        have_the_rest.map(|waiting| waiting.need.threads).min()
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
        if place == 0 {
            self.lacks_threads = None;
        }
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

    /// The threads that the first job is kept from, and only by threads, if it has waited long enough and other jobs may
    /// not pass it; otherwise 0.
    pub(super) fn reserved_threads(&self, now: Instant) -> usize {
        let is_kept = self.lacks_threads.is_some() && !self.lets_pass(now);
        self.first_reserved(now).filter(|_| is_kept).map_or(0, |need| need.threads)
    }

    /// Whether other jobs may have the threads of the first, because it did not get them while they were kept.
    fn lets_pass(&self, now: Instant) -> bool {
        let (Some(first), Some(lacks)) = (self.waiting.front(), &self.lacks_threads) else { return false };
        let kept_since = lacks.since.max(first.since + self.reserve_after);
        let shortest = self.reserve_after.max(SHORTEST_TURN);
        let units = now.saturating_duration_since(kept_since).as_nanos() / shortest.as_nanos() + 1;
        let turn = match units / LONGEST_TURN {
            0 => u128::from(units.ilog2()),
            longest => u128::from(LONGEST_TURN.ilog2()) + longest - 1,
        };
        turn % 2 == 1
    }

    /// Returns how many threads the first job needs, once, if it did not get them while they were kept.
    pub(super) fn tell_of_passing(&mut self, now: Instant) -> Option<usize> {
        let (lets_pass, first) = (self.lets_pass(now), self.waiting.front()?);
        let lacks = self.lacks_threads.as_mut().filter(|lacks| lets_pass && !lacks.is_told)?;
        lacks.is_told = true;
        Some(first.need.threads)
    }

    /// Since when the first job has waited.
    pub(super) fn since(&self) -> Option<Instant> {
        self.waiting.front().map(|first| first.since)
    }

    /// Makes a job wait that does not fit, or returns it to be postponed.
    pub(super) fn wait(&mut self, applicant: Applicant<T>, now: Instant) -> Option<Surplus<T>> {
        let Applicant { job, mut need, handler, since, can_be_put_off } = applicant;
        need.threads = need.threads.min(self.threads); // they may have become fewer since it was calculated
        // However long it takes itself: the first to wait gets a reservation in the end.
        let is_soon = self.waiting_time(HOLD, now) < HOLD && self.waiting.len() < MOST_WAITING;
        let is_first = self.waiting.front().is_none_or(|first| since < first.since);
        if !is_soon && !is_first && can_be_put_off {
            let delay = self.book(&need, handler, now);
            return Some(Surplus { job, need, delay });
        }
        let place = self.waiting.partition_point(|waiting| waiting.since <= since);
        self.waiting.insert(place, Waiting { job, need, handler, since });
        if place == 0 {
            self.lacks_threads = None;
        }
        self.look_at_first(now);
        None
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
        self.look_at_first(now);
    }

    /// Removes jobs that have to wait for those before them much longer than was expected when they came, to be
    /// postponed. The first job stays, so that it gets its reservation.
    pub(super) fn take_surplus(&mut self, can_be_put_off: impl Fn(&T) -> bool, now: Instant) -> Vec<Surplus<T>> {
        let mut surplus = Vec::new();
        let mut waits = self.waiting_time(HOLD, now);
        while let Some(last) = self.waiting.back().filter(|last| can_be_put_off(&last.job)) {
            waits = waits.saturating_sub(self.turn_time(&last.need, last.handler, HOLD, now));
            if waits <= 2 * HOLD {
                break;
            }
            let Some(Waiting { job, need, handler, .. }) = self.waiting.pop_back() else { break };
            let delay = self.book(&need, handler, now);
            surplus.push(Surplus { job, need, delay });
        }
        surplus
    }

    /// Of these jobs, which do not wait here, those that could start together after all that wait here. `threads` are
    /// free.
    pub(super) fn would_fit<'a, J>(&self, jobs: impl Iterator<Item = (J, &'a Need)>, threads: usize) -> Vec<J> {
        let (mut free, mut threads) = (self.free.clone(), threads);
        for waiting in &self.waiting {
            waiting.need.amounts.iter().for_each(|(place, amount)| free[*place] = free[*place].saturating_sub(*amount));
            threads = threads.saturating_sub(waiting.need.threads);
        }
        let mut take = |need: &Need| {
            let fits = need.threads.min(self.threads) <= threads && fits(need, &free);
            if fits {
                subtract(&mut free, need);
                threads -= need.threads.min(self.threads);
            }
            fits
        };
        jobs.filter(|(_, need)| take(need)).map(|(job, _)| job).collect()
    }

    /// Removes the waiting jobs for which `which` holds.
    pub(super) fn take_waiting(&mut self, which: impl Fn(&T) -> bool, now: Instant) -> Vec<T> {
        let first_goes = self.waiting.front().is_some_and(|first| which(&first.job));
        let (taken, left): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(|waiting| which(&waiting.job));
        self.waiting = left.into();
        if first_goes {
            self.lacks_threads = None;
        }
        self.look_at_first(now);
        taken.into_iter().map(|waiting| waiting.job).collect()
    }

    fn take(&mut self, need: &Need, now: Instant) {
        subtract(&mut self.free, need);
        self.admitted += 1;
        self.changed_at = now;
        self.look_at_first(now);
    }

    /// Notes since when the first job lacks nothing but threads. Called after each change of the waiting jobs or of what
    /// is free.
    fn look_at_first(&mut self, now: Instant) {
        let first = self.waiting.front().filter(|first| first.need.threads > 1 && fits(&first.need, &self.free));
        let before = self.lacks_threads.take();
        self.lacks_threads = first.and(before.or(Some(LacksThreads { since: now, is_told: false })));
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

    /// This worker recalls a postponed job when it fits here. Until then it comes back for other workers, which may have
    /// room for several.
    fn book(&mut self, need: &Need, handler: usize, now: Instant) -> Duration {
        let none = Duration::ZERO;
        let (waiting, own) = (self.waiting_time(none, now), self.turn_time(need, handler, none, now));
        self.bookings.book(waiting / OTHERS, own / OTHERS, now)
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
