//! Decides whose turn it is on the threads that several workers share. Nothing in this module reads a clock or runs a
//! job: the caller, which is the pool ([`fair_pool`](crate::worker::run::fair_pool)) or a simulation, passes the time.
//!
//! Each turn goes to the worker that has had the least time for its weight (start-time fair queueing). A running turn
//! counts with its time so far, but at least with the average time of the worker's turns. Otherwise a worker with long
//! jobs would take thread after thread from a worker with short jobs before its first turn has finished.

use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long a turn keeps taking jobs before the thread returns to the pool. Handing a task to rayon costs about a
/// microsecond. Several jobs that are shorter than this share that cost, and longer jobs get a turn each.
pub(super) const SLICE: Duration = Duration::from_micros(200);

/// The jobs of one worker, as the pool sees them.
pub(in crate::worker) trait Jobs: Send + Sync {
    /// Returns how many jobs could start now.
    fn waiting(&self) -> usize;

    /// Runs jobs one after the other until there are none, or until one has finished after `slice_end`.
    fn run(&self, slice_end: Instant);

    /// Returns the threads that must be free together before one of these jobs can start, if it has waited so long that
    /// no other turn may begin on them, and since when it has waited.
    fn reserved_threads(&self) -> Option<(usize, Instant)> {
        None
    }

    /// Called when [`run`](Self::run) has panicked.
    fn panicked(&self, panic: Box<dyn Any + Send>);
}

/// A worker of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) struct MemberId(u64);

impl MemberId {
    /// A part of the id that no other worker of a pool has.
    pub(super) fn low(self) -> u64 {
        self.0 & u64::from(u32::MAX)
    }
}

/// The threads that the longest waiting job of a worker is next to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) struct Reservation {
    pub(in crate::worker) member: MemberId,
    pub(in crate::worker) threads: usize,
    since: Instant,
}

/// A turn that has begun, with its jobs and its charge.
pub(in crate::worker) type Begun = (Arc<dyn Jobs>, Charge);

/// The time that a turn is charged while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::worker) struct Charge {
    member: MemberId,
    begun_at: Instant,
    /// How long the turn was expected to take.
    seconds: f64,
    /// Whether this is for a further thread of a job, not for a turn.
    pub(super) is_further: bool,
}

impl Charge {
    fn elapsed(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.begun_at).as_secs_f64()
    }

    /// Returns how long the turn is expected to take in total. A turn that exceeds the expectation is expected to take
    /// as long again.
    fn expected(&self, at: Instant) -> f64 {
        let elapsed = self.elapsed(at);
        if elapsed <= self.seconds { self.seconds } else { 2.0 * elapsed }
    }
}

/// The workers of a pool.
#[derive(Default)]
pub(in crate::worker) struct WorkerTurns {
    pub(super) all: Vec<Member>,
    joined: u64,
    /// The least time that a worker with jobs has had. A worker that had no jobs for a while starts with this value. It
    /// never decreases.
    now: f64,
    /// The reservation that the last check found, if there was one.
    pub(super) reserved: Option<Reservation>,
}

pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) jobs: Weak<dyn Jobs>,
    pub(super) weight: f64,
    /// Seconds that its finished turns took, divided by its weight.
    settled: f64,
    /// How long a turn takes: a moving mean.
    mean_turn: f64,
    pub(super) running: Vec<Charge>,
    /// Whether none of the worker's jobs was waiting at the last check.
    pub(super) is_idle: bool,
}

impl Member {
    /// Returns the time that the worker has had, without any estimate.
    fn spent(&self, at: Instant) -> f64 {
        self.settled + self.running.iter().map(|turn| turn.elapsed(at)).sum::<f64>() / self.weight
    }

    /// Returns the estimated time that the worker will have had when its running turns have finished.
    fn expected(&self, at: Instant) -> f64 {
        self.settled + self.running.iter().map(|turn| turn.expected(at)).sum::<f64>() / self.weight
    }

    /// Whether this worker's turn comes before the other's: it has had less time or, if the times are equal, has fewer
    /// threads for its weight.
    fn comes_before(&self, other: &Member, at: Instant) -> bool {
        let threads = |member: &Member| member.running.len() as f64 / member.weight;
        let (own, others) = (self.expected(at), other.expected(at));
        own < others || (own == others && threads(self) < threads(other))
    }
}

/// The workers with jobs that a check has found, each with how many jobs could start. This must be dropped after the
/// lock on the members is released.
pub(in crate::worker) type WithJobs = Vec<(Arc<dyn Jobs>, usize)>;

impl WorkerTurns {
    pub(in crate::worker) fn join(&mut self, jobs: Weak<dyn Jobs>, weight: f64) -> MemberId {
        self.all.retain(|member| member.jobs.strong_count() > 0);
        self.joined += 1;
        let id = MemberId(self.joined);
        // Its starting time is set when it has jobs.
        let (settled, mean_turn, running, is_idle) = (0.0, 0.0, Vec::new(), true);
        self.all.push(Member { id, jobs, weight, settled, mean_turn, running, is_idle });
        id
    }

    /// Checks which workers have jobs. Workers that are gone are removed once their turns have finished.
    pub(in crate::worker) fn look(&mut self, at: Instant) -> WithJobs {
        self.all.retain(|member| !member.running.is_empty() || member.jobs.strong_count() > 0);
        let mut look = WithJobs::with_capacity(self.all.len());
        let mut have_come = Vec::new();
        self.reserved = None;
        for (place, member) in self.all.iter_mut().enumerate() {
            let waiting = member.jobs.upgrade().map_or(0, |jobs| {
                let waiting = jobs.waiting();
                // A worker may have only the job for which threads are kept, which could not start yet.
                if let Some((threads, since)) = jobs.reserved_threads()
                    && self.reserved.is_none_or(|first| since < first.since)
                {
                    self.reserved = Some(Reservation { member: member.id, threads, since });
                }
                look.push((jobs, waiting));
                waiting
            });
            if waiting == 0 {
                member.is_idle = true;
            } else if member.is_idle {
                have_come.push(place);
            }
        }
        let spent = |member: &Member| member.spent(at);
        let busy = self.all.iter().filter(|member| !member.is_idle).map(spent).reduce(f64::min);
        // If no worker had to wait, none was disadvantaged: all start level.
        let now = busy.or_else(|| self.all.iter().map(spent).reduce(f64::max));
        self.now = self.now.max(now.unwrap_or(0.0));
        for place in have_come {
            let member = &mut self.all[place];
            // Time that a worker without jobs did not use is not saved up, even if it still has running turns.
            member.settled += (self.now - member.spent(at)).max(0.0);
            member.is_idle = false;
        }
        look
    }

    /// Returns the jobs whose turn it is, or `None` if there are none, and the jobs to drop after the lock is released.
    /// `free` threads are not in use.
    pub(in crate::worker) fn begin_turn(
        &mut self,
        free: usize,
        begun_at: Instant,
    ) -> (Option<Begun>, Vec<Arc<dyn Jobs>>) {
        let mut others: Vec<_> = self.look(begun_at).into_iter().map(|(jobs, _)| jobs).collect();
        let reserved = self.reserved;
        if reserved.is_some_and(|reserved| free < reserved.threads) {
            return (None, others);
        }
        let may_begin = |member: &Member| reserved.is_none_or(|reserved| reserved.member == member.id);
        let longest = self.all.iter().map(|member| member.mean_turn).fold(SLICE.as_secs_f64(), f64::max);
        let waiting = self.all.iter_mut().filter(|member| !member.is_idle && may_begin(member));
        let next = waiting.reduce(|first, member| if member.comes_before(first, begun_at) { member } else { first });
        let Some(member) = next else { return (None, others) };
        // The check has found the jobs of each worker that has jobs.
        let Some(place) = others.iter().position(|jobs| std::ptr::addr_eq(Arc::as_ptr(jobs), member.jobs.as_ptr()))
        else {
            return (None, others);
        };
        // A worker whose turns are still unknown is expected to take no longer than the others.
        let mean = if member.mean_turn == 0.0 { longest } else { member.mean_turn };
        // If the finished turns were shorter, the running turns show how long a turn may take.
        let seconds = member.running.iter().map(|turn| turn.elapsed(begun_at)).fold(mean, f64::max);
        let charge = Charge { member: member.id, begun_at, seconds, is_further: false };
        member.running.push(charge);
        (Some((others.swap_remove(place), charge)), others)
    }

    /// Charges a worker for further threads that one of its jobs uses. Each charge ends like a turn.
    pub(in crate::worker) fn charge(&mut self, id: MemberId, threads: usize, begun_at: Instant) -> Vec<Charge> {
        let Some(member) = self.all.iter_mut().find(|member| member.id == id) else { return Vec::new() };
        let charge = Charge { member: id, begun_at, seconds: member.mean_turn, is_further: true };
        let charges = vec![charge; threads];
        member.running.extend_from_slice(&charges);
        charges
    }

    /// Takes back a turn that has not begun after all.
    pub(in crate::worker) fn cancel_turn(&mut self, charge: Charge) {
        if let Some(member) = self.all.iter_mut().find(|member| member.id == charge.member)
            && let Some(place) = member.running.iter().position(|turn| *turn == charge)
        {
            member.running.swap_remove(place);
        }
    }

    pub(in crate::worker) fn end_turn(&mut self, charge: Charge, ended_at: Instant) {
        let Some(member) = self.all.iter_mut().find(|member| member.id == charge.member) else { return };
        // If two are equal, either will do.
        let Some(place) = member.running.iter().position(|turn| *turn == charge) else { return };
        member.running.swap_remove(place);
        let took = charge.elapsed(ended_at);
        member.settled += took / member.weight;
        member.mean_turn = if member.mean_turn == 0.0 { took } else { (3.0 * member.mean_turn + took) / 4.0 };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Queued(AtomicUsize);

    impl Queued {
        fn set(&self, waiting: usize) {
            self.0.store(waiting, Ordering::Release);
        }
    }

    impl Jobs for Queued {
        fn waiting(&self) -> usize {
            self.0.load(Ordering::Acquire)
        }

        fn run(&self, _: Instant) {}

        fn panicked(&self, _: Box<dyn Any + Send>) {}
    }

    /// Workers whose jobs always take the same time, on threads with a simulated clock.
    struct Simulation {
        members: WorkerTurns,
        workers: Vec<(Arc<Queued>, Duration)>,
        threads: usize,
        running: Vec<(Instant, Charge)>,
        at: Instant,
    }

    impl Simulation {
        fn new(threads: usize) -> Simulation {
            Simulation {
                members: WorkerTurns::default(),
                workers: Vec::new(),
                threads,
                running: Vec::new(),
                at: Instant::now(),
            }
        }

        fn join(&mut self, turn: Duration, waiting: usize) -> Arc<Queued> {
            let jobs = Arc::new(Queued(AtomicUsize::new(waiting)));
            let weak: Weak<Queued> = Arc::downgrade(&jobs);
            self.members.join(weak, 1.0);
            self.workers.push((jobs.clone(), turn));
            jobs
        }

        /// Gives each free thread to the worker whose turn it is, and returns how many turns each worker has begun.
        fn fill(&mut self, begun: &mut [usize]) {
            while self.running.len() < self.threads {
                let (Some((_, charge)), _) = self.members.begin_turn(usize::MAX, self.at) else { return };
                let place = charge.member.0 as usize - 1;
                let (jobs, turn) = &self.workers[place];
                jobs.0.fetch_sub(1, Ordering::AcqRel);
                begun[place] += 1;
                self.running.push((self.at + *turn, charge));
            }
        }

        /// Runs for this long, and returns how many turns each worker has begun.
        fn run(&mut self, time: Duration) -> Vec<usize> {
            let (until, mut begun) = (self.at + time, vec![0; self.workers.len()]);
            loop {
                self.fill(&mut begun);
                let first = (0..self.running.len()).min_by_key(|place| self.running[*place].0);
                let Some(first) = first.filter(|first| self.running[*first].0 <= until) else {
                    self.at = until;
                    return begun;
                };
                let (ended_at, charge) = self.running.swap_remove(first);
                self.at = ended_at;
                self.members.end_turn(charge, ended_at);
                self.members.look(ended_at); // as the end of a slot does
            }
        }

        /// How many threads a worker has now.
        fn threads_of(&self, place: usize) -> usize {
            self.running.iter().filter(|(_, charge)| charge.member.0 as usize == place + 1).count()
        }
    }

    const MANY: usize = 1 << 40;

    #[test]
    fn what_was_not_used_is_not_saved_up_while_a_long_job_runs() {
        let mut pool = Simulation::new(4);
        let one_long = pool.join(Duration::from_secs(1_000), 1);
        pool.join(Duration::from_millis(10), MANY);
        pool.run(Duration::from_secs(500));
        one_long.set(MANY);
        pool.workers[0].1 = Duration::from_millis(10);
        let begun = pool.run(Duration::from_secs(10));
        assert!(begun[1] > 1_000, "half of four threads would be 2,000 turns, one has run on; not {begun:?}");
    }

    #[test]
    fn a_newcomer_does_not_wait_for_what_others_were_expected_to_take() {
        let mut pool = Simulation::new(8);
        pool.join(Duration::from_secs(60), 8);
        pool.run(Duration::from_secs(61));
        // Jobs that were expected to take a minute suddenly take a moment.
        pool.workers[0].0.set(MANY);
        pool.workers[0].1 = Duration::from_millis(10);
        pool.run(Duration::from_millis(5));
        pool.join(Duration::from_millis(10), MANY);
        let begun = pool.run(Duration::from_secs(1));
        assert!(begun[1] > 300, "half would be 400, not {begun:?}");
    }

    #[test]
    fn long_jobs_do_not_take_all_threads_before_the_first_has_ended() {
        let mut pool = Simulation::new(8);
        pool.join(Duration::from_millis(1), MANY);
        pool.join(Duration::from_secs(3_600), MANY);
        pool.run(Duration::from_secs(10));
        assert!((3..=5).contains(&pool.threads_of(1)), "half of the threads, not {}", pool.threads_of(1));
    }

    #[test]
    fn what_was_not_used_is_not_saved_up_while_there_was_no_job() {
        let mut pool = Simulation::new(4);
        let idle = pool.join(Duration::from_millis(10), 1);
        pool.join(Duration::from_millis(10), MANY);
        pool.run(Duration::from_secs(500));
        idle.set(MANY);
        let begun = pool.run(Duration::from_secs(10));
        assert!(begun[1] > 1_900, "half of four threads are 2,000 turns, not {begun:?}");
    }

    #[test]
    fn jobs_of_which_nothing_is_known_do_not_take_all_threads_at_once() {
        let mut pool = Simulation::new(8);
        let short = pool.join(Duration::from_millis(1), 8);
        pool.run(Duration::from_secs(1));
        short.set(MANY);
        pool.join(Duration::from_secs(3_600), MANY);
        pool.run(Duration::ZERO);
        assert!((3..=5).contains(&pool.threads_of(1)), "half of the threads, not {}", pool.threads_of(1));
    }
}
